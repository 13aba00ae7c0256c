//! How many files a log of many segments has open: a handful, while it is written and while it is opened again. The limit is 1,024 by default.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::{Io, RealIo};
use biombo_journal::{Durability, Log, LogOptions, Lsn, Mode, Modes, Position};

const SEGMENTS: usize = 60;
/// The active segment, the lock, the manifest, and what one operation opens.
const OPEN_MAX: usize = 12;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Fails when each sealed segment keeps a file open, or when all are opened at once to recover the log. This is the only test here: others would open
/// files of their own.
#[test]
fn a_log_of_many_segments_has_a_handful_of_files_open() {
    for mode in [Mode::Mapped, Mode::Direct, Mode::Buffered] {
        let dir = tempfile::tempdir().unwrap();
        let options = || LogOptions {
            segment_bytes: 8192,
            first_segment_bytes: 8192,
            recycle_segments_max: 1,
            modes: Modes::Always(mode),
            unsynced_segments_max: 2,
            ..LogOptions::default()
        };
        let io: Arc<dyn Io> = RealIo::shared();
        let before = open_files();
        let (mut log, reader) =
            Log::open(Arc::clone(&io), dir.path(), options(), &mut |_: Position, _: Lsn, _: &[u8]| Ok(())).unwrap();
        let mut appended = 0u64;
        while log.segments().len() < SEGMENTS {
            let durability = if appended % 50 == 49 { Durability::Sync } else { Durability::Os };
            log.append(&[&[&[7; 700]]], durability, &mut Vec::new()).unwrap();
            appended += 1;
            assert!(open_files() <= before + OPEN_MAX, "{mode:?}: {} files are open", open_files() - before);
        }
        drop((log, reader));
        let (mut most, mut found) = (0usize, 0u64);
        let mut replay = |_: Position, _: Lsn, _: &[u8]| {
            (most, found) = (most.max(open_files()), found + 1);
            Ok(())
        };
        Log::read(&*io, Path::new(dir.path()), &mut replay).unwrap();
        assert_eq!(found, appended, "{mode:?}");
        assert!(most <= before + OPEN_MAX, "{mode:?}: {} files are open while it is read", most - before);
    }
}
