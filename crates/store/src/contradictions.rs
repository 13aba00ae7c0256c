//! What a store was created with against the options of a later opening.
//!
//! The manifest wins always; an option that says something else is an error and never passed over, since whoever gave it believes in it.

use std::path::{Path, PathBuf};

use biombo_engine::{Error, Result};

use crate::manifest::Manifest;
use crate::options::Options;

impl Manifest {
    /// Refuse options that say something else than the store in `dir` was created with.
    ///
    /// # Errors
    /// `Invalid`, naming what it has and what was asked for.
    pub(crate) fn refuse_contradictions(&self, dir: &Path, options: &Options) -> Result<()> {
        let contradicts = |what: &str, has: &str, asked: &str| {
            Err(Error::invalid(format!(
                "the store {} has {what} {has}, not {asked}: leave the option away",
                dir.display()
            )))
        };
        if let Some(engine) = options.engine.as_deref().filter(|engine| *engine != self.engine) {
            return contradicts("the engine", &self.engine, engine);
        }
        let to_stay = self.partitions_to_stay();
        if let Some(partitions) = options.partitions.filter(|partitions| *partitions != to_stay) {
            return contradicts("partitions", &to_stay.to_string(), &partitions.to_string());
        }
        if let Some(partitioning) = options.partitioning.filter(|p| p.name() != self.partitioning) {
            return contradicts("partitioning", &self.partitioning, partitioning.name());
        }
        if let Some(placement) = options.placement.filter(|p| p.name() != self.placement) {
            return contradicts("placement", &self.placement, placement.name());
        }
        if let Some(home) = self.outside(dir, &options.dirs) {
            let asked = options.dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
            return contradicts("a partition in", &home.display().to_string(), &asked);
        }
        Ok(())
    }

    /// Where a partition that stays is, if that is none of `asked`. Those may be more: a store with fewer partitions than before has none in some.
    fn outside(&self, dir: &Path, asked: &[PathBuf]) -> Option<PathBuf> {
        // However it is spelt; what is not there yet is what it is called.
        let one = |path: &Path| {
            std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
        };
        let asked: Vec<PathBuf> = asked.iter().map(|path| one(path)).collect();
        if asked.is_empty() {
            return None;
        }
        let mut homes = self.staying().filter_map(|index| self.engine_dir(dir, index).parent().map(one));
        homes.find(|home| !asked.contains(home))
    }
}
