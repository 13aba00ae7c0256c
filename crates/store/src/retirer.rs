//! The thread that brings deferred writes into their engines, and retires intents before their journal is full.
//!
//! Both are work that no caller should have to wait for. A caller that finds enough gathered for one transaction, or the
//! journal half full, asks for it here and goes on; only one that finds several times as much does it by itself.
//!
//! Invariant: the thread ends before the instances and the journal are given up (dropping this waits for it).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

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

impl Due {
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

    /// Wait until something is asked; `None` at the end.
    fn wait(&self) -> Option<Work> {
        let mut state =
            self.wake.wait_while(self.lock(), |work| work.is_nothing()).unwrap_or_else(PoisonError::into_inner);
        if state.end { None } else { Some(std::mem::take(&mut state)) }
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
            while let Some(work) = asked.wait() {
                // A failure that matters has poisoned the store. A full disk has not: a caller will meet it when the journal
                // is full too, and be told.
                for instance in work.drain {
                    let _ = instances[instance].drain(&poison);
                }
                if work.retire {
                    let _ = intents.retire(&lanes, &instances, &poison);
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
