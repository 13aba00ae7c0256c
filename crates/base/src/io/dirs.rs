//! Directories whose names last.

use std::io::Result;
use std::path::Path;

use super::Io;

/// Create `dir` and what is missing above it, and make all their names durable. The name of one that is there already is made durable, too: who
/// made it may have died before.
///
/// Costs a sync of the directory above `dir`, and one for each that is made on the way.
///
/// # Errors
/// Those of the file system. Directories that were made stay.
///
/// ```
/// use biombo_base::io::{Io, RealIo, create_dirs};
///
/// let home = tempfile::tempdir().expect("a directory");
/// let dir = home.path().join("a/b");
/// create_dirs(&*RealIo::shared(), &dir).expect("room for it");
/// assert!(dir.is_dir());
/// ```
pub fn create_dirs(io: &dyn Io, dir: &Path) -> Result<()> {
    let mut parents = Vec::new();
    for ancestor in dir.ancestors() {
        let Some(parent) = ancestor.parent() else { break };
        parents.push(parent);
        if parent.as_os_str().is_empty() || io.exists(parent)? {
            break;
        }
    }
    io.create_dir_all(dir)?;
    parents.iter().rev().try_for_each(|parent| io.sync_dir(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{Crash, SimIo};

    /// Fails if the name of a directory on the way is lost: all that lies below goes with it.
    #[test]
    fn all_names_on_the_way_survive_a_power_cut() {
        let io = SimIo::new(1);
        create_dirs(&io, Path::new("a/b/c")).unwrap();
        let image = io.crash(io.event_count(), Crash::Nothing);
        assert!(image.exists(Path::new("a/b/c")).unwrap());
        // Of one that is there and was never synced, too.
        io.create_dir_all(Path::new("d")).unwrap();
        create_dirs(&io, Path::new("d")).unwrap();
        assert!(io.crash(io.event_count(), Crash::Nothing).exists(Path::new("d")).unwrap());
    }
}
