//! The thread that makes checkpoints: it first has the rest of the last one loaded, then sleeps until a segment is begun and
//! looks whether another one is due. Without it, only closing and [`LogEngine::save_index`] make them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use biombo_base::io::Io;
use biombo_base::{Error, Result};

use crate::engine::{Core, LogEngine, Writer};
use crate::index::CHUNK_BYTES;

use super::making::{Making, Stage};

/// How fast an image is written.
const BYTES_PER_SECOND: u64 = 128 << 20;
/// How often it is looked whether a cleaning pass is over.
const WAIT: Duration = Duration::from_millis(2);

/// The thread, which ends with this.
pub(crate) struct Checkpointing {
    wake: Option<SyncSender<()>>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Worker {
    core: Arc<Core>,
    io: Arc<dyn Io>,
    dir: PathBuf,
    records_min: u64,
    closed: Arc<AtomicBool>,
}

impl Checkpointing {
    pub fn start(core: &Arc<Core>, io: &Arc<dyn Io>, dir: &Path, records_min: u64) -> Result<Self> {
        let closed = Arc::new(AtomicBool::new(false));
        let (wake, woken) = sync_channel(1);
        let (core, io, dir) = (Arc::clone(core), Arc::clone(io), dir.to_owned());
        let worker = Worker { core, io, dir, records_min, closed: Arc::clone(&closed) };
        let run = move || worker.run(&woken);
        let thread = std::thread::Builder::new().name("biombo-log-index".to_owned()).spawn(run);
        let thread = thread.map_err(|e| Error::io("start the thread that makes checkpoints", e))?;
        Ok(Self { wake: Some(wake), closed, thread: Some(thread) })
    }

    /// A segment was begun.
    pub fn wake(&self) {
        if let Some(wake) = &self.wake {
            // If one is waiting there already, that serves as well.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpointing {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn run(&self, woken: &Receiver<()>) {
        let mut chunk = 0;
        // Damage since opening is met by whoever needs the chunk.
        while !self.is_closed() && self.core.index.load(chunk).unwrap_or(true) {
            chunk += 1;
        }
        self.core.loaded.store(true, Ordering::Release);
        while woken.recv().is_ok() && !self.is_closed() {
            let is_due = {
                let writer = self.core.lock_writer();
                writer.standing.is_due(writer.log.next_lsn(), self.core.index.len() as u64, self.records_min)
            };
            if is_due {
                // A full disk may have room when the next segment is begun; a log that failed says so to its writers.
                let _ = self.make();
            }
        }
    }

    fn make(&self) -> Result<()> {
        let _alone = self.core.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        self.core.freezing.store(true, Ordering::Release);
        let mut making = None;
        while !self.is_closed() && making.is_none() {
            making = match Making::begin(&self.core, &self.io, &self.dir) {
                Ok(None) => {
                    std::thread::sleep(WAIT);
                    None
                }
                Ok(making) => making,
                Err(error) => {
                    self.core.freezing.store(false, Ordering::Release);
                    return Err(error);
                }
            };
        }
        self.core.freezing.store(false, Ordering::Release);
        let Some(mut making) = making else { return Ok(()) };
        while !self.is_closed() {
            match making.step()? {
                (Stage::Done, _) => break,
                (_, bytes) if bytes > 0 => {
                    std::thread::sleep(Duration::from_nanos(bytes * 1_000_000_000 / BYTES_PER_SECOND));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl LogEngine {
    /// Write a checkpoint of the index now, so that the next opening takes up only what comes after. Readers and writers go on.
    pub fn save_index(&self) -> Result<()> {
        let _alone = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut making = loop {
            self.lock_cleaner().finish(&self.core)?;
            if let Some(making) = Making::begin(&self.core, &self.io, &self.dir)? {
                break making;
            }
        };
        while making.step()?.0 != Stage::Done {}
        Ok(())
    }

    /// Whether all of the index is in memory after opening.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// Bytes of index that closing would write now, if that pays.
    pub(crate) fn image_bytes_on_closing(&self, writer: &Writer) -> Option<u64> {
        let image_bytes = (self.index.chunks() * CHUNK_BYTES) as u64;
        let pays = !writer.is_broken
            && writer.standing.pays_on_closing(writer.log.next_lsn(), image_bytes, self.checkpoint_records);
        pays.then_some(image_bytes)
    }

    /// On closing: nobody else is at work here any more.
    fn save_if_it_pays(&self) -> Result<()> {
        let pays = self.image_bytes_on_closing(&self.lock_writer()).is_some();
        if pays { self.save_index() } else { Ok(()) }
    }
}

impl Drop for LogEngine {
    fn drop(&mut self) {
        self.indexing = None;
        self.cleaning = None;
        // Opening does without it; nobody can be told of a failure any more.
        let _ = self.save_if_it_pays();
    }
}
