//! Amplification: what storage had to read, to write and to keep for what clients asked for, phase by phase and while each goes on.
//!
//! - **Write amplification** (WAF): bytes written by bytes of keys and values put. Four ways of counting stand side by side ([`Ways`]): no
//!   single one is right for every engine, and where two disagree, that is a finding.
//! - **Read amplification**: bytes read from storage by bytes that reads returned: the values of gets, keys and values of scans. Below 1
//!   where caches answer. What the kernel reads ahead and nobody asks for counts.
//! - **Space amplification**: bytes allocated to the store's files by bytes of live keys and values.
//!
//! The phases are told apart: what a run of reads does is not shown by what loading wrote. Opening, with the making of a server's
//! data, is a phase of its own; loading ends when all of it is on the device; the run ends after closing.
//!
//! Invariants:
//! 1. Counters are cumulative. The increments of a series are never negative and add up to the phase's figure.
//! 2. What an engine has still to write for what was put belongs to the phase in which it was put ([`Series::waf`] and
//!    [`PhaseFigures::waf`] by `own` and by `statistics`): a short run does not flatter who writes late.
//! 3. A counter that cannot be had is `None` throughout, never 0.

mod arithmetic;
mod live;
mod sampler;
mod shown;

use serde::{Deserialize, Serialize};

pub(crate) use live::live_bytes;
pub(crate) use sampler::Sampler;
pub(crate) use shown::{OF_PHASES, OF_WHOLE, Waf, note, star_says};

use crate::record::CompactionFigures;

/// A figure for each way of counting bytes written; `null` where it cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Ways<T> {
    /// By the counters of an engine that Biombo wrote.
    pub own: Option<T>,
    /// By the statistics of an engine that others wrote.
    pub statistics: Option<T>,
    /// By the kernel's counters for the process and those that it started.
    pub process: Option<T>,
    /// By the block device's counters: everything that anybody wrote to it meanwhile.
    pub device: Option<T>,
}

impl<T> Ways<T> {
    /// All four, in the order in which they are shown.
    pub fn each(&self) -> [Option<&T>; 4] {
        [self.own.as_ref(), self.statistics.as_ref(), self.process.as_ref(), self.device.as_ref()]
    }

    /// What `of` makes of the counter in each of the places.
    fn by(mut of: impl FnMut(fn(&Ways<u64>) -> Option<u64>) -> Option<T>) -> Self {
        Self {
            own: of(|ways| ways.own),
            statistics: of(|ways| ways.statistics),
            process: of(|ways| ways.process),
            device: of(|ways| ways.device),
        }
    }
}

/// A figure for each way of counting bytes read; `null` where it cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sides<T> {
    /// By the kernel's counters for the process and those that it started.
    pub process: Option<T>,
    /// By the block device's counters.
    pub device: Option<T>,
}

/// What one phase read, wrote and kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseFigures {
    /// From the phase's beginning to its end, with making all of it durable; the run's with closing, but of a run by turns
    /// ([`turns`](crate::turns)) that of its turns alone.
    pub seconds: f64,
    /// Bytes of keys and values put.
    pub logical_write_bytes: u64,
    /// Bytes that reads returned.
    pub logical_read_bytes: u64,
    /// Bytes written.
    pub write_bytes: Ways<u64>,
    /// Bytes that `write_bytes.process` does not have, although they were handed to the kernel: their files were removed, or cut, before it wrote
    /// them. `null` where the kernel does not tell, and in lines from before it was asked.
    #[serde(default)]
    pub cancelled_write_bytes: Option<u64>,
    /// Bytes that the engine had still to write at the end for what was put, where it tells that.
    pub unflushed_bytes: Option<u64>,
    /// Write amplification; `null` also where nothing was put. `own` and `statistics` count what was still to be written at the end, less what
    /// was at the beginning.
    pub waf: Ways<f64>,
    /// Bytes read from storage.
    pub read_bytes: Sides<u64>,
    /// Read amplification; `null` also where no read returned anything.
    pub read_amplification: Sides<f64>,
    /// Bytes allocated to the store's files at the end.
    pub disk_bytes: Option<u64>,
    /// Bytes of live keys and values at the end: by the engine, or by what the driver knows of the keys.
    pub live_bytes: Option<u64>,
    /// The one by the other.
    pub space_amplification: Option<f64>,
    /// Compactions, checkpoints or cleanings that ended in this phase: how many, their time, their bytes. Engines tell the quantiles of
    /// their times for the whole run alone.
    pub compaction: CompactionFigures,
    /// Checkpoints of an index in memory that were written, where the engine keeps one.
    pub index_checkpoints: Option<u64>,
    /// Bytes that they wrote.
    #[serde(default)]
    pub index_checkpoint_bytes: Option<u64>,
    /// The time of their work together.
    #[serde(default)]
    pub index_checkpoint_seconds: Option<f64>,
    /// The phase while it went on; empty for opening.
    pub series: Series,
}

impl PhaseFigures {
    /// Write amplification by the engine's own word, what it owes included.
    pub fn waf_by_engine(&self) -> Option<f64> {
        self.waf.own.or(self.waf.statistics)
    }
}

/// A phase in intervals. All columns that are there have the length of `at_seconds`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// When each interval ended, in seconds since the phase began. The last one ends with the phase.
    pub at_seconds: Vec<f64>,
    /// Bytes of keys and values put in each interval.
    pub logical_write_bytes: Vec<u64>,
    /// Bytes that reads returned.
    pub logical_read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Ways<Vec<u64>>,
    /// Bytes read from storage.
    pub read_bytes: Sides<Vec<u64>>,
    /// Bytes that the engine had still to write, at the end of each interval.
    pub unflushed_bytes: Option<Vec<u64>>,
    /// Bytes allocated to the store's files, at the end of each interval.
    pub disk_bytes: Option<Vec<u64>>,
    /// Compactions, checkpoints or cleanings that ended.
    pub compactions: Option<Vec<u64>>,
    /// Bytes that they wrote.
    pub compaction_bytes: Option<Vec<u64>>,
    /// Write amplification from the beginning of the phase to the end of each interval, `own` and `statistics` with what is still to be written
    /// then; `null` while nothing was put.
    pub waf: Ways<Vec<Option<f64>>>,
}

/// The phases of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Amplification {
    /// Seconds that taking samples took beside the clients of load and run, together: at most a hundredth of those phases.
    pub sampling_seconds: f64,
    /// How many were taken there; neighbours may have been put together since.
    pub samples: u64,
    /// Opening an empty store.
    pub open: PhaseFigures,
    /// Loading; `null` where the run began with an empty store.
    pub load: Option<PhaseFigures>,
    /// The run, with closing.
    pub run: PhaseFigures,
}

impl Amplification {
    /// The phases that put or read something, by name.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, &PhaseFigures)> {
        self.load.iter().map(|load| ("load", load)).chain([("run", &self.run)])
    }

    /// Write amplification of the run alone by the kernel or by the device, as if each phase had written what was put in it: what the engine owed
    /// when the run began is taken off, and what closing `left` for the next opening comes on top. `None` where nothing was put.
    pub fn waf_of_run(&self, way: impl Fn(&Ways<u64>) -> Option<u64>, left: u64) -> Option<f64> {
        let before = self.load.as_ref().unwrap_or(&self.open).unflushed_bytes.unwrap_or(0);
        let written = (way(&self.run.write_bytes)? + left).saturating_sub(before);
        (self.run.logical_write_bytes > 0).then(|| written as f64 / self.run.logical_write_bytes as f64)
    }

    /// The same of loading alone: with what the engine owed at its end, without what it owed when it had been opened.
    pub fn waf_of_load(&self, way: impl Fn(&Ways<u64>) -> Option<u64>) -> Option<f64> {
        let load = self.load.as_ref()?;
        let before = self.open.unflushed_bytes.unwrap_or(0);
        let written = (way(&load.write_bytes)? + load.unflushed_bytes.unwrap_or(0)).saturating_sub(before);
        (load.logical_write_bytes > 0).then(|| written as f64 / load.logical_write_bytes as f64)
    }

    /// The run's read amplification: by the process, by the device where the process is not known.
    pub fn read_amplification(&self) -> Option<f64> {
        let Sides { process, device } = self.run.read_amplification;
        process.or(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the run pays for what loading left in memory, if what closing leaves in a log counts for nobody, or if a run of reads has a figure.
    #[test]
    fn a_run_pays_for_what_was_put_in_it_and_for_nothing_else() {
        let phase = |written, put, unflushed_bytes| PhaseFigures {
            write_bytes: Ways { process: written, ..Ways::default() },
            logical_write_bytes: put,
            unflushed_bytes,
            ..PhaseFigures::default()
        };
        let of = |load: Option<PhaseFigures>, run| Amplification {
            open: phase(Some(40_000), 0, Some(7)),
            load,
            run,
            ..Amplification::default()
        };
        let load = || Some(phase(Some(9_000), 5_000, Some(300)));
        let by_kernel = |told: &Amplification, left| told.waf_of_run(|ways| ways.process, left);
        assert_eq!(by_kernel(&of(load(), phase(Some(1_300), 500, None)), 0), Some(2.0));
        let told = of(load(), phase(None, 0, None));
        assert_eq!(
            told.waf_of_load(|ways| ways.process),
            Some(9_293.0 / 5_000.0),
            "what it owes then, less what opening owed"
        );
        assert_eq!(of(None, phase(None, 0, None)).waf_of_load(|ways| ways.process), None);
        assert_eq!(by_kernel(&of(load(), phase(Some(1_300), 500, Some(100))), 100), Some(2.2));
        assert_eq!(by_kernel(&of(None, phase(Some(1_007), 500, None)), 0), Some(2.0));
        assert_eq!(by_kernel(&of(load(), phase(Some(1_300), 0, None)), 0), None, "it put nothing");
        assert_eq!(by_kernel(&of(load(), phase(None, 500, None)), 0), None, "the kernel does not tell");
        assert_eq!(by_kernel(&of(load(), phase(Some(200), 500, None)), 0), Some(0.0));
    }
}
