//! One process at a time owns a store directory.
//!
//! The file `LOCK` is held with an advisory lock for as long as the store is open; its text names the owner for the error that a
//! second one gets. It also says whether the store was closed in order and in which boot of the machine it was last open, so
//! that an opening after a power cut can warn where the engine does not promise to survive one.

use std::path::Path;

use biombo_base::io::{File, Io, Lock, OpenMode};
use biombo_engine::{Error, ErrorKind, Result};
use std::sync::Arc;

pub(crate) const LOCK: &str = "LOCK";
const CLOSED: &str = "closed\n";

/// The held lock of a store directory.
pub(crate) struct Owner {
    file: Arc<dyn File>,
    _lock: Box<dyn Lock>,
    /// The store was open when the machine went down.
    pub(crate) machine_went_down: bool,
}

impl Owner {
    /// Take the lock of `dir`, which exists.
    pub(crate) fn take(io: &dyn Io, dir: &Path) -> Result<Self> {
        let path = dir.join(LOCK);
        let refused = |e| Error::io(format_args!("lock {}", path.display()), e);
        let lock = io.try_lock(&path).map_err(refused)?;
        let file = io.open(&path, OpenMode::WRITE).map_err(refused)?;
        let mut text = vec![0; 512];
        let read = file.read_at(&mut text, 0).map_err(refused)?;
        text.truncate(read);
        let text = String::from_utf8_lossy(&text).into_owned();
        let Some(lock) = lock else {
            let owner = text.lines().next().unwrap_or("another process").to_owned();
            return Err(Error::new(
                ErrorKind::Busy,
                format!("the store {} is open in {owner}: close it there first", dir.display()),
            ));
        };
        let boot = boot_id();
        let machine_went_down = text.lines().any(|line| line.strip_prefix("boot ").is_some_and(|last| last != boot));
        let name =
            std::env::current_exe().ok().and_then(|exe| exe.file_name().map(|n| n.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| "unknown".to_owned());
        let owner = Self { file, _lock: lock, machine_went_down };
        owner.say(&format!("process {} ({name})\nboot {boot}\n", std::process::id())).map_err(refused)?;
        Ok(owner)
    }

    /// Note that the store was closed in order. The lock goes when the owner is dropped.
    pub(crate) fn closed(&self) {
        // Nothing depends on it but a warning: a failure here must not fail a close.
        let _ = self.say(CLOSED);
    }

    fn say(&self, text: &str) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_at(text.as_bytes(), 0)
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
