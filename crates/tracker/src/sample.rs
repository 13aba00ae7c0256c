//! One sample, and how it lies in a ring:
//!
//! ```text
//! u32 bytes of all of it | u32 weight | u8 kind | u8 shape | u16 keys | then for each key: u32 length, its bytes
//! ```
//!
//! Little-endian. A sample is written as a whole or not at all, so that a reader never meets a part of one.

/// Keys that a group's sample holds at most. What touches more is no group that could be put in one place: its keys count one by
/// one.
pub const GROUP_KEYS_MAX: usize = 64;

const HEADER_BYTES: usize = 12;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something was read.
    Read,
    /// Something was written.
    Write,
}

/// What a sample's keys have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One key, or several that stand for themselves.
    Single,
    /// All of them were accessed by one operation.
    Group,
    /// Two keys: an operation went over everything from the first to the last.
    Span,
}

/// An access that was sampled.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// What was done.
    pub kind: Kind,
    /// What the keys have to do with each other.
    pub shape: Shape,
    /// Accesses that it stands for, of each key where each stands for itself.
    pub weight: u32,
    count: u16,
    keys: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Its keys, in the order in which they were given.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.keys;
        (0..usize::from(self.count)).map(move |_| {
            let (len, behind) = take_u32(rest);
            let (key, behind) = behind.split_at((len as usize).min(behind.len()));
            rest = behind;
            key
        })
    }

    /// Of the ring.
    pub(crate) fn bytes(&self) -> usize {
        HEADER_BYTES + self.keys.len()
    }

    /// Accesses that it stands for, all its keys together: a group is one.
    pub(crate) fn accesses(&self) -> u64 {
        let times = if self.shape == Shape::Single { u64::from(self.count) } else { 1 };
        u64::from(self.weight) * times
    }

    /// Let it stand for up to so many accesses more; returns how many those are.
    pub(crate) fn add_accesses(&mut self, more: u64) -> u64 {
        let times = if self.shape == Shape::Single { u64::from(self.count.max(1)) } else { 1 };
        let each = (more / times).min(u64::from(u32::MAX - self.weight));
        self.weight += each as u32;
        each * times
    }

    /// Read the sample at the front of `bytes`, and what is behind it; nothing at the end.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let (total, _) = take_u32(bytes);
        let (sample, behind) = bytes.split_at_checked(total as usize)?;
        let (header, keys) = sample.split_at_checked(HEADER_BYTES)?;
        let (weight, _) = take_u32(&header[4..]);
        let kind = if header[8] == 0 { Kind::Read } else { Kind::Write };
        let shape = match header[9] {
            0 => Shape::Single,
            1 => Shape::Group,
            _ => Shape::Span,
        };
        Some((Self { kind, shape, weight, count: u16::from_le_bytes([header[10], header[11]]), keys }, behind))
    }
}

fn take_u32(bytes: &[u8]) -> (u32, &[u8]) {
    match bytes.split_first_chunk() {
        Some((number, behind)) => (u32::from_le_bytes(*number), behind),
        None => (0, &[]),
    }
}

/// Write a sample into `into`, whose contents go.
pub(crate) fn write<'k>(
    into: &mut Vec<u8>,
    kind: Kind,
    shape: Shape,
    weight: u32,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    into.clear();
    into.extend_from_slice(&[0; HEADER_BYTES]);
    let mut count = 0u16;
    for key in keys.into_iter().take(GROUP_KEYS_MAX) {
        into.extend_from_slice(&(key.len() as u32).to_le_bytes());
        into.extend_from_slice(key);
        count += 1;
    }
    let total = into.len() as u32;
    into[..4].copy_from_slice(&total.to_le_bytes());
    into[4..8].copy_from_slice(&weight.to_le_bytes());
    into[8] = u8::from(kind == Kind::Write);
    into[9] = shape as u8;
    into[10..12].copy_from_slice(&count.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..80), weight: u32) {
            let mut bytes = Vec::new();
            write(&mut bytes, Kind::Write, Shape::Group, weight, keys.iter().map(Vec::as_slice));
            let mut twice = bytes.clone();
            twice.extend_from_slice(&bytes);
            let (first, behind) = Sample::read(&twice).unwrap();
            let (second, end) = Sample::read(behind).unwrap();
            prop_assert!(end.is_empty());
            for sample in [first, second] {
                prop_assert_eq!((sample.kind, sample.shape, sample.weight), (Kind::Write, Shape::Group, weight));
                let kept = keys.len().min(GROUP_KEYS_MAX);
                prop_assert!(sample.keys().eq(keys[..kept].iter().map(Vec::as_slice)));
            }
        }
    }
}
