//! The file of pages: read through a cache, written with O_DIRECT, every byte counted.
//!
//! Invariants:
//!
//! 1. What is read is verified before anybody sees it. The checksum of a page is seeded with the file's id and the page's number, so that
//!    neither another file's page nor another place's passes.
//! 2. The cache holds pages as they are in the file. Pages that were changed since lie in the tree's table of dirty pages, and leave
//!    the cache when they enter it.
//! 3. Each page and value says in which generation it was written: that of the next checkpoint. What is younger than that was written after a
//!    head that is lost, over what an older head leads to.
//! 4. Nothing here is durable before [`Pages::sync`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use biombo_base::coding::{get_u32, put_u32};
use biombo_base::io::{AlignedBuf, File, Io, OpenMode};
use biombo_base::{Error, Result};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};

use super::meta::Meta;
use super::page::{PAGE_BYTES, Page, Run, checksum};
use crate::figures::Figures;
use crate::heap;

/// What one write hands over at most, in bytes: neighbours are written together.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Before the value in its run: checksum, length, generation.
pub(crate) const RUN_HEADER_BYTES: usize = 12;

/// See the module.
pub(crate) struct Pages {
    file: Arc<dyn File>,
    path: PathBuf,
    seed: u32,
    /// Of the next checkpoint.
    generation: AtomicU32,
    cache: Cache<u32, Arc<Page>>,
    pub figures: Figures,
}

/// Pages that a value in a run takes.
pub(crate) fn run_pages(value_bytes: usize) -> u32 {
    (RUN_HEADER_BYTES + value_bytes).div_ceil(PAGE_BYTES) as u32
}

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

impl Pages {
    /// Open the file for reading and writing past the system's cache, where the file system lets it.
    pub fn open_file(io: &dyn Io, path: &Path, is_new: bool) -> Result<Arc<dyn File>> {
        let mode = OpenMode { create: is_new, write: true, direct: true, ..OpenMode::READ };
        io.open(path, mode).map_err(|e| Error::io(format_args!("open {}", path.display()), e))
    }

    /// Over an open file with this head, with a cache of so many pages.
    pub fn new(file: Arc<dyn File>, path: &Path, head: &Meta, cache_pages: usize) -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(cache_pages).weight_capacity(cache_pages as u64);
        let options = options.build().expect("invariant: both capacities are given");
        let cache = Cache::with_options(options, UnitWeighter, DefaultHashBuilder::default(), Default::default());
        let generation = AtomicU32::new(head.generation + 1);
        Self { file, path: path.to_owned(), seed: head.seed(), generation, cache, figures: Figures::default() }
    }

    fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The head of this generation is durable.
    pub fn begin_after(&self, head: &Meta) {
        self.generation.store(head.generation + 1, Ordering::Release);
    }

    fn damaged(&self, page: u32, what: &str) -> Error {
        Error::corruption(&self.path, offset(page), what)
    }

    fn failed(&self, doing: &str, e: std::io::Error) -> Error {
        Error::io(format_args!("{doing} {}", self.path.display()), e)
    }

    /// A page as it is in the file.
    pub fn read(&self, number: u32) -> Result<Arc<Page>> {
        let found = self.cache.get(&number);
        self.figures.looked_up(found.is_some());
        if let Some(page) = found {
            return Ok(page);
        }
        let page = Arc::new(self.read_uncached(number)?);
        self.cache.insert(number, Arc::clone(&page));
        Ok(page)
    }

    /// The same from the file, whatever the cache has.
    pub fn read_uncached(&self, number: u32) -> Result<Page> {
        let checked = self.read_bytes(number, 1, |bytes| Page::check(bytes, self.seed, number, self.generation()))?;
        checked.map_err(|what| self.damaged(number, what))
    }

    /// Hand the bytes of some pages to `seen`, unverified.
    fn read_bytes<R>(&self, first: u32, count: u32, seen: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let bytes = count as usize * PAGE_BYTES;
        let if_whole = |read: &[u8]| (read.len() == bytes).then(|| seen(read));
        let read = heap::read(&*self.file, offset(first), bytes, if_whole).map_err(|e| self.failed("read", e))?;
        read.ok_or_else(|| self.damaged(first, "the file ends before the page"))
    }

    /// Write changed pages, neighbours together. They are to come in the order of their numbers.
    pub fn write(&self, pages: &[(u32, Arc<Page>)]) -> Result<()> {
        let mut bytes = AlignedBuf::new();
        for neighbours in pages.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            for piece in neighbours.chunks(WRITE_BYTES_MAX / PAGE_BYTES) {
                bytes.clear();
                piece.iter().for_each(|(number, page)| page.seal(self.seed, *number, self.generation(), &mut bytes));
                self.write_bytes(piece[0].0, &bytes)?;
            }
        }
        Ok(())
    }

    /// Write whole pages.
    pub fn write_bytes(&self, first: u32, bytes: &AlignedBuf) -> Result<()> {
        self.file.write_at(bytes, offset(first)).map_err(|e| self.failed("write", e))?;
        self.figures.wrote(bytes.len());
        Ok(())
    }

    /// Make everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| self.failed("sync", e))
    }

    /// The last checkpoint, as the file has it.
    pub fn head(&self) -> Result<Meta> {
        Meta::read(&*self.file, &self.path)
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| self.failed("look at", e))
    }

    /// Cut the file off.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|e| self.failed("cut off", e))
    }

    /// The page is as it was written: keep it in the cache.
    pub fn keep(&self, number: u32, page: Arc<Page>) {
        self.cache.insert(number, page);
    }

    /// The page is about to be something else than what is in the file.
    pub fn forget(&self, number: u32) {
        self.cache.remove(&number);
    }

    /// Pages in the cache.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Write a value into its run.
    pub fn write_run(&self, page: u32, value: &[u8]) -> Result<()> {
        let mut bytes = AlignedBuf::with_capacity(run_pages(value.len()) as usize * PAGE_BYTES);
        bytes.resize(RUN_HEADER_BYTES);
        put_u32(&mut bytes, 4, value.len() as u32);
        put_u32(&mut bytes, 8, self.generation());
        bytes.extend_from_slice(value);
        bytes.pad_to(PAGE_BYTES);
        let crc = checksum(self.seed, page, &bytes);
        put_u32(&mut bytes, 0, crc);
        self.write_bytes(page, &bytes)
    }

    /// Read a value from its run into `into`.
    pub fn read_run(&self, run: Run, into: &mut Vec<u8>) -> Result<()> {
        let value_bytes = run.value_bytes as usize;
        if u64::from(run.page) + u64::from(run_pages(value_bytes)) > self.file_bytes()? / PAGE_BYTES as u64 {
            return Err(self.damaged(run.page, "the file ends before the value"));
        }
        let checked = self.read_bytes(run.page, run_pages(value_bytes), |bytes| {
            if get_u32(bytes, 0) != Some(checksum(self.seed, run.page, bytes)) {
                return Err("the checksum of the value differs");
            }
            if get_u32(bytes, 4) != Some(run.value_bytes) {
                return Err("the value has another length than its key says");
            }
            if get_u32(bytes, 8).is_none_or(|found| found > self.generation()) {
                return Err("the value is younger than the head that leads to it");
            }
            into.clear();
            into.extend_from_slice(&bytes[RUN_HEADER_BYTES..RUN_HEADER_BYTES + value_bytes]);
            Ok(())
        })?;
        checked.map_err(|what| self.damaged(run.page, what))
    }
}
