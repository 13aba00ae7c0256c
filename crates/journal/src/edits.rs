//! Edits of the manifest, from any thread: what it does not say yet goes before what it is to say now.
//!
//! Invariants:
//! 1. Edits are written one at a time, each behind all that was known before it: that a segment ends, and where the one begins that
//!    was prepared before it was known, is said before anything that rests on it.
//! 2. What is not said yet can be found out from the frames: it is lost without harm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
use crate::manifest::{Manifest, Op, Seal};
use crate::sealing::Sealing;
use crate::{Lsn, SegmentKind, SegmentNumber};

/// A fact that the manifest does not say yet.
#[derive(Clone)]
pub(crate) enum Unsaid {
    /// A segment was sealed; its footer is written before that is said.
    Sealing(Arc<Sealing>),
    /// One that was found on opening is not appended to.
    Sealed(SegmentNumber, Seal),
    /// A prepared segment begins with this record.
    Begun(SegmentNumber, Lsn),
}

pub(crate) struct Edits {
    manifest: Mutex<Manifest>,
    unsaid: Mutex<Vec<Unsaid>>,
    /// The manifest's own count, for who must not wait for an edit.
    written_bytes: AtomicU64,
}

/// The right to make the next edit.
pub(crate) struct Edit<'a> {
    edits: &'a Edits,
    manifest: MutexGuard<'a, Manifest>,
    said: Vec<Unsaid>,
    ops: Vec<Op>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A manifest that failed half way has poisoned the log, which writes nothing more.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Edits {
    pub fn new(manifest: Manifest, unsaid: Vec<Unsaid>) -> Self {
        let written_bytes = AtomicU64::new(manifest.written_bytes);
        Self { manifest: Mutex::new(manifest), unsaid: Mutex::new(unsaid), written_bytes }
    }

    /// Bytes of edits written since the log was opened. Waits for nobody.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Facts that belong together: one edit says all of them. Waits for no disk.
    pub fn note(&self, facts: impl IntoIterator<Item = Unsaid>) {
        locked(&self.unsaid).extend(facts);
    }

    /// Begin an edit of up to `ops` operations beside what is not said yet. `Full`: nothing was changed.
    pub fn begin(&self, ops: usize) -> Result<Edit<'_>, Failure> {
        let mut manifest = locked(&self.manifest);
        let said = locked(&self.unsaid).clone();
        let mut facts = Vec::with_capacity(said.len() + ops);
        for fact in &said {
            facts.push(match fact {
                Unsaid::Sealing(sealing) => {
                    let seal = sealing.finish().map_err(Failure::Fatal)?;
                    Op::Sealed { number: sealing.number(), seal }
                }
                Unsaid::Sealed(number, seal) => Op::Sealed { number: *number, seal: *seal },
                Unsaid::Begun(number, base_lsn) => {
                    Op::Made { number: *number, kind: SegmentKind::Hot, base_lsn: *base_lsn }
                }
            });
        }
        manifest.reserve(facts.len() + ops)?;
        Ok(Edit { edits: self, manifest, said, ops: facts })
    }
}

impl Edit<'_> {
    /// How far the manifest says that the log is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.manifest.state.durable_lsn
    }

    /// Say `ops`, as many as were announced; durable when this returns. Returns what was not said before.
    pub fn append(mut self, ops: impl IntoIterator<Item = Op>) -> Result<Vec<Unsaid>, Failure> {
        self.ops.extend(ops);
        self.manifest.append(&self.ops).map_err(Failure::Fatal)?;
        self.edits.written_bytes.store(self.manifest.written_bytes, Ordering::Relaxed);
        locked(&self.edits.unsaid).drain(..self.said.len());
        Ok(self.said)
    }
}
