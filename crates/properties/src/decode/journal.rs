//! The directory of a log: segments, footers, manifest. Opened, read without opening, and repaired.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_base::{ErrorKind, Result};
use biombo_journal::{
    Durability, Log, LogOptions, Loss, Lsn, Position, Replay, Salvage, SegmentInfo, SegmentNumber, Wants,
};

use crate::files::{Files, damage, disk_of, files_of};
use crate::input::Input;
use crate::{Property, blames_the_bytes, seal};

pub(crate) const DIR: &str = "log";

/// A byte of choices, then damage to the files of a small log.
pub const PROPERTY: Property = Property { name: "journal_files", holds, examples, cases: 300 };

/// What a log shows when it is taken up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    records: BTreeMap<Position, (Lsn, Vec<u8>)>,
    footers: BTreeMap<SegmentNumber, Vec<u8>>,
}

struct Taker<'a> {
    wants: Wants,
    seen: &'a mut Seen,
}

impl Replay for Taker<'_> {
    fn wants(&mut self, _: &SegmentInfo) -> Result<Wants> {
        Ok(self.wants)
    }

    fn record(&mut self, at: Position, lsn: Lsn, record: &[u8]) -> Result<()> {
        let before = self.seen.records.insert(at, (lsn, record.to_vec()));
        assert!(before.is_none(), "the record at {at} comes twice");
        Ok(())
    }

    fn footer(&mut self, segment: &SegmentInfo, footer: &[u8]) -> Result<()> {
        self.seen.footers.insert(segment.number, footer.to_vec());
        Ok(())
    }
}

struct Anything;

impl Salvage for Anything {
    fn accepts(&mut self, _: &[u8]) -> bool {
        true
    }

    fn lost(&mut self, _: Loss) {}
}

pub(crate) fn small() -> LogOptions {
    LogOptions { segment_bytes: 8 << 10, recycle_segments_max: 1, unsynced_segments_max: 1, ..LogOptions::default() }
}

/// A log with segments of every mode and kind, footers, and a manifest of several edits.
fn whole() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let sim = SimIo::new(3);
        let whole = "invariant: nothing is refused";
        let mut nothing = |_: Position, _: Lsn, _: &[u8]| Ok(());
        let (mut log, _) = Log::open(Arc::new(sim.clone()), Path::new(DIR), small(), &mut nothing).expect(whole);
        let mut at = Vec::new();
        let mut append = |log: &mut Log, records: u8, level| {
            let all: Vec<Vec<u8>> = (0..records).map(|n| vec![n; 40 + usize::from(n) * 9]).collect();
            let parts: Vec<[&[u8]; 1]> = all.iter().map(|record| [&record[..]]).collect();
            let parts: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
            log.append(&parts, level, &mut at).expect(whole);
        };
        append(&mut log, 4, Durability::Os);
        append(&mut log, 9, Durability::Os);
        log.seal_with(b"the footer of a segment").expect(whole);
        append(&mut log, 3, Durability::Sync);
        append(&mut log, 1, Durability::Sync);
        log.seal_with(&[7; 300]).expect(whole);
        let mut cold = log.cold_writer().expect(whole);
        for n in 0..5u8 {
            cold.append(&[&[n; 60]]).expect(whole);
        }
        let cold = cold.finish(b"a cold footer").expect(whole);
        let oldest = log.segments()[0].number;
        let replaced = log.install(cold, &[oldest]).expect(whole);
        log.release(replaced);
        append(&mut log, 5, Durability::Os);
        log.seal().expect(whole);
        append(&mut log, 2, Durability::Os);
        log.sync().expect(whole);
        append(&mut log, 2, Durability::Os);
        drop(log);
        files_of(&sim)
    })
}

pub(crate) fn put_checksums_right(files: &mut Files) {
    for (path, content) in files {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("seg" | "new" | "free") => seal::segment(content),
            None if path.ends_with("MANIFEST") => seal::log_manifest(content),
            _ => {}
        }
    }
}

fn open(io: &SimIo, wants: Wants) -> Result<(Seen, Lsn)> {
    let mut seen = Seen::default();
    let mut taker = Taker { wants, seen: &mut seen };
    let (log, reader) = Log::open(Arc::new(io.clone()), Path::new(DIR), small(), &mut taker)?;
    let guard = reader.pin();
    for (at, (_, record)) in &seen.records {
        let found = reader.read_verified(&guard, *at).ok();
        assert_eq!(found.as_deref(), Some(&record[..]), "what was taken up at {at} can be read");
    }
    for info in log.segments() {
        assert!(info.base_lsn <= info.end_lsn, "{info:?}");
        if let Err(error) = reader.footer(info.number) {
            blames_the_bytes(&error, "read a footer");
        }
        let Some(mut walk) = reader.walk(info.number) else { continue };
        loop {
            match walk.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    blames_the_bytes(&error, "walk over a segment");
                    break;
                }
            }
        }
    }
    Ok((seen, log.next_lsn()))
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let wants = [Wants::Frames, Wants::Footer, Wants::Nothing][usize::from(choice >> 1) % 3];
    let mut files = whole().clone();
    damage(&mut files, &mut input, |_| false);
    if choice & 1 == 0 {
        put_checksums_right(&mut files);
    }
    let io = disk_of(&files, &[DIR]);
    let mut read = Seen::default();
    if let Err(error) = Log::read(&io, Path::new(DIR), &mut Taker { wants, seen: &mut read }) {
        blames_the_bytes(&error, "read");
    }
    match open(&io, wants) {
        // What was found is what is found from now on.
        Ok((_, next)) => match open(&io, Wants::Frames) {
            Ok(again) => {
                let more = open(&io, Wants::Frames).expect("it was open before");
                assert_eq!(again, more, "opening changed what is there");
                assert_eq!(again.1, next, "opening changed where it ends");
            }
            // Damage in a segment of which not every record was wanted shows only to who wants them.
            Err(error) => {
                assert_ne!(wants, Wants::Frames, "it was open before: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            }
        },
        Err(error) => blames_the_bytes(&error, "open"),
    }
    repair(&io);
}

/// Whatever is damaged can be repaired, and opens then.
fn repair(sim: &SimIo) {
    let io: Arc<dyn Io> = Arc::new(sim.clone());
    match Log::repair(&io, Path::new(DIR), &mut Anything) {
        Ok(_) => {
            let repaired =
                open(sim, Wants::Frames).unwrap_or_else(|e| panic!("it was repaired and does not open: {e}"));
            let again = Log::repair(&io, Path::new(DIR), &mut Anything).expect("it was repaired once");
            assert_eq!(again.losses, 0, "repaired, and damaged again");
            assert_eq!(open(sim, Wants::Frames).expect("as before"), repaired);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "repair: {error}"),
    }
}

fn examples() -> Vec<Vec<u8>> {
    vec![vec![0], vec![1], vec![2], vec![4], vec![0, 1, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]]
}
