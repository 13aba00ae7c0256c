//! Append-only memory: a file's bytes, or anonymous memory, written by one and read by many.
//!
//! A [`Mapping`] has a committed length. Below it bytes never change and anybody may read them, without a lock; above it
//! lies what the one [`MappingWriter`] has not handed over yet. So readers and the writer never meet at a byte.
//!
//! Invariants:
//! 1. `memory` is a mapping of `capacity` bytes (rounded up to whole pages) that this value made and unmaps once; or
//!    `capacity` bytes that `backing` holds, unchanged for as long as it is held, of a mapping that nobody can write to.
//! 2. Bytes below `committed` are not written while anybody can read them: the writer gets only bytes at or above it,
//!    and `committed` falls only in [`Mapping::reset`], which nobody shares.
//! 3. At most one [`MappingWriter`] lives (`has_writer`), and it holds the mapping, so that `reset` cannot meet it.
//!
//! What the types cannot enforce, and the owner of the file promises (SAFETY.md, B6): nobody else writes to the mapped
//! bytes below `committed` or cuts the file off while it is mapped. Biombo's files are written by the one process that
//! holds their directory's lock, and each part of it keeps that promise for its own files.
//!
//! A mapping does not make anything durable: [`File::sync`](super::File::sync) of its file does. The file's room must have
//! been allocated before, so that a full disk is an error there and not a signal here. A device that cannot read a page
//! back still ends the process with a signal: that is the price of reading through a mapping.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::count::Counters;

/// Who is told of what a writer commits.
pub(super) enum Backing {
    /// Nobody: memory only.
    Anonymous,
    /// The real file system's counters.
    Counted(Arc<Counters>),
    /// The simulated disk, which stores the bytes.
    Recorded(Box<dyn Record>),
    /// Nobody: it is read-only, and the bytes are these.
    Lent(#[expect(dead_code, reason = "it is only held")] Arc<dyn AsRef<[u8]> + Send + Sync>),
}

/// The simulated disk's side of a mapping.
pub(super) trait Record: Send + Sync {
    /// `bytes` were stored at `offset` of the file.
    fn stored(&self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// How a range will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// As the kernel thinks best.
    Normal,
    /// From front to back: read ahead far.
    Sequential,
    /// Anywhere: do not read ahead.
    Random,
    /// Soon: read it now, in the background.
    WillNeed,
    /// Not soon: the first to go when memory is short.
    Cold,
}

/// Append-only memory; see the module. Made by [`File::map`](super::File::map) or [`Mapping::anonymous`].
pub struct Mapping {
    memory: NonNull<u8>,
    capacity: usize,
    committed: AtomicUsize,
    has_writer: AtomicBool,
    writable: bool,
    backing: Backing,
}

// SAFETY: (B5) the mapping owns its memory alone, and memory belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: (B5) `&Mapping` lends bytes below `committed`, which do not change while they are lent (invariant 2); the
// committed length is stored with Release behind the bytes and loaded with Acquire before them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory without a file, `bytes` long, all zeros, nothing committed. Pages are taken from the system when they are
    /// first touched.
    ///
    /// ```
    /// use biombo_base::io::Mapping;
    /// let mapping = Mapping::anonymous(1 << 20)?;
    /// let mut writer = mapping.writer().expect("nobody else writes");
    /// assert!(mapping.writer().is_none(), "one writer at a time");
    /// writer.append_at(0, &[b"hello, ", b"world"])?;
    /// assert_eq!(mapping.slice(7, 5), Some(&b"world"[..]));
    /// assert_eq!(mapping.slice(7, 6), None, "not committed");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn anonymous(bytes: u64) -> Result<Arc<Self>> {
        Self::private(bytes, 0, Backing::Anonymous).map(Arc::new)
    }

    fn private(bytes: u64, committed: u64, backing: Backing) -> Result<Self> {
        let (capacity, committed) = lengths(bytes, committed)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: (B4) a fresh mapping at an address that the kernel chooses replaces no memory of anybody's.
        let memory = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), capacity, protection, flags)?
        };
        Self::over(memory.cast(), capacity, committed, true, backing)
    }

    /// A copy of a simulated file's bytes, whose stores go to `record`.
    pub(super) fn recorded(content: &[u8], committed: u64, record: Box<dyn Record>) -> Result<Arc<Self>> {
        let mapping = Self::private(content.len() as u64, committed, Backing::Recorded(record))?;
        // SAFETY: (B4) so many bytes were just mapped writable, and nobody else has seen this mapping yet.
        unsafe { std::slice::from_raw_parts_mut(mapping.memory.as_ptr(), content.len()) }.copy_from_slice(content);
        Ok(Arc::new(mapping))
    }

    /// The first `bytes` of a simulated file as it is now, to be read: `content` is shared and so changes no more.
    pub(super) fn lent(
        content: Arc<impl AsRef<[u8]> + Send + Sync + 'static>,
        bytes: u64,
        committed: u64,
    ) -> Result<Arc<Self>> {
        let (capacity, committed) = lengths(bytes, committed)?;
        let held: &[u8] = (*content).as_ref();
        let memory = held.get(..capacity).ok_or(ErrorKind::InvalidInput)?.as_ptr().cast_mut();
        Self::over(memory, capacity, committed, false, Backing::Lent(content)).map(Arc::new)
    }

    /// The first `bytes` of a file, which has them.
    pub(super) fn of_file(
        file: BorrowedFd<'_>,
        bytes: u64,
        committed: u64,
        writable: bool,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>> {
        let (capacity, committed) = lengths(bytes, committed)?;
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, writable);
        // SAFETY: (B4) a fresh mapping at an address that the kernel chooses replaces no memory of anybody's.
        let memory = unsafe { mmap(std::ptr::null_mut(), capacity, protection, MapFlags::SHARED, file, 0)? };
        Self::over(memory.cast(), capacity, committed, writable, Backing::Counted(counters)).map(Arc::new)
    }

    fn over(memory: *mut u8, capacity: usize, committed: usize, writable: bool, backing: Backing) -> Result<Self> {
        let memory = NonNull::new(memory).ok_or(ErrorKind::OutOfMemory)?;
        let has_writer = AtomicBool::new(false);
        Ok(Self { memory, capacity, committed: AtomicUsize::new(committed), has_writer, writable, backing })
    }

    /// Its length, in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// Whether it can have a [`writer`](Self::writer).
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Bytes from the start that may be read. Never falls while the mapping is shared.
    #[inline]
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire) as u64
    }

    /// The bytes from `offset` on, if all of them are committed. No lock, no system call; a page that is not in memory is
    /// read from the file when it is touched.
    #[inline]
    pub fn slice(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        let end = offset.checked_add(bytes)?;
        if end > self.committed() {
            return None;
        }
        // SAFETY: (B5, B6) the range lies below `committed` and so in the mapping; its bytes do not change while `self` is
        // borrowed (invariant 2), and the Acquire load above saw them stored.
        Some(unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(offset as usize), bytes as usize) })
    }

    /// The right to append; `None` while somebody has it, or when the mapping is read-only.
    pub fn writer(self: &Arc<Self>) -> Option<MappingWriter> {
        if !self.writable || self.has_writer.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(MappingWriter { mapping: Arc::clone(self) })
    }

    /// Begin again with only the first `committed` bytes. Nobody shares the mapping, so nobody reads what will change.
    pub fn reset(&mut self, committed: u64) -> Result<()> {
        let (_, committed) = lengths(self.capacity as u64, committed)?;
        *self.committed.get_mut() = committed;
        Ok(())
    }

    /// Make the pages of a range present and writable, so that storing there takes no fault (MADV_POPULATE_WRITE). The
    /// content stays. Pages then count as changed: call it for what will be written soon. Without effect on a read-only
    /// mapping and on kernels before 5.14.
    pub fn populate(&self, offset: u64, bytes: u64) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        match self.advise_pages(offset, bytes, rustix::mm::Advice::LinuxPopulateWrite) {
            Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }

    /// Let go of the pages of a file's mapping; whoever touches them takes a short fault. The content stays, what was stored too.
    ///
    /// For before a [sync](super::File::sync): the kernel takes from every mapping the right to store to what it writes, page by
    /// page, and interrupts all processors of the program at each. Pages that are not mapped are spared that.
    pub fn unmap_pages(&self) -> Result<()> {
        match &self.backing {
            Backing::Counted(_) => self.advise_pages(0, u64::MAX, rustix::mm::Advice::LinuxDontNeed),
            // Memory without a file would lose what is in it.
            Backing::Anonymous | Backing::Recorded(_) | Backing::Lent(_) => Ok(()),
        }
    }

    /// Tell the kernel how a range will be used. The content stays.
    pub fn advise(&self, offset: u64, bytes: u64, advice: Advice) -> Result<()> {
        use rustix::mm::Advice as Kernel;
        if matches!(self.backing, Backing::Lent(_)) {
            // Memory of the program's own.
            return Ok(());
        }
        let advice = match advice {
            Advice::Normal => Kernel::Normal,
            Advice::Sequential => Kernel::Sequential,
            Advice::Random => Kernel::Random,
            Advice::WillNeed => Kernel::WillNeed,
            Advice::Cold => Kernel::LinuxCold,
        };
        self.advise_pages(offset, bytes, advice)
    }

    fn advise_pages(&self, offset: u64, bytes: u64, advice: rustix::mm::Advice) -> Result<()> {
        let page = rustix::param::page_size();
        let start = (offset as usize).min(self.capacity) / page * page;
        let end = offset.saturating_add(bytes).min(self.capacity as u64) as usize;
        if start >= end {
            return Ok(());
        }
        // SAFETY: (B7) the range lies in the mapping, and none of the advices that reach this changes what its bytes are.
        unsafe { Ok(madvise(self.memory.as_ptr().add(start).cast(), end - start, advice)?) }
    }
}

fn lengths(capacity: u64, committed: u64) -> Result<(usize, usize)> {
    let limit = isize::MAX as u64;
    if capacity == 0 || capacity > limit || committed > capacity {
        return Err(ErrorKind::InvalidInput.into());
    }
    Ok((capacity as usize, committed as usize))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if matches!(self.backing, Backing::Lent(_)) {
            return;
        }
        // SAFETY: (B4) invariant 1: this value mapped exactly this range, nobody borrows it any more, and it is unmapped once.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.capacity) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} of {} bytes committed)", self.committed(), self.capacity)
    }
}

/// The right to append to a [`Mapping`]; one lives at a time.
#[derive(Debug)]
pub struct MappingWriter {
    mapping: Arc<Mapping>,
}

impl MappingWriter {
    /// The mapping.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// The next `bytes` behind the committed ones, to be filled and then [committed](Self::commit); `None` when there is
    /// not so much room. They hold anything.
    #[inline]
    pub fn tail(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let start = self.mapping.committed.load(Ordering::Relaxed);
        if bytes > self.mapping.capacity - start {
            return None;
        }
        // SAFETY: (B8, B6) the range lies in a writable mapping at or above `committed`, where readers get nothing; `&mut self`
        // of the only writer (invariant 3) excludes every other borrow of it.
        Some(unsafe { std::slice::from_raw_parts_mut(self.mapping.memory.as_ptr().add(start), bytes) })
    }

    /// Let readers see the next `bytes`, as [`tail`](Self::tail) was filled.
    ///
    /// `InvalidInput` when there are not so many; on the simulated disk also when the file was cut off meanwhile.
    #[inline]
    pub fn commit(&mut self, bytes: usize) -> Result<()> {
        let start = self.mapping.committed.load(Ordering::Relaxed);
        if bytes > self.mapping.capacity - start {
            return Err(ErrorKind::InvalidInput.into());
        }
        match &self.mapping.backing {
            Backing::Anonymous | Backing::Lent(_) => {}
            Backing::Counted(counters) => counters.stored(bytes),
            Backing::Recorded(record) => {
                // SAFETY: (B8) as in `tail`, and it is only read.
                let stored = unsafe { std::slice::from_raw_parts(self.mapping.memory.as_ptr().add(start), bytes) };
                record.stored(start as u64, stored)?;
            }
        }
        self.mapping.committed.store(start + bytes, Ordering::Release);
        Ok(())
    }

    /// Append `parts` one behind the other and commit them. `offset` is where the caller believes the end to be:
    /// `InvalidInput` when it is not there, or when there is not so much room; nothing is changed then.
    pub fn append_at(&mut self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if offset != self.mapping.committed() {
            return Err(Error::new(ErrorKind::InvalidInput, "an append that is not at the end of the mapping"));
        }
        let Some(mut tail) = self.tail(bytes) else {
            return Err(Error::new(ErrorKind::InvalidInput, "an append past the end of the mapping"));
        };
        for part in parts {
            let (here, rest) = tail.split_at_mut(part.len());
            here.copy_from_slice(part);
            tail = rest;
        }
        self.commit(bytes)
    }
}

impl Drop for MappingWriter {
    fn drop(&mut self) {
        self.mapping.has_writer.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
