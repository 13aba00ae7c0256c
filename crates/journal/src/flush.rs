//! Sealed segments that are not synced yet, oldest first.
//!
//! Invariants:
//! 1. `durable_lsn` is a prefix: a segment is synced only after all before it, and only then counted; or it is dropped.
//! 2. Syncs are done one at a time (`syncing`): an error that the kernel reports once is seen by whoever syncs next, as
//!    `poison`, before it can take another sync's success for its own.
//! 3. Who syncs in the background does it in [slices](Slices) and leaves little to the sync itself, until somebody waits for
//!    it (`hurried`).
//! 4. After a failed sync nothing is synced any more, and everything that asks is refused.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_base::io::{File, Io, Mapping, OpenMode};
use biombo_base::slices::Slices;
use biombo_base::{Error, Result};

use crate::Lsn;
use crate::failure::unknown;
use crate::sealing::Sealing;

/// What is given to the device at once in the background: some 50 us of work.
const PIECE_BYTES: u64 = 256 << 10;

/// A segment to be synced.
pub(crate) struct Unsynced {
    pub end_lsn: Lsn,
    pub how: How,
}

pub(crate) enum How {
    /// The segment that is written, as far as it is.
    Sync { file: Arc<dyn File>, mapping: Option<Arc<Mapping>>, end_bytes: u64 },
    /// Its footer goes before.
    Sealed(Arc<Sealing>),
    /// Recovered: what no watermark covers may be in the page cache only; and if it was a failed sync that ended the last
    /// owner, those pages may count as clean, and no sync would ever write them. So they are written once more, the same
    /// bytes in the same place, and synced.
    Rewrite { path: PathBuf, from: u64, to: u64 },
}

impl How {
    /// Let the device begin with what is to be synced, piece by piece, `rest`ing between them.
    fn write_back(&self, rest: &mut dyn FnMut()) {
        let (file, end_bytes) = match self {
            Self::Sync { file, end_bytes, .. } => (file, *end_bytes),
            Self::Sealed(sealing) => (sealing.file(), sealing.data_bytes()),
            Self::Rewrite { .. } => return,
        };
        for at in (0..end_bytes).step_by(PIECE_BYTES as usize) {
            let mapping = match self {
                Self::Sync { mapping, .. } => mapping.clone(),
                Self::Sealed(sealing) => sealing.mapping(),
                Self::Rewrite { .. } => None,
            };
            if let Some(mapping) = mapping {
                // Only time is at stake.
                let _ = mapping.unmap_pages(at, PIECE_BYTES);
            }
            file.begin_write_back(at, PIECE_BYTES);
            rest();
        }
    }
}

pub(crate) struct Flush {
    io: Arc<dyn Io>,
    queue: Mutex<Queue>,
    pushed: Condvar,
    syncing: Mutex<()>,
    /// How many wait for `syncing` whom others wait for.
    hurried: AtomicU32,
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
            hurried: AtomicU32::new(0),
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

    /// Sync the oldest as fast as it can be done; false when there is none. An error poisons.
    pub fn flush_one(&self) -> Result<bool> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let syncing = locked(&self.syncing);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        self.flush_oldest(&syncing, &mut || ())
    }

    /// The same in the background.
    pub fn flush_one_at_ease(&self) -> Result<bool> {
        let syncing = locked(&self.syncing);
        let mut slices = Slices::begin();
        let mut rest = || {
            if self.hurried.load(Ordering::Relaxed) == 0 {
                slices.rest();
            }
        };
        let oldest = locked(&self.queue).unsynced.front().cloned();
        if let Some(oldest) = oldest {
            oldest.how.write_back(&mut rest);
        }
        self.flush_oldest(&syncing, &mut rest)
    }

    fn flush_oldest(&self, _syncing: &MutexGuard<'_, ()>, rest: &mut dyn FnMut()) -> Result<bool> {
        self.check()?;
        let Some(oldest) = locked(&self.queue).unsynced.front().cloned() else { return Ok(false) };
        if let Err(error) = self.sync(&oldest, rest) {
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

    fn sync(&self, unsynced: &Unsynced, rest: &mut dyn FnMut()) -> Result<()> {
        let failed = |e| Error::io("sync a sealed segment", e);
        match &unsynced.how {
            How::Sync { file, mapping, end_bytes } => {
                let synced = mapping.as_ref().and_then(|mapping| {
                    // Only time is at stake.
                    let _ = mapping.unmap_pages(0, *end_bytes);
                    mapping.sync(*end_bytes)
                });
                synced.unwrap_or_else(|| file.sync()).map_err(failed)
            }
            How::Sealed(sealing) => {
                sealing.finish_and(rest)?;
                sealing.file().sync().map_err(failed)?;
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
    /// Sync the oldest sealed segment that is not, in short slices as long as nobody waits; false when all are. An error poisons
    /// the log.
    pub fn flush_one(&self) -> Result<bool> {
        self.flush.flush_one_at_ease()
    }

    /// Sync sealed segments as they come, until the log is closed. An error poisons the log and is returned.
    pub fn run(&self) -> Result<()> {
        self.run_and(&mut || ())
    }

    /// The same, and call `synced` after each: for who has something to do with segments that are durable.
    pub fn run_and(&self, synced: &mut dyn FnMut()) -> Result<()> {
        while self.flush.wait() {
            if self.flush.flush_one_at_ease()? {
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

#[cfg(test)]
mod tests {
    use biombo_base::io::sim::SimIo;

    use super::*;

    /// Notes what the device is told of a file.
    struct Told {
        file: Arc<dyn File>,
        told: Mutex<Vec<Option<(u64, u64)>>>,
    }

    impl File for Told {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.file.read_at(buf, offset)
        }
        fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
            self.file.write_at(buf, offset)
        }
        fn sync(&self) -> std::io::Result<()> {
            locked(&self.told).push(None);
            self.file.sync()
        }
        fn len(&self) -> std::io::Result<u64> {
            self.file.len()
        }
        fn set_len(&self, bytes: u64) -> std::io::Result<()> {
            self.file.set_len(bytes)
        }
        fn allocate(&self, bytes: u64) -> std::io::Result<()> {
            self.file.allocate(bytes)
        }
        fn fill(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
            self.file.fill(offset, bytes)
        }
        fn map(&self, bytes: u64, committed: u64, writable: bool) -> std::io::Result<Arc<Mapping>> {
            self.file.map(bytes, committed, writable)
        }
        fn begin_write_back(&self, offset: u64, bytes: u64) {
            locked(&self.told).push(Some((offset, bytes)));
        }
    }

    #[test]
    fn the_device_has_all_of_a_segment_before_it_is_synced_in_the_background_and_who_is_in_a_hurry_only_syncs() {
        const END_BYTES: u64 = 3 * PIECE_BYTES + 5;
        let io: Arc<dyn Io> = Arc::new(SimIo::new(1));
        io.create_dir_all("/d".as_ref()).unwrap();
        let file = io.open("/d/f".as_ref(), OpenMode::CREATE_NEW).unwrap();
        let flush = Flush::new(io, Lsn(0));
        for (lsn, at_ease) in [(7, true), (9, false)] {
            let told = Arc::new(Told { file: Arc::clone(&file), told: Mutex::default() });
            let how = How::Sync { file: told.clone(), mapping: None, end_bytes: END_BYTES };
            flush.push(Unsynced { end_lsn: Lsn(lsn), how });
            assert!(if at_ease { flush.flush_one_at_ease() } else { flush.flush_one() }.unwrap());
            assert_eq!(flush.durable_lsn(), Lsn(lsn));
            let told = locked(&told.told).clone();
            let (last, pieces) = told.split_last().unwrap();
            assert_eq!(*last, None, "it is synced in the end");
            let end = pieces.iter().flatten().fold(0, |end, &(offset, bytes)| {
                assert_eq!(offset, end, "a piece is left out");
                offset + bytes
            });
            assert!(if at_ease { pieces.len() == 4 && end >= END_BYTES } else { pieces.is_empty() }, "{told:?}");
        }
        assert!(!flush.flush_one_at_ease().unwrap());
    }
}
