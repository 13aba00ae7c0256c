//! The thread that brings deferred writes into their engines, and retires intents before their journal is full.
//!
//! Both are work that no caller should have to wait for. A caller that finds enough gathered for one transaction, or the
//! journal half full, asks for it here and goes on; only one that finds several times as much does it by itself.
//!
//! When no intent has come for a moment, it brings in what is left: reads of a store that is only read look in one place.
//!
//! Invariant: the thread ends before the instances and the journal are given up (dropping this waits for it).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use biombo_engine::{Error, Result};

use crate::intent::Intents;
use crate::lane::{Instance, Lane};
use crate::poison::Poison;

/// A running thread.
pub(crate) struct Retirer {
    due: Arc<Due>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of it.
#[derive(Default)]
pub(crate) struct Due {
    state: Mutex<Work>,
    wake: Condvar,
    /// Something came since the thread last brought in all there was.
    watching: AtomicBool,
}

#[derive(Default)]
struct Work {
    /// Numbers of instances, each once.
    drain: Vec<usize>,
    retire: bool,
    end: bool,
}

impl Work {
    fn is_nothing(&self) -> bool {
        self.drain.is_empty() && !self.retire && !self.end
    }
}

/// Why the thread wakes.
enum Wake {
    Asked(Work),
    /// Nothing was asked for this long, and something may be waiting for its engine.
    Idle,
    End,
}

/// Long against a write, short against a person.
const IDLE: Duration = Duration::from_millis(50);

impl Due {
    /// Say that something waits for its engine, after it does.
    #[inline]
    pub(crate) fn watch(&self) {
        if !self.watching.load(Ordering::Relaxed) && !self.watching.swap(true, Ordering::SeqCst) {
            // The thread looks under the lock before it sleeps.
            drop(self.lock());
            self.wake.notify_one();
        }
    }

    /// Ask for the intents to be retired; without a thread nothing happens.
    pub(crate) fn retire(&self) {
        self.ask(|work| work.retire = true);
    }

    /// Ask for what waits for an instance to be brought into it.
    pub(crate) fn drain(&self, instance: usize) {
        self.ask(|work| {
            if !work.drain.contains(&instance) {
                work.drain.push(instance);
            }
        });
    }

    fn ask(&self, ask: impl FnOnce(&mut Work)) {
        let mut state = self.lock();
        let was_nothing = state.is_nothing();
        ask(&mut state);
        if was_nothing {
            self.wake.notify_one();
        }
    }

    /// Wait until there is something to do.
    fn wait(&self) -> Wake {
        let mut state = self.lock();
        loop {
            if state.end {
                return Wake::End;
            }
            if !state.is_nothing() {
                return Wake::Asked(std::mem::take(&mut state));
            }
            if !self.watching.load(Ordering::SeqCst) {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (now, timeout) = self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = now;
            if timeout.timed_out() && state.is_nothing() {
                return Wake::Idle;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retirer {
    pub(crate) fn start(
        intents: Arc<Intents>,
        lanes: Arc<[Lane]>,
        instances: Arc<[Instance]>,
        poison: Arc<Poison>,
    ) -> Result<Self> {
        let due = Arc::clone(&intents.due);
        let asked = Arc::clone(&due);
        let run = move || {
            let mut seen = 0;
            // A failure that matters has poisoned the store. A full disk has not: a caller will meet it when the journal is full
            // too, and be told.
            loop {
                match asked.wait() {
                    Wake::End => return,
                    Wake::Asked(work) => {
                        for instance in work.drain {
                            let _ = instances[instance].drain(&poison);
                        }
                        if work.retire {
                            let _ = intents.retire(&lanes, &instances, &poison);
                        }
                    }
                    Wake::Idle => {
                        let last = intents.last_number();
                        if last == std::mem::replace(&mut seen, last) {
                            // Whoever writes after this says so again; whoever wrote before it is drained here.
                            asked.watching.store(false, Ordering::SeqCst);
                            for instance in instances.iter() {
                                let _ = instance.drain(&poison);
                            }
                        }
                    }
                }
            }
        };
        let thread = Builder::new()
            .name("biombo-retire".to_owned())
            .spawn(run)
            .map_err(|e| Error::io("start the thread that retires intents", e))?;
        Ok(Self { due, thread: Some(thread) })
    }
}

impl Drop for Retirer {
    fn drop(&mut self) {
        self.due.ask(|work| work.end = true);
        self.due.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // It panicked only if an engine did, who has told its other callers.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_wakes_for_what_is_asked_and_when_nothing_more_comes() {
        let due = Arc::new(Due::default());
        due.drain(3);
        due.drain(3);
        due.retire();
        assert!(matches!(due.wait(), Wake::Asked(work) if work.drain == [3] && work.retire));
        let asleep = std::thread::spawn({
            let due = Arc::clone(&due);
            move || matches!(due.wait(), Wake::Idle)
        });
        std::thread::sleep(IDLE * 3);
        assert!(!asleep.is_finished(), "nothing waits: it sleeps");
        due.watch();
        assert!(asleep.join().expect("it ends"), "something waits, and nothing more came");
        due.ask(|work| work.end = true);
        assert!(matches!(due.wait(), Wake::End));
    }
}
