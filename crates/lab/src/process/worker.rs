//! The worker: one run in a process of its own, so that memory, bytes written and a crash are one engine's.

use std::io::{Read, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use biombo_base::{Error, Result};
use biombo_engine::{Registry, Stats};

use super::protocol::Event;
use crate::amplification::{Sampler, live_bytes};
use crate::driver::{self, Loaded, Progress, Ran, RunClock, RunPhase, Settings};
use crate::measure::{Device, Host, MemoryLimit, Place, disk, process, random_reads_per_s};
use crate::record::{CompactionFigures, Latency, Load, Record, WafBy};
use crate::spec::RunSpec;
use crate::target::Moved;
use crate::turns::Player;
use crate::workload::{Shift, Task, Values};

/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The worker's whole life: read a [`RunSpec`] as JSON from `input`, do it, write [`Event`]s as JSON lines to `output`.
///
/// An error is written as an event and returned. When nobody reads `output` any more, the run is given up.
pub fn main(registry: &Registry, mut input: impl Read, output: impl Write + Send) -> Result<()> {
    // A parent that was killed can end nobody. Where the kernel refuses, the first line that nobody reads ends the run.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let output = Output(Mutex::new(output));
    let outcome = (|| {
        let mut text = String::new();
        input.read_to_string(&mut text).map_err(|e| Error::io("read the run's description", e))?;
        let spec: RunSpec = serde_json::from_str(&text)
            .map_err(|e| Error::invalid(format!("standard input is no description of a run: {e}")))?;
        run(registry, &spec, &output)
    })();
    match outcome {
        Ok(record) => output.send(&Event::Result { record: Box::new(record) }),
        Err(error) => {
            // Whoever started this may be gone: the error itself matters more.
            let _ = output.send(&Event::Error { message: error.to_string() });
            Err(error)
        }
    }
}

fn run<W: Write + Send>(registry: &Registry, spec: &RunSpec, output: &Output<W>) -> Result<Record> {
    let kind = registry.get(&spec.engine)?;
    let keys = spec.keys()?;
    let values = Values::new(spec.value_bytes, spec.compression_ratio, spec.seed);
    let waits = |waiting| {
        // Where nobody listens the next line that somebody has to hear ends the run.
        let _ = output.send(&Event::Waiting { waiting });
    };
    let player = Player::sit_down(&waits)?;
    // What two builds wrote to a device is neither's.
    let device = Device::of(&spec.dir).filter(|_| player.is_none());
    let limit = spec.memory_bytes.map(MemoryLimit::enter).transpose()?;

    output.phase("open", None, None)?;
    disk::settle(&spec.dir)?;
    let process_before = process::traffic().map(|traffic| traffic.written_bytes);
    let device_before = device_written(&device);
    let mut sampler = Sampler::new(&spec.dir, device.clone(), &spec.engine, (kind.capabilities)().persistent);
    let target = crate::target::open(registry, spec, &keys)?;
    let opened = sampler.opened(target.as_ref());

    let mut loaded = Loaded::default();
    let recorded = !spec.traces.is_empty();
    if spec.loads() {
        output.phase("load", (!recorded).then_some(spec.records), None)?;
        let (target, threads, seed) = (target.as_ref(), spec.threads, spec.seed);
        let load = |progress: &Progress| {
            if recorded {
                driver::load_trace(target, &spec.traces, &values, threads, seed, progress)
            } else {
                driver::load(target, &keys, &values, spec.records, threads, seed, progress)
            }
        };
        loaded = output.watched(|progress| sampler.beside(target, progress, || load(progress)))?;
    }
    let mut beside_bytes = process::rss_bytes_below();
    output.phase("settle", None, None)?;
    disk::settle(&spec.dir)?;
    target.written_back();
    let load = spec.loads().then(|| {
        let told = target.counters().ok();
        let live_bytes = live_bytes(spec, told.as_ref(), &loaded, None);
        sampler.end(told.as_ref(), (loaded.bytes, 0), live_bytes)
    });

    output.phase("run", spec.seconds.is_none().then_some(spec.operations), spec.seconds)?;
    let settings = Settings {
        task: spec.task,
        records: spec.records,
        inserts: spec.inserts(),
        threads: spec.threads,
        until: spec.until(),
        rate: spec.rate,
        seed: spec.seed,
        // A trace over an empty store reads what is not there.
        check: spec.engine != crate::null::NAME && (!recorded || spec.preload),
        traces: spec.traces.clone(),
    };
    let ran = output.watched(|progress| {
        let (target, player) = (target.as_ref(), player.as_ref());
        let phase = RunPhase { target, settings: &settings, keys: &keys, values: &values, progress, player };
        let ran = sampler.beside(target, progress, || driver::run_phase(&phase, &RunClock::start()))?;
        if progress.stopped() { Err(Error::invalid("the run was given up")) } else { Ok(ran) }
    })?;

    beside_bytes = beside_bytes.max(process::rss_bytes_below());

    output.phase("close", None, None)?;
    target.flush()?;
    let stats = target.stats()?;
    let moved = target.moved()?;
    target.close()?;
    disk::settle(&spec.dir)?;
    // What is still to be written was put in this run: without it a short one would flatter who writes late.
    let unflushed = stats.unflushed_bytes.unwrap_or(0);
    let written = Written {
        engine: stats.written_bytes.map(|bytes| bytes + unflushed),
        // What a server of somebody else's writes, the kernel counts for that one.
        process: difference(process::traffic().map(|traffic| traffic.written_bytes), process_before)
            .filter(|_| !stats.elsewhere),
        device: difference(device_written(&device), device_before),
        // Who writes it on closing has it in the other counters by now.
        left: if stats.leaves_unflushed { unflushed } else { 0 },
    };
    let disk_bytes = match stats.physical_bytes {
        Some(bytes) if stats.elsewhere => bytes,
        _ => disk::allocated_bytes(&spec.dir)?,
    };
    let live_bytes = live_bytes(spec, Some(&stats), &loaded, Some(&ran));
    let run = sampler.end(Some(&stats), (ran.logical_write_bytes, ran.logical_read_bytes), live_bytes);
    let mut amplification = sampler.finish(opened, load, run);
    if player.is_some() {
        // Its clock went on while the other build had its turns.
        amplification.run.seconds = ran.seconds;
        amplification.run.series = Default::default();
    }
    let elsewhere = stats.elsewhere;
    let mut record = record(spec, (kind.version)(), &loaded, ran, (stats, moved), written, disk_bytes);
    // A server of the engine's own has ended by now: it counts with what it had after the load and after the run.
    record.rss_bytes_max += beside_bytes;
    record.read_amplification = amplification.read_amplification();
    record.space_amplification = amplification.run.space_amplification;
    record.amplification = Some(amplification);
    record.cpu_seconds = process::cpu_seconds().filter(|_| !elsewhere);
    drop(limit);
    if spec.io.is_some() || spec.memory_bytes.is_some() {
        output.phase("device", None, None)?;
        record.device_random_reads_per_s = random_reads_per_s(&spec.dir, spec.threads)?;
    }
    Ok(record)
}

/// Bytes written to storage in the whole run, by each counter, and what nobody but the engine itself has counted: it was put, and closing
/// left it unwritten.
#[derive(Clone, Copy)]
struct Written {
    engine: Option<u64>,
    process: Option<u64>,
    device: Option<u64>,
    left: u64,
}

impl Written {
    /// Write amplification by each counter, what was left unwritten included.
    fn waf_by(self, logical: u64) -> WafBy {
        let by = |bytes: Option<u64>| bytes.filter(|_| logical > 0).map(|bytes| bytes as f64 / logical as f64);
        let with_left = |bytes: Option<u64>| by(bytes.map(|bytes| bytes + self.left));
        WafBy { engine: by(self.engine), process: with_left(self.process), device: with_left(self.device) }
    }
}

/// Bytes that anybody wrote to the device so far.
fn device_written(device: &Option<Device>) -> Option<u64> {
    Some(device.as_ref()?.traffic()?.written_bytes)
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

fn record(
    spec: &RunSpec,
    engine_version: String,
    loaded: &Loaded,
    ran: Ran,
    (stats, moved): (Stats, Moved),
    written: Written,
    disk_bytes: u64,
) -> Record {
    let logical = loaded.bytes + ran.logical_write_bytes;
    let waf_by = written.waf_by(logical);
    // One counter for every engine of a table; the engines' own stand beside it.
    let physical = written.process.or(written.engine);
    let per_second = |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Record {
        bench: spec.task.bench().to_owned(),
        workload: spec.work(),
        engine: spec.engine.clone(),
        partitioning: spec.partitioning.name().to_owned(),
        partitions: spec.partitions,
        executor: spec.executor().name().to_owned(),
        workers: spec.workers,
        threads: spec.threads,
        durability: spec.durability.clone(),
        placement: spec.placement.name().to_owned(),
        cache_bytes: spec.cache_bytes,
        repartition: spec.repartition.clone().unwrap_or_else(|| "off".to_owned()),
        planner: moved.planner,
        records: if spec.traces.is_empty() { spec.records } else { loaded.records },
        operations: ran.operations,
        key_bytes: spec.key_bytes,
        value_bytes: spec.value_bytes,
        repetition: spec.repetition,
        seconds: ran.seconds,
        ops_per_s: ran.ops_per_s,
        latency_ns: ran
            .latencies
            .iter()
            .map(|(kind, histogram)| (kind.name().to_owned(), Latency::of(histogram)))
            .collect(),
        errors: ran.errors,
        rss_bytes_max: process::rss_bytes_max().unwrap_or(0),
        disk_bytes,
        logical_write_bytes: logical,
        physical_write_bytes: physical.unwrap_or(0),
        unflushed_write_bytes: written.left,
        waf: waf_by.process.or(waf_by.engine),
        waf_by,
        load: Load { seconds: loaded.seconds, ops_per_s: per_second(loaded.records, loaded.seconds) },
        moves: moved.moves,
        compaction: CompactionFigures::from(stats.compaction).with(stats.compaction_tail),
        host: Host::here(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        distribution: spec.task.distribution().to_owned(),
        compression_ratio: spec.compression_ratio,
        rate: spec.rate,
        seed: spec.seed,
        shift: match spec.task {
            Task::Shift { shift } => Some(Shift { hot_records: Some(shift.hot(spec.records)), ..shift.effective() }),
            _ => None,
        },
        traces: spec.traces.clone(),
        io: spec.io.clone(),
        memory_bytes: spec.memory_bytes,
        cpu_seconds: None,
        device_random_reads_per_s: None,
        read_amplification: None,
        space_amplification: None,
        amplification: None,
        until: Some(spec.until()),
        places: [&spec.dir].into_iter().chain(&spec.dirs).map(|dir| Place::of(dir)).collect(),
        ended: None,
        first_error: ran.first_error,
        timeline: ran.timeline,
        engine_version,
        engine_options: stats.options,
    }
}

struct Output<W>(Mutex<W>);

impl<W: Write + Send> Output<W> {
    fn send(&self, event: &Event) -> Result<()> {
        let mut line =
            serde_json::to_string(event).map_err(|e| Error::invalid(format!("cannot write a result: {e}")))?;
        line.push('\n');
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output
            .write_all(line.as_bytes())
            .and_then(|()| output.flush())
            .map_err(|e| Error::io("report to the process that started this run", e))
    }

    fn phase(&self, phase: &str, operations: Option<u64>, seconds: Option<f64>) -> Result<()> {
        self.send(&Event::Phase { phase: phase.to_owned(), operations, seconds })
    }

    /// Do `work` and report its progress meanwhile.
    fn watched<T>(&self, work: impl FnOnce(&Progress) -> Result<T>) -> Result<T> {
        let progress = Progress::new();
        let (done, watch) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let watch = watch;
                while watch.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if self.send(&Event::Progress { done: progress.done() }).is_err() {
                        progress.stop();
                    }
                }
            });
            let result = work(&progress);
            drop(done);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, an LSM-tree whose memtable holds all of a short run would write each byte once, into its log.
    #[test]
    fn what_closing_leaves_unwritten_counts_with_every_counter_once() {
        let written = Written { engine: Some(300), process: Some(210), device: None, left: 90 };
        assert_eq!(written.waf_by(100), WafBy { engine: Some(3.0), process: Some(3.0), device: None });
        assert_eq!(written.waf_by(0), WafBy::default());
    }
}
