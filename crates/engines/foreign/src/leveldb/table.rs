//! The blocks of a LevelDB table, walked by its own index and checked.
//!
//! The format (LevelDB, `doc/table_format.md`): data blocks, filter block, metaindex, index, footer. The footer's 48 bytes are
//! two block handles (offset and size as varints) of metaindex and index, padding, and a magic number. Every block is followed by
//! one byte of compression (0 raw, 1 snappy) and the masked crc32c over block and byte. An index block is entries `{shared,
//! unshared, value_len as varints, key, handle}`, then the restart points.

use crate::log_tail::mask;

const FOOTER_BYTES: usize = 48;
const TRAILER_BYTES: usize = 5;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Report every damaged block of the table `file`: its offset and what is wrong.
pub(super) fn check(file: &[u8], mut report: impl FnMut(u64, String)) {
    let Some((metaindex, index)) = footer(file) else {
        report(file.len().saturating_sub(FOOTER_BYTES) as u64, "the table's footer is damaged or cut off".into());
        return;
    };
    for (name, handle) in [("metaindex", metaindex), ("index", index)] {
        let entries = match block(file, handle) {
            Ok(bytes) => entries(&bytes),
            Err(what) => {
                report(handle.0, format!("the {name} block: {what}"));
                continue;
            }
        };
        let Some(handles) = entries else {
            report(handle.0, format!("the {name} block holds no handles"));
            continue;
        };
        for inner in handles {
            if let Err(what) = covered(file, inner) {
                report(inner.0, format!("a block of {} bytes: {what}", inner.1));
            }
        }
    }
}

/// Offset and size of a block, without its trailer.
type Handle = (u64, u64);

fn footer(file: &[u8]) -> Option<(Handle, Handle)> {
    let mut footer = &file[file.len().checked_sub(FOOTER_BYTES)?..];
    let magic = footer.last_chunk::<8>().map(|magic| u64::from_le_bytes(*magic))?;
    let handles = (handle(&mut footer)?, handle(&mut footer)?);
    (magic == MAGIC).then_some(handles)
}

/// The stored bytes of a block and its kind of compression, after its checksum was found right.
fn covered(file: &[u8], (offset, size): Handle) -> Result<(&[u8], u8), &'static str> {
    let (offset, size) = (offset as usize, size as usize);
    let end = offset.checked_add(size).and_then(|end| end.checked_add(TRAILER_BYTES));
    let Some(stored) = end.and_then(|end| file.get(offset..end)) else {
        return Err("it lies beyond the end of the file");
    };
    let (covered, crc) = stored.split_at(size + 1);
    let crc = crc.first_chunk::<4>().map_or(0, |crc| u32::from_le_bytes(*crc));
    if mask(crc32c::crc32c(covered)) != crc {
        return Err("its checksum differs");
    }
    Ok((&covered[..size], covered[size]))
}

fn block(file: &[u8], handle: Handle) -> Result<Vec<u8>, &'static str> {
    match covered(file, handle)? {
        (bytes, 0) => Ok(bytes.to_vec()),
        (bytes, 1) => unsnap(bytes).ok_or("its compressed bytes make no sense"),
        _ => Err("its compression is unknown"),
    }
}

/// The handles in an index block; in LevelDB's metaindex, the one of the filter.
fn entries(block: &[u8]) -> Option<Vec<Handle>> {
    let restarts = u32::from_le_bytes(*block.last_chunk::<4>()?) as usize;
    let mut rest = block.get(..block.len().checked_sub(4 + restarts.checked_mul(4)?)?)?;
    let mut handles = Vec::new();
    while !rest.is_empty() {
        let _shared = varint(&mut rest)?;
        let unshared = varint(&mut rest)? as usize;
        let value_len = varint(&mut rest)? as usize;
        let mut value = rest.get(unshared..unshared.checked_add(value_len)?)?;
        rest = rest.get(unshared + value_len..)?;
        handles.push(handle(&mut value)?);
    }
    Some(handles)
}

fn handle(from: &mut &[u8]) -> Option<Handle> {
    Some((varint(from)?, varint(from)?))
}

fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Snappy's raw format (snappy, `format_description.txt`): the length, then literals and copies from what was written.
fn unsnap(mut from: &[u8]) -> Option<Vec<u8>> {
    let len = varint(&mut from)? as usize;
    let mut out: Vec<u8> = Vec::with_capacity(len.min(from.len().saturating_mul(64)));
    while let Some((&tag, rest)) = from.split_first() {
        from = rest;
        let mut little_endian = |bytes: usize| {
            let (number, rest) = from.split_at_checked(bytes)?;
            from = rest;
            Some(number.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte)))
        };
        let high = usize::from(tag >> 2);
        let (copied, offset) = match tag & 3 {
            0 => {
                let literal = if high < 60 { high } else { little_endian(high - 59)? } + 1;
                let (bytes, rest) = from.split_at_checked(literal)?;
                out.extend_from_slice(bytes);
                from = rest;
                continue;
            }
            1 => ((high & 7) + 4, usize::from(tag >> 5) << 8 | little_endian(1)?),
            2 => (high + 1, little_endian(2)?),
            _ => (high + 1, little_endian(4)?),
        };
        if offset == 0 || offset > out.len() || out.len() + copied > len {
            return None;
        }
        // A copy may run into what it writes itself: byte by byte.
        for _ in 0..copied {
            out.push(out[out.len() - offset]);
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snappy_literals_and_overlapping_copies_are_undone() {
        // "ab" as a literal, then a copy of 6 from 2 back.
        assert_eq!(unsnap(&[8, 1 << 2, b'a', b'b', (2 << 2) | 1, 2]).as_deref(), Some(&b"abababab"[..]));
        assert_eq!(unsnap(&[8, 1 << 2, b'a', b'b', (2 << 2) | 1, 3]), None, "a copy from before the beginning");
        assert_eq!(unsnap(&[9, 1 << 2, b'a', b'b']), None, "too short");
    }

    #[test]
    fn a_file_without_a_footer_is_damage_and_no_panic() {
        for len in [0, 10, 48, 100] {
            let mut found = 0;
            check(&vec![0xff; len], |_, _| found += 1);
            assert_eq!(found, 1);
        }
    }
}
