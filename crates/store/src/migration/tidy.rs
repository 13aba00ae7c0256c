//! The thread that cleans what moves have left over and nobody waits for: what a crash left, what a move that was given up left, and what a
//! scan was reading when its move ended.
//!
//! It works half of the time at most, less while users feel it (`throttle`), gives way to whoever moves units, and ends when nothing is left;
//! what comes later begins it again. On a full disk, where deleting may need room, it tries again, after longer and longer rests.
//! Nothing depends on it but space, and the filter that scans of such partitions go through meanwhile.
//!
//! Invariants: what is left over, and where, is looked up once it has the role, without which nothing of that changes; a wake after the thread last looked is never missed (`again`, under the lock with `running`); dropping the [`Tidier`] waits for
//! the thread, a chunk of work at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use biombo_engine::ErrorKind;

use super::clean::{Cleaned, Cleaning};
use super::rests::Owed;
use super::{Mover, Ordering, Pace};
use crate::PartitionId;
use crate::placement::MoveId;

/// Chunks that keep no engine busy for long.
const PACE: Pace = Pace { bytes_per_second: None, chunk_bytes: 16 << 10, chunk_keys: 1024 };
/// After which it looks again at what it had to leave, to scans or to whoever moves units.
pub(super) const LATER: Duration = Duration::from_millis(50);
/// Of its time it works so much at most.
const SHARE: f64 = 0.5;
/// The least that a chunk of work counts as.
const WORK_MIN: Duration = Duration::from_micros(200);
/// The longest that it rests while a disk is full, which is twice as long each time.
const LATEST: Duration = Duration::from_secs(30);

/// Begins the thread when there is something to do.
pub(crate) struct Tidier {
    mover: Arc<Mover>,
    asked: Arc<Asked>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Asked {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    again: bool,
    end: bool,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let time pass; false: the store is closing.
    fn rest(&self, time: Duration) -> bool {
        let state = self.lock();
        let rested = self.ended.wait_timeout_while(state, time, |state| !state.end);
        !rested.unwrap_or_else(PoisonError::into_inner).0.end
    }
}

impl Tidier {
    pub(crate) fn new(mover: Arc<Mover>) -> Self {
        Self { mover, asked: Arc::default(), thread: Mutex::default() }
    }

    /// Have what is left over cleaned, if anything is.
    pub(crate) fn wake(&self) {
        if self.mover.journal().leftovers().next().is_none() {
            return;
        }
        let mut state = self.asked.lock();
        state.again = true;
        if state.running || state.end {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(over) = thread.take() {
            // It runs no more, and needs no lock to end.
            let _ = over.join();
        }
        let (mover, asked) = (Arc::clone(&self.mover), Arc::clone(&self.asked));
        // Without a thread it stays as it is, until the next wake.
        let begun = Builder::new().name("biombo-tidy".to_owned()).spawn(move || work(&mover, &asked));
        state.running = begun.is_ok();
        *thread = begun.ok();
    }
}

impl Drop for Tidier {
    fn drop(&mut self) {
        self.asked.lock().end = true;
        self.asked.ended.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its panic, if any, has told itself.
            let _ = thread.join();
        }
    }
}

/// Clean until nothing is left, the store closes, or an engine fails for another reason than want of room: then the next wake tries again.
fn work(mover: &Mover, asked: &Asked) {
    /// However the thread ends, another may begin.
    struct Running<'a>(&'a Asked);
    impl Drop for Running<'_> {
        fn drop(&mut self) {
            self.0.lock().running = false;
        }
    }
    let running = Running(asked);
    let mut positions: BTreeMap<(MoveId, PartitionId), Vec<u8>> = BTreeMap::new();
    let mut later = LATER;
    loop {
        asked.lock().again = false;
        let left = mover.leftovers(|_, _| true);
        positions.retain(|(id, holder), _| left.iter().any(|(other, its, _)| (id, holder) == (other, its)));
        if left.is_empty() {
            let mut state = asked.lock();
            if state.again && !state.end {
                continue;
            }
            // Under the lock that a wake takes: it either was seen above, or sees that nothing runs.
            state.running = false;
            std::mem::forget(running);
            return;
        }
        let mut is_full = false;
        for (id, ..) in left {
            let _role = mover.role.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever had the role may have cleaned it, or moved its units on: then another partition holds what is left.
            let now = mover.leftovers(|_, _| true).into_iter().find(|(other, ..)| *other == id);
            let Some((_, holder, units)) = now else { continue };
            let mut sleep = |time| mover.waiting.load(Ordering::SeqCst) == 0 && asked.rest(time);
            let mut owed = Owed::for_work(SHARE, WORK_MIN);
            let _governed = mover.govern_tidying();
            let mut go_on = || mover.rest_with(&mut owed, 0, &mut sleep);
            let cleaning = Cleaning { mover, id, holder, units: &units, pace: PACE };
            match cleaning.run(positions.entry((id, holder)).or_default(), &mut go_on) {
                Ok(Cleaned::Whole | Cleaned::InUse) => {}
                Ok(Cleaned::Stopped) => break,
                // It may be another one's disk that is full.
                Err(error) if error.kind() == ErrorKind::Full => {
                    is_full = true;
                    // It was past what could not be deleted.
                    positions.remove(&(id, holder));
                }
                // The store is read-only, or its disk broken.
                Err(_) => return,
            }
        }
        if mover.leftovers(|_, _| true).is_empty() {
            continue;
        }
        later = if is_full { (later * 2).min(LATEST) } else { LATER };
        if !asked.rest(later) {
            return;
        }
    }
}
