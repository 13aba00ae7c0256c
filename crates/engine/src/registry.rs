//! Engines by name. The name is the Cargo feature's, the command line's, the record's and the report's.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::io::IoMode;

use crate::{Capabilities, Durability, Engine, Error, Loss, Repaired, Result};

/// How to open one instance of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenOptions {
    /// The instance's own directory; it exists (the store creates it) and is empty when the instance is new.
    pub dir: PathBuf,
    /// All memory for this instance: caches, memtables, buffers. What the kernel caches is not counted.
    pub cache_bytes: u64,
    /// How many instances share the machine (a store's `hard` partitions): an engine scales its background threads and its
    /// files by it.
    pub instances: u32,
    /// The strongest level that the writes will mostly use; a hint, each `apply` says its own.
    pub durability: Durability,
    /// The usual size of a value in bytes, where known: page and block sizes follow it.
    pub value_bytes: Option<u32>,
    /// Bytes on disk by bytes of live data that an engine which cleans keeps to, above 1; unset: its own default. Others have
    /// no use for it.
    pub space_amplification: Option<f64>,
    /// How files that are written no more are read; unset: the engine's own way. One that has no other is asked for none
    /// ([`EngineKind::check_io`]).
    pub io: Option<IoMode>,
}

impl OpenOptions {
    /// For one instance in `dir` with 256 MiB of cache.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            cache_bytes: 256 << 20,
            instances: 1,
            durability: Durability::Sync,
            value_bytes: None,
            space_amplification: None,
            io: None,
        }
    }
}

/// What [`EngineKind::version`] says of an engine whose programs this machine lacks.
pub const NOT_INSTALLED: &str = "not installed";

/// Opens an instance.
pub type Open = Arc<dyn Fn(&OpenOptions) -> Result<Arc<dyn Engine>> + Send + Sync>;

/// What a repair may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Tell of what is damaged, and change nothing.
    Inspect,
    /// Make the instance one that opens.
    Mend,
}

/// Repairs an instance that nobody has open, or inspects one that does not open, and tells of everything that is damaged.
///
/// What is sound is kept: damage costs the records that it lies in. Afterwards the instance opens and verifies clean; cut short
/// by a crash, it can be run again. An instance without damage is not changed. `Busy` while it is open.
pub type Repair = Arc<dyn Fn(&OpenOptions, RepairMode, &mut dyn FnMut(Loss)) -> Result<Repaired> + Send + Sync>;

/// One engine that this build has.
#[derive(Clone)]
pub struct EngineKind {
    /// Its one name, such as `lmdb`.
    pub name: &'static str,
    /// One line for people: what it is and what it is good for.
    pub summary: &'static str,
    /// The version of the library or program behind it; [`NOT_INSTALLED`] where this machine lacks it.
    pub version: fn() -> String,
    /// What an instance will declare, known without opening one.
    pub capabilities: fn() -> Capabilities,
    /// The ways of reading that it can be asked for.
    pub io_modes: &'static [IoMode],
    /// Create an instance in an empty directory, or open the one that is there. A directory that holds something else is
    /// an error and stays as it is.
    pub open: Open,
    /// `None`: the engine cannot be repaired.
    pub repair: Option<Repair>,
}

impl EngineKind {
    /// Whether this machine has what it takes: an engine that is a library always, one that is a program where it is installed.
    pub fn is_installed(&self) -> bool {
        (self.version)() != NOT_INSTALLED
    }

    /// `Unsupported`, saying what to do, where this engine cannot read its files as is asked.
    pub fn check_io(&self, io: Option<IoMode>) -> Result<()> {
        match io {
            Some(io) if !self.io_modes.contains(&io) => {
                let (name, io) = (self.name, io.name());
                Err(Error::unsupported(format!(
                    "the engine {name} cannot be told to read by {io}: leave out --io {io}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The engines of this build, in the order in which they are listed; see [`Registry::default_kind`].
#[derive(Clone, Default)]
pub struct Registry {
    kinds: Vec<EngineKind>,
}

impl Registry {
    /// Without any engine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add an engine; one of the same name is replaced.
    pub fn add(&mut self, kind: EngineKind) -> &mut Self {
        self.kinds.retain(|k| k.name != kind.name);
        self.kinds.push(kind);
        self
    }

    /// The engine called `name`; `Unsupported` with the names that this build has otherwise.
    pub fn get(&self, name: &str) -> Result<&EngineKind> {
        self.kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<_> = self.kinds.iter().map(|kind| kind.name).collect();
            Error::unsupported(format!("this build has no engine `{name}`; it has {}", names.join(", ")))
        })
    }

    /// The engine of a new store when none is named: the first one that keeps data. `None`: this build has no such engine.
    ///
    /// ```
    /// use biombo_engine::{Registry, memory};
    ///
    /// let mut registry = Registry::new();
    /// registry.add(memory::kind());
    /// assert!(registry.default_kind().is_none(), "nobody gets a store that forgets without asking for it");
    /// ```
    pub fn default_kind(&self) -> Option<&EngineKind> {
        self.kinds.iter().find(|kind| (kind.capabilities)().persistent)
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &EngineKind> {
        self.kinds.iter()
    }
}

impl std::fmt::Debug for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineKind").field("name", &self.name).finish_non_exhaustive()
    }
}
