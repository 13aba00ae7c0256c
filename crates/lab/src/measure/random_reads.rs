//! What the device itself gives, or those that a run lies on together: random reads of one block, past every cache, over the files of a
//! store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biombo_base::io::{AlignedBuf, BLOCK_BYTES, File, OpenMode, RealIo};
use biombo_base::{Error, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::disk::linked;
use crate::workload::Random;

/// How long it is measured.
const SECONDS: f64 = 2.0;
/// Files that may be open at once.
const FILES_MAX: usize = 4096;
/// Makes the places repeatable.
const SEED: u64 = 1;

/// Blocks of a file that hold data, and how many blocks come before them in all files.
struct Extent {
    file: Arc<dyn File>,
    offset: u64,
    before: u64,
}

/// Random reads a second of 4 KiB, uniform over everything that is stored in files under `dir` and what belongs to it on other devices, by
/// `threads` threads that each have one read under way: the queue depth. `None` where there is nothing to read, or a file system has no
/// O_DIRECT.
///
/// Room that was only reserved is left out: the file system answers for it without the device.
pub fn random_reads_per_s(dir: &Path, threads: u32) -> Result<Option<f64>> {
    let dirs = read_places(dir);
    let (extents, blocks) = stored(&dirs)?;
    if blocks == 0 || !dirs.iter().all(|dir| is_direct(dir)) {
        return Ok(None);
    }
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let (extents, stop) = (&extents, &stop);
    let read = |thread: u32| -> std::io::Result<u64> {
        let mut random = Random::new(SEED, u64::from(thread));
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let at = random.below(blocks);
            let extent = &extents[extents.partition_point(|extent| extent.before <= at) - 1];
            extent.file.read_at(&mut block, extent.offset + (at - extent.before) * BLOCK_BYTES as u64)?;
            count += 1;
        }
        Ok(count)
    };
    let total = std::thread::scope(|scope| -> std::io::Result<u64> {
        let clients: Vec<_> = (0..threads).map(|thread| scope.spawn(move || read(thread))).collect();
        std::thread::sleep(Duration::from_secs_f64(SECONDS));
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err(std::io::Error::other("a panic")))).sum()
    });
    let total = total.map_err(|e| Error::io(format!("read at random under {}", dir.display()), e))?;
    Ok(Some(total as f64 / begun.elapsed().as_secs_f64()))
}

/// The directories whose files are read: `dir` and those on other devices.
fn read_places(dir: &Path) -> Vec<PathBuf> {
    linked(dir).into_iter().chain([dir.to_owned()]).collect()
}

/// Where the files under `dirs` have data, and how many blocks that is.
fn stored(dirs: &[PathBuf]) -> Result<(Vec<Extent>, u64)> {
    let io = RealIo::shared();
    let mut extents = Vec::new();
    let mut blocks = 0;
    for dir in dirs {
        let files = files(dir).map_err(|e| Error::io(format!("list {}", dir.display()), e))?;
        // Each device has its part of what may be open.
        for path in files.into_iter().take(FILES_MAX / dirs.len()) {
            let failed = |e| Error::io(format!("read {}", path.display()), e);
            let file = io.open(&path, OpenMode::READ_DIRECT).map_err(failed)?;
            file.uncache();
            for (from, to) in data(&path).map_err(failed)? {
                let count = (to - from) / BLOCK_BYTES as u64;
                if count > 0 {
                    extents.push(Extent { file: Arc::clone(&file), offset: from, before: blocks });
                    blocks += count;
                }
            }
        }
    }
    Ok((extents, blocks))
}

/// All regular files under `dir`.
fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?.file_type();
        if kind.is_dir() {
            found.extend(files(&path)?);
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Where a file has data, in bytes, rounded inwards to blocks.
fn data(path: &Path) -> std::io::Result<Vec<(u64, u64)>> {
    let file = std::fs::File::open(path)?;
    let (mut at, mut found) = (0, Vec::new());
    loop {
        let from = match seek(&file, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(Errno::NXIO) => return Ok(found),
            Err(e) => return Err(e.into()),
        };
        let to = seek(&file, SeekFrom::Hole(from))?;
        let block = BLOCK_BYTES as u64;
        found.push((from.next_multiple_of(block), (to / block * block).max(from.next_multiple_of(block))));
        at = to;
    }
}

/// Whether files under `dir` are read past the page cache.
fn is_direct(dir: &Path) -> bool {
    let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::TMPFILE;
    match rustix::fs::open(dir, flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR) {
        Ok(_) => true,
        Err(Errno::INVAL) => false,
        // No unnamed files here: the reads themselves tell.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_base::io::Io;

    #[test]
    fn what_is_stored_is_read_and_what_is_only_reserved_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(random_reads_per_s(dir.path(), 1).unwrap(), None);
        let path = dir.path().join("f");
        let file = RealIo::new().open(&path, OpenMode::CREATE_NEW).unwrap();
        file.allocate(1 << 20).unwrap();
        file.sync().unwrap();
        file.write_at(&[1; 70_000], 8192).unwrap();
        file.sync().unwrap();
        let found = data(&path).unwrap();
        let bytes: u64 = found.iter().map(|(from, to)| to - from).sum();
        assert!((65_536..1 << 20).contains(&bytes), "{found:?}");
        if is_direct(dir.path()) {
            let rate = random_reads_per_s(dir.path(), 2).unwrap();
            assert!(rate.is_some_and(|rate| rate > 1.0), "{rate:?}");
        }
    }

    /// Fails if what a run has on other devices is not read, which those then give nothing for.
    #[test]
    fn what_lies_on_other_devices_is_read_as_well() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(dir.path().join("a"), vec![1u8; 10 * BLOCK_BYTES]).unwrap();
        std::fs::write(other.path().join("b"), vec![1u8; 20 * BLOCK_BYTES]).unwrap();
        crate::measure::disk::link(dir.path(), &[other.path().to_owned()]).unwrap();
        crate::measure::disk::settle(dir.path()).unwrap();
        assert_eq!(read_places(dir.path()).len(), 2);
        assert_eq!(stored(&read_places(dir.path())).unwrap().1, 30);
    }
}
