//! Segments written apart from the log's order: copies of records that are moved.
//!
//! After a crash while one is written, or before it is installed, a `.new` is left, which opening removes; in the middle of installing it, a
//! `.seg` that the manifest does not name, which opening removes too. It is complete and synced before it gets that name, and has it, durably,
//! before the manifest says so; both under the same hold of the manifest, as all names in the directory.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::io::{File, Io, OpenMode};
use biombo_base::{Error, Result};

use crate::failure::Failure;
use crate::footer::encode_footer;
use crate::format::{
    FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader, record_bytes,
};
use crate::frame::{encode_record, length};
use crate::log::Parts;
use crate::manifest::{FooterAt, Seal};
use crate::names::Name;
use crate::recovery::Found;
use crate::{BATCH_BYTES_MAX, Lsn, Mode, Position, SegmentKind, SegmentNumber};

/// A frame is written when it has so many bytes.
const FRAME_BYTES: usize = 256 << 10;

/// Writes a cold segment; from [`Log::cold_writer`](crate::Log::cold_writer). Dropped unfinished, it leaves nothing.
pub struct ColdWriter {
    unnamed: Unnamed,
    file: Arc<dyn File>,
    id: u64,
    seed: u32,
    /// The frame that is gathered, and what its header will say.
    frame: Vec<u8>,
    headers_crc: u32,
    frame_records: u32,
    /// Where it begins.
    offset: u64,
    next_lsn: Lsn,
}

/// A finished cold segment, durable, for [`Log::install`](crate::Log::install). Dropped without that, it leaves nothing.
#[derive(Debug)]
pub struct ColdSegment {
    unnamed: Unnamed,
    pub(crate) found: Found,
}

/// A file that the manifest does not name: it goes with its owner.
struct Unnamed {
    io: Arc<dyn Io>,
    dir: PathBuf,
    number: SegmentNumber,
    path: Option<PathBuf>,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed now is when the log is opened again.
            let _ = self.io.remove_file(path);
        }
    }
}

impl ColdWriter {
    pub(crate) fn create(io: Arc<dyn Io>, dir: PathBuf, number: SegmentNumber) -> Result<Self> {
        let path = Name::New(number).path(&dir);
        let file =
            io.open(&path, OpenMode::WRITE).map_err(|e| Error::io(format_args!("create {}", path.display()), e))?;
        let id = io.random_u64();
        let seed = biombo_base::checksum::crc32c(&id.to_le_bytes());
        Ok(Self {
            unnamed: Unnamed { io, dir, number, path: Some(path) },
            file,
            id,
            seed,
            frame: vec![0; FRAME_HEADER_BYTES],
            headers_crc: 0,
            frame_records: 0,
            offset: SEGMENT_HEADER_BYTES as u64,
            next_lsn: Lsn::FIRST,
        })
    }

    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.unnamed.number
    }

    /// Bytes so far, the header included.
    pub fn bytes(&self) -> u64 {
        self.offset + self.frame.len() as u64
    }

    /// Append a record; returns the position that it will have.
    ///
    /// `Invalid` when the segment would become larger than [`BATCH_BYTES_MAX`]. After `Full` or any other error the writer
    /// is of no use; drop it, and the log is as before.
    pub fn append(&mut self, record: Parts<'_>) -> Result<Position> {
        let bytes = record_bytes(length(record).min(BATCH_BYTES_MAX));
        if self.bytes() as usize + bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid("a cold segment has no room for this record"));
        }
        let at = u32::try_from(self.bytes()).ok().and_then(|at| Position::new(self.number(), at));
        let at = at.expect("invariant: records are aligned and a segment is smaller than 4 GiB");
        let start = self.frame.len();
        self.frame.resize(start + bytes, 0);
        encode_record(&mut self.frame[start..], record, self.seed, &mut self.headers_crc);
        self.frame_records += 1;
        if self.frame.len() >= FRAME_BYTES {
            self.write_frame()?;
        }
        Ok(at)
    }

    fn write_frame(&mut self) -> Result<()> {
        if self.frame_records == 0 {
            return Ok(());
        }
        let header = FrameHeader {
            flags: FLAG_LAST_OF_WRITE,
            headers_crc: self.headers_crc,
            payload_bytes: (self.frame.len() - FRAME_HEADER_BYTES) as u32,
            record_count: self.frame_records,
            first_lsn: self.next_lsn,
            durable_lsn: Lsn::FIRST,
        };
        header.encode(self.seed, &mut self.frame);
        self.file.write_at(&self.frame, self.offset).map_err(|e| self.failed("write", e))?;
        self.offset += self.frame.len() as u64;
        self.next_lsn = header.end_lsn();
        self.frame.truncate(FRAME_HEADER_BYTES);
        (self.headers_crc, self.frame_records) = (0, 0);
        Ok(())
    }

    /// Complete it with a footer (none, if empty) and make it durable. Errors as for [`append`](Self::append).
    pub fn finish(mut self, footer: &[u8]) -> Result<ColdSegment> {
        self.write_frame()?;
        let mut seal = Seal { end_lsn: self.next_lsn, data_bytes: self.offset, footer: None };
        if !footer.is_empty() {
            let offset = self.offset.next_multiple_of(biombo_base::io::BLOCK_BYTES as u64);
            let blocks = encode_footer(self.seed, self.next_lsn, Lsn::FIRST, footer);
            self.file.write_at(&blocks, offset).map_err(|e| self.failed("write", e))?;
            seal.footer = Some(FooterAt { offset, bytes: footer.len() as u32 });
        }
        let (number, id) = (self.number(), self.id);
        let file_bytes = self.file.len().map_err(|e| self.failed("finish", e))?.max(SEGMENT_HEADER_BYTES as u64);
        let header = SegmentHeader {
            id,
            number,
            base_lsn: Lsn::FIRST,
            capacity_bytes: file_bytes,
            mode: Mode::Buffered,
            kind: SegmentKind::Cold,
            durable_lsn: Lsn::FIRST,
        };
        self.file.write_at(&header.encode(), 0).map_err(|e| self.failed("write", e))?;
        self.file.sync().map_err(|e| self.failed("sync", e))?;
        let found = Found { header, seal, file_bytes, unsettled: None };
        Ok(ColdSegment { unnamed: self.unnamed, found })
    }

    fn failed(&self, doing: &str, e: std::io::Error) -> Error {
        Error::io(format_args!("{doing} {}", Name::New(self.number()).path(&self.unnamed.dir).display()), e)
    }
}

impl ColdSegment {
    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.unnamed.number
    }

    /// The length of its file.
    pub fn bytes(&self) -> u64 {
        self.found.file_bytes
    }

    /// Give it its name, durably, before the manifest names it. Nobody else gives names in the directory meanwhile: when that cannot be made
    /// durable, theirs may be lost with it, and no other sync would say so.
    pub(crate) fn name(&mut self) -> Result<(), Failure> {
        let Unnamed { io, dir, number, path } = &mut self.unnamed;
        let (from, to) = (Name::New(*number).path(dir), Name::Segment(*number).path(dir));
        let failed = |e| Error::io(format_args!("name {}", to.display()), e);
        io.rename(&from, &to).map_err(|e| Failure::before(failed(e)))?;
        *path = Some(to.clone());
        io.sync_dir(dir).map_err(|e| Failure::fatal(failed(e)))
    }

    pub(crate) fn installed(mut self) {
        self.unnamed.path = None;
    }
}

impl std::fmt::Debug for Unnamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.number)
    }
}

impl std::fmt::Debug for ColdWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColdWriter({}, {} bytes)", self.number(), self.bytes())
    }
}
