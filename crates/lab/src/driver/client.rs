//! One client thread of a run phase.

use std::sync::atomic::{AtomicU32, Ordering};

use biombo_base::{ErrorKind, Result};
use biombo_engine::Batch;

use super::clock::RunClock;
use super::pace::{Pace, wait_until};
use super::run::{RunPhase, Settings, Until};
use super::slowed::Slowed;
use super::source::{Names, Request, Source, Supply};
use super::timeline::Ticks;
use super::{Latencies, Progress};
use crate::target::{Target, Walk};
use crate::turns::{Gate, Player};
use crate::workload::{Keys, OpKind, Random, Values};

/// How often a client tells what it put and was given; seldom enough to cost nothing, and often beside what watches it.
const TELL_EVERY_NS: u64 = 10_000_000;

/// What the clients of one run share.
pub(super) struct Shared<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) settings: &'a Settings,
    pub(super) keys: &'a Keys,
    pub(super) values: &'a Values,
    pub(super) progress: &'a Progress,
    pub(super) supply: Supply<'a>,
    /// Where it is slower on purpose.
    pub(super) slowed: Option<Slowed>,
    /// Where clients stand still while another build has its turn.
    pub(super) gate: Option<&'a Gate>,
    // Clients that count and have not ended: what goes on beside them ends with the last one.
    working: AtomicU32,
}

impl<'a> Shared<'a> {
    pub(super) fn new(phase: &RunPhase<'a>) -> Self {
        let RunPhase { target, settings, keys, values, progress, player } = *phase;
        let working = AtomicU32::new(settings.threads);
        let supply = Supply::new(target, settings, keys);
        Self { target, settings, keys, values, progress, supply, slowed: None, gate: player.map(Player::gate), working }
    }
}

/// One thread's work and what came of it.
pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    source: Source,
    random: Random,
    thread: u32,
    /// Whether it works beside the others: as long as they do, uncounted.
    pub(super) beside: bool,
    names: Names,
    batch: Batch,
    buffer: Vec<u8>,
    walk: Option<Box<dyn Walk>>,
    pub(super) latencies: Latencies,
    pub(super) ticks: Ticks,
    pub(super) operations: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) written: u64,
    /// Bytes that reads returned.
    pub(super) returned: u64,
    pub(super) ended_ns: u64,
    /// What of both the watcher knows, and when it is told again.
    told: (u64, u64),
    tell_ns: u64,
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
    pub(super) fn new(shared: &'a Shared<'a>, thread: u32) -> Result<Self> {
        let settings = shared.settings;
        let beside = thread >= settings.threads;
        Ok(Self {
            shared,
            source: Source::new(settings, &shared.supply, thread, beside)?,
            random: Random::new(settings.seed, u64::from(u32::MAX) * 2 + u64::from(thread)),
            thread,
            beside,
            names: Names { key: Vec::with_capacity(shared.keys.bytes()), group: Vec::new() },
            batch: Batch::new(),
            buffer: Vec::with_capacity(shared.values.bytes() + shared.keys.bytes()),
            walk: None,
            latencies: Latencies::new(settings.task.kinds()),
            ticks: Ticks::new(),
            operations: 0,
            errors: 0,
            first_error: None,
            written: 0,
            returned: 0,
            ended_ns: 0,
            told: (0, 0),
            tell_ns: 0,
        })
    }

    pub(super) fn work(&mut self, clock: &RunClock) -> Result<()> {
        let Shared { settings, progress, working, supply, gate, .. } = self.shared;
        // One of its own: each stands still for itself.
        let (mut clock, mut slowed) = (clock.clone(), self.shared.slowed);
        let _working = Working((!self.beside).then_some(working));
        let threads = u64::from(settings.threads);
        let (count, deadline_ns) = match settings.until {
            _ if self.beside => (u64::MAX, u64::MAX),
            Until::Once => (u64::MAX, u64::MAX),
            Until::Operations(all) => (all / threads + u64::from(u64::from(self.thread) < all % threads), u64::MAX),
            Until::Seconds(seconds) => (u64::MAX, (seconds * 1e9) as u64),
        };
        let mut pace = Pace::new(settings.rate.filter(|_| !self.beside), self.thread, settings.threads);
        while self.operations < count {
            if let Some(gate) = gate {
                gate.pass(&mut clock);
            }
            // Its time ends before the schedule wants anything more: what is left of it belongs to the run all the same.
            if pace.is_over(deadline_ns) {
                wait_until(&mut clock, *gate, deadline_ns);
                self.ended_ns = self.ended_ns.max(deadline_ns);
                break;
            }
            let at_ns = pace.next_ns(self.ended_ns);
            let Some(request) = self.source.next(settings, supply, at_ns, &mut self.names)? else { break };
            if request.kind == OpKind::Batch {
                self.gather();
            }
            let began_ns = pace.begin(&mut clock, *gate);
            let outcome = self.issue(request);
            self.ended_ns = match &mut slowed {
                None => clock.now_ns(),
                // In an open loop an operation begins at its time, or when the one before is done.
                Some(slowed) if settings.rate.is_some() => slowed.end_ns(&clock, began_ns.max(self.ended_ns)),
                Some(slowed) => slowed.end_ns(&clock, self.ended_ns),
            };
            supply.acknowledge(request);
            let latency_ns = self.ended_ns.saturating_sub(began_ns);
            self.latencies.record(request.kind, latency_ns);
            self.operations += 1;
            match outcome {
                Ok(true) => {}
                outcome => self.failed(request, outcome)?,
            }
            if self.ended_ns >= self.tell_ns {
                self.tell();
            }
            if self.beside {
                if working.load(Ordering::Relaxed) == 0 || progress.stopped() {
                    self.tell();
                    return Ok(());
                }
                continue;
            }
            self.ticks.tick(self.ended_ns, latency_ns);
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
        self.tell();
        Ok(())
    }

    /// Tell the watcher what was put and returned since the last time.
    fn tell(&mut self) {
        self.shared.progress.add_bytes(self.written - self.told.0, self.returned - self.told.1);
        self.told = (self.written, self.returned);
        self.tell_ns = self.ended_ns + TELL_EVERY_NS;
    }

    /// `Ok(false)`: it went through and did not give what is there.
    #[inline]
    fn issue(&mut self, request: Request) -> Result<bool> {
        let check = self.shared.settings.check;
        match request.kind {
            OpKind::Read if matches!(self.source, Source::Order) => self.walk(),
            OpKind::Read => self.read(),
            OpKind::Update | OpKind::Insert => self.put().map(|()| true),
            OpKind::Scan => {
                let count = self.shared.target.scan(&self.names.key, request.scan_records, &mut self.buffer)?;
                // The keys of a scan are as long as the one that it begins at.
                self.returned += u64::from(count) * (self.names.key.len() + self.shared.values.bytes()) as u64;
                // The start exists: an empty answer is wrong.
                Ok(count > 0 || !check)
            }
            OpKind::ReadModifyWrite => {
                let found = self.read()?;
                self.put().map(|()| found)
            }
            OpKind::MultiGet => {
                let found = self.shared.target.read_group(&self.names.group, &mut self.buffer)? as usize;
                let wanted = self.names.group.len();
                self.returned += self.buffer.len() as u64;
                Ok(!check || (found == wanted && self.buffer.len() == wanted * self.shared.values.bytes()))
            }
            OpKind::Batch => {
                self.shared.target.write_group(&self.batch)?;
                let record = self.shared.keys.bytes() + self.shared.values.bytes();
                self.written += (self.names.group.len() * record) as u64;
                Ok(true)
            }
        }
    }

    #[inline]
    fn read(&mut self) -> Result<bool> {
        let found = self.shared.target.read(&self.names.key, &mut self.buffer)?;
        if found {
            self.returned += self.buffer.len() as u64;
        }
        Ok(!self.shared.settings.check || (found && self.buffer.len() == self.shared.values.bytes()))
    }

    /// The next record in order; from the first one again after the last. A walk is begun within the time of its first record.
    #[inline]
    fn walk(&mut self) -> Result<bool> {
        for _ in 0..2 {
            let here = match &mut self.walk {
                Some(here) => here,
                None => self.walk.insert(self.shared.target.walk()?),
            };
            if here.next(&mut self.buffer)? {
                self.returned += self.buffer.len() as u64;
                let bytes = self.shared.keys.bytes() + self.shared.values.bytes();
                return Ok(!self.shared.settings.check || self.buffer.len() == bytes);
            }
            self.walk = None;
        }
        // Nothing is there at all.
        Ok(!self.shared.settings.check)
    }

    #[inline]
    fn put(&mut self) -> Result<()> {
        let value = self.shared.values.next(&mut self.random);
        self.shared.target.put(&self.names.key, value)?;
        self.written += (self.names.key.len() + value.len()) as u64;
        Ok(())
    }

    /// Put a new value for each key of the group into the batch: an application has its batch when it writes it.
    #[inline]
    fn gather(&mut self) {
        self.batch.clear();
        for key in &self.names.group {
            self.batch.put(key, self.shared.values.next(&mut self.random));
        }
    }

    #[cold]
    fn failed(&mut self, request: Request, outcome: Result<bool>) -> Result<()> {
        self.errors += 1;
        let what = format!("{} of {} {}", request.kind.name(), self.source.noun(request.kind), request.number);
        let message = match outcome {
            Ok(_) => format!("{what}: the record is missing or has a wrong length"),
            Err(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Corruption | ErrorKind::Io => {
                    format!("{what}: {error}")
                }
                _ => return Err(error),
            },
        };
        self.first_error.get_or_insert(message);
        Ok(())
    }
}
