//! Which pages of the file are in use: by the tree as it is, and by the tree of the last checkpoint.
//!
//! Invariants:
//!
//! 1. A page that the last checkpoint uses (`kept`) is given to nobody before the next checkpoint is durable: no crash finds it changed.
//! 2. A page that is used and not kept is *fresh*: no checkpoint leads to it, so it may be written in place.
//!
//! A bit a page; the bits of what is used are written with each checkpoint (32 KiB for a file of 1 GiB).
//!
//! Search is first fit, a word of 64 pages at a time, from the first page that nobody uses and no checkpoint keeps. Between two
//! checkpoints single pages are found by going over the map once, however many are taken: what is given back and kept is no reason to go back.
//! A run goes over the holes before it that are too small for it.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Space {
    used: Vec<u64>,
    kept: Vec<u64>,
    /// All pages before this are used or kept.
    full_before: u32,
    /// Words that were looked at in search of free pages.
    #[cfg(test)]
    visited: u64,
}

const WORD_BITS: u32 = u64::BITS;

fn has(bits: &[u64], page: u32) -> bool {
    bits.get((page / WORD_BITS) as usize).is_some_and(|word| word & 1 << (page % WORD_BITS) != 0)
}

impl Space {
    /// Of a checkpoint: all that it uses is kept.
    pub fn of_checkpoint(used: Vec<u64>) -> Self {
        Self { kept: used.clone(), used, ..Self::default() }
    }

    /// Of a file that is changed in place: nothing is kept.
    pub fn in_place(used: Vec<u64>) -> Self {
        Self { used, ..Self::default() }
    }

    /// Take `count` pages in sequence that nobody uses and no checkpoint keeps; returns the first. They may lie behind the end of the
    /// file. `None`: the file would have more pages than there are numbers.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let mut first = self.next_free(self.full_before)?;
        let lowest = first;
        let end = loop {
            let end = first.checked_add(count)?;
            let taken = self.next_taken(first, end);
            if taken == end {
                break end;
            }
            first = self.next_free(taken)?;
        };
        self.full_before = if first == lowest { end } else { lowest };
        let words = (end.div_ceil(WORD_BITS) as usize).max(self.used.len());
        self.used.resize(words, 0);
        (first..end).for_each(|page| self.used[(page / WORD_BITS) as usize] |= 1 << (page % WORD_BITS));
        Some(first)
    }

    /// Of a word of the maps, the pages that are neither used nor kept. Behind both maps all are free.
    fn free_in(&mut self, word: u32) -> u64 {
        #[cfg(test)]
        {
            self.visited += 1;
        }
        let of = |bits: &[u64]| bits.get(word as usize).copied().unwrap_or(0);
        !(of(&self.used) | of(&self.kept))
    }

    /// The first free page at `from` or after it.
    fn next_free(&mut self, from: u32) -> Option<u32> {
        let mut word = from / WORD_BITS;
        let mut free = self.free_in(word) & u64::MAX << (from % WORD_BITS);
        while free == 0 {
            word += 1;
            free = self.free_in(word);
        }
        word.checked_mul(WORD_BITS)?.checked_add(free.trailing_zeros())
    }

    /// The first page from `from` up to `end` that is not free; `end` where all are.
    fn next_taken(&mut self, from: u32, end: u32) -> u32 {
        let mut word = from / WORD_BITS;
        let mut taken = !self.free_in(word) & u64::MAX << (from % WORD_BITS);
        while taken == 0 && end.div_ceil(WORD_BITS) > word + 1 {
            word += 1;
            taken = !self.free_in(word);
        }
        if taken == 0 { end } else { end.min(word * WORD_BITS + taken.trailing_zeros()) }
    }

    /// Give pages back.
    pub fn free(&mut self, first: u32, count: u32) {
        for page in first..first + count {
            self.used[(page / WORD_BITS) as usize] &= !(1 << (page % WORD_BITS));
        }
        // What is kept cannot be taken yet: the search need not begin there.
        if let Some(page) = (first..first + count).find(|page| !has(&self.kept, *page)) {
            self.full_before = self.full_before.min(page);
        }
    }

    /// Whether `page` is in use.
    pub fn is_used(&self, page: u32) -> bool {
        has(&self.used, page)
    }

    /// Whether no checkpoint leads to `page`, which is in use.
    pub fn is_fresh(&self, page: u32) -> bool {
        !has(&self.kept, page)
    }

    /// Pages in use.
    pub fn used_pages(&self) -> u64 {
        self.used.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The bits of what is used, for a checkpoint.
    pub fn used(&self) -> &[u64] {
        &self.used
    }

    /// Pages up to the last one that is used or kept.
    pub fn end(&self) -> u32 {
        let end = |bits: &[u64]| {
            let last = bits.iter().rposition(|word| *word != 0);
            last.map_or(0, |at| (at as u32 + 1) * WORD_BITS - bits[at].leading_zeros())
        };
        end(&self.used).max(end(&self.kept))
    }

    /// A checkpoint that uses `kept` is durable: what only the one before used may be taken.
    pub fn checkpointed(&mut self, kept: Vec<u64>) {
        self.kept = kept;
        self.full_before = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use biombo_base::io::sim::Random;

    use super::*;

    /// Words visited by `work`.
    fn visited(space: &mut Space, work: impl FnOnce(&mut Space)) -> u64 {
        let before = space.visited;
        work(space);
        space.visited - before
    }

    #[test]
    fn after_a_checkpoint_the_map_is_gone_over_once_however_many_pages_are_taken() {
        let (words, pages) = (1_000, 1_000 * WORD_BITS);
        let mut space = Space::default();
        assert_eq!(space.take(pages), Some(0));
        space.checkpointed(space.used().to_vec());
        let visits = visited(&mut space, |space| {
            (0..5_000).for_each(|number| assert_eq!(space.take(1), Some(pages + number)));
        });
        // The map, and for each page its own word, for where it begins and for where it ends.
        assert!(visits <= words + 2 * 5_000 + 5_000 / 32, "{visits} words");
    }

    #[test]
    fn pages_that_move_away_from_what_a_checkpoint_keeps_send_nobody_back_over_it() {
        let (words, pages) = (1_000, 1_000 * WORD_BITS);
        let mut space = Space::default();
        space.take(pages);
        space.checkpointed(space.used().to_vec());
        let visits = visited(&mut space, |space| {
            for page in 0..5_000 {
                space.take(1);
                space.free(page, 1);
            }
        });
        assert!(visits <= words + 2 * 5_000 + 5_000 / 32, "{visits} words");
        space.checkpointed(space.used().to_vec());
        assert_eq!((space.take(1), space.take(4_999), space.take(1)), (Some(0), Some(1), Some(pages + 5_000)));
    }

    #[test]
    fn a_run_that_needs_more_than_the_first_hole_leaves_it_to_be_found_at_once() {
        let mut space = Space::default();
        space.take(1_000 * WORD_BITS);
        space.free(640, 1);
        assert_eq!(space.take(2), Some(1_000 * WORD_BITS));
        let visits = visited(&mut space, |space| assert_eq!(space.take(1), Some(640)));
        assert!(visits <= 2, "{visits} words");
    }

    #[test]
    fn the_first_fit_is_that_of_a_search_page_by_page() {
        for seed in 0..8 {
            let (mut random, mut space) = (Random(seed), Space::default());
            let mut runs: Vec<(u32, u32)> = Vec::new();
            let mut kept: HashSet<u32> = HashSet::new();
            for step in 0..300 {
                match random.below(12) {
                    0 => {
                        space.checkpointed(space.used().to_vec());
                        kept = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
                    }
                    1..5 if !runs.is_empty() => {
                        let (first, count) = runs.swap_remove(random.below(runs.len() as u64) as usize);
                        space.free(first, count);
                    }
                    _ => {
                        let count = [1, 1, 2, 7, 64, 150][random.below(6) as usize];
                        let used: HashSet<u32> = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
                        let is_free = |page: u32| !used.contains(&page) && !kept.contains(&page);
                        let fits = (0..).find(|first| (*first..first + count).all(is_free)).unwrap();
                        assert_eq!(space.take(count), Some(fits), "seed {seed}, step {step}");
                        runs.push((fits, count));
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_of_as_many_pages_as_there_are_numbers_takes_no_more() {
        let mut space = Space { full_before: u32::MAX - 70, ..Space::default() };
        assert_eq!((space.next_taken(u32::MAX - 70, u32::MAX), space.next_free(u32::MAX)), (u32::MAX, Some(u32::MAX)));
        assert_eq!((space.take(80), space.take(u32::MAX)), (None, None));
    }

    #[test]
    fn what_a_checkpoint_keeps_is_given_away_only_after_the_next() {
        let mut space = Space::default();
        assert_eq!((space.take(3), space.take(1)), (Some(0), Some(3)));
        space.checkpointed(space.used().to_vec());
        space.free(1, 1);
        assert!(!space.is_used(1) && !space.is_fresh(2));
        assert_eq!(space.take(1), Some(4), "1 is still kept");
        assert!(space.is_fresh(4));
        space.checkpointed(space.used().to_vec());
        assert_eq!((space.take(1), space.take(1)), (Some(1), Some(5)));
        assert_eq!((space.used_pages(), space.end()), (6, 6));
    }

    #[test]
    fn runs_lie_in_sequence_and_single_pages_fill_the_holes_before_them() {
        let mut space = Space::default();
        assert_eq!(space.take(200), Some(0));
        space.free(10, 3);
        space.free(100, 70);
        assert_eq!((space.take(4), space.take(66)), (Some(100), Some(104)));
        assert_eq!((space.take(67), space.take(2), space.take(1)), (Some(200), Some(10), Some(12)));
    }
}
