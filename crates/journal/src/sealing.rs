//! What is left to do when a segment is written no more: its footer, for whoever comes first of those who need it, and what its readers
//! go over to. No system call of these is made under the lock of a log that is written through mappings and has threads.
//!
//! The writer only hands over what is to be in the footer. The footer is written before the segment is synced, before the
//! manifest says where it ends, and before anybody reads it; `Full` leaves it out. The file that it was written through is open until the segment
//! is durable, and no longer: a log of thousands of segments has a handful of files open.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use biombo_base::io::{Advice, BLOCK_BYTES, File, Io, IoMode, Mapping, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use crate::failure::unknown;
use crate::footer::encode_footer;
use crate::format::SegmentHeader;
use crate::manifest::{FooterAt, Seal};
use crate::table::Data;
use crate::{Lsn, SegmentNumber};

/// How a segment is read from now on.
pub(crate) enum Readers {
    /// By nobody.
    None,
    /// In the mapping that it was written through, if they still do.
    Mapped(Weak<Mapping>),
    /// Directly, once it is durable, from this file.
    Direct(OnceLock<Arc<dyn File>>),
}

impl Readers {
    /// Those of a segment that has this `data` while it is written.
    pub fn of(io: IoMode, data: &Data) -> Self {
        match (io, data) {
            (IoMode::Mmap, Data::Mapped(mapping)) => Self::Mapped(Arc::downgrade(mapping)),
            (IoMode::Mmap, Data::Direct(_)) => Self::None,
            (IoMode::Direct, _) => Self::Direct(OnceLock::new()),
        }
    }
}

pub(crate) struct Sealing {
    header: SegmentHeader,
    path: PathBuf,
    /// What it was written through, until it is durable.
    file: Mutex<Option<Arc<dyn File>>>,
    end_lsn: Lsn,
    durable_lsn: Lsn,
    /// Where its frames end.
    data_bytes: u64,
    footer: Mutex<Vec<u8>>,
    readers: Readers,
    /// Where all of it ends.
    done: OnceLock<Seal>,
    file_bytes: AtomicU64,
}

impl Sealing {
    /// A segment whose frames end at `data_bytes` and before `end_lsn`, with a footer to be written, unless that is empty.
    pub fn new(
        header: SegmentHeader,
        path: PathBuf,
        file: Arc<dyn File>,
        end: (Lsn, u64),
        durable_lsn: Lsn,
        footer: Vec<u8>,
        readers: Readers,
    ) -> Self {
        let (end_lsn, data_bytes) = end;
        let (footer, done, file_bytes) = (Mutex::new(footer), OnceLock::new(), AtomicU64::new(header.capacity_bytes));
        let file = Mutex::new(Some(file));
        Self { header, path, file, end_lsn, durable_lsn, data_bytes, footer, readers, done, file_bytes }
    }

    pub fn number(&self) -> SegmentNumber {
        self.header.number
    }

    fn file(&self) -> Arc<dyn File> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        file.expect("invariant: it is let go of when the footer is written and all of it is durable")
    }

    /// Make it durable, with its footer. After an error the log's content is unknown.
    pub fn sync(&self) -> Result<()> {
        self.finish()?;
        self.file().sync().map_err(|e| Error::io("sync a sealed segment", e))?;
        self.let_go();
        Ok(())
    }

    /// It is durable, with its footer: the file may be closed.
    pub fn let_go(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Where it ends as far as it is known: with its footer once that is written.
    pub fn seal(&self) -> Seal {
        let open = Seal { end_lsn: self.end_lsn, data_bytes: self.data_bytes, footer: None };
        self.done.get().copied().unwrap_or(open)
    }

    /// The length of its file, which a footer may have made longer.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// Write the footer, unless somebody has. After an error the log's content is unknown.
    pub fn finish(&self) -> Result<Seal> {
        let mut footer = self.footer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seal) = self.done.get() {
            return Ok(*seal);
        }
        let (mut seal, file) = (self.seal(), self.file());
        if !footer.is_empty() {
            let blocks = encode_footer(self.header.seed(), self.end_lsn, self.durable_lsn, &footer);
            let offset = self.data_bytes.next_multiple_of(BLOCK_BYTES as u64);
            match file.write_at(&blocks, offset) {
                Ok(()) => seal.footer = Some(FooterAt { offset, bytes: footer.len() as u32 }),
                Err(e) => {
                    let what = format_args!("write the footer of segment {}", self.header.number);
                    let error = Error::io(what, e);
                    // What `Full` leaves out is only a footer.
                    if error.kind() != ErrorKind::Full {
                        return Err(error);
                    }
                }
            }
        }
        let what = |e| unknown(Error::io(format_args!("seal segment {}", self.header.number), e));
        self.file_bytes.store(file.len().map_err(what)?, Ordering::Relaxed);
        *footer = Vec::new();
        if let Readers::Mapped(mapping) = &self.readers
            && let Some(mapping) = mapping.upgrade()
        {
            read_at_random(&mapping);
            // Only time is at stake.
            let _ = mapping.unmap_pages();
        }
        Ok(*self.done.get_or_init(|| seal))
    }

    /// It is durable: if it is to be read directly, open it for that. A failure leaves that to who needs it.
    pub fn open_for_readers(&self, io: &dyn Io) {
        if let Readers::Direct(opened) = &self.readers
            && let Ok(file) = io.open(&self.path, OpenMode::READ_DIRECT)
        {
            // Whoever was first opened the same file.
            let _ = opened.set(file);
        }
    }

    /// The file, if it is [open](Self::open_for_readers) for direct reads.
    pub fn opened(&self) -> Option<Arc<dyn File>> {
        match &self.readers {
            Readers::Direct(opened) => opened.get().cloned(),
            Readers::None | Readers::Mapped(_) => None,
        }
    }

    /// Give back the room behind its end, if it is worth it, once the manifest says where that is: it is not written again.
    pub fn shorten(&self, io: &dyn Io) {
        let (end, bytes) = (self.seal().end_bytes(), self.file_bytes());
        if let Some(bytes) = shorten(io, &self.path, end, bytes) {
            self.file_bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

/// What memory pressure takes of a mapping is read back record by record: where a record is not in memory, it is read with what lies in
/// its pages, no more.
pub(crate) fn read_at_random(mapping: &Mapping) {
    // Only time is at stake.
    let _ = mapping.advise(0, mapping.capacity(), Advice::Random);
}

/// Cut a file of `bytes` behind its `end` if that gives back a good part of it; returns its new length then.
pub(crate) fn shorten(io: &dyn Io, path: &Path, end: u64, bytes: u64) -> Option<u64> {
    let end = end.next_multiple_of(BLOCK_BYTES as u64);
    if end + bytes / 4 > bytes {
        return None;
    }
    // Only room is at stake: a failure leaves the file as long as it was.
    let mode = OpenMode { write: true, ..OpenMode::READ };
    io.open(path, mode).and_then(|file| file.set_len(end)).is_ok().then_some(end)
}
