//! More partitions for a store that exists, fewer, or partitions of another engine.
//!
//! The manifest says first what shall be: new instances are created, empty, in directories that nobody has; then a manifest that names them, and
//! says which partitions *leave*, replaces the one before. New ones own nothing yet, those that leave own what they did:
//! [`Store::spread`](crate::Store::spread) moves units, by the protocol of every move. Partitions that own nothing any more are taken away at the
//! next opening (`retire`).
//!
//! What shall be can change before it is: partitions that were to leave stay after all, and the others leave, when the next caller says so.
//!
//! Crash argument: what is created beside is first named, in the `removing` of a manifest that is otherwise the old one. Before the new manifest is in
//! its place the store is as it was, and the next opening removes what was created; after it, the new instances are whole, because they were synced
//! before, and the placement gives them no key. Where the sync of the new manifest's name fails, nobody knows which of the two a power cut would find:
//! the new one says so (`unsettled`) until it is known to be durable, and an opening that finds it writes it anew first (`retire::sweep`), so that
//! nothing moves into a partition that an older manifest has removed. Which partition owns a key is said by the placement alone, at every instant.

use std::path::{Path, PathBuf};

use biombo_engine::{Capabilities, Error, ErrorKind, Registry, Result};

use crate::manifest::{self, MANIFEST, Manifest};
use crate::open::{Opening, create_dir};
use crate::options::{Options, PARTITIONS_MAX, Partitioning};

/// The manifest of the store once it is to have the partitions and the engine that the options say; `None`: it is, already.
pub(crate) fn reshaped(
    manifest: &Manifest,
    dir: &Path,
    options: &Options,
    registry: &Registry,
) -> Result<Option<Manifest>> {
    let engine = options.engine.as_deref().unwrap_or(&manifest.engine);
    let now = manifest.partitions_to_stay();
    let partitions = options.partitions.unwrap_or(now);
    if engine == manifest.engine && partitions == now {
        return Ok(None);
    }
    let store = dir.display();
    if partitions == 0 || partitions > PARTITIONS_MAX {
        return Err(Error::invalid(format!("a store has 1 to {PARTITIONS_MAX} partitions, not {partitions}")));
    }
    if manifest.partitioning != Partitioning::Hard.name() {
        let what = format!(
            "the store {store} has partitioning {}, and only `hard` partitions can be added, taken away or given another engine: back \
             it up, and restore it with --partitions {partitions} --engine {engine}",
            manifest.partitioning
        );
        return Err(Error::unsupported(what));
    }
    check_engines(manifest, engine, registry)?;
    // Those that stay already come first, then such as were to leave.
    let all = 0..manifest.engine_dirs.len();
    let mut stay: Vec<usize> = all.filter(|index| manifest.engine_of(*index) == engine).collect();
    stay.sort_by_key(|index| manifest.is_leaving(*index));
    stay.truncate(partitions as usize);
    let added = partitions as usize - stay.len();
    let count = manifest.engine_dirs.len() + added;
    if count > PARTITIONS_MAX as usize {
        let what = format!(
            "the store {store} would have {count} partitions until the old ones have left, and {PARTITIONS_MAX} is the most: take \
             partitions away first"
        );
        return Err(Error::invalid(what));
    }
    let mut engines: Vec<String> =
        (0..manifest.engine_dirs.len()).map(|index| manifest.engine_of(index).to_owned()).collect();
    let mut new = Manifest { engine: engine.to_owned(), partitions: count as u32, ..manifest.clone() };
    for _ in 0..added {
        let dir = unused_dir(&new);
        stay.push(new.engine_dirs.len());
        new.engine_dirs.push(dir);
        engines.push(engine.to_owned());
    }
    new.leaving = (0..count).filter(|index| !stay.contains(index)).map(|index| index as u16).collect();
    new.engines = if engines.iter().all(|other| other == engine) { Vec::new() } else { engines };
    Ok(Some(new))
}

/// Refuse engines between which units cannot move.
pub(crate) fn check_engines(manifest: &Manifest, to: &str, registry: &Registry) -> Result<()> {
    let is_change = to != manifest.engine;
    for name in [manifest.engine.as_str(), to] {
        let can = (registry.get(name)?.capabilities)();
        if !can.ordered {
            let what = format!("the engine {name} keeps no order of keys: what is to move cannot be found and moved");
            return Err(Error::unsupported(what));
        }
        if is_change && !can.persistent {
            let what = format!("the engine {name} keeps nothing: there is no store to change to or from it");
            return Err(Error::unsupported(what));
        }
    }
    Ok(())
}

/// A directory for one more instance. The devices that the store is spread over take turns, as they did when it was created.
pub(crate) fn unused_dir(manifest: &Manifest) -> PathBuf {
    let mut bases: Vec<&Path> = Vec::new();
    for base in manifest.engine_dirs.iter().filter_map(|dir| dir.parent()) {
        if !bases.contains(&base) {
            bases.push(base);
        }
    }
    let count = manifest.engine_dirs.len();
    let base = bases.get(count % bases.len().max(1)).copied().unwrap_or(Path::new(""));
    let name = |number: usize| match base.as_os_str().is_empty() {
        true => PathBuf::from(format!("p{number:04}")),
        false => base.join(format!("biombo-{}-p{number:04}", manifest.store_id)),
    };
    let is_used = |dir: &PathBuf| manifest.engine_dirs.contains(dir) || manifest.removing.contains(dir);
    let unused = (count..).map(name).find(|dir| !is_used(dir));
    unused.expect("invariant: numbers do not end, names that are used do")
}

/// Create the instances that the manifest on disk does not name, then replace it.
pub(crate) fn create(opening: &Opening<'_>) -> Result<()> {
    let Opening { io, dir, manifest, .. } = opening;
    let replace = |new: &Manifest| manifest::replace_file(&**io, dir, MANIFEST, new.encode()?.as_bytes());
    let lost = || Error::new(ErrorKind::NotFound, format!("there is no store in {} any more", dir.display()));
    let old = Manifest::read(&**io, dir, MANIFEST)?.ok_or_else(lost)?;
    let added = old.engine_dirs.len()..manifest.engine_dirs.len();
    if added.is_empty() {
        return replace(manifest);
    }
    let beside = manifest.engine_dirs[added.clone()].iter().cloned();
    replace(&Manifest { removing: old.removing.iter().cloned().chain(beside).collect(), ..old.clone() })?;
    for index in added {
        let path = manifest.engine_dir(dir, index);
        // It has a name that only this store gives.
        io.remove_dir_all(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))?;
        create_dir(&**io, &path)?;
        opening.engine(index)?.sync()?;
    }
    replace(&Manifest { unsettled: true, ..manifest.clone() })?;
    replace(manifest)
}

/// What partitions of two engines can do together.
pub(crate) fn in_common(a: Capabilities, b: Capabilities) -> Capabilities {
    Capabilities {
        ordered: a.ordered && b.ordered,
        snapshots: a.snapshots && b.snapshots,
        atomic_batches: a.atomic_batches && b.atomic_batches,
        survives_kill: a.survives_kill.zip(b.survives_kill).map(|(a, b)| a.max(b)),
        survives_power_cut: a.survives_power_cut.zip(b.survives_power_cut).map(|(a, b)| a.max(b)),
        sync_apart: a.sync_apart && b.sync_apart,
        costly_transactions: a.costly_transactions || b.costly_transactions,
        checkpoints: a.checkpoints && b.checkpoints,
        persistent: a.persistent && b.persistent,
        key_bytes_max: a.key_bytes_max.min(b.key_bytes_max),
        value_bytes_max: a.value_bytes_max.min(b.value_bytes_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_engine::{Durability, EngineKind, ErrorKind, memory};

    fn registry() -> Registry {
        let mut registry = Registry::new();
        let persistent = || Capabilities { persistent: true, ..(memory::kind().capabilities)() };
        let unordered = || Capabilities { persistent: true, ordered: false, ..(memory::kind().capabilities)() };
        registry.add(EngineKind { name: "one", capabilities: persistent, ..memory::kind() });
        registry.add(EngineKind { name: "other", capabilities: persistent, ..memory::kind() });
        registry.add(EngineKind { name: "unordered", capabilities: unordered, ..memory::kind() });
        registry.add(memory::kind());
        registry
    }

    fn manifest(partitions: u32) -> Manifest {
        Manifest {
            format: manifest::FORMAT,
            store_id: "0123456789abcdef".into(),
            engine: "one".into(),
            partitioning: "hard".into(),
            partitions,
            placement: "hash".into(),
            engine_dirs: (0..partitions).map(|index| format!("p{index:04}").into()).collect(),
            engines: Vec::new(),
            leaving: Vec::new(),
            generation: 0,
            removing: Vec::new(),
            unsettled: false,
        }
    }

    fn asked(manifest: &Manifest, options: Options) -> Result<Option<Manifest>> {
        let found = reshaped(manifest, Path::new("db"), &options, &registry())?;
        if let Some(new) = &found {
            let text = new.encode().expect("encodes");
            assert_eq!(&Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).expect("it can be read"), new);
        }
        Ok(found)
    }

    fn got(manifest: &Manifest, options: Options) -> Manifest {
        asked(manifest, options).expect("no error").expect("a change")
    }

    #[test]
    fn the_last_partitions_leave_and_stay_after_all_when_somebody_says_so() {
        let four = manifest(4);
        let fewer = got(&four, Options::new().partitions(1));
        assert_eq!((fewer.partitions, fewer.partitions_to_stay(), &fewer.leaving[..]), (4, 1, &[1, 2, 3][..]));
        assert_eq!(asked(&fewer, Options::new()).expect("it goes on"), None);
        assert_eq!(asked(&fewer, Options::new().partitions(1).engine("one")).expect("it goes on"), None);
        let more = got(&fewer, Options::new().partitions(3));
        assert_eq!((&more.leaving[..], &more.engine_dirs), (&[3][..], &four.engine_dirs));
        assert_eq!(got(&more, Options::new().partitions(4)), four);
        let wider = got(&more, Options::new().partitions(5));
        assert_eq!((wider.partitions, wider.leaving.len(), wider.engine_dirs[4].as_path()), (5, 0, Path::new("p0004")));
    }

    #[test]
    fn an_engine_is_changed_by_as_many_partitions_of_the_other_and_back() {
        let two = manifest(2);
        let other = got(&two, Options::new().engine("other"));
        assert_eq!((other.engine.as_str(), other.partitions, &other.leaving[..]), ("other", 4, &[0, 1][..]));
        assert_eq!(other.engines, ["one", "one", "other", "other"]);
        let back = got(&other, Options::new().engine("one"));
        assert_eq!((back.engine.as_str(), &back.leaving[..], back.engine_dirs.len()), ("one", &[2, 3][..], 4));
        let both = got(&two, Options::new().engine("other").partitions(1));
        assert_eq!((both.partitions, both.partitions_to_stay()), (3, 1));
        // What was taken away has left its name, and what is to be removed keeps it.
        let later = Manifest {
            engine_dirs: vec!["p0002".into(), "p0003".into()],
            removing: vec!["p0004".into()],
            ..manifest(2)
        };
        let dirs = got(&later, Options::new().partitions(4)).engine_dirs;
        assert_eq!(dirs, ["p0002", "p0003", "p0005", "p0006"].map(PathBuf::from));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        let refused = |manifest: &Manifest, options: Options, kind, says: &str| {
            let error = asked(manifest, options).expect_err(says);
            assert!(error.kind() == kind && error.message().contains(says), "{error}");
        };
        let (unsupported, invalid) = (ErrorKind::Unsupported, ErrorKind::Invalid);
        let four = manifest(4);
        refused(&four, Options::new().engine("unordered"), unsupported, "order");
        refused(&four, Options::new().engine("memory"), unsupported, "keeps nothing");
        refused(&four, Options::new().partitions(2000), invalid, "2000");
        refused(&manifest(600), Options::new().engine("other"), invalid, "1200");
        let none = Manifest { partitioning: "none".into(), ..manifest(1) };
        refused(&none, Options::new().engine("other"), unsupported, "hard");
        let ranges = Manifest { placement: "range".into(), ..manifest(4) };
        assert_eq!(got(&ranges, Options::new().partitions(5)).partitions, 5, "ranges are split when they are spread");
        let other = got(&ranges, Options::new().engine("other"));
        assert_eq!((other.partitions, other.partitions_to_stay()), (8, 4));
        assert!(asked(&four, Options::new().engine("none such")).is_err());
    }

    #[test]
    fn two_engines_promise_what_the_weaker_promises() {
        let strong = Capabilities {
            persistent: true,
            survives_kill: Some(Durability::Os),
            survives_power_cut: Some(Durability::Os),
            ..(memory::kind().capabilities)()
        };
        let weak = Capabilities {
            snapshots: false,
            survives_kill: None,
            survives_power_cut: Some(Durability::Sync),
            key_bytes_max: 511,
            costly_transactions: true,
            ..strong.clone()
        };
        for both in [in_common(strong.clone(), weak.clone()), in_common(weak.clone(), strong.clone())] {
            assert_eq!(both, weak);
        }
    }
}
