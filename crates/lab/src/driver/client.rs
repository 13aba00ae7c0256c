//! One client thread of a run phase.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use biombo_base::{ErrorKind, Result};

use super::clock::RunClock;
use super::pace::Pace;
use super::run::{Settings, Until};
use super::timeline::Ticks;
use super::{Latencies, Progress};
use crate::target::{Target, Walk};
use crate::workload::{Benchmark, Inserts, Keys, Numbers, OpKind, Random, Stream, Task, Values};

/// What the clients of one run share.
pub(super) struct Shared<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) settings: &'a Settings,
    pub(super) keys: &'a Keys,
    pub(super) values: &'a Values,
    pub(super) progress: &'a Progress,
    inserts: Inserts,
    // The next number of a sequence that the clients share.
    turn: AtomicU64,
    // Clients that count and have not ended: what goes on beside them ends with the last one.
    working: AtomicU32,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        target: &'a dyn Target,
        settings: &'a Settings,
        keys: &'a Keys,
        values: &'a Values,
        progress: &'a Progress,
    ) -> Self {
        Self {
            target,
            settings,
            keys,
            values,
            progress,
            inserts: Inserts::new(settings.records),
            turn: AtomicU64::new(0),
            working: AtomicU32::new(settings.threads),
        }
    }
}

/// Where a client's operations come from.
#[expect(clippy::large_enum_variant, reason = "one a thread, and the large one is drawn from at every operation")]
enum Source {
    Core(Stream),
    Keys(OpKind, Numbers),
    Order(Option<Box<dyn Walk>>),
}

/// One thread's work and what came of it.
pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    source: Source,
    random: Random,
    thread: u32,
    /// Whether it works beside the others: as long as they do, uncounted.
    pub(super) beside: bool,
    key: Vec<u8>,
    buffer: Vec<u8>,
    pub(super) latencies: Latencies,
    pub(super) ticks: Ticks,
    pub(super) operations: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) written: u64,
    pub(super) ended_ns: u64,
}

/// Tells the clients beside that one that counts has ended, however it did.
struct Working<'a>(Option<&'a AtomicU32>);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if let Some(working) = self.0 {
            working.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<'a> Client<'a> {
    /// Number `thread`: those from the settings' threads on work beside the others.
    pub(super) fn new(shared: &'a Shared<'a>, thread: u32) -> Self {
        let settings = shared.settings;
        let beside = thread >= settings.threads;
        let source = match settings.task {
            Task::Ycsb { workload, distribution } => Source::Core(Stream::new(
                workload,
                distribution,
                settings.records,
                settings.inserts,
                settings.seed,
                thread,
            )),
            Task::Db { benchmark: Benchmark::ReadSeq } => Source::Order(None),
            Task::Db { benchmark } => {
                let kind = settings.task.beside().filter(|_| beside).unwrap_or(benchmark.kind());
                Source::Keys(kind, Numbers::new(benchmark, settings.seed, thread))
            }
        };
        Self {
            shared,
            source,
            random: Random::new(settings.seed, u64::from(u32::MAX) * 2 + u64::from(thread)),
            thread,
            beside,
            key: Vec::with_capacity(shared.keys.bytes()),
            buffer: Vec::with_capacity(shared.values.bytes() + shared.keys.bytes()),
            latencies: Latencies::new(settings.task.kinds()),
            ticks: Ticks::new(),
            operations: 0,
            errors: 0,
            first_error: None,
            written: 0,
            ended_ns: 0,
        }
    }

    pub(super) fn work(&mut self, clock: &RunClock) -> Result<()> {
        let Shared { settings, progress, working, .. } = self.shared;
        let _working = Working((!self.beside).then_some(working));
        let threads = u64::from(settings.threads);
        let (count, deadline_ns) = match settings.until {
            _ if self.beside => (u64::MAX, u64::MAX),
            Until::Operations(all) => (all / threads + u64::from(u64::from(self.thread) < all % threads), u64::MAX),
            Until::Seconds(seconds) => (u64::MAX, (seconds * 1e9) as u64),
        };
        let mut pace = Pace::new(settings.rate.filter(|_| !self.beside), self.thread, settings.threads);
        while self.operations < count {
            let (kind, number, scan_records) = self.draw();
            self.shared.keys.write(number, &mut self.key);
            let began_ns = pace.begin(clock);
            let outcome = self.issue(kind, scan_records);
            self.ended_ns = clock.now_ns();
            if kind == OpKind::Insert && matches!(self.source, Source::Core(_)) {
                self.shared.inserts.acknowledge(number);
            }
            self.latencies.record(kind, self.ended_ns.saturating_sub(began_ns));
            self.operations += 1;
            match outcome {
                Ok(true) => {}
                outcome => self.failed(kind, number, outcome)?,
            }
            if self.beside {
                if working.load(Ordering::Relaxed) == 0 || progress.stopped() {
                    return Ok(());
                }
                continue;
            }
            self.ticks.tick(self.ended_ns);
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

    /// The next operation: its kind, the record's number, and for a scan how many to read.
    #[inline]
    fn draw(&mut self) -> (OpKind, u64, u32) {
        let Shared { settings, inserts, turn, .. } = self.shared;
        match &mut self.source {
            Source::Core(stream) => {
                let operation = stream.next(inserts);
                let number = match operation.kind {
                    OpKind::Insert => inserts.begin(),
                    _ => stream.resolve(operation, inserts),
                };
                (operation.kind, number, operation.scan_records)
            }
            Source::Keys(kind, numbers) => (*kind, numbers.next(settings.records, turn), 0),
            Source::Order(_) => (OpKind::Read, 0, 0),
        }
    }

    /// `Ok(false)`: it went through and did not give what is there.
    #[inline]
    fn issue(&mut self, kind: OpKind, scan_records: u32) -> Result<bool> {
        match kind {
            OpKind::Read if matches!(self.source, Source::Order(_)) => self.walk(),
            OpKind::Read => self.read(),
            OpKind::Update | OpKind::Insert => self.put().map(|()| true),
            OpKind::Scan => {
                let count = self.shared.target.scan(&self.key, scan_records, &mut self.buffer)?;
                // The start exists: an empty answer is wrong.
                Ok(count > 0 || !self.shared.settings.check)
            }
            OpKind::ReadModifyWrite => {
                let found = self.read()?;
                self.put().map(|()| found)
            }
        }
    }

    #[inline]
    fn read(&mut self) -> Result<bool> {
        let found = self.shared.target.read(&self.key, &mut self.buffer)?;
        Ok(found && (!self.shared.settings.check || self.buffer.len() == self.shared.values.bytes()))
    }

    /// The next record in order; from the first one again after the last. A walk is begun within the time of its first record.
    #[inline]
    fn walk(&mut self) -> Result<bool> {
        let Source::Order(walk) = &mut self.source else { return Ok(false) };
        for _ in 0..2 {
            let here = match walk {
                Some(here) => here,
                None => walk.insert(self.shared.target.walk()?),
            };
            if here.next(&mut self.buffer)? {
                let bytes = self.shared.keys.bytes() + self.shared.values.bytes();
                return Ok(!self.shared.settings.check || self.buffer.len() == bytes);
            }
            *walk = None;
        }
        // Nothing is there at all.
        Ok(!self.shared.settings.check)
    }

    #[inline]
    fn put(&mut self) -> Result<()> {
        let value = self.shared.values.next(&mut self.random);
        self.shared.target.put(&self.key, value)?;
        self.written += (self.key.len() + value.len()) as u64;
        Ok(())
    }

    #[cold]
    fn failed(&mut self, kind: OpKind, number: u64, outcome: Result<bool>) -> Result<()> {
        self.errors += 1;
        let message = match outcome {
            Ok(_) => format!("{} of record {number}: the record is missing or has a wrong length", kind.name()),
            Err(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Corruption | ErrorKind::Io => {
                    format!("{} of record {number}: {error}", kind.name())
                }
                _ => {
                    self.shared.progress.stop();
                    return Err(error);
                }
            },
        };
        self.first_error.get_or_insert(message);
        Ok(())
    }
}
