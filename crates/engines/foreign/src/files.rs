//! How many files an instance may keep open.

use rustix::process::{Resource, getrlimit};

/// This instance's share of the process's limit of open files, with a quarter of the limit left to everything else. The
/// engines of LevelDB's family reopen tables beyond it.
pub(crate) fn open_files_max(instances: u32) -> i64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    let share = (limit - limit / 4) / u64::from(instances.max(1));
    share.clamp(32, 1 << 16) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_share_the_limit() {
        assert!(open_files_max(8) <= open_files_max(1));
        assert!(open_files_max(1_000_000) >= 32);
    }
}
