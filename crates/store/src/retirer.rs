//! The thread that retires intents before their journal is full.
//!
//! Retiring brings deferred writes into their engines and syncs them: work that no caller should have to wait for. A caller that
//! finds the journal half full asks for it here, and goes on; only one that finds it full retires by itself.
//!
//! Invariant: the thread ends before the instances and the journal are given up (dropping this waits for it).

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use biombo_engine::{Error, Result};

use crate::intent::Intents;
use crate::lane::Instance;
use crate::poison::Poison;

/// A running thread.
pub(crate) struct Retirer {
    due: Arc<Due>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of it.
#[derive(Default)]
pub(crate) struct Due {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Nothing,
    Retire,
    End,
}

impl Due {
    /// Ask for it; without a thread nothing happens.
    pub(crate) fn retire(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Nothing {
            *state = State::Retire;
            self.wake.notify_one();
        }
    }

    /// Wait until something is asked; false at the end.
    fn wait(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state =
            self.wake.wait_while(state, |state| *state == State::Nothing).unwrap_or_else(PoisonError::into_inner);
        let go_on = *state == State::Retire;
        if go_on {
            *state = State::Nothing;
        }
        go_on
    }
}

impl Retirer {
    pub(crate) fn start(intents: Arc<Intents>, instances: Arc<[Instance]>, poison: Arc<Poison>) -> Result<Self> {
        let due = Arc::clone(&intents.due);
        let asked = Arc::clone(&due);
        let run = move || {
            while asked.wait() {
                // A failure that matters has poisoned the store. A full disk has not: a caller will meet it when the journal
                // is full too, and be told.
                let _ = intents.retire(&instances, &poison);
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
        *self.due.state.lock().unwrap_or_else(PoisonError::into_inner) = State::End;
        self.due.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // It panicked only if an engine did, who has told its other callers.
            let _ = thread.join();
        }
    }
}
