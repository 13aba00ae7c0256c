//! Writes to units that are leaving their partition: forwarded in order, and held back while the units change hands.
//!
//! Invariants (all under the lane's lock, which [`Held`] stands for):
//!
//! 1. From attaching to detaching, every write to a key of the units that was applied to the source is in the queue, once, in the order in
//!    which it was applied; the mover takes the queue as a whole, and forwards of each key the last write alone ([`newest`]).
//! 2. Once closing, and until it is reopened, no write to a key of the units is applied to the source: its writer lets go of all locks, waits for the end of the move, and
//!    routes again. Others of the lane go on.
//! 3. A write of which it is not known how much of it was applied, or one for which there is no room, breaks the move, which is then given up.
//! 4. A write of which only a part is of the units is noted until the mover asks: it must not flip while a crash could take the rest (`run`).
//!    What several callers wrote as one counts as one.
//! 5. A flip of which it is not known whether it happened never detaches: no write of the units gets past, and the poisoned store tells
//!    its callers.

use std::collections::HashMap;

use biombo_engine::{Batch, Op, Result};

use crate::placement::UnitSet;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What may wait to be forwarded, in bytes of keys and values: past it the target is too slow for the writers.
pub(crate) const FORWARD_BYTES_MAX: usize = 64 << 20;
/// Past it nobody rests: what writers give in the meantime of one chunk is far less than what is left.
pub(crate) const REST_BYTES_MAX: usize = FORWARD_BYTES_MAX / 4;
/// While chunks are read, no less than this is taken: what is written again and again is forwarded once, so seldom is cheap.
pub(crate) const TAKE_BYTES_MIN: usize = if cfg!(test) { 256 } else { FORWARD_BYTES_MAX / 16 };

/// The units that leave a lane, and what is forwarded of them.
pub(crate) struct Outgoing {
    units: Arc<UnitSet>,
    queue: Batch,
    closing: bool,
    broken: bool,
    /// Whether of a write that was forwarded another part stays, since this was last asked.
    divides: bool,
}

impl Outgoing {
    pub(crate) fn new(units: Arc<UnitSet>) -> Self {
        Self { units, queue: Batch::new(), closing: false, broken: false, divides: false }
    }

    /// Take what was forwarded so far, and gather in the room of `empty` from now on; `None`: the move is broken.
    pub(crate) fn take(&mut self, empty: Batch) -> Option<Batch> {
        (!self.broken).then(|| std::mem::replace(&mut self.queue, empty))
    }

    /// Whether a write was forwarded in part since the last call.
    pub(crate) fn take_divided(&mut self) -> bool {
        std::mem::take(&mut self.divides)
    }

    /// Whether it is to be given up.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Bytes that wait to be taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// From now on writes of the units are held back.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Writes of the units pass again.
    pub(crate) fn reopen(&mut self) {
        self.closing = false;
    }

    fn holds_back(&self, ops: &[Op<'_>]) -> bool {
        self.closing && ops.iter().any(|op| self.units.touched_by(op))
    }

    /// Forward what is of the units; `is_part`: other partitions have more of the same batch.
    fn forward(&mut self, ops: &[Op<'_>], is_applied: bool, is_part: bool) {
        let (mut is_touched, mut is_divided) = (false, is_part);
        for op in ops {
            if !self.units.touched_by(op) {
                is_divided = true;
                continue;
            }
            is_touched = true;
            // A range is one of many keys.
            is_divided |= matches!(op, Op::DeleteRange { .. });
            if !is_applied || self.queue.bytes() > FORWARD_BYTES_MAX {
                self.broken = true;
                self.queue = Batch::new();
                return;
            }
            if !self.broken {
                self.queue.push(*op);
            }
        }
        self.divides |= is_touched && is_divided;
    }
}

/// What `writes` leave, in their order: of those to one key the last. The others change nothing, whatever ranges were deleted between them:
/// what a key has in the end its last write says, or a range after it. Linear time.
pub(crate) fn newest(writes: &Batch, into: &mut Batch) {
    into.clear();
    let mut last = HashMap::with_capacity(writes.len());
    for (at, op) in writes.iter().enumerate() {
        if let Op::Put { key, .. } | Op::Delete { key } = op {
            last.insert(key, at);
        }
    }
    for (at, op) in writes.iter().enumerate() {
        match op {
            Op::Put { key, .. } | Op::Delete { key } if last.get(key) != Some(&at) => {}
            op => {
                into.push(op);
            }
        }
    }
}

/// The held lock of a lane.
pub(crate) struct Held<'a>(pub(crate) MutexGuard<'a, Option<Outgoing>>);

impl Held<'_> {
    /// Whether these stored operations may be published now. Costs one look where nothing leaves the lane.
    #[inline]
    pub(crate) fn admits(&self, ops: &[Op<'_>]) -> bool {
        self.0.as_ref().is_none_or(|outgoing| !outgoing.holds_back(ops))
    }

    /// As [`admits`](Held::admits).
    #[inline]
    pub(crate) fn admits_batch(&self, batch: &Batch) -> bool {
        self.0.as_ref().is_none_or(|outgoing| !outgoing.holds_back(&batch.to_ops()))
    }

    /// As [`published`](Held::published).
    #[inline]
    pub(crate) fn published_batch<T>(&mut self, batch: &Batch, result: &Result<T>) {
        if self.0.is_some() {
            self.published(&batch.to_ops(), result);
        }
    }

    /// These stored operations were published, or `result` says why not.
    #[inline]
    pub(crate) fn published<T>(&mut self, ops: &[Op<'_>], result: &Result<T>) {
        if let Some(outgoing) = &mut *self.0 {
            outgoing.forward(ops, result.is_ok(), false);
        }
    }

    /// As [`published`](Held::published), of a slice of a batch over several partitions.
    #[inline]
    pub(crate) fn published_part<T>(&mut self, slice: &Batch, result: &Result<T>) {
        if let Some(outgoing) = &mut *self.0 {
            outgoing.forward(&slice.to_ops(), result.is_ok(), true);
        }
    }
}

/// Where writers wait while units change hands. One move of a store at a time does that.
#[derive(Default)]
pub(crate) struct Handover {
    state: Mutex<Option<Arc<UnitSet>>>,
    ended: Condvar,
}

impl Handover {
    /// Units change hands from now on.
    pub(crate) fn begin(&self, units: &Arc<UnitSet>) {
        *self.lock() = Some(Arc::clone(units));
    }

    /// They have, or have not: whoever waits routes again.
    pub(crate) fn end(&self) {
        *self.lock() = None;
        self.ended.notify_all();
    }

    /// Wait while units change hands that one of these stored operations touches. The caller must hold no lock.
    pub(crate) fn wait(&self, ops: &[Op<'_>]) {
        let mut state = self.lock();
        while state.as_ref().is_some_and(|units| ops.iter().any(|op| units.touched_by(op))) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<UnitSet>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
