//! Where a record lies: the number of its segment and its offset there.

use std::fmt;

/// The number of a segment: one more for each that is made, hot or cold; never given again to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u32);

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a record's header begins. It stays there until its segment is dropped.
///
/// ```
/// use biombo_journal::{Position, SegmentNumber};
/// let at = Position::new(SegmentNumber(7), 4136).expect("a multiple of 8");
/// assert_eq!(Position::unpack(at.pack()), Some(at));
/// assert!(at.pack() < 1 << Position::BITS);
/// assert_eq!(Position::new(SegmentNumber(7), 4137), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    segment: SegmentNumber,
    offset: u32,
}

impl Position {
    /// The bits of [`pack`](Self::pack) that are ever set: three of 64 are left for tags.
    pub const BITS: u32 = 61;

    const OFFSET_BITS: u32 = 29;

    /// `None` when `offset` is not a multiple of 8.
    #[inline]
    pub fn new(segment: SegmentNumber, offset: u32) -> Option<Self> {
        offset.is_multiple_of(8).then_some(Self { segment, offset })
    }

    /// The segment.
    #[inline]
    pub fn segment(self) -> SegmentNumber {
        self.segment
    }

    /// The offset in its file, in bytes; a multiple of 8.
    #[inline]
    pub fn offset(self) -> u32 {
        self.offset
    }

    /// As a number of [`BITS`](Self::BITS) bits, ordered as positions are.
    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.segment.0) << Self::OFFSET_BITS | u64::from(self.offset / 8)
    }

    /// The position that was packed; `None` when a higher bit is set.
    #[inline]
    pub fn unpack(packed: u64) -> Option<Self> {
        let segment = u32::try_from(packed >> Self::OFFSET_BITS).ok()?;
        let offset = (packed as u32 & ((1 << Self::OFFSET_BITS) - 1)) * 8;
        Some(Self { segment: SegmentNumber(segment), offset })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_pack_and_their_order_stays() {
        let all: Vec<_> = [(0, 0), (0, u32::MAX - 7), (1, 0), (u32::MAX, 8), (u32::MAX, u32::MAX - 7)]
            .map(|(segment, offset)| Position::new(SegmentNumber(segment), offset).unwrap())
            .into();
        let packed: Vec<_> = all.iter().map(|at| at.pack()).collect();
        assert!(packed.is_sorted() && packed[4] == (1 << Position::BITS) - 1);
        assert_eq!(packed.iter().map(|at| Position::unpack(*at).unwrap()).collect::<Vec<_>>(), all);
        assert_eq!(Position::unpack(1 << Position::BITS), None);
    }
}
