//! The sections of a graph's file, written and read.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::checksum::crc32c_append;
use biombo_base::io::File;
use biombo_base::{Error, Result};

use super::header::{FLAG_DIRECTED, FLAG_IDS, FLAG_LOOPS, HEADER_BYTES, Header, Kind, SECTIONS};
use crate::csr::{Adjacency, Csr};
use crate::ids::Ids;
use crate::media::persistent::Region;
use crate::media::{Array, Numbers, Plain};
use crate::view::{Lists, View};

/// How much is written and read at once, at most; a multiple of 8.
const CHUNK_BYTES: usize = 1 << 20;
/// How much of a section is written first.
const FIRST_CHUNK_BYTES: usize = 4096;

/// A number as it stands in the file.
pub(super) trait Stored: Plain + Copy {
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

/// What a graph's bytes are written to: a file, or a region of persistent memory.
pub(crate) trait Target {
    fn store_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()>;
    /// It has so many bytes, zeros where nothing was written.
    fn set_length(&mut self, bytes: u64) -> std::io::Result<()>;
}

/// What they are read from.
pub(crate) trait Source {
    fn length(&self) -> std::io::Result<u64>;
    /// Fewer bytes than `bytes` has only at the end. Returns the count.
    fn load_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize>;
    /// What there is, if it may be read where it is for as long as somebody likes.
    fn region(&self) -> Option<&Arc<dyn Region>> {
        None
    }
}

impl Target for Arc<dyn File> {
    fn store_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.write_at(bytes, offset)
    }

    fn set_length(&mut self, bytes: u64) -> std::io::Result<()> {
        self.set_len(bytes)
    }
}

impl Source for Arc<dyn File> {
    fn length(&self) -> std::io::Result<u64> {
        self.len()
    }

    fn load_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.read_at(bytes, offset)
    }
}

/// Lines are written back as they are stored; who has the region fences.
impl Target for Box<dyn Region> {
    fn store_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.store(offset, bytes);
        self.write_back(offset, bytes.len() as u64);
        Ok(())
    }

    fn set_length(&mut self, bytes: u64) -> std::io::Result<()> {
        debug_assert_eq!(bytes, self.bytes().len() as u64, "a region was made as long as its graph");
        Ok(())
    }
}

impl Source for Box<dyn Region> {
    fn length(&self) -> std::io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn load_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        load_from(self.bytes(), bytes, offset)
    }
}

/// A region that others read too, and nobody changes.
impl Source for Arc<dyn Region> {
    fn length(&self) -> std::io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn load_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        load_from(self.bytes(), bytes, offset)
    }

    fn region(&self) -> Option<&Arc<dyn Region>> {
        // The file's numbers are little-endian.
        cfg!(target_endian = "little").then_some(self)
    }
}

fn load_from(region: &[u8], bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let rest = region.get(offset as usize..).unwrap_or_default();
    let count = rest.len().min(bytes.len());
    bytes[..count].copy_from_slice(&rest[..count]);
    Ok(count)
}

/// Write a section; its checksum.
pub(super) fn put<T: Stored>(
    target: &mut dyn Target,
    mut offset: u64,
    items: impl Iterator<Item = T>,
) -> std::io::Result<u32> {
    let (mut checksum, mut bytes) = (0, Vec::new());
    let mut items = items.peekable();
    while items.peek().is_some() {
        // Small graphs need no large buffer.
        bytes.resize((bytes.len() * 16).clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES), 0);
        let mut filled = 0;
        for (place, item) in bytes.chunks_exact_mut(T::BYTES).zip(&mut items) {
            item.put(place);
            filled += T::BYTES;
        }
        checksum = crc32c_append(checksum, &bytes[..filled]);
        target.store_at(&bytes[..filled], offset)?;
        offset += filled as u64;
    }
    Ok(checksum)
}

/// How many bytes all of a graph is, with ids or without.
pub(crate) fn length<V: View>(view: &V, has_ids: bool) -> u64 {
    header(view, has_ids, false, 0).offset(SECTIONS)
}

fn header<V: View>(view: &V, has_ids: bool, keeps_loops: bool, applied: u64) -> Header {
    let mut flags = 0;
    flags |= if view.is_directed() { FLAG_DIRECTED } else { 0 };
    flags |= if has_ids { FLAG_IDS } else { 0 };
    flags |= if keeps_loops { FLAG_LOOPS } else { 0 };
    let (vertices, edges) = (view.vertices() as u64, view.edges());
    Header { flags, vertices, edges, checksums: [0; SECTIONS], applied }
}

/// Write all of a graph; `ids` where they are not dense.
pub(crate) fn write<V: View>(
    target: &mut dyn Target,
    kind: &Kind,
    view: &V,
    ids: Option<&mut dyn Iterator<Item = u64>>,
    keeps_loops: bool,
    applied: u64,
) -> std::io::Result<()> {
    let (vertices, mut header) = (view.vertices(), header(view, ids.is_some(), keeps_loops, applied));
    if let Some(ids) = ids {
        header.checksums[0] = put(target, header.offset(0), ids)?;
    }
    write_lists(target, &mut header, 1, vertices, view.out_lists())?;
    if view.is_directed() {
        write_lists(target, &mut header, 3, vertices, view.in_lists())?;
    }
    target.set_length(header.offset(SECTIONS))?;
    target.store_at(&header.encode(kind), 0)
}

/// Offsets and targets into two sections from `section` on.
fn write_lists(
    target: &mut dyn Target,
    header: &mut Header,
    section: usize,
    vertices: usize,
    lists: impl Lists,
) -> std::io::Result<()> {
    let numbers = 0..vertices as u32;
    let mut sum = 0;
    let ends = numbers.clone().map(|vertex| {
        sum += lists.degree(vertex) as u64;
        sum
    });
    header.checksums[section] = put(target, header.offset(section), std::iter::once(0).chain(ends))?;
    let targets = numbers.flat_map(|vertex| lists.list(vertex).iter().copied());
    header.checksums[section + 1] = put(target, header.offset(section + 1), targets)?;
    Ok(())
}

/// What a graph's file says.
pub(crate) struct Contents {
    pub(crate) graph: Csr,
    /// In the order of the vertices' numbers; `None` where they are 0 to vertices - 1.
    pub(crate) ids: Option<Vec<u64>>,
    pub(crate) keeps_loops: bool,
    /// The first record of the journal that is not in it.
    pub(crate) applied: u64,
}

impl Contents {
    /// Of a static graph.
    pub(super) fn with_ids(self) -> (Csr, Ids) {
        let ids = match self.ids {
            None => Ids::dense(self.graph.vertices()),
            Some(ids) => Ids::ascending(ids).expect("invariant: ids of a static graph were checked"),
        };
        (self.graph, ids)
    }
}

/// Reads a graph's file.
pub(crate) struct Reader<S> {
    pub(crate) kind: &'static Kind,
    /// For errors.
    pub(crate) path: PathBuf,
    pub(crate) source: S,
}

impl<S: Source> Reader<S> {
    pub(crate) fn read(&self) -> Result<Contents> {
        let length = self.source.length().map_err(|e| self.refused(e))?;
        let mut bytes = vec![0; HEADER_BYTES.min(length as usize)];
        self.fill(&mut bytes, 0)?;
        let header = Header::decode(self.kind, &self.path, &bytes)?;
        if length != header.offset(SECTIONS) {
            let what = format!("the file has {length} bytes, and {} by its header", header.offset(SECTIONS));
            return Err(Error::corruption(&self.path, length, what));
        }
        let mut ids = None;
        if header.flags & FLAG_IDS != 0 {
            let table = self.section::<u64>(&header, 0)?;
            if self.kind.is_ordered && table.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(self.wrong(&header, 0, "the ids do not ascend"));
            }
            ids = Some(table.to_vec());
        }
        let out = self.adjacency(&header, 1)?;
        let inward = match header.flags & FLAG_DIRECTED {
            0 => None,
            _ => Some(self.adjacency(&header, 3)?),
        };
        let keeps_loops = header.flags & FLAG_LOOPS != 0;
        Ok(Contents { graph: Csr::new(out, inward), ids, keeps_loops, applied: header.applied })
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

    /// The numbers of a section: where they are, if they may be read there, or else in memory.
    fn section<T: Stored>(&self, header: &Header, section: usize) -> Result<Numbers<T>> {
        let (count, mut offset) = (header.section(section).0 as usize, header.offset(section));
        if let Some(region) = self.source.region()
            && let Some(numbers) = Numbers::in_place(region, offset, count)
        {
            // As long as a header says and the file is, which were compared.
            let bytes = &region.bytes()[offset as usize..][..numbers.memory_bytes()];
            return self.checked(header, section, crc32c_append(0, bytes), numbers);
        }
        let (mut items, mut checksum) = (Array::<T>::zeroed(count)?, 0);
        let mut bytes = vec![0; CHUNK_BYTES.min(items.len() * T::BYTES)];
        for chunk in items.chunks_mut(CHUNK_BYTES / T::BYTES) {
            let bytes = &mut bytes[..chunk.len() * T::BYTES];
            self.fill(bytes, offset)?;
            checksum = crc32c_append(checksum, bytes);
            chunk.iter_mut().zip(bytes.chunks_exact(T::BYTES)).for_each(|(item, bytes)| *item = T::get(bytes));
            offset += bytes.len() as u64;
        }
        self.checked(header, section, checksum, items.into())
    }

    fn checked<T>(&self, header: &Header, section: usize, checksum: u32, items: T) -> Result<T> {
        match checksum == header.checksums[section] {
            true => Ok(items),
            false => Err(self.wrong(header, section, "the checksum of this section does not fit")),
        }
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let read = self.source.load_at(bytes, offset).map_err(|e| self.refused(e))?;
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
