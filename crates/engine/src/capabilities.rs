//! What an engine declares that it can do. The conformance suite tests what is declared, and that the rest answers
//! [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).

use crate::{Durability, Error, Op, Result};

/// What an engine can do, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Cursors and range deletes work, in bytewise order of keys.
    pub ordered: bool,
    /// [`Engine::snapshot`](crate::Engine::snapshot) works, and a cursor keeps the view of its beginning. Without it a
    /// cursor may see writes that come after it was opened.
    pub snapshots: bool,
    /// The operations of one `apply` become visible at once and survive a crash all or not at all.
    pub atomic_batches: bool,
    /// The weakest level whose acknowledged writes survive the death of the process; `None`: no level does.
    pub survives_kill: Option<Durability>,
    /// The weakest level at which, if every write uses it or a stronger one, the store opens undamaged after a power cut
    /// with a prefix of its writes that holds all acknowledged `Sync` ones; `None`: it may be damaged at every level.
    pub survives_power_cut: Option<Durability>,
    /// [`Engine::sync`](crate::Engine::sync) makes earlier `Os` writes durable as cheaply as if they had been applied with
    /// `Sync`, so that a sync can be shared by several applies and need not be held under a lock.
    pub sync_apart: bool,
    /// Beginning and committing a write costs much more than an operation in it: callers gain by sharing one.
    pub costly_transactions: bool,
    /// [`Engine::checkpoint`](crate::Engine::checkpoint) works.
    pub checkpoints: bool,
    /// Data outlives the instance; without it reopening gives an empty engine.
    pub persistent: bool,
    /// The longest key in bytes (at most 65,536).
    pub key_bytes_max: usize,
    /// The longest value in bytes (at most 1 GiB).
    pub value_bytes_max: usize,
}

/// The longest key of any engine, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value of any engine, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

impl Capabilities {
    /// Refuse an operation that is past the limits, before anything is changed: `Invalid` for an empty or too long key or
    /// a too long value, `Unsupported` for a range delete on an unordered engine. Bounds of a range may be empty.
    pub fn check(&self, op: &Op<'_>) -> Result<()> {
        match op {
            Op::Put { key, value } => {
                self.check_key(key)?;
                if value.len() > self.value_bytes_max {
                    return Err(Error::invalid(format!(
                        "a value of {} bytes is longer than the {} that this engine takes",
                        value.len(),
                        self.value_bytes_max
                    )));
                }
                Ok(())
            }
            Op::Delete { key } => self.check_key(key),
            Op::DeleteRange { .. } if !self.ordered => {
                Err(Error::unsupported("this engine keeps no order of keys: delete_range is not available"))
            }
            Op::DeleteRange { .. } => Ok(()),
        }
    }

    /// Refuse a key that is empty or too long.
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        if key.is_empty() {
            return Err(Error::invalid("a key must have at least one byte"));
        }
        if key.len() > self.key_bytes_max {
            return Err(Error::invalid(format!(
                "a key of {} bytes is longer than the {} that this engine takes",
                key.len(),
                self.key_bytes_max
            )));
        }
        Ok(())
    }
}
