//! A table: one file of blocks in the order of their keys, what leads to them, and a footer. It is written once and read for as long
//! as somebody holds it.
//!
//! Invariants:
//!
//! 1. Fences, the first key of each block, and the filter are in memory; blocks come through the cache, verified.
//! 2. Checksums are seeded with the table's random id, which the manifest names too: no other table's bytes pass for its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{AlignedBuf, File, Io, OpenMode};
use biombo_base::{Error, Result};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::block::{Block, BlockBuilder, UNIT_BYTES};
use super::bloom;
use crate::figures::Figures;
use crate::heap::{self, heap_bytes};
use crate::home::FORMAT_VERSION;

const MAGIC: [u8; 8] = *b"BIOMBOLT";
/// Where the footer's checksum lies: of all before it.
const CRC_AT: usize = 60;
/// What one write hands over, in bytes, or a little more.
const WRITE_BYTES: usize = 1 << 20;
/// What comes beyond that: the block that fills it, and fences, filter and footer of a table of a few MiB.
const BEYOND_BYTES: usize = 192 << 10;

/// Blocks in memory, by table and unit.
pub(super) type BlockCache = Cache<(u64, u32), Arc<Block>, BlockBytes>;

/// Blocks count by their bytes.
#[derive(Clone)]
pub(super) struct BlockBytes;

impl Weighter<(u64, u32), Arc<Block>> for BlockBytes {
    fn weight(&self, _: &(u64, u32), block: &Arc<Block>) -> u64 {
        block.bytes() as u64
    }
}

/// What all tables of an instance share.
pub(super) struct Shared {
    pub io: Arc<dyn Io>,
    pub dir: PathBuf,
    pub cache: BlockCache,
    pub figures: Figures,
}

impl Shared {
    pub fn table_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:016x}.table"))
    }
}

/// An open table.
pub(super) struct Table {
    shared: Arc<Shared>,
    file: Arc<dyn File>,
    path: PathBuf,
    pub number: u64,
    pub id: u64,
    pub entries: u64,
    /// Of those, keys that were deleted.
    pub tombstones: u64,
    /// All of the file.
    pub units: u32,
    /// Memory that fences and filter take for as long as the table is open.
    pub lead_bytes: u64,
    fences: Vec<Fence>,
    /// The last key.
    pub last: Vec<u8>,
    filter: Vec<u8>,
}

/// Where a block begins, and with which key.
struct Fence {
    unit: u32,
    key: Vec<u8>,
}

fn seed(id: u64) -> u32 {
    crc32c(&id.to_le_bytes())
}

impl Table {
    /// The table that the manifest calls `number` and `id`.
    pub fn open(shared: &Arc<Shared>, number: u64, id: u64) -> Result<Self> {
        let path = shared.table_path(number);
        let failed = |doing: &str, e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::corruption(&path, 0, "it is missing; restore the directory from a copy")
            }
            _ => Error::io(format_args!("{doing} {}", path.display()), e),
        };
        let file = shared.io.open(&path, OpenMode::READ_DIRECT).map_err(|e| failed("open", e))?;
        let bytes = file.len().map_err(|e| failed("look at", e))?;
        let damaged = |offset: u64, what: &str| Error::corruption(&path, offset, what);
        let units = u32::try_from(bytes / UNIT_BYTES as u64).ok().filter(|units| *units >= 2);
        let Some(units) = units else { return Err(damaged(0, "the file has not the size of a table")) };
        let read = |unit: u32, units: u32| -> Result<AlignedBuf> {
            let mut into = AlignedBuf::zeroed(units as usize * UNIT_BYTES);
            let read = file.read_at(&mut into, u64::from(unit) * UNIT_BYTES as u64).map_err(|e| failed("read", e))?;
            if read < into.len() { Err(damaged(0, "the file ends too early")) } else { Ok(into) }
        };
        let footer_at = u64::from(units - 1) * UNIT_BYTES as u64;
        let footer = read(units - 1, 1)?;
        if footer[..8] != MAGIC || get_u32(&footer, CRC_AT) != Some(crc32c(&footer[..CRC_AT])) {
            return Err(damaged(footer_at, "the checksum of the footer differs"));
        }
        let u32_at = |at| get_u32(&footer, at).expect("invariant: a unit is there");
        let u64_at = |at| get_u64(&footer, at).expect("invariant: a unit is there");
        if u32_at(8) != FORMAT_VERSION {
            return Err(Error::unsupported(format!(
                "{} has version {} of the format of micro-lsm; this build reads {FORMAT_VERSION}: open it with the version that wrote it",
                path.display(),
                u32_at(8)
            )));
        }
        if (u64_at(16), u64_at(24)) != (number, id) {
            return Err(damaged(footer_at, "it is another table than the manifest says"));
        }
        let (index_unit, index_bytes) = (u32_at(48), u32_at(52) as usize);
        if index_unit.checked_add(index_bytes.div_ceil(UNIT_BYTES) as u32) != Some(units - 1) {
            return Err(damaged(footer_at, "the footer leads to no index"));
        }
        let index = read(index_unit, units - 1 - index_unit)?;
        let index_at = u64::from(index_unit) * UNIT_BYTES as u64;
        if u32_at(56) != crc32c(&index) {
            return Err(damaged(index_at, "the checksum of the index differs"));
        }
        let Some((fences, last, filter)) = read_index(&index[..index_bytes], u32_at(12)) else {
            return Err(damaged(index_at, "the index does not have what the footer says"));
        };
        let (entries, tombstones) = (u64_at(32), u64_at(40));
        let lead_bytes = lead_bytes(&fences, &last, &filter);
        let (shared, path) = (Arc::clone(shared), path.clone());
        Ok(Self { shared, file, path, number, id, entries, tombstones, units, lead_bytes, fences, last, filter })
    }

    /// The first key.
    pub fn first(&self) -> &[u8] {
        self.fences.first().map_or(&[], |fence| &fence.key)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES as u64
    }

    /// Blocks in it.
    pub fn blocks(&self) -> usize {
        self.fences.len() - 1
    }

    /// The only block that may hold `key`, or the first one.
    pub fn block_of(&self, key: &[u8]) -> usize {
        self.fences[..self.blocks()].partition_point(|fence| &fence.key[..] <= key).saturating_sub(1)
    }

    /// A block, through the cache.
    pub fn block(&self, index: usize) -> Result<Arc<Block>> {
        let at = (self.number, self.fences[index].unit);
        let found = self.shared.cache.get(&at);
        self.shared.figures.looked_up(found.is_some());
        if let Some(block) = found {
            return Ok(block);
        }
        let block = Arc::new(self.read_block(index)?);
        self.shared.cache.insert(at, Arc::clone(&block));
        Ok(block)
    }

    /// The same from the file.
    pub fn read_block(&self, index: usize) -> Result<Block> {
        let (unit, end) = (self.fences[index].unit, self.fences[index + 1].unit);
        let offset = u64::from(unit) * UNIT_BYTES as u64;
        let bytes = (end - unit) as usize * UNIT_BYTES;
        let read = heap::read(&*self.file, offset, bytes, |bytes| Block::check(bytes, seed(self.id), unit));
        let checked = read.map_err(|e| Error::io(format_args!("read {}", self.path.display()), e))?;
        let damaged = |what| Error::corruption(&self.path, offset, what);
        let block = checked.map_err(damaged)?;
        let is_as_fenced = block.count() > 0 && block.entry(0).0 == &self.fences[index].key[..];
        if is_as_fenced { Ok(block) } else { Err(damaged("the block does not begin with the key that led to it")) }
    }

    /// The block with `key` and where it is there.
    pub fn find(&self, key: &[u8], hash: u64) -> Result<Option<(Arc<Block>, usize)>> {
        if key < self.first() || key > &self.last[..] || !bloom::may_hold(&self.filter, hash) {
            return Ok(None);
        }
        let block = self.block(self.block_of(key))?;
        Ok(block.search(key).ok().map(|at| (block, at)))
    }

    /// Whether the filter admits `key`.
    pub fn admits(&self, key: &[u8]) -> bool {
        bloom::may_hold(&self.filter, bloom::hash(key))
    }
}

/// What is in memory of an open table besides its blocks.
fn lead_bytes(fences: &[Fence], last: &[u8], filter: &[u8]) -> u64 {
    let keys = fences.iter().map(|fence| heap_bytes(fence.key.len())).sum::<usize>();
    let bytes = heap_bytes(size_of_val(fences)) + keys + heap_bytes(last.len()) + heap_bytes(filter.len());
    (bytes + size_of::<Table>()) as u64
}

/// Fences of `blocks` blocks and of the end, the last key, and the filter.
fn read_index(mut index: &[u8], blocks: u32) -> Option<(Vec<Fence>, Vec<u8>, Vec<u8>)> {
    // No more than the index can hold, whatever the footer says.
    let mut fences = Vec::with_capacity((blocks as usize + 1).min(index.len() / 8));
    for _ in 0..=blocks {
        let (unit, key_bytes) = (get_u32(index, 0)?, get_u32(index, 4)? as usize);
        let key = index.get(8..)?.get(..key_bytes)?.to_vec();
        index = &index[8 + key_bytes..];
        if fences.last().is_some_and(|before: &Fence| before.unit >= unit) {
            return None;
        }
        fences.push(Fence { unit, key });
    }
    let end = fences.last_mut()?;
    let last = std::mem::take(&mut end.key);
    (blocks > 0).then(|| (fences, last, index.to_vec()))
}

/// Writes a table.
pub(super) struct TableBuilder {
    shared: Arc<Shared>,
    file: Arc<dyn File>,
    path: PathBuf,
    number: u64,
    id: u64,
    block: BlockBuilder,
    /// What was not written yet, and the unit that it begins at.
    bytes: AlignedBuf,
    written_units: u32,
    index: Vec<u8>,
    blocks: u32,
    hashes: Vec<u64>,
    tombstones: u64,
    last: Vec<u8>,
}

impl TableBuilder {
    /// Begin the table `number`.
    pub fn new(shared: &Arc<Shared>, number: u64) -> Result<Self> {
        let path = shared.table_path(number);
        let mode = OpenMode { direct: true, ..OpenMode::WRITE };
        let file = shared.io.open(&path, mode).and_then(|file| file.set_len(0).map(|()| file));
        let file = file.map_err(|e| Error::io(format_args!("create {}", path.display()), e))?;
        Ok(Self {
            id: shared.io.random_u64(),
            shared: Arc::clone(shared),
            file,
            path,
            number,
            block: BlockBuilder::default(),
            // At once: growing there by doubling would take three times as much, and leave holes that nothing else fills.
            bytes: AlignedBuf::with_capacity(WRITE_BYTES + BEYOND_BYTES),
            written_units: 0,
            index: Vec::new(),
            blocks: 0,
            hashes: Vec::new(),
            tombstones: 0,
            last: Vec::new(),
        })
    }

    fn unit(&self) -> u32 {
        self.written_units + (self.bytes.len() / UNIT_BYTES) as u32
    }

    /// Bytes of its blocks so far.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.unit()) * UNIT_BYTES as u64
    }

    /// Add an entry, whose key is after those before.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if !self.block.has_room(key, value) {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.fence(key);
            self.blocks += 1;
        }
        self.block.add(key, value);
        self.hashes.push(bloom::hash(key));
        self.tombstones += u64::from(value.is_none());
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn fence(&mut self, key: &[u8]) {
        self.index.extend_from_slice(&self.unit().to_le_bytes());
        self.index.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.index.extend_from_slice(key);
    }

    fn finish_block(&mut self) -> Result<()> {
        let unit = self.unit();
        self.block.finish(seed(self.id), unit, &mut self.bytes);
        if self.bytes.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let offset = u64::from(self.written_units) * UNIT_BYTES as u64;
        let written = self.file.write_at(&self.bytes, offset);
        written.map_err(|e| Error::io(format_args!("write {}", self.path.display()), e))?;
        self.shared.figures.wrote(self.bytes.len());
        self.written_units = self.unit();
        self.bytes.clear();
        Ok(())
    }

    /// Write the rest, make its bytes durable (not its name), and open it. It has at least one entry.
    pub fn finish(mut self) -> Result<Table> {
        self.finish_block()?;
        let last = std::mem::take(&mut self.last);
        self.fence(&last);
        self.index.extend_from_slice(&bloom::filter_of(&self.hashes));
        let (index_unit, index_bytes) = (self.unit(), self.index.len());
        let index_at = self.bytes.len();
        self.bytes.extend_from_slice(&self.index);
        self.bytes.pad_to(UNIT_BYTES);
        let index_crc = crc32c(&self.bytes[index_at..]);
        let footer_at = self.bytes.len();
        self.bytes.resize(footer_at + UNIT_BYTES);
        let footer = &mut self.bytes[footer_at..];
        footer[..8].copy_from_slice(&MAGIC);
        put_u32(footer, 8, FORMAT_VERSION);
        put_u32(footer, 12, self.blocks);
        put_u64(footer, 16, self.number);
        put_u64(footer, 24, self.id);
        put_u64(footer, 32, self.hashes.len() as u64);
        put_u64(footer, 40, self.tombstones);
        put_u32(footer, 48, index_unit);
        put_u32(footer, 52, index_bytes as u32);
        put_u32(footer, 56, index_crc);
        let crc = crc32c(&footer[..CRC_AT]);
        put_u32(footer, CRC_AT, crc);
        self.write()?;
        self.file.sync().map_err(|e| Error::io(format_args!("sync {}", self.path.display()), e))?;
        Table::open(&self.shared, self.number, self.id)
    }
}
