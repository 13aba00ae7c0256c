//! Sealed segments that are not synced yet, oldest first.
//!
//! Invariants:
//! 1. `durable_lsn` is a prefix: a segment is synced only after all before it, and only then counted; or it is dropped.
//! 2. Syncs are done one at a time (`syncing`): an error that the kernel reports once is seen by whoever syncs next, as
//!    `poison`, before it can take another sync's success for its own.
//! 3. After a failed sync nothing is synced any more, and everything that asks is refused.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_base::io::{File, Io, Mapping, OpenMode};
use biombo_base::{Error, Result};

use crate::Lsn;
use crate::failure::unknown;
use crate::sealing::Sealing;

/// A segment to be synced.
pub(crate) struct Unsynced {
    pub end_lsn: Lsn,
    pub how: How,
}

pub(crate) enum How {
    /// The segment that is written.
    Sync(Arc<dyn File>, Option<Arc<Mapping>>),
    /// Its footer goes before.
    Sealed(Arc<Sealing>),
    /// Recovered: what no watermark covers may be in the page cache only; and if it was a failed sync that ended the last
    /// owner, those pages may count as clean, and no sync would ever write them. So they are written once more, the same
    /// bytes in the same place, and synced.
    Rewrite { path: PathBuf, from: u64, to: u64 },
}

pub(crate) struct Flush {
    io: Arc<dyn Io>,
    queue: Mutex<Queue>,
    pushed: Condvar,
    syncing: Mutex<()>,
    durable_lsn: AtomicU64,
    poisoned: AtomicBool,
    poison: Mutex<Option<Arc<str>>>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct Queue {
    unsynced: VecDeque<Arc<Unsynced>>,
    closed: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is held over a change here can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flush {
    pub fn new(io: Arc<dyn Io>, durable_lsn: Lsn) -> Self {
        Self {
            io,
            queue: Mutex::default(),
            pushed: Condvar::new(),
            syncing: Mutex::new(()),
            durable_lsn: AtomicU64::new(durable_lsn.0),
            poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            syncs: AtomicU64::new(0),
        }
    }

    pub fn push(&self, unsynced: Unsynced) {
        locked(&self.queue).unsynced.push_back(Arc::new(unsynced));
        self.pushed.notify_one();
    }

    pub fn len(&self) -> usize {
        locked(&self.queue).unsynced.len()
    }

    /// Where the oldest segment that waits ends.
    pub fn oldest(&self) -> Option<Lsn> {
        locked(&self.queue).unsynced.front().map(|unsynced| unsynced.end_lsn)
    }

    #[inline]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable_lsn.load(Ordering::Acquire))
    }

    /// The log's last segment was made durable to `lsn`, and nothing waits here.
    pub fn durable_to(&self, lsn: Lsn) {
        self.durable_lsn.fetch_max(lsn.0, Ordering::AcqRel);
    }

    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub fn poison(&self, why: &Error) {
        locked(&self.poison).get_or_insert_with(|| why.to_string().into());
        self.poisoned.store(true, Ordering::Release);
    }

    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) { self.refuse() } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        Err(Error::poisoned(locked(&self.poison).as_deref().unwrap_or("unknown")))
    }

    /// Sync the oldest; false when there is none. An error poisons.
    pub fn flush_one(&self) -> Result<bool> {
        let _syncing = locked(&self.syncing);
        self.check()?;
        let Some(oldest) = locked(&self.queue).unsynced.front().cloned() else { return Ok(false) };
        if let Err(error) = self.sync(&oldest) {
            let error = unknown(error);
            self.poison(&error);
            return Err(error);
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.durable_to(oldest.end_lsn);
        locked(&self.queue).unsynced.pop_front();
        Ok(true)
    }

    /// The log begins at `first` from now on: what waits and ends before it needs no sync any more.
    pub fn discard(&self, first: Lsn) {
        let _syncing = locked(&self.syncing);
        let mut queue = locked(&self.queue);
        while queue.unsynced.front().is_some_and(|oldest| oldest.end_lsn <= first) {
            queue.unsynced.pop_front();
        }
        self.durable_to(first);
    }

    fn sync(&self, unsynced: &Unsynced) -> Result<()> {
        let failed = |e| Error::io("sync a sealed segment", e);
        match &unsynced.how {
            How::Sync(file, mapping) => {
                if let Some(mapping) = mapping {
                    // Only time is at stake.
                    let _ = mapping.unmap_pages();
                }
                file.sync().map_err(failed)
            }
            How::Sealed(sealing) => {
                sealing.sync()?;
                sealing.open_for_readers(&*self.io);
                Ok(())
            }
            How::Rewrite { path, from, to } => self.rewrite(path, *from, *to).map_err(failed),
        }
    }

    fn rewrite(&self, path: &Path, from: u64, to: u64) -> std::io::Result<()> {
        let file = self.io.open(path, OpenMode { write: true, ..OpenMode::READ })?;
        let mut at = from;
        let mut chunk = Vec::new();
        while at < to {
            chunk.resize((to - at).min(1 << 20) as usize, 0);
            let got = file.read_at(&mut chunk, at)?;
            if got == 0 {
                break;
            }
            file.write_at(&chunk[..got], at)?;
            at += got as u64;
        }
        file.sync()
    }

    pub fn flush_all(&self) -> Result<()> {
        while self.flush_one()? {}
        Ok(())
    }

    pub fn close(&self) {
        locked(&self.queue).closed = true;
        self.pushed.notify_all();
    }

    /// Wait until there is something to sync; false when the log is closed.
    fn wait(&self) -> bool {
        let mut queue = locked(&self.queue);
        while queue.unsynced.is_empty() && !queue.closed {
            queue = self.pushed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        !queue.closed
    }
}

/// Syncs sealed segments while the log goes on, on a thread of the owner's. Without one, whoever seals one too many or
/// appends with `Sync` waits for it.
///
/// ```no_run
/// # fn example(log: &biombo_journal::Log) {
/// let flusher = log.flusher();
/// let thread = std::thread::spawn(move || flusher.run());
/// # }
/// ```
#[derive(Clone)]
pub struct Flusher {
    pub(crate) flush: Arc<Flush>,
}

impl Flusher {
    /// Sync the oldest sealed segment that is not; false when all are. An error poisons the log.
    pub fn flush_one(&self) -> Result<bool> {
        self.flush.flush_one()
    }

    /// Sync sealed segments as they come, until the log is closed. An error poisons the log and is returned.
    pub fn run(&self) -> Result<()> {
        self.run_and(&mut || ())
    }

    /// The same, and call `synced` after each: for who has something to do with segments that are durable.
    pub fn run_and(&self, synced: &mut dyn FnMut()) -> Result<()> {
        while self.flush.wait() {
            if self.flush.flush_one()? {
                synced();
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Flusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flusher({} unsynced)", self.flush.len())
    }
}
