//! Readers of a log: what they found stays as long as they hold it, while segments are sealed, dropped and recycled.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use biombo_base::ErrorKind;
use biombo_base::io::{Io, IoMode, OpenMode, RealIo};
use biombo_journal::{Durability, Log, LogOptions, LogReader, Lsn, Mode, Modes, Position, SegmentNumber};

fn open(dir: &Path, options: &LogOptions) -> (Log, LogReader) {
    Log::open(RealIo::shared(), dir, options.clone(), &mut |_: Position, _: Lsn, _: &[u8]| Ok(())).unwrap()
}

fn append(log: &mut Log, record: &[u8], durability: Durability) -> Position {
    let mut at = Vec::new();
    log.append(&[&[record]], durability, &mut at).unwrap();
    at[0]
}

fn names(dir: &Path, kind: &str) -> usize {
    let names = RealIo::new().read_dir(dir).unwrap();
    names.iter().filter(|name| name.extension().is_some_and(|extension| extension == kind)).count()
}

#[test]
fn a_dropped_segment_stays_for_who_was_pinned_or_holds_it_and_its_file_goes_after_the_last() {
    for modes in [Modes::Always(Mode::Mapped), Modes::Always(Mode::Direct), Modes::Always(Mode::Buffered)] {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 4, modes, ..LogOptions::default() };
        let (mut log, reader) = open(dir.path(), &options);
        let old = append(&mut log, &[1; 11_000], Durability::Os);
        // Held while it is written: its mapping, or its copy in memory.
        let held_early = reader.hold(&reader.pin(), old).unwrap();
        log.seal().unwrap();
        append(&mut log, &[2; 11_000], Durability::Sync);
        let guard = reader.pin();
        let held = reader.hold(&guard, old).unwrap();
        log.drop_segments(&[old.segment()]).unwrap();
        log.reclaim();
        assert_eq!(reader.get(&guard, old).unwrap().as_deref(), Some(&[1; 11_000][..]), "pinned before it was dropped");
        drop(guard);
        for _ in 0..10 {
            log.reclaim();
        }
        assert!(reader.get(&reader.pin(), old).unwrap().is_none(), "pinned after it was dropped");
        assert_eq!(reader.read_verified(&reader.pin(), old).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!((names(dir.path(), "seg"), names(dir.path(), "free")), (2, 0), "its file is still held");
        drop(held);
        for byte in 3..20 {
            append(&mut log, &[byte; 11_000], Durability::Os);
        }
        assert_eq!(held_early.get(old.offset()), Some(&[1; 11_000][..]), "{modes:?}: it was recycled under its holder");
        drop(held_early);
        for _ in 0..10 {
            log.reclaim();
        }
        // Of the others a copy in memory was held, not the file, which was used again meanwhile.
        let kept = usize::from(modes == Modes::Always(Mode::Mapped));
        assert_eq!(names(dir.path(), "free"), kept, "{modes:?}");
    }
}

#[test]
fn a_held_segment_that_is_read_directly_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let modes = Modes::Always(Mode::Direct);
    let options = LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 4, modes, ..LogOptions::default() };
    let options = LogOptions { io: IoMode::Direct, cache_bytes: 0, ..options };
    let (mut log, reader) = open(dir.path(), &options);
    let old = append(&mut log, &[1; 11_000], Durability::Sync);
    log.seal().unwrap();
    append(&mut log, &[2; 11_000], Durability::Sync);
    let held = reader.hold(&reader.pin(), old).unwrap();
    assert!(held.is_direct() && held.get(old.offset()).is_none());
    let kept = reader.read_verified(&reader.pin(), old).unwrap().keep();
    log.drop_segments(&[old.segment()]).unwrap();
    for byte in 3..20 {
        let last = append(&mut log, &[byte; 11_000], Durability::Sync);
        log.drop_segments(&[SegmentNumber(last.segment().0 - 1)]).unwrap();
    }
    assert_eq!(*reader.read_of(&held, old.offset()).unwrap(), [1; 11_000], "it was recycled under its holder");
    assert!(names(dir.path(), "free") > 0, "others were recycled");
    drop(held);
    (0..10).for_each(|_| log.reclaim());
    assert_eq!(*kept, [1; 11_000], "what was read needs no file");
    assert!(reader.get(&reader.pin(), old).unwrap().is_none());
}

#[test]
fn a_record_in_the_cache_goes_with_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let modes = Modes::Always(Mode::Direct);
    let options = LogOptions { segment_bytes: 28 << 10, recycle_segments_max: 4, modes, ..LogOptions::default() };
    let (mut log, reader) = open(dir.path(), &LogOptions { io: IoMode::Direct, cache_bytes: 1 << 20, ..options });
    let old: Vec<_> = (1..6).map(|byte| append(&mut log, &[byte; 1000], Durability::Sync)).collect();
    log.seal().unwrap();
    for round in 0..2 {
        for (at, byte) in old.iter().zip(1..) {
            assert_eq!(*reader.read_verified(&reader.pin(), *at).unwrap(), [byte; 1000]);
        }
        assert_eq!(log.stats().cache_hits, 5 * round, "each is read once");
    }
    // Its file gets another life, with other records at the same offsets.
    append(&mut log, &[9; 1000], Durability::Sync);
    log.drop_segments(&[old[0].segment()]).unwrap();
    (0..10).for_each(|_| log.reclaim());
    assert_eq!(names(dir.path(), "free"), 1);
    log.seal().unwrap();
    let new: Vec<_> = (11..16).map(|byte| append(&mut log, &[byte; 1000], Durability::Sync)).collect();
    log.seal().unwrap();
    assert_eq!(names(dir.path(), "free"), 0, "it is used again");
    for ((old, new), byte) in old.iter().zip(&new).zip(11..) {
        assert_eq!(old.offset(), new.offset());
        assert_eq!(*reader.read_verified(&reader.pin(), *new).unwrap(), [byte; 1000]);
        assert!(reader.get(&reader.pin(), *old).unwrap().is_none(), "what is gone was found");
        assert_eq!(reader.read_verified(&reader.pin(), *old).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_record_found_in_a_mapping_is_not_written_over_when_its_segment_is_read_directly_since() {
    for ahead in [false, true] {
        found_in_a_mapping(ahead);
    }
}

/// `ahead`: what there is to do is done by who works ahead of the writer.
fn found_in_a_mapping(ahead: bool) {
    let work = |log: &mut Log| match ahead {
        true => log.begin_preparing().into_iter().for_each(|preparing| preparing.run().unwrap()),
        false => log.reclaim(),
    };
    let dir = tempfile::tempdir().unwrap();
    let modes = Modes::Always(Mode::Direct);
    let options = LogOptions { segment_bytes: 16 << 10, first_segment_bytes: 16 << 10, modes, ..LogOptions::default() };
    let options = LogOptions { io: IoMode::Direct, cache_bytes: 0, recycle_segments_max: 4, ..options };
    let (mut log, _) = open(dir.path(), &options);
    let old = append(&mut log, &[1; 11_000], Durability::Sync);
    drop(log);
    // The last segment is read through a mapping until it is synced once more.
    let (mut log, reader) = open(dir.path(), &options);
    let _preparer = ahead.then(|| log.preparer());
    let held = reader.hold(&reader.pin(), old).unwrap();
    assert!(!held.is_direct());
    let kept = reader.read_verified(&reader.pin(), old).unwrap().keep();
    drop(held);
    log.sync().unwrap();
    if ahead {
        work(&mut log);
    }
    assert!(reader.hold(&reader.pin(), old).unwrap().is_direct());
    append(&mut log, &[2; 11_000], Durability::Sync);
    log.drop_segments(&[old.segment()]).unwrap();
    for byte in 3..20 {
        let last = append(&mut log, &[byte; 11_000], Durability::Sync);
        log.drop_segments(&[SegmentNumber(last.segment().0 - 1)]).unwrap();
        work(&mut log);
    }
    assert!(*kept == [1; 11_000], "its file was written over");
    (0..10).for_each(|_| work(&mut log));
    let before = names(dir.path(), "seg");
    drop(kept);
    (0..10).for_each(|_| work(&mut log));
    assert_eq!(names(dir.path(), "seg"), before - 1, "its file goes after the last holder");
}

#[test]
fn damage_that_was_read_unverified_is_not_kept_as_sound() {
    // Records above 64 KiB are not kept in the cache.
    for (bytes, hits) in [(1000, 1), (100_000, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let options =
            LogOptions { segment_bytes: 16 << 10, io: IoMode::Direct, cache_bytes: 1 << 20, ..LogOptions::default() };
        let (mut log, reader) = open(dir.path(), &options);
        let at = append(&mut log, &vec![1; bytes], Durability::Sync);
        log.seal().unwrap();
        log.sync().unwrap();
        let guard = reader.pin();
        assert!(reader.hold(&guard, at).unwrap().is_direct());
        let path = dir.path().join(format!("{:016x}.seg", at.segment().0));
        let file = RealIo::new().open(&path, OpenMode { write: true, ..OpenMode::READ }).unwrap();
        let byte = u64::from(at.offset()) + 500;
        file.write_at(&[9], byte).unwrap();
        for _ in 0..2 {
            assert_eq!(reader.get(&guard, at).unwrap().unwrap().iter().filter(|byte| **byte == 9).count(), 1);
            assert_eq!(reader.read_verified(&guard, at).unwrap_err().kind(), ErrorKind::Corruption);
        }
        file.write_at(&[1], byte).unwrap();
        assert_eq!(*reader.read_verified(&guard, at).unwrap(), vec![1; bytes]);
        assert_eq!(
            (log.stats().cache_hits, reader.get(&guard, at).unwrap().is_some(), log.stats().cache_hits),
            (0, true, hits)
        );
    }
}

#[test]
fn a_file_is_used_again_only_if_it_need_not_be_read_for_that() {
    let filled = |dir: &Path, mode, io, drops: bool| {
        let modes = Modes::Always(mode);
        let options =
            LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 4, modes, io, ..LogOptions::default() };
        let (mut log, _) = open(dir, &options);
        let first = append(&mut log, &[1; 11_000], Durability::Sync);
        append(&mut log, &[2; 11_000], Durability::Sync);
        if drops {
            log.drop_segments(&[first.segment()]).unwrap();
            (0..10).for_each(|_| log.reclaim());
        }
        names(dir, "free")
    };
    // Mapped for writing, it would be read, unless the mapping and its pages are left from its former life.
    for (mode, io, kept) in [
        (Mode::Mapped, IoMode::Mmap, 1),
        (Mode::Mapped, IoMode::Direct, 0),
        (Mode::Direct, IoMode::Mmap, 1),
        (Mode::Direct, IoMode::Direct, 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(filled(dir.path(), mode, io, true), kept, "kept, {mode:?}, {io}");
    }
    for (mode, left) in [(Mode::Mapped, 1), (Mode::Direct, 0)] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(filled(dir.path(), Mode::Mapped, IoMode::Mmap, true), 1);
        assert_eq!(filled(dir.path(), mode, IoMode::Direct, false), left, "left, {mode:?}");
    }
}

#[test]
fn readers_never_miss_or_mistake_a_record_while_segments_come_and_go() {
    come_and_go(IoMode::Mmap, 0, 120);
    come_and_go(IoMode::Direct, 0, 30);
    come_and_go(IoMode::Direct, 32 << 10, 30);
}

fn come_and_go(io: IoMode, cache_bytes: u64, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let options =
        LogOptions { segment_bytes: 32 << 10, recycle_segments_max: 3, io, cache_bytes, ..LogOptions::default() };
    let (mut log, reader) = open(dir.path(), &options);
    // The index: where the records of 64 keys are now.
    let index: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let record = |key: usize, version: u64| [key as u64, version].map(u64::to_le_bytes).concat().repeat(1 + key * 3);
    let put = |log: &mut Log, key: usize, version: u64, durability| {
        let at = append(log, &record(key, version), durability);
        index[key].store(at.pack(), Ordering::Release);
    };
    for key in 0..64 {
        put(&mut log, key, 0, Durability::Os);
    }
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    let flusher = log.flusher();
    std::thread::scope(|scope| {
        scope.spawn(move || flusher.run().unwrap());
        for thread in 0..2usize {
            let (reader, index, stop, reads) = (reader.clone(), &index, &stop, &reads);
            scope.spawn(move || {
                let mut key = thread;
                while !stop.load(Ordering::Relaxed) {
                    key = (key * 5 + 1 + thread) % 64;
                    let guard = reader.pin();
                    let at = Position::unpack(index[key].load(Ordering::Acquire)).unwrap();
                    reader.prefetch(&guard, at, 100);
                    let found = reader.read_verified(&guard, at).unwrap();
                    assert_eq!(found.len(), 16 * (1 + key * 3));
                    assert_eq!(found[..8], (key as u64).to_le_bytes(), "key {key} at {at}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (begun, is_shown) = (Instant::now(), || reads.load(Ordering::Relaxed) > 5 * rounds);
        for round in 1.. {
            // On a busy machine the readers may come later to their work.
            if round >= rounds && (is_shown() || begun.elapsed() > Duration::from_secs(60)) {
                break;
            }
            for i in 0..64u64 {
                let key = (i * i + round) as usize % 64;
                let durability = if round % 16 == 15 { Durability::Sync } else { Durability::Os };
                put(&mut log, key, round, durability);
            }
            // Clean: move what lives in the oldest segments to a cold one, change the index, drop them.
            let oldest: Vec<_> = log.segments().iter().map(|info| info.number).take(2).collect();
            let last = log
                .segments()
                .iter()
                .rfind(|info| info.kind == biombo_journal::SegmentKind::Hot)
                .map(|info| info.number);
            let oldest: Vec<_> = oldest.into_iter().filter(|number| Some(*number) != last).collect();
            let mut cold = log.cold_writer().unwrap();
            let mut moved = Vec::new();
            for (key, slot) in index.iter().enumerate() {
                let at = Position::unpack(slot.load(Ordering::Acquire)).unwrap();
                if oldest.contains(&at.segment()) {
                    let guard = reader.pin();
                    moved.push((key, cold.append(&[&reader.get(&guard, at).unwrap().unwrap()]).unwrap()));
                }
            }
            let replaced = log.install(cold.finish(b"").unwrap(), &oldest).unwrap();
            for (key, at) in moved {
                index[key].store(at.pack(), Ordering::Release);
            }
            log.release(replaced);
        }
        stop.store(true, Ordering::Relaxed);
        drop(log);
    });
    assert!(reads.load(Ordering::Relaxed) > 5 * rounds);
    let (_log, reader) = open(dir.path(), &options);
    let guard = reader.pin();
    for (key, slot) in index.iter().enumerate() {
        let at = Position::unpack(slot.load(Ordering::Acquire)).unwrap();
        assert_eq!(reader.read_verified(&guard, at).unwrap()[..8], (key as u64).to_le_bytes());
    }
}

#[test]
fn modes_change_with_what_is_asked_for_and_large_records_get_segments_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    let (mut log, reader) = open(dir.path(), &options);
    let footers = std::sync::Arc::new(Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&footers);
    log.set_footers(Box::new(move |info, footer| {
        noted.lock().unwrap().push(info.mode);
        footer.extend_from_slice(b"keys");
    }));
    let small = append(&mut log, b"first", Durability::Os);
    let large: Vec<u8> = (0..20 << 20).map(|i: u32| (i * 7) as u8).collect();
    let at = append(&mut log, &large, Durability::Os);
    let synced = append(&mut log, &large[..1 << 20], Durability::Sync);
    for _ in 0..10 {
        append(&mut log, b"sync", Durability::Sync);
    }
    for _ in 0..40 {
        append(&mut log, b"os", Durability::Os);
    }
    let modes: Vec<_> = log.segments().iter().map(|info| info.mode).collect();
    assert!(
        modes.starts_with(&[Mode::Mapped, Mode::Mapped]) && modes.ends_with(&[Mode::Buffered, Mode::Mapped]),
        "{modes:?}"
    );
    assert_eq!(*footers.lock().unwrap(), modes[..modes.len() - 1]);
    assert_eq!(reader.footer(small.segment()).unwrap().as_deref(), Some(&b"keys"[..]));
    drop((log, reader));
    let (mut log, reader) = open(dir.path(), &options);
    let guard = reader.pin();
    assert!(*reader.read_verified(&guard, at).unwrap() == *large);
    assert!(*reader.read_verified(&guard, synced).unwrap() == large[..1 << 20]);
    assert_eq!(reader.footer(at.segment()).unwrap().as_deref(), Some(&b"keys"[..]));
    let segments = log.segments();
    for numbers in
        [vec![segments.last().unwrap().number], vec![biombo_journal::SegmentNumber(9999)], vec![at.segment(); 2]]
    {
        assert_eq!(log.drop_segments(&numbers).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(log.segments(), segments);
}

#[test]
fn the_worked_example_of_the_format_page_is_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let modes = Modes::Always(Mode::Direct);
    let options = LogOptions { segment_bytes: 64 << 10, modes, ..LogOptions::default() };
    let (mut log, _reader) = open(dir.path(), &options);
    let mut at = Vec::new();
    log.append(&[&[b"hi"]], Durability::Sync, &mut at).unwrap();
    log.append(&[&[b"a"], &[b"bc"]], Durability::Sync, &mut at).unwrap();
    assert_eq!(at.iter().map(|at| at.to_string()).collect::<Vec<_>>(), ["1:4136", "1:8232", "1:8248"]);
    drop(log);
    let read = |name: &str| {
        let file = RealIo::new().open(&dir.path().join(name), OpenMode::READ).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let u64_at = |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let segment = read("0000000000000001.seg");
    assert_eq!(segment[..8], *b"BIOMBOJL");
    assert_eq!([u32_at(&segment, 8), u32_at(&segment, 12)], [3, 1]);
    assert_eq!([24, 32, 48].map(|at| u64_at(&segment, at)), [1, 1, 1], "number, base, durable");
    for (frame, expected) in [(4096, [1u32, 16, 1]), (8192, [1, 32, 2]), (12288, [1, 0, 0])] {
        assert_eq!(segment[frame + 4..frame + 8], *b"JFRM");
        assert_eq!([8, 16, 20].map(|at| u32_at(&segment, frame + at)), expected, "flags, bytes, records");
    }
    assert_eq!(
        [4096, 8192, 12288].map(|at| (u64_at(&segment, at + 24), u64_at(&segment, at + 32))),
        [(1, 1), (2, 2), (4, 4)]
    );
    assert_eq!((u32_at(&segment, 8248), &segment[8256..8264]), (2, &b"bc\0\0\0\0\0\0"[..]));
    let manifest = read("MANIFEST");
    assert_eq!(manifest[..8], *b"BIOMBOLM");
    let tags = |edit: usize| {
        let operations = u32_at(&manifest, edit + 4) as usize / 40;
        (0..operations).map(|i| u32_at(&manifest, edit + 16 + 40 * i)).collect::<Vec<_>>()
    };
    assert_eq!([4096, 8192, 12288].map(tags), [vec![5, 4], vec![1, 4], vec![4]]);
    assert_eq!(u64_at(&manifest, 12288 + 24), 4);
}

#[test]
fn a_young_log_reserves_little_and_each_segment_is_twice_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let modes = Modes::Always(Mode::Mapped);
    let options = LogOptions { segment_bytes: 64 << 10, first_segment_bytes: 8 << 10, modes, ..LogOptions::default() };
    let capacities = |log: &Log| log.segments().iter().map(|info| info.file_bytes >> 10).collect::<Vec<_>>();
    let (mut log, _) = open(dir.path(), &options);
    let mut at = Vec::new();
    let record = [7; 3000];
    while log.segments().len() < 6 {
        log.append(&[&[&record]], Durability::Os, &mut at).unwrap();
    }
    assert_eq!(capacities(&log), [8, 16, 32, 64, 64, 64]);
    // What one batch needs has its room in a small segment too.
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path(), &options);
    log.append(&[&[&[7; 20_000]]], Durability::Os, &mut at).unwrap();
    assert_eq!(capacities(&log), [24]);
    // The size follows from the segment's number, whatever was dropped and however often the log was opened.
    drop(log);
    let (mut log, _) = open(dir.path(), &options);
    while log.segments().len() < 3 {
        log.append(&[&[&record]], Durability::Os, &mut at).unwrap();
    }
    assert_eq!(capacities(&log)[1..], [16, 32]);
    let refused = LogOptions { first_segment_bytes: 5000, ..options };
    let mut replay = |_: Position, _: Lsn, _: &[u8]| Ok(());
    let error = Log::open(RealIo::shared(), dir.path(), refused, &mut replay).err().unwrap();
    assert!(error.to_string().contains("first_segment_bytes is 5000"), "{error}");
}
