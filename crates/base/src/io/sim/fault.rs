//! Refusals: which operation fails, and how.

use std::path::PathBuf;
use std::sync::Arc;

/// An operation that changes the disk, before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventInfo {
    /// The number that it gets, from 0.
    pub number: usize,
    /// Kind and file name, digits as one `#`: `write #.seg`, `rename #.new -> #.seg`, `sync_dir store`.
    pub label: String,
    /// The file or directory (the old name, for a rename).
    pub path: PathBuf,
}

/// When a fault strikes.
#[derive(Clone)]
pub enum When {
    /// At the operation that would be event `n`.
    Event(usize),
    /// At the n-th read from now on, counted from 0.
    Read(u64),
    /// At operations that it says yes to.
    Matches(Arc<dyn Fn(&EventInfo) -> bool + Send + Sync>),
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO. A write changes nothing. A sync fails as on Linux: some of what it should have made durable is, the rest
    /// stays visible, counts as clean, and no later sync writes it.
    Eio,
    /// ENOSPC; nothing is changed.
    Enospc,
    /// A write puts down so many bytes and then fails with ENOSPC. Other operations: as `Enospc`.
    Short(usize),
    /// EIO of a directory's sync: the names that it should have made durable stay visible, count as clean, and no later sync writes them. Other
    /// operations: as `Eio`.
    LostNames,
}

/// One fault.
#[derive(Clone)]
pub struct Fault {
    /// When.
    pub when: When,
    /// How.
    pub kind: FaultKind,
    /// How often it strikes; `u32::MAX`: for ever.
    pub times: u32,
}

impl Fault {
    /// One that strikes once, at event `n`.
    pub fn at(n: usize, kind: FaultKind) -> Self {
        Self { when: When::Event(n), kind, times: 1 }
    }
}
