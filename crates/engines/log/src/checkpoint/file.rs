//! The file of a checkpoint: a header, the chunks of the index's image, and a tail that says what of the log it covers.
//!
//! All of it is checked before any of it is used; chunks are checked once more when they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{BLOCK_BYTES, File, Io, OpenMode};
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{Lsn, SegmentInfo, SegmentKind, SegmentNumber};

use crate::accounts::{Accounts, Content};
use crate::index::{CHUNK_BYTES, Header, Index, Loader};

const MAGIC: &[u8; 8] = b"BIOMBOCP";
const VERSION: u32 = 1;
/// Bytes of the header that carry something, its checksum the last of them.
const HEADER_BYTES: usize = 48;
/// Bytes of the tail before the segments, and of each of those.
const TAIL_BYTES: usize = 24;
const LISTED_BYTES: usize = 96;
/// More is no tail.
const TAIL_BYTES_MAX: u64 = 1 << 30;

/// Where chunk `number` begins.
pub(crate) fn chunk_at(number: usize) -> u64 {
    (BLOCK_BYTES + number * CHUNK_BYTES) as u64
}

/// The file of checkpoint `number`, and its name while it is written.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.index"))
}

/// See [`path`].
pub(crate) fn path_new(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.index-new"))
}

/// Numbers of the files whose name ends in `ending`, ascending.
pub(crate) fn numbers(io: &dyn Io, dir: &Path, ending: &str) -> Result<Vec<u64>> {
    let names = io.read_dir(dir).map_err(|e| Error::io(format_args!("list {}", dir.display()), e))?;
    let parse = |path: &PathBuf| {
        let stem = path.file_name()?.to_str()?.strip_suffix(ending)?;
        u64::from_str_radix(stem, 16).ok().filter(|number| format!("{number:016x}") == stem)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(parse).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the newest checkpoint in `dir`, whatever it is worth.
pub(crate) fn newest(io: &dyn Io, dir: &Path) -> Result<Option<u64>> {
    if !io.exists(dir).map_err(|e| Error::io(format_args!("look at {}", dir.display()), e))? {
        return Ok(None);
    }
    Ok(numbers(io, dir, ".index")?.pop())
}

/// A segment as a checkpoint knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub kind: SegmentKind,
    pub base_lsn: Lsn,
    pub end_lsn: Lsn,
    pub data_bytes: u64,
    pub content: Content,
}

/// What a checkpoint says beside the index.
#[derive(Debug, Clone)]
pub(crate) struct Covered {
    /// All records of the log before this are covered.
    pub lsn: Lsn,
    /// The number of the last of them.
    pub seq: u64,
    pub segments: BTreeMap<SegmentNumber, Listed>,
}

/// A checkpoint whose checksums hold.
pub(crate) struct Checkpoint {
    pub path: PathBuf,
    pub lsn: Lsn,
    pub seq: u64,
    pub segments: BTreeMap<SegmentNumber, Listed>,
    header: Header,
    file: Arc<dyn File>,
}

impl Covered {
    pub fn new(lsn: Lsn, seq: u64, infos: &[SegmentInfo], accounts: &Accounts) -> Self {
        let listed = |info: &SegmentInfo| {
            let SegmentInfo { kind, base_lsn, end_lsn, data_bytes, .. } = *info;
            (info.number, Listed { kind, base_lsn, end_lsn, data_bytes, content: accounts.content(info.number) })
        };
        Self { lsn, seq, segments: infos.iter().map(listed).collect() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; TAIL_BYTES + self.segments.len() * LISTED_BYTES];
        put_u64(&mut bytes, 0, self.lsn.0);
        put_u64(&mut bytes, 8, self.seq);
        put_u32(&mut bytes, 16, self.segments.len() as u32);
        for ((number, listed), bytes) in self.segments.iter().zip(bytes[TAIL_BYTES..].chunks_exact_mut(LISTED_BYTES)) {
            put_u32(bytes, 0, number.0);
            put_u32(bytes, 4, u32::from(listed.kind == SegmentKind::Cold));
            let Content {
                live,
                stored,
                first_seq,
                last_seq,
                tombstones,
                oldest_tombstone,
                youngest_tombstone,
                logical,
            } = listed.content;
            let content =
                [live, stored, first_seq, last_seq, tombstones, oldest_tombstone, youngest_tombstone, logical];
            let place = [listed.base_lsn.0, listed.end_lsn.0, listed.data_bytes];
            for (i, number) in place.into_iter().chain(content).enumerate() {
                put_u64(bytes, 8 + i * 8, number);
            }
        }
        bytes
    }

    /// What it says, and where the header of the image begins.
    fn decode(tail: &[u8]) -> Option<(Self, usize)> {
        let (lsn, seq) = (Lsn(get_u64(tail, 0)?), get_u64(tail, 8)?);
        let count = get_u32(tail, 16)? as usize;
        let end = count.checked_mul(LISTED_BYTES)?.checked_add(TAIL_BYTES)?;
        let mut segments = BTreeMap::new();
        for bytes in tail.get(TAIL_BYTES..end)?.chunks_exact(LISTED_BYTES) {
            let number = |at: usize| get_u64(bytes, 8 + at * 8);
            let kind = match get_u32(bytes, 4)? {
                0 => SegmentKind::Hot,
                1 => SegmentKind::Cold,
                _ => return None,
            };
            let content = Content {
                live: number(3)?,
                stored: number(4)?,
                first_seq: number(5)?,
                last_seq: number(6)?,
                tombstones: number(7)?,
                oldest_tombstone: number(8)?,
                youngest_tombstone: number(9)?,
                logical: number(10)?,
            };
            let (base_lsn, end_lsn, data_bytes) = (Lsn(number(0)?), Lsn(number(1)?), number(2)?);
            let listed = Listed { kind, base_lsn, end_lsn, data_bytes, content };
            segments.insert(SegmentNumber(get_u32(bytes, 0)?), listed);
        }
        Some((Self { lsn, seq, segments }, end))
    }
}

/// The header and the tail of the file, and where the tail goes; the chunks are behind the header already.
pub(crate) fn encode(number: u64, covered: &Covered, image: &Header) -> (Vec<u8>, Vec<u8>, u64) {
    let mut tail = covered.encode();
    tail.extend_from_slice(&image.encode());
    let tail_at = chunk_at(image.chunks());
    let mut header = vec![0; BLOCK_BYTES];
    header[..8].copy_from_slice(MAGIC);
    put_u32(&mut header, 8, VERSION);
    put_u64(&mut header, 16, number);
    put_u64(&mut header, 24, tail_at);
    put_u64(&mut header, 32, tail.len() as u64);
    put_u32(&mut header, 40, crc32c(&tail));
    let crc = crc32c(&header[..HEADER_BYTES - 4]);
    put_u32(&mut header, HEADER_BYTES - 4, crc);
    (header, tail, tail_at)
}

/// Check the file of checkpoint `number` from end to end.
pub(crate) fn check(io: &dyn Io, dir: &Path, number: u64) -> Result<()> {
    Checkpoint::read(io, dir, number).map(|_| ())
}

impl Checkpoint {
    /// Read and check checkpoint `number`. `Corruption` when it is not as it was written.
    pub fn read(io: &dyn Io, dir: &Path, number: u64) -> Result<Self> {
        let path = path(dir, number);
        let failed = |e| Error::io(format_args!("read {}", path.display()), e);
        let damaged = |at: u64, what: &str| Error::corruption(&path, at, format!("a checkpoint of the index: {what}"));
        let file = io.open(&path, OpenMode::READ).map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        let got = file.read_at(&mut header, 0).map_err(failed)?;
        let crc = get_u32(&header, HEADER_BYTES - 4);
        if got < HEADER_BYTES || header[..8] != *MAGIC || crc != Some(crc32c(&header[..HEADER_BYTES - 4])) {
            return Err(damaged(0, "its header is damaged"));
        }
        if get_u32(&header, 8) != Some(VERSION) {
            return Err(Error::new(ErrorKind::Unsupported, format!("{} is of another version", path.display())));
        }
        let field = |at| get_u64(&header, at).unwrap_or(0);
        let (tail_at, tail_bytes) = (field(24), field(32));
        if field(16) != number || tail_bytes > TAIL_BYTES_MAX {
            return Err(damaged(16, "it is another one's"));
        }
        let mut tail = vec![0; tail_bytes as usize];
        let got = file.read_at(&mut tail, tail_at).map_err(failed)?;
        if got < tail.len() || get_u32(&header, 40) != Some(crc32c(&tail)) {
            return Err(damaged(tail_at, "its tail is damaged"));
        }
        let Some((covered, image_at)) = Covered::decode(&tail) else {
            return Err(damaged(tail_at, "its tail contradicts itself"));
        };
        let image = Header::decode(&tail[image_at..]).map_err(|e| damaged(tail_at, e.message()))?;
        if tail_at != chunk_at(image.chunks()) {
            return Err(damaged(24, "its tail is not behind its chunks"));
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        for number in 0..image.chunks() {
            let got = file.read_at(&mut chunk, chunk_at(number)).map_err(failed)?;
            if !image.is_chunk(number, &chunk[..got]) {
                return Err(damaged(chunk_at(number), "a chunk is damaged"));
            }
        }
        let Covered { lsn, seq, segments } = covered;
        Ok(Self { path, lsn, seq, segments, header: image, file })
    }

    /// Whether a sealed segment has nothing that is not covered.
    pub fn covers(&self, info: &SegmentInfo) -> bool {
        self.segments.contains_key(&info.number) && (info.kind == SegmentKind::Cold || info.end_lsn <= self.lsn)
    }

    /// The segments that it lists and a log, which ends at `next_lsn` and has `segments`, no longer has. `Corruption` when it is of
    /// another log or of another time.
    pub fn fit(&self, next_lsn: Lsn, segments: &[SegmentInfo]) -> Result<BTreeSet<SegmentNumber>> {
        let misfit = |what: String| Error::corruption(&self.path, 0, what);
        if next_lsn < self.lsn {
            return Err(misfit(format!("it covers records to {}, and the log ends at {next_lsn}", self.lsn)));
        }
        let mut gone: BTreeSet<_> = self.segments.keys().copied().collect();
        for info in segments {
            let Some(listed) = self.segments.get(&info.number) else {
                if info.kind == SegmentKind::Hot && info.base_lsn < self.lsn && info.end_lsn > info.base_lsn {
                    return Err(misfit(format!(
                        "segment {} has records that it covers, and is not listed",
                        info.number
                    )));
                }
                continue;
            };
            gone.remove(&info.number);
            let grown = info.end_lsn >= listed.end_lsn && info.data_bytes >= listed.data_bytes;
            if (info.kind, info.base_lsn) != (listed.kind, listed.base_lsn) || !grown {
                return Err(misfit(format!("segment {} is not as it is listed", info.number)));
            }
        }
        Ok(gone)
    }

    /// Bytes of the image.
    pub fn image_bytes(&self) -> u64 {
        (self.header.chunks() * CHUNK_BYTES) as u64
    }

    /// The index as it was, whose chunks are loaded when they are needed.
    pub fn into_index(self) -> Index {
        let loader = Chunks { path: self.path, file: self.file };
        Index::from_image(self.header, Box::new(loader))
    }
}

/// The chunks in the file, which stays readable when another checkpoint takes its place.
struct Chunks {
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Loader for Chunks {
    fn load(&self, number: usize, bytes: &mut [u8]) -> Result<()> {
        let read = self.file.read_at(bytes, chunk_at(number));
        // What is missing at the end has a wrong checksum.
        read.map(|_| ()).map_err(|e| Error::io(format_args!("read {}", self.path.display()), e))
    }

    fn place(&self, number: usize) -> (PathBuf, u64) {
        (self.path.clone(), chunk_at(number))
    }
}
