//! A static graph as a file, `graph.csr` in the graph's directory. Format: `docs/format/graph-csr.md`.
//!
//! Invariants:
//! 1. The file appears under its name by one rename, when all of it is written and synced.
//! 2. Every byte that means something is covered by a checksum; what was read is compared before it is used. Padding means nothing.
//!
//! Crash argument: before the rename is durable, the directory has the graph that was there before, or none; after it, the new
//! one. What an interrupted `save` leaves under `graph.csr.new` is overwritten by the next one and read by nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{File, Io, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use super::{Adjacency, Csr};
use crate::VERTICES_MAX;
use crate::ids::Ids;
use crate::media::{Array, Plain};
use crate::view::View;

const MAGIC: &[u8; 8] = b"BIOMBOGR";
const VERSION: u32 = 1;
const NAME: &str = "graph.csr";
const NAME_NEW: &str = "graph.csr.new";

/// The header, and what sections are padded to.
const HEADER_BYTES: usize = 4096;

/// How much is written and read at once; a multiple of 8.
const CHUNK_BYTES: usize = 1 << 20;

const FLAG_DIRECTED: u32 = 1;
const FLAG_IDS: u32 = 2;

/// The sections, in their order in the file: ids, offsets and targets outward, offsets and targets inward.
const SECTIONS: usize = 5;

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    flags: u32,
    vertices: u64,
    edges: u64,
    checksums: [u32; SECTIONS],
}

impl Header {
    /// How many elements a section has and how many bytes one has.
    fn section(&self, section: usize) -> (u64, u64) {
        let (is_directed, has_ids) = (self.flags & FLAG_DIRECTED != 0, self.flags & FLAG_IDS != 0);
        match section {
            0 => (if has_ids { self.vertices } else { 0 }, 8),
            1 => (self.vertices + 1, 8),
            2 => (self.edges, 4),
            3 => (if is_directed { self.vertices + 1 } else { 0 }, 8),
            _ => (if is_directed { self.edges } else { 0 }, 4),
        }
    }

    /// Where a section begins, in bytes; past the last one, the length of the file.
    fn offset(&self, section: usize) -> u64 {
        (0..section).fold(HEADER_BYTES as u64, |offset, section| {
            let (count, bytes) = self.section(section);
            (offset + count * bytes).next_multiple_of(HEADER_BYTES as u64)
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, self.flags);
        put_u64(&mut bytes, 16, self.vertices);
        put_u64(&mut bytes, 24, self.edges);
        self.checksums.iter().zip(0..).for_each(|(checksum, at)| put_u32(&mut bytes, 32 + 4 * at, *checksum));
        let checksum = crc32c(&bytes[..HEADER_BYTES - 4]);
        put_u32(&mut bytes, HEADER_BYTES - 4, checksum);
        bytes
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |at: u64, what: &str| Error::corruption(path, at, what);
        if bytes.len() < HEADER_BYTES {
            return Err(damaged(bytes.len() as u64, "the file is shorter than its header"));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(damaged(0, "this is no graph of biombo"));
        }
        let version = get_u32(bytes, 8).unwrap_or_default();
        if version != VERSION {
            let path = path.display();
            let message =
                format!("{path} has version {version} of its format, this program knows {VERSION}: use a newer one");
            return Err(Error::unsupported(message));
        }
        if get_u32(bytes, HEADER_BYTES - 4) != Some(crc32c(&bytes[..HEADER_BYTES - 4])) {
            return Err(damaged(0, "the header's checksum does not fit"));
        }
        let mut checksums = [0; SECTIONS];
        checksums.iter_mut().zip(0..).for_each(|(sum, at)| *sum = get_u32(bytes, 32 + 4 * at).unwrap_or_default());
        let number = |at| get_u64(bytes, at).unwrap_or_default();
        let flags = get_u32(bytes, 12).unwrap_or_default();
        let header = Self { flags, vertices: number(16), edges: number(24), checksums };
        // Small enough that no sum of sections overflows.
        if header.vertices > VERTICES_MAX as u64 || header.edges > 1 << 56 || flags > FLAG_DIRECTED | FLAG_IDS {
            return Err(damaged(12, "the header's counts are impossible"));
        }
        Ok(header)
    }
}

/// Whether `dir` has a static graph.
///
/// # Errors
/// `Io`.
pub fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
    let path = dir.join(NAME);
    io.exists(&path).map_err(|e| Error::io(format_args!("look for {}", path.display()), e))
}

/// Save `graph` with its vertices' `ids` in `dir`, which is created, in the place of what was there. It is durable when this returns.
///
/// # Errors
/// `Full`, `Io`: the graph that was there before is still there. `Invalid` when there are not as many ids as vertices.
pub fn save(io: &dyn Io, dir: &Path, graph: &Csr, ids: &Ids) -> Result<()> {
    if ids.len() != graph.vertices() {
        return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), graph.vertices())));
    }
    let (path, aside) = (dir.join(NAME), dir.join(NAME_NEW));
    let refused = |e| Error::io(format_args!("write {}", aside.display()), e);
    create_dir(io, dir)?;
    let written = || -> Result<()> {
        let file = io.open(&aside, OpenMode::WRITE).map_err(refused)?;
        file.set_len(0).map_err(refused)?;
        write(&*file, graph, ids).map_err(refused)?;
        file.sync().map_err(refused)
    };
    if let Err(error) = written() {
        // Nobody reads it; it only takes room.
        let _ = io.remove_file(&aside);
        return Err(error);
    }
    io.rename(&aside, &path).map_err(refused)?;
    io.sync_dir(dir).map_err(refused)
}

/// Create a directory and its parents, their names durable.
fn create_dir(io: &dyn Io, dir: &Path) -> Result<()> {
    let refused = |e| Error::io(format_args!("create {}", dir.display()), e);
    let mut parents = Vec::new();
    for parent in dir.ancestors().skip(1) {
        // A name is synced even when it is there: who made it may have died before syncing.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        parents.push(parent);
        if io.exists(parent).map_err(refused)? {
            break;
        }
    }
    io.create_dir_all(dir).map_err(refused)?;
    parents.iter().rev().try_for_each(|parent| io.sync_dir(parent)).map_err(refused)
}

fn write(file: &dyn File, graph: &Csr, ids: &Ids) -> std::io::Result<()> {
    let mut flags = 0;
    flags |= if graph.is_directed() { FLAG_DIRECTED } else { 0 };
    flags |= if ids.are_dense() { 0 } else { FLAG_IDS };
    let (vertices, edges) = (graph.vertices() as u64, graph.edges());
    let mut header = Header { flags, vertices, edges, checksums: [0; SECTIONS] };
    header.checksums[0] = put(file, header.offset(0), ids.table())?;
    for (adjacency, section) in [Some(&graph.out), graph.inward.as_ref()].into_iter().zip([1, 3]) {
        if let Some(adjacency) = adjacency {
            header.checksums[section] = put(file, header.offset(section), &adjacency.offsets)?;
            header.checksums[section + 1] = put(file, header.offset(section + 1), &adjacency.targets)?;
        }
    }
    file.set_len(header.offset(SECTIONS))?;
    file.write_at(&header.encode(), 0)
}

/// A number as it stands in the file.
trait Stored: Plain + Copy {
    const BYTES: usize;
    fn put(self, bytes: &mut [u8]);
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! stored {
    ($($type:ty),*) => { $(impl Stored for $type {
        const BYTES: usize = size_of::<$type>();
        fn put(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
        fn get(bytes: &[u8]) -> Self {
            Self::from_le_bytes(*bytes.first_chunk().expect("invariant: a chunk of its size"))
        }
    })* };
}
stored!(u32, u64);

/// Write a section; its checksum.
fn put<T: Stored>(file: &dyn File, mut offset: u64, items: &[T]) -> std::io::Result<u32> {
    let (mut checksum, mut bytes) = (0, Vec::new());
    for chunk in items.chunks(CHUNK_BYTES / T::BYTES) {
        bytes.resize(chunk.len() * T::BYTES, 0);
        bytes.chunks_exact_mut(T::BYTES).zip(chunk).for_each(|(bytes, item)| item.put(bytes));
        checksum = crc32c_append(checksum, &bytes);
        file.write_at(&bytes, offset)?;
        offset += bytes.len() as u64;
    }
    Ok(checksum)
}

/// The graph in `dir`, read into memory, and the ids of its vertices. Everything is checked. O(vertices + edges).
///
/// # Errors
/// `NotFound` where there is none, `Unsupported` for one of a newer version, `Corruption` with the file, the offset and what is wrong,
/// `Io`.
pub fn open(io: &dyn Io, dir: &Path) -> Result<(Csr, Ids)> {
    let path = dir.join(NAME);
    let file = match io.open(&path, OpenMode::READ) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("there is no graph in {}: `biombo graph load` makes one", dir.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Err(e) => return Err(Error::io(format_args!("open {}", path.display()), e)),
    };
    Reader { path, file }.read()
}

struct Reader {
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Reader {
    fn read(&self) -> Result<(Csr, Ids)> {
        let length = self.file.len().map_err(|e| self.refused(e))?;
        let mut bytes = vec![0; HEADER_BYTES.min(length as usize)];
        self.fill(&mut bytes, 0)?;
        let header = Header::decode(&self.path, &bytes)?;
        if length != header.offset(SECTIONS) {
            let what = format!("the file has {length} bytes, and {} by its header", header.offset(SECTIONS));
            return Err(Error::corruption(&self.path, length, what));
        }
        let vertices = header.vertices as usize;
        let ids = if header.flags & FLAG_IDS == 0 {
            Ids::dense(vertices)
        } else {
            let table = self.section::<u64>(&header, 0)?;
            Ids::ascending(table.to_vec()).ok_or_else(|| self.wrong(&header, 0, "the ids do not ascend"))?
        };
        let out = self.adjacency(&header, 1)?;
        let inward = match header.flags & FLAG_DIRECTED {
            0 => None,
            _ => Some(self.adjacency(&header, 3)?),
        };
        Ok((Csr::new(out, inward), ids))
    }

    /// Offsets and targets from two sections on.
    fn adjacency(&self, header: &Header, section: usize) -> Result<Adjacency> {
        let offsets = self.section::<u64>(header, section)?;
        let targets = self.section::<u32>(header, section + 1)?;
        let is_whole = offsets.first() == Some(&0) && offsets.last() == Some(&header.edges) && offsets.is_sorted();
        if !is_whole {
            return Err(self.wrong(header, section, "the offsets of lists do not ascend to the number of edges"));
        }
        let lists = offsets.windows(2).map(|pair| &targets[pair[0] as usize..pair[1] as usize]);
        let is_sound = |list: &[u32]| {
            list.windows(2).all(|pair| pair[0] < pair[1])
                && list.last().is_none_or(|last| u64::from(*last) < header.vertices)
        };
        if !lists.into_iter().all(is_sound) {
            return Err(self.wrong(
                header,
                section + 1,
                "a list of neighbours does not ascend below the number of vertices",
            ));
        }
        Ok(Adjacency { offsets, targets })
    }

    fn section<T: Stored>(&self, header: &Header, section: usize) -> Result<Array<T>> {
        let mut items = Array::<T>::zeroed(header.section(section).0 as usize)?;
        let (mut offset, mut checksum) = (header.offset(section), 0);
        let mut bytes = vec![0; CHUNK_BYTES];
        for chunk in items.chunks_mut(CHUNK_BYTES / T::BYTES) {
            let bytes = &mut bytes[..chunk.len() * T::BYTES];
            self.fill(bytes, offset)?;
            checksum = crc32c_append(checksum, bytes);
            chunk.iter_mut().zip(bytes.chunks_exact(T::BYTES)).for_each(|(item, bytes)| *item = T::get(bytes));
            offset += bytes.len() as u64;
        }
        if checksum != header.checksums[section] {
            return Err(self.wrong(header, section, "the checksum of this section does not fit"));
        }
        Ok(items)
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_at(bytes, offset).map_err(|e| self.refused(e))?;
        if read < bytes.len() {
            return Err(Error::corruption(&self.path, offset + read as u64, "the file ends here"));
        }
        Ok(())
    }

    fn wrong(&self, header: &Header, section: usize, what: &str) -> Error {
        Error::corruption(&self.path, header.offset(section), what)
    }

    fn refused(&self, error: std::io::Error) -> Error {
        Error::io(format_args!("read {}", self.path.display()), error)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
