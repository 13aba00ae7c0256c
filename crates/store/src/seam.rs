//! Where a test steps in between what a thread decided and what it does: a move at that instant is what everything here must bear.
//! Nothing outside of tests.

use crate::migration::Step;

/// A place between a decision and the deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// An operation of many is routed next.
    Route,
    /// Routed, and the lane's lock not yet taken.
    Lock,
    /// Routed, and the engine not yet read.
    Read,
    /// A placement was taken, and the cursors over its partitions not yet opened.
    Open,
    /// The next step of a move was chosen, and not yet done.
    Step(Step),
    /// A move's leftovers are looked for, or deleted, next.
    Clean,
    /// A key of the target is looked at, to forward a range that was deleted.
    Key,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pass(_: Point) {}

#[cfg(test)]
pub(crate) use of_tests::{at_each, pass, step_in};

#[cfg(test)]
mod of_tests {
    use std::cell::RefCell;

    use super::Point;

    type Step = (Point, Box<dyn FnOnce()>);

    type Watcher = Box<dyn FnMut(Point)>;

    thread_local!(static NEXT: RefCell<Option<Step>> = const { RefCell::new(None) });
    thread_local!(static EACH: RefCell<Option<Watcher>> = const { RefCell::new(None) });

    pub(crate) fn pass(point: Point) {
        let step = NEXT.with(|next| next.borrow_mut().take_if(|(at, _)| *at == point));
        if let Some((_, step)) = step {
            step();
        }
        // What it does itself, it does not watch.
        if let Some(mut watcher) = EACH.with(|each| each.borrow_mut().take()) {
            watcher(point);
            EACH.with(|each| drop(each.borrow_mut().replace(watcher)));
        }
    }

    /// Do `watcher` whenever this thread comes to a point, until something else is said; returns what it was before.
    pub(crate) fn at_each(watcher: Option<Watcher>) -> Option<Watcher> {
        EACH.with(|each| std::mem::replace(&mut *each.borrow_mut(), watcher))
    }

    /// Do `step` when this thread next comes to `point`, once.
    pub(crate) fn step_in(point: Point, step: impl FnOnce() + 'static) {
        NEXT.with(|next| *next.borrow_mut() = Some((point, Box::new(step))));
    }
}
