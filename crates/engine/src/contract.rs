//! The contract itself.
//!
//! Invariants that every implementation keeps (the conformance suite tests them):
//!
//! 1. Keys and values are byte strings, ordered bytewise. A key has 1 B to `key_bytes_max`, a value 0 B to
//!    `value_bytes_max`; past it `apply` returns `Invalid` and changes nothing.
//! 2. `apply` is visible to every later `get` of any thread when it returns. Single keys are linearizable.
//! 3. `apply` with `Sync` returns after the writes, and all before them, are on the device.
//! 4. After a failed write or sync whose outcome is unknown, every later `apply` and `sync` returns `Poisoned` (a full disk
//!    that changed nothing is `Full`, and the engine goes on).
//! 5. What is not declared in [`Capabilities`] answers `Unsupported`.
//! 6. All methods may be called from any number of threads at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Capabilities, Durability, Op, Result, Stats, Value};

/// One instance of a storage engine, in a directory of its own. Dropping the last reference closes it cleanly.
pub trait Engine: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// The value of `key`, without a copy where the engine can. `Ok(None)`: it is absent. A key that the engine could never
    /// hold (empty, too long) is `Invalid`.
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>>;

    /// Copy the value of `key` into `into` (cleared first) and say whether there is one: the cheapest read for a caller
    /// that reuses its buffer. No allocation once `into` has grown.
    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        match self.get(key)? {
            Some(value) => {
                into.extend_from_slice(&value);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Append the value of each key to `values`, in their order: what reads of several keys have in common is done once. After an error as many
    /// were appended as were read before it.
    fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        self.prefetch(keys);
        for key in keys {
            values.push(self.get(key)?);
        }
        Ok(())
    }

    /// Whether `key` is there.
    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// These keys will be read soon: an engine that can asks for their memory, side by side, and waits for none of it. A hint,
    /// which changes no answer and has no errors.
    fn prefetch(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Apply operations in order, the later ones winning; all or none where `atomic_batches` is declared. Every operation
    /// is checked ([`Capabilities::check`]) before the first one is applied.
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()>;

    /// Take from the device now what [`apply`](Self::apply) of the same right after it will need, so that it is not `Full` then; `Full` where that is
    /// not to be had, and nothing has changed. A caller that cannot take back what it is about to decide asks before. An engine that cannot know
    /// says nothing.
    fn reserve(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let _ = (ops, durability);
        Ok(())
    }

    /// Make everything applied so far durable.
    fn sync(&self) -> Result<()>;

    /// Somebody had the kernel write all that it kept of the engine's files (`syncfs`). An engine that counts what it makes the kernel write
    /// takes note; nothing else changes.
    fn written_back(&self) {}

    /// One point in this engine's history.
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>>;

    /// A cursor over the present state (over a snapshot of it where `snapshots` is declared), positioned nowhere.
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>>;

    /// Write an openable copy of one point in history into the directory `dest`, which must not exist or be empty, while
    /// reads and writes go on. The copy is durable when it returns.
    fn checkpoint(&self, dest: &Path) -> Result<()>;

    /// Give room back to the file system and put neighbours together, as far as the engine can; otherwise do nothing.
    fn compact(&self) -> Result<()>;

    /// Figures of this instance. May cost a pass over meta data, never over the data.
    fn stats(&self) -> Result<Stats>;

    /// Read every byte that can be read and report each damage found; returns the number of live keys read. An engine
    /// without checksums can only report what its own structure reveals.
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64>;
}

/// One point in an engine's history; writes that come later are not seen. It holds the engine open, and may hold disk
/// space: drop it when done.
pub trait Snapshot: Send + Sync {
    /// As [`Engine::get`], at that point.
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>>;

    /// As [`Engine::cursor`], at that point.
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>>;
}

/// A position in the ordered keys. A new cursor has no position; each movement gives it one, or none when there is no such
/// key. `key` and `value` are `None` without a position, and valid until the next movement. Moving on from no position
/// stays without one.
pub trait Cursor: Send {
    /// To the first key at or after `key` (which may be empty: the first key of all).
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the last key before `key` (excluded).
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// To the first key.
    fn first(&mut self) -> Result<()>;
    /// To the last key.
    fn last(&mut self) -> Result<()>;
    /// About so many keys will be asked for after the next movement that seeks: an engine that gathers keys ahead need not
    /// gather more. A hint, which changes no answer.
    fn expect(&mut self, keys: u64) {
        let _ = keys;
    }
    /// To the next key.
    fn next(&mut self) -> Result<()>;
    /// To the key before.
    fn prev(&mut self) -> Result<()>;
    /// The key here.
    fn key(&self) -> Option<&[u8]>;
    /// The value here.
    fn value(&self) -> Option<&[u8]>;
}

/// One damage found by [`Engine::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong, in one line.
    pub what: String,
}

/// Something that a repair found damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// How much of it is dropped, in bytes; 0 where something is missing.
    pub bytes: u64,
    /// What is wrong, in one line.
    pub what: String,
    /// The key of the record that is lost, as it lies there: it may be what is damaged.
    pub key: Option<Vec<u8>>,
}

/// What a repair has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Damages that were told of; 0: nothing was changed.
    pub losses: u64,
    /// Sound records that were written once more, because they stood beside damaged ones.
    pub moved_records: u64,
    /// Files that were replaced. They are kept beside, under names that no engine reads.
    pub replaced_files: u64,
}
