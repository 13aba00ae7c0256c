//! Whether to clean, and what: pure arithmetic over what each segment holds.
//!
//! Victims are chosen by benefit over cost (Rosenblum, Ousterhout, SOSP 1991), with two changes. What a byte of won space costs is the
//! copying of `u / (1 - u)` live ones: what is read is in memory, or read in passing. And the age of the youngest record, which stands for
//! how long the won space will stay won, counts by its square root: old data is cleaned with less dead in it than young data, of which more
//! will die soon, but not with next to nothing. In simulations of uniform and of scrambled zipfian overwrites, powers of the age between a
//! quarter and a half are equally good; the age itself, and `1 + u` for the cost, copied a fifth more of the latter at 1.33.

use biombo_journal::SegmentNumber;

/// Segments with a greater live share give too little back.
const LIVE_SHARE_MAX: f64 = 0.95;
/// A segment with more than this in it is not copied: what it became would be too large for a segment.
const LIVE_BYTES_MAX: u64 = 1 << 30;
/// The most segments of one pass.
const VICTIMS_MAX: usize = 64;
/// Segments' worth of space that is never worth cleaning: the one that is written, and some that wait.
pub(super) const SLACK_SEGMENTS: u64 = 4;

/// A segment that may be cleaned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub number: SegmentNumber,
    /// Bytes of its frames.
    pub data_bytes: u64,
    /// Of them live: for the index, for snapshots, and tombstones that are still needed.
    pub live_bytes: u64,
    /// How many records the engine has written since the youngest in it.
    pub age: u64,
    /// Whether it holds a record that may be dropped.
    pub has_dead: bool,
}

impl Candidate {
    fn live_share(&self) -> f64 {
        (self.live_bytes as f64 / self.data_bytes.max(1) as f64).min(1.0)
    }

    /// Infinite where nothing is live, which costs nothing.
    fn score(&self) -> f64 {
        let u = self.live_share();
        (1.0 - u) * (self.age as f64).sqrt() / u
    }
}

/// What all segments hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub data_bytes: u64,
    pub live_bytes: u64,
}

/// How much may be dead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub amplification: f64,
    pub segment_bytes: u64,
}

impl Bound {
    /// What is dead by what may be: above 1 the bound is broken.
    pub fn pressure(&self, space: Space) -> f64 {
        let dead = space.data_bytes.saturating_sub(space.live_bytes) as f64;
        dead / self.allowed_bytes(space) as f64
    }

    /// How much may be dead.
    pub fn allowed_bytes(&self, space: Space) -> u64 {
        ((self.amplification - 1.0) * space.live_bytes as f64) as u64 + SLACK_SEGMENTS * self.segment_bytes
    }

    /// The best victims whose live bytes fit one segment together; none when nothing is worth it.
    pub fn choose(&self, candidates: &[Candidate]) -> Vec<SegmentNumber> {
        self.take(candidates.iter().copied().filter(|one| one.live_share() <= LIVE_SHARE_MAX).collect())
    }

    /// The same while anything at all is dead, or lies loosely in what was appended.
    pub fn choose_all(&self, candidates: &[Candidate]) -> Vec<SegmentNumber> {
        self.take(candidates.iter().copied().filter(|one| one.has_dead || one.live_share() < 0.5).collect())
    }

    fn take(&self, mut worth: Vec<Candidate>) -> Vec<SegmentNumber> {
        worth.retain(|one| one.live_bytes <= LIVE_BYTES_MAX);
        worth.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.number.cmp(&b.number)));
        let mut room = self.segment_bytes;
        let mut victims = Vec::new();
        for one in worth {
            if victims.len() < VICTIMS_MAX && (victims.is_empty() || one.live_bytes <= room) {
                room = room.saturating_sub(one.live_bytes);
                victims.push(one.number);
            }
        }
        victims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { amplification: 1.5, segment_bytes: 1000 };

    fn candidate(number: u32, live_bytes: u64, age: u64) -> Candidate {
        Candidate { number: SegmentNumber(number), data_bytes: 1000, live_bytes, age, has_dead: live_bytes < 1000 }
    }

    #[test]
    fn old_segments_are_cleaned_with_less_dead_in_them_than_young_ones() {
        let chosen = BOUND.choose(&[candidate(1, 700, 2000), candidate(2, 400, 100), candidate(3, 960, 1 << 40)]);
        assert_eq!(chosen, [SegmentNumber(1)], "the second does not fit beside it");
        let chosen = BOUND.choose(&[candidate(1, 700, 1000), candidate(2, 400, 100)]);
        assert_eq!(chosen, [SegmentNumber(2)], "ten times as old is not old enough");
        let chosen = BOUND.choose(&[candidate(1, 900, 10_000), candidate(2, 400, 100)]);
        assert_eq!(chosen, [SegmentNumber(2)], "nor is a hundred times, with so little dead");
    }

    #[test]
    fn what_is_dead_throughout_goes_along_for_nothing() {
        let chosen = BOUND.choose(&[candidate(1, 900, 1 << 40), candidate(2, 0, 1), candidate(3, 0, 1)]);
        assert_eq!(chosen, [2, 3, 1].map(SegmentNumber));
        assert_eq!(BOUND.choose_all(&[candidate(1, 1000, 5), candidate(2, 992, 5)]), [SegmentNumber(2)]);
    }

    #[test]
    fn pressure_is_one_where_the_bound_and_the_slack_are_used_up() {
        let space = |data_bytes| Space { data_bytes, live_bytes: 10_000 };
        assert_eq!(BOUND.pressure(space(10_000)), 0.0);
        assert_eq!(BOUND.pressure(space(19_000)), 1.0);
        assert!(BOUND.pressure(Space { data_bytes: 3999, live_bytes: 0 }) < 1.0);
    }
}
