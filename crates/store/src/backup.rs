//! Backup files: all keys of one point in history in one file. Format: `docs/format/backup.md`.
//!
//! Invariants: the file is written aside and renamed when it is whole and synced; every block carries its checksum; the last block
//! carries the number of keys, so a truncated file is recognised. `restore` makes a store of it or leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{File, Io, OpenMode, RealIo};
use biombo_engine::{Batch, Durability, Error, Registry, Result};
use serde::{Deserialize, Serialize};

use crate::placement::Input;
use crate::scan::Range;
use crate::{Options, Store, copy, open};

const MAGIC: &[u8; 16] = b"biombo backup 1\n";
const BLOCK_BYTES: usize = 1 << 20;
/// Backups below this are read whole to find the boundaries of ranges.
const SAMPLED_WHOLE_BYTES_MAX: u64 = 64 << 20;
/// Larger than any one record: a block holds at least one.
const BLOCK_BYTES_MAX: u64 = (1 << 30) + (1 << 20) + BLOCK_BYTES as u64;

/// The shape of the store that was saved: a restored one has it unless told otherwise.
#[derive(Serialize, Deserialize)]
struct Shape {
    engine: String,
    partitioning: String,
    partitions: u32,
    placement: String,
}

/// Where a backup that is to be the file `path` is written.
fn aside(path: &Path, own: u64) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{own:016x}.tmp"));
    aside.into()
}

/// Remove what backups that are to be the file `path` have left aside whose process died: nobody has their lock.
fn sweep(io: &dyn Io, path: &Path) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    // Only room is at stake.
    for left in io.read_dir(parent).unwrap_or_default() {
        let left = left.file_name().and_then(|left| left.to_str()).unwrap_or_default();
        let own = left.strip_prefix(name).and_then(|left| left.strip_prefix('.')?.strip_suffix(".tmp"));
        let own =
            own.and_then(|own| u64::from_str_radix(own, 16).ok().filter(|number| format!("{number:016x}") == own));
        let Some(left) = own.map(|own| aside(path, own)) else { continue };
        // Held until it is gone: who makes one of that name finds it locked.
        if let Ok(Some(_lock)) = io.try_lock(&left) {
            let _ = io.remove_file(&left);
        }
    }
}

impl Store {
    /// Save one point in history as the file `path`, replacing it when all is written; returns the number of keys.
    pub fn backup(&self, path: &Path) -> Result<u64> {
        let io = &self.inner.io;
        let refused = |e| Error::io(format_args!("write {}", path.display()), e);
        sweep(&**io, path);
        // Its own, which nobody else writes to: another backup into the same place replaces this one as a whole, or is replaced.
        let (aside, _lock, file) = loop {
            let aside = aside(path, io.random_u64());
            // Somebody who sweeps may have come before the lock, and may have removed what is locked.
            let Some(lock) = io.try_lock(&aside).map_err(refused)? else { continue };
            match io.open(&aside, OpenMode { write: true, ..OpenMode::READ }) {
                Ok(file) => break (aside, lock, file),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(refused(e)),
            }
        };
        let aside = aside.as_path();
        let mut out = Output { file, at: 0, block: Vec::new(), path };
        let saved = self.save(&mut out).and_then(|keys| out.file.sync().map_err(refused).map(|()| keys));
        drop(out);
        match saved {
            Ok(keys) => {
                io.rename(aside, path).map_err(refused)?;
                let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                io.sync_dir(parent).map_err(refused)?;
                Ok(keys)
            }
            Err(error) => {
                let _ = io.remove_file(aside);
                Err(error)
            }
        }
    }

    fn save(&self, out: &mut Output<'_>) -> Result<u64> {
        let mut scan =
            if self.capabilities().snapshots { self.snapshot()?.scan(Range::all())? } else { self.scan(Range::all())? };
        out.write(MAGIC)?;
        let shape = Shape {
            engine: self.engine().to_owned(),
            partitioning: self.partitioning().name().to_owned(),
            partitions: self.inner.manifest.partitions_to_stay(),
            placement: self.placement_kind().name().to_owned(),
        };
        let shape = toml::to_string(&shape).map_err(|e| Error::invalid(format!("cannot write the backup: {e}")))?;
        out.block.extend_from_slice(shape.as_bytes());
        out.end_block()?;
        let mut keys = 0u64;
        while let Some((key, value)) = scan.next()? {
            out.block.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.block.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.block.extend_from_slice(key);
            out.block.extend_from_slice(value);
            keys += 1;
            if out.block.len() >= BLOCK_BYTES {
                out.end_block()?;
            }
        }
        if !out.block.is_empty() {
            out.end_block()?;
        }
        // The last block: empty, then the number of keys in a block of its own.
        out.end_block()?;
        out.block.extend_from_slice(&keys.to_le_bytes());
        out.end_block()?;
        Ok(keys)
    }

    /// Make the store `dir` of the backup file `path`; what `options` set wins over the saved shape. Leaves nothing behind when
    /// it fails, and no store when the process dies.
    pub fn restore(path: &Path, dir: &Path, options: Options, registry: &Registry) -> Result<Store> {
        let io: Arc<dyn Io> = options.io.clone().unwrap_or_else(|| Arc::new(RealIo::new()));
        let refused = |e| Error::io(format_args!("read {}", path.display()), e);
        let file = io.open(path, OpenMode::READ).map_err(refused)?;
        let mut input = Reader { bytes: file.len().map_err(refused)?, file, at: 0, path };
        if input.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption(path, 0, "this is not a backup of Biombo, or of another version"));
        }
        let shape = input.block()?;
        let damaged = |what: &str| Error::corruption(path, MAGIC.len() as u64, what);
        let shape = std::str::from_utf8(&shape).map_err(|_| damaged("the saved shape is not text"))?;
        let shape: Shape = toml::from_str(shape).map_err(|e| damaged(e.message()))?;
        let existed = io.exists(dir).map_err(refused)?;
        let sample = input.sample()?;
        let options = options.or_shape(&shape)?.range_sample(sample).create_new(true).named_later(true);
        let store = options.open(dir, registry)?;
        // Cut short before its name, it is no store.
        match load(&store, &mut input).and_then(|()| open::name(&*io, dir)) {
            Ok(()) => Ok(store),
            Err(error) => {
                let manifest = store.inner.manifest.clone();
                drop(store);
                // Nobody else's store is removed that came into its place since.
                if let Ok(_owner) = copy::retake(&*io, dir, &manifest.store_id) {
                    // Partitions on other devices before what names them. It was missing or empty before.
                    for index in 0..manifest.engine_dirs.len() {
                        let _ = io.remove_dir_all(&manifest.engine_dir(dir, index));
                    }
                    let _ = io.remove_dir_all(dir);
                    if existed {
                        let _ = io.create_dir_all(dir);
                    }
                }
                Err(error)
            }
        }
    }
}

fn load(store: &Store, input: &mut Reader<'_>) -> Result<()> {
    let mut keys = 0u64;
    let mut batch = Batch::new();
    loop {
        let at = input.at;
        let block = input.block()?;
        if block.is_empty() {
            break;
        }
        keys += records(&block, &mut |key, value| {
            batch.put(key, value);
        })
        .map_err(|e| Error::corruption(input.path, at, e.message()))?;
        store.write_each(&batch, Durability::Os)?;
        batch.clear();
    }
    let at = input.at;
    let count = input.block()?;
    if count != keys.to_le_bytes() {
        return Err(Error::corruption(
            input.path,
            at,
            format!("the backup does not end with its number of keys, {keys}"),
        ));
    }
    store.flush()
}

/// The records of a block; returns how many.
fn records(block: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
    let mut input = Input(block);
    let mut count = 0;
    while !input.0.is_empty() {
        let (key_bytes, value_bytes) = (input.u32()? as usize, input.u32()? as usize);
        let key = input.take(key_bytes)?;
        each(key, input.take(value_bytes)?);
        count += 1;
    }
    Ok(count)
}

impl Options {
    fn or_shape(mut self, shape: &Shape) -> Result<Self> {
        let same_layout = self.partitions.is_none() && self.partitioning.is_none();
        self.engine.get_or_insert_with(|| shape.engine.clone());
        if same_layout {
            self.partitions = Some(shape.partitions);
            self.partitioning = Some(shape.partitioning.parse()?);
        }
        if self.placement.is_none() {
            self.placement = Some(shape.placement.parse()?);
        }
        Ok(self)
    }
}

struct Output<'a> {
    file: Arc<dyn File>,
    at: u64,
    block: Vec<u8>,
    path: &'a Path,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.at).map_err(|e| Error::io(format_args!("write {}", self.path.display()), e))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Length, checksum (of length and bytes), bytes.
    fn end_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.block);
        let length = (block.len() as u64).to_le_bytes();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&length), &block);
        self.write(&length)?;
        self.write(&checksum.to_le_bytes())?;
        self.write(&block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }
}

struct Reader<'a> {
    file: Arc<dyn File>,
    bytes: u64,
    at: u64,
    path: &'a Path,
}

impl Reader<'_> {
    fn take(&mut self, bytes: usize) -> Result<Vec<u8>> {
        if bytes as u64 > self.bytes.saturating_sub(self.at) {
            return Err(Error::corruption(self.path, self.at, "the backup ends too early"));
        }
        let mut out = vec![0; bytes];
        let refused = |e| Error::io(format_args!("read {}", self.path.display()), e);
        let read = self.file.read_at(&mut out, self.at).map_err(refused)?;
        if read < bytes {
            return Err(Error::corruption(self.path, self.at, "the backup ends too early"));
        }
        self.at += bytes as u64;
        Ok(out)
    }

    fn block(&mut self) -> Result<Vec<u8>> {
        let at = self.at;
        let header = self.take(12)?;
        let mut input = Input(&header);
        let (length, checksum) = (input.u64()?, input.u32()?);
        if length > BLOCK_BYTES_MAX {
            return Err(Error::corruption(self.path, at, "a block is longer than a backup's blocks are"));
        }
        let block = self.take(length as usize)?;
        if crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), &block) != checksum {
            return Err(Error::corruption(self.path, at, "a block's checksum differs from its contents"));
        }
        Ok(block)
    }

    /// Keys from all over the file, for the boundaries of range placement: all of a file of few blocks, the first of each
    /// block of a larger one, in key order because a backup is. Leaves the position as it was.
    fn sample(&mut self) -> Result<Vec<Vec<u8>>> {
        let start = self.at;
        let few_blocks = self.bytes < SAMPLED_WHOLE_BYTES_MAX;
        let mut keys = Vec::new();
        loop {
            let at = self.at;
            if few_blocks {
                let block = self.block()?;
                if block.is_empty() {
                    break;
                }
                records(&block, &mut |key, _| keys.push(key.to_vec()))
                    .map_err(|e| Error::corruption(self.path, at, e.message()))?;
                continue;
            }
            let header = self.take(12)?;
            let length = Input(&header).u64()?;
            if length == 0 {
                break;
            }
            let next = self.at.saturating_add(length);
            let lengths = self.take(8)?;
            let key_bytes = Input(&lengths).u32()? as usize;
            keys.push(self.take(key_bytes.min(biombo_engine::capabilities::KEY_BYTES_MAX))?);
            self.at = next;
        }
        self.at = start;
        Ok(keys)
    }
}
