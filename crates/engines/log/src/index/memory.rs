//! The memory of an arena: a table of chunks, each a fixed array of atomic words. This is the only unsafe code of the index;
//! the rules IX1 to IX4 are in SAFETY.md.
//!
//! 1. The table has an entry for every chunk that 32 bits of reference can name, so looking up needs no bounds check; the
//!    entries that nobody has used are pages of zeros that the system has not yet handed out.
//! 2. An entry goes from null to a chunk once and never changes again while the arena lives.
//! 3. From [`SINGLE_CHUNKS`] chunks on, memory is taken for [`GROUP_CHUNKS`] chunks at once, aligned to a huge page: a look-up
//!    in a large tree is a walk over random addresses, and half of its cost is the translation of addresses.
//! 4. A chunk's memory is zero when it is taken, and belongs to one chunk number.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::arena::{CHUNK_BYTES, CHUNK_WORDS, CHUNKS_MAX};
use super::sync::Mutex;

/// A chunk's words.
pub type Chunk = [AtomicU64; CHUNK_WORDS];

/// Chunks of a small index, each taken for itself.
const SINGLE_CHUNKS: usize = 4;
/// Chunks that are taken together behind those: 2 MiB, a huge page.
const GROUP_CHUNKS: usize = (2 << 20) / CHUNK_BYTES;

/// The chunks by number.
pub struct Table {
    entries: Entries,
    blocks: Mutex<Vec<Block>>,
}

/// The table's own memory: straight from the system, because an allocator that reuses what was freed would have to write zeros all
/// over it.
struct Entries(NonNull<[AtomicPtr<Chunk>; CHUNKS_MAX]>);

// SAFETY: (IX1) it owns its memory, which is atomic pointers; which thread uses or frees it does not matter.
unsafe impl Send for Entries {}
// SAFETY: (IX1) as above.
unsafe impl Sync for Entries {}

impl Entries {
    const LAYOUT: Layout = Layout::new::<[AtomicPtr<Chunk>; CHUNKS_MAX]>();

    fn new() -> Self {
        Self(system::take(Self::LAYOUT).cast())
    }
}

impl Deref for Entries {
    type Target = [AtomicPtr<Chunk>; CHUNKS_MAX];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: (IX1) the memory is of this type, holds zeros or what was stored there, and lives as long as this.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        // SAFETY: (IX1) it was taken with this layout, is given back once, and nothing borrows it.
        unsafe { system::give_back(self.0.cast(), Self::LAYOUT) }
    }
}

/// Memory for one chunk or for a group of them, from `first` on.
struct Block {
    first: usize,
    chunks: usize,
    memory: NonNull<u8>,
}

// SAFETY: (IX2) a block owns its memory, whose words are atomic; which thread frees it does not matter.
unsafe impl Send for Block {}

impl Table {
    pub fn new() -> Self {
        Self { entries: Entries::new(), blocks: Mutex::new(Vec::new()) }
    }

    /// The chunk, if it is there.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&Chunk> {
        let chunk = self.entries[number & (CHUNKS_MAX - 1)].load(Ordering::Acquire);
        // SAFETY: (IX2) an entry is null or points to a chunk that lives as long as the table.
        unsafe { chunk.as_ref() }
    }

    /// The chunk, filled by `fill` if it was not there. Callers for one chunk at the same time wait for the first of them.
    pub fn get_or_fill<E>(&self, number: usize, fill: impl FnOnce(&Chunk) -> Result<(), E>) -> Result<&Chunk, E> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = self.get(number) {
            return Ok(chunk);
        }
        let at = match blocks.iter().position(|b| (b.first..b.first + b.chunks).contains(&number)) {
            Some(at) => at,
            None => {
                blocks.push(match number.checked_sub(SINGLE_CHUNKS) {
                    None => Block::new(number, 1),
                    Some(above) => Block::new(number - above % GROUP_CHUNKS, GROUP_CHUNKS),
                });
                blocks.len() - 1
            }
        };
        let chunk = blocks[at].chunk(number);
        // SAFETY: (IX2) the block lives as long as the table, and its words are zeroed or were filled by a call that failed.
        fill(unsafe { chunk.as_ref() })?;
        self.entries[number].store(chunk.as_ptr(), Ordering::Release);
        // SAFETY: (IX2) as above.
        Ok(unsafe { chunk.as_ref() })
    }

    /// Bytes taken from the system.
    pub fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|b| b.chunks * CHUNK_BYTES + size_of::<Block>()).sum::<usize>()
            + blocks.iter().map(|b| b.chunks * size_of::<AtomicPtr<Chunk>>()).sum::<usize>()
    }
}

impl Block {
    fn layout(chunks: usize) -> Layout {
        let bytes = chunks * CHUNK_BYTES;
        let align = if chunks == GROUP_CHUNKS { bytes } else { 4096 };
        Layout::from_size_align(bytes, align).expect("invariant: a block is 2 MiB at most")
    }

    fn new(first: usize, chunks: usize) -> Self {
        let layout = Self::layout(chunks);
        if chunks == GROUP_CHUNKS {
            let memory = system::take(layout);
            system::ask_for_huge_pages(memory, layout);
            return Self { first, chunks, memory };
        }
        // SAFETY: (IX3) the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { first, chunks, memory }
    }

    /// # Safety
    /// Nothing borrows its memory, and it is called once.
    unsafe fn give_back(&self) {
        let layout = Self::layout(self.chunks);
        if self.chunks == GROUP_CHUNKS {
            // SAFETY: (IX3) it was taken with this layout, and what the caller promises.
            unsafe { system::give_back(self.memory, layout) }
        } else {
            // SAFETY: (IX3) the memory came from `alloc_zeroed` with this layout, and what the caller promises.
            unsafe { dealloc(self.memory.as_ptr(), layout) }
        }
    }

    fn chunk(&self, number: usize) -> NonNull<Chunk> {
        assert!((self.first..self.first + self.chunks).contains(&number), "invariant: the chunk lies in its block");
        // SAFETY: (IX3) the offset lies within the allocation, as asserted.
        unsafe { self.memory.add((number - self.first) * CHUNK_BYTES).cast() }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for block in self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            for number in block.first..block.first + block.chunks {
                self.entries[number].store(null_mut(), Ordering::Relaxed);
            }
            // SAFETY: (IX3) the table is gone, so nothing borrows a chunk, and so is the block after this.
            unsafe { block.give_back() }
        }
    }
}

/// Ask the processor for the cache lines of up to `bytes` from `at` words into `chunk` on.
#[inline(always)]
pub fn prefetch(chunk: &Chunk, at: usize, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..bytes).step_by(64) {
        let address = chunk.as_ptr().cast::<i8>().wrapping_add(at * 8 + line);
        // SAFETY: (IX4) a hint to the processor: no access, any address will do.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (chunk, at, bytes);
}

/// Zeros straight from the system, which has no page of them until it is touched. An allocator writes zeros itself where it aligns: all pages
/// would be there, and small, before the system hears that huge ones are wanted; what then makes huge ones of them holds up the whole process
/// for milliseconds at a time.
#[cfg(all(target_os = "linux", not(any(miri, biombo_small_chunks))))]
mod system {
    use super::{Layout, NonNull, handle_alloc_error, null_mut};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Every mapping begins at a multiple of this.
    const PAGE_BYTES_MIN: usize = 4096;

    pub fn take(layout: Layout) -> NonNull<u8> {
        let (bytes, align) = (layout.size(), layout.align());
        let slack = if align > PAGE_BYTES_MIN { align } else { 0 };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: (IX1, IX3) a fresh mapping at an address of the kernel's choice, which is that of a page.
        let mapped = unsafe { mmap_anonymous(null_mut(), bytes + slack, protection, flags) };
        let Ok(mapped) = mapped.map(|memory| memory.cast::<u8>()) else { handle_alloc_error(layout) };
        let before = if slack > 0 { mapped.align_offset(align) } else { 0 };
        let memory = mapped.wrapping_add(before);
        for (from, bytes) in [(mapped, before), (memory.wrapping_add(bytes), slack - before)] {
            if bytes > 0 {
                // SAFETY: (IX1, IX3) both ends lie in the mapping just made, nobody knows them, and they are whole pages: the mapping's ends
                // and the alignment are multiples of one. If it fails, addresses are wasted, not memory.
                let _ = unsafe { munmap(from.cast(), bytes) };
            }
        }
        NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// # Safety
    /// [`take`] gave it for this layout, nothing borrows it, and it is given back once.
    pub unsafe fn give_back(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (IX1, IX3) what the caller promises.
        let _ = unsafe { munmap(memory.as_ptr().cast(), layout.size()) };
    }

    /// If it is refused, small pages serve.
    pub fn ask_for_huge_pages(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (IX3) the range is a block of the caller's own, and the advice changes no content.
        let _ = unsafe { madvise(memory.as_ptr().cast(), layout.size(), Advice::LinuxHugepage) };
    }
}

/// The same where there is no such call: from the allocator.
#[cfg(not(all(target_os = "linux", not(any(miri, biombo_small_chunks)))))]
mod system {
    use super::{Layout, NonNull, alloc_zeroed, dealloc, handle_alloc_error};

    pub fn take(layout: Layout) -> NonNull<u8> {
        // SAFETY: (IX1, IX3) the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// # Safety
    /// [`take`] gave it for this layout, nothing borrows it, and it is given back once.
    pub unsafe fn give_back(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: (IX1, IX3) what the caller promises.
        unsafe { dealloc(memory.as_ptr(), layout) }
    }

    pub fn ask_for_huge_pages(_: NonNull<u8>, _: Layout) {}
}
