//! The engine as the crash and fault tests have it: on a simulated disk, with small segments, its accounts held against a recount.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Random, SimIo};
use biombo_base::io::{Io, IoMode};
use biombo_engine::crash_suite::{self, DIR, Model, State, contents, make_home};
use biombo_engine::{Engine, OpenOptions};
use biombo_journal::{Log, LogOptions, Lsn, Modes, Position};
use biombo_log::{LogEngine, LogEngineOptions, open_with};

pub const LOG_DIR: &str = "db/log";

pub fn open(io: &SimIo, options: &LogOptions) -> Result<Arc<LogEngine>> {
    let own = LogEngineOptions { log: options.clone(), space_amplification: 1.2, ..LogEngineOptions::default() };
    open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, false)
}

/// An instance with these options of its log.
#[derive(Clone)]
pub struct Subject(pub LogOptions);

impl Subject {
    /// Small segments, so that a short history fills some.
    pub fn random(random: &mut Random) -> Self {
        Self(LogOptions {
            segment_bytes: [8 << 10, 12 << 10, 32 << 10][random.below(3) as usize],
            recycle_segments_max: random.below(2) as usize,
            modes: Modes::ByDurability,
            unsynced_segments_max: random.below(4) as usize,
            // As the engine has it: the first one is smaller.
            first_segment_bytes: 8 << 10,
            small_segment_bytes: [8 << 10, 32 << 10][random.below(2) as usize],
            segments_min: 1 + random.below(8),
            io: IoMode::ALL[random.below(2) as usize],
            cache_bytes: [0, 8 << 10, 1 << 20][random.below(3) as usize],
        })
    }
}

impl crash_suite::Subject for Subject {
    type Engine = LogEngine;

    fn open(&self, disk: &SimIo) -> Result<Arc<LogEngine>> {
        open(disk, &self.0)
    }

    fn reopened(&self, random: &mut Random) -> Self {
        Self::random(random)
    }

    /// Checkpoints, and cleaning, step by step with writes between.
    fn maintain(&self, engine: &Arc<LogEngine>, disk: &SimIo, model: &mut Model, random: &mut Random) -> bool {
        let begun = disk.event_count();
        match random.below(24) {
            0..4 => {
                // It ends a cleaning pass that is under way, and has made everything before it durable.
                engine.save_index().expect("a checkpoint");
                model.synced(disk.event_count());
                model.stepped("checkpoint", begun, disk.event_count());
            }
            4 => {
                engine.compact().expect("cleaning");
                model.stepped("cleaning: all", begun, disk.event_count());
            }
            5..8 => return false,
            _ => {
                for _ in 0..1 + random.below(4) {
                    let begun = disk.event_count();
                    if let Some(stage) = engine.clean_step(random.below(2) == 0).expect("cleaning") {
                        model.stepped(format!("cleaning: {stage}"), begun, disk.event_count());
                    }
                }
            }
        }
        true
    }

    /// In the middle of a pass the segments that it has replaced are still accounted for.
    fn settle(&self, engine: &Arc<LogEngine>, disk: &SimIo, model: &mut Model) {
        let begun = disk.event_count();
        while engine.clean_step(false).expect("cleaning").is_some() {}
        model.stepped("cleaning: all", begun, disk.event_count());
    }

    fn audit(&self, engine: &Arc<LogEngine>, disk: &SimIo, what: &str) {
        assert_eq!(accounts(engine), recount(disk), "{what}: accounts");
    }

    /// Whoever appends ends one segment and begins the next.
    fn step_between(&self, step: Option<&str>, _before: &str, label: &str) -> Option<&'static str> {
        (step? != "recovery" && label == "create #.new").then_some("segment switch")
    }

    /// The image is damaged, and the machine stops while it is repaired: repairing what that leaves keeps the same.
    fn cut_more(&self, points: &CrashPoints, crash: Crash, campaign: &Campaign, random: &mut Random, what: &str) {
        if crash == Crash::Kill {
            return;
        }
        let image = points.image(crash);
        let segments: Vec<_> = image
            .files()
            .into_iter()
            .filter(|(path, bytes)| *bytes > 0 && path.extension().is_some_and(|extension| extension == "seg"))
            .collect();
        let Some((path, bytes)) = segments.get(random.below(segments.len().max(1) as u64) as usize) else { return };
        let (offset, bit) = (random.below(*bytes), random.below(8) as u8);
        let what = format!("{what}, bit {bit} at {offset} of {}", path.display());
        let damaged = || {
            let image = points.image(crash);
            make_home(&image);
            image.flip_bit(path, offset, bit).expect("the file is there");
            // Whatever lies there is durable: what is cut is the repair.
            image.crash(image.event_count(), Crash::Everything)
        };
        let expected = self.repaired(&damaged(), &what);
        let image = damaged();
        let shared: Arc<dyn Io> = Arc::new(image.clone());
        LogEngine::repair(&shared, Path::new(DIR), &mut |_| {}).expect("it was repaired just now");
        let mut points = image.crash_points();
        loop {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(random.next())] {
                let image = points.image(crash);
                if campaign.count("repair", &image) {
                    let what = format!("{what}, cut at {} ({}), {crash:?}", points.cut(), points.label());
                    assert_eq!(self.repaired(&image, &what), expected, "{what}");
                }
            }
            if !points.advance() {
                return;
            }
        }
    }
}

impl Subject {
    /// Repair an instance that nobody has open, and see what it has then.
    fn repaired(&self, io: &SimIo, what: &str) -> State {
        let shared: Arc<dyn Io> = Arc::new(io.clone());
        LogEngine::repair(&shared, Path::new(DIR), &mut |_| {}).unwrap_or_else(|e| panic!("{what}: no repair: {e}"));
        let engine = open(io, &self.0).unwrap_or_else(|e| panic!("{what}: repaired and does not open: {e}"));
        engine.verify(&mut |damage| panic!("{what}: repaired, and {damage:?}")).expect("verify");
        contents(&engine)
    }
}

pub fn accounts(engine: &LogEngine) -> BTreeMap<u32, u64> {
    engine.live_bytes().into_iter().map(|(segment, bytes)| (segment.0, bytes)).collect()
}

/// Live bytes by segment, from nothing but the log's records and `docs/format/log.md`.
pub fn recount(io: &SimIo) -> BTreeMap<u32, u64> {
    struct Entry {
        kind: u8,
        segment: u32,
        stored: u64,
        key: Vec<u8>,
        value: Vec<u8>,
    }
    let mut records = BTreeMap::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let key_end = 16 + u32::from_le_bytes(record[4..8].try_into().expect("4 bytes")) as usize;
        let seq = u64::from_le_bytes(record[8..16].try_into().expect("8 bytes"));
        if record[0] == 6 {
            // It only says where a segment begins.
            return Ok(());
        }
        let entry = Entry {
            kind: record[0],
            segment: at.segment().0,
            // The journal's record header, and padding to 8.
            stored: (8 + record.len() as u64).next_multiple_of(8),
            key: record[16..key_end].to_vec(),
            value: record[key_end..].to_vec(),
        };
        assert!(records.insert(seq, entry).is_none(), "two records have the number {seq}");
        Ok(())
    };
    Log::read(io, Path::new(LOG_DIR), &mut replay).expect("the log can be read");
    let mut live: BTreeMap<Vec<u8>, (u32, u64)> = BTreeMap::new();
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for record in records.into_values() {
        let Entry { kind, segment, stored, key, value } = record;
        if kind == 1 {
            live.insert(key, (segment, stored));
            continue;
        }
        *sums.entry(segment).or_default() += stored;
        match kind {
            2 => drop(live.remove(&key)),
            3 => live.retain(|found, _| *found < key || *found >= value),
            4 => live.retain(|found, _| *found < key),
            _ => panic!("a record of kind {kind}"),
        }
    }
    for (segment, stored) in live.into_values() {
        *sums.entry(segment).or_default() += stored;
    }
    sums
}
