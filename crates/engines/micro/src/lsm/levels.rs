//! The tables of an instance by levels, and the manifest that names them.
//!
//! Invariants:
//!
//! 1. Level 0 has the newest table first; its tables overlap. Within any other level tables lie in the order of their keys and do not
//!    overlap. What a level says of a key is newer than what those below say.
//! 2. The manifest is replaced as a whole: written beside, synced, renamed, the directory synced. Tables that it names were synced with their
//!    names before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64};
use biombo_base::io::{Io, OpenMode};
use biombo_base::{Error, Result};
use biombo_journal::Lsn;

use super::table::{Shared, Table};
use crate::home::FORMAT_VERSION;

/// Level 0 and those below.
pub(super) const LEVELS: usize = 7;
const MANIFEST: &str = "TABLES";
const MANIFEST_NEW: &str = "TABLES.new";
const MAGIC: [u8; 8] = *b"BIOMBOLM";
/// A manifest is written in whole pages, of which most have one.
pub(super) const MANIFEST_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 20;
/// What is left to blocks where fences and filters would take it all.
const BLOCKS_BYTES_MIN: u64 = 64 << 10;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Levels(pub [Vec<Arc<Table>>; LEVELS]);

impl Levels {
    /// All tables, the newest word on a key first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.iter().flatten()
    }

    /// Memory that all fences and filters take.
    pub fn lead_bytes(&self) -> u64 {
        self.all().map(|table| table.lead_bytes).sum()
    }

    /// Leave to blocks what fences and filters do not take of `cache_bytes`.
    pub fn leave_room(&self, shared: &Shared, cache_bytes: u64) {
        // In steps: the cache forgets something of its history each time.
        let step = (cache_bytes / 64).max(1);
        let left = cache_bytes.saturating_sub(self.lead_bytes()) / step * step;
        let left = left.max(BLOCKS_BYTES_MIN.min(cache_bytes));
        let (cache, rounding) = (&shared.cache, shared.cache.num_shards() as u64);
        if cache.capacity().abs_diff(left) >= rounding {
            cache.set_capacity(left);
        }
    }

    /// Bytes of a level's files.
    pub fn bytes(&self, level: usize) -> u64 {
        self.0[level].iter().map(|table| table.bytes()).sum()
    }

    /// The tables of a level that have keys from `first` to `last`, both included.
    pub fn overlapping(&self, level: usize, first: &[u8], last: &[u8]) -> Vec<Arc<Table>> {
        let overlaps = |table: &&Arc<Table>| table.first() <= last && &table.last[..] >= first;
        self.0[level].iter().filter(overlaps).cloned().collect()
    }

    /// Whether a level below `level` may say something of `key`.
    pub fn is_below(&self, level: usize, key: &[u8]) -> bool {
        let holds = |table: &Arc<Table>| table.first() <= key && key <= &table.last[..];
        self.0[level + 1..].iter().flatten().any(holds)
    }

    /// Take tables out and put others into a level.
    pub fn replace(&self, gone: &[Arc<Table>], level: usize, come: Vec<Arc<Table>>) -> Self {
        let mut next = self.clone();
        for tables in &mut next.0 {
            tables.retain(|table| gone.iter().all(|gone| gone.number != table.number));
        }
        next.0[level].splice(0..0, come);
        if level > 0 {
            next.0[level].sort_by(|a, b| a.first().cmp(b.first()));
        }
        next
    }
}

/// What the manifest says beside the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The first record of the journal that is in no table.
    pub lsn: Lsn,
    /// The number of the next table.
    pub next_number: u64,
}

/// Make `levels` those of the instance, durably. Names of tables that came were synced before.
pub(super) fn write_manifest(shared: &Shared, head: Head, levels: &Levels) -> Result<()> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(levels.all().count() as u32).to_le_bytes());
    bytes.extend_from_slice(&head.lsn.0.to_le_bytes());
    bytes.extend_from_slice(&head.next_number.to_le_bytes());
    for (level, tables) in levels.0.iter().enumerate() {
        for table in tables {
            bytes.extend_from_slice(&(level as u32).to_le_bytes());
            bytes.extend_from_slice(&table.number.to_le_bytes());
            bytes.extend_from_slice(&table.id.to_le_bytes());
        }
    }
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let (io, new, path) = (&*shared.io, shared.dir.join(MANIFEST_NEW), shared.dir.join(MANIFEST));
    io.open(&new, OpenMode::WRITE)
        .and_then(|file| file.set_len(0).and_then(|()| file.write_at(&bytes, 0)).and_then(|()| file.sync()))
        .and_then(|()| io.rename(&new, &path))
        .and_then(|()| io.sync_dir(&shared.dir))
        .map_err(|e| Error::io(format_args!("write {}", path.display()), e))?;
    shared.figures.wrote((bytes.len() as u64).next_multiple_of(MANIFEST_BYTES) as usize);
    Ok(())
}

/// Where it lies.
pub(super) fn manifest_path(shared: &Shared) -> PathBuf {
    shared.dir.join(MANIFEST)
}

/// What the manifest says, with every table opened.
pub(super) fn read_manifest(shared: &Arc<Shared>) -> Result<(Head, Levels)> {
    let path = manifest_path(shared);
    let bytes = read_file(&*shared.io, &path)?;
    let damaged = |what: &str| Error::corruption(&path, 0, what);
    let Some((body, crc)) = bytes.split_last_chunk::<4>().filter(|(body, _)| body.len() >= HEADER_BYTES) else {
        return Err(damaged("the file is too short for a manifest"));
    };
    if body[..8] != MAGIC || crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged("the checksum of the manifest differs"));
    }
    let u32_at = |at| get_u32(body, at).expect("invariant: its length was looked at");
    let u64_at = |at| get_u64(body, at).expect("invariant: its length was looked at");
    if u32_at(8) != FORMAT_VERSION {
        return Err(Error::unsupported(format!(
            "{} has version {} of the format of micro-lsm; this build reads {FORMAT_VERSION}: open it with the version that wrote it",
            path.display(),
            u32_at(8)
        )));
    }
    let head = Head { lsn: Lsn(u64_at(16)), next_number: u64_at(24) };
    let entries = body[HEADER_BYTES..].chunks_exact(ENTRY_BYTES);
    if entries.len() != u32_at(12) as usize || !entries.remainder().is_empty() {
        return Err(damaged("the manifest has another number of tables than it says"));
    }
    let mut levels = Levels::default();
    for at in (HEADER_BYTES..body.len()).step_by(ENTRY_BYTES) {
        let tables = levels.0.get_mut(u32_at(at) as usize).ok_or_else(|| damaged("a table has an unknown level"))?;
        tables.push(Arc::new(Table::open(shared, u64_at(at + 4), u64_at(at + 12))?));
    }
    Ok((head, levels))
}

fn read_file(io: &dyn Io, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let file = io.open(path, OpenMode::READ)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes)
    };
    read().map_err(|e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Error::corruption(path, 0, "it is missing; restore the directory from a copy"),
        _ => Error::io(format_args!("read {}", path.display()), e),
    })
}

/// Remove tables that the manifest does not name, and what a replacement that was cut short has left.
pub(super) fn remove_strays(shared: &Shared, levels: &Levels) -> Result<()> {
    let failed = |path: &Path, e| Error::io(format_args!("remove {}", path.display()), e);
    let names = shared.io.read_dir(&shared.dir).map_err(|e| failed(&shared.dir, e))?;
    for path in names.iter().map(|name| shared.dir.join(name)) {
        let is_stray = path.file_name().is_some_and(|name| name == MANIFEST_NEW)
            || path.extension().is_some_and(|extension| extension == "table")
                && levels.all().all(|table| table.path() != path);
        if is_stray {
            shared.io.remove_file(&path).map_err(|e| failed(&path, e))?;
        }
    }
    Ok(())
}
