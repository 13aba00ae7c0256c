//! How the threads of a team begin a loop together, and how the caller learns that all have ended.
//!
//! Invariants:
//! 1. Rounds pass one by one: a round begins when every thread has ended its part of the one before. So a thread that has seen `n` rounds
//!    finds the call of round `n + 1`, and each call is taken once by each thread.
//! 2. What a thread stored in its part is seen by the caller after [`wait`](Rounds::wait), and what the caller stored before
//!    [`begin`](Rounds::begin) by all threads in that round.
//! 3. Nobody sleeps through news: whoever sleeps looked under the lock under which news are told.
//!
//! The loom test (`tests/protocols_loom`) tries it in every order of its steps.

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, SPINS};

/// Calls of type `C`, each for all threads but the caller.
pub(crate) struct Rounds<C> {
    state: Mutex<State<C>>,
    /// A round began, or all is over.
    begun: Condvar,
    /// The last thread ended its part.
    ended: Condvar,
    /// Counts rounds; looked at without the lock.
    round: AtomicU64,
    /// How many threads have not ended their part of this round.
    working: AtomicUsize,
}

struct State<C> {
    call: Option<C>,
    is_over: bool,
}

impl<C: Copy> Rounds<C> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State { call: None, is_over: false }),
            begun: Condvar::new(),
            ended: Condvar::new(),
            round: AtomicU64::new(0),
            working: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next round, with `call` for `others` threads.
    pub(crate) fn begin(&self, others: usize, call: C) {
        self.working.store(others, Ordering::Relaxed);
        let mut state = self.state();
        state.call = Some(call);
        // Release: who sees the new round sees `working` too.
        self.round.fetch_add(1, Ordering::Release);
        drop(state);
        self.begun.notify_all();
    }

    /// Until every other thread has ended its part of the round.
    pub(crate) fn wait(&self) {
        for _ in 0..SPINS {
            // Acquire: what they stored is seen.
            if self.working.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = self.state();
        while self.working.load(Ordering::Acquire) > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The call of the round after `seen`; `None` when all is over.
    pub(crate) fn next(&self, seen: u64) -> Option<C> {
        for _ in 0..SPINS {
            if self.round.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if self.round.load(Ordering::Acquire) != seen {
                return state.call;
            }
            state = self.begun.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread has ended its part.
    pub(crate) fn end(&self) {
        // Release: the caller sees what this thread stored.
        if self.working.fetch_sub(1, Ordering::Release) == 1 {
            // With the lock, so that the caller is either before its last look or asleep.
            drop(self.state());
            self.ended.notify_all();
        }
    }

    /// There are no more rounds.
    pub(crate) fn close(&self) {
        self.state().is_over = true;
        self.begun.notify_all();
    }
}
