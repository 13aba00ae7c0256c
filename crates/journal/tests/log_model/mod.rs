//! A random workload over a log, a model of what it was promised, and the check of an image against the model.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::IoMode;
use biombo_base::io::sim::{Random, SimIo};
use biombo_base::{Error, Result};
use biombo_journal::{
    Durability, Log, LogOptions, LogReader, Lsn, Mode, Modes, Parts, Position, Replaced, Replay, SegmentInfo,
    SegmentKind, SegmentNumber, Wants,
};

pub const DIR: &str = "store/log";

pub type Check<T = ()> = std::result::Result<T, String>;

/// A segment that was dropped: when that began, and when it was done.
#[derive(Debug, Clone, Copy)]
struct Gone {
    number: SegmentNumber,
    begun: usize,
    done: usize,
}

/// A cold segment: what is in it, and when it was installed.
#[derive(Debug, Clone)]
struct Cold {
    number: SegmentNumber,
    records: Vec<(Position, Vec<u8>)>,
    begun: usize,
    done: usize,
    replaces: Vec<SegmentNumber>,
}

/// What was appended and promised, with the number of events at which each promise was given.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// By lsn.
    records: BTreeMap<u64, (Position, Vec<u8>)>,
    next: u64,
    /// Ends of batches: a log may end at these only.
    ends: BTreeSet<u64>,
    /// From event .0 on, all records before .1 are durable.
    durable: Vec<(usize, u64)>,
    /// From event .0 on, all records before .1 survive the death of the process.
    written: Vec<(usize, u64)>,
    gone: Vec<Gone>,
    cold: Vec<Cold>,
    /// The end of a batch that may be there, somewhere.
    unsure: Option<u64>,
    /// Cold segments may be there that are not in `cold`.
    any_cold: bool,
}

fn latest(promises: &[(usize, u64)], cut: usize) -> u64 {
    promises.iter().filter(|(at, _)| *at <= cut).map(|(_, lsn)| *lsn).max().unwrap_or(1)
}

/// What a log shows when it is opened.
#[derive(Debug, Default)]
pub struct Seen {
    pub hot: BTreeMap<u64, (Position, Vec<u8>)>,
    pub cold: BTreeMap<SegmentNumber, Vec<(Position, Vec<u8>)>>,
    /// Segments of which only the footer, or nothing, was taken up.
    pub skipped: Vec<SegmentInfo>,
    pub footers: usize,
    pub next: u64,
    pub segments: Vec<SegmentInfo>,
}

/// How an owner takes up segments that it may choose for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    Frames,
    Footers,
    /// Nothing of every second segment, footers of the others.
    Half,
}

struct Taker<'a> {
    taking: Taking,
    seen: &'a mut Seen,
    chosen: BTreeMap<SegmentNumber, SegmentInfo>,
}

/// What the tests give as the footer of a segment: follows from what it is, and tells it.
pub fn footer_of(info: &SegmentInfo) -> Vec<u8> {
    let word = format!("{} {} {:?} ", info.number, info.end_lsn, info.kind);
    word.repeat(1 + info.number.0 as usize * 97 % 400).into_bytes()
}

impl Replay for Taker<'_> {
    fn wants(&mut self, segment: &SegmentInfo) -> Result<Wants> {
        assert!(segment.durable && segment.sealed, "asked of {segment:?}");
        self.chosen.insert(segment.number, *segment);
        Ok(match self.taking {
            Taking::Frames => Wants::Frames,
            Taking::Half if segment.number.0 % 2 == 1 => {
                self.seen.skipped.push(*segment);
                Wants::Nothing
            }
            Taking::Footers | Taking::Half => Wants::Footer,
        })
    }

    fn record(&mut self, at: Position, lsn: Lsn, record: &[u8]) -> Result<()> {
        let is_cold = self.chosen.get(&at.segment()).is_some_and(|info| info.kind == SegmentKind::Cold);
        if is_cold {
            let records = self.seen.cold.entry(at.segment()).or_default();
            records.push((at, record.to_vec()));
            assert_eq!(lsn.0, records.len() as u64, "a cold segment counts from 1");
        } else if self.seen.hot.insert(lsn.0, (at, record.to_vec())).is_some() {
            return Err(Error::invalid(format!("record {lsn} came twice")));
        }
        Ok(())
    }

    fn footer(&mut self, segment: &SegmentInfo, footer: &[u8]) -> Result<()> {
        if footer != footer_of(segment) {
            return Err(Error::invalid(format!("the footer of {segment:?} is not its own")));
        }
        self.seen.footers += 1;
        self.seen.skipped.push(*segment);
        Ok(())
    }
}

pub fn open(io: Arc<dyn Io>, options: &LogOptions, taking: Taking) -> Result<(Log, LogReader, Seen)> {
    let mut seen = Seen::default();
    let mut taker = Taker { taking, seen: &mut seen, chosen: BTreeMap::new() };
    let (mut log, reader) = Log::open(io, Path::new(DIR), options.clone(), &mut taker)?;
    seen.next = log.next_lsn().0;
    seen.segments = log.segments();
    log.set_footers(Box::new(|info, footer| footer.extend_from_slice(&footer_of(info))));
    Ok((log, reader, seen))
}

impl Model {
    pub fn new() -> Self {
        Self { next: 1, ends: [1].into(), ..Self::default() }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn push(&mut self, at: &[Position], batch: &[Vec<u8>]) {
        for (at, record) in at.iter().zip(batch) {
            self.records.insert(self.next, (*at, record.clone()));
            self.next += 1;
        }
        self.ends.insert(self.next);
    }

    /// A batch that may be there or not: its append failed, and nobody was told where it is.
    pub fn unknown(&mut self, batch: &[Vec<u8>]) {
        let lost = Position::new(SegmentNumber(u32::MAX), 0).unwrap();
        self.unsure = Some(self.next + batch.len() as u64);
        self.push(&vec![lost; batch.len()], batch);
    }

    /// All records in these segments.
    pub fn records_in(&self, numbers: &[SegmentNumber]) -> Vec<Vec<u8>> {
        let there = self.records.values().filter(|(at, _)| numbers.contains(&at.segment()));
        there.map(|(_, record)| record.clone()).collect()
    }

    /// They may be there or not, from now on.
    pub fn gone_now(&mut self, numbers: &[SegmentNumber]) {
        self.gone.extend(numbers.iter().map(|&number| Gone { number, begun: 0, done: usize::MAX }));
        self.any_cold = true;
    }

    pub fn durable_now(&mut self, event: usize) {
        self.durable.push((event, self.next));
        self.written.push((event, self.next));
    }

    pub fn written_now(&mut self, event: usize) {
        self.written.push((event, self.next));
    }

    fn gone_by(&self, number: SegmentNumber, cut: usize) -> (bool, bool) {
        let gone = self.gone.iter().find(|gone| gone.number == number);
        gone.map_or((false, false), |gone| (gone.begun <= cut, gone.done <= cut))
    }

    /// Whether what `reader` and `seen` show is what a crash at `cut` may leave.
    pub fn check(&self, cut: usize, killed: bool, seen: &Seen, reader: &LogReader) -> Check {
        let promised = latest(&self.durable, cut).max(if killed { latest(&self.written, cut) } else { 1 });
        if seen.next < promised {
            return Err(format!("records before {promised} were promised, and the log ends at {}", seen.next));
        }
        if !self.ends.contains(&seen.next) {
            return Err(format!("the log ends at {}, inside a batch", seen.next));
        }
        let there: BTreeSet<_> = seen.segments.iter().map(|info| info.number).collect();
        let skipped: BTreeSet<_> = seen.skipped.iter().map(|info| info.number).collect();
        let guard = reader.pin();
        let readable = |at: Position, record: &[u8]| -> Check {
            match reader.read_verified(&guard, at) {
                Ok(found)
                    if *found == *record && reader.get(&guard, at).is_ok_and(|got| got.as_deref() == Some(record)) =>
                {
                    Ok(())
                }
                Ok(_) => Err(format!("at {at} is not what was appended there")),
                Err(e) => Err(format!("at {at}: {e}")),
            }
        };
        for (lsn, (at, record)) in self.records.range(..seen.next) {
            if self.unsure.is_some() && at.segment().0 == u32::MAX {
                match seen.hot.get(lsn) {
                    Some((at, seen)) if seen == record => readable(*at, record)?,
                    other => return Err(format!("record {lsn}, of an append that failed, was replayed as {other:?}")),
                }
                continue;
            }
            let number = at.segment();
            let (may_be_gone, is_gone) = self.gone_by(number, cut);
            let is_there = there.contains(&number);
            if is_there && is_gone || !is_there && !may_be_gone {
                return Err(format!("segment {number} of record {lsn}: there is {is_there}, dropped is {is_gone}"));
            }
            if !is_there {
                continue;
            }
            readable(*at, record)?;
            match seen.hot.get(lsn) {
                Some((seen_at, seen)) if seen_at == at && seen == record => {}
                None if skipped.contains(&number) => {}
                other => return Err(format!("record {lsn} was replayed as {other:?}")),
            }
        }
        for lsn in seen.hot.keys() {
            if !self.records.contains_key(lsn) || *lsn >= seen.next {
                return Err(format!("record {lsn} was never appended, or is behind the end"));
            }
        }
        for cold in &self.cold {
            let (may_be_gone, is_gone) = self.gone_by(cold.number, cut);
            let is_there = there.contains(&cold.number);
            if is_there && (is_gone || cold.begun > cut) || !is_there && cold.done <= cut && !may_be_gone {
                return Err(format!("cold segment {} is there: {is_there}", cold.number));
            }
            if is_there {
                if let Some(number) = cold.replaces.iter().find(|number| there.contains(number)) {
                    return Err(format!("cold segment {} and {number}, which it replaced", cold.number));
                }
                cold.records.iter().try_for_each(|(at, record)| readable(*at, record))?;
                let replayed = seen.cold.get(&cold.number).map(Vec::as_slice).unwrap_or_default();
                if !skipped.contains(&cold.number) && replayed != cold.records {
                    return Err(format!("cold segment {} was replayed differently", cold.number));
                }
            }
        }
        let known = |number| self.cold.iter().any(|cold| cold.number == number);
        match seen.segments.iter().find(|info| info.kind == SegmentKind::Cold && !known(info.number)) {
            Some(_) if self.any_cold => Ok(()),
            Some(info) => Err(format!("{info:?} was never written")),
            None => Ok(()),
        }
    }

    /// The model that goes on from what a crash at `cut` left.
    pub fn after(&self, cut: usize, killed: bool, seen: &Seen) -> Model {
        let there: BTreeSet<_> = seen.segments.iter().map(|info| info.number).collect();
        let durable = if killed { latest(&self.durable, cut).min(seen.next) } else { seen.next };
        let known = |(lsn, (at, record)): (&u64, &(Position, Vec<u8>))| {
            let at = if at.segment().0 == u32::MAX { seen.hot.get(lsn)?.0 } else { *at };
            there.contains(&at.segment()).then(|| (*lsn, (at, record.clone())))
        };
        let cold = self.cold.iter().filter(|cold| there.contains(&cold.number));
        Model {
            records: self.records.range(..seen.next).filter_map(known).collect(),
            next: seen.next,
            ends: self.ends.range(..=seen.next).copied().collect(),
            durable: vec![(0, durable)],
            written: vec![(0, seen.next)],
            gone: Vec::new(),
            cold: cold.map(|cold| Cold { begun: 0, done: 0, replaces: Vec::new(), ..cold.clone() }).collect(),
            unsure: None,
            any_cold: self.any_cold,
        }
    }
}

pub fn random_options(random: &mut Random) -> LogOptions {
    let modes = match random.below(6) {
        0 => Modes::Always(Mode::Direct),
        1 => Modes::Always(Mode::Buffered),
        2 => Modes::Always(Mode::Mapped),
        _ => Modes::ByDurability,
    };
    let options = LogOptions {
        segment_bytes: 8192 + 4096 * random.below(5),
        small_segment_bytes: 8192 << random.below(3),
        segments_min: 1 + random.below(8),
        recycle_segments_max: random.below(3) as usize,
        modes,
        unsynced_segments_max: random.below(3) as usize,
        io: IoMode::ALL[random.below(2) as usize],
        cache_bytes: [0, 8 << 10, 1 << 20][random.below(3) as usize],
        ..LogOptions::default()
    };
    // A third of them grow from a small first segment.
    let first_segment_bytes = if options.unsynced_segments_max == 1 { 8192 } else { options.segment_bytes };
    LogOptions { first_segment_bytes, ..options }
}

fn random_record(random: &mut Random, lsn: u64) -> Vec<u8> {
    let bytes = match random.below(40) {
        0 => 0,
        1 => 4000 + random.below(9000),
        2 => 20_000 + random.below(10_000),
        3..12 => random.below(1500),
        _ => random.below(100),
    };
    let mut record = Random(lsn ^ random.next());
    (0..bytes).map(|_| record.next() as u8).collect()
}

/// A log under a random workload.
pub struct Run<'a> {
    pub sim: &'a SimIo,
    pub io: Arc<dyn Io>,
    pub options: LogOptions,
    pub model: &'a mut Model,
    replaced: Vec<Replaced>,
}

fn text(e: Error) -> String {
    format!("{:?}: {e}", e.kind())
}

impl<'a> Run<'a> {
    pub fn new(sim: &'a SimIo, io: Arc<dyn Io>, options: &LogOptions, model: &'a mut Model) -> Self {
        Self { sim, io, options: options.clone(), model, replaced: Vec::new() }
    }

    fn open(&self, random: &mut Random) -> Check<(Log, LogReader)> {
        let taking = [Taking::Frames, Taking::Footers, Taking::Half][random.below(3) as usize];
        let (mut log, reader, seen) = open(Arc::clone(&self.io), &self.options, taking).map_err(text)?;
        self.model.check(usize::MAX - 1, true, &seen, &reader)?;
        if random.below(2) == 0 {
            log.preparer();
        }
        Ok((log, reader))
    }

    /// Open, do `count` random operations, close. `Err` is a broken promise; errors of the log are returned as text too.
    pub fn go(&mut self, count: usize, random: &mut Random) -> Check {
        self.io.create_dir_all(Path::new("store")).map_err(|e| e.to_string())?;
        self.io.sync_dir(Path::new("")).map_err(|e| e.to_string())?;
        let (mut log, mut reader) = self.open(random)?;
        let mut durability = Durability::Os;
        for _ in 0..count {
            // Work ahead of the writer, which has a thread of its own elsewhere.
            if random.below(3) == 0
                && let Some(preparing) = log.begin_preparing()
                && random.below(8) > 0
            {
                preparing.run().map_err(text)?;
            }
            match random.below(32) {
                0 => {
                    log.sync().map_err(text)?;
                    self.model.durable_now(self.sim.event_count());
                }
                1 => drop(log.flusher().flush_one().map_err(text)?),
                2 => log.seal().map_err(text)?,
                3 => {
                    if let Some(active) = log.segments().iter().find(|info| !info.sealed) {
                        log.seal_with(&footer_of(active)).map_err(text)?;
                    }
                }
                4 | 5 => self.drop_some(&mut log, random)?,
                6 | 7 => self.move_some(&mut log, &reader, random)?,
                8 => self.replaced.drain(..).for_each(|replaced| log.release(replaced)),
                9 => {
                    self.replaced.clear();
                    drop((log, reader));
                    self.model.durable_now(self.sim.event_count());
                    (log, reader) = self.open(random)?;
                }
                10..14 => {
                    // Long runs of one kind, so that the mode changes.
                    durability = if random.below(2) == 0 { Durability::Sync } else { Durability::Os };
                    let run = if random.below(3) == 0 { 40 } else { 5 };
                    for _ in 0..run {
                        self.append(&mut log, &[vec![7; random.below(60) as usize]], durability)?;
                    }
                }
                kind => {
                    let count = if kind < 20 { 1 + random.below(4) } else { 1 };
                    let batch: Vec<_> = (0..count).map(|i| random_record(random, self.model.next + i)).collect();
                    let durability = if random.below(4) == 0 { Durability::Sync } else { durability };
                    self.append(&mut log, &batch, durability)?;
                }
            }
            self.read_some(&log, &reader, random)?;
        }
        drop((log, reader));
        self.model.durable_now(self.sim.event_count());
        Ok(())
    }

    fn append(&mut self, log: &mut Log, batch: &[Vec<u8>], durability: Durability) -> Check {
        // What an interrupted append leaves may be there.
        let lsn = self.model.next;
        let halves: Vec<_> = batch.iter().map(|record| record.split_at(record.len() / 3)).collect();
        let parts: Vec<[&[u8]; 2]> = halves.iter().map(|(a, b)| [*a, *b]).collect();
        let parts: Vec<Parts<'_>> = parts.iter().map(|parts| &parts[..]).collect();
        let mut at = Vec::new();
        let got = log.append(&parts, durability, &mut at).map_err(text)?;
        if got.0 != lsn || at.len() != batch.len() {
            return Err(format!("record {lsn} was given lsn {got} and {} positions", at.len()));
        }
        self.model.push(&at, batch);
        match durability {
            Durability::Sync => self.model.durable_now(self.sim.event_count()),
            Durability::Os => self.model.written_now(self.sim.event_count()),
        }
        Ok(())
    }

    fn droppable(&self, log: &Log, random: &mut Random) -> Vec<SegmentNumber> {
        let segments = log.segments();
        let last = segments.iter().rfind(|info| info.kind == SegmentKind::Hot).map(|info| info.number);
        let mut numbers: Vec<_> = segments.iter().map(|info| info.number).filter(|n| Some(*n) != last).collect();
        while numbers.len() > 1 + random.below(2) as usize {
            numbers.remove(random.below(numbers.len() as u64) as usize);
        }
        numbers
    }

    fn drop_some(&mut self, log: &mut Log, random: &mut Random) -> Check {
        let numbers = self.droppable(log, random);
        let begun = self.sim.event_count();
        self.model.gone.extend(numbers.iter().map(|&number| Gone { number, begun, done: usize::MAX }));
        log.drop_segments(&numbers).map_err(text)?;
        self.dropped(&numbers);
        Ok(())
    }

    fn dropped(&mut self, numbers: &[SegmentNumber]) {
        let done = self.sim.event_count();
        for gone in self.model.gone.iter_mut().filter(|gone| numbers.contains(&gone.number)) {
            gone.done = done;
        }
    }

    /// Write some records of some segments to a cold one, and put that in their place.
    fn move_some(&mut self, log: &mut Log, reader: &LogReader, random: &mut Random) -> Check {
        let replaces = self.droppable(log, random);
        let mut cold = log.cold_writer().map_err(text)?;
        let number = cold.number();
        let all = self.model.records.values().chain(self.model.cold.iter().flat_map(|cold| &cold.records));
        let moved: Vec<_> = all.filter(|(at, _)| replaces.contains(&at.segment())).cloned().collect();
        let mut records = Vec::new();
        for (_, record) in moved {
            records.push((cold.append(&[&record]).map_err(text)?, record));
        }
        if random.below(8) == 0 {
            drop(cold);
            return Ok(());
        }
        let info = SegmentInfo {
            number,
            kind: SegmentKind::Cold,
            mode: Mode::Buffered,
            base_lsn: Lsn(1),
            end_lsn: Lsn(records.len() as u64 + 1),
            data_bytes: 0,
            file_bytes: 0,
            sealed: true,
            durable: true,
            footer_bytes: None,
        };
        let footer = if random.below(2) == 0 { footer_of(&info) } else { Vec::new() };
        let finished = cold.finish(&footer).map_err(text)?;
        let begun = self.sim.event_count();
        self.model.gone.extend(replaces.iter().map(|&number| Gone { number, begun, done: usize::MAX }));
        self.model.cold.push(Cold { number, records, begun, done: usize::MAX, replaces: replaces.clone() });
        let replaced = log.install(finished, &replaces).map_err(text)?;
        self.dropped(&replaces);
        self.model.cold.last_mut().unwrap().done = self.sim.event_count();
        if reader.footer(number).map_err(text)?.unwrap_or_default() != footer {
            return Err(format!("the footer of cold segment {number} is not what was given"));
        }
        if random.below(2) == 0 {
            log.release(replaced);
        } else {
            self.replaced.push(replaced);
        }
        Ok(())
    }

    fn read_some(&self, log: &Log, reader: &LogReader, random: &mut Random) -> Check {
        let there: BTreeSet<_> = log.segments().iter().map(|info| info.number).collect();
        let guard = reader.pin();
        let from = random.below(self.model.next);
        for (lsn, (at, record)) in self.model.records.range(from..).take(3) {
            reader.prefetch(&guard, *at, record.len());
            let found = reader.read_verified(&guard, *at);
            match found {
                Ok(found) if *found == **record => {}
                Err(_) if !there.contains(&at.segment()) => {}
                Ok(_) => return Err(format!("record {lsn} is not what was appended")),
                Err(e) => return Err(format!("record {lsn} at {at}: {e}")),
            }
        }
        Ok(())
    }
}
