//! A random workload over a simulated disk, a model of what it was promised, and the check of an image against the model.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, CrashPoints, Random, SimIo};
use biombo_base::{Error, ErrorKind};
use biombo_journal::{Durability, Journal, JournalOptions, Lsn, Mode, Modes};

pub const DIR: &str = "store/journal";

pub type Check = Result<(), String>;

/// What was appended and promised, with the number of events at which each promise was given.
#[derive(Debug, Clone)]
pub struct Model {
    /// The first record that `records` holds.
    first: u64,
    records: Vec<Vec<u8>>,
    /// Ends of batches: a journal may end at these positions only.
    ends: Vec<u64>,
    /// From event .0 on, all records before .1 were durable.
    durable: Vec<(usize, u64)>,
    /// From event .0 on, all records before .1 survive the death of the process.
    written: Vec<(usize, u64)>,
    /// From event .0 on, records before .1 may be gone.
    trimmed: Vec<(usize, u64)>,
}

fn latest(promises: &[(usize, u64)], cut: usize) -> u64 {
    promises.iter().filter(|(at, _)| *at <= cut).map(|(_, lsn)| *lsn).max().unwrap_or(1)
}

impl Model {
    pub fn new() -> Self {
        Self { first: 1, records: vec![], ends: vec![1], durable: vec![], written: vec![], trimmed: vec![] }
    }

    pub fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub fn durable_now(&mut self, event: usize) {
        self.durable.push((event, self.next()));
        self.written.push((event, self.next()));
    }

    pub fn written_now(&mut self, event: usize) {
        self.written.push((event, self.next()));
    }

    pub fn trimmed_now(&mut self, event: usize, before: u64) {
        self.trimmed.push((event, before));
    }

    pub fn push(&mut self, batch: &[Vec<u8>]) {
        self.records.extend_from_slice(batch);
        self.ends.push(self.next());
    }

    /// Whether `seen` is what a crash at `cut` may leave.
    pub fn check(&self, cut: usize, killed: bool, seen: &Seen) -> Check {
        let promised = latest(&self.durable, cut).max(if killed { latest(&self.written, cut) } else { 1 });
        let floor = latest(&self.trimmed, cut);
        if seen.next < promised {
            return Err(format!("records before {promised} were promised, and the journal ends at {}", seen.next));
        }
        if seen.first > floor {
            return Err(format!("the journal begins at {}, and nothing from {floor} on was trimmed", seen.first));
        }
        if seen.first + seen.records.len() as u64 != seen.next {
            return Err(format!("{} records from {} on do not reach {}", seen.records.len(), seen.first, seen.next));
        }
        for position in [seen.first, seen.next] {
            if !self.ends.contains(&position) {
                return Err(format!("the journal begins or ends at {position}, inside a batch: {:?}", self.ends));
            }
        }
        for (lsn, record) in (seen.first..).zip(&seen.records) {
            let expected = lsn.checked_sub(self.first).and_then(|i| self.records.get(i as usize));
            if expected != Some(record) {
                return Err(format!("record {lsn} is not what was appended"));
            }
        }
        Ok(())
    }

    /// The model that goes on from what a crash at `cut` left.
    pub fn after(&self, cut: usize, killed: bool, seen: &Seen) -> Model {
        let floor = latest(&self.trimmed, cut).max(seen.first);
        let written = vec![(0, seen.next)];
        let in_seen = |from: u64| self.ends.iter().copied().filter(|end| (from..=seen.next).contains(end)).collect();
        if !killed {
            return Model {
                first: seen.first,
                records: seen.records.clone(),
                ends: in_seen(seen.first),
                durable: written.clone(),
                written,
                trimmed: vec![(0, floor)],
            };
        }
        // After a mere kill, what was not durable still is not until the journal was opened again: appended records may
        // still go, and dropped ones come back.
        let mut records = self.records[..(seen.first - self.first) as usize].to_vec();
        records.extend_from_slice(&seen.records);
        let durable = vec![(0, latest(&self.durable, cut).min(seen.next))];
        Model { first: self.first, records, ends: in_seen(self.first), durable, written, trimmed: vec![(0, floor)] }
    }
}

/// What a journal shows when it is opened.
#[derive(Debug)]
pub struct Seen {
    pub first: u64,
    pub next: u64,
    pub records: Vec<Vec<u8>>,
}

pub fn open(io: Arc<dyn Io>, options: &JournalOptions) -> Result<(Journal, Seen), Error> {
    let mut records = Vec::new();
    let mut first = None;
    let mut gap = false;
    let journal = Journal::open(io, Path::new(DIR), options.clone(), &mut |lsn, record| {
        let expected = *first.get_or_insert(lsn.0) + records.len() as u64;
        gap |= lsn.0 != expected;
        records.push(record.to_vec());
        Ok(())
    })?;
    if gap {
        return Err(Error::new(ErrorKind::Corruption, "positions are not contiguous"));
    }
    let seen = Seen { first: first.unwrap_or(journal.first_lsn().0), next: journal.next_lsn().0, records };
    Ok((journal, seen))
}

pub fn random_options(random: &mut Random) -> JournalOptions {
    JournalOptions {
        segment_bytes: 8192 + 4096 * random.below(5),
        recycle_segments_max: random.below(3) as usize,
        modes: [Modes::Always(Mode::Direct), Modes::Always(Mode::Buffered), Modes::ByDurability]
            [random.below(3) as usize],
        unsynced_segments_max: [0, 1, 2, 8][random.below(4) as usize],
    }
}

fn random_record(random: &mut Random, lsn: u64) -> Vec<u8> {
    let bytes = match random.below(20) {
        0 => 0,
        1 => 4000 + random.below(9000),
        2 => 20_000 + random.below(20_000),
        3..9 => random.below(1500),
        _ => random.below(100),
    };
    let mut record = Random(lsn ^ random.next());
    (0..bytes).map(|_| record.next() as u8).collect()
}

/// What a workload runs on: the disk that records, and the same disk as the journal sees it.
pub struct Bench {
    pub sim: SimIo,
    pub io: Arc<dyn Io>,
}

impl Bench {
    pub fn new(sim: SimIo) -> Self {
        Self { io: Arc::new(sim.clone()), sim }
    }
}

/// Open, do `count` random operations, close. `Err` is a broken promise; errors of the journal are returned as text too.
pub fn run(bench: &Bench, model: &mut Model, options: &JournalOptions, count: usize, random: &mut Random) -> Check {
    let sim = &bench.sim;
    let text = |e: Error| format!("{:?}: {e}", e.kind());
    bench.io.create_dir_all(Path::new("store")).map_err(|e| e.to_string())?;
    bench.io.sync_dir(Path::new("")).map_err(|e| e.to_string())?;
    let (mut journal, seen) = open(Arc::clone(&bench.io), options).map_err(text)?;
    model.check(usize::MAX, true, &seen)?;
    model.durable_now(sim.event_count());
    // Some histories are nearly all at `Os`: several segments wait for their sync when the journal is trimmed.
    let sync_of_8 = [6, 4, 1][random.below(3) as usize];
    for _ in 0..count {
        let durability = if random.below(8) < sync_of_8 { Durability::Sync } else { Durability::Os };
        match random.below(20) {
            0 => {
                journal.sync().map_err(text)?;
                model.durable_now(sim.event_count());
            }
            1 | 2 => {
                let kept_max = [6, 40][random.below(2) as usize];
                let before = model.next() - random.below(model.records.len().min(kept_max) as u64 + 1);
                model.trimmed.push((sim.event_count(), before));
                journal.trim(Lsn(before)).map_err(text)?;
            }
            3 => {
                drop(journal);
                let (again, seen) = open(Arc::clone(&bench.io), options).map_err(text)?;
                model.check(usize::MAX, true, &seen)?;
                model.durable_now(sim.event_count());
                journal = again;
            }
            kind => {
                let count = if kind < 9 { 1 + random.below(4) } else { 1 };
                let batch: Vec<_> = (0..count).map(|i| random_record(random, model.next() + i)).collect();
                let lsn = model.next();
                model.push(&batch);
                let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
                let got = journal.append_batch(&slices, durability).map_err(text)?;
                if got.0 != lsn {
                    return Err(format!("record {lsn} was given position {got}"));
                }
                if durability == Durability::Sync {
                    model.durable_now(sim.event_count());
                } else {
                    model.written.push((sim.event_count(), model.next()));
                }
            }
        }
    }
    drop(journal);
    Ok(())
}

/// Open the image that `crash` left at this point and compare it with the model; with `append` also see that it can be
/// appended to and opened again. Returns what it showed.
pub fn check_image(
    points: &CrashPoints,
    crash: Crash,
    image: &SimIo,
    append: bool,
    model: &Model,
    options: &JournalOptions,
) -> Result<Seen, String> {
    let fail = |what: String| format!("cut at event {} ({}), {crash:?}: {what}", points.cut(), points.label());
    let text = |e: Error| fail(format!("{:?}: {e}", e.kind()));
    let killed = crash == Crash::Kill;
    // The directory above is the caller's.
    let above = image.create_dir_all(Path::new("store")).and_then(|()| image.sync_dir(Path::new("")));
    above.map_err(|e| fail(e.to_string()))?;
    let (journal, seen) = open(Arc::new(image.clone()), options).map_err(text)?;
    model.check(points.cut(), killed, &seen).map_err(fail)?;
    if append {
        let mut after = model.after(points.cut(), killed, &seen);
        let record = vec![0xee; 37];
        after.push(std::slice::from_ref(&record));
        journal.append(&record, Durability::Sync).map_err(text)?;
        after.durable_now(0);
        // The process dies without closing: no last frame, no destructor.
        let again = image.crash(image.event_count(), Crash::Nothing);
        let (_, seen_again) = open(Arc::new(again), options).map_err(text)?;
        after.check(0, false, &seen_again).map_err(|what| fail(format!("after appending once more: {what}")))?;
    }
    Ok(seen)
}
