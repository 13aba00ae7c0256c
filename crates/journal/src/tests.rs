//! What holds on the real file system.

use std::sync::Arc;

use biombo_base::io::RealIo;
use biombo_base::{ErrorKind, Result};

use crate::format::FORMAT_VERSION;
use crate::{Durability, Journal, JournalOptions, Lsn, Mode, Modes};

fn small(mode: Mode) -> JournalOptions {
    JournalOptions {
        segment_bytes: 16 << 10,
        recycle_segments_max: 2,
        modes: Modes::Always(mode),
        unsynced_segments_max: 0,
    }
}

fn open(dir: &std::path::Path, mode: Mode) -> (Journal, Vec<(Lsn, Vec<u8>)>) {
    let mut seen = Vec::new();
    let journal = Journal::open(RealIo::shared(), dir, small(mode), &mut |lsn, record| {
        seen.push((lsn, record.to_vec()));
        Ok(())
    });
    (journal.unwrap(), seen)
}

#[test]
fn records_of_every_size_come_back_in_order_through_segments_of_their_own_size() {
    for mode in [Mode::Direct, Mode::Buffered] {
        let dir = tempfile::tempdir().unwrap();
        let sizes = [0, 1, 7, 8, 4000, 4096, 12 << 10, 17 << 10, 3, 1 << 20, 0, 64 << 20, 5];
        let (journal, _) = open(dir.path(), mode);
        let mut expected = Vec::new();
        for (i, &size) in sizes.iter().enumerate() {
            let record: Vec<u8> = (0..size).map(|b| (b * 31 + i) as u8).collect();
            let durability = if i % 3 == 0 { Durability::Os } else { Durability::Sync };
            expected.push((journal.append(&record, durability).unwrap(), record));
        }
        drop(journal);
        let (journal, seen) = open(dir.path(), mode);
        assert!(seen == expected, "{mode:?}");
        assert_eq!(journal.next_lsn(), Lsn(1 + sizes.len() as u64));
        journal.trim(journal.next_lsn()).unwrap();
        journal.append(b"last", Durability::Sync).unwrap();
        journal.trim(journal.next_lsn()).unwrap();
        drop(journal);
        let (_, seen) = open(dir.path(), mode);
        assert_eq!(seen, [(Lsn(14), b"last".to_vec())]);
    }
}

#[test]
fn eight_threads_share_writes_and_every_record_is_there_after_reopening() {
    for mode in [Mode::Direct, Mode::Buffered] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = open(dir.path(), mode);
        let journal = Arc::new(journal);
        let per_thread = 200u64;
        let lsns: Vec<Vec<(Lsn, u64)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u64)
                .map(|t| {
                    let journal = Arc::clone(&journal);
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        for i in 0..per_thread {
                            let value = t << 32 | i;
                            let bytes = value.to_le_bytes();
                            let durability = if i % 4 == 3 { Durability::Os } else { Durability::Sync };
                            mine.push((journal.append_batch(&[&bytes, &bytes], durability).unwrap(), value));
                            if i % 50 == 0 {
                                journal.sync().unwrap();
                            }
                        }
                        mine
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stats = journal.stats();
        assert_eq!(stats.records, 2 * 8 * per_thread);
        drop(journal);
        let (_, seen) = open(dir.path(), mode);
        assert_eq!(seen.len() as u64, 2 * 8 * per_thread);
        let by_lsn: std::collections::HashMap<_, _> = seen.into_iter().collect();
        for thread in lsns {
            assert!(thread.is_sorted());
            for (lsn, value) in thread {
                assert_eq!(by_lsn[&lsn], value.to_le_bytes());
                assert_eq!(by_lsn[&lsn.plus(1)], value.to_le_bytes());
            }
        }
        assert!(stats.writes < 8 * per_thread, "no group was ever formed: {stats:?}");
    }
}

#[test]
fn trimmed_segments_are_reused_and_the_journal_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), Mode::Direct);
    for _ in 0..100 {
        let lsn = journal.append(&[1; 3000], Durability::Sync).unwrap();
        journal.trim(lsn).unwrap();
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files <= 1 + 2 + 2, "LOCK, two kept for reuse, two in use: {files}");
    assert!(journal.stats().file_bytes <= 4 * (16 << 10));
}

#[test]
fn a_second_owner_is_refused_and_a_bad_option_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_journal, _) = open(dir.path(), Mode::Direct);
    let second = Journal::open(RealIo::shared(), dir.path(), small(Mode::Direct), &mut |_, _| Ok(()));
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Busy);
    let odd = JournalOptions { segment_bytes: 10_000, ..small(Mode::Direct) };
    let other = tempfile::tempdir().unwrap();
    let refused: Result<_> = Journal::open(RealIo::shared(), other.path(), odd, &mut |_, _| Ok(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), Mode::Direct);
    journal.append(b"x", Durability::Sync).unwrap();
    drop(journal);
    let path = dir.path().join("0000000000000001.seg");
    let good = std::fs::read(&path).unwrap();
    let kind = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Journal::read(&RealIo::new(), dir.path(), &mut |_, _| Ok(())).map_err(|e| e.kind())
    };
    let mut newer = good.clone();
    newer[8] = FORMAT_VERSION as u8 + 1;
    assert_eq!(kind(&newer), Err(ErrorKind::Corruption), "a flipped bit in the version is damage");
    let crc = biombo_base::checksum::crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(kind(&newer), Err(ErrorKind::Unsupported));
    newer[8] = FORMAT_VERSION as u8 - 1;
    let crc = biombo_base::checksum::crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(kind(&newer), Err(ErrorKind::Unsupported), "an older one is not read any more");
    assert_eq!(kind(&good[..10]), Err(ErrorKind::Corruption));
    assert_eq!(kind(b""), Err(ErrorKind::Corruption));
    assert_eq!(kind(&good), Ok(Lsn(2)));
}
