//! Work ahead of the writer, so that it waits for no disk: the next segment is made before it is needed, the pages of the one that is
//! written are made present, and files of dropped segments go, all on a thread of the owner's.
//!
//! Invariants:
//! 1. A prepared segment is durable, named by the manifest, and empty. Where it begins is not known: its header and the edit say
//!    [`PREPARED`]. Its first frame says it, and later an edit does.
//! 2. At most one is prepared at a time, and only one for a log that is written through mappings.
//! 3. What is under way (`busy`) began under the log's lock, and takes only locks that nobody holds for long: the log may wait for it.
//!
//! Crash argument: `docs/format/journal.md`, 11.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_base::Result;

use crate::ahead::Ahead;
use crate::edits::Unsaid;
use crate::failure::Failure;
use crate::flush::Flush;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::supply::{Disused, Made, Supply};
use crate::{Lsn, Mode, SegmentKind, SegmentNumber};

/// The base lsn of a segment that was prepared before it was known.
pub(crate) const PREPARED: Lsn = Lsn(0);

/// The next segment is made when this share of the present one is written.
const MAKE_SHARE: u64 = 4;

/// What the log and its preparer share.
#[derive(Default)]
pub(crate) struct Prepare {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    closed: bool,
    /// A [`Preparing`] is under way,
    busy: bool,
    /// and makes a segment.
    is_making: bool,
    made: Option<Made>,
    ahead: Option<Arc<Ahead>>,
}

impl Prepare {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to do.
    pub fn wake(&self) {
        self.state().woken = true;
        self.changed.notify_all();
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// The segment that is written now.
    pub fn set_ahead(&self, ahead: Option<Arc<Ahead>>) {
        self.state().ahead = ahead;
    }

    /// The prepared segment, if there is one; waits for one that is being made.
    pub fn take(&self) -> Option<Made> {
        let state = self.state();
        let waited = self.changed.wait_while(state, |state| state.is_making);
        waited.unwrap_or_else(PoisonError::into_inner).made.take()
    }

    /// It is not used yet after all.
    pub fn put_back(&self, made: Made) {
        self.state().made = Some(made);
    }

    pub fn has_made(&self) -> bool {
        self.state().made.is_some()
    }

    /// Somebody had the kernel write what is dirty: bytes of the prepared segment's room that went with it.
    pub fn written_back(&self) -> u64 {
        let state = self.state();
        let Some(ahead) = state.made.as_ref().and_then(|made| made.ahead.as_ref()) else { return 0 };
        let written = ahead.touched().saturating_sub(SEGMENT_HEADER_BYTES as u64);
        ahead.again();
        written
    }

    /// Wait until nothing is under way. The caller keeps anything else from being begun.
    pub fn quiesce(&self) {
        let state = self.state();
        drop(self.changed.wait_while(state, |state| state.busy));
    }

    /// Wait for something to do; false when the log is closed.
    fn wait(&self) -> bool {
        let state = self.state();
        let waited = self.changed.wait_while(state, |state| !state.woken && !state.closed);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.woken = false;
        !state.closed
    }
}

/// Whether the next segment is to be made when `offset` of `capacity` bytes are written.
#[inline]
pub(crate) fn is_due(offset: u64, capacity: u64) -> bool {
    offset >= capacity / MAKE_SHARE
}

/// Works ahead of the writer of a log on a thread of the owner's, from [`Log::preparer`](crate::Log::preparer).
#[derive(Clone)]
pub struct Preparer {
    pub(crate) prepare: Arc<Prepare>,
}

impl Preparer {
    /// Do what there is to do as it comes, until the log is closed. `begin` calls
    /// [`Log::begin_preparing`](crate::Log::begin_preparing).
    pub fn run(&self, mut begin: impl FnMut() -> Option<Preparing>) {
        while self.prepare.wait() {
            let ahead = self.prepare.state().ahead.clone();
            if let Some(ahead) = ahead.filter(|ahead| ahead.is_asked()) {
                ahead.populate();
            }
            if let Some(preparing) = begin() {
                // A failure that matters has poisoned the log; a full disk is met by the writer, too.
                let _ = preparing.run();
            }
        }
    }

    /// Let [`run`](Self::run) end: its owner goes before the log.
    pub fn close(&self) {
        self.prepare.close();
    }
}

impl std::fmt::Debug for Preparer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preparer").finish_non_exhaustive()
    }
}

/// Work that was begun under the log's lock and goes on without it. Dropped undone, it leaves files that the next opening removes.
#[must_use = "the log may wait for it"]
pub struct Preparing {
    prepare: Arc<Prepare>,
    supply: Arc<Supply>,
    flush: Arc<Flush>,
    next: Option<(SegmentNumber, u64)>,
    disused: Disused,
}

impl Preparing {
    /// `next`: the number and the size of the segment to be made.
    pub(crate) fn new(
        prepare: &Arc<Prepare>,
        supply: &Arc<Supply>,
        flush: &Arc<Flush>,
        next: Option<(SegmentNumber, u64)>,
        disused: Disused,
    ) -> Self {
        let mut state = prepare.state();
        (state.busy, state.is_making) = (true, next.is_some());
        drop(state);
        Self { prepare: Arc::clone(prepare), supply: Arc::clone(supply), flush: Arc::clone(flush), next, disused }
    }

    /// Do it. An error other than `Full` poisons the log.
    pub fn run(mut self) -> Result<()> {
        let made = self.make();
        let mut ahead = None;
        let mut state = self.prepare.state();
        state.is_making = false;
        let made = made.map(|made| {
            ahead = made.as_ref().and_then(|made| made.ahead.clone());
            state.made = made.or(state.made.take());
        });
        drop(state);
        self.prepare.changed.notify_all();
        if let Err(Failure::Fatal(error)) = &made {
            self.flush.poison(error);
        }
        if let Some(ahead) = ahead {
            ahead.populate();
        }
        self.supply.clear(std::mem::take(&mut self.disused));
        made.map_err(Failure::into_error)
    }

    fn make(&mut self) -> Result<Option<Made>, Failure> {
        let Some((number, capacity_bytes)) = self.next.take() else { return Ok(None) };
        let header = SegmentHeader {
            id: self.supply.io.random_u64(),
            number,
            base_lsn: PREPARED,
            capacity_bytes,
            mode: Mode::Mapped,
            kind: SegmentKind::Hot,
            durable_lsn: self.flush.durable_lsn(),
        };
        let (made, said) = self.supply.make(header, None)?;
        for fact in said {
            if let Unsaid::Sealing(sealing) = fact {
                sealing.shorten(&*self.supply.io);
            }
        }
        Ok(Some(made))
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        let mut state = self.prepare.state();
        (state.busy, state.is_making) = (false, false);
        drop(state);
        self.prepare.changed.notify_all();
    }
}

impl std::fmt::Debug for Preparing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preparing").field("next", &self.next).finish_non_exhaustive()
    }
}
