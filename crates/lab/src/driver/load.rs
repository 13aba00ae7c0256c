//! The load phase: every record is inserted once, in no order of keys, by all threads together.

use std::sync::Barrier;
use std::time::Instant;

use biombo_base::{Error, Result};

use super::Progress;
use crate::target::Target;
use crate::workload::{Keys, Random, Values};

/// What a load phase took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Loaded {
    /// Records inserted.
    pub records: u64,
    /// From the first thread's beginning to the last one's end, the closing flush included.
    pub seconds: f64,
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
    let barrier = Barrier::new(threads as usize + 1);
    let (began, results) = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut random = Random::new(seed, u64::from(u32::MAX) + u64::from(thread));
                    let mut key = Vec::with_capacity(keys.bytes());
                    barrier.wait();
                    let mut since = 0u64;
                    let mut place = u64::from(thread);
                    while place < records {
                        keys.write(keys.loaded(place), &mut key);
                        if let Err(error) = target.load(&key, values.next(&mut random)) {
                            progress.stop();
                            return Err(error);
                        }
                        place += u64::from(threads);
                        since += 1;
                        if since == 64 {
                            progress.add(since);
                            since = 0;
                            if progress.stopped() {
                                break;
                            }
                        }
                    }
                    progress.add(since);
                    Ok(())
                })
            })
            .collect();
        let began = Instant::now();
        barrier.wait();
        let results: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        (began, results)
    });
    for result in results {
        result.map_err(|_| Error::invalid("a thread of the load phase panicked: see its message above"))??;
    }
    if progress.stopped() {
        return Err(Error::invalid("the load phase was stopped"));
    }
    target.flush()?;
    Ok(Loaded { records, seconds: began.elapsed().as_secs_f64() })
}
