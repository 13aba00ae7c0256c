//! The directory of one engine instance: whose it is, and that only one instance uses it.
//!
//! The libraries behind the adapters do not agree on this. LevelDB and RocksDB lock per process and accept each other's
//! files, Tkrzw locks per process and waits, and all of them create a new database where an old one lost its first file.
//! So every instance directory holds one small file of the adapter, [`MARKER`]:
//!
//! 1. It is held under an exclusive lock of the open file (flock) while the instance is open: a second instance, in this
//!    process or another, gets `Busy`.
//! 2. It is empty while the instance is being created, and names the engine once that was done. A directory that holds
//!    files but no marker, or the marker of another engine, is refused and stays as it is. So its name is durable before any other
//!    file is made.
//! 3. A directory whose marker names the engine is opened without leave to create: lost files are `Corruption`, never a new
//!    and empty database in the place of the old one.
//!
//! 4. What the marker says is durable before anybody acts on it: who was killed may have written the line and not synced it. So it is
//!    written once more at each opening, then synced.
//!
//! After a crash: before the line is written, the marker is empty, and creation starts again over whatever is there; after it, the engine's
//! own recovery has everything that it needs, since the line is written once creation is complete. Zeros are a line whose file has grown and
//! whose bytes are missing: what is there is complete, and opened.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use biombo_base::io::{RealIo, create_dirs};
use biombo_base::{Error, ErrorKind, Result};

/// The name of the adapter's file in an instance directory.
pub const MARKER: &str = "BIOMBO-ENGINE";

const VERSION: u32 = 1;

/// An instance directory, owned until this is dropped.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    marker: File,
    engine: &'static str,
    is_new: bool,
}

impl Drop for Home {
    fn drop(&mut self) {
        // A child that was forked and has not executed its program yet has a copy of the file: closing ours would leave it locked.
        let _ = self.marker.unlock();
    }
}

impl Home {
    /// Take `dir` for an instance of `engine`.
    ///
    /// # Errors
    /// `NotFound` without the directory, `Busy` while another instance has it, `Invalid` when it holds something else.
    pub fn take(dir: &Path, engine: &'static str) -> Result<Self> {
        let path = dir.join(MARKER);
        let found =
            fs::read_dir(dir).map_err(|e| Error::io(format_args!("open the directory {}", dir.display()), e))?;
        let mut is_empty = true;
        let (mut has_marker, mut has_more) = (false, false);
        for entry in found {
            let entry = entry.map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?;
            is_empty = false;
            let is_marker = entry.file_name() == MARKER;
            has_marker |= is_marker;
            has_more |= !is_marker;
        }
        if !is_empty && !has_marker {
            return Err(Error::invalid(format!(
                "{} holds files that are not of the engine {engine}; choose an empty directory",
                dir.display()
            )));
        }
        let mut marker = File::options()
            .read(true)
            .write(true)
            .create(is_empty)
            .truncate(false)
            .open(&path)
            .map_err(|e| Error::io(format_args!("open {}", path.display()), e))?;
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(
                    ErrorKind::Busy,
                    format!("{} is in use by another process or instance; close that one first", dir.display()),
                ));
            }
            Err(TryLockError::Error(e)) => return Err(Error::io(format_args!("lock {}", path.display()), e)),
        }
        let mut line = String::new();
        marker.read_to_string(&mut line).map_err(|_| {
            Error::corruption(&path, 0, "it does not name an engine; restore the directory from a copy")
        })?;
        let is_unwritten = line.bytes().all(|byte| byte == 0);
        let is_new = line.is_empty() || is_unwritten && !has_more;
        if is_new {
            sync_dir(dir).inspect_err(|_| {
                if is_empty {
                    // Best effort, so that the next one makes another name: the caller hears of what failed.
                    let _ = fs::remove_file(&path);
                }
            })?;
        } else {
            if !is_unwritten {
                check(&path, &line, engine)?;
            }
            write_line(&mut marker, dir, engine).map_err(|e| Error::io(format_args!("write {}", path.display()), e))?;
        }
        Ok(Self { dir: dir.to_owned(), marker, engine, is_new })
    }

    /// Whether the instance must still be created.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The instance was created and is on the device: from now on it is only opened.
    pub fn created(&mut self) -> Result<()> {
        if self.is_new {
            let path = self.dir.join(MARKER);
            write_line(&mut self.marker, &self.dir, self.engine)
                .map_err(|e| Error::io(format_args!("write {}", path.display()), e))?;
            self.is_new = false;
        }
        Ok(())
    }

    /// Bytes on the device of all files in the directory.
    pub fn physical_bytes(&self) -> Result<u64> {
        physical_bytes(&self.dir)
    }
}

/// Mark the finished copy of an instance in `dir` as one of `engine`, durably.
fn mark_copy(dir: &Path, engine: &str) -> Result<()> {
    let path = dir.join(MARKER);
    File::options()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut marker| write_line(&mut marker, dir, engine))
        .map_err(|e| Error::io(format_args!("write {}", path.display()), e))
}

/// Make a copy of an instance of `engine` in `dest`, which is missing or empty: its files by `write`, durably, then what marks it. When that fails,
/// nothing of it is left. Nobody else makes anything there meanwhile: a store has the lock of the directory around it.
pub fn copy_to(dest: &Path, engine: &str, write: impl FnOnce() -> Result<()>) -> Result<()> {
    make_copy_target(dest)?;
    write().and_then(|()| mark_copy(dest, engine)).inspect_err(|_| {
        // Best effort: what failed is what the caller hears. The marker goes last: until then it is a copy that was cut short.
        let names = fs::read_dir(dest).into_iter().flatten().flatten().map(|entry| entry.path());
        let (markers, others): (Vec<_>, Vec<_>) = names.partition(|path| path.ends_with(MARKER));
        for path in others.into_iter().chain(markers) {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    })
}

/// Refuse the destination of a copy unless it is missing or empty.
fn check_copy_target(dest: &Path) -> Result<()> {
    match fs::read_dir(dest).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::invalid(format!(
            "{} is not empty; a checkpoint needs an empty or new directory",
            dest.display()
        ))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Err(Error::invalid(format!("{} is a file; a checkpoint needs an empty or new directory", dest.display())))
        }
        Err(e) => Err(Error::io(format_args!("open the directory {}", dest.display()), e)),
    }
}

/// The same, and make it, its name durable.
fn make_copy_target(dest: &Path) -> Result<()> {
    check_copy_target(dest)?;
    let made = create_dirs(&*RealIo::shared(), dest);
    made.map_err(|e| Error::io(format_args!("create {}", dest.display()), e))
}

/// Make the names in `dir` durable.
#[expect(clippy::disallowed_methods, reason = "the files are a foreign library's: they never go through Io")]
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|e| Error::io(format_args!("sync the directory {}", dir.display()), e))
}

/// Make `file` and its bytes durable.
#[expect(clippy::disallowed_methods, reason = "the files are a foreign library's: they never go through Io")]
pub fn sync_file(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| Error::io(format_args!("sync {}", path.display()), e))
}

/// Make all files of a finished copy in `dir` durable, except those whose extension is in `synced` already, and the name of
/// the directory itself.
pub fn sync_files_but(dir: &Path, synced: &[&str]) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?;
    for entry in entries {
        let path = entry.map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?.path();
        if !path.extension().is_some_and(|extension| synced.iter().any(|known| extension == *known)) {
            sync_file(&path)?;
        }
    }
    sync_dir(dir)?;
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new(".")),
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// Bytes on the device of all files in `dir`; files that vanish meanwhile count nothing.
pub fn physical_bytes(dir: &Path) -> Result<u64> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?;
    Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum())
}

#[expect(clippy::disallowed_methods, reason = "the marker lies among a foreign library's files, outside Io")]
fn write_line(marker: &mut File, dir: &Path, engine: &str) -> std::io::Result<()> {
    marker.seek(SeekFrom::Start(0))?;
    let line = format!("{engine} {VERSION}\n");
    marker.write_all(line.as_bytes())?;
    marker.set_len(line.len() as u64)?;
    marker.sync_all()?;
    File::open(dir)?.sync_all()
}

fn check(path: &Path, line: &str, engine: &str) -> Result<()> {
    let Some((name, version)) = line.strip_suffix('\n').and_then(|line| line.rsplit_once(' ')) else {
        return Err(Error::corruption(path, 0, "it does not name an engine; restore the directory from a copy"));
    };
    if name != engine {
        return Err(Error::invalid(format!(
            "{} was written by the engine {name}, not by {engine}; open it with {name}",
            path.parent().unwrap_or(path).display()
        )));
    }
    match version.parse::<u32>() {
        Ok(VERSION) => Ok(()),
        Ok(newer) => Err(Error::unsupported(format!(
            "{} has version {newer} and this build knows {VERSION}; use a newer build",
            path.display()
        ))),
        Err(_) => Err(Error::corruption(path, 0, "its version is no number; restore the directory from a copy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(result: Result<Home>) -> ErrorKind {
        result.expect_err("must be refused").kind()
    }

    #[test]
    fn a_directory_has_one_owner_at_a_time_even_within_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::take(dir.path(), "a").unwrap();
        assert_eq!(kind(Home::take(dir.path(), "a")), ErrorKind::Busy);
        drop(home);
        Home::take(dir.path(), "a").unwrap();
    }

    #[test]
    fn a_directory_of_another_program_or_engine_is_refused_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes"), "mine").unwrap();
        assert_eq!(kind(Home::take(dir.path(), "a")), ErrorKind::Invalid);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        let dir = tempfile::tempdir().unwrap();
        Home::take(dir.path(), "a").unwrap().created().unwrap();
        assert_eq!(kind(Home::take(dir.path(), "b")), ErrorKind::Invalid);
        assert_eq!(fs::read(dir.path().join(MARKER)).unwrap(), b"a 1\n");
        assert_eq!(kind(Home::take(&dir.path().join("missing"), "b")), ErrorKind::NotFound);
    }

    #[test]
    fn an_instance_is_new_until_its_creation_was_completed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Home::take(dir.path(), "a").unwrap().is_new());
        assert!(Home::take(dir.path(), "a").unwrap().is_new(), "a creation that was cut must start again");
        Home::take(dir.path(), "a").unwrap().created().unwrap();
        assert!(!Home::take(dir.path(), "a").unwrap().is_new());
    }

    /// Fails when a line that was written and never synced is believed as it is: a power cut after the next opening would make the instance a
    /// new one.
    #[test]
    fn what_the_marker_says_is_written_once_more_before_anybody_acts_on_it() {
        let dir = tempfile::tempdir().unwrap();
        Home::take(dir.path(), "a").unwrap().created().unwrap();
        let path = dir.path().join(MARKER);
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        drop(Home::take(dir.path(), "a").unwrap());
        assert!(fs::metadata(&path).unwrap().modified().unwrap() > long_ago);
        assert_eq!(fs::read(&path).unwrap(), b"a 1\n");
        // A file that has grown without its bytes: who wrote it had all other files there.
        fs::write(&path, [0; 4]).unwrap();
        assert!(Home::take(dir.path(), "a").unwrap().is_new(), "there are none");
        fs::write(dir.path().join("data"), "acknowledged").unwrap();
        assert!(!Home::take(dir.path(), "a").unwrap().is_new());
        assert_eq!(fs::read(&path).unwrap(), b"a 1\n");
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("copy");
        let write = |fails: bool| {
            fs::write(dest.join("data"), "half").unwrap();
            fs::create_dir(dest.join("more")).unwrap();
            if fails { Err(Error::invalid("no")) } else { Ok(()) }
        };
        assert_eq!(copy_to(&dest, "a", || write(true)).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(fs::read_dir(&dest).unwrap().count(), 0);
        copy_to(&dest, "a", || write(false)).unwrap();
        assert!(!Home::take(&dest, "a").unwrap().is_new());
        assert_eq!(copy_to(&dest, "a", || Ok(())).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_newer_or_damaged_marker_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MARKER), "a 2\n").unwrap();
        assert_eq!(kind(Home::take(dir.path(), "a")), ErrorKind::Unsupported);
        fs::write(dir.path().join(MARKER), [0u8, 255]).unwrap();
        assert_eq!(kind(Home::take(dir.path(), "a")), ErrorKind::Corruption);
    }
}
