//! Files behind one trait.
//!
//! Everything that Biombo itself puts on a disk goes through [`Io`] and [`File`], so that the same code runs on the real
//! file system and on a simulated one that records every write and sync, loses any subset of what was not synced, tears
//! writes, loses renames and refuses with EIO or ENOSPC.
//!
//! What a caller may rely on is what POSIX and ext4/xfs give, not more:
//!
//! 1. Bytes written are durable after a later [`File::sync`] of that file succeeded, or at once through a file opened
//!    with [`OpenMode::direct_sync`].
//! 2. A created, renamed or removed name is durable after a later [`Io::sync_dir`] of its directory succeeded.
//! 3. A failed sync says that the data may be gone and will never be retried: the owner poisons itself.

mod aligned;
mod count;
mod dirs;
mod mapping;
mod mode;
mod real;
pub mod sim;

pub use aligned::AlignedBuf;
pub use count::{Counters, Counts};
pub use dirs::create_dirs;
pub use mapping::{Advice, Mapping, MappingWriter};
pub use mode::IoMode;
pub use real::{RealIo, raise_open_files_limit};

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// Create it if it is missing.
    pub create: bool,
    /// Fail if it exists already (with `create`).
    pub exclusive: bool,
    /// Open for writing too.
    pub write: bool,
    /// `O_DIRECT|O_DSYNC`: each write is on the device when it returns; offsets, lengths and addresses must be multiples
    /// of [`BLOCK_BYTES`]. Where the file system has no O_DIRECT, O_DSYNC alone is used and nothing else changes.
    pub direct_sync: bool,
    /// `O_DIRECT` for reading: past the page cache, under the same rules of alignment. A read that meets the end of the file
    /// returns what is before it. Where the file system has no O_DIRECT, reads go through the page cache.
    pub direct: bool,
}

impl OpenMode {
    /// An existing file, for reading.
    pub const READ: Self = Self { create: false, exclusive: false, write: false, direct_sync: false, direct: false };
    /// An existing file, for reading past the page cache.
    pub const READ_DIRECT: Self = Self { direct: true, ..Self::READ };
    /// An existing or new file, for reading and writing.
    pub const WRITE: Self = Self { create: true, exclusive: false, write: true, direct_sync: false, direct: false };
    /// A new file, for reading and writing; an existing one is an error.
    pub const CREATE_NEW: Self = Self { create: true, exclusive: true, write: true, direct_sync: false, direct: false };
}

/// The unit of direct reads and writes, in bytes: the largest tear that a device is assumed to prevent is 512, the usual 4,096.
pub const BLOCK_BYTES: usize = 4096;

/// One open file. All methods take `&self`; positions are explicit.
pub trait File: Send + Sync {
    /// Fill `buf` from `offset`; fewer bytes only at the end of the file. Returns the count.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// Write all of `buf` at `offset`, growing the file where needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// The same, in writes of a block each, for room that small synced writes will go to. The kernel keeps what one write brings in pages as
    /// large as that, and counts all of such a page as written whenever a part of it is.
    fn write_blocks_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_at(buf, offset)
    }
    /// Make everything written so far durable (data and length; fdatasync).
    fn sync(&self) -> Result<()>;
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Whether it is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cut or extend (with zeros) to `bytes`.
    fn set_len(&self, bytes: u64) -> Result<()>;
    /// Reserve room for `bytes` from the start, so that later writes there do not fail with ENOSPC; extends the file.
    fn allocate(&self, bytes: u64) -> Result<()>;
    /// Let the system take hold of `bytes` of room at `offset` that was [allocated](File::allocate) and never written, so that
    /// stores through a mapping find its pages there: zeros are written where zeros are, in the system's memory only. Not
    /// counted as written. The caller sees to it that nobody stores there meanwhile.
    fn fill(&self, offset: u64, bytes: u64) -> Result<()>;
    /// Map the first `bytes` for appending behind the first `committed` (`writable`), or for reading only.
    ///
    /// The room must have been [allocated](File::allocate). `InvalidInput` when the file is shorter than `bytes`. While it
    /// is mapped, nobody cuts the file off or changes what is committed. Stores through the mapping are made durable by
    /// [`sync`](File::sync), like writes.
    fn map(&self, bytes: u64, committed: u64, writable: bool) -> Result<Arc<Mapping>>;
    /// Let the page cache forget what it has of the file and need not write: it will not be read through it soon. A hint.
    fn uncache(&self) {}
}

/// A held advisory lock; dropping it releases it.
pub trait Lock: Send + Sync {}

/// A file system.
pub trait Io: Send + Sync {
    /// Open `path`.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;
    /// Rename `from` to `to`, replacing it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Remove a file.
    fn remove_file(&self, path: &Path) -> Result<()>;
    /// Remove a directory and all below it; one that is missing is no error.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;
    /// Create a directory and its parents; one that exists is no error.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// The names in a directory, sorted.
    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>>;
    /// Make created, renamed and removed names in `path` durable.
    fn sync_dir(&self, path: &Path) -> Result<()>;
    /// Whether something is there.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Take the exclusive advisory lock of the file `path` (created if missing) without waiting; `None` when another
    /// process (or another holder in this one) has it.
    fn try_lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>>;
    /// Bytes that may still be written to the file system of `path`; `None` where nobody knows.
    fn free_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let _ = path;
        Ok(None)
    }
    /// A number that no earlier call gave, also in earlier processes (with the odds of 64 random bits): for identities
    /// that are stored. The simulated disk gives a repeatable sequence, so that a failing run can be repeated.
    fn random_u64(&self) -> u64;
}
