//! Takes samples: at the ends of phases, and beside the clients while they work.
//!
//! **What it costs.** One thread that sleeps most of the time. A sample reads two small files of the kernel, lists the store's directory,
//! and asks the engine for its statistics; that takes from some 50 us (the engine `log`) to some milliseconds (a server that is asked by
//! SQL and has a thousand files; both are estimates). Before each sample the thread has rested at least [`RESTS`] times as long as the one
//! before took, the first of which is taken when the engine was opened: all of them together take about a hundredth of one processor at most. The time is in the record
//! ([`Amplification::sampling_seconds`](super::Amplification)). Clients tell what they put every 10 ms: what a sample knows of that is as old.
//!
//! An engine that has no counter of bytes written is not asked while clients work. Neither is one that keeps nothing.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use biombo_engine::Stats;

use super::arithmetic::{Sample, thinned};
use super::{Amplification, PhaseFigures, Ways};
use crate::driver::Progress;
use crate::measure::{Device, Processes, disk};
use crate::target::Target;

/// The shortest interval between two samples.
const INTERVAL: Duration = Duration::from_millis(100);
/// The thread rests so many times as long as a sample took.
const RESTS: u32 = 100;
/// When there are so many of a phase, neighbours are put together, and the interval is doubled: in the end a phase has half as many to
/// as many.
const SAMPLES_MAX: usize = 64;

/// Whether Biombo wrote the engine, so that its counters are its own.
fn is_own(engine: &str) -> bool {
    engine == "log" || engine.starts_with("micro-")
}

/// The counters of one run.
pub(crate) struct Sampler {
    dir: PathBuf,
    device: Option<Device>,
    processes: Processes,
    is_own: bool,
    is_persistent: bool,
    /// Whether the engine has a counter of bytes written.
    tells: bool,
    /// Whether its data is kept by a server of somebody else's.
    is_elsewhere: bool,
    begun: Instant,
    /// Where the present phase began, and what was seen since.
    base: Sample,
    samples: Vec<Sample>,
    interval: Duration,
    /// The time of the last sample, and of all beside clients.
    took: Duration,
    sampling: Duration,
    taken: u64,
}

impl Sampler {
    /// Of a run in `dir` on `device`, over an engine that is not open yet: its first phase begins.
    pub(crate) fn new(dir: &Path, device: Option<Device>, engine: &str, is_persistent: bool) -> Self {
        let mut sampler = Self {
            dir: dir.to_owned(),
            device,
            processes: Processes::new(),
            is_own: is_own(engine),
            is_persistent,
            tells: false,
            is_elsewhere: false,
            begun: Instant::now(),
            base: Sample::default(),
            samples: Vec::with_capacity(SAMPLES_MAX),
            interval: INTERVAL,
            took: Duration::ZERO,
            sampling: Duration::ZERO,
            taken: 0,
        };
        sampler.base = sampler.take(None, (0, 0));
        sampler
    }

    /// The engine is open; the next phase begins.
    pub(crate) fn opened(&mut self, target: &dyn Target) -> PhaseFigures {
        self.processes.look();
        let began = Instant::now();
        let told = if self.is_persistent { target.counters().ok() } else { None };
        self.is_elsewhere = told.as_ref().is_some_and(|told| told.elsewhere);
        self.tells = told.as_ref().is_some_and(|told| told.written_bytes.is_some());
        if self.tells {
            // Before it was open it had written nothing.
            let (own, statistics) = self.engine(0);
            self.base.written = Ways { own, statistics, ..self.base.written };
        }
        let figures = self.end(told.as_ref(), (0, 0), None);
        self.took = began.elapsed();
        PhaseFigures { series: Default::default(), ..figures }
    }

    /// Do `work` and take samples meanwhile.
    pub(crate) fn beside<T>(&mut self, target: &dyn Target, progress: &Progress, work: impl FnOnce() -> T) -> T {
        let (done, over) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || self.watch(target, progress, &over));
            let result = work();
            drop(done);
            result
        })
    }

    fn watch(&mut self, target: &dyn Target, progress: &Progress, over: &Receiver<()>) {
        while over.recv_timeout(self.interval.max(self.took * RESTS)) == Err(RecvTimeoutError::Timeout) {
            let began = Instant::now();
            // One that is at its end says so to its clients.
            let told = if self.tells { target.counters().ok() } else { None };
            let sample = self.take(told.as_ref(), progress.bytes());
            self.samples.push(sample);
            if self.samples.len() >= SAMPLES_MAX {
                self.samples = thinned(std::mem::take(&mut self.samples));
                self.interval *= 2;
            }
            self.took = began.elapsed();
            self.sampling += self.took;
            self.taken += 1;
        }
    }

    /// The phase ends, in which so many bytes were put and returned; `told` is what the engine says, with so much live. The next phase
    /// begins.
    pub(crate) fn end(&mut self, told: Option<&Stats>, bytes: (u64, u64), live_bytes: Option<u64>) -> PhaseFigures {
        let end = self.take(told, bytes);
        let next = end.restart();
        self.samples.push(end);
        let figures = PhaseFigures::of(&self.base, &self.samples, live_bytes);
        self.base = next;
        self.samples.clear();
        self.interval = INTERVAL;
        figures
    }

    /// The whole, with what the samples cost.
    pub(crate) fn finish(self, open: PhaseFigures, load: Option<PhaseFigures>, run: PhaseFigures) -> Amplification {
        Amplification { sampling_seconds: self.sampling.as_secs_f64(), samples: self.taken, open, load, run }
    }

    /// An engine's counter, as its own or as statistics.
    fn engine(&self, bytes: u64) -> (Option<u64>, Option<u64>) {
        if self.is_own { (Some(bytes), None) } else { (None, Some(bytes)) }
    }

    /// All counters as they are now. What cannot be read at this moment is as it was.
    fn take(&self, told: Option<&Stats>, (put_bytes, returned_bytes): (u64, u64)) -> Sample {
        let last = self.samples.last().unwrap_or(&self.base);
        let mut sample =
            Sample { at_seconds: self.begun.elapsed().as_secs_f64(), put_bytes, returned_bytes, ..last.clone() };
        if let Some(told) = told.filter(|_| self.is_persistent) {
            if let Some(written) = told.written_bytes {
                (sample.written.own, sample.written.statistics) = self.engine(written);
            }
            sample.unflushed_bytes = told.unflushed_bytes.or(sample.unflushed_bytes);
            sample.compaction = told.compaction.clone().map_or(sample.compaction, |done| Some(done).into());
            if let Some(index) = told.index {
                sample.index_checkpoints = Some(index.checkpoints);
                sample.index_checkpoint_bytes = Some(index.checkpoint_written_bytes);
                sample.index_checkpoint_seconds = Some(index.checkpoint_seconds);
            }
        }
        if self.is_elsewhere {
            // Neither this process nor this directory is where its data is.
            (sample.written.process, sample.read.process, sample.cancelled_bytes) = (None, None, None);
            sample.disk_bytes = told.and_then(|told| told.physical_bytes).or(sample.disk_bytes);
        } else {
            let process = self.processes.traffic();
            sample.written.process = process.map(|process| process.written_bytes);
            sample.read.process = process.map(|process| process.read_bytes);
            sample.cancelled_bytes = process.map(|process| process.cancelled_bytes);
            sample.disk_bytes = disk::allocated_bytes(&self.dir).ok().or(sample.disk_bytes);
        }
        if let Some(device) = self.device.as_ref().and_then(Device::traffic) {
            sample.written.device = Some(device.written_bytes);
            sample.read.device = Some(device.read_bytes);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::EngineTarget;

    #[test]
    fn engines_of_biombos_have_counters_of_their_own_and_others_statistics() {
        for (engine, own) in [("log", true), ("micro-lsm-published", true), ("lmdb", false), ("rocksdb", false)] {
            assert_eq!(is_own(engine), own, "{engine}");
        }
    }

    /// Fails if samples are lost at the end of work, or if time goes back between them; samples of a minute would fail it too.
    #[test]
    fn samples_are_taken_while_work_goes_on_and_the_phase_ends_with_the_last() {
        // On a busy machine the first sample may take so long that the rest after it lasts longer than the work.
        let begun = Instant::now();
        while work_with_samples() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no samples");
        }
    }

    /// How many intervals half a second of work has.
    fn work_with_samples() -> usize {
        let dir = tempfile::tempdir().unwrap();
        let target =
            EngineTarget::open(&biombo_engine::memory::kind(), &biombo_engine::OpenOptions::new(dir.path())).unwrap();
        let mut sampler = Sampler::new(dir.path(), Device::of(dir.path()), "memory", false);
        let open = sampler.opened(&target);
        assert!(open.series.is_empty() && open.waf == Ways::default());
        let progress = Progress::new();
        let answer = sampler.beside(&target, &progress, || {
            for _ in 0..25 {
                progress.add_bytes(1_000, 10);
                std::thread::sleep(Duration::from_millis(20));
            }
            7
        });
        let figures = sampler.end(target.counters().ok().as_ref(), (25_000, 250), Some(100));
        assert_eq!((answer, figures.logical_write_bytes, figures.logical_read_bytes), (7, 25_000, 250));
        let series = &figures.series;
        // One every tenth of a second at most, and the last: six, if the work takes no longer than it should.
        assert!(series.len() as f64 <= figures.seconds * 10.0 + 1.0, "{series:?} in {} s", figures.seconds);
        let intervals = series.len();
        assert!(series.at_seconds.is_sorted() && figures.seconds >= 0.5);
        assert_eq!(series.logical_write_bytes.iter().sum::<u64>(), 25_000);
        assert_eq!((&series.write_bytes.own, &series.write_bytes.statistics), (&None, &None), "memory keeps nothing");
        let whole = sampler.finish(open, None, figures);
        assert_eq!((whole.samples >= 1, whole.sampling_seconds > 0.0), (intervals >= 2, intervals >= 2));
        assert!(whole.sampling_seconds < whole.run.seconds);
        intervals
    }

    /// Fails if neighbours are put together too seldom: a run of hours would fill its line of JSON.
    #[test]
    fn a_long_phase_has_few_samples() {
        let mut samples = Vec::new();
        for at in 0..10_000 {
            samples.push(Sample { at_seconds: f64::from(at), ..Sample::default() });
            if samples.len() >= SAMPLES_MAX {
                samples = thinned(samples);
                assert_eq!(samples.last().map(|sample| sample.at_seconds), Some(f64::from(at)), "the last one stays");
            }
        }
        assert!(samples.len() < SAMPLES_MAX);
    }
}
