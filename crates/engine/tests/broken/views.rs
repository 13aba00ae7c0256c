//! What the broken engine hands out: values, snapshots and cursors that carry its fault.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

use biombo_engine::memory::Memory;
use biombo_engine::{Cursor, Engine, Error, ErrorKind, Result, Snapshot, Value};

use super::engine::Faulty;
use super::fault::Fault;

/// A value that is counted while it is held.
pub struct HeldValue {
    bytes: Vec<u8>,
    changes: bool,
    begun: u64,
    writes: Arc<AtomicU64>,
    held: Arc<AtomicU64>,
}

impl HeldValue {
    pub fn new(bytes: Vec<u8>, fault: Fault, writes: Arc<AtomicU64>, held: Arc<AtomicU64>) -> Self {
        let begun = writes.load(Ordering::SeqCst);
        Self { bytes, changes: fault == Fault::HeldValuesChange, begun, writes, held }
    }
}

impl Deref for HeldValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.changes && self.writes.load(Ordering::SeqCst) > self.begun + 40 { b"reused" } else { &self.bytes }
    }
}

impl Drop for HeldValue {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct FaultySnapshot {
    pub view: Arc<Memory>,
    pub engine: Weak<Faulty>,
    pub _keeps_open: Option<Arc<Faulty>>,
    pub held: Arc<AtomicU64>,
}

impl Drop for FaultySnapshot {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Snapshot for FaultySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        if self.engine.strong_count() == 0 {
            return Err(Error::new(ErrorKind::Io, "the engine is closed"));
        }
        self.view.get(key)
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        let inner = Arc::clone(&self.view).cursor()?;
        Ok(Box::new(FaultyCursor::new(inner, self._keeps_open.clone(), self.engine.clone())))
    }
}

pub struct FaultyCursor {
    inner: Box<dyn Cursor>,
    engine: Option<Arc<Faulty>>,
    fault: Fault,
    writes: u64,
    went_forward: bool,
    thread: ThreadId,
}

impl FaultyCursor {
    pub fn new(inner: Box<dyn Cursor>, engine: Option<Arc<Faulty>>, weak: Weak<Faulty>) -> Self {
        let of = engine.clone().or_else(|| weak.upgrade());
        let (fault, writes) = of.map_or((Fault::None, 0), |of| (of.fault, of.writes.load(Ordering::SeqCst)));
        Self { inner, engine, fault, writes, went_forward: true, thread: std::thread::current().id() }
    }

    /// Before any movement: take the present state if that is the fault, and say whether something was written.
    fn moves(&mut self) -> Result<bool> {
        if self.fault == Fault::CursorsBoundToThreads && self.thread != std::thread::current().id() {
            return Err(Error::invalid("another thread's cursor"));
        }
        let Some(engine) = &self.engine else { return Ok(false) };
        let writes = engine.writes.load(Ordering::SeqCst);
        let written = writes != std::mem::replace(&mut self.writes, writes);
        if self.fault == Fault::CursorSeesNewWrites {
            let here = self.inner.key().map(<[u8]>::to_vec);
            self.inner = Arc::clone(&engine.map).cursor()?;
            if let Some(here) = here {
                self.inner.seek(&here)?;
            }
        }
        Ok(written)
    }

    fn fits(&self, key: &[u8]) -> Result<()> {
        if self.fault == Fault::RefusesLongSeeks && key.len() > 1000 {
            return Err(Error::invalid("a seek target is too long"));
        }
        Ok(())
    }
}

impl Cursor for FaultyCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.fits(key)?;
        self.moves()?;
        self.inner.seek(key)?;
        if self.fault == Fault::SeekExcludesItsKey && self.inner.key() == Some(key) {
            self.inner.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.fits(key)?;
        self.moves()?;
        self.inner.seek_before(key)
    }

    fn first(&mut self) -> Result<()> {
        self.moves()?;
        self.went_forward = true;
        self.inner.first()
    }

    fn last(&mut self) -> Result<()> {
        self.moves()?;
        self.went_forward = false;
        self.inner.last()
    }

    fn next(&mut self) -> Result<()> {
        let written = self.moves()?;
        let turned = !std::mem::replace(&mut self.went_forward, true);
        if self.fault == Fault::CursorStaysWhenTurning && turned {
            return Ok(());
        }
        if self.fault == Fault::CursorComesRound && self.inner.key().is_none() {
            return self.inner.first();
        }
        self.inner.next()?;
        if self.fault == Fault::CursorSkipsWhenWritten && written {
            self.inner.next()?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.moves()?;
        let turned = std::mem::replace(&mut self.went_forward, false);
        if self.fault == Fault::CursorStaysWhenTurning && turned {
            return Ok(());
        }
        self.inner.prev()
    }

    fn key(&self) -> Option<&[u8]> {
        self.inner.key()
    }

    fn value(&self) -> Option<&[u8]> {
        self.inner.value()
    }
}
