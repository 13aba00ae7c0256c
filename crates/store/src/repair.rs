//! Repair and inspection of a store's engines, one after the other. The store itself stays closed meanwhile: its lock is held, so that
//! nobody opens it. What the store keeps beside its engines (manifest, placement, intents) is not repaired: it is small, and
//! what is damaged there is told by the next opening.
//!
//! Each engine repairs itself through any crash, and one that is whole is not changed. So a repair that was cut short is run again.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::{Io, RealIo};
use biombo_engine::{Error, ErrorKind, Loss, OpenOptions, Registry, RepairMode, Repaired, Result};

use crate::keyspace;
use crate::manifest::{MANIFEST, Manifest};
use crate::options::{Options, Partitioning};
use crate::owner::Owner;

impl Options {
    /// Make the damaged store in `path` one that opens, with everything in it that is sound; `tell` hears of each damage. A
    /// store without damage is not changed.
    ///
    /// # Errors
    /// `NotFound` where there is no store, `Busy` while another process has it open, `Unsupported` for an engine that cannot be
    /// repaired, `Corruption` when the store's own manifest is damaged. After any of them it can be run again.
    pub fn repair(self, path: impl AsRef<Path>, registry: &Registry, tell: &mut dyn FnMut(Loss)) -> Result<Repaired> {
        self.look_through(path.as_ref(), registry, RepairMode::Mend, tell)
    }

    /// Tell of everything that a [`repair`](Self::repair) of the store in `path`, which does not open, would mend, and change nothing: the
    /// damages that were told of.
    ///
    /// # Errors
    /// As those of [`repair`](Self::repair).
    pub fn inspect(self, path: impl AsRef<Path>, registry: &Registry, tell: &mut dyn FnMut(Loss)) -> Result<u64> {
        Ok(self.look_through(path.as_ref(), registry, RepairMode::Inspect, tell)?.losses)
    }

    fn look_through(
        self,
        dir: &Path,
        registry: &Registry,
        mode: RepairMode,
        tell: &mut dyn FnMut(Loss),
    ) -> Result<Repaired> {
        let io: Arc<dyn Io> = self.io.clone().unwrap_or_else(|| Arc::new(RealIo::new()));
        let exists =
            io.exists(&dir.join(MANIFEST)).map_err(|e| Error::io(format_args!("open {}", dir.display()), e))?;
        if !exists {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no store in {}", dir.display())));
        }
        let owner = Owner::take(&*io, dir)?;
        let Some(manifest) = Manifest::read(&*io, dir, MANIFEST)? else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no store in {}", dir.display())));
        };
        // Of each instance: while a store changes its engine it has two. Before anything is changed, all are known to be repairable.
        let repair = |index: usize| {
            let kind = registry.get(manifest.engine_of(index))?;
            // Only what has an order can be read from one end to the other.
            let save = if (kind.capabilities)().ordered { ", or save with `biombo scan` what can be read" } else { "" };
            let cannot =
                || Error::unsupported(format!("the engine {} cannot be repaired: restore a backup{save}", kind.name));
            kind.repair.as_ref().ok_or_else(cannot)
        };
        let repairs = (0..manifest.engine_dirs.len()).map(repair).collect::<Result<Vec<_>>>()?;
        let is_hard = manifest.partitioning.parse::<Partitioning>()? == Partitioning::Hard;
        let mut decoded = Vec::new();
        let mut tell = |loss: Loss| {
            let key = match loss.key {
                Some(key) if is_hard && keyspace::is_own(&key) => None,
                Some(key) if is_hard => Some(keyspace::decode(&key, &mut decoded).to_vec()),
                key => key,
            };
            tell(Loss { key, ..loss });
        };
        let mut sum = Repaired::default();
        for (index, repair) in repairs.into_iter().enumerate() {
            let mut options = OpenOptions::new(manifest.engine_dir(dir, index));
            options.instances = manifest.engine_dirs.len() as u32;
            if !io.exists(&options.dir).unwrap_or(true) {
                let what =
                    format!("the partition directory {} is missing: is its device mounted?", options.dir.display());
                return Err(Error::new(ErrorKind::NotFound, what));
            }
            let done = repair(&options, mode, &mut tell)?;
            sum.losses += done.losses;
            sum.moved_records += done.moved_records;
            sum.replaced_files += done.replaced_files;
        }
        owner.closed();
        Ok(sum)
    }
}
