//! Partitions that own nothing any more, taken away.
//!
//! Done while a store is opened, before anybody uses it: partitions have numbers, which are indices everywhere, and those that stay get new ones.
//! So the store's journals begin anew, in directories of the next *generation*: the placement with the new numbers, and no intent.
//!
//! Invariants:
//!
//! 1. A partition is taken away only if the placement gives it no unit and no key, nothing is left over of any move, and its engine holds no
//!    user's key: the last is looked up, so that a mistake elsewhere costs an error and not the data.
//! 2. Before the old journals go, all partitions are durable past every intent (the flush), and every mark with them: the next intents get
//!    higher numbers, because they go on from the marks.
//! 3. What is removed is named by the manifest, as belonging to nobody, and was named by nothing else before.
//!
//! Crash argument: the new manifest is the commit point. Before it is in its place the store is as it was: partitions that leave and own nothing; the
//! journal that was begun beside is named in `removing` before. After it, the new journal is whole, because it was synced before; the
//! directories of what left are in `removing`. The new manifest is `unsettled`: the next opening first makes sure that it is durable, or does not
//! open, because a power cut that brought back the old one would take all that was written since; who has just committed it knows, and serves without.
//! Each opening then removes what is named so, as often as that is cut short, and then forgets their names. It makes sure by writing the manifest
//! anew: a directory's sync that failed may have lost the name that it was for, and one that succeeds after it says nothing of that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_engine::{Error, Result};
use biombo_journal::JournalOptions;

use crate::manifest::{self, MANIFEST, Manifest};
use crate::open::{INTENT_DIR, PLACEMENT_DIR};
use crate::placement::PlacementJournal;
use crate::{PartitionId, Store, keyspace};

/// Whether partitions leave `store` and own nothing any more, and nothing is left over of any move: an opening does not wait until all keys of
/// a partition are cleaned, which goes on while the store serves.
pub(crate) fn is_due(store: &Store) -> bool {
    let leaving = store.leaving();
    if leaving.is_empty() || store.inner.topology.get().1.has_strangers() {
        return false;
    }
    let owners = store.placement().owners_of_range(b"", None);
    leaving.iter().all(|partition| !owners.contains(partition))
}

/// Make all ready for the manifest without the partitions that leave, where that [is due](is_due), and return it. Nobody else may use the store,
/// from here on until it is opened again.
pub(crate) fn prepare(store: &Store, journal: JournalOptions) -> Result<Manifest> {
    let inner = &*store.inner;
    store.flush()?;
    let old = &inner.manifest;
    for index in old.leaving.iter().copied().map(usize::from) {
        let mut cursor = Arc::clone(&inner.instances[index].engine).cursor()?;
        cursor.seek(keyspace::USER_FROM)?;
        if let Some(stored) = cursor.key() {
            let what = format!("key `{}` is in a partition that owns nothing", stored.escape_ascii());
            return Err(Error::corruption(old.engine_dir(&inner.dir, index), 0, what));
        }
    }
    let new = without_leaving(old);
    let mut numbers = vec![None; old.engine_dirs.len()];
    old.staying().enumerate().for_each(|(number, index)| numbers[index] = Some(PartitionId(number as u16)));
    let placement = store.placement().renumbered(&numbers)?;
    let beside = new.journal_dir(PLACEMENT_DIR);
    let path = inner.dir.join(&beside);
    let mut marked = old.clone();
    marked.removing.retain(|name| *name != beside);
    marked.removing.push(beside);
    commit(store, &marked)?;
    // A version that did not name it before may have left it.
    inner.io.remove_dir_all(&path).map_err(|e| removing(&path, e))?;
    drop(PlacementJournal::open(Arc::clone(&inner.io), &path, journal, new.partitions, Some(placement))?);
    inner.io.sync_dir(&inner.dir).map_err(|e| Error::io(format_args!("sync {}", inner.dir.display()), e))?;
    Ok(new)
}

/// The commit point: from now on the store has the partitions that stayed. After an error the manifest that is there says whether it has; it is
/// unsettled, and the opening that follows, in any case, relies on it only when it is durable.
pub(crate) fn commit(store: &Store, manifest: &Manifest) -> Result<()> {
    manifest::replace_file(&*store.inner.io, &store.inner.dir, MANIFEST, manifest.encode()?.as_bytes())
}

/// The manifest of the partitions that stay, in journals of their own.
fn without_leaving(old: &Manifest) -> Manifest {
    let dirs = |stay: bool| {
        let these = (0..old.engine_dirs.len()).filter(move |index| old.is_leaving(*index) != stay);
        these.map(|index| old.engine_dirs[index].clone())
    };
    let journals = [PLACEMENT_DIR, INTENT_DIR].map(|name| old.journal_dir(name));
    let mut new = Manifest {
        partitions: old.partitions_to_stay(),
        engine_dirs: dirs(true).collect(),
        engines: Vec::new(),
        leaving: Vec::new(),
        generation: old.generation + 1,
        removing: old.removing.iter().cloned().chain(dirs(false)).chain(journals).collect(),
        unsettled: true,
        ..old.clone()
    };
    // Its journal may be one that could not be removed, and was by now.
    new.keep_what_is_needed();
    new
}

/// Make sure of a manifest that is unsettled, and remove what belongs to nobody any more; what cannot be removed now is told to `warn`, and tried
/// again by the next opening. The manifest is written anew before: the one that it replaced names what is removed here, and is what a power cut
/// finds where the sync of its name failed. `is_durable`: who asks has just seen that this did not fail. Returns it without the names of what was.
///
/// # Errors
/// Those of writing a manifest that is unsettled and may not be durable: without that, nobody may rely on it.
pub(crate) fn sweep(
    io: &dyn Io,
    dir: &Path,
    manifest: Manifest,
    is_durable: bool,
    warn: &mut dyn FnMut(String),
) -> Result<Manifest> {
    let was_unsettled = manifest.unsettled;
    let manifest = match was_unsettled.then(|| settled(io, dir, &manifest)) {
        None => manifest,
        Some(Ok(settled)) => settled,
        // Whatever the disk has of what was just tried, it says the same.
        Some(Err(error)) if is_durable => {
            warn(format!("what partitions left behind that were taken away is still there: {error}"));
            return Ok(manifest);
        }
        Some(Err(error)) => return Err(error),
    };
    if manifest.removing.is_empty() {
        return Ok(manifest);
    }
    let write = || manifest::replace_file(io, dir, MANIFEST, manifest.encode()?.as_bytes());
    let anew = if was_unsettled { Ok(()) } else { write() };
    if let Err(error) = anew {
        warn(format!("what partitions left behind that were taken away is still there: {error}"));
        return Ok(manifest);
    }
    let synced = |path: &Path| io.sync_dir(path).map_err(|e| Error::io(format_args!("sync {}", path.display()), e));
    let mut left: Vec<PathBuf> = Vec::new();
    for name in &manifest.removing {
        let path = dir.join(name);
        let removed = io.remove_dir_all(&path).map_err(|e| removing(&path, e));
        let removed = removed.and_then(|()| path.parent().map_or(Ok(()), synced));
        if let Err(error) = removed {
            warn(format!("what partitions left behind that were taken away is still there: {error}"));
            left.push(name.clone());
        }
    }
    let swept = Manifest { removing: left, ..manifest.clone() };
    if swept != manifest
        && let Err(error) = manifest::replace_file(io, dir, MANIFEST, swept.encode()?.as_bytes())
    {
        // Whether the file names them or not, who takes it to do so is right: they are removed again, and nothing new gets their names.
        warn(format!("the manifest may still name what partitions left behind: {error}"));
        return Ok(manifest);
    }
    Ok(swept)
}

/// Write a manifest anew that an attempt which was cut short left unsettled: first as it is, since the sync of its name can fail again, and settled
/// only when it is known to be durable.
fn settled(io: &dyn Io, dir: &Path, manifest: &Manifest) -> Result<Manifest> {
    manifest::replace_file(io, dir, MANIFEST, manifest.encode()?.as_bytes())?;
    let settled = Manifest { unsettled: false, ..manifest.clone() };
    manifest::replace_file(io, dir, MANIFEST, settled.encode()?.as_bytes())?;
    Ok(settled)
}

fn removing(path: &Path, error: std::io::Error) -> Error {
    Error::io(format_args!("remove {}", path.display()), error)
}
