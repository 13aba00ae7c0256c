//! The real file system.
//!
//! What it relies on: `pwrite`, `fdatasync`, `fsync` of a directory, `rename`, `flock`, `fallocate`, `O_DIRECT|O_DSYNC`.
//! A sync that failed is reported once by the kernel and its pages may be marked clean: nothing here retries one.

use std::fs::{DirBuilder, File as StdFile, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, fdatasync, flock, fsync};
use rustix::io::Errno;

use super::count::{Counters, Counts};
use super::{File, Io, Lock, Mapping, OpenMode};

/// The file system of this machine. Clones share their [`Counts`].
#[derive(Debug, Clone, Default)]
pub struct RealIo {
    counters: Arc<Counters>,
}

impl RealIo {
    /// With counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, ready to be handed to whatever takes an [`Io`].
    pub fn shared() -> Arc<dyn Io> {
        Arc::new(Self::new())
    }

    /// Bytes read and written, and syncs, through this object and its clones.
    pub fn counts(&self) -> Counts {
        self.counters.get()
    }
}

/// Flags beside read and write. O_DIRECT is tried first and left out where the file system refuses it.
fn flags(direct: bool, sync: bool) -> i32 {
    let mut flags = OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, direct);
    flags.set(OFlags::DSYNC, sync);
    flags.bits() as i32
}

/// Say what to do when no more files may be open. It is a lack of room: nothing was changed, and the next try may do.
fn out_of_files(e: Error) -> Error {
    let full = [Errno::MFILE, Errno::NFILE].iter().any(|full| e.raw_os_error() == Some(full.raw_os_error()));
    let raise = || Error::new(ErrorKind::QuotaExceeded, format!("{e}: raise the limit of open files (ulimit -n)"));
    if full { raise() } else { e }
}

/// Let this process have as many files open as the system lets it ask for: for who keeps many. Returns the limit, if there is
/// one.
pub fn raise_open_files_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
}

impl Io for RealIo {
    fn free_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode.write);
        if mode.create {
            if mode.exclusive {
                options.create_new(true);
            } else {
                options.create(true);
            }
        }
        let mut is_direct = mode.direct_sync || mode.direct;
        let opened = options.custom_flags(flags(is_direct, mode.direct_sync)).open(path);
        let file = match opened {
            Err(refused) if is_direct && refused.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                // Some kernels create the name before they refuse O_DIRECT; it is ours then, so do not insist that it
                // be new.
                is_direct = false;
                options.create_new(false).create(mode.create).custom_flags(flags(false, mode.direct_sync)).open(path)?
            }
            other => other.map_err(out_of_files)?,
        };
        if file.metadata()?.is_dir() {
            return Err(Error::from(ErrorKind::IsADirectory));
        }
        Ok(Arc::new(RealFile { file, is_direct, counters: Arc::clone(&self.counters) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        DirBuilder::new().recursive(true).create(path)
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let mut names = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
            .collect::<Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.counters.synced();
        // The parent of a relative name of one component is the empty path.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let dir = StdFile::open(path)?;
        Ok(fsync(&dir)?)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists()
    }

    fn try_lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>> {
        Ok(RealLock::try_take(path)?.map(|lock| Box::new(lock) as Box<dyn Lock>))
    }

    fn random_u64(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        // Two hashers keyed by the system's randomness; the hash of nothing under a fresh random key is a random number.
        let one = std::hash::RandomState::new().build_hasher().finish();
        let two = std::hash::RandomState::new().build_hasher().finish();
        one.rotate_left(32) ^ two ^ crate::clock::monotonic_ns() ^ (u64::from(std::process::id()) << 40)
    }
}

/// flock is bound to the open file description, which a child that was forked and has not executed its program yet shares: closing the
/// file releases the lock when the process dies, and unlocking it releases it whoever has a copy.
struct RealLock {
    file: StdFile,
}

impl RealLock {
    fn try_take(path: &Path) -> Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        loop {
            return match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(Self { file })),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(e) => Err(e.into()),
            };
        }
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing follows: what fails here is done by that.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock for RealLock {}

/// Read until `buf` is full or the file ends.
fn read_full(buf: &mut [u8], offset: u64, read: impl Fn(&mut [u8], u64) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// The same with reads at whole blocks only. One that stops within a block has met the end of the file, or what the device cannot
/// read; the file's `len` tells which. Then the block is asked for once more by itself, for the error that the kernel has left out.
fn read_blocks(
    buf: &mut [u8],
    offset: u64,
    read: impl Fn(&mut [u8], u64) -> Result<usize>,
    len: impl Fn() -> Result<u64>,
) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let n = match read(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if n.is_multiple_of(super::BLOCK_BYTES) {
            done += n;
        } else if offset + (done + n) as u64 >= len()? {
            return Ok(done + n);
        } else if n < super::BLOCK_BYTES {
            return Err(Error::other("the device stopped reading within a block"));
        } else {
            done += n / super::BLOCK_BYTES * super::BLOCK_BYTES;
        }
    }
    Ok(done)
}

/// Writes to the page cache are handed over in such pieces. The kernel takes memory in pieces as large as a write, and large
/// ones from memory that nobody has used for long, which a virtual machine has given back to its host: taking one back costs
/// ten times as much as writing to it (0.4 GB/s in pieces of 2 MiB, 6 in these, where both were measured).
const PIECE_BYTES: usize = 256 << 10;

/// Never written to, so all of it is one page of the system's.
static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; PIECE_BYTES].into_boxed_slice());

struct RealFile {
    file: StdFile,
    is_direct: bool,
    counters: Arc<Counters>,
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let done = if self.is_direct {
            read_blocks(buf, offset, |buf, at| self.file.read_at(buf, at), || self.len())?
        } else {
            read_full(buf, offset, |buf, at| self.file.read_at(buf, at))?
        };
        self.counters.read(done);
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let piece_bytes = if self.is_direct { usize::MAX } else { PIECE_BYTES };
        let mut at = offset;
        for piece in buf.chunks(piece_bytes) {
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        self.counters.wrote(buf.len());
        Ok(())
    }

    fn write_blocks_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        if self.is_direct {
            return self.write_at(buf, offset);
        }
        let mut at = offset;
        for block in buf.chunks(super::BLOCK_BYTES) {
            self.file.write_all_at(block, at)?;
            at += block.len() as u64;
        }
        self.counters.wrote(buf.len());
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.counters.synced();
        Ok(fdatasync(&self.file)?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn fill(&self, offset: u64, bytes: u64) -> Result<()> {
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            let next = ((at / PIECE_BYTES as u64 + 1) * PIECE_BYTES as u64).min(end);
            self.file.write_all_at(&ZEROS[..(next - at) as usize], at)?;
            at = next;
        }
        Ok(())
    }

    fn map(&self, bytes: u64, committed: u64, writable: bool) -> Result<Arc<Mapping>> {
        if self.len()? < bytes {
            return Err(ErrorKind::InvalidInput.into());
        }
        Mapping::of_file(self.file.as_fd(), bytes, committed, writable, Arc::clone(&self.counters))
    }

    fn uncache(&self) {
        // Only memory is at stake.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => break,
                Err(e) => return Err(e.into()),
            }
        }
        // No reservations here: writing zeros behind the end is the only way to have the room for certain.
        let zeros = super::AlignedBuf::zeroed(1 << 20);
        let mut at = self.len()?.next_multiple_of(super::BLOCK_BYTES as u64);
        while at < bytes {
            let count = (bytes - at).min(zeros.len() as u64) as usize;
            let count = count.next_multiple_of(super::BLOCK_BYTES);
            self.write_at(&zeros[..count], at)?;
            at += count as u64;
        }
        if self.len()? < bytes { self.set_len(bytes) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "real_tests.rs"]
mod tests;
