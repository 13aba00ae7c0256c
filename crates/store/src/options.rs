//! How to create or open a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use biombo_base::io::{Io, IoMode};
use biombo_engine::{Durability, Error, Registry, Result};

use crate::{Placement, Repartition, Store};

/// The most partitions that a store may have.
pub const PARTITIONS_MAX: u32 = 1024;

/// How a store divides its keys over engine instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partitioning {
    /// The engine used directly: one instance, no executor.
    None,
    /// One engine instance; only the execution of writes is divided.
    Soft,
    /// An engine instance for each partition, each in a directory of its own.
    Hard,
}

/// How keys find their partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlacementKind {
    /// By hash slot: even load, scans touch all partitions.
    Hash,
    /// By key range: scans touch few partitions.
    Range,
}

macro_rules! named {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// The name that the command line, the manifest, records and reports use.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
        impl FromStr for $type {
            type Err = Error;
            fn from_str(name: &str) -> Result<Self> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    other => Err(Error::invalid(format!(
                        concat!($what, " `{}` is none of ", $("`", $name, "` "),+), other
                    ))),
                }
            }
        }
    };
}
named!(Partitioning, "partitioning", None = "none", Soft = "soft", Hard = "hard");
named!(PlacementKind, "placement", Hash = "hash", Range = "range");

/// Who runs the writes of a partition, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Executor {
    /// Whoever calls, on its own thread: the quickest where callers run on processors of their own.
    #[default]
    Direct,
    /// So many threads, each bound to a processor, to which the partitions are dealt (no more of them than partitions): in turn, and anew by
    /// the time that each partition takes where the store repartitions itself ([`Options::repartition`]). A caller hands its write over
    /// and waits; what comes to a partition at the same time is written, and synced, at once. With [`Relaxed`](Durability::Relaxed) over `hard`
    /// partitions it does not wait: what it wrote is seen at once and written a moment later, and errors are told by the next
    /// [`flush`](Store::flush). (Over LMDB such a write is one at `Os`, and engines without atomic batches get each for itself.) Batches over several
    /// partitions, read-modify-writes, [`write_each`](Store::write_each), writes of more than 1 MiB, and [`Sync`](Durability::Sync) writes that go
    /// through the store's journal (over LMDB, and over `log` in several partitions, nearly all) still run on their caller's thread.
    Pinned {
        /// 1 to [`PARTITIONS_MAX`].
        workers: u32,
    },
}

impl Executor {
    /// The name that the command line, records and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Pinned { .. } => "pinned",
        }
    }

    /// How many threads it has.
    pub fn workers(self) -> Option<u32> {
        match self {
            Self::Direct => None,
            Self::Pinned { workers } => Some(workers),
        }
    }

    /// Refuse what cannot be.
    pub(crate) fn check(self) -> Result<()> {
        match self.workers() {
            Some(workers) if workers == 0 || workers > PARTITIONS_MAX => {
                Err(Error::invalid(format!("the executor pinned has 1 to {PARTITIONS_MAX} workers, not {workers}")))
            }
            _ => Ok(()),
        }
    }

    /// Refuse what a store that is divided like this has no use for.
    pub(crate) fn check_for(self, partitioning: Partitioning) -> Result<()> {
        match (self, partitioning) {
            (Self::Pinned { .. }, Partitioning::None) => Err(Error::unsupported(
                "the executor pinned runs partitions, and partitioning none has none: choose soft or hard",
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Executor {
    /// `direct`, or `pinned-` and the number of workers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Pinned { workers } => write!(f, "pinned-{workers}"),
        }
    }
}

impl FromStr for Executor {
    type Err = Error;

    /// What [`Display`](fmt::Display) writes.
    fn from_str(name: &str) -> Result<Self> {
        let executor = match name.strip_prefix("pinned-").map(str::parse) {
            Some(Ok(workers)) => Self::Pinned { workers },
            None if name == "direct" => Self::Direct,
            _ => {
                return Err(Error::invalid(format!(
                    "executor `{name}` is none of `direct` and `pinned-N` with N workers, such as `pinned-2`"
                )));
            }
        };
        executor.check().map(|()| executor)
    }
}

/// Options of a store. What is unset is as the store was created with, or the default for a new one. What is set and
/// contradicts an existing store is an error, so that nobody measures or relies on another store than was meant.
///
/// ```
/// use biombo_engine::{Registry, memory};
/// use biombo_store::{Options, Partitioning};
/// # fn main() -> biombo_engine::Result<()> {
/// let mut registry = Registry::new();
/// registry.add(memory::kind());
/// let dir = tempfile::tempdir().expect("a temporary directory");
/// let store = Options::new()
///     .engine("memory")
///     .partitions(4)
///     .partitioning(Partitioning::Hard)
///     .open(dir.path().join("db"), &registry)?;
/// store.put(b"screen", b"folding")?;
/// assert_eq!(store.get(b"screen")?.as_deref(), Some(&b"folding"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) engine: Option<String>,
    pub(crate) partitions: Option<u32>,
    pub(crate) partitioning: Option<Partitioning>,
    pub(crate) placement: Option<PlacementKind>,
    pub(crate) sample: Vec<Vec<u8>>,
    /// A new store's own; unset: slots in turn, or ranges by the sample.
    pub(crate) placed: Option<Placement>,
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) durability: Option<Durability>,
    pub(crate) value_bytes: Option<u32>,
    pub(crate) space_amplification: Option<f64>,
    pub(crate) io_mode: Option<IoMode>,
    pub(crate) must_exist: bool,
    pub(crate) must_be_new: bool,
    /// What is created becomes a store when [`open::name`](crate::open::name) says so, which is after it was filled.
    pub(crate) named_later: bool,
    pub(crate) reshape: bool,
    pub(crate) executor: Executor,
    pub(crate) repartition: Repartition,
    pub(crate) planner: Option<String>,
    pub(crate) journal_segment_bytes: Option<u64>,
    pub(crate) io: Option<Arc<dyn Io>>,
}

impl Options {
    /// All defaults: the registry's first engine that keeps data (`log`, Biombo's own), one partition used directly, hash
    /// placement, `Sync`, 256 MiB of cache, created when missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The engine's name in the registry; unset: see [`Registry::default_kind`].
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.engine = Some(name.into());
        self
    }

    /// How many partitions, 1 to [`PARTITIONS_MAX`].
    pub fn partitions(mut self, count: u32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// `hard`, `soft` or `none`; unset: `hard` with more than one partition, `none` otherwise.
    pub fn partitioning(mut self, partitioning: Partitioning) -> Self {
        self.partitioning = Some(partitioning);
        self
    }

    /// `hash` or `range`; unset: `hash`.
    pub fn placement(mut self, placement: PlacementKind) -> Self {
        self.placement = Some(placement);
        self
    }

    /// A sample of the keys to come, in any order, from which a new store's `range` placement takes its boundaries (the
    /// sample's quantiles). Without one the key space is cut evenly by its first two bytes.
    pub fn range_sample(mut self, keys: Vec<Vec<u8>>) -> Self {
        self.sample = keys;
        self
    }

    /// The placement of a new store, whose owners are among its partitions.
    pub(crate) fn placed(mut self, placement: Placement) -> Self {
        self.placed = Some(placement);
        self
    }

    /// Directories (on several devices) over which a new store spreads its partitions in turn; unset: the store's own.
    pub fn dirs(mut self, dirs: Vec<PathBuf>) -> Self {
        self.dirs = dirs;
        self
    }

    /// All memory for caches and buffers, in bytes, divided over the engine instances.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// The level of writes that do not name one.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The usual size of a value in bytes; engines choose page and block sizes by it.
    pub fn value_bytes(mut self, bytes: u32) -> Self {
        self.value_bytes = Some(bytes);
        self
    }

    /// Bytes on disk by bytes of live data that an engine which cleans (`log`) keeps to, at least 1.05; unset: 1.5. Less space
    /// costs more writing. It may differ at each opening; engines that do not clean have no use for it.
    pub fn space_amplification(mut self, bound: f64) -> Self {
        self.space_amplification = Some(bound);
        self
    }

    /// How the engine reads files that it writes no more: through mappings, or directly with a cache as large as
    /// [`cache_bytes`](Self::cache_bytes) says; unset: its own way. It may differ at each opening; an engine that has no such
    /// choice refuses it (`Unsupported`).
    pub fn io_mode(mut self, io: IoMode) -> Self {
        self.io_mode = Some(io);
        self
    }

    /// `false`: a store that is missing is an error (`NotFound`) instead of being created.
    pub fn create(mut self, create: bool) -> Self {
        self.must_exist = !create;
        self
    }

    /// `true`: a store that exists is an error.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.must_be_new = create_new;
        self
    }

    /// `true`: a creation that is cut short before [`open::name`](crate::open::name) has left no store.
    pub(crate) fn named_later(mut self, named_later: bool) -> Self {
        self.named_later = named_later;
        self
    }

    /// `true`: a store of `hard` partitions that has others than [`partitions`](Self::partitions) and [`engine`](Self::engine) say becomes one that has
    /// those. Partitions that it lacks are added, empty; such as are too many, or of another engine, [leave](Store::leaving). [`Store::spread`] then
    /// gives those that stay equal shares, while reads and writes go on. Partitions that own nothing any more are taken away by the first
    /// opening that finds them so, and nothing left over of any move. Said again, with other figures, it changes what shall be.
    ///
    /// Another [`placement`](Self::placement) than the store has is not for while it serves: all keys are copied into new partitions, as many and of the
    /// engine that are asked for, before this opening returns ([`Store::copied`]). They take room twice meanwhile.
    ///
    /// Refused (`Unsupported`): other partitioning than `hard`, engines without order, another engine where one of the two keeps nothing.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory");
    /// drop(options.clone().partitions(4).open(dir.path(), &registry)?);
    /// let options = options.partitions(2);
    /// let store = options.clone().reshape(true).open(dir.path(), &registry)?;
    /// assert_eq!((store.partitions(), store.leaving().len()), (4, 2));
    /// store.spread(Pace::default())?;
    /// drop(store);
    /// let store = options.open(dir.path(), &registry)?;
    /// assert_eq!((store.partitions(), store.leaving().len()), (2, 0));
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn reshape(mut self, reshape: bool) -> Self {
        self.reshape = reshape;
        self
    }

    /// Who runs writes; unset: [`Executor::Direct`]. It may differ at each opening. `pinned` needs `soft` or `hard` partitions; with
    /// partitioning `none`, where the engine is used directly, it is refused (`Unsupported`).
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Executor, Options};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory").partitions(8).executor(Executor::Pinned { workers: 2 });
    /// let store = options.open(dir.path(), &registry)?;
    /// store.put(b"screen", b"folding")?;
    /// assert_eq!(store.stats()?.worker_by_partition, [0, 1, 0, 1, 0, 1, 0, 1]);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// Whether the partitions move by themselves to where the load is; unset: they do not. Needs `hard` partitions, more than one, of an engine with
    /// order; anything else is refused (`Unsupported`). It may differ at each opening.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Repartition};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory").partitions(8).repartition("1s".parse()?);
    /// let store = options.open(dir.path(), &registry)?;
    /// assert_eq!(store.plans()?.carried_out, 0);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn repartition(mut self, repartition: Repartition) -> Self {
        self.repartition = repartition;
        self
    }

    /// Who plans the moves, by name (`multilevel`, `fennel`, `ldg`, `greedy`, and `metis` in builds with it); unset: `ldg`.
    pub fn planner(mut self, name: impl Into<String>) -> Self {
        self.planner = Some(name.into());
        self
    }

    /// The size of a segment of the store's own journals, in bytes (a multiple of 4,096); unset: 16 MiB for atomic batches. Twice
    /// that many bytes of batches make the store sync its partitions and let go of them, which bounds the work of an opening.
    pub fn journal_segment_bytes(mut self, bytes: u64) -> Self {
        self.journal_segment_bytes = Some(bytes);
        self
    }

    /// The file system for the store's own files (manifest, journals, lock); unset: the real one. The engines use their own.
    pub fn io(mut self, io: Arc<dyn Io>) -> Self {
        self.io = Some(io);
        self
    }

    /// Create or open the store in `path`.
    ///
    /// # Errors
    /// `Busy` when another process has it open, `Invalid` when an option contradicts the existing store or the directory
    /// belongs to another program, `NotFound`, `Corruption`, `Unsupported` (an engine that this build lacks, a newer format).
    pub fn open(self, path: impl AsRef<Path>, registry: &Registry) -> Result<Store> {
        crate::open::open(path.as_ref(), &self, registry)
    }
}
