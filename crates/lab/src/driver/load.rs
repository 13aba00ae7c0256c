//! The load phase: every record is inserted once, in no order of keys, by all threads together.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::Instant;

use biombo_base::{Error, Result};

use super::Progress;
use crate::target::Target;
use crate::workload::trace::Reader;
use crate::workload::{Keys, Random, Values};

/// A thread tells what it put whenever it has put so much.
const TELL_BYTES: u64 = 64 << 10;

/// What a load phase took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loaded {
    /// Records inserted.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// From the first thread's beginning to the last one's end, the closing flush included.
    pub seconds: f64,
}

/// One thread of a load phase.
struct Loader<'a> {
    target: &'a dyn Target,
    values: &'a Values,
    progress: &'a Progress,
    random: Random,
    records: u64,
    bytes: u64,
    /// What of them the watcher knows.
    told: u64,
    steps: u64,
}

impl Loader<'_> {
    fn put(&mut self, key: &[u8]) -> Result<()> {
        let value = self.values.next(&mut self.random);
        self.target.load(key, value)?;
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if self.bytes - self.told >= TELL_BYTES {
            self.tell();
        }
        Ok(())
    }

    /// Tell the watcher what was put since the last time.
    fn tell(&mut self) {
        self.progress.add_bytes(self.bytes - self.told, 0);
        self.told = self.bytes;
    }

    /// Count a step; `false`: stop.
    fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps.is_multiple_of(64) {
            self.progress.add(64);
            return !self.progress.stopped();
        }
        true
    }
}

/// Insert the records `0..records` with `threads` threads, then flush. The first error ends it.
pub fn load(
    target: &dyn Target,
    keys: &Keys,
    values: &Values,
    records: u64,
    threads: u32,
    seed: u64,
    progress: &Progress,
) -> Result<Loaded> {
    together(target, values, threads, seed, progress, |thread, loader| {
        let mut key = Vec::with_capacity(keys.bytes());
        for place in (u64::from(thread)..records).step_by(threads as usize) {
            keys.write(keys.loaded(place), &mut key);
            loader.put(&key)?;
            if !loader.step() {
                break;
            }
        }
        Ok(())
    })
}

/// Insert every key that the trace `files` name, once, with `threads` threads, then flush. Nothing is kept in memory: each
/// thread reads all files as a stream and puts those of its share of the keys that are not there yet.
pub fn load_trace(
    target: &dyn Target,
    files: &[PathBuf],
    values: &Values,
    threads: u32,
    seed: u64,
    progress: &Progress,
) -> Result<Loaded> {
    together(target, values, threads, seed, progress, |thread, loader| {
        let mut found = Vec::new();
        for file in files {
            let mut reader = Reader::open(file)?;
            while let Some(line) = reader.line()? {
                if share(line.key, threads) != thread {
                    continue;
                }
                if !loader.target.read(line.key, &mut found)? {
                    loader.put(line.key)?;
                }
                if !loader.step() {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// The thread that loads `key`: FNV-1a, so that a key is one thread's alone.
fn share(key: &[u8], threads: u32) -> u32 {
    let hash = key.iter().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash % threads.max(1)
}

/// Do `work` in `threads` threads that begin together, then flush.
fn together(
    target: &dyn Target,
    values: &Values,
    threads: u32,
    seed: u64,
    progress: &Progress,
    work: impl Fn(u32, &mut Loader<'_>) -> Result<()> + Sync,
) -> Result<Loaded> {
    let barrier = Barrier::new(threads as usize + 1);
    let (began, results) = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    let random = Random::new(seed, u64::from(u32::MAX) + u64::from(thread));
                    let mut loader =
                        Loader { target, values, progress, random, records: 0, bytes: 0, told: 0, steps: 0 };
                    barrier.wait();
                    let done = work(thread, &mut loader).inspect_err(|_| progress.stop());
                    progress.add(loader.steps % 64);
                    loader.tell();
                    done.map(|()| (loader.records, loader.bytes))
                })
            })
            .collect();
        let began = Instant::now();
        barrier.wait();
        let results: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (began, results)
    });
    let mut loaded = Loaded::default();
    for result in results {
        let (records, bytes) =
            result.map_err(|_| Error::invalid("a thread of the load phase panicked: see its message above"))??;
        loaded.records += records;
        loaded.bytes += bytes;
    }
    if progress.stopped() {
        return Err(Error::invalid("the load phase was stopped"));
    }
    target.flush()?;
    Ok(Loaded { seconds: began.elapsed().as_secs_f64(), ..loaded })
}
