//! The index itself: its root, its memory, its readers' door ([`Index::pin`]) and its writer's ([`Index::writer`]).

use std::sync::PoisonError;

use biombo_base::Result;

use super::arena::heap::Heap;
use super::arena::{Arena, CHUNK_UNITS, Walk};
use super::epoch::{Announced, Epochs};
use super::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, order};
use super::word::{Leaf, Word};
use super::write::Writer;
use super::{cursor::Cursor, walk};

/// Inserts whose nodes fit into a chunk, if each needs one of the largest and a smallest one.
const INSERTS_A_CHUNK: usize = if CHUNK_UNITS > 512 { CHUNK_UNITS / 256 } else { 1 };
/// Chunks that are left to deletions, which need nodes too, and to what is cut up too finely to be used.
const ROOMY_CHUNKS: usize = 64;
/// Chunks that are left in any case: more than the runs that the kinds of nodes have claimed.
const NARROW_CHUNKS: usize = 16;
/// What is asked for ahead finds room also when others took as much meanwhile: so many chunks more where many are left, and so many where few are.
const ROOMY_AHEAD: usize = 32;
const NARROW_AHEAD: usize = 8;

/// Where the keys are: the log.
///
/// A reader pins the log before it pins the index, so that the position that it reads in the index is still there in the
/// log.
pub trait Keys {
    /// Give `f` the key of the record at `leaf`.
    ///
    /// # Errors
    /// The record cannot be read; the operation that needed it fails with this error and changes nothing.
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R>;

    /// Say that the key of `leaf` will be asked for soon.
    fn prefetch(&self, leaf: Leaf) {
        let _ = leaf;
    }
}

impl<K: Keys + ?Sized> Keys for &K {
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        (**self).with_key(leaf, f)
    }

    fn prefetch(&self, leaf: Leaf) {
        (**self).prefetch(leaf);
    }
}

/// An ordered map from keys to leaves that stores no keys.
///
/// ```
/// use biombo_log::index::{Index, Keys, Leaf};
///
/// struct Log(Vec<&'static [u8]>);
/// impl Keys for Log {
///     fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> biombo_base::Result<R> {
///         Ok(f(self.0[leaf.get() as usize]))
///     }
/// }
///
/// let log = Log(vec![b"folding", b"fold", b"screen"]);
/// let index = Index::new();
/// let mut writer = index.writer();
/// for (at, key) in log.0.iter().enumerate() {
///     writer.insert(key, Leaf::new(at as u64).expect("a small number"), &log)?;
/// }
/// let pin = index.pin();
/// assert_eq!(pin.get(b"screen")?, Leaf::new(2));
/// let mut cursor = pin.cursor(&log);
/// assert_eq!(cursor.seek(b"fo")?, Leaf::new(1));
/// assert_eq!(cursor.next()?, Leaf::new(0));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub struct Index {
    pub(super) arena: Arena,
    pub(super) epochs: Epochs,
    pub(super) root: AtomicU64,
    pub(super) len: AtomicUsize,
    pub(super) heap: Mutex<Heap>,
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self::over(Arena::new())
    }

    /// One without a root yet, in this memory.
    pub(super) fn over(arena: Arena) -> Self {
        Self {
            arena,
            epochs: Epochs::new(),
            root: AtomicU64::new(Word::EMPTY.0),
            len: AtomicUsize::new(0),
            heap: Mutex::new(Heap::new()),
        }
    }

    /// Begin to read. What this reader can reach stays as it is until the pin is dropped; a pin that is kept long keeps
    /// memory of this index from being used again, and holds up nobody.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        Pin { index: self, _announced: self.epochs.announce() }
    }

    /// Become the writer; waits for another one.
    pub fn writer(&self) -> Writer<'_> {
        Writer::new(self, self.heap.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Chunks of memory that an image of it has.
    pub fn chunks(&self) -> usize {
        self.arena.chunks()
    }

    /// Bytes of memory that the index has taken. Waits for the writer.
    pub fn memory_bytes(&self) -> usize {
        let heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        size_of::<Self>() + self.arena.memory_bytes() + heap.memory_bytes()
    }

    /// Whether `inserts` new keys will fit, whatever nodes they need: asked before what leads here is written, since an
    /// insert that fails with `Full` fails too late. `ahead` of a write that must not be refused any more when it comes, more is asked for.
    /// Near the end of the memory it waits for the writer, and says no while less than a sixteenth of it is free, ahead an eighth.
    #[inline]
    pub fn has_room(&self, inserts: usize, ahead: bool) -> bool {
        let needed = inserts / INSERTS_A_CHUNK;
        let (roomy, narrow) = if ahead {
            (ROOMY_CHUNKS + ROOMY_AHEAD, NARROW_CHUNKS + NARROW_AHEAD)
        } else {
            (ROOMY_CHUNKS, NARROW_CHUNKS)
        };
        let room = self.arena.room();
        room >= roomy + needed || room >= narrow + needed && self.is_emptied(ahead)
    }

    /// Whether so much is free in the chunks that there are that new nodes find a place.
    #[cold]
    fn is_emptied(&self, ahead: bool) -> bool {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let share = if ahead { 8 } else { 16 };
        heap.free_units(&self.arena) * share >= self.chunks() * CHUNK_UNITS
    }

    #[cfg(test)]
    pub(crate) fn limit(&self, room: usize) {
        self.arena.limit(room);
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Word {
        Word(self.root.load(order::observe()))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} keys)", self.len())
    }
}

/// A reader of an [`Index`].
pub struct Pin<'i> {
    pub(super) index: &'i Index,
    _announced: Announced<'i>,
}

impl Pin<'_> {
    /// The only leaf that `key` can have, or `None`: the caller compares the key in the log, since not every byte of it was
    /// compared on the way.
    ///
    /// # Errors
    /// `Corruption`, if the index was loaded from an image that is damaged.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Leaf>> {
        unbox(walk::get(self.index, key))
    }

    /// As [`get`](Self::get), for many keys: up to eight walks go on side by side, each waiting for memory while the others
    /// work. `found` takes as many answers as there are keys.
    ///
    /// # Errors
    /// As [`get`](Self::get); `Invalid` if `found` is shorter than `keys`.
    pub fn get_batch(&self, keys: &[&[u8]], found: &mut [Option<Leaf>]) -> Result<()> {
        if found.len() < keys.len() {
            return Err(biombo_base::Error::invalid("there are more keys than places for answers"));
        }
        for (keys, found) in keys.chunks(walk::BATCH).zip(found.chunks_mut(walk::BATCH)) {
            unbox(walk::get_batch(self.index, keys, found))?;
        }
        Ok(())
    }

    /// A cursor, which stands before the first key.
    pub fn cursor<K: Keys>(&self, keys: K) -> Cursor<'_, K> {
        Cursor::new(self, keys)
    }
}

#[inline(always)]
pub(super) fn unbox<T>(walked: Walk<T>) -> Result<T> {
    match walked {
        Ok(value) => Ok(value),
        Err(fault) => Err(*fault),
    }
}
