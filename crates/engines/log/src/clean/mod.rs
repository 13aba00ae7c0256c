//! Cleaning: the space of dead records is given back, by writing what is live in a segment elsewhere.
//!
//! - [`choose`]: whether it is due, and which segments: bounded by `space_amplification`, by cost and benefit.
//! - [`pass`]: the order of the steps, and why a crash between any two of them loses nothing.
//! - [`pace`]: how fast.
//! - [`thread`]: a thread per instance that sleeps until a segment is sealed. Without it, [`Engine::compact`] drives.
//!
//! Survivors go to cold segments, apart from what is appended: hot and cold records do not mix.
//!
//! Invariants:
//!
//! 1. Victims are sealed, durable, and not the last of the log's order.
//! 2. At most one pass is under way (`Cleaner`, behind a lock that is taken before all others).
//! 3. `Full` and other failures to write the copy drop the attempt; the log is as it was, and cleaning is tried again later. A
//!    segment with a damaged record is never cleaned: its other records stay where they are.
//!
//! [`Engine::compact`]: biombo_engine::Engine::compact

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use biombo_base::clock::monotonic_ns;
use biombo_base::{ErrorKind, Result};
use biombo_engine::{Compaction, CompactionTail, Segments};
use biombo_journal::{Durability, Flusher, LogOptions, SegmentInfo, SegmentKind, SegmentNumber};

use crate::engine::{Core, Writer};
use crate::options::LogEngineOptions;
use crate::record::Record;

use choose::{Bound, Candidate, Space};
use pass::{Pass, Stage};

mod choose;
pub(crate) mod pace;
mod pass;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use thread::Cleaning;

/// Passes whose times are kept for the median and the 99th percentile.
const TIMES_MAX: usize = 1024;
/// The journal's header of a segment.
const HEADER_BYTES: u64 = biombo_journal::format::SEGMENT_HEADER_BYTES as u64;

/// What cleans, and what it has done.
pub(crate) struct Cleaner {
    amplification: f64,
    log: LogOptions,
    flusher: Flusher,
    pub(crate) pass: Option<Pass>,
    /// Damaged: not cleaned.
    spoiled: HashSet<SegmentNumber>,
    count: u64,
    bytes: u64,
    busy_ns: u64,
    /// Of the pass under way.
    pass_ns: u64,
    times: Vec<u64>,
    /// Of all passes.
    slowest_ns: u64,
}

impl Cleaner {
    pub fn new(options: &LogEngineOptions, flusher: Flusher) -> Self {
        Self {
            amplification: options.space_amplification,
            log: options.log.clone(),
            flusher,
            pass: None,
            spoiled: HashSet::new(),
            count: 0,
            bytes: 0,
            busy_ns: 0,
            pass_ns: 0,
            times: Vec::new(),
            slowest_ns: 0,
        }
    }

    /// How much may be dead of so much.
    fn bound(&self, space: Space) -> Bound {
        Bound { amplification: self.amplification, segment_bytes: self.log.segment_bytes_at(space.data_bytes) }
    }

    /// What was cleaned since opening; of the times the median and the 99th percentile are those of the last [`TIMES_MAX`] passes.
    pub fn figures(&self) -> (Compaction, CompactionTail) {
        let mut times = self.times.clone();
        let cleaned = Compaction {
            count: self.count,
            seconds: self.busy_ns as f64 / 1e9,
            latency_ns_p50: Compaction::median(&mut times),
            bytes: self.bytes,
            moves: 0,
        };
        let latency_ns_max = (self.count > 0).then_some(self.slowest_ns);
        (cleaned, CompactionTail { latency_ns_max, ..CompactionTail::of(times) })
    }

    /// Whether a pass is under way.
    pub fn is_busy(&self) -> bool {
        self.pass.is_some()
    }

    /// Do the rest of the pass under way.
    pub fn finish(&mut self, core: &Core) -> Result<()> {
        while self.step(core)?.is_some() {}
        Ok(())
    }

    /// One step of the pass under way; `None` when there is none.
    fn step(&mut self, core: &Core) -> Result<Option<(Stage, u64)>> {
        let Some(pass) = &mut self.pass else { return Ok(None) };
        let begun_ns = monotonic_ns();
        let stepped = pass.step(core);
        let took_ns = monotonic_ns() - begun_ns;
        self.busy_ns += took_ns;
        self.pass_ns += took_ns;
        match stepped {
            Ok((Stage::Done, _)) => {
                self.count += 1;
                self.bytes += pass.bytes;
                self.slowest_ns = self.slowest_ns.max(self.pass_ns);
                let at = self.count as usize % TIMES_MAX;
                match self.times.get_mut(at) {
                    Some(oldest) => *oldest = self.pass_ns,
                    None => self.times.push(self.pass_ns),
                }
                self.pass = None;
                Ok(None)
            }
            Ok(step) => Ok(Some(step)),
            Err(error) => {
                if error.kind() == ErrorKind::Corruption {
                    self.spoiled.extend(pass.reading());
                }
                if !pass.is_installed() {
                    self.pass = None;
                }
                Err(error)
            }
        }
    }

    fn begin(&mut self, victims: Vec<SegmentNumber>, writer: &Writer) {
        let rest = writer.log.segments();
        let rest = rest.iter().filter(|info| !victims.contains(&info.number));
        let firsts = rest.map(|info| writer.accounts.content(info.number).first_seq).filter(|first| *first > 0);
        let drop_until = firsts.min().unwrap_or(u64::MAX).min(writer.standing.limit());
        self.pass_ns = 0;
        self.pass = Some(Pass::new(victims, writer.seq, drop_until, self.flusher.clone()));
    }
}

/// What became of a pass that might be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// It is, or another one was.
    UnderWay,
    /// One is due; segments wait for their sync, after which they may be cleaned.
    Unsynced,
    /// One is due, but the index is being saved, or no segment can be cleaned: writers who waited would wait for nothing.
    Later,
    NotDue,
}

/// How near the bound is (see [`Bound::pressure`]), and how much was appended and died so far.
struct Pressure {
    pressure: f64,
    written_bytes: u64,
    died_bytes: u64,
}

/// All segments as cleaning sees them.
struct Survey {
    space: Space,
    candidates: Vec<Candidate>,
}

impl Core {
    fn survey(&self, writer: &Writer, spoiled: &HashSet<SegmentNumber>) -> Survey {
        let infos = writer.log.segments();
        let held = self.versions.held();
        let last = infos.iter().filter(|info| info.kind == SegmentKind::Hot).map(|info| info.number).max();
        // Below which number tombstones are needed no more, for each segment as the only victim: by the two least firsts.
        let mut least = (u64::MAX, u64::MAX);
        for first in infos.iter().map(|info| writer.accounts.content(info.number).first_seq).filter(|first| *first > 0)
        {
            least = if first < least.0 { (first, least.0) } else { (least.0, least.1.min(first)) };
        }
        let mut survey = Survey { space: Space::default(), candidates: Vec::new() };
        for info in &infos {
            let content = writer.accounts.content(info.number);
            let drop_until = if content.first_seq == least.0 { least.1 } else { least.0 };
            let drop_until = drop_until.min(writer.standing.limit());
            let has_droppable = content.tombstones > 0 && content.oldest_tombstone <= drop_until;
            let droppable = if content.youngest_tombstone <= drop_until { content.tombstones } else { 0 };
            let held = held.get(&info.number).copied().unwrap_or(0);
            let live_bytes = content.live.saturating_sub(droppable) + held;
            let data_bytes = match info.kind {
                SegmentKind::Hot => info.data_bytes.saturating_sub(HEADER_BYTES).max(content.stored),
                // What frames add there, nothing can take away.
                SegmentKind::Cold => content.stored,
            };
            survey.space.data_bytes += data_bytes;
            survey.space.live_bytes += live_bytes;
            if info.sealed && info.durable && Some(info.number) != last && !spoiled.contains(&info.number) {
                survey.candidates.push(Candidate {
                    number: info.number,
                    data_bytes,
                    live_bytes,
                    age: writer.seq.saturating_sub(content.last_seq) + 1,
                    has_dead: live_bytes < content.stored || has_droppable || is_empty(info),
                });
            }
        }
        survey
    }

    /// See [`Pressure`]. Tells the writers how far they may go.
    fn pressure(&self, cleaner: &Cleaner) -> Pressure {
        let writer = self.lock_writer();
        let space = self.survey(&writer, &cleaner.spoiled).space;
        self.tell(cleaner, space, &writer)
    }

    /// Tell the writers how far they may go, by a survey that was made under the same lock.
    fn tell(&self, cleaner: &Cleaner, space: Space, writer: &Writer) -> Pressure {
        let written_bytes = writer.log.appended_bytes();
        let dead = space.data_bytes.saturating_sub(space.live_bytes);
        let bound = cleaner.bound(space);
        self.allowance.set(written_bytes, dead, bound.allowed_bytes(space));
        Pressure { pressure: bound.pressure(space), written_bytes, died_bytes: writer.felt.died_bytes() }
    }

    /// Begin a pass if one is due. If none is begun, writers know how far they may go by the very survey that says so.
    fn begin_if_due(&self, cleaner: &mut Cleaner) -> Beginning {
        if cleaner.pass.is_some() {
            return Beginning::UnderWay;
        }
        let writer = self.lock_writer();
        let survey = self.survey(&writer, &cleaner.spoiled);
        let bound = cleaner.bound(survey.space);
        let Pressure { pressure, written_bytes, .. } = self.tell(cleaner, survey.space, &writer);
        if writer.is_broken || pressure < pace::BEGIN {
            return Beginning::NotDue;
        }
        let is_frozen = self.freezing.load(Ordering::Acquire);
        let victims = if is_frozen { Vec::new() } else { bound.choose(&survey.candidates) };
        if !victims.is_empty() {
            cleaner.begin(victims, &writer);
            return Beginning::UnderWay;
        }
        if !is_frozen && writer.log.segments().iter().any(|info| info.sealed && !info.durable) {
            return Beginning::Unsynced;
        }
        // As far as that the cleaner, which each full segment wakes, has come round before.
        self.allowance.extend(written_bytes, 2 * bound.segment_bytes);
        Beginning::Later
    }

    /// One step of cleaning, of a new pass if none is under way: over what pays, or over `everything` that has something dead.
    pub(crate) fn clean_a_step(&self, everything: bool) -> Result<Option<Stage>> {
        let mut cleaner = self.lock_cleaner();
        if cleaner.pass.is_none() {
            let writer = self.lock_writer();
            let survey = self.survey(&writer, &cleaner.spoiled);
            let bound = cleaner.bound(survey.space);
            let victims =
                if everything { bound.choose_all(&survey.candidates) } else { bound.choose(&survey.candidates) };
            if victims.is_empty() {
                return Ok(None);
            }
            cleaner.begin(victims, &writer);
        }
        Ok(cleaner.step(self)?.map(|(stage, _)| stage))
    }

    /// Clean until nothing is dead of what was written before the call.
    pub(crate) fn clean_all(&self) -> Result<()> {
        let mut cleaner = self.lock_cleaner();
        cleaner.finish(self)?;
        let until = self.seal_dead()?;
        loop {
            {
                let writer = self.lock_writer();
                let mut survey = self.survey(&writer, &cleaner.spoiled);
                survey.candidates.retain(|one| writer.accounts.content(one.number).last_seq <= until);
                let victims = cleaner.bound(survey.space).choose_all(&survey.candidates);
                if victims.is_empty() {
                    break;
                }
                cleaner.begin(victims, &writer);
            }
            cleaner.finish(self)?;
        }
        self.lock_writer().log.reclaim();
        Ok(())
    }

    /// Seal the segment that is written, durably, and begin another one, so that it can be cleaned. Returns the number of the
    /// last record before.
    fn seal_dead(&self) -> Result<u64> {
        let mut writer = self.lock_writer();
        let writer = &mut *writer;
        let until = writer.seq;
        let last = writer.log.segments().into_iter().rfind(|info| info.kind == SegmentKind::Hot);
        let has_dead = last.is_some_and(|last| {
            let content = writer.accounts.content(last.number);
            content.live < content.stored || content.tombstones > 0
        });
        if has_dead {
            writer.log.seal()?;
            writer.at.clear();
            match writer.log.append(&[&[&Record::begin(until).header()]], Durability::Os, &mut writer.at) {
                Ok(_) => {
                    let at = writer.at[0];
                    writer.list(at, &Record::begin(until));
                    writer.accounts.begin(at.segment(), until);
                }
                // No room for a segment: the others are cleaned nevertheless, and may make it.
                Err(error) if error.kind() == ErrorKind::Full => {}
                Err(error) => return Err(error),
            }
        }
        // Segments are cleaned when they are durable, those too that were full before.
        writer.log.sync()?;
        Ok(until)
    }

    /// For the report: how many segments there are, and how much of them is live.
    pub(crate) fn segments(&self, writer: &Writer) -> Segments {
        let Space { data_bytes, live_bytes } = self.survey(writer, &HashSet::new()).space;
        Segments { count: writer.log.segments().len() as u64, data_bytes, live_bytes }
    }
}

/// Whether no record was written to it.
fn is_empty(info: &SegmentInfo) -> bool {
    info.base_lsn == info.end_lsn
}
