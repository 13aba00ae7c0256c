//! The thread that cleans: parked while there is nothing to do, woken when a segment is sealed or much has died at once, paced while it copies.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use biombo_base::clock::monotonic_ns;
use biombo_base::{Error, Result};

use crate::engine::Core;

use super::pace;
use super::pass::Stage;
use super::{Beginning, Pressure};

/// After a failure it is tried again after so long, or when the next segment is sealed.
const RETRY: Duration = Duration::from_secs(1);
/// The pressure is looked at anew after so long.
const SURVEY_NS: u64 = 20_000_000;
/// Shorter waits are gathered.
const WAIT_NS_MIN: u64 = 500_000;

/// The thread, which ends with this.
pub(crate) struct Cleaning {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    closed: bool,
}

impl Signal {
    /// Wait until woken, or for some time at most; false when it is to end.
    fn wait(&self, at_most: Option<Duration>) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut State| !state.closed && !state.woken;
        let mut state = match at_most {
            None => self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let waited = self.changed.wait_timeout_while(state, at_most, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.woken = false;
        !state.closed
    }

    /// Wait for some time, unless it is to end.
    fn pause(&self, time: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(state, time, |state| !state.closed));
    }

    fn is_closed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed
    }
}

impl Cleaning {
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        // From the first write on they know how far they may go: the thread may get no processor for long.
        core.pressure(&core.lock_cleaner());
        let signal = Arc::new(Signal::default());
        let (for_thread, core) = (Arc::clone(&signal), Arc::clone(core));
        let run = move || run(&core, &for_thread);
        let thread = std::thread::Builder::new().name("biombo-log-clean".to_owned()).spawn(run);
        let thread = thread.map_err(|e| Error::io("start the thread that cleans segments", e))?;
        let cleaning = Self { signal, thread: Some(thread) };
        cleaning.wake();
        Ok(cleaning)
    }

    /// A segment was sealed, or much died.
    pub fn wake(&self) {
        self.signal.state.lock().unwrap_or_else(PoisonError::into_inner).woken = true;
        self.signal.changed.notify_one();
    }
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.signal.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends after the current step. What it had begun, the next opening removes.
            let _ = thread.join();
        }
    }
}

/// The rate of appending or of dying, whichever is higher, measured between surveys.
#[derive(Default)]
struct Rate {
    at_ns: u64,
    written_bytes: u64,
    died_bytes: u64,
    per_second: f64,
}

impl Rate {
    fn update(&mut self, now_ns: u64, written_bytes: u64, died_bytes: u64) {
        let seconds = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        let written = written_bytes.saturating_sub(self.written_bytes);
        let bytes = written.max(died_bytes.saturating_sub(self.died_bytes)) as f64;
        if self.at_ns > 0 && seconds > 0.0 {
            // Over about a second: bursts are cleaned after as over time.
            let weight = seconds.min(1.0);
            self.per_second += weight * (bytes / seconds - self.per_second);
        }
        (self.at_ns, self.written_bytes, self.died_bytes) = (now_ns, written_bytes, died_bytes);
    }
}

fn run(core: &Core, signal: &Signal) {
    let mut rate = Rate::default();
    let (mut per_second, mut owed_ns) = (None, 0);
    let mut surveyed_ns = 0;
    let mut retry = None;
    while signal.wait(retry) {
        retry = None;
        while !signal.is_closed() {
            let stepped = {
                let mut cleaner = core.lock_cleaner();
                let now_ns = monotonic_ns();
                if now_ns - surveyed_ns >= SURVEY_NS {
                    let Pressure { pressure, written_bytes, died_bytes } = core.pressure(&cleaner);
                    rate.update(now_ns, written_bytes, died_bytes);
                    per_second = pace::bytes_per_second(pressure, rate.per_second);
                    surveyed_ns = now_ns;
                }
                let beginning = core.begin_if_due(&mut cleaner);
                if beginning != Beginning::UnderWay {
                    // Nobody else tells when what keeps it from beginning is over.
                    retry = match beginning {
                        Beginning::Unsynced => Some(RETRY / 200),
                        Beginning::Later => Some(RETRY / 20),
                        Beginning::NotDue | Beginning::UnderWay => None,
                    };
                    surveyed_ns = 0;
                    break;
                }
                cleaner.step(core)
            };
            match stepped {
                // Records are moved in small groups: let writers and readers in between.
                Ok(Some((Stage::Move, _))) => std::thread::yield_now(),
                Ok(Some((_, bytes))) => {
                    owed_ns += per_second.map_or(0, |per_second| (bytes as f64 / per_second * 1e9) as u64);
                    if owed_ns >= WAIT_NS_MIN {
                        signal.pause(Duration::from_nanos(owed_ns));
                        owed_ns = 0;
                    }
                }
                // Space was won: tell the writers.
                Ok(None) => surveyed_ns = 0,
                Err(_) => {
                    // A log that failed is poisoned, and says so to its writers; a full disk may have room later.
                    retry = Some(RETRY);
                    break;
                }
            }
        }
    }
}
