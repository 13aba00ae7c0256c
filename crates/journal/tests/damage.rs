//! Bits that flip at rest: damage is reported, and never comes back as data.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_journal::{Durability, JournalOptions, Mode, Modes};
use common::{Model, open};

#[test]
fn after_a_clean_close_a_flipped_bit_is_corruption_or_harmless() {
    let mut random = Random(5);
    for mode in [Mode::Direct, Mode::Buffered] {
        let options = JournalOptions {
            segment_bytes: 64 << 10,
            recycle_segments_max: 1,
            modes: Modes::Always(mode),
            unsynced_segments_max: 0,
        };
        let sim = SimIo::new(1);
        sim.create_dir_all(Path::new("store")).unwrap();
        let mut model = Model::new();
        let (journal, _) = open(Arc::new(sim.clone()), &options).unwrap();
        for i in 0..60u8 {
            let records = vec![vec![i; random.below(3000) as usize]; 1 + i as usize % 2];
            let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
            journal.append_batch(&slices, Durability::Sync).unwrap();
            model.push(&records);
        }
        model.durable_now(0);
        drop(journal);
        let files: Vec<_> = sim.files().into_iter().filter(|(path, _)| path.extension().is_some()).collect();
        assert!(files.len() > 1);
        let (mut corrupt, mut harmless) = (0, 0);
        for round in 0..3000u64 {
            let (path, bytes) = &files[random.below(files.len() as u64) as usize];
            // Headers are small: visit them on purpose.
            let offset = if round % 4 == 0 { random.below(64) } else { random.below(*bytes) };
            let image = sim.crash(usize::MAX, Crash::Kill);
            image.flip_bit(path, offset, random.next() as u8).unwrap();
            match open(Arc::new(image), &options) {
                Ok((_, seen)) => {
                    model.check(usize::MAX, true, &seen).map_err(|e| format!("{path:?} at {offset}: {e}")).unwrap();
                    harmless += 1;
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{path:?} at {offset}: {e}");
                    assert!(e.place().is_some_and(|(file, _)| file == path), "{path:?} at {offset}: {e}");
                    corrupt += 1;
                }
            }
        }
        assert!(corrupt > 500 && harmless > 50, "{mode:?}: {corrupt} found, {harmless} in padding");
    }
}

#[test]
fn a_missing_segment_is_named() {
    let options = JournalOptions {
        segment_bytes: 8 << 10,
        recycle_segments_max: 1,
        modes: Modes::Always(Mode::Direct),
        unsynced_segments_max: 0,
    };
    let sim = SimIo::new(1);
    sim.create_dir_all(Path::new("store")).unwrap();
    let (journal, _) = open(Arc::new(sim.clone()), &options).unwrap();
    for _ in 0..4 {
        journal.append(&[1; 3000], Durability::Sync).unwrap();
    }
    drop(journal);
    let missing = Path::new("store/journal/0000000000000002.seg");
    sim.remove_file(missing).unwrap();
    let error = open(Arc::new(sim), &options).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Corruption, Some((missing, 0))));
}
