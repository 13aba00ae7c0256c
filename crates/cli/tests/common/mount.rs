//! File systems of their own, small enough to be filled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own at `dir`, while it lives.
pub struct Mount(PathBuf);

impl Mount {
    /// Memory with the options of `mount -o`; `None` where this user may not mount.
    pub fn tmpfs(dir: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(dir).expect("a directory");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).output().ok()?;
        mount.status.success().then(|| Self(dir.to_owned()))
    }

    /// Make room.
    pub fn grow(&self, size: &str) {
        let grown = Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0).status();
        assert!(grown.is_ok_and(|status| status.success()), "the file system grows");
    }

    /// Whether it let itself be made so.
    pub fn read_only(&self) -> bool {
        let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).output();
        remount.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
