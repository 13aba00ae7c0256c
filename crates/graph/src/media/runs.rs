//! Which pages of which slab are free: runs that are taken by best fit and grow together again when they are given back.
//!
//! Invariants:
//! 1. `by_place` and `by_size` hold the same runs; no two overlap or touch.
//! 2. A page is free, or was taken and not given back: never both, never twice.

use std::collections::{BTreeMap, BTreeSet};

/// Pages in sequence within one slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) slab: u32,
    pub(super) page: u32,
    pub(super) pages: u32,
}

/// The free runs of all slabs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Length by slab and first page.
    by_place: BTreeMap<(u32, u32), u32>,
    /// Length, slab and first page.
    by_size: BTreeSet<(u32, u32, u32)>,
}

impl Runs {
    /// `pages` out of the smallest run that has them, the first of several; `None` when there is no such run. O(log runs).
    pub(super) fn take(&mut self, pages: u32) -> Option<Run> {
        let (found, slab, page) = *self.by_size.range((pages, 0, 0)..).next()?;
        self.remove(Run { slab, page, pages: found });
        if found > pages {
            self.insert(Run { slab, page: page + pages, pages: found - pages });
        }
        Some(Run { slab, page, pages })
    }

    /// A run is free (again). What it has become together with its neighbours. O(log runs).
    pub(super) fn give(&mut self, run: Run) -> Run {
        let mut whole = run;
        let before = self.by_place.range(..(run.slab, run.page)).next_back().map(|(place, pages)| (*place, *pages));
        if let Some(((slab, page), pages)) = before
            && slab == run.slab
            && page + pages == run.page
        {
            self.remove(Run { slab, page, pages });
            whole = Run { slab, page, pages: pages + whole.pages };
        }
        let after = (run.slab, run.page + run.pages);
        if let Some(&pages) = self.by_place.get(&after) {
            self.remove(Run { slab: after.0, page: after.1, pages });
            whole.pages += pages;
        }
        self.insert(whole);
        whole
    }

    /// A free run as it was given: its slab goes.
    pub(super) fn remove(&mut self, run: Run) {
        self.by_place.remove(&(run.slab, run.page));
        self.by_size.remove(&(run.pages, run.slab, run.page));
    }

    fn insert(&mut self, run: Run) {
        self.by_place.insert((run.slab, run.page), run.pages);
        self.by_size.insert((run.pages, run.slab, run.page));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: u32 = 64;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_page_is_taken_twice_and_all_come_together_again(
            steps in proptest::collection::vec((1..20u32, any::<prop::sample::Index>(), any::<bool>()), 1..200),
        ) {
            let mut runs = Runs::default();
            (0..3).for_each(|slab| _ = runs.give(Run { slab, page: 0, pages: PAGES }));
            let mut taken: Vec<Run> = Vec::new();
            for (pages, which, gives) in steps {
                if gives && !taken.is_empty() {
                    let run = taken.swap_remove(which.index(taken.len()));
                    let whole = runs.give(run);
                    prop_assert!(whole.page <= run.page && whole.page + whole.pages >= run.page + run.pages);
                } else if let Some(run) = runs.take(pages) {
                    prop_assert_eq!(run.pages, pages);
                    prop_assert!(run.page + run.pages <= PAGES);
                    let apart = |other: &Run| other.slab != run.slab
                        || other.page + other.pages <= run.page || run.page + run.pages <= other.page;
                    prop_assert!(taken.iter().all(apart), "{:?} was taken already", run);
                    taken.push(run);
                } else {
                    // No run is large enough: so long a stretch is free nowhere.
                    prop_assert!(runs.by_place.values().all(|free| *free < pages));
                }
                let free: u32 = runs.by_place.values().sum();
                prop_assert_eq!(free + taken.iter().map(|run| run.pages).sum::<u32>(), 3 * PAGES);
                prop_assert_eq!(runs.by_place.len(), runs.by_size.len());
            }
            taken.into_iter().for_each(|run| _ = runs.give(run));
            prop_assert_eq!(runs.by_place.into_iter().collect::<Vec<_>>(), (0..3).map(|slab| ((slab, 0), PAGES)).collect::<Vec<_>>());
        }
    }
}
