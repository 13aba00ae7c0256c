//! The options that create or open a store, from the command line and from a file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use biombo::{Config, Durability, ErrorKind, Executor, IoMode, Op, Options, Partitioning, PlacementKind, Store};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::failure::{Done, Failure};
use crate::format::InputFormat;
use crate::size::parse_bytes;

/// A parser of one of `names`, each of which `T` knows.
pub(crate) fn one_of<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = biombo::Error> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

/// A bound on space.
pub(crate) fn parse_amplification(text: &str) -> Result<f64, String> {
    let bound: f64 = text.parse().map_err(|_| "a number, such as 1.5".to_owned())?;
    if bound.is_finite() && bound >= 1.05 { Ok(bound) } else { Err(format!("{bound} is not at least 1.05")) }
}

/// The levels of durability, strongest first.
pub(crate) const DURABILITIES: &[&str] = &["sync", "os", "relaxed"];
/// The ways to partition.
pub(crate) const PARTITIONINGS: &[&str] = &["hard", "soft", "none"];
/// The ways to place keys.
pub(crate) const PLACEMENTS: &[&str] = &["hash", "range"];

/// Options that a new store is created with. An existing store keeps its own, and one that contradicts them is an error.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Options of a new store (an existing one keeps its own; a contradicting option is an error)"
)]
pub(crate) struct StoreArgs {
    /// Storage engine; `biombo engines` lists those of this build [default: log, or the first listed where the build lacks it]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<String>,
    /// Number of partitions, 1 to 1024 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) partitions: Option<u32>,
    /// hard: an engine instance for each partition; soft: one instance, divided execution; none: the engine used directly
    /// [default: hard with more than one partition, else none]
    #[arg(long, value_name = "KIND", value_parser = one_of::<Partitioning>(PARTITIONINGS), hide_possible_values = true)]
    pub(crate) partitioning: Option<Partitioning>,
    /// How keys find their partition: hash (even load) or range (scans touch few partitions) [default: hash]
    #[arg(long, value_name = "KIND", value_parser = one_of::<PlacementKind>(PLACEMENTS), hide_possible_values = true)]
    pub(crate) placement: Option<PlacementKind>,
    /// Spread the partitions over these directories (devices), separated by commas
    #[arg(long = "dir", value_name = "D,D..", value_delimiter = ',', id = "spread")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Memory for all caches together, in bytes or with KiB, MiB, GiB; may differ at each opening [default: 256MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) cache_bytes: Option<u64>,
    /// Bytes on disk by bytes of live data that an engine which cleans (log) keeps to; may differ at each opening [default: 1.5]
    #[arg(long, value_name = "F", value_parser = parse_amplification)]
    pub(crate) space_amplification: Option<f64>,
    /// How the engine reads files that it writes no more: mmap, direct (O_DIRECT through a cache of --cache-bytes); may differ at each
    /// opening. log knows both, rocksdb direct, lmdb mmap [default: the engine's own way]
    #[arg(long, value_name = "HOW")]
    pub(crate) io: Option<IoMode>,
    /// Read options from a TOML file of the same names (`engine = "log"`, `partitions = 8`), such as `biombo advise` writes; the
    /// command line wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The usual size of a value; only a configuration says it.
    #[arg(skip)]
    value_bytes: Option<u32>,
    /// Who runs writes; only a configuration says it.
    #[arg(skip)]
    executor: Option<Executor>,
}

/// What a configuration says beyond the store.
#[derive(Debug, Default)]
pub(crate) struct Beyond {
    pub(crate) durability: Option<Durability>,
    pub(crate) format: Option<InputFormat>,
}

impl StoreArgs {
    /// Take from the configuration file, if one is named, what the command line does not say; the rest of it is returned.
    pub(crate) fn merge_config(&mut self) -> Done<Beyond> {
        let Some(file) = self.config.clone() else { return Ok(Beyond::default()) };
        let Config {
            engine,
            partitions,
            partitioning,
            placement,
            executor,
            dir,
            cache_bytes,
            durability,
            value_bytes,
            space_amplification,
            io,
            format,
            ..
        } = Config::read(&file).map_err(|e| match e.kind() {
            ErrorKind::Invalid => Failure::usage(e.to_string()),
            _ => Failure::failed(e.to_string()),
        })?;
        self.engine = self.engine.take().or(engine);
        self.partitions = self.partitions.or(partitions);
        self.partitioning = self.partitioning.or(partitioning);
        self.placement = self.placement.or(placement);
        self.cache_bytes = self.cache_bytes.or(cache_bytes);
        self.value_bytes = value_bytes;
        self.executor = executor;
        self.space_amplification = self.space_amplification.or(space_amplification);
        self.io = self.io.or(io);
        if self.dirs.is_empty() {
            self.dirs = dir.unwrap_or_default();
        }
        // The configuration holds none that is unknown.
        let format = format.and_then(|name| InputFormat::from_str(&name, false).ok());
        Ok(Beyond { durability, format })
    }

    /// Refuse what can be told to be wrong without looking at the store.
    pub(crate) fn check(&self) -> Done {
        if let Some(engine) = &self.engine {
            let registry = biombo::registry();
            let kind = registry.get(engine).map_err(|e| Failure::usage(e.to_string()))?;
            kind.check_io(self.io).map_err(|e| Failure::usage(e.to_string()))?;
        }
        if self.partitioning == Some(Partitioning::None) && self.partitions.is_some_and(|count| count > 1) {
            return Err(Failure::usage(
                "--partitioning none has one partition: leave out --partitions, or choose hard or soft",
            ));
        }
        Ok(())
    }

    /// The store in `dir`, or `None` when there is none yet. What is set here and contradicts it is an error.
    pub(crate) fn open_existing(&self, dir: &Path) -> Done<Option<Store>> {
        match self.options().create(false).open(dir, &biombo::registry()) {
            Ok(store) => Ok(Some(warned(store))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Create the store in `dir`; `sample` is of the keys to come, for range placement.
    pub(crate) fn create(&self, dir: &Path, sample: Vec<Vec<u8>>) -> Done<Store> {
        let options = self.options().range_sample(sample).create(true);
        Ok(warned(options.open(dir, &biombo::registry())?))
    }

    /// Refuse what the engine of a new store would refuse.
    pub(crate) fn check_op(&self, op: &Op<'_>) -> Done {
        let registry = biombo::registry();
        let kind =
            self.engine.as_deref().map_or_else(|| Ok(registry.default_kind()), |name| registry.get(name).map(Some))?;
        kind.map_or(Ok(()), |kind| Ok((kind.capabilities)().check(op)?))
    }

    /// As the library takes them.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        if let Some(engine) = &self.engine {
            options = options.engine(engine);
        }
        if let Some(partitions) = self.partitions {
            options = options.partitions(partitions);
        }
        if let Some(partitioning) = self.partitioning {
            options = options.partitioning(partitioning);
        }
        if let Some(placement) = self.placement {
            options = options.placement(placement);
        }
        if let Some(bytes) = self.cache_bytes {
            options = options.cache_bytes(bytes);
        }
        if let Some(bytes) = self.value_bytes {
            options = options.value_bytes(bytes);
        }
        if let Some(executor) = self.executor {
            options = options.executor(executor);
        }
        if let Some(bound) = self.space_amplification {
            options = options.space_amplification(bound);
        }
        if let Some(io) = self.io {
            options = options.io_mode(io);
        }
        if !self.dirs.is_empty() {
            options = options.dirs(self.dirs.clone());
        }
        options
    }
}

/// The store in `dir`, which must exist, as it was created.
pub(crate) fn open(dir: &Path) -> Done<Store> {
    Ok(try_open(dir)?)
}

/// The same, with an error that says more.
pub(crate) fn try_open(dir: &Path) -> biombo::Result<Store> {
    Options::new().create(false).open(dir, &biombo::registry()).map(warned)
}

/// The end of a command that wrote at `durability`. What was acknowledged is as durable as was asked for, so that a level
/// below `sync` asks for no sync here either; but `relaxed` writes must have reached their log before success is reported.
pub(crate) fn close(store: Store, durability: Durability) -> Done {
    if durability == Durability::Relaxed { Ok(store.close()?) } else { Ok(()) }
}

/// Show what the store wants its operator to know.
pub(crate) fn warned(store: Store) -> Store {
    for warning in store.warnings() {
        crate::note(warning);
    }
    store
}

/// When a write of this command counts as done.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DurabilityArg {
    /// When a write is acknowledged: sync (on the device), os (survives the death of the process), relaxed (logged a bounded
    /// time later) [default: sync]
    #[arg(long, value_name = "LEVEL", value_parser = one_of::<Durability>(DURABILITIES), hide_possible_values = true)]
    pub(crate) durability: Option<Durability>,
}
