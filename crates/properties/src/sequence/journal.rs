//! The log under the engines through reopenings and crashes: batches are there whole or not at all, in their order, and what was
//! promised is kept; dropped segments and cold ones are there or not as a whole; who was pinned still reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::sim::SimIo;
use biombo_journal::{
    Durability, Log, LogOptions, LogReader, Lsn, Mode, Modes, Position, Replay, SegmentInfo, SegmentKind,
    SegmentNumber, Wants,
};

use super::history::{History, crash};
use crate::Property;
use crate::decode::journal::{DIR, small};
use crate::input::Input;

/// A byte of choices, then operations.
pub const PROPERTY: Property = Property { name: "journal_ops", holds, examples, cases: 100 };

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    next: Lsn,
    hot: BTreeMap<u64, (Position, Vec<u8>)>,
    cold: BTreeMap<SegmentNumber, Vec<(Position, Vec<u8>)>>,
}

#[derive(Default)]
struct Taker {
    hot: BTreeMap<u64, (Position, Vec<u8>)>,
    cold: BTreeMap<SegmentNumber, Vec<(Position, Vec<u8>)>>,
    cold_numbers: Vec<SegmentNumber>,
}

impl Replay for Taker {
    fn wants(&mut self, segment: &SegmentInfo) -> Result<Wants> {
        if segment.kind == SegmentKind::Cold {
            self.cold_numbers.push(segment.number);
            self.cold.entry(segment.number).or_default();
        }
        Ok(Wants::Frames)
    }

    fn record(&mut self, at: Position, lsn: Lsn, record: &[u8]) -> Result<()> {
        if self.cold_numbers.contains(&at.segment()) {
            let records = self.cold.entry(at.segment()).or_default();
            records.push((at, record.to_vec()));
            assert_eq!(lsn.0, records.len() as u64, "a cold segment counts from 1");
        } else {
            assert!(self.hot.insert(lsn.0, (at, record.to_vec())).is_none(), "record {lsn} comes twice");
        }
        Ok(())
    }
}

struct Run {
    sim: SimIo,
    options: LogOptions,
    log: Option<(Log, LogReader)>,
    history: History<Held>,
}

const FINE: &str = "the disk refuses nothing";

fn open(sim: &SimIo, options: &LogOptions) -> (Log, LogReader, Held) {
    let mut taker = Taker::default();
    let opened = Log::open(Arc::new(sim.clone()), Path::new(DIR), options.clone(), &mut taker);
    let (log, reader) = opened.unwrap_or_else(|e| panic!("it does not open: {e}"));
    let held = Held { next: log.next_lsn(), hot: taker.hot, cold: taker.cold };
    (log, reader, held)
}

impl Run {
    fn log(&mut self) -> &mut Log {
        &mut self.log.as_mut().expect("invariant: it is open but within a step").0
    }

    fn append(&mut self, input: &mut Input<'_>, number: usize) {
        let records: Vec<Vec<u8>> = (0..1 + input.below(5)).map(|_| input.value(number)).collect();
        let parts: Vec<[&[u8]; 2]> =
            records.iter().map(|record| record.split_at(record.len() / 3)).map(Into::into).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
        let level = if input.once_in(3) { Durability::Sync } else { Durability::Os };
        // Where they come to lie is known only after.
        let mut held = self.history.last().clone();
        self.history.begin(held.clone());
        let mut at = Vec::new();
        let first = self.log().append(&parts, level, &mut at).expect(FINE);
        assert_eq!(first, held.next, "the log counts its records");
        for (at, record) in at.into_iter().zip(records) {
            held.hot.insert(held.next.0, (at, record));
            held.next = held.next.plus(1);
        }
        self.history.becomes(held);
        self.history.acked(&self.sim);
        if level == Durability::Sync {
            self.history.synced(&self.sim);
        }
    }

    /// Drop some sealed segments, and put the records of one apart, or none.
    fn drop_some(&mut self, input: &mut Input<'_>) {
        // A power cut would else take from behind what is dropped, and leave no state of the history.
        self.log().sync().expect(FINE);
        self.history.synced(&self.sim);
        let sealed: Vec<SegmentInfo> = self.log().segments().into_iter().filter(|info| info.sealed).collect();
        let last_hot =
            self.log().segments().iter().filter(|info| info.kind == SegmentKind::Hot).map(|info| info.number).max();
        let mut numbers: Vec<SegmentNumber> =
            sealed.iter().map(|info| info.number).filter(|n| Some(*n) != last_hot).collect();
        let (skip, take) = (input.below(3), input.below(4));
        numbers = numbers.into_iter().skip(skip).take(take).collect();
        let mut held = self.history.last().clone();
        let gone: Vec<(Position, Vec<u8>)> = held
            .hot
            .values()
            .chain(held.cold.values().flatten())
            .filter(|(at, _)| numbers.contains(&at.segment()))
            .cloned()
            .collect();
        held.hot.retain(|_, (at, _)| !numbers.contains(&at.segment()));
        held.cold.retain(|number, _| !numbers.contains(number));
        let pinned = {
            let reader = &self.log.as_ref().expect("invariant: it is open").1;
            (reader.clone(), reader.pin())
        };
        if input.once_in(2) {
            let mut cold = self.log().cold_writer().expect(FINE);
            let moved: Vec<_> =
                gone.iter().map(|(_, record)| (cold.append(&[record]).expect(FINE), record.clone())).collect();
            let number = cold.number();
            let cold = cold.finish(if input.once_in(2) { b"a footer" } else { b"" }).expect(FINE);
            held.cold.insert(number, moved);
            self.history.begin(held);
            let replaced = self.log().install(cold, &numbers).expect(FINE);
            self.history.acked(&self.sim);
            self.log().release(replaced);
        } else {
            self.history.begin(held);
            self.log().drop_segments(&numbers).expect(FINE);
            self.history.acked(&self.sim);
        }
        self.history.synced(&self.sim);
        for (at, record) in &gone {
            assert_eq!(*pinned.0.read_verified(&pinned.1, *at).expect("who was pinned still reads"), **record);
        }
    }

    fn check(&self) {
        let (_, reader) = self.log.as_ref().expect("invariant: it is open but within a step");
        let guard = reader.pin();
        let held = self.history.last();
        for (at, record) in held.hot.values().chain(held.cold.values().flatten()) {
            assert_eq!(*reader.read_verified(&guard, *at).expect("it is there"), **record, "at {at}");
        }
    }
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let modes =
        [Modes::ByDurability, Modes::Always(Mode::Buffered), Modes::Always(Mode::Mapped), Modes::Always(Mode::Direct)];
    let options = LogOptions {
        modes: modes[usize::from(choice) % 4],
        recycle_segments_max: usize::from(choice >> 2) % 3,
        unsynced_segments_max: usize::from(choice >> 4) % 3,
        ..small()
    };
    let sim = SimIo::new(u64::from(choice));
    let (log, reader, held) = open(&sim, &options);
    let mut history = History::of(held);
    history.synced(&sim);
    let mut run = Run { sim, options, log: Some((log, reader)), history };
    for number in 0..80 {
        if input.is_over() {
            break;
        }
        match input.below(16) {
            0..9 => run.append(&mut input, number),
            9 => {
                run.log().sync().expect(FINE);
                run.history.synced(&run.sim);
            }
            10 => {
                let footer = input.bytes(40).to_vec();
                run.log().seal_with(&footer).expect(FINE);
            }
            11 | 12 => run.drop_some(&mut input),
            13 => {
                run.log = None;
                run.history.synced(&run.sim);
                let (log, reader, held) = open(&run.sim, &run.options);
                assert_eq!(held, *run.history.last(), "closed and opened");
                run.log = Some((log, reader));
                run.check();
            }
            _ => {
                let (image, cut, crash) = crash(&run.sim, &mut input);
                // The process dies: nothing of it is closed before its disk is looked at.
                let dead = run.log.take();
                let (log, reader, held) = open(&image, &run.options);
                let history = std::mem::replace(&mut run.history, History::of(held.clone()));
                run.history = history.crashed(cut, crash, &held);
                (run.sim, run.log) = (image, Some((log, reader)));
                drop(dead);
                run.check();
            }
        }
    }
    run.check();
}

fn examples() -> Vec<Vec<u8>> {
    (0..8u8).map(|n| (0..200u32).map(|i| ((i * 59 + u32::from(n) * 71) >> 1) as u8).collect()).collect()
}
