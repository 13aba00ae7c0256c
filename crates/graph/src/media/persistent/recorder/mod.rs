//! Persistent memory that records every store, write-back and fence, and makes the states that a crash may leave.
//!
//! Memory is words of 8 bytes. A word that was stored to since it was last persistent has versions: a power cut leaves any of them, or what
//! was persistent, each word for itself. (Processors keep the stores to one line in their order, compilers need not, so that each state that is
//! possible is among these.) A write-back marks the versions that a fence then makes persistent. A process that dies leaves all versions:
//! the next one sees the last, and a power cut after that may still leave any.
//!
//! Names change at once, as [`Medium`] promises, but a removed one may come back until another is made or changed. A process that dies in
//! a change may have done it for those who look, and a power cut may undo it until somebody settles names or changes another.

mod crashes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Backing, LINE_BYTES, Medium, Region};
pub(crate) use crashes::{Crash, CrashPoints, SUBSETS_OF};

const WORD: usize = 8;
const LINE_WORDS: usize = LINE_BYTES as usize / WORD;

/// What happened.
#[derive(Debug, Clone)]
enum Event {
    /// What the program is at from here on.
    Step(&'static str),
    Create(String, usize),
    Rename(String, String),
    Remove(String),
    Settle,
    Store(usize, u64, Vec<u8>),
    WriteBack(usize, u64, u64),
    Fence(usize),
}

/// The words that are not persistent, by their number: their versions, and how many of these were written back.
type Pending = BTreeMap<usize, (Vec<[u8; WORD]>, usize)>;

/// Whole words.
#[derive(Debug, Clone, Default)]
struct Memory {
    len: usize,
    persistent: Arc<Vec<[u8; WORD]>>,
    pending: Pending,
}

impl Memory {
    fn zeroed(len: usize) -> Self {
        Self { len, persistent: Arc::new(vec![[0; WORD]; len.div_ceil(WORD)]), pending: Pending::new() }
    }

    fn word(&self, word: usize) -> [u8; WORD] {
        let last = self.pending.get(&word).and_then(|(versions, _)| versions.last());
        last.copied().unwrap_or(self.persistent[word])
    }

    /// As the program sees it.
    fn visible(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.persistent.as_flattened()[..self.len].to_vec();
        for (word, (versions, _)) in &self.pending {
            let (start, end) = (word * WORD, self.len.min((word + 1) * WORD));
            let last = versions.last().expect("a pending word has a version");
            bytes[start..end].copy_from_slice(&last[..end - start]);
        }
        bytes
    }

    fn store(&mut self, offset: usize, bytes: &[u8], mut is_stored: impl FnMut() -> bool) {
        assert!(offset + bytes.len() <= self.len, "a store past the end");
        let mut at = offset;
        while at < offset + bytes.len() {
            let (word, from) = (at / WORD, at % WORD);
            let count = (WORD - from).min(offset + bytes.len() - at);
            let mut value = self.word(word);
            value[from..from + count].copy_from_slice(&bytes[at - offset..at - offset + count]);
            if is_stored() {
                self.pending.entry(word).or_default().0.push(value);
            }
            at += count;
        }
    }

    fn write_back(&mut self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.len, "a write-back past the end");
        let first = offset / LINE_BYTES as usize * LINE_WORDS;
        let end = (offset + bytes).div_ceil(LINE_BYTES as usize) * LINE_WORDS;
        for (_, (versions, written)) in self.pending.range_mut(first..end) {
            *written = versions.len();
        }
    }

    fn fence(&mut self) {
        let persistent = Arc::make_mut(&mut self.persistent);
        self.pending.retain(|word, (versions, written)| {
            if let Some(last) = versions.drain(..*written).next_back() {
                persistent[*word] = last;
            }
            *written = 0;
            !versions.is_empty()
        });
    }

    /// What is left when each pending word has the version that `version` says: 0 is the persistent one.
    fn cut(&self, mut version: impl FnMut(usize, usize) -> usize) -> Self {
        let mut left = self.persistent.clone();
        for (word, (versions, _)) in &self.pending {
            let chosen = version(*word, versions.len());
            if chosen > 0 {
                Arc::make_mut(&mut left)[*word] = versions[chosen - 1];
            }
        }
        Self { len: self.len, persistent: left, pending: Pending::new() }
    }
}

/// All of a medium at one instant.
#[derive(Debug, Clone, Default)]
struct State {
    names: BTreeMap<String, usize>,
    /// Removed names that may come back.
    ghosts: Vec<(String, usize)>,
    /// The names before a change in which a process died: they may come back.
    unsettled: Option<BTreeMap<String, usize>>,
    memories: Vec<Memory>,
}

impl State {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Step(_) => {}
            Event::Settle => self.settle(),
            Event::Create(name, memory) => {
                self.settle();
                self.names.insert(name.clone(), *memory);
            }
            Event::Rename(from, to) => {
                self.settle();
                let memory = self.names.remove(from).expect("what is renamed is there");
                self.names.insert(to.clone(), memory);
            }
            Event::Remove(name) => {
                let memory = self.names.remove(name).expect("what is removed is there");
                self.ghosts.push((name.clone(), memory));
            }
            Event::Store(memory, offset, bytes) => self.memories[*memory].store(*offset as usize, bytes, || true),
            Event::WriteBack(memory, offset, bytes) => {
                self.memories[*memory].write_back(*offset as usize, *bytes as usize);
            }
            Event::Fence(memory) => self.memories[*memory].fence(),
        }
    }

    fn settle(&mut self) {
        self.ghosts.clear();
        self.unsettled = None;
    }

    /// A change of a name is seen, and the process died before it was persistent.
    fn apply_unsettled(&mut self, event: &Event) {
        let (names, ghosts) = (self.names.clone(), self.ghosts.clone());
        self.apply(event);
        (self.unsettled, self.ghosts) = (Some(names), ghosts);
    }

    fn name_of(&self, memory: usize) -> &str {
        let found = self.names.iter().find(|(_, of)| **of == memory);
        found.map_or("removed", |(name, _)| name)
    }
}

/// What the program forgets, to see that it is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgotten {
    WriteBack(&'static str),
    Fence(&'static str),
    Settle,
}

/// The medium; clones are the same.
#[derive(Clone)]
pub(crate) struct Recorder {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    base: State,
    now: State,
    events: Vec<Event>,
    forgotten: Option<Forgotten>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self::of(State::default(), None)
    }

    /// One that does not hear of write-backs or of fences of regions whose names begin so, or of names being settled.
    pub(crate) fn that_misses(forgotten: Forgotten) -> Self {
        Self::of(State::default(), Some(forgotten))
    }

    fn of(state: State, forgotten: Option<Forgotten>) -> Self {
        let inner = Inner { base: state.clone(), now: state, events: Vec::new(), forgotten };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the program is at from here on.
    pub(crate) fn step(&self, name: &'static str) {
        self.lock().record(Event::Step(name));
    }

    /// How much has happened.
    pub(crate) fn event_count(&self) -> usize {
        self.lock().events.len()
    }

    /// A hash of all names and what the program sees under them.
    pub(crate) fn image_hash(&self) -> u64 {
        let (inner, mut hasher) = (self.lock(), DefaultHasher::new());
        for (name, memory) in &inner.now.names {
            (name, inner.now.memories[*memory].visible()).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Inner {
    fn record(&mut self, event: Event) {
        self.now.apply(&event);
        self.events.push(event);
    }

    fn memory(&self, name: &str) -> Result<usize> {
        self.now.names.get(name).copied().ok_or(ErrorKind::NotFound.into())
    }
}

impl Medium for Recorder {
    fn settle(&self) -> Result<()> {
        let mut inner = self.lock();
        if inner.forgotten != Some(Forgotten::Settle) {
            inner.record(Event::Settle);
        }
        Ok(())
    }

    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn Region>> {
        assert!(bytes > 0, "a region has at least one byte");
        let mut inner = self.lock();
        let memory = inner.now.memories.len();
        // Nobody sees it before it has a name.
        inner.base.memories.push(Memory::zeroed(bytes as usize));
        inner.now.memories.push(Memory::zeroed(bytes as usize));
        inner.record(Event::Create(name.to_owned(), memory));
        Ok(Box::new(Recorded { recorder: self.clone(), memory, bytes: vec![0; bytes as usize] }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Region>> {
        let inner = self.lock();
        let memory = inner.memory(name)?;
        let bytes = inner.now.memories[memory].visible();
        Ok(Box::new(Recorded { recorder: self.clone(), memory, bytes }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.memory(from)?;
        inner.record(Event::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.memory(name)?;
        inner.record(Event::Remove(name.to_owned()));
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.lock().now.names.keys().cloned().collect())
    }
}

struct Recorded {
    recorder: Recorder,
    memory: usize,
    bytes: Vec<u8>,
}

impl Region for Recorded {
    fn backing(&self) -> Backing {
        Backing::Recorded
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        self.recorder.lock().record(Event::Store(self.memory, offset, bytes.to_vec()));
    }

    fn write_back(&mut self, offset: u64, bytes: u64) {
        let mut inner = self.recorder.lock();
        let name = inner.now.name_of(self.memory);
        if !matches!(inner.forgotten, Some(Forgotten::WriteBack(stem)) if name.starts_with(stem)) {
            inner.record(Event::WriteBack(self.memory, offset, bytes));
        }
    }

    fn fence(&mut self) -> Result<()> {
        let mut inner = self.recorder.lock();
        let name = inner.now.name_of(self.memory);
        if !matches!(inner.forgotten, Some(Forgotten::Fence(stem)) if name.starts_with(stem)) {
            inner.record(Event::Fence(self.memory));
        }
        Ok(())
    }
}
