//! Regions that are mapped files.
//!
//! Each file is tried with MAP_SYNC first, which the kernel grants on a DAX file system only. Where it does not, persistent memory is
//! played: on tmpfs by the memory itself, with the same instructions; elsewhere by the page cache, with msync in the place of the fence.
//!
//! Invariants:
//! 1. `memory` is a shared, writable mapping of the first `len` bytes of a file that has them, all allocated, which this value made and
//!    unmaps once. Nobody cuts the file off: whoever has a medium holds its directory's lock.
//! 2. Bytes change only through `&mut self`.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use biombo_base::io::{Io, OpenMode};
use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};

use super::{Backing, Medium, Region, WriteBack};

/// What `fstatfs` says of tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A directory of mapped files.
pub(crate) struct Mapped {
    io: Arc<dyn Io>,
    dir: PathBuf,
    /// How lines are written back; `None` where there is no way.
    write_back: Option<WriteBack>,
}

impl Mapped {
    /// The directory, which exists. `io` is the real file system.
    pub(crate) fn new(io: Arc<dyn Io>, dir: PathBuf) -> Self {
        Self { io, dir, write_back: WriteBack::all().first().copied() }
    }

    fn map(&self, name: &str) -> Result<MappedRegion> {
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::InvalidData)?;
        if len == 0 {
            return Err(Error::new(ErrorKind::InvalidData, "the file is empty"));
        }
        let map = |flags| {
            // SAFETY: (G7) a fresh mapping at an address that the kernel chooses replaces no memory of anybody's.
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, &file, 0) }
        };
        // Where lines cannot be written back, msync does it on any file system.
        let dax = self.write_back.map(|lines| map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC).map(|at| (at, lines)));
        let (memory, backing) = match dax {
            Some(Ok((memory, lines))) => (memory, Backing::Dax(lines)),
            Some(Err(refused)) if refused != Errno::OPNOTSUPP && refused != Errno::INVAL => return Err(refused.into()),
            _ => {
                let is_memory = fstatfs(&file)?.f_type as u64 == TMPFS_MAGIC;
                let lines = self.write_back.filter(|_| is_memory);
                (map(MapFlags::SHARED)?, lines.map_or(Backing::File, Backing::Memory))
            }
        };
        let memory = NonNull::new(memory.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(MappedRegion { memory, len, backing, unsynced: None })
    }
}

impl Medium for Mapped {
    fn settle(&self) -> Result<()> {
        self.io.sync_dir(&self.dir)
    }

    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn Region>> {
        let aside_name = format!("{name}.new");
        let aside = self.dir.join(&aside_name);
        if self.io.exists(&aside)? {
            self.io.remove_file(&aside)?;
        }
        let make = || {
            let file = self.io.open(&aside, OpenMode::CREATE_NEW)?;
            // A full disk is an error here, and not a signal at a store.
            file.allocate(bytes)?;
            let region = self.map(&aside_name)?;
            if matches!(region.backing, Backing::Dax(_)) {
                // Room that was never written costs a commit of the file system's journal at the first store to each page.
                file.fill(0, bytes)?;
            }
            region.touch();
            file.sync()?;
            self.rename(&aside_name, name)?;
            Ok(region)
        };
        match make() {
            Ok(region) => Ok(Box::new(region)),
            Err(error) => {
                // Nobody reads it; it only takes room.
                let _ = self.io.remove_file(&aside);
                Err(error)
            }
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn Region>> {
        Ok(Box::new(self.map(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.io.rename(&self.dir.join(from), &self.dir.join(to))?;
        // The name is there now: this is not the lack of room that leaves all as it was.
        self.io.sync_dir(&self.dir).map_err(Error::other)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.io.remove_file(&self.dir.join(name))
    }

    fn names(&self) -> Result<Vec<String>> {
        let names = self.io.read_dir(&self.dir)?;
        Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }
}

struct MappedRegion {
    memory: NonNull<u8>,
    len: usize,
    backing: Backing,
    /// Of an ordinary file: the range that was written back and not fenced.
    unsynced: Option<(u64, u64)>,
}

// SAFETY: (G7) the mapping is this value's alone, and memory belongs to no thread.
unsafe impl Send for MappedRegion {}
// SAFETY: (G7) a shared region lends shared bytes only, which change only through `&mut self`.
unsafe impl Sync for MappedRegion {}

impl MappedRegion {
    /// Have its pages there for stores to come: a fault for each costs as much as some records. On an ordinary file that would write zeros.
    fn touch(&self) {
        if self.backing.is_fenced_by_an_instruction() {
            // Older kernels do not know it: then each store finds its page.
            // SAFETY: (G2) the range is the mapping, and no byte of it changes.
            _ = unsafe { madvise(self.memory.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) };
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: (G7) so many bytes are mapped, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Region for MappedRegion {
    fn backing(&self) -> Backing {
        self.backing
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: (G7) so many bytes are mapped, and they change only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        self.bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn write_back(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        let range = &self.bytes()[offset as usize..end as usize];
        match self.backing {
            Backing::Dax(lines) | Backing::Memory(lines) => lines.write_back(range),
            _ => {
                let (first, last) = self.unsynced.unwrap_or((offset, end));
                self.unsynced = Some((first.min(offset), last.max(end)));
            }
        }
    }

    fn fence(&mut self) -> Result<()> {
        match self.backing {
            Backing::Dax(lines) | Backing::Memory(lines) => lines.fence(),
            _ => {
                let Some((first, last)) = self.unsynced.take() else { return Ok(()) };
                let page = rustix::param::page_size();
                let first = first as usize / page * page;
                // SAFETY: (G7) the range lies in the mapping and begins with a page; no byte changes by it.
                unsafe { msync(self.memory.as_ptr().add(first).cast(), last as usize - first, MsyncFlags::SYNC)? };
            }
        }
        Ok(())
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: (G7) invariant 1: this value mapped exactly this range, nobody borrows it any more, and it is unmapped once.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a region's own mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium(dir: &std::path::Path, write_back: Option<WriteBack>) -> Mapped {
        Mapped { write_back, ..Mapped::new(biombo_base::io::RealIo::shared(), dir.to_owned()) }
    }

    /// Directories of this machine with what plays persistent memory there.
    fn directories() -> Vec<tempfile::TempDir> {
        let mut dirs = vec![tempfile::tempdir().unwrap()];
        dirs.extend(tempfile::tempdir_in("/dev/shm"));
        dirs
    }

    #[test]
    fn what_was_stored_is_there_for_the_next_who_opens_it() {
        for dir in directories() {
            for method in std::iter::once(None).chain(WriteBack::all().into_iter().map(Some)) {
                let medium = medium(dir.path(), method);
                let mut region = medium.create("one", 10_000).unwrap();
                println!("{}: {}", dir.path().display(), region.backing());
                assert!(method.is_some() || region.backing() == Backing::File);
                assert!(region.bytes().len() == 10_000 && region.bytes().iter().all(|byte| *byte == 0));
                region.store(4090, b"over the edge of a page");
                region.store(9999, &[7]);
                region.write_back(4090, 23);
                region.write_back(9999, 1);
                region.fence().unwrap();
                region.fence().unwrap();
                drop(region);
                medium.rename("one", "two").unwrap();
                assert_eq!(medium.names().unwrap(), ["two"]);
                let region = medium.open("two").unwrap();
                assert_eq!(&region.bytes()[4090..4113], b"over the edge of a page");
                assert_eq!((region.bytes()[9999], region.bytes()[9998]), (7, 0));
                // The room of one that is there is taken anew.
                let again = medium.create("two", 64).unwrap();
                assert_eq!(again.bytes(), [0; 64]);
                assert_eq!(region.bytes()[9999], 7, "who had it keeps it");
                assert_eq!(medium.names().unwrap(), ["two"]);
                medium.remove("two").unwrap();
            }
        }
    }

    #[test]
    fn what_is_not_there_or_empty_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let medium = medium(dir.path(), None);
        assert_eq!(medium.open("none").err().unwrap().kind(), ErrorKind::NotFound);
        std::fs::write(dir.path().join("empty"), []).unwrap();
        assert_eq!(medium.open("empty").err().unwrap().kind(), ErrorKind::InvalidData);
        // More than any disk has.
        assert!(medium.create("large", 1 << 60).is_err());
        assert_eq!(medium.names().unwrap(), ["empty"]);
    }
}
