//! A piece of work that other threads call while its owner waits: the one place where a borrow outlives what the compiler can see.
//!
//! Invariants:
//! 1. [`Call::lend`] returns only when `body` has returned; `body` returns only when no thread will call the [`Call`] any more
//!    (what [`Team`](super::Team) promises by waiting for all its threads, also when one of them panics).

use std::mem::transmute;

/// What each thread does: its number comes as argument.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// A borrowed `Work` without its lifetime.
#[derive(Clone, Copy)]
pub(super) struct Call(&'static Work<'static>);

impl Call {
    /// Let `body` hand `work` to other threads.
    ///
    /// `body` must not return or unwind before the last of them is done with the [`Call`] and all its copies.
    pub(super) fn lend<R>(work: &Work<'_>, body: impl FnOnce(Call) -> R) -> R {
        // SAFETY: (G4) the borrow lasts until `body` returns, and nobody uses the call after that (invariant 1).
        let work = unsafe { transmute::<&Work<'_>, &'static Work<'static>>(work) };
        body(Call(work))
    }

    /// Do it.
    pub(super) fn run(self, thread: usize) {
        (self.0)(thread);
    }
}
