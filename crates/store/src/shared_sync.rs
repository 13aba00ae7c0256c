//! One device sync for everybody whose writes came before it.
//!
//! For engines whose `sync` makes earlier `Os` writes durable. A caller takes a ticket after its write was applied; a sync that
//! begins later covers it. Invariant: a caller returns only after a sync that began after its call succeeded; at most one sync
//! runs, and while it runs the next round gathers. A failed sync fails every caller it covered and all later ones (the caller
//! poisons the store): it is never retried.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use biombo_engine::{Error, ErrorKind, Result};

/// A point where callers that need a sync meet.
#[derive(Default)]
pub(crate) struct SharedSync {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    tickets: u64,
    running: bool,
    /// Tickets up to here are durable.
    durable: u64,
    failed: Option<(ErrorKind, String)>,
}

impl SharedSync {
    /// Return after a sync that began after this call has succeeded, running it unless somebody else does.
    pub(crate) fn sync(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        state.tickets += 1;
        let mine = state.tickets;
        loop {
            if let Some((kind, message)) = &state.failed {
                return Err(Error::new(*kind, message.clone()));
            }
            if state.durable >= mine {
                return Ok(());
            }
            if !state.running {
                break;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.running = true;
        let covers = state.tickets;
        drop(state);
        let mut round =
            Round { shared: self, covers, failed: Some((ErrorKind::Poisoned, "a syncing thread panicked".into())) };
        let result = run();
        round.failed = result.as_ref().err().map(|error| (error.kind(), error.message().to_owned()));
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Round<'a> {
    shared: &'a SharedSync,
    covers: u64,
    failed: Option<(ErrorKind, String)>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.running = false;
        match self.failed.take() {
            None => state.durable = self.covers,
            Some(failed) => state.failed = Some(failed),
        }
        self.shared.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_caller_is_covered_by_a_sync_that_began_after_it() {
        let shared = SharedSync::default();
        let written = AtomicU64::new(0);
        let durable = AtomicU64::new(0);
        let syncs = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        shared
                            .sync(|| {
                                let covers = written.load(Ordering::SeqCst);
                                std::thread::sleep(std::time::Duration::from_micros(50));
                                durable.fetch_max(covers, Ordering::SeqCst);
                                syncs.fetch_add(1, Ordering::SeqCst);
                                Ok(())
                            })
                            .expect("syncs");
                        assert!(durable.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
        assert!(syncs.load(Ordering::SeqCst) < 800, "callers share syncs");
    }

    #[test]
    fn a_failed_sync_is_never_retried() {
        let shared = SharedSync::default();
        assert!(shared.sync(|| Err(Error::new(ErrorKind::Io, "EIO"))).is_err());
        assert!(shared.sync(|| panic!("must not run")).is_err());
    }
}
