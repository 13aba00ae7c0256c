//! Files for segments: made, kept for reuse when they are dropped, removed. On any thread, the log's writer not being held up.
//!
//! The order of the steps, which is the crash argument, is told in `files`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::Error;
use biombo_base::io::{Advice, File, Io, IoMode, Mapping, OpenMode};

use crate::ahead::Ahead;
use crate::edits::{Edits, Unsaid};
use crate::failure::Failure;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::manifest::Op;
use crate::names::Name;
use crate::table::Segment;
use crate::{LogOptions, Mode, SegmentKind, SegmentNumber};

/// A file kept for reuse.
struct Free {
    number: SegmentNumber,
    bytes: u64,
    mapping: Option<Arc<Mapping>>,
}

/// A segment just made.
pub(crate) struct Made {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    /// Its mapping, if that is how it is written.
    pub mapping: Option<Arc<Mapping>>,
    /// Whether the file had a former life: then its room was written before.
    pub is_recycled: bool,
    /// How far its pages are present, if it has a mapping.
    pub ahead: Option<Arc<Ahead>>,
}

/// A segment that is dropped and that nobody reads any more.
pub(crate) struct Removal {
    pub header: SegmentHeader,
    pub file_bytes: u64,
    pub mapping: Option<Arc<Mapping>>,
}

/// What nobody reads any more, from [`Files::poll`](crate::files::Files::poll) to [`Supply::clear`].
#[derive(Default)]
pub(crate) struct Disused {
    /// Segments that are dropped.
    pub removals: Vec<Removal>,
    /// Mappings of segments that are read directly since, with their files.
    pub unmapped: Vec<(Arc<Segment>, Arc<dyn File>)>,
}

impl Disused {
    pub fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.unmapped.is_empty()
    }
}

impl From<Made> for Removal {
    /// One that was made in vain. If it is new, its file is not kept: its room is hardly written yet, and the zeros in it that are still in
    /// the system's memory need not be.
    fn from(made: Made) -> Self {
        let Made { header, mapping, ahead, is_recycled, .. } = made;
        if let Some(ahead) = ahead {
            ahead.close();
        }
        Self { header, file_bytes: if is_recycled { header.capacity_bytes } else { 0 }, mapping }
    }
}

pub(crate) struct Supply {
    pub io: Arc<dyn Io>,
    pub dir: PathBuf,
    pub edits: Edits,
    /// The size of which files are kept for reuse.
    wanted_bytes: AtomicU64,
    recycle_segments_max: usize,
    /// How sealed segments are read.
    io_mode: IoMode,
    free: Mutex<Vec<Free>>,
}

impl Supply {
    pub fn new(io: Arc<dyn Io>, dir: PathBuf, edits: Edits, options: &LogOptions) -> Self {
        let &LogOptions { segment_bytes, recycle_segments_max, io: io_mode, .. } = options;
        let wanted_bytes = AtomicU64::new(segment_bytes);
        Self { io, dir, edits, wanted_bytes, recycle_segments_max, io_mode, free: Mutex::default() }
    }

    /// Whether files of dropped segments are used again for such as are written in this mode. Where readers map nothing, no mapping
    /// with its pages is left from the former life, and to map the file anew would read it before it is overwritten.
    fn recycles(&self, mode: Mode) -> bool {
        self.io_mode == IoMode::Mmap || mode == Mode::Direct
    }

    fn free(&self) -> MutexGuard<'_, Vec<Free>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keep files of this size from now on. Those of another one stay until there is no room beside them: a log whose size is near the
    /// bound between two goes back and forth.
    pub fn want(&self, bytes: u64) {
        self.wanted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the files that are kept.
    pub fn free_bytes(&self) -> u64 {
        self.free().iter().map(|free| free.bytes).sum()
    }

    /// Take a file that was found, if it serves and is wanted.
    pub fn keep(&self, number: SegmentNumber, bytes: u64) -> bool {
        let mut free = self.free();
        let is_kept = bytes == self.wanted_bytes.load(Ordering::Relaxed) && free.len() < self.recycle_segments_max;
        if is_kept {
            free.push(Free { number, bytes, mapping: None });
        }
        is_kept
    }

    /// Make a segment with this header, named by an edit that says `also` and what was not said before; durable when this
    /// returns. `Full`: nothing that counts was changed.
    pub fn make(&self, header: SegmentHeader, also: Option<Op>) -> Result<(Made, Vec<Unsaid>), Failure> {
        let edit = self.edits.begin(3)?;
        let number = header.number;
        let mut recycled = if self.recycles(header.mode) { self.take_free(header.capacity_bytes) } else { None };
        let is_recycled = recycled.is_some();
        let from = recycled.as_ref().map_or(Name::New(number), |free| Name::Free(free.number)).path(&self.dir);
        let retained = recycled.as_mut().and_then(|free| free.mapping.take());
        let made = match self.prepare(&from, is_recycled, retained, &header) {
            Ok(made) => made,
            Err(failure) => {
                // A recycled file stays free; a new one goes, now or when the log is opened again.
                match recycled {
                    Some(free) => self.free().push(free),
                    None => drop(self.io.remove_file(&from)),
                }
                return Err(failure);
            }
        };
        let to = Name::Segment(number).path(&self.dir);
        self.io
            .rename(&from, &to)
            .and_then(|()| self.io.sync_dir(&self.dir))
            .map_err(|e| Failure::fatal(Error::io(format_args!("name {}", to.display()), e)))?;
        let SegmentHeader { base_lsn, durable_lsn, .. } = header;
        let named = [Op::Made { number, kind: SegmentKind::Hot, base_lsn }, Op::Durable(durable_lsn)];
        let said = edit.append(also.into_iter().chain(named))?;
        Ok((made, said))
    }

    /// The file of this size that was kept last.
    fn take_free(&self, bytes: u64) -> Option<Free> {
        let mut free = self.free();
        let at = free.iter().rposition(|free| free.bytes == bytes)?;
        Some(free.remove(at))
    }

    /// Whether one more file of the wanted size may be kept; one of another size makes room for it.
    fn has_room(&self) -> bool {
        let mut free = self.free();
        if free.len() < self.recycle_segments_max {
            return true;
        }
        let wanted_bytes = self.wanted_bytes.load(Ordering::Relaxed);
        let Some(at) = free.iter().position(|free| free.bytes != wanted_bytes) else { return false };
        let unwanted = free.remove(at);
        drop(free);
        // If that fails, it is a left-over of no importance.
        let _ = self.io.remove_file(&Name::Free(unwanted.number).path(&self.dir));
        true
    }

    /// A file with the room and a durable header, not yet part of the log.
    fn prepare(
        &self,
        path: &Path,
        recycled: bool,
        retained: Option<Arc<Mapping>>,
        header: &SegmentHeader,
    ) -> Result<Made, Failure> {
        let mode = OpenMode {
            create: !recycled,
            exclusive: false,
            write: true,
            direct_sync: header.mode == Mode::Direct,
            direct: false,
        };
        // Nothing refers to this file yet, so no room in it is no harm to the log.
        let failed =
            |doing: &str, e: std::io::Error| Failure::before(Error::io(format_args!("{doing} {}", path.display()), e));
        let file = self.io.open(path, mode).map_err(|e| failed("create", e))?;
        file.allocate(header.capacity_bytes).map_err(|e| failed("reserve the room of", e))?;
        let retained = retained.filter(|_| header.mode == Mode::Mapped);
        if recycled && header.mode == Mode::Buffered {
            // A mapped life leaves large pages, which are counted as written whole at each small synced write (`Active::bring_in`).
            file.uncache();
        }
        file.write_at(&header.encode(), 0).map_err(|e| failed("write the header of", e))?;
        file.sync().map_err(|e| Failure::fatal(Error::io(format_args!("sync {}", path.display()), e)))?;
        let mapping = match header.mode {
            Mode::Mapped => Some(map(&*file, retained, header).map_err(|e| failed("map", e))?),
            Mode::Direct | Mode::Buffered => None,
        };
        let ahead = mapping.as_ref().map(|mapping| Arc::new(Ahead::new(mapping, &file, recycled)));
        Ok(Made { header: *header, file, mapping, is_recycled: recycled, ahead })
    }

    /// Let go of what nobody reads any more.
    pub fn clear(&self, disused: Disused) {
        disused.removals.into_iter().for_each(|removal| self.remove(removal));
        for (segment, file) in disused.unmapped {
            drop(segment);
            file.uncache();
        }
    }

    /// Keep the file of a dropped segment for reuse, or remove it. If that fails, it is a left-over of no importance.
    pub fn remove(&self, removal: Removal) {
        let Removal { header, file_bytes, mapping } = removal;
        let path = Name::Segment(header.number).path(&self.dir);
        let bytes = header.capacity_bytes;
        // A footer may have made it longer.
        let cut_off = || {
            let file = self.io.open(&path, OpenMode { write: true, ..OpenMode::READ });
            file.and_then(|file| file.set_len(bytes)).is_ok()
        };
        let is_kept = bytes == self.wanted_bytes.load(Ordering::Relaxed)
            && file_bytes >= bytes
            && self.recycles(header.mode)
            && self.has_room()
            && (file_bytes == bytes || cut_off());
        if !is_kept {
            drop(mapping);
            let _ = self.io.remove_file(&path);
            return;
        }
        if self.io.rename(&path, &Name::Free(header.number).path(&self.dir)).is_ok() {
            let mapping = mapping.filter(|mapping| header.mode == Mode::Mapped && mapping.is_writable());
            self.free().push(Free { number: header.number, bytes, mapping });
        }
    }
}

/// The mapping of a former life, whose pages are there already, or a fresh one.
fn map(file: &dyn File, retained: Option<Arc<Mapping>>, header: &SegmentHeader) -> std::io::Result<Arc<Mapping>> {
    let start = SEGMENT_HEADER_BYTES as u64;
    if let Some(mut mapping) = retained
        && let Some(alone) = Arc::get_mut(&mut mapping)
        && alone.capacity() == header.capacity_bytes
    {
        alone.reset(start)?;
        // Only time is at stake.
        let _ = mapping.advise(0, header.capacity_bytes, Advice::Normal);
        return Ok(mapping);
    }
    file.map(header.capacity_bytes, start, true)
}
