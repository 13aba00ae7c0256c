//! Another placement for a store that exists: slots instead of ranges, or the other way round.
//!
//! Nothing can move between the two: a key has one owner, by one placement. So all keys are copied, while the store is opened and before anybody uses
//! it, into new partitions beside the old ones, with a placement journal of the next generation (as `retire` has it); the manifest that names them is
//! the commit point, and what it does not name any more is removed by the opening that follows. The new partitions may be more or fewer, and of another
//! engine, at the same price.
//!
//! Crash argument: what is made beside is first named, in the `removing` of a manifest that is otherwise the old one. Before the new manifest is in its place
//! the store is as it was, and the next opening, whoever asks for it, removes what was made beside. After it the new partitions are
//! whole, because they were synced before, and so is the placement; the directories of the old ones stand in `removing` instead. Where the sync of
//! the new manifest's name fails, nobody knows which of the two a power cut would find: nothing is removed, the caller gets the error, and the next
//! opening goes by the one that it sees once it has written that anew, which is `unsettled` (`retire::sweep`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_engine::{Batch, Durability, Engine, Error, ErrorKind, Registry, Result};
use biombo_journal::JournalOptions;

use crate::manifest::Manifest;
use crate::open::{INTENT_DIR, Opening, PLACEMENT_DIR, create_dir};
use crate::options::{Executor, Options, PARTITIONS_MAX, Partitioning, PlacementKind};
use crate::placement::PlacementJournal;
use crate::{Moved, Placement, Range, Repartition, Store, keyspace, reshape, retire};

/// Bytes that wait for all new partitions together, and the most for one.
const WAITING_BYTES: usize = 16 << 20;
const BATCH_BYTES: (usize, usize) = (64 << 10, 1 << 20);

/// Whether `options` ask for another placement than the store has.
pub(crate) fn is_asked(manifest: &Manifest, options: &Options) -> bool {
    options.reshape && options.placement.is_some_and(|kind| kind.name() != manifest.placement)
}

/// The options for a store as it is, which is only read.
pub(crate) fn as_it_is(options: &Options) -> Options {
    Options {
        engine: None,
        partitions: None,
        placement: None,
        // What the new engine knows, the old one may not.
        io_mode: None,
        reshape: false,
        executor: Executor::Direct,
        repartition: Repartition::Off,
        ..options.clone()
    }
}

/// Refuse what cannot be, before anything is opened.
pub(crate) fn check(manifest: &Manifest, options: &Options, registry: &Registry) -> Result<()> {
    if manifest.partitioning != Partitioning::Hard.name() {
        return Err(Error::unsupported(format!(
            "a store of partitioning {} is no store of `hard` partitions, and only that can be placed otherwise: back it up, and restore \
             it with --partitions and --placement",
            manifest.partitioning
        )));
    }
    let partitions = options.partitions.unwrap_or(manifest.partitions_to_stay());
    if partitions == 0 || partitions > PARTITIONS_MAX {
        return Err(Error::invalid(format!("a store has 1 to {PARTITIONS_MAX} partitions, not {partitions}")));
    }
    if !(registry.get(&manifest.engine)?.capabilities)().persistent {
        return Err(Error::unsupported(format!("the engine {} keeps nothing: create the store anew", manifest.engine)));
    }
    reshape::check_engines(manifest, options.engine.as_deref().unwrap_or(&manifest.engine), registry)
}

/// Copy all of `store`, which nobody uses, into partitions that are placed as `options` say. When it returns, the manifest names those; the store itself
/// is good for nothing but to be dropped.
pub(crate) fn replace(store: &Store, options: &Options, journal: JournalOptions, registry: &Registry) -> Result<Moved> {
    let inner = &*store.inner;
    let new = replaced(&inner.manifest, options);
    let beside: Vec<PathBuf> = new.engine_dirs.iter().cloned().chain([new.journal_dir(PLACEMENT_DIR)]).collect();
    let remove = |name: &PathBuf| {
        let path = inner.dir.join(name);
        inner.io.remove_dir_all(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))
    };
    let mut marked = inner.manifest.clone();
    marked.removing.extend(beside.iter().cloned());
    marked.removing.sort_unstable();
    marked.removing.dedup();
    check_room(store, &new)?;
    retire::commit(store, &marked)?;
    beside.iter().try_for_each(remove)?;
    let copied = copy(store, &new, options, journal, registry).inspect_err(|_| {
        // Best effort: the next opening does it again.
        beside.iter().for_each(|name| drop(remove(name)));
    })?;
    // From here on the manifest may name what was copied: nothing of it is removed, whatever comes.
    retire::commit(store, &new)?;
    Ok(copied)
}

/// Refuse to begin what the disks have no room for, as far as that is known: all keys and values once more.
fn check_room(store: &Store, new: &Manifest) -> Result<()> {
    let inner = &*store.inner;
    let mut bytes = 0;
    for instance in inner.instances.iter() {
        let stats = instance.engine.stats()?;
        bytes += stats.logical_bytes.or(stats.physical_bytes).unwrap_or(0);
    }
    let mut dirs: Vec<&Path> = new.engine_dirs.iter().map(|dir| dir.parent().unwrap_or(Path::new(""))).collect();
    let count = dirs.len() as u64;
    dirs.sort_unstable();
    let of = |dir: &[&Path]| (inner.dir.join(dir[0]), bytes * dir.len() as u64 / count.max(1));
    for (dir, needed) in dirs.chunk_by(|a, b| a == b).map(of) {
        // Where it cannot be asked, it is tried.
        let Some(free) = inner.io.free_bytes(&dir).ok().flatten().filter(|free| *free < needed) else { continue };
        return Err(Error::new(
            ErrorKind::Full,
            format!(
                "{} has {} MB left, and the copy of all keys there takes {} MB: free room, then try again; the store is as it was",
                dir.display(),
                free / 1_000_000,
                needed.div_ceil(1_000_000)
            ),
        ));
    }
    Ok(())
}

/// The manifest of the store in new partitions, with journals of their own.
fn replaced(old: &Manifest, options: &Options) -> Manifest {
    let partitions = options.partitions.unwrap_or(old.partitions_to_stay());
    let mut named = old.clone();
    for _ in 0..partitions {
        named.engine_dirs.push(reshape::unused_dir(&named));
    }
    let journals = [PLACEMENT_DIR, INTENT_DIR].map(|name| old.journal_dir(name));
    let placement = options.placement.map_or_else(|| old.placement.clone(), |kind| kind.name().to_owned());
    let mut new = Manifest {
        engine: options.engine.clone().unwrap_or_else(|| old.engine.clone()),
        partitions,
        placement,
        engine_dirs: named.engine_dirs.split_off(old.engine_dirs.len()),
        engines: Vec::new(),
        leaving: Vec::new(),
        generation: old.generation + 1,
        removing: old.removing.iter().chain(&old.engine_dirs).cloned().chain(journals).collect(),
        unsettled: true,
        ..old.clone()
    };
    new.keep_what_is_needed();
    new
}

/// Make everything that `new` names, durably.
fn copy(
    store: &Store,
    new: &Manifest,
    options: &Options,
    journal: JournalOptions,
    registry: &Registry,
) -> Result<Moved> {
    let (inner, io) = (&*store.inner, &store.inner.io);
    let placement = match new.placement.parse::<PlacementKind>()? {
        PlacementKind::Hash => Placement::hash(new.partitions),
        PlacementKind::Range => Placement::range(new.partitions, store.even_starts(new.partitions)?),
    };
    let opening = Opening::new(Arc::clone(io), &inner.dir, new.clone(), options, registry)?;
    let open = |index| {
        create_dir(&**io, &new.engine_dir(&inner.dir, index))?;
        opening.engine(index)
    };
    let engines = (0..new.engine_dirs.len()).map(open).collect::<Result<Vec<_>>>()?;
    let moved = fill(store, &placement, &engines)?;
    engines.iter().try_for_each(|engine| engine.sync())?;
    drop(engines);
    let path = inner.dir.join(new.journal_dir(PLACEMENT_DIR));
    drop(PlacementJournal::open(Arc::clone(io), &path, journal, new.partitions, Some(placement))?);
    io.sync_dir(&inner.dir).map_err(|e| Error::io(format_args!("sync {}", inner.dir.display()), e))?;
    Ok(moved)
}

fn fill(store: &Store, placement: &Placement, engines: &[Arc<dyn Engine>]) -> Result<Moved> {
    let give = |owner: usize, batch: &mut Batch| {
        if !batch.is_empty() {
            engines[owner].apply(&batch.to_ops(), Durability::Os)?;
            batch.clear();
        }
        Ok::<_, Error>(())
    };
    let bytes_max = (WAITING_BYTES / engines.len().max(1)).clamp(BATCH_BYTES.0, BATCH_BYTES.1);
    let mut batches: Vec<Batch> = engines.iter().map(|_| Batch::new()).collect();
    let mut moved = Moved { cleaned: true, ..Moved::default() };
    let all = Range::all();
    let mut scan = if store.capabilities().snapshots { store.snapshot()?.scan(all)? } else { store.scan(all)? };
    while let Some((key, value)) = scan.next()? {
        let owner = placement.owner(key).index();
        let batch = &mut batches[owner];
        batch.put(&keyspace::encode(key), value);
        moved.keys += 1;
        moved.bytes += (key.len() + value.len()) as u64;
        if batch.bytes() >= bytes_max {
            give(owner, batch)?;
        }
    }
    batches.iter_mut().enumerate().try_for_each(|(owner, batch)| give(owner, batch))?;
    Ok(moved)
}
