//! Making a checkpoint, in bounded steps.
//!
//! ```text
//! Freeze ──> Write (a chunk each) ──> Settle ──> Finish ──> Install ──> Remove ──> Done
//! ```
//!
//! Invariants:
//!
//! 1. *Freeze* is one instant under the writer's lock, while no cleaning pass is under way: index, accounts, last number and
//!    position of the log belong together.
//! 2. *Settle*: all records that are covered are durable before the file gets its name, so no power cut leaves an index that leads
//!    to records that are gone.
//! 3. *Finish* syncs the file, whole, before *Install* gives it its name and makes that durable.
//! 4. *Remove* takes away the older file after that. What fails before leaves the older one in use; what fails after leaves a file
//!    that nobody looks at.
//! 5. From *Freeze* on, tombstones above its number are kept (`Standing::limit`); after *Install*, those above the older one's
//!    are free to go.
//!
//! A crash before *Install* leaves a file whose name counts for nothing, which the next opening removes; while its name is made
//! durable, one of the two counts, and both are whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::clock::monotonic_ns;
use biombo_base::io::{File, Io, OpenMode};
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::Flusher;

use crate::engine::Core;
use crate::index::{CHUNK_BYTES, Header, Image};

use super::file::{Covered, chunk_at, encode, numbers, path, path_new};

/// Bytes that are written before they are synced, so that no burst of them gets in the way of others.
const SYNC_BYTES: u64 = 8 << 20;

/// The steps, by the names that tests know them by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    Write,
    Settle,
    Finish,
    Install,
    Remove,
    Done,
}

/// A checkpoint in the making. Dropped before it is installed, it leaves nothing.
pub(crate) struct Making<'c> {
    core: &'c Core,
    io: Arc<dyn Io>,
    dir: PathBuf,
    stage: Stage,
    number: u64,
    covered: Covered,
    image: Option<Image<'c>>,
    header: Option<Header>,
    next_chunk: usize,
    file: Arc<dyn File>,
    unnamed: Unnamed,
    unsynced_bytes: u64,
    flusher: Flusher,
    bytes: u64,
    /// What its steps took before the present one, and when that began.
    busy_ns: u64,
    begun_ns: u64,
}

/// The file before it has its name: it goes if this does.
struct Unnamed {
    io: Arc<dyn Io>,
    path: Option<PathBuf>,
}

impl<'c> Making<'c> {
    /// Freeze the index; `None` while a cleaning pass is under way. `Poisoned` where the index does not follow the log.
    /// Whoever makes one holds `Core::checkpointing`.
    pub fn begin(core: &'c Core, io: &Arc<dyn Io>, dir: &Path) -> Result<Option<Self>> {
        if core.lock_cleaner().is_busy() {
            return Ok(None);
        }
        let begun_ns = monotonic_ns();
        let number = core.lock_writer().standing.number + 1;
        let new = path_new(dir, number);
        let file = io
            .open(&new, OpenMode::WRITE)
            .and_then(|file| {
                // A left-over of the same name is written anew.
                if file.is_empty()? { Ok(file) } else { file.set_len(0).map(|()| file) }
            })
            .map_err(|e| Error::io(format_args!("create {}", new.display()), e))?;
        let unnamed = Unnamed { io: Arc::clone(io), path: Some(new) };
        let cleaner = core.lock_cleaner();
        let mut writer = core.lock_writer();
        if cleaner.is_busy() {
            return Ok(None);
        }
        if writer.is_broken {
            return Err(Error::new(ErrorKind::Poisoned, "damage kept the index from following the log"));
        }
        // By the time that it is needed, somebody has done it.
        writer.log.begin_sync()?;
        let covered = Covered::new(writer.log.next_lsn(), writer.seq, &writer.log.segments(), &writer.accounts);
        let image = core.index.freeze()?;
        writer.standing.begins(covered.seq);
        let flusher = writer.log.flusher();
        drop(writer);
        Ok(Some(Self {
            core,
            io: Arc::clone(io),
            dir: dir.to_owned(),
            stage: Stage::Write,
            number,
            covered,
            image: Some(image),
            header: None,
            next_chunk: 0,
            file,
            unnamed,
            unsynced_bytes: 0,
            flusher,
            bytes: 0,
            busy_ns: monotonic_ns() - begun_ns,
            begun_ns,
        }))
    }

    /// Do a piece of work; returns of which stage it was and how many bytes it wrote. After an error it is of no use.
    pub fn step(&mut self) -> Result<(Stage, u64)> {
        let (stage, before) = (self.stage, self.bytes);
        self.begun_ns = monotonic_ns();
        match stage {
            Stage::Write => self.write()?,
            Stage::Settle => self.settle()?,
            Stage::Finish => self.finish()?,
            Stage::Install => self.install()?,
            Stage::Remove => self.remove()?,
            Stage::Done => {}
        }
        self.busy_ns += monotonic_ns() - self.begun_ns;
        Ok((stage, self.bytes - before))
    }

    fn failed(&self, doing: &str, e: std::io::Error) -> Error {
        Error::io(format_args!("{doing} {}", path_new(&self.dir, self.number).display()), e)
    }

    fn put(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_at(bytes, at).map_err(|e| self.failed("write", e))?;
        self.bytes += bytes.len() as u64;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced_bytes = 0;
        self.file.sync().map_err(|e| self.failed("sync", e))
    }

    fn write(&mut self) -> Result<()> {
        let image = self.image.as_mut().expect("invariant: the image is there until all of it is written");
        if self.next_chunk < image.chunks() {
            let chunk = image.chunk(self.next_chunk)?;
            self.put(&chunk, chunk_at(self.next_chunk))?;
            self.next_chunk += 1;
            return Ok(());
        }
        let image = self.image.take().expect("invariant: it was there just now");
        self.header = Some(image.finish()?);
        self.stage = Stage::Settle;
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        // Without the writer's lock: nobody waits for these syncs.
        let has_more = self.flusher.flush_one()?;
        let mut writer = self.core.lock_writer();
        if writer.log.durable_lsn() < self.covered.lsn {
            if has_more {
                return Ok(());
            }
            writer.log.sync()?;
        }
        writer.log.after_sync();
        self.stage = Stage::Finish;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let image = self.header.take().expect("invariant: the image was finished");
        let (header, tail, tail_at) = encode(self.number, &self.covered, &image);
        self.put(&tail, tail_at)?;
        self.put(&header, 0)?;
        self.sync()?;
        self.stage = Stage::Install;
        Ok(())
    }

    fn install(&mut self) -> Result<()> {
        let to = path(&self.dir, self.number);
        let from = path_new(&self.dir, self.number);
        let failed = |e| Error::io(format_args!("name {}", to.display()), e);
        // From here on nobody knows which of the two the next opening will find, until its name is durable: both limits hold.
        self.core.lock_writer().standing.doubt(self.number);
        self.io.rename(&from, &to).map_err(failed)?;
        self.unnamed.path = None;
        self.io.sync_dir(&self.dir).map_err(failed)?;
        let mut writer = self.core.lock_writer();
        let chunks = self.next_chunk * CHUNK_BYTES;
        let busy_ns = self.busy_ns + (monotonic_ns() - self.begun_ns);
        writer.standing.installed(self.covered.seq, self.covered.lsn, chunks as u64, (self.bytes, busy_ns));
        self.stage = Stage::Remove;
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.stage = Stage::Done;
        remove_older(&*self.io, &self.dir, self.number)
    }
}

/// Remove checkpoints older than `number`, and what is half written.
pub(crate) fn remove_older(io: &dyn Io, dir: &Path, number: u64) -> Result<()> {
    let older = numbers(io, dir, ".index")?.into_iter().filter(|other| *other < number).map(|other| path(dir, other));
    let new = numbers(io, dir, ".index-new")?.into_iter().map(|other| path_new(dir, other));
    for path in older.chain(new) {
        io.remove_file(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))?;
    }
    Ok(())
}

/// If there are checkpoints older than `number`, remove them, durably.
pub(crate) fn keep_alone(io: &dyn Io, dir: &Path, number: u64) -> Result<()> {
    if numbers(io, dir, ".index")?.iter().all(|other| *other >= number) {
        return Ok(());
    }
    remove_older(io, dir, number)?;
    io.sync_dir(dir).map_err(|e| Error::io(format_args!("sync {}", dir.display()), e))
}

/// Remove all checkpoints, durably.
pub(crate) fn remove_all(io: &dyn Io, dir: &Path) -> Result<()> {
    remove_older(io, dir, u64::MAX)?;
    io.sync_dir(dir).map_err(|e| Error::io(format_args!("sync {}", dir.display()), e))
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.core.lock_writer().standing.ends();
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed now is when another one is installed, or on opening.
            let _ = self.io.remove_file(path);
        }
    }
}
