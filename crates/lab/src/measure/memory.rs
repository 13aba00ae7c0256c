//! A limit on the memory of this process, page cache included: a control group of its own below the present one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use biombo_base::{Error, ErrorKind, Result};

/// What the groups made here are called; the number of the process follows.
const PREFIX: &str = "biombo-bench-";

/// This process is in a group of its own. Dropped, it goes back and the group is removed.
#[derive(Debug)]
pub struct MemoryLimit {
    parent: PathBuf,
    group: PathBuf,
}

impl MemoryLimit {
    /// Whether this process may make such a group, found out by making an empty one, which goes again.
    pub fn is_permitted() -> bool {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        candidates(&own).iter().any(|(parent, limit)| may_make(parent, limit))
    }

    /// Limit this process to `bytes`, everything that it touches from now on, what the kernel caches of its files included.
    ///
    /// `Unsupported`, saying what to do, where this process may not make such a group.
    pub fn enter(bytes: u64) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut refused = "this system has no control group for memory".to_owned();
        for (parent, limit) in candidates(&own) {
            match make(&parent, limit, bytes) {
                Ok(group) => return Ok(Self { parent, group }),
                Err(e) => refused = format!("no control group can be made in {}: {e}", parent.display()),
            }
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "--memory-bytes: {refused}; run as root, or limit the whole command: \
                 systemd-run --scope -p MemoryMax={bytes} biombo bench .."
            ),
        ))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // An empty group that stays is removed by the next run.
        let _ = join(&self.parent);
        let _ = fs::remove_dir(&self.group);
    }
}

/// The least limit on memory of the groups that this process is in, in bytes; `None` where none has one.
pub(super) fn granted() -> Option<u64> {
    least(&candidates(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()))
}

/// The least of the limits of these groups and of all above them. One without says `max`, or more than there is.
fn least(groups: &[(PathBuf, &str)]) -> Option<u64> {
    let above = groups.iter().flat_map(|(group, limit)| group.ancestors().map(move |group| group.join(limit)));
    above.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Where a group may be made, by the lines of /proc/self/cgroup, and what the limit is called there: version 2 first.
fn candidates(own: &str) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let below = |root: &str| Path::new(root).join(path.trim_start_matches('/'));
        if controllers.is_empty() {
            found.insert(0, (below("/sys/fs/cgroup"), "memory.max"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            found.push((below("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"));
        }
    }
    found
}

fn make(parent: &Path, limit: &str, bytes: u64) -> std::io::Result<PathBuf> {
    sweep(parent);
    let group = parent.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&group)?;
    let made = tell(&group.join(limit), &bytes.to_string()).and_then(|()| join(&group));
    made.inspect_err(|_| drop(fs::remove_dir(&group)))?;
    Ok(group)
}

/// Whether a group can be made in `parent`, limited, and removed again.
fn may_make(parent: &Path, limit: &str) -> bool {
    let group = parent.join(format!("{PREFIX}{}-empty", std::process::id()));
    let made = fs::create_dir(&group).and_then(|()| tell(&group.join(limit), &(1_u64 << 40).to_string())).is_ok();
    fs::remove_dir(&group).is_ok() && made
}

fn join(group: &Path) -> std::io::Result<()> {
    tell(&group.join("cgroup.procs"), &std::process::id().to_string())
}

/// Write to a file of the kernel's. Where there is none this is no group, and none is made up.
fn tell(file: &Path, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// Remove what runs left that were killed; a group with a process in it cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_group_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let refused = make(dir.path(), "memory.max", 1 << 30).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
        assert!(!may_make(dir.path(), "memory.max") && !may_make(&dir.path().join("nosuch"), "memory.max"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let limit = |of: &Path, text: &str| fs::write(of.join("memory.max"), text).unwrap();
        let groups = [(inner.clone(), "memory.max"), (dir.path().join("nosuch/c"), "memory.limit_in_bytes")];
        assert_eq!(least(&groups), None);
        limit(&inner, "max\n");
        assert_eq!(least(&groups), None);
        limit(dir.path(), "1073741824\n");
        assert_eq!(least(&groups), Some(1 << 30), "its own says nothing, the one above does");
        limit(&inner, "4096\n");
        assert_eq!(least(&groups), Some(4096));
        fs::write(dir.path().join("memory.limit_in_bytes"), "512\n").unwrap();
        assert_eq!(least(&groups), Some(512), "of the other version too, where the group itself is not to be seen");
    }

    #[test]
    fn groups_are_looked_for_where_this_process_is_in_either_version() {
        let both = "4:memory:/a/b\n3:cpuset:/\n0::/c\n";
        let found = candidates(both);
        assert_eq!(found[0], (PathBuf::from("/sys/fs/cgroup/c"), "memory.max"));
        assert_eq!(found[1], (PathBuf::from("/sys/fs/cgroup/memory/a/b"), "memory.limit_in_bytes"));
        assert!(candidates("").is_empty() && candidates("nonsense").is_empty());
    }
}
