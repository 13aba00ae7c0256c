//! What the engine puts into a record of the log. `docs/format/log.md` draws it.
//!
//! The journal checks the bytes (length and CRC-32C stand in its own header); here is what they mean. A record that passed its
//! checksum and cannot be parsed was written by something else: it is `None` here, `Corruption` for who knows the file.

use biombo_engine::Op;

/// Size of the header in front of key and value.
pub const HEADER_BYTES: usize = 16;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The key has this value.
    Put,
    /// The key is gone.
    Delete,
    /// All keys from `key` (included) up to `value` (excluded) are gone.
    DeleteRange,
    /// All keys from `key` (included) on are gone.
    DeleteFrom,
    /// The key had this value once: a copy for snapshots that were live when it was made. Nothing on opening.
    Superseded,
    /// The first record of a segment, for tombstones: none numbered `seq` or lower deletes anything in this segment.
    Begin,
}

impl Kind {
    /// Its number in files.
    #[inline]
    pub fn code(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::Delete => 2,
            Self::DeleteRange => 3,
            Self::DeleteFrom => 4,
            Self::Superseded => 5,
            Self::Begin => 6,
        }
    }

    /// The kind of a number.
    #[inline]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Put,
            2 => Self::Delete,
            3 => Self::DeleteRange,
            4 => Self::DeleteFrom,
            5 => Self::Superseded,
            6 => Self::Begin,
            _ => return None,
        })
    }

    /// Whether it gives a key a value: what the index and versions lead to.
    #[inline]
    pub fn has_value(self) -> bool {
        matches!(self, Self::Put | Self::Superseded)
    }

    /// Whether it deletes.
    #[inline]
    pub fn is_tombstone(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteRange | Self::DeleteFrom)
    }
}

/// A record of the engine, as it lies in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it says.
    pub kind: Kind,
    /// Its number in the history of the engine; it keeps it when it is moved.
    pub seq: u64,
    /// The key, or where a range begins.
    pub key: &'a [u8],
    /// The value, or where a range ends.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that does `op`.
    pub fn of(op: &Op<'a>, seq: u64) -> Self {
        match *op {
            Op::Put { key, value } => Self { kind: Kind::Put, seq, key, value },
            Op::Delete { key } => Self { kind: Kind::Delete, seq, key, value: &[] },
            Op::DeleteRange { from, to: Some(to) } => Self { kind: Kind::DeleteRange, seq, key: from, value: to },
            Op::DeleteRange { from, to: None } => Self { kind: Kind::DeleteFrom, seq, key: from, value: &[] },
        }
    }

    /// The first record of a segment; see [`Kind::Begin`].
    pub fn begin(seq: u64) -> Self {
        Self { kind: Kind::Begin, seq, key: &[], value: &[] }
    }

    /// The header that goes before key and value.
    #[inline]
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0] = self.kind.code();
        header[4..8].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&self.seq.to_le_bytes());
        header
    }

    /// The record in `bytes`; `None` when they are none.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let kind = match header[..4] {
            [kind, 0, 0, 0] => Kind::from_code(kind)?,
            _ => return None,
        };
        let (key_len, seq) = header[4..].split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        Some(Self { kind, seq: u64::from_le_bytes(seq.try_into().ok()?), key, value })
    }

    /// The same, and `None` too for what has the form of a record and is none that this engine writes: a value of no key. For who
    /// takes records up; who was led to one by the index has compared its key.
    pub fn parse_sound(bytes: &'a [u8]) -> Option<Self> {
        Self::parse(bytes).filter(|r| !(r.key.is_empty() && matches!(r.kind, Kind::Put | Kind::Delete)))
    }

    /// Bytes that it takes in a segment, the journal's record header and padding included.
    pub fn stored_bytes(&self) -> u64 {
        biombo_journal::format::record_bytes(HEADER_BYTES + self.key.len() + self.value.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_of_no_key_is_no_record_of_ours() {
        for kind in [Kind::Put, Kind::Delete, Kind::DeleteRange, Kind::DeleteFrom, Kind::Superseded, Kind::Begin] {
            let bytes = Record { kind, seq: 7, key: &[], value: b"value" }.header();
            assert_eq!(Record::parse_sound(&bytes).is_none(), matches!(kind, Kind::Put | Kind::Delete), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn records_come_back_and_their_cut_headers_are_refused(kind in 0..4u8, seq: u64, key: Vec<u8>, value: Vec<u8>) {
            let op = match kind {
                0 => Op::Put { key: &key, value: &value },
                1 => Op::Delete { key: &key },
                2 => Op::DeleteRange { from: &key, to: Some(&value) },
                _ => Op::DeleteRange { from: &key, to: None },
            };
            let record = Record::of(&op, seq);
            let bytes = [&record.header()[..], record.key, record.value].concat();
            prop_assert_eq!(Record::parse(&bytes), Some(record));
            for cut in 0..HEADER_BYTES + key.len() {
                prop_assert_eq!(Record::parse(&bytes[..cut]), None);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Record::parse_sound(&bytes);
        }
    }
}
