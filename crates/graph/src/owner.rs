//! One process at a time has a graph's directory: the file `LOCK` in it is held with an advisory lock, and its text names who has it.

use std::path::Path;

use biombo_base::io::{Io, Lock, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use crate::csr::file;

/// The held lock of a directory; it goes when this is dropped.
pub struct Owner {
    _lock: Box<dyn Lock>,
}

impl Owner {
    /// Take the lock of `dir`, which is made where it is missing, its name durable.
    ///
    /// # Errors
    /// `Busy`, with who has it; `Io`, `Full`.
    pub fn make(io: &dyn Io, dir: &Path) -> Result<Self> {
        file::create_dir(io, dir)?;
        Self::take(io, dir)
    }

    /// Take the lock of `dir`, which exists.
    ///
    /// # Errors
    /// `Busy`, with who has it; `Io`.
    pub fn take(io: &dyn Io, dir: &Path) -> Result<Self> {
        let path = dir.join("LOCK");
        let refused = |e| Error::io(format_args!("lock {}", path.display()), e);
        let lock = io.try_lock(&path).map_err(refused)?;
        let file = io.open(&path, OpenMode::WRITE).map_err(refused)?;
        let Some(lock) = lock else {
            let mut text = vec![0; 256];
            let read = file.read_at(&mut text, 0).map_err(refused)?;
            let owner = String::from_utf8_lossy(&text[..read]).lines().next().unwrap_or("another process").to_owned();
            let message = format!("the graph {} is open in {owner}: wait for it or end it", dir.display());
            return Err(Error::new(ErrorKind::Busy, message));
        };
        file.set_len(0).map_err(refused)?;
        file.write_at(format!("process {}\n", std::process::id()).as_bytes(), 0).map_err(refused)?;
        Ok(Self { _lock: lock })
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}
