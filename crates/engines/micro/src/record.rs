//! A batch of operations as one record of the journal: whole or not there at all.
//!
//! ```text
//! record := (kind u8, first len u32, second len u32, first, second)*
//! kind:  1 put (key, value)   2 delete (key, -)   3 delete range (from, to)   4 delete from (from, -)
//! ```

use biombo_base::coding::get_u32;
use biombo_engine::Op;

const HEADER_BYTES: usize = 9;

/// Append `ops` to `into`.
pub(crate) fn encode(ops: &[Op<'_>], into: &mut Vec<u8>) {
    for op in ops {
        let (kind, first, second): (u8, &[u8], &[u8]) = match *op {
            Op::Put { key, value } => (1, key, value),
            Op::Delete { key } => (2, key, b""),
            Op::DeleteRange { from, to: Some(to) } => (3, from, to),
            Op::DeleteRange { from, to: None } => (4, from, b""),
        };
        into.push(kind);
        into.extend_from_slice(&(first.len() as u32).to_le_bytes());
        into.extend_from_slice(&(second.len() as u32).to_le_bytes());
        into.extend_from_slice(first);
        into.extend_from_slice(second);
    }
}

/// The operations of a record, or `None` where it is none.
pub(crate) fn decode(mut record: &[u8]) -> Option<Vec<Op<'_>>> {
    let mut ops = Vec::new();
    while let Some(kind) = record.first() {
        let (first_bytes, second_bytes) = (get_u32(record, 1)? as usize, get_u32(record, 5)? as usize);
        let (first, rest) = record.get(HEADER_BYTES..)?.split_at_checked(first_bytes)?;
        let (second, rest) = rest.split_at_checked(second_bytes)?;
        ops.push(match kind {
            1 => Op::Put { key: first, value: second },
            2 => Op::Delete { key: first },
            3 => Op::DeleteRange { from: first, to: Some(second) },
            4 => Op::DeleteRange { from: first, to: None },
            _ => return None,
        });
        record = rest;
    }
    Some(ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_and_nothing_is_read_past_a_record() {
        let ops = [
            Op::Put { key: b"k", value: b"value" },
            Op::Put { key: b"empty", value: b"" },
            Op::Delete { key: b"gone" },
            Op::DeleteRange { from: b"a", to: Some(b"") },
            Op::DeleteRange { from: b"", to: None },
        ];
        let mut example = Vec::new();
        encode(&[Op::Put { key: b"k", value: b"v1" }], &mut example);
        assert_eq!(example, *b"\x01\x01\0\0\0\x02\0\0\0kv1", "as docs/format/micro.md has it");
        let mut record = Vec::new();
        encode(&ops, &mut record);
        assert_eq!(decode(&record).unwrap(), ops);
        let whole: Vec<usize> = (0..record.len()).filter(|bytes| decode(&record[..*bytes]).is_some()).collect();
        assert_eq!(whole, [0, 15, 29, 42, 52], "only between two operations");
        assert_eq!(decode(&[9; 20]), None);
    }
}
