//! Where the clients of a run stand still between two operations, and their clocks with them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::driver::RunClock;

/// Open at first. An open gate costs a client one load of a flag for each operation.
#[derive(Default)]
pub(crate) struct Gate {
    /// A copy of the state's, to be looked at without the lock.
    is_closed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    clients: u32,
    /// Those of them that stand still.
    resting: u32,
    /// How often it was opened.
    openings: u64,
    /// When it was opened last, by the clocks of the run.
    opened: u64,
}

/// A client that has to stand still before the gate is shut. It counts until it is dropped, however it ends.
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// One client more.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.state().clients += 1;
        Inside(self)
    }

    /// Between two operations: stand still while the gate is closed, and take that time off `clock`.
    #[inline]
    pub(crate) fn pass(&self, clock: &mut RunClock) {
        if self.is_closed.load(Ordering::Relaxed) {
            self.rest(clock);
        }
    }

    /// Wait for so long, or until it closes, which may be any time before: look at the clock, and pass again.
    pub(crate) fn sleep(&self, most: Duration) {
        let state = self.state();
        if !state.is_closed {
            drop(self.changed.wait_timeout(state, most));
        }
    }

    /// The time until it is opened is skipped. What a client then waits for a processor is its own, as it is for one that never rests.
    #[cold]
    fn rest(&self, clock: &mut RunClock) {
        let mut state = self.state();
        // Where it was closed again before this one had a processor, it rests once more, and the turn that it missed was its own.
        while state.is_closed {
            let (since, openings) = (clock.stamp(), state.openings);
            state.resting += 1;
            self.changed.notify_all();
            while state.openings == openings {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            clock.skip(since, state.opened);
        }
    }

    /// Close it, and return when every client stands still or has ended.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.is_closed.store(true, Ordering::Relaxed);
        // Those who wait for their time.
        self.changed.notify_all();
        while state.resting < state.clients {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All go on. `stamp` is this moment by any clock of the run.
    pub(crate) fn open(&self, stamp: u64) {
        let mut state = self.state();
        // Whoever rested does no longer, whether it knows or not.
        (state.is_closed, state.resting) = (false, 0);
        (state.openings, state.opened) = (state.openings + 1, stamp);
        self.is_closed.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state().clients -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Fails if the gate says that it is shut while a client works, if one that has ended is waited for, or if clocks go on meanwhile.
    #[test]
    fn a_gate_is_closed_when_all_clients_stand_still_and_their_clocks_stand_too() {
        const CLOSED: Duration = Duration::from_millis(30);
        let gate = Gate::default();
        let (working, operations, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let client = |ends_at_once: bool| {
            let _inside = gate.enter();
            let (mut clock, whole) = (RunClock::start(), std::time::Instant::now());
            while !ends_at_once && !stop.load(Ordering::Relaxed) {
                gate.pass(&mut clock);
                working.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(300));
                operations.fetch_add(1, Ordering::Relaxed);
                working.fetch_sub(1, Ordering::SeqCst);
            }
            (whole.elapsed(), Duration::from_nanos(clock.now_ns()))
        };
        std::thread::scope(|scope| {
            let clock = RunClock::start();
            let ended = scope.spawn(|| client(true));
            let clients = [scope.spawn(|| client(false)), scope.spawn(|| client(false))];
            ended.join().unwrap();
            while operations.load(Ordering::Relaxed) < 4 {
                std::thread::yield_now();
            }
            // Looked at in the end: who fails here would leave the clients at work.
            let mut behind = Vec::new();
            for _ in 0..5 {
                gate.close();
                behind.push(working.load(Ordering::SeqCst));
                let before = operations.load(Ordering::Relaxed);
                std::thread::sleep(CLOSED);
                behind.push(operations.load(Ordering::Relaxed) - before);
                gate.open(clock.stamp());
                while operations.load(Ordering::Relaxed) < before + 4 {
                    std::thread::yield_now();
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(behind, [0; 10], "a client works behind a closed gate");
            for client in clients {
                let (whole, own) = client.join().unwrap();
                assert!(own + 5 * CLOSED <= whole + Duration::from_millis(30), "{own:?} of {whole:?}");
            }
        });
    }
}
