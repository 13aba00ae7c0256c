//! The run phase: T client threads issue their streams of operations, each waiting for its answer.

use std::sync::{Barrier, OnceLock};
use std::time::Instant;

use biombo_base::{Error, ErrorKind, Result};

use super::pace::Pace;
use super::timeline::Ticks;
use super::{Latencies, Progress, Timeline};
use crate::target::Target;
use crate::workload::{Distribution, Inserts, Keys, OpKind, Random, Stream, Values, Workload};

/// When a run phase ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// After this many operations of all threads together.
    Operations(u64),
    /// After this many seconds.
    Seconds(f64),
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The mix.
    pub workload: Workload,
    /// How records are chosen.
    pub distribution: Distribution,
    /// Records loaded.
    pub records: u64,
    /// Inserts to expect, for the zipfian space of workloads that insert.
    pub inserts: u64,
    /// Client threads.
    pub threads: u32,
    /// When to end.
    pub until: Until,
    /// Open loop at this many operations per second together; `None`: closed loop.
    pub rate: Option<f64>,
    /// Makes the run reproducible.
    pub seed: u64,
    /// Check that every value read has the length put (not for engines that keep nothing).
    pub check: bool,
}

/// What a run phase gave.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Operations finished.
    pub operations: u64,
    /// From the common beginning to the last thread's end.
    pub seconds: f64,
    /// Latencies by kind of operation; from the intended beginning in an open loop.
    pub latencies: Latencies,
    /// Throughput over time.
    pub timeline: Timeline,
    /// Operations that failed, or did not find the record that exists.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Bytes of keys and values put.
    pub logical_write_bytes: u64,
}

/// Run `settings` over `target`, in which the records `0..settings.records` were loaded.
///
/// Errors of single operations are counted; one after which all others would fail too (a full disk, a poisoned store, an
/// unsupported operation) ends the run and is returned.
pub fn run(target: &dyn Target, settings: &Settings, keys: &Keys, values: &Values, progress: &Progress) -> Result<Ran> {
    let inserts = Inserts::new(settings.records);
    let ready = Barrier::new(settings.threads as usize + 1);
    let go = Barrier::new(settings.threads as usize + 1);
    let origin = OnceLock::new();
    let clients: Result<Vec<Client<'_>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..settings.threads)
            .map(|thread| {
                let (ready, go, origin, inserts) = (&ready, &go, &origin, &inserts);
                scope.spawn(move || {
                    let mut client = Client::new(target, settings, keys, values, inserts, thread);
                    ready.wait();
                    go.wait();
                    let origin = *origin.get_or_init(Instant::now);
                    client.work(origin, progress).map(|()| client)
                })
            })
            .collect();
        ready.wait();
        origin.get_or_init(Instant::now);
        go.wait();
        // Join all before looking at any: the scope would wait for them anyway.
        let joined: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        joined
            .into_iter()
            .map(|client| {
                client.unwrap_or_else(|_| Err(Error::invalid("a client thread panicked: see its message above")))
            })
            .collect()
    });
    let clients = clients?;
    let mut latencies = Latencies::new(settings.workload.mix().iter().map(|(kind, _)| *kind));
    clients.iter().for_each(|client| latencies.merge(&client.latencies));
    Ok(Ran {
        operations: clients.iter().map(|client| client.operations).sum(),
        seconds: clients.iter().map(|client| client.ended_ns).max().unwrap_or(0) as f64 / 1e9,
        latencies,
        errors: clients.iter().map(|client| client.errors).sum(),
        first_error: clients.iter().find_map(|client| client.first_error.clone()),
        logical_write_bytes: clients.iter().map(|client| client.written).sum(),
        timeline: Timeline::merge(clients.into_iter().map(|client| client.ticks.finish())),
    })
}

/// One client thread.
struct Client<'a> {
    target: &'a dyn Target,
    settings: &'a Settings,
    keys: &'a Keys,
    values: &'a Values,
    inserts: &'a Inserts,
    thread: u32,
    stream: Stream,
    random: Random,
    key: Vec<u8>,
    buffer: Vec<u8>,
    latencies: Latencies,
    ticks: Ticks,
    operations: u64,
    errors: u64,
    first_error: Option<String>,
    written: u64,
    ended_ns: u64,
}

impl<'a> Client<'a> {
    fn new(
        target: &'a dyn Target,
        settings: &'a Settings,
        keys: &'a Keys,
        values: &'a Values,
        inserts: &'a Inserts,
        thread: u32,
    ) -> Self {
        Self {
            target,
            settings,
            keys,
            values,
            inserts,
            thread,
            stream: Stream::new(
                settings.workload,
                settings.distribution,
                settings.records,
                settings.inserts,
                settings.seed,
                thread,
            ),
            random: Random::new(settings.seed, u64::from(u32::MAX) * 2 + u64::from(thread)),
            key: Vec::with_capacity(keys.bytes()),
            buffer: Vec::with_capacity(values.bytes() + keys.bytes()),
            latencies: Latencies::new(settings.workload.mix().iter().map(|(kind, _)| *kind)),
            ticks: Ticks::new(),
            operations: 0,
            errors: 0,
            first_error: None,
            written: 0,
            ended_ns: 0,
        }
    }

    fn work(&mut self, origin: Instant, progress: &Progress) -> Result<()> {
        let threads = u64::from(self.settings.threads);
        let (count, deadline_ns) = match self.settings.until {
            Until::Operations(all) => (all / threads + u64::from(u64::from(self.thread) < all % threads), u64::MAX),
            Until::Seconds(seconds) => (u64::MAX, (seconds * 1e9) as u64),
        };
        let mut pace = Pace::new(self.settings.rate, origin, self.thread, self.settings.threads);
        while self.operations < count {
            let operation = self.stream.next(self.inserts);
            let number = match operation.kind {
                OpKind::Insert => self.inserts.begin(),
                _ => self.stream.resolve(operation, self.inserts),
            };
            self.keys.write(number, &mut self.key);
            let began = pace.begin();
            let outcome = self.issue(operation.kind, operation.scan_records);
            let ended = Instant::now();
            if operation.kind == OpKind::Insert {
                self.inserts.acknowledge(number);
            }
            self.latencies.record(operation.kind, (ended - began).as_nanos() as u64);
            self.ended_ns = (ended - origin).as_nanos() as u64;
            self.ticks.tick(self.ended_ns);
            self.operations += 1;
            match outcome {
                Ok(true) => {}
                outcome => self.failed(operation.kind, number, outcome, progress)?,
            }
            if self.operations.is_multiple_of(64) {
                progress.add(64);
                if progress.stopped() {
                    break;
                }
            }
            if self.ended_ns >= deadline_ns {
                break;
            }
        }
        progress.add(self.operations % 64);
        Ok(())
    }

    /// `Ok(false)`: it went through and did not give what is there.
    #[inline]
    fn issue(&mut self, kind: OpKind, scan_records: u32) -> Result<bool> {
        match kind {
            OpKind::Read => self.read(),
            OpKind::Update | OpKind::Insert => self.put().map(|()| true),
            OpKind::Scan => {
                let count = self.target.scan(&self.key, scan_records, &mut self.buffer)?;
                // The start exists: an empty answer is wrong.
                Ok(count > 0 || !self.settings.check)
            }
            OpKind::ReadModifyWrite => {
                let found = self.read()?;
                self.put().map(|()| found)
            }
        }
    }

    #[inline]
    fn read(&mut self) -> Result<bool> {
        let found = self.target.read(&self.key, &mut self.buffer)?;
        Ok(found && (!self.settings.check || self.buffer.len() == self.values.bytes()))
    }

    #[inline]
    fn put(&mut self) -> Result<()> {
        let value = self.values.next(&mut self.random);
        self.target.put(&self.key, value)?;
        self.written += (self.key.len() + value.len()) as u64;
        Ok(())
    }

    #[cold]
    fn failed(&mut self, kind: OpKind, number: u64, outcome: Result<bool>, progress: &Progress) -> Result<()> {
        self.errors += 1;
        let message = match outcome {
            Ok(_) => format!("{} of record {number}: the record is missing or has a wrong length", kind.name()),
            Err(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Corruption | ErrorKind::Io => {
                    format!("{} of record {number}: {error}", kind.name())
                }
                _ => {
                    progress.stop();
                    return Err(error);
                }
            },
        };
        self.first_error.get_or_insert(message);
        Ok(())
    }
}
