//! Where a test steps in between what a thread decided and what it does: a move at that instant is what everything here must bear.
//! Nothing outside of tests.

/// A place between a decision and the deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Routed, and the lane's lock not yet taken.
    Lock,
    /// Routed, and the engine not yet read.
    Read,
    /// A placement was taken, and the cursors over its partitions not yet opened.
    Open,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pass(_: Point) {}

#[cfg(test)]
pub(crate) use of_tests::{pass, step_in};

#[cfg(test)]
mod of_tests {
    use std::cell::RefCell;

    use super::Point;

    type Step = (Point, Box<dyn FnOnce()>);

    thread_local!(static NEXT: RefCell<Option<Step>> = const { RefCell::new(None) });

    pub(crate) fn pass(point: Point) {
        let step = NEXT.with(|next| next.borrow_mut().take_if(|(at, _)| *at == point));
        if let Some((_, step)) = step {
            step();
        }
    }

    /// Do `step` when this thread next comes to `point`, once.
    pub(crate) fn step_in(point: Point, step: impl FnOnce() + 'static) {
        NEXT.with(|next| *next.borrow_mut() = Some((point, Box::new(step))));
    }
}
