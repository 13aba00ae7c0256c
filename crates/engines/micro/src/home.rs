//! The directory of one instance: whose it is, and that only one instance uses it.
//!
//! It holds one small file, [`MARKER`], beside the engine's own:
//!
//! 1. It is held under an exclusive lock while the instance is open: a second instance, in this process or another, is `Busy`.
//! 2. Its name is durable before any other file is made. A directory with files and without it is somebody else's, and stays as it is.
//! 3. It is empty while the instance is being created, and names engine and format version once that is durable. An instance whose
//!    files are missing then is damaged; it is never created anew.
//!
//! 4. What the marker says is durable before anybody acts on it: who was killed may have written it and not synced it, and whose sync
//!    failed sees it, and no later sync writes it. So its line is written once more, then synced.
//! 5. Who makes the marker and cannot make its name durable takes it away again: the next one makes another name.
//!
//! After a crash: an empty marker, or one of zeros (a file that had grown without its bytes), says that nobody was told of the
//! instance yet, so what is there is removed and creation starts again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{Io, Lock, OpenMode, create_dirs};
use biombo_base::{Error, ErrorKind, Result};

/// The file that says whose directory it is.
pub(crate) const MARKER: &str = "BIOMBO-MICRO";

/// The version of all formats of this crate (`docs/format/micro.md`).
pub(crate) const FORMAT_VERSION: u32 = 1;

/// An instance's directory, owned until this is dropped.
pub(crate) struct Home {
    io: Arc<dyn Io>,
    dir: PathBuf,
    engine: &'static str,
    is_new: bool,
    _lock: Box<dyn Lock>,
}

impl Home {
    /// Take `dir` for an instance of `engine`.
    ///
    /// `Busy` while another instance has it, `Invalid` when it holds something else, `Unsupported` when a newer version wrote it.
    pub fn take(io: &Arc<dyn Io>, dir: &Path, engine: &'static str) -> Result<Self> {
        let shown = dir.display();
        let names = io.read_dir(dir).map_err(|e| Error::io(format_args!("open the directory {shown}"), e))?;
        if !names.is_empty() && !names.iter().any(|name| name.as_os_str() == MARKER) {
            return Err(Error::invalid(format!(
                "{shown} holds files that are not of the engine {engine}; choose an empty directory"
            )));
        }
        let path = dir.join(MARKER);
        let lock = io.try_lock(&path).map_err(|e| Error::io(format_args!("lock {}", path.display()), e))?;
        let Some(lock) = lock else {
            let message = format!("{shown} is in use by another process or instance; close that one first");
            return Err(Error::new(ErrorKind::Busy, message));
        };
        let is_new = read_marker(&**io, &path, engine)?;
        let home = Self { io: Arc::clone(io), dir: dir.to_owned(), engine, is_new, _lock: lock };
        if !is_new {
            home.write_marker()?;
        }
        home.sync_dir().inspect_err(|_| {
            if names.is_empty() {
                // Best effort: the caller hears of what failed.
                let _ = io.remove_file(&path);
            }
        })?;
        Ok(home)
    }

    /// Whether the instance must still be created; whatever lies here beside the marker counts for nothing then.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The file system.
    pub fn io(&self) -> &Arc<dyn Io> {
        &self.io
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Remove what a creation that was cut short has left.
    pub fn clear(&self) -> Result<()> {
        let failed = |name: &Path, e| Error::io(format_args!("remove {}", self.dir.join(name).display()), e);
        let names = self.io.read_dir(&self.dir).map_err(|e| failed(Path::new(""), e))?;
        for name in names.into_iter().filter(|name| name.as_os_str() != MARKER) {
            let path = self.dir.join(&name);
            let is_dir = self.io.read_dir(&path).is_ok();
            let removed = if is_dir { self.io.remove_dir_all(&path) } else { self.io.remove_file(&path) };
            removed.map_err(|e| failed(&name, e))?;
        }
        Ok(())
    }

    /// The instance was created and is durable: from now on it is only opened.
    pub fn created(&mut self) -> Result<()> {
        self.write_marker()?;
        self.sync_dir()?;
        self.is_new = false;
        Ok(())
    }

    /// Write the marker's line, durably.
    fn write_marker(&self) -> Result<()> {
        let path = self.dir.join(MARKER);
        let line = format!("biombo {} {FORMAT_VERSION}\n", self.engine);
        let file = self.io.open(&path, OpenMode::WRITE);
        let written = file.and_then(|file| file.write_at(line.as_bytes(), 0).and_then(|()| file.sync()));
        written.map_err(|e| Error::io(format_args!("write {}", path.display()), e))
    }

    /// Read the marker again: it names this engine.
    pub fn verify(&self) -> Result<()> {
        let path = self.dir.join(MARKER);
        match read_marker(&*self.io, &path, self.engine) {
            Ok(false) => Ok(()),
            Err(e) if e.kind() == ErrorKind::Io => Err(e),
            _ => Err(Error::corruption(
                path,
                0,
                "it does not name the engine any more; restore the directory from a copy",
            )),
        }
    }

    /// Make the names in the directory durable.
    pub fn sync_dir(&self) -> Result<()> {
        let dir = &self.dir;
        self.io.sync_dir(dir).map_err(|e| Error::io(format_args!("sync the directory {}", dir.display()), e))
    }
}

/// Whether the marker says that nothing was created yet; an error where it names anything but this engine and version.
fn read_marker(io: &dyn Io, path: &Path, engine: &str) -> Result<bool> {
    let mut line = [0; 128];
    let read = io.open(path, OpenMode::READ).and_then(|file| file.read_at(&mut line, 0));
    let line = &line[..read.map_err(|e| Error::io(format_args!("read {}", path.display()), e))?];
    if line.iter().all(|byte| *byte == 0) {
        return Ok(true);
    }
    let words = std::str::from_utf8(line).ok().and_then(|line| line.strip_suffix('\n'));
    let named = words.and_then(|words| words.strip_prefix("biombo ")).and_then(|words| words.split_once(' '));
    let Some((found, version)) = named.and_then(|(name, version)| Some((name, version.parse::<u32>().ok()?))) else {
        return Err(Error::corruption(path, 0, "it does not name an engine; restore the directory from a copy"));
    };
    if found != engine {
        let dir = path.parent().unwrap_or(path).display();
        return Err(Error::invalid(format!("{dir} holds an instance of the engine {found}: open it with that one")));
    }
    match version {
        FORMAT_VERSION => Ok(false),
        _ => Err(Error::unsupported(format!(
            "{} has version {version} of the format of {engine}; this build reads {FORMAT_VERSION}: open it with the version that wrote it",
            path.display()
        ))),
    }
}

/// Refuse the destination of a copy unless it is missing or an empty directory, and make it, its name durable.
pub(crate) fn make_copy_target(io: &dyn Io, dest: &Path) -> Result<()> {
    let failed = |doing: &str, e| Error::io(format_args!("{doing} {}", dest.display()), e);
    // A file in its place cannot be listed either.
    if io.exists(dest).map_err(|e| failed("look at", e))? && !io.read_dir(dest).is_ok_and(|names| names.is_empty()) {
        return Err(Error::invalid(format!("{} is no empty directory: a copy needs its own", dest.display())));
    }
    create_dirs(io, dest).map_err(|e| failed("create", e))
}
