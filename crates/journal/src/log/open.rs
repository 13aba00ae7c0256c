//! Opening a log, and reading one without opening it.
//!
//! Opening removes what unfinished work left, makes the directory's names durable, and queues for a sync what recovery found
//! that nothing says was durable: until it is synced, those records survive the death of the process only.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::{Io, IoMode};
use biombo_base::published::{Domain, Published};
use biombo_base::{Error, ErrorKind, Result};

use super::Log;
use crate::cache::RecordCache;
use crate::chooser::Chooser;
use crate::failure::Failure;
use crate::files::Files;
use crate::flush::{Flush, How, Unsynced};
use crate::manifest::{Loaded, Manifest};
use crate::names::{Name, lock_path};
use crate::recovery::{Listing, recover};
use crate::table::{LogReader, Shared, Table};
use crate::{LogOptions, LogStats, Lsn, Position, Replay, SegmentInfo, Wants};

/// Takes up nothing.
struct Unread;

impl Replay for Unread {
    fn wants(&mut self, _: &SegmentInfo) -> Result<Wants> {
        Ok(Wants::Nothing)
    }

    fn record(&mut self, _: Position, _: Lsn, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Log {
    /// Open the log in `dir`, or create it, and let `replay` take up what is in it. What was replayed survives the death of
    /// the process, and is durable after the next [`sync`](Self::sync).
    ///
    /// `Busy` when somebody else has it open, `Corruption` when records that were durable are damaged, `Unsupported` when
    /// another version wrote it, `Invalid` for options that cannot be. Time is proportional to what `replay` wants of it and
    /// to the segments that are not known to be durable.
    pub fn open(
        io: Arc<dyn Io>,
        dir: &Path,
        options: LogOptions,
        replay: &mut dyn Replay,
    ) -> Result<(Self, LogReader)> {
        let table = Published::new(&Domain::new(), Table::new([].into_iter()));
        let cache = RecordCache::new(if options.io == IoMode::Direct { options.cache_bytes } else { 0 });
        let shared = Arc::new(Shared { io: Arc::clone(&io), dir: dir.to_owned(), table, io_mode: options.io, cache });
        let log = Self::open_with(io, dir, options, replay, Some(Arc::clone(&shared)))?;
        Ok((log, LogReader { shared }))
    }

    /// The same for a log that nobody reads by position: nothing is mapped or kept for readers.
    pub(crate) fn open_with(
        io: Arc<dyn Io>,
        dir: &Path,
        options: LogOptions,
        replay: &mut dyn Replay,
        shared: Option<Arc<Shared>>,
    ) -> Result<Self> {
        options.check()?;
        let failed = |doing: &str, e| Error::io(format_args!("{doing} the journal {}", dir.display()), e);
        let is_new = !io.exists(dir).map_err(|e| failed("open", e))?;
        if is_new {
            io.create_dir_all(dir).map_err(|e| failed("create", e))?;
        }
        let Some(lock) = io.try_lock(&lock_path(dir)).map_err(|e| failed("lock", e))? else {
            let what = format!("the journal {} is open already, here or in another process", dir.display());
            return Err(Error::new(ErrorKind::Busy, what));
        };
        let listing = Listing::read(&*io, dir)?;
        let loaded = Loaded::read(&*io, dir)?;
        let recovered = recover(&*io, dir, &listing, loaded.as_ref(), replay)?;
        match dir.parent() {
            Some(parent) if loaded.is_none() => io.sync_dir(parent).map_err(|e| failed("create", e))?,
            _ => {}
        }
        io.sync_dir(dir).map_err(|e| failed("sync", e))?;
        let manifest = Manifest::open(Arc::clone(&io), dir, loaded).map_err(Failure::into_error)?;
        let flush = Arc::new(Flush::new(Arc::clone(&io), recovered.durable_lsn));
        for found in &recovered.segments {
            if let Some(from) = found.unsettled {
                let path = Name::Segment(found.header.number).path(dir);
                let how = How::Rewrite { path, from, to: found.seal.end_bytes() };
                flush.push(Unsynced { end_lsn: found.seal.end_lsn, how });
            }
        }
        let files = Files::open(io, dir, options.clone(), manifest, &listing, &recovered, shared)?;
        Ok(Self {
            files,
            flush,
            active: None,
            chooser: Chooser::new(options.modes, options.io),
            options,
            written_lsn: recovered.next_lsn,
            footers: None,
            footer: Vec::new(),
            stats: LogStats::default(),
            appended_bytes: 0,
            prepare: Arc::default(),
            has_preparer: false,
            is_told: false,
            _lock: lock,
        })
    }

    /// Let `replay` take up what is in the log in `dir` without opening it: nothing is written, locked or synced. Returns
    /// what the next record's lsn would be. For verification, while nobody appends.
    pub fn read(io: &dyn Io, dir: &Path, replay: &mut dyn Replay) -> Result<Lsn> {
        let listing = Listing::read(io, dir)?;
        let loaded = Loaded::read(io, dir)?;
        Ok(recover(io, dir, &listing, loaded.as_ref(), replay)?.next_lsn)
    }

    /// What the next record's lsn would be, and the segments that an opening would find, without opening it, as [`read`](Self::read).
    pub fn survey(io: &dyn Io, dir: &Path) -> Result<(Lsn, Vec<SegmentInfo>)> {
        let listing = Listing::read(io, dir)?;
        let loaded = Loaded::read(io, dir)?;
        let recovered = recover(io, dir, &listing, loaded.as_ref(), &mut Unread)?;
        let infos = recovered.segments.iter().map(|found| found.info(true, recovered.durable_lsn)).collect();
        Ok((recovered.next_lsn, infos))
    }
}
