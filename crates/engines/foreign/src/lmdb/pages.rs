//! The page format of LMDB (data version 1), read without LMDB.
//!
//! LMDB trusts its file: it has no checksums, and a damaged or shortened file can end the process (a page past the end of
//! the file is SIGBUS). So the header is checked before LMDB maps the file, and [`walk`] reads the whole structure with
//! ordinary reads, trusting nothing.
//!
//! ```text
//! page      number u64 | pad u16 | flags u16 | lower u16, upper u16 (overflow: page count u32) | ...
//! meta      pages 0 and 1: magic u32 | version u32 | address u64 | map bytes u64 | free tree 48 | main tree 48 | last page
//!           u64 | transaction u64; the one with the later transaction counts
//! tree      pad u32 (free tree: page bytes) | flags u16 | depth u16 | branch, leaf, overflow pages u64 | entries u64 | root u64
//! branch    (lower - 16) / 2 offsets u16 of nodes: child 48 bits | key length u16 | key (the first key counts as empty)
//! leaf      the same, nodes: value length u32 | flags u16 | key length u16 | key | value, or u64 page of an overflow run
//! overflow  a run of pages; only the first has a header, the value follows it
//! free tree key: transaction u64; value: count u64, then that many page numbers
//! ```
//!
//! Each page from 2 to the last one is in exactly one place: a tree, an overflow run or the free list. The numbers are in
//! the machine's byte order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use biombo_base::{Error, Result};
use biombo_engine::Damage;

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const HEADER: usize = 16;
const NODE_HEADER: usize = 8;
const META_BYTES: usize = HEADER + 136;
const NO_ROOT: u64 = u64::MAX;
const DEPTH_MAX: u16 = 32;
const CHUNK: usize = 1 << 20;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
const BIG: u16 = 0x01;
// Flags of a tree that say nothing about its order: the free tree has MDB_INTEGERKEY among the environment's.
const ORDER_FLAGS: u16 = 0x7f;

/// The root of a tree.
#[derive(Debug, Clone, Copy)]
struct Tree {
    depth: u16,
    entries: u64,
    root: u64,
}

/// One meta page.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    offset: u64,
    page_bytes: usize,
    free: Tree,
    main: Tree,
    last_page: u64,
    txn: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn tree_at(bytes: &[u8], at: usize) -> Tree {
    Tree { depth: u16_at(bytes, at + 6), entries: u64_at(bytes, at + 32), root: u64_at(bytes, at + 40) }
}

fn read_meta(file: &File, path: &Path, offset: u64) -> Result<Meta> {
    let bad = |what: &str| Err(Error::corruption(path, offset, format!("{what}; restore the directory from a copy")));
    let mut bytes = [0; META_BYTES];
    match file.read_exact_at(&mut bytes, offset) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return bad("the file ends within its header"),
        other => other.map_err(|e| Error::io(format_args!("read {}", path.display()), e))?,
    }
    if u16_at(&bytes, 10) & META == 0 || u32_at(&bytes, HEADER) != MAGIC {
        return bad("this is no header of an LMDB data file");
    }
    let version = u32_at(&bytes, HEADER + 4);
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "{} has data version {version} and this build's LMDB knows {VERSION}; use the program that wrote it",
            path.display()
        )));
    }
    let (free, main) = (HEADER + 24, HEADER + 72);
    let page_bytes = u32_at(&bytes, free) as usize;
    if !page_bytes.is_power_of_two() || !(512..=64 << 10).contains(&page_bytes) {
        return bad("its page size is impossible");
    }
    let flags = u16_at(&bytes, main + 4);
    if flags & ORDER_FLAGS != 0 {
        return Err(Error::invalid(format!(
            "{} was written by another program (its keys are ordered or repeated in another way: flags {flags:#x})",
            path.display()
        )));
    }
    Ok(Meta {
        offset,
        page_bytes,
        free: tree_at(&bytes, free),
        main: tree_at(&bytes, main),
        last_page: u64_at(&bytes, HEADER + 120),
        txn: u64_at(&bytes, HEADER + 128),
    })
}

/// Both meta pages, the newer one first.
fn metas(file: &File, path: &Path) -> Result<[Meta; 2]> {
    let first = read_meta(file, path, 0)?;
    let second = read_meta(file, path, first.page_bytes as u64)?;
    Ok(if first.txn < second.txn { [second, first] } else { [first, second] })
}

/// Refuse a file that LMDB cannot open safely. Returns its length in bytes.
///
/// # Errors
/// `Corruption` when its header is damaged or pages in use are missing at its end, `Unsupported` for another version.
pub fn check_before_open(path: &Path) -> Result<u64> {
    let gone = || Error::corruption(path, 0, "the data file is gone or empty; restore the directory from a copy");
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(gone()),
        other => other.map_err(|e| Error::io(format_args!("open {}", path.display()), e))?,
    };
    let bytes = length(&file, path)?;
    if bytes == 0 {
        return Err(gone());
    }
    let [meta, _] = metas(&file, path)?;
    let needed = meta.last_page.checked_add(1).and_then(|pages| pages.checked_mul(meta.page_bytes as u64));
    if needed.is_none_or(|needed| needed > bytes) {
        // Free pages at the end need not have been written: only a page in use is missed.
        let mut first: Option<Damage> = None;
        walk(&file, path, &meta, &mut |damage| {
            first.get_or_insert(damage);
        })?;
        if let Some(damage) = first {
            return Err(Error::corruption(
                damage.file,
                damage.offset,
                format!("{}; restore the directory from a copy", damage.what),
            ));
        }
    }
    Ok(bytes)
}

/// The meta page that transaction `txn` wrote, if it is there still.
pub fn find_meta(file: &File, path: &Path, txn: u64) -> Result<Option<Meta>> {
    Ok(metas(file, path)?.into_iter().find(|meta| meta.txn == txn))
}

fn length(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(|e| Error::io(format_args!("read the length of {}", path.display()), e))?.len())
}

/// Read every page that the snapshot of `meta` uses and report each damage. Returns the number of keys read. The snapshot
/// must be held by a read transaction while others write. Takes one bit of memory for each page.
pub fn walk(file: &File, path: &Path, meta: &Meta, report: &mut dyn FnMut(Damage)) -> Result<u64> {
    let file_bytes = length(file, path)?;
    // No more pages than the file can hold count, whatever the header says.
    let pages = (file_bytes / meta.page_bytes as u64).max(2);
    let mut walk = Walk {
        file,
        path,
        page_bytes: meta.page_bytes,
        last_page: meta.last_page,
        seen: vec![0; usize::try_from(pages / 64 + 1).unwrap_or(0)],
        damages: 0,
        report,
        keys: 0,
    };
    walk.tree(&meta.main, meta.offset, Kind::Main)?;
    let keys = walk.keys;
    walk.keys = 0;
    walk.tree(&meta.free, meta.offset, Kind::Free)?;
    Ok(keys)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Main,
    Free,
}

struct Walk<'a> {
    file: &'a File,
    path: &'a Path,
    page_bytes: usize,
    last_page: u64,
    seen: Vec<u64>,
    damages: u64,
    report: &'a mut dyn FnMut(Damage),
    keys: u64,
}

impl Walk<'_> {
    fn damage(&mut self, offset: u64, what: impl Into<String>) {
        self.damages += 1;
        (self.report)(Damage { file: self.path.to_owned(), offset, what: what.into() });
    }

    fn offset(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_bytes as u64)
    }

    fn tree(&mut self, tree: &Tree, meta_offset: u64, kind: Kind) -> Result<()> {
        let before = self.damages;
        if tree.root != NO_ROOT {
            if tree.depth == 0 || tree.depth > DEPTH_MAX {
                self.damage(meta_offset, format!("a tree of depth {} is impossible", tree.depth));
                return Ok(());
            }
            self.node(tree.root, tree.depth, None, None, kind)?;
        }
        if self.damages == before && self.keys != tree.entries {
            let what = format!("the tree should have {} entries and has {}", tree.entries, self.keys);
            self.damage(meta_offset, what);
        }
        Ok(())
    }

    /// Note that `page` is used here; whether that is possible.
    fn claim(&mut self, page: u64, by: u64) -> bool {
        if page < 2 || page > self.last_page {
            self.damage(
                self.offset(by),
                format!("it names page {page}, which is not one of the {}", self.last_page + 1),
            );
            return false;
        }
        // Pages past the end of the file have no bit; reading them fails.
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if let Some(word) = self.seen.get_mut(word) {
            if *word & bit != 0 {
                self.damage(self.offset(page), format!("page {page} is used twice"));
                return false;
            }
            *word |= bit;
        }
        true
    }

    /// Read at `offset`; whether all of it could be read.
    fn read(&mut self, bytes: &mut [u8], offset: u64) -> Result<bool> {
        match self.file.read_exact_at(bytes, offset) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.damage(offset, "the file ends before a page that is in use: it was shortened");
                Ok(false)
            }
            Err(e) if e.raw_os_error() == Some(libc::EIO) => {
                self.damage(offset, format!("it cannot be read: {e}"));
                Ok(false)
            }
            Err(e) => Err(Error::io(format_args!("read {}", self.path.display()), e)),
        }
    }

    /// A branch or leaf page whose keys lie in `low..high`, and all below it.
    fn node(&mut self, page: u64, depth: u16, low: Option<&[u8]>, high: Option<&[u8]>, kind: Kind) -> Result<()> {
        let offset = self.offset(page);
        let mut bytes = vec![0; self.page_bytes];
        if !self.claim(page, page) || !self.read(&mut bytes, offset)? {
            return Ok(());
        }
        let (number, flags) = (u64_at(&bytes, 0), u16_at(&bytes, 10));
        let (lower, upper) = (u16_at(&bytes, 12) as usize, u16_at(&bytes, 14) as usize);
        let expected = if depth == 1 { LEAF } else { BRANCH };
        if number != page || flags != expected {
            self.damage(offset, format!("it should be page {page} with flags {expected}: {number} with {flags:#x}"));
            return Ok(());
        }
        if lower < HEADER || lower % 2 != 0 || lower > upper || upper > self.page_bytes {
            self.damage(offset, format!("its bounds {lower} and {upper} are impossible"));
            return Ok(());
        }
        let count = (lower - HEADER) / 2;
        if count == 0 || (depth > 1 && count < 2) {
            self.damage(offset, format!("it has {count} nodes"));
            return Ok(());
        }
        let node = |i: usize| -> Option<(&[u8], usize)> {
            let at = u16_at(&bytes, HEADER + 2 * i) as usize;
            if at < upper || at + NODE_HEADER > bytes.len() {
                return None;
            }
            let key_bytes = u16_at(&bytes, at + 6) as usize;
            Some((bytes.get(at + NODE_HEADER..at + NODE_HEADER + key_bytes)?, at))
        };
        let mut last: Option<&[u8]> = None;
        for i in 0..count {
            let Some((key, at)) = node(i) else {
                self.damage(offset, format!("its node {i} lies outside of the page"));
                continue;
            };
            // The first key of a branch page stands for everything below the second.
            let is_open = depth > 1 && i == 0;
            let key_low = if is_open { low } else { Some(key) };
            if !is_open && !in_order(kind, last, low, key, high) {
                self.damage(offset + at as u64, format!("the key of its node {i} is out of order"));
                continue;
            }
            if depth > 1 {
                let child = u64::from(u32_at(&bytes, at)) | u64::from(u16_at(&bytes, at + 4)) << 32;
                let next = if i + 1 < count { node(i + 1).map(|(key, _)| key) } else { high };
                self.node(child, depth - 1, key_low, next, kind)?;
            } else {
                self.leaf(page, &bytes, at, key, kind)?;
            }
            if !is_open {
                last = Some(key);
            }
        }
        Ok(())
    }

    /// The entry at `at` of a leaf page.
    fn leaf(&mut self, page: u64, bytes: &[u8], at: usize, key: &[u8], kind: Kind) -> Result<()> {
        let offset = self.offset(page) + at as u64;
        let value_bytes = u32_at(bytes, at) as usize;
        let flags = u16_at(bytes, at + 4);
        let start = at + NODE_HEADER + key.len();
        let mut numbers = FreeList::default();
        if flags & !BIG != 0 {
            self.damage(offset, format!("an entry with flags {flags:#x} is not of this engine"));
            return Ok(());
        }
        if flags & BIG == 0 {
            let Some(value) = bytes.get(start..start + value_bytes) else {
                self.damage(offset, format!("a value of {value_bytes} bytes passes the end of the page"));
                return Ok(());
            };
            numbers.take(value);
        } else {
            let Some(run) = bytes.get(start..start + 8).map(|run| u64_at(run, 0)) else {
                self.damage(offset, "the place of a large value passes the end of the page");
                return Ok(());
            };
            if !self.overflow(page, run, value_bytes, &mut |part| {
                if kind == Kind::Free {
                    numbers.take(part);
                }
            })? {
                return Ok(());
            }
        }
        self.keys += 1;
        if kind == Kind::Free {
            let (count, pages) = numbers.finish();
            if key.len() != 8 || count != pages.len() as u64 {
                self.damage(offset, "an entry of the free list is damaged");
            }
            for free in pages {
                self.claim(free, page);
            }
        }
        Ok(())
    }

    /// Read the overflow run at `run` that holds a value of `value_bytes`; whether it was whole.
    ///
    /// A run may be longer than its value needs: a value that is replaced by a shorter one within the transaction that
    /// wrote it keeps its run.
    fn overflow(&mut self, from: u64, run: u64, value_bytes: usize, part: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let needed = (HEADER + value_bytes).div_ceil(self.page_bytes) as u64;
        if !self.claim(run, from) {
            return Ok(false);
        }
        let offset = self.offset(run);
        let mut header = [0; HEADER];
        if !self.read(&mut header, offset)? {
            return Ok(false);
        }
        let pages = u64::from(u32_at(&header, 12));
        if u64_at(&header, 0) != run || u16_at(&header, 10) != OVERFLOW || pages < needed {
            self.damage(offset, format!("it should begin a large value of {needed} pages"));
            return Ok(false);
        }
        for page in run + 1..run.saturating_add(pages) {
            if !self.claim(page, from) {
                return Ok(false);
            }
        }
        let mut chunk = vec![0; value_bytes.min(CHUNK)];
        let mut done = 0;
        while done < value_bytes {
            let chunk = &mut chunk[..CHUNK.min(value_bytes - done)];
            if !self.read(chunk, offset + (HEADER + done) as u64)? {
                return Ok(false);
            }
            part(chunk);
            done += chunk.len();
        }
        Ok(true)
    }
}

/// Whether `key` comes after `last` and lies in `low..high`. The free tree is ordered by number.
fn in_order(kind: Kind, last: Option<&[u8]>, low: Option<&[u8]>, key: &[u8], high: Option<&[u8]>) -> bool {
    let less = |a: &[u8], b: &[u8]| match kind {
        Kind::Free if a.len() == 8 && b.len() == 8 => u64_at(a, 0) < u64_at(b, 0),
        _ => a < b,
    };
    last.is_none_or(|last| less(last, key))
        && low.is_none_or(|low| !less(key, low))
        && high.is_none_or(|high| less(key, high))
}

/// Gathers the numbers of a free list entry that may come in parts.
#[derive(Default)]
struct FreeList {
    count: Option<u64>,
    pages: Vec<u64>,
}

impl FreeList {
    /// Parts are multiples of eight bytes, but for the last one of a damaged list.
    fn take(&mut self, part: &[u8]) {
        for number in part.chunks_exact(8) {
            let number = u64_at(number, 0);
            match self.count {
                None => self.count = Some(number),
                Some(_) => self.pages.push(number),
            }
        }
    }

    fn finish(self) -> (u64, Vec<u64>) {
        (self.count.unwrap_or(u64::MAX), self.pages)
    }
}
