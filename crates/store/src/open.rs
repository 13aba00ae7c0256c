//! Creating and opening a store directory. What lies in it: `docs/format/store.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{Io, RealIo};
use biombo_engine::{Capabilities, Durability, Engine, EngineKind, Error, ErrorKind, OpenOptions, Registry, Result};
use biombo_journal::{JournalOptions, Modes};

use crate::intent::Intents;
use crate::lane::{Instance, Lane};
use crate::manifest::{self, CREATING, FORMAT, MANIFEST, Manifest};
use crate::migration::{Mover, Throttle, Tidier};
use crate::options::{Executor, Options, PARTITIONS_MAX, Partitioning, PlacementKind};
use crate::owner::{LOCK, Owner};
use crate::pinned::{Site, Workers};
use crate::placement::PlacementJournal;
use crate::planning::{self, DEFAULT_PLANNER, Parts, Planning, Repartition, Settings, Watch};
use crate::poison::Poison;
use crate::present::Present;
use crate::pulse::Pulse;
use crate::retirer::Retirer;
use crate::store::Inner;
use crate::stripes::Stripes;
use crate::topology::Topology;
use crate::{Moved, PartitionId, Placement, Store, replace, reshape, retire};

pub(crate) const PLACEMENT_DIR: &str = "placement";
pub(crate) const INTENT_DIR: &str = "intents";
const PLACEMENT_SEGMENT_BYTES: u64 = 1 << 20;
/// More than are outstanding when intents are retired: those of `Os` writes are dropped before anybody syncs them.
const UNSYNCED_SEGMENTS_MAX: usize = 8;
const CACHE_BYTES: u64 = 256 << 20;
const LEAVING: &str =
    "partitions are leaving this store: it repartitions itself when they have left (`biombo repartition`)";

pub(crate) fn open(dir: &Path, options: &Options, registry: &Registry) -> Result<Store> {
    let io: Arc<dyn Io> = options.io.clone().unwrap_or_else(|| Arc::new(RealIo::new()));
    // Asked before anything is created, so that a mistyped path or engine leaves nothing behind.
    let exists = has_store(&*io, dir)?;
    if !exists && options.must_exist {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no store in {}", dir.display())));
    }
    if exists && options.must_be_new {
        return Err(Error::invalid(format!("there is a store in {} already", dir.display())));
    }
    options.executor.check()?;
    planning::check(options)?;
    if !exists {
        Manifest::for_options(&*io, options, registry)?;
        refuse_strangers(&*io, dir)?;
        create_dir(&*io, dir)?;
    }
    let owner = Owner::take(&*io, dir)?;
    match Manifest::read(&*io, dir, MANIFEST)? {
        // Whoever had the lock before has made it since.
        Some(_) if options.must_be_new => Err(Error::invalid(format!("there is a store in {} already", dir.display()))),
        Some(manifest) => open_existing(io, dir, manifest, options, registry, owner, false),
        None => create(io, dir, options, registry, owner),
    }
}

fn open_existing(
    io: Arc<dyn Io>,
    dir: &Path,
    manifest: Manifest,
    options: &Options,
    registry: &Registry,
    owner: Owner,
    is_durable: bool,
) -> Result<Store> {
    // Whoever put the manifest into its place may have died before its name was durable. What is acknowledged from now on must not outlive it.
    io.sync_dir(dir).map_err(|e| cannot_open(dir, e))?;
    // A power cut may have brought it back, where the sync of that name failed.
    let _ = io.remove_file(&dir.join(CREATING));
    let mut warnings = Vec::new();
    let manifest = retire::sweep(&*io, dir, manifest, is_durable, &mut |warning| warnings.push(warning))?;
    if replace::is_asked(&manifest, options) {
        replace::check(&manifest, options, registry)?;
        let (machine_went_down, as_it_is) = (owner.machine_went_down, replace::as_it_is(options));
        let opening = Opening::new(Arc::clone(&io), dir, manifest, &as_it_is, registry)?;
        let store = opening.finish(owner, None, warnings)?;
        let copied = replace::replace(&store, options, placement_journal(options), registry)?;
        let mut store = open_again(io, store, options, registry, machine_went_down)?;
        if let Some(inner) = Arc::get_mut(&mut store.inner) {
            inner.copied = copied;
        }
        return Ok(store);
    }
    let reshaped = if options.reshape { reshape::reshaped(&manifest, dir, options, registry)? } else { None };
    let is_reshaped = reshaped.is_some();
    let opening = Opening::new(Arc::clone(&io), dir, reshaped.unwrap_or(manifest), options, registry)?;
    if is_reshaped {
        reshape::create(&opening)?;
    }
    let machine_went_down = owner.machine_went_down;
    let mut store = opening.finish(owner, None, warnings)?;
    if !retire::is_due(&store) {
        return Ok(store);
    }
    let retired = retire::prepare(&store, placement_journal(options)).and_then(|new| retire::commit(&store, &new));
    if let Err(error) = retired {
        // By the old manifest the store is whole all the same. Where it is not there any more, nobody may write by it.
        let there = Manifest::read(&*io, dir, MANIFEST)?;
        if there.is_none_or(|there| there.generation != store.inner.manifest.generation) {
            return Err(error);
        }
        if let Some(inner) = Arc::get_mut(&mut store.inner) {
            inner.warnings.push(format!("partitions that own nothing any more are still there: {error}"));
        }
        return Ok(store);
    }
    open_again(io, store, options, registry, machine_went_down)
}

/// Close a store that this opening has just given another manifest, and open it again. What it had to say is kept.
fn open_again(
    io: Arc<dyn Io>,
    store: Store,
    options: &Options,
    registry: &Registry,
    machine_went_down: bool,
) -> Result<Store> {
    let (dir, mut warnings) = (store.inner.dir.clone(), store.warnings().to_vec());
    drop(store);
    let dir = dir.as_path();
    let mut owner = Owner::take(&*io, dir)?;
    owner.machine_went_down |= machine_went_down;
    let lost = || Error::new(ErrorKind::NotFound, format!("there is no store in {} any more", dir.display()));
    let manifest = Manifest::read(&*io, dir, MANIFEST)?.ok_or_else(lost)?;
    let options = Options { reshape: false, ..options.clone() };
    let mut store = open_existing(io, dir, manifest, &options, registry, owner, true)?;
    if let Some(inner) = Arc::get_mut(&mut store.inner) {
        // It is said again where they have not left.
        warnings.retain(|warning| warning != LEAVING && !inner.warnings.contains(warning));
        inner.warnings.splice(0..0, warnings);
    }
    Ok(store)
}

fn placement_journal(options: &Options) -> JournalOptions {
    let segment_bytes = options.journal_segment_bytes.unwrap_or(PLACEMENT_SEGMENT_BYTES);
    JournalOptions { segment_bytes, ..JournalOptions::default() }
}

fn has_store(io: &dyn Io, dir: &Path) -> Result<bool> {
    io.exists(&dir.join(MANIFEST)).map_err(|e| cannot_open(dir, e))
}

/// Create a directory and its parents, their names durable.
pub(crate) fn create_dir(io: &dyn Io, dir: &Path) -> Result<()> {
    biombo_base::io::create_dirs(io, dir).map_err(|e| Error::io(format_args!("create {}", dir.display()), e))
}

fn cannot_open(dir: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotADirectory => {
            Error::invalid(format!("{} is a file, not a directory: name another place", dir.display()))
        }
        _ => Error::io(format_args!("open {}", dir.display()), error),
    }
}

/// A directory in which a store can be created is missing, empty, or holds a creation that was cut short.
fn refuse_strangers(io: &dyn Io, dir: &Path) -> Result<()> {
    let refused = |e| cannot_open(dir, e);
    if !io.exists(dir).map_err(refused)? {
        return Ok(());
    }
    let names = io.read_dir(dir).map_err(refused)?;
    let is = |path: &Path, name: &str| path.file_name().is_some_and(|n| n == name);
    if names.iter().any(|path| is(path, CREATING)) {
        return Ok(());
    }
    let creating_aside = format!("{CREATING}.tmp");
    match names.iter().find(|path| !is(path, LOCK) && !is(path, &creating_aside)) {
        None => Ok(()),
        Some(stranger) => Err(Error::invalid(format!(
            "{} is not a store and not empty (it holds {}): name another directory",
            dir.display(),
            stranger.file_name().unwrap_or_default().to_string_lossy()
        ))),
    }
}

fn create(io: Arc<dyn Io>, dir: &Path, options: &Options, registry: &Registry, owner: Owner) -> Result<Store> {
    refuse_strangers(&*io, dir)?;
    let removed = |path: &Path, e| Error::io(format_args!("remove {}", path.display()), e);
    if let Some(cut_short) = Manifest::read(&*io, dir, CREATING)? {
        if let Some(strange) = cut_short.engine_dirs.iter().find(|path| !cut_short.made(path)) {
            let what = format!("a creation that was cut short names {}, which no store makes", strange.display());
            return Err(Error::corruption(dir.join(CREATING), 0, what));
        }
        for index in 0..cut_short.engine_dirs.len() {
            let path = cut_short.engine_dir(dir, index);
            io.remove_dir_all(&path).map_err(|e| removed(&path, e))?;
        }
        for name in [PLACEMENT_DIR, INTENT_DIR] {
            io.remove_dir_all(&dir.join(name)).map_err(|e| removed(&dir.join(name), e))?;
        }
    }
    let manifest = Manifest::for_options(&*io, options, registry)?;
    let unsettled = Manifest { unsettled: true, ..manifest.clone() };
    manifest::replace_file(&*io, dir, CREATING, unsettled.encode()?.as_bytes())?;
    let placement = match (&options.placed, manifest.placement_kind()?) {
        (Some(placement), _) => placement.clone(),
        (None, PlacementKind::Hash) => Placement::hash(manifest.partitions),
        (None, PlacementKind::Range) => Placement::range(manifest.partitions, options.sample.clone()),
    };
    for index in 0..manifest.engine_dirs.len() {
        create_dir(&*io, &manifest.engine_dir(dir, index))?;
    }
    let opening = Opening::new(Arc::clone(&io), dir, manifest, options, registry)?;
    let store = opening.finish(owner, Some(placement), Vec::new())?;
    if !options.named_later {
        name(&*io, dir)?;
    }
    Ok(store)
}

/// The last step of a creation: from now on there is a store in `dir`. All that shall be in it is durable. Its manifest is unsettled until
/// its name is durable: without that, a power cut leaves a creation that was cut short, and the next opening makes an empty store of it.
pub(crate) fn name(io: &dyn Io, dir: &Path) -> Result<()> {
    let refused = |e| Error::io(format_args!("create {}", dir.join(MANIFEST).display()), e);
    io.sync_dir(dir).map_err(refused)?;
    io.rename(&dir.join(CREATING), &dir.join(MANIFEST)).map_err(refused)?;
    io.sync_dir(dir).map_err(refused)?;
    let lost = || Error::new(ErrorKind::NotFound, format!("there is no store in {} any more", dir.display()));
    let settled = Manifest { unsettled: false, ..Manifest::read(io, dir, MANIFEST)?.ok_or_else(lost)? };
    manifest::replace_file(io, dir, MANIFEST, settled.encode()?.as_bytes())
}

/// What an opening has gathered before the engines are up.
pub(crate) struct Opening<'a> {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) dir: &'a Path,
    pub(crate) manifest: Manifest,
    /// Of each instance.
    kinds: Vec<EngineKind>,
    options: &'a Options,
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        io: Arc<dyn Io>,
        dir: &'a Path,
        manifest: Manifest,
        options: &'a Options,
        registry: &Registry,
    ) -> Result<Self> {
        manifest.refuse_contradictions(dir, options)?;
        options.executor.check_for(manifest.partitioning.parse()?)?;
        registry.get(&manifest.engine)?.check_io(options.io_mode)?;
        let kind = |index| registry.get(manifest.engine_of(index)).cloned();
        let kinds = (0..manifest.engine_dirs.len()).map(kind).collect::<Result<_>>()?;
        Ok(Self { io, dir, manifest, kinds, options })
    }

    fn finish(self, owner: Owner, new_placement: Option<Placement>, mut warnings: Vec<String>) -> Result<Store> {
        let partitioning: Partitioning = self.manifest.partitioning.parse()?;
        let is_new = new_placement.is_some();
        let placements = self.placements(new_placement)?;
        let engines = self.engines()?;
        let all_can = self.kinds.iter().map(|kind| (kind.capabilities)());
        let engine_can = all_can.reduce(reshape::in_common).expect("invariant: a manifest names an instance");
        let longest = |kind: &EngineKind| store_capabilities((kind.capabilities)(), partitioning).key_bytes_max;
        let key_bytes_held_max = self.kinds.iter().map(longest).max().unwrap_or(0);
        let gathers = self.options.executor.workers().is_some();
        let instance = |engine| match partitioning {
            Partitioning::Hard => Instance::deferring(engine, gathers),
            _ => Instance::new(engine),
        };
        let instances: Arc<[_]> = engines.into_iter().map(instance).collect();
        let defers = instances.iter().any(|instance| instance.deferred.is_some());
        let shares_syncs = partitioning == Partitioning::Hard
            && instances.len() > 1
            && instances.iter().all(|instance| instance.deferred.is_none() && instance.syncs_alone());
        let poison = Arc::new(Poison::default());
        let intents = match partitioning {
            Partitioning::Hard => {
                let mut journal = JournalOptions::default();
                journal.segment_bytes = self.options.journal_segment_bytes.unwrap_or(journal.segment_bytes);
                if defers {
                    journal.modes = Modes::ByDurability;
                    journal.unsynced_segments_max = UNSYNCED_SEGMENTS_MAX;
                }
                let path = self.dir.join(self.manifest.journal_dir(INTENT_DIR));
                Some(Arc::new(Intents::recover(Arc::clone(&self.io), &path, journal, &instances, is_new)?))
            }
            _ => None,
        };
        let lane_count = match partitioning {
            Partitioning::None => 1,
            Partitioning::Hard => instances.len(),
            // One writer at a time is all that such an engine has: more lanes would only keep callers from combining.
            Partitioning::Soft if engine_can.costly_transactions || !engine_can.sync_apart => 1,
            Partitioning::Soft => self.manifest.partitions as usize,
        };
        let hard = partitioning == Partitioning::Hard;
        let lanes: Arc<[Lane]> = (0..lane_count).map(|lane| Lane::new(if hard { lane } else { 0 })).collect();
        let retirer = match &intents {
            // A file system that was given may be a simulated one: see `engines`.
            Some(intents) if self.options.io.is_none() && (defers || shares_syncs) => Some(Retirer::start(
                Arc::clone(intents),
                Arc::clone(&lanes),
                Arc::clone(&instances),
                Arc::clone(&poison),
            )?),
            _ => None,
        };
        let leftovers = placements.leftovers().map(|(_, leftover)| leftover);
        let topology = Topology::new(placements.placement().clone(), leftovers);
        let topology = Arc::new(Present::new(topology));
        let mover = hard.then(|| {
            let (instances, lanes, poison) = (Arc::clone(&instances), Arc::clone(&lanes), Arc::clone(&poison));
            let leaving = self.manifest.leaving.iter().copied().map(PartitionId).collect();
            let has_snapshots = engine_can.snapshots;
            Arc::new(Mover::new(placements, instances, lanes, poison, Arc::clone(&topology), has_snapshots, leaving))
        });
        let pulse = Arc::new(Pulse::new());
        // A file system that was given may be a simulated one: see `engines`.
        let moves = mover.as_ref().filter(|_| self.options.io.is_none() && engine_can.ordered);
        if let Some(mover) = moves {
            mover.govern_by(Throttle::new(Arc::clone(&pulse)));
        }
        let tidier = moves.map(|mover| Arc::new(Tidier::new(Arc::clone(mover))));
        tidier.iter().for_each(|tidier| tidier.wake());
        let is_weak =
            |kind: &&EngineKind| (kind.capabilities)().survives_power_cut.is_none_or(|level| level > Durability::Os);
        if let (true, Some(kind)) = (owner.machine_went_down, self.kinds.iter().find(is_weak)) {
            warnings.push(format!(
                "the machine went down while this store was open, and {} does not promise to survive that: run `biombo verify`",
                kind.name
            ));
        }
        let workers = match self.options.executor {
            Executor::Direct => None,
            Executor::Pinned { workers } => {
                let site = Site {
                    instances: Arc::clone(&instances),
                    lanes: Arc::clone(&lanes),
                    intents: intents.clone(),
                    topology: Arc::clone(&topology),
                    poison: Arc::clone(&poison),
                    hard,
                };
                Some(Workers::start(site, workers, &mut |warning| warnings.push(warning))?)
            }
        };
        let planning = match (self.options.repartition, &mover) {
            (Repartition::Off, _) => None,
            (Repartition::Every(_), Some(_)) if !engine_can.ordered => {
                return Err(planning::refused(&format!("{} keeps no order", self.manifest.engine)));
            }
            // It may have come to that by what this very opening has done.
            (Repartition::Every(_), Some(_)) if self.manifest.partitions < 2 => {
                warnings.push(planning::refused("this store has one partition").to_string());
                None
            }
            (Repartition::Every(_), Some(_)) if !self.manifest.leaving.is_empty() => {
                warnings.push(LEAVING.to_owned());
                None
            }
            (Repartition::Every(interval), Some(mover)) => {
                let settings = Settings::every(interval);
                let spans = self.manifest.placement_kind()? == PlacementKind::Range;
                let parts = Parts {
                    watch: Arc::new(Watch::new(settings.rates, spans)),
                    pulse: Arc::clone(&pulse),
                    settings,
                    planner: self.options.planner.clone().unwrap_or_else(|| DEFAULT_PLANNER.to_owned()),
                    mover: Arc::clone(mover),
                    tidier: tidier.clone(),
                    io: Arc::clone(&self.io),
                    dir: self.dir.to_path_buf(),
                    dirs: (0..instances.len()).map(|index| self.manifest.engine_dir(self.dir, index)).collect(),
                    partitions: self.manifest.partitions,
                    crew: workers.as_ref().map(|workers| Arc::clone(&workers.crew)),
                };
                // A file system that was given may be a simulated one: see `engines`.
                Some(Planning::start(parts, self.options.io.is_none(), &mut |warning| warnings.push(warning))?)
            }
            (Repartition::Every(_), None) => {
                return Err(planning::refused(&format!("this store has partitioning {partitioning}")));
            }
        };
        Ok(Store {
            inner: Arc::new(Inner {
                pulse,
                watch: planning.as_ref().map(Planning::watch),
                planning,
                instances,
                lanes,
                intents,
                topology,
                mover,
                tidier,
                stripes: Stripes::new(),
                poison,
                _retirer: retirer,
                workers,
                defers,
                shares_syncs,
                capabilities: store_capabilities(engine_can, partitioning),
                key_bytes_held_max,
                partitioning,
                durability: self.options.durability.unwrap_or_default(),
                manifest: self.manifest,
                copied: Moved { cleaned: true, ..Moved::default() },
                warnings,
                dir: self.dir.to_path_buf(),
                io: self.io,
                owner,
            }),
        })
    }

    fn placements(&self, new: Option<Placement>) -> Result<PlacementJournal> {
        let path = self.dir.join(self.manifest.journal_dir(PLACEMENT_DIR));
        let options = placement_journal(self.options);
        PlacementJournal::open(Arc::clone(&self.io), &path, options, self.manifest.partitions, new)
    }

    /// One instance, opened, or created in its empty directory.
    pub(crate) fn engine(&self, index: usize) -> Result<Arc<dyn Engine>> {
        let count = self.manifest.engine_dirs.len();
        let kind = &self.kinds[index];
        let options = OpenOptions {
            dir: self.manifest.engine_dir(self.dir, index),
            cache_bytes: self.options.cache_bytes.unwrap_or(CACHE_BYTES) / count as u64,
            instances: count as u32,
            durability: self.options.durability.unwrap_or_default(),
            value_bytes: self.options.value_bytes,
            space_amplification: self.options.space_amplification,
            // An engine that leaves may not know the way that is asked for.
            io: self.options.io_mode.filter(|io| kind.io_modes.contains(io)),
        };
        if !self.io.exists(&options.dir).unwrap_or(true) {
            let what = format!("the partition directory {} is missing: is its device mounted?", options.dir.display());
            return Err(Error::new(ErrorKind::NotFound, what));
        }
        (kind.open)(&options)
    }

    /// All instances, opened side by side: recovery of one does not wait for another's.
    fn engines(&self) -> Result<Vec<Arc<dyn Engine>>> {
        let count = self.manifest.engine_dirs.len();
        // A file system that was given may be a simulated one, whose history must follow from its seed alone.
        let workers = match self.options.io {
            Some(_) => 1,
            None => std::thread::available_parallelism().map_or(1, usize::from).min(count),
        };
        let next = std::sync::atomic::AtomicUsize::new(0);
        let mut opened: Vec<(usize, Result<Arc<dyn Engine>>)> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        loop {
                            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            if index >= count {
                                return mine;
                            }
                            mine.push((index, self.engine(index)));
                        }
                    })
                })
                .collect();
            let joined = handles.into_iter().map(|handle| handle.join());
            joined.flat_map(|mine| mine.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        opened.sort_by_key(|(index, _)| *index);
        opened.into_iter().map(|(_, engine)| engine).collect()
    }
}

/// What the store can do over an engine: a `hard` partition needs a byte more for some keys, and copies by snapshot.
fn store_capabilities(engine: Capabilities, partitioning: Partitioning) -> Capabilities {
    match partitioning {
        Partitioning::Hard => Capabilities {
            key_bytes_max: engine.key_bytes_max - 1,
            checkpoints: engine.persistent && engine.snapshots,
            ..engine
        },
        _ => engine,
    }
}

impl Manifest {
    /// What a new store with these options would have.
    fn for_options(io: &dyn Io, options: &Options, registry: &Registry) -> Result<Self> {
        let kind = match options.engine.as_deref() {
            Some(engine) => registry.get(engine)?,
            None => registry.default_kind().ok_or_else(|| {
                let names: Vec<_> = registry.iter().map(|kind| kind.name).collect();
                Error::invalid(format!(
                    "no engine of this build keeps data: name another one ({}), or build with `log`",
                    names.join(", ")
                ))
            })?,
        };
        let engine = kind.name;
        kind.check_io(options.io_mode)?;
        let partitions = options.partitions.unwrap_or(1);
        if partitions == 0 || partitions > PARTITIONS_MAX {
            return Err(Error::invalid(format!("a store has 1 to {PARTITIONS_MAX} partitions, not {partitions}")));
        }
        let partitioning =
            options.partitioning.unwrap_or(if partitions > 1 { Partitioning::Hard } else { Partitioning::None });
        if partitioning == Partitioning::None && partitions > 1 {
            return Err(Error::invalid(
                "partitioning none has one partition: leave --partitions away or choose hard or soft",
            ));
        }
        options.executor.check_for(partitioning)?;
        let placement = options.placement.unwrap_or(PlacementKind::Hash);
        if placement == PlacementKind::Range && !(kind.capabilities)().ordered {
            return Err(Error::invalid(format!(
                "the engine {engine} keeps no order of keys: range placement needs one"
            )));
        }
        planning::check_shape(options, partitioning, partitions, engine, (kind.capabilities)().ordered)?;
        let store_id = format!("{:016x}", io.random_u64());
        let instances = if partitioning == Partitioning::Hard { partitions } else { 1 };
        let engine_dirs = (0..instances as usize)
            .map(|index| match &options.dirs[..] {
                [] => Ok(PathBuf::from(format!("p{index:04}"))),
                dirs => {
                    let base = std::path::absolute(&dirs[index % dirs.len()])
                        .map_err(|e| Error::io(format_args!("find {}", dirs[index % dirs.len()].display()), e))?;
                    Ok(base.join(format!("biombo-{store_id}-p{index:04}")))
                }
            })
            .collect::<Result<Vec<_>>>()?;
        if let Some(not_text) = engine_dirs.iter().find(|path| path.to_str().is_none()) {
            let what = format!("the directory {} is not UTF-8: partitions need a name that is", not_text.display());
            return Err(Error::invalid(what));
        }
        Ok(Self {
            format: FORMAT,
            store_id,
            engine: engine.to_owned(),
            partitioning: partitioning.name().to_owned(),
            partitions,
            placement: placement.name().to_owned(),
            engine_dirs,
            engines: Vec::new(),
            leaving: Vec::new(),
            generation: 0,
            removing: Vec::new(),
            unsettled: false,
        })
    }

    fn placement_kind(&self) -> Result<PlacementKind> {
        self.placement.parse()
    }
}
