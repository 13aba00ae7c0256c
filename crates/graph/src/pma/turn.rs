//! Threads in the order of their numbers. The loom test (`tests/protocols_loom`) tries it in every order of its steps.
//!
//! Invariant: once a thread ended between its number and the end of its work, nobody's work begins whose number comes after; and who
//! [`settle`](Turn::settle)s afterwards hears of it.

use std::fmt::Display;

use biombo_base::{Error, Result};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Why nobody comes after a thread that has not done its work.
const IN_THE_MIDDLE: &str = "a thread ended in the middle of a batch";

/// Lets threads through in the order of their numbers.
pub(crate) struct Turn {
    state: Mutex<Turns>,
    moved: Condvar,
    /// Not 0 once nobody comes through any more: for a look without waiting.
    is_over: AtomicU64,
}

struct Turns {
    next: u64,
    /// How many threads sleep until it is their turn: waking nobody costs a call of the system.
    asleep: usize,
    /// Why nobody comes through any more.
    failed: Option<String>,
}

/// A thread whose turn it is. If it goes without having done its work, nobody comes after it.
struct Passing<'t> {
    turn: &'t Turn,
    turns: MutexGuard<'t, Turns>,
    is_done: bool,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        match self.is_done {
            true => self.turns.next += 1,
            false => self.turn.end(&mut self.turns, IN_THE_MIDDLE),
        }
        if self.turns.asleep > 0 {
            self.turn.moved.notify_all();
        }
    }
}

/// A batch on its way to its turn. If it goes before it has come through, nobody comes after it.
struct Underway<'t>(Option<&'t Turn>);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            turn.fail(IN_THE_MIDDLE);
        }
    }
}

impl Turn {
    /// `next` is the first number that comes through.
    pub(crate) fn from(next: u64) -> Self {
        let turns = Turns { next, asleep: 0, failed: None };
        Self { state: Mutex::new(turns), moved: Condvar::new(), is_over: AtomicU64::new(0) }
    }

    /// Do `work`, which gets a batch its number and takes its turn. If it ends in the middle, nobody comes through any more.
    pub(crate) fn through<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut underway = Underway(Some(self));
        let done = work();
        underway.0 = None;
        done
    }

    /// Whether it makes sense to get a number. Waits for nobody: somebody may fail right afterwards.
    ///
    /// # Errors
    /// `Poisoned` when nobody comes through any more.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Acquire) == 0 { Ok(()) } else { self.settle() }
    }

    /// Wait for whoever is at work.
    ///
    /// # Errors
    /// `Poisoned` when that one, or another one before, ended in the middle of it, or when nobody comes through any more for another reason.
    pub(crate) fn settle(&self) -> Result<()> {
        match &self.turns().failed {
            Some(why) => Err(Error::poisoned(why)),
            None => Ok(()),
        }
    }

    /// Do `work` when all before `number` have done theirs.
    ///
    /// # Errors
    /// `Poisoned` when one of those never will.
    pub(crate) fn take<T>(&self, number: u64, work: impl FnOnce() -> T) -> Result<T> {
        let mut turns = self.turns();
        while turns.next != number {
            if let Some(why) = &turns.failed {
                return Err(Error::poisoned(why));
            }
            turns.asleep += 1;
            turns = self.moved.wait(turns).unwrap_or_else(PoisonError::into_inner);
            turns.asleep -= 1;
        }
        Ok(self.pass(turns, work))
    }

    /// The same if that is now, but for who is at work; `None` when it is not. For who holds what others need before their turn comes.
    pub(crate) fn take_now<T>(&self, number: u64, work: impl FnOnce() -> T) -> Option<T> {
        let turns = self.turns();
        if turns.next == number { Some(self.pass(turns, work)) } else { None }
    }

    fn pass<T>(&self, turns: MutexGuard<'_, Turns>, work: impl FnOnce() -> T) -> T {
        let mut passing = Passing { turn: self, turns, is_done: false };
        let done = work();
        passing.is_done = true;
        done
    }

    /// Nobody comes through any more.
    pub(crate) fn fail(&self, why: impl Display) {
        self.end(&mut self.turns(), why);
        self.moved.notify_all();
    }

    fn end(&self, turns: &mut Turns, why: impl Display) {
        turns.failed.get_or_insert_with(|| why.to_string());
        self.is_over.store(1, Ordering::Release);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
