//! Which pages of the file are in use: by the tree as it is, and by the tree of the last checkpoint.
//!
//! Invariants:
//!
//! 1. A page that the last checkpoint uses (`kept`) is given to nobody before the next checkpoint is durable: no crash finds it changed.
//! 2. A page that is used and not kept is *fresh*: no checkpoint leads to it, so it may be written in place.
//!
//! A bit a page; the bits of what is used are written with each checkpoint (32 KiB for a file of 1 GiB).

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Space {
    used: Vec<u64>,
    kept: Vec<u64>,
    /// All pages before this are used or kept.
    full_before: u32,
}

const WORD_BITS: u32 = u64::BITS;

fn has(bits: &[u64], page: u32) -> bool {
    bits.get((page / WORD_BITS) as usize).is_some_and(|word| word & 1 << (page % WORD_BITS) != 0)
}

impl Space {
    /// Of a checkpoint: all that it uses is kept.
    pub fn of_checkpoint(used: Vec<u64>) -> Self {
        Self { kept: used.clone(), used, full_before: 0 }
    }

    /// Of a file that is changed in place: nothing is kept.
    pub fn in_place(used: Vec<u64>) -> Self {
        Self { used, kept: Vec::new(), full_before: 0 }
    }

    /// Take `count` pages in sequence that nobody uses and no checkpoint keeps; returns the first. They may lie behind the end of the
    /// file. `None`: the file would have more pages than there are numbers.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let mut first = self.full_before;
        let mut free = 0;
        let mut page = first;
        // Behind both maps all pages are free.
        while free < count {
            if has(&self.used, page) || has(&self.kept, page) {
                free = 0;
                first = page.checked_add(1)?;
            } else {
                free += 1;
            }
            page = page.checked_add(1)?;
        }
        if first == self.full_before {
            self.full_before = page;
        }
        let words = (page.div_ceil(WORD_BITS) as usize).max(self.used.len());
        self.used.resize(words, 0);
        (first..page).for_each(|page| self.used[(page / WORD_BITS) as usize] |= 1 << (page % WORD_BITS));
        Some(first)
    }

    /// Give pages back.
    pub fn free(&mut self, first: u32, count: u32) {
        for page in first..first + count {
            self.used[(page / WORD_BITS) as usize] &= !(1 << (page % WORD_BITS));
        }
        self.full_before = self.full_before.min(first);
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
    use super::*;

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
