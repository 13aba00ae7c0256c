//! Threads in the order of their numbers. The loom test (`tests/protocols_loom`) tries it in every order of its steps.

use biombo_base::{Error, Result};

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets threads through in the order of their numbers.
pub(crate) struct Turn {
    state: Mutex<Turns>,
    moved: Condvar,
}

struct Turns {
    next: u64,
    /// Why nobody comes through any more.
    failed: Option<String>,
}

/// A thread whose turn it is. If it goes without having done its work, nobody comes after it.
struct Passing<'t> {
    turns: MutexGuard<'t, Turns>,
    moved: &'t Condvar,
    is_done: bool,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        match self.is_done {
            true => self.turns.next += 1,
            false => _ = self.turns.failed.get_or_insert_with(|| "a thread ended in the middle of a batch".to_owned()),
        }
        self.moved.notify_all();
    }
}

impl Turn {
    /// `next` is the first number that comes through.
    pub(crate) fn from(next: u64) -> Self {
        Self { state: Mutex::new(Turns { next, failed: None }), moved: Condvar::new() }
    }

    /// Do `work` when all before `number` have done theirs.
    ///
    /// # Errors
    /// `Poisoned` when one of those never will.
    pub(crate) fn take<T>(&self, number: u64, work: impl FnOnce() -> T) -> Result<T> {
        let mut turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while turns.next != number {
            if let Some(why) = &turns.failed {
                return Err(Error::poisoned(why));
            }
            turns = self.moved.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        let mut passing = Passing { turns, moved: &self.moved, is_done: false };
        let done = work();
        passing.is_done = true;
        Ok(done)
    }

    /// Nobody comes through any more.
    pub(crate) fn fail(&self, why: &Error) {
        let mut turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        turns.failed.get_or_insert_with(|| why.to_string());
        self.moved.notify_all();
    }
}
