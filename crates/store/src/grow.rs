//! More partitions for a store that exists.
//!
//! The new instances are created, empty, in directories that no manifest names; then the manifest that names them replaces the one before.
//! They own nothing yet: [`Store::spread`](crate::Store::spread) gives them their share.
//!
//! Crash argument: before the new manifest is in its place the store is as it was, and what was created aside is removed by the next
//! attempt; after it, the instances are whole, because they were synced before, and the placement gives them no key.

use std::path::{Path, PathBuf};

use biombo_engine::{Error, Result};

use crate::manifest::{self, MANIFEST, Manifest};
use crate::open::{Opening, create_dir};
use crate::options::{Options, PARTITIONS_MAX, Partitioning, PlacementKind};

/// The manifest with as many partitions as the options say; `None`: it has no fewer.
pub(crate) fn wider(manifest: &Manifest, dir: &Path, options: &Options) -> Result<Option<Manifest>> {
    let old = manifest.partitions;
    let Some(partitions) = options.partitions.filter(|partitions| *partitions > old) else { return Ok(None) };
    let store = dir.display();
    if manifest.partitioning != Partitioning::Hard.name() {
        let what = format!(
            "the store {store} has partitioning {}, and only `hard` partitions can be added: back it up, and restore it \
             with --partitions {partitions}",
            manifest.partitioning
        );
        return Err(Error::unsupported(what));
    }
    if manifest.placement != PlacementKind::Hash.name() {
        let what = format!(
            "the store {store} has one range of keys for each partition, and ranges are not split: back it up, and restore \
             it with --partitions {partitions}"
        );
        return Err(Error::unsupported(what));
    }
    if partitions > PARTITIONS_MAX {
        return Err(Error::invalid(format!("a store has 1 to {PARTITIONS_MAX} partitions, not {partitions}")));
    }
    // The devices that the store is spread over take turns, as they did when it was created.
    let mut bases: Vec<PathBuf> = Vec::new();
    for base in manifest.engine_dirs.iter().filter_map(|dir| dir.parent()) {
        if !bases.iter().any(|other| other == base) {
            bases.push(base.to_path_buf());
        }
    }
    let mut wider = Manifest { partitions, ..manifest.clone() };
    for index in old as usize..partitions as usize {
        let base = &bases[index % bases.len()];
        wider.engine_dirs.push(match base.as_os_str().is_empty() {
            true => PathBuf::from(format!("p{index:04}")),
            false => base.join(format!("biombo-{}-p{index:04}", manifest.store_id)),
        });
    }
    Ok(Some(wider))
}

/// Create the instances that the manifest on disk does not name, then replace it.
pub(crate) fn create(opening: &Opening<'_>) -> Result<()> {
    let Opening { io, dir, manifest, .. } = opening;
    let named = Manifest::read(&**io, dir, MANIFEST)?.map_or(0, |manifest| manifest.engine_dirs.len());
    for index in named..manifest.engine_dirs.len() {
        let path = manifest.engine_dir(dir, index);
        // No manifest named it: an attempt that was cut short left it.
        io.remove_dir_all(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))?;
        create_dir(&**io, &path)?;
        opening.engine(index)?.sync()?;
    }
    manifest::replace_file(&**io, dir, MANIFEST, manifest.encode()?.as_bytes())
}
