//! How much of each segment is live: exact, because the writer knows each record that it supersedes.
//!
//! Invariant: `live(n)` is the sum of the stored bytes of the records of segment `n` that the index leads to, and of the
//! tombstones in it.

use biombo_journal::SegmentNumber;

/// Live bytes by segment.
#[derive(Debug, Default)]
pub struct Accounts {
    /// The number of the first one in `live`.
    first: u32,
    live: Vec<u64>,
    /// Bytes of the keys and values that the index leads to.
    logical_bytes: u64,
}

impl Accounts {
    /// A record became live.
    #[inline]
    pub fn add(&mut self, segment: SegmentNumber, stored_bytes: u64) {
        if self.live.is_empty() {
            self.first = segment.0;
        }
        if segment.0 < self.first {
            let more = (self.first - segment.0) as usize;
            self.live.splice(0..0, std::iter::repeat_n(0, more));
            self.first = segment.0;
        }
        let at = (segment.0 - self.first) as usize;
        if at >= self.live.len() {
            self.live.resize(at + 1, 0);
        }
        self.live[at] += stored_bytes;
    }

    /// A record was superseded.
    #[inline]
    pub fn remove(&mut self, segment: SegmentNumber, stored_bytes: u64) {
        let at = segment.0.checked_sub(self.first).map(|at| at as usize);
        if let Some(live) = at.and_then(|at| self.live.get_mut(at)) {
            *live = live.saturating_sub(stored_bytes);
        }
    }

    /// Live bytes by segment, where there are any.
    pub fn all(&self) -> impl Iterator<Item = (SegmentNumber, u64)> {
        (self.first..).map(SegmentNumber).zip(self.live.iter().copied()).filter(|(_, live)| *live > 0)
    }

    /// Live bytes of a segment.
    #[cfg(test)]
    pub fn live(&self, segment: SegmentNumber) -> u64 {
        segment.0.checked_sub(self.first).and_then(|at| self.live.get(at as usize)).copied().unwrap_or(0)
    }

    /// Keys and values came or went.
    #[inline]
    pub fn logical(&mut self, more: u64, less: u64) {
        self.logical_bytes = (self.logical_bytes + more).saturating_sub(less);
    }

    /// Bytes of live keys and values.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_each_for_itself_in_any_order() {
        let mut accounts = Accounts::default();
        for (segment, bytes) in [(7, 100), (5, 10), (9, 1), (7, 100)] {
            accounts.add(SegmentNumber(segment), bytes);
        }
        accounts.remove(SegmentNumber(7), 150);
        let live: Vec<_> = (4..=10).map(|segment| accounts.live(SegmentNumber(segment))).collect();
        assert_eq!(live, [0, 10, 0, 50, 0, 1, 0]);
    }
}
