use std::collections::HashSet;

use super::*;
use crate::io::AlignedBuf;

fn content(sim: &SimIo, path: &str) -> Option<Vec<u8>> {
    let file = sim.open(Path::new(path), OpenMode::READ).ok()?;
    let mut data = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut data, 0).unwrap();
    Some(data)
}

fn synced_file(sim: &SimIo) -> Arc<dyn File> {
    sim.create_dir_all(Path::new("d")).unwrap();
    let file = sim.open(Path::new("d/f"), OpenMode::CREATE_NEW).unwrap();
    file.write_at(b"old", 0).unwrap();
    file.sync().unwrap();
    sim.sync_dir(Path::new("d")).unwrap();
    sim.sync_dir(Path::new("")).unwrap();
    file
}

#[test]
fn what_was_not_synced_survives_in_every_combination_and_nothing_else_does() {
    let sim = SimIo::new(1);
    let file = synced_file(&sim);
    file.write_at(&[1; 512], 512).unwrap();
    file.write_at(&[2; 512], 1024).unwrap();
    let end = sim.event_count();
    let mut seen = HashSet::new();
    for seed in 0..2000 {
        let data = content(&sim.crash(end, Crash::Random(seed)), "d/f").unwrap();
        assert_eq!(&data[..3], b"old");
        assert!(matches!(data.len(), 3 | 1024 | 1536));
        let piece = |range: std::ops::Range<usize>| data.get(range).map(|piece| piece[0]);
        seen.insert((piece(512..1024), piece(1024..1536)));
    }
    // Written, zeros, or not even grown.
    let expected = [(None, None), (Some(0), None), (Some(1), None), (Some(0), Some(0)), (Some(1), Some(0))];
    assert!(expected.iter().all(|case| seen.contains(case)), "{seen:?}");
    assert!(seen.contains(&(Some(0), Some(2))) && seen.contains(&(Some(1), Some(2))), "{seen:?}");
    assert_eq!(content(&sim.crash(end, Crash::Nothing), "d/f").unwrap(), b"old");
    assert_eq!(content(&sim.crash(end, Crash::Everything), "d/f").unwrap().len(), 1536);
}

#[test]
fn names_are_lost_until_their_directory_is_synced() {
    let sim = SimIo::new(1);
    synced_file(&sim);
    sim.rename(Path::new("d/f"), Path::new("d/g")).unwrap();
    let cut = sim.event_count();
    assert_eq!(content(&sim.crash(cut, Crash::Nothing), "d/f").unwrap(), b"old");
    assert_eq!(content(&sim.crash(cut, Crash::Everything), "d/g").unwrap(), b"old");
    sim.sync_dir(Path::new("d")).unwrap();
    let after = sim.crash(cut + 1, Crash::Nothing);
    assert_eq!((content(&after, "d/f"), content(&after, "d/g").unwrap()), (None, b"old".to_vec()));
    // A synced file in a directory whose own name was never synced is out of reach.
    sim.create_dir_all(Path::new("e")).unwrap();
    sim.open(Path::new("e/x"), OpenMode::WRITE).unwrap().sync().unwrap();
    sim.sync_dir(Path::new("e")).unwrap();
    assert!(!sim.crash(sim.event_count(), Crash::Nothing).exists(Path::new("e/x")).unwrap());
}

#[test]
fn a_killed_process_leaves_its_writes_still_not_durable() {
    let sim = SimIo::new(1);
    synced_file(&sim).write_at(b"new", 0).unwrap();
    let killed = sim.crash(sim.event_count(), Crash::Kill);
    assert_eq!(content(&killed, "d/f").unwrap(), b"new");
    assert_eq!(content(&killed.crash(0, Crash::Nothing), "d/f").unwrap(), b"old", "and then the power goes");
    assert!(killed.try_lock(Path::new("d/L")).unwrap().is_some());
}

#[test]
fn a_direct_write_is_torn_only_while_it_is_in_flight() {
    let sim = SimIo::new(1);
    synced_file(&sim);
    let file = sim.open(Path::new("d/f"), OpenMode { direct_sync: true, ..OpenMode::WRITE }).unwrap();
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    block.fill(7);
    let cut = sim.event_count();
    file.write_at(&block, 0).unwrap();
    assert!(file.write_at(&block[..100], 0).is_err(), "an unaligned direct write is refused");
    let torn: HashSet<_> = (0..200).map(|seed| content(&sim.crash(cut, Crash::Random(seed)), "d/f")).collect();
    assert!(torn.len() > 30, "{}", torn.len());
    assert_eq!(content(&sim.crash(cut + 1, Crash::Nothing), "d/f").unwrap(), [7; BLOCK_BYTES]);
}

#[test]
fn a_failed_sync_loses_data_that_no_later_sync_brings_back() {
    let lost = (0..20).filter(|seed| {
        let sim = SimIo::new(*seed);
        let file = synced_file(&sim);
        file.write_at(b"new", 0).unwrap();
        sim.inject(Fault::at(sim.event_count(), FaultKind::Eio));
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(content(&sim, "d/f").unwrap(), b"new", "still to be seen");
        content(&sim.crash(sim.event_count(), Crash::Everything), "d/f").unwrap() == b"old"
    });
    assert!((1..20).contains(&lost.count()));
}

#[test]
fn a_failed_sync_of_a_directory_loses_names_that_no_later_sync_brings_back() {
    let sim = SimIo::new(1);
    synced_file(&sim);
    sim.rename(Path::new("d/f"), Path::new("d/g")).unwrap();
    sim.inject(Fault::at(sim.event_count(), FaultKind::LostNames));
    assert!(sim.sync_dir(Path::new("d")).is_err());
    sim.sync_dir(Path::new("d")).unwrap();
    assert_eq!(content(&sim, "d/g").unwrap(), b"old", "still to be seen");
    let after = sim.crash(sim.event_count(), Crash::Everything);
    assert_eq!(content(&after, "d/f").unwrap(), b"old");
    assert!(content(&after, "d/g").is_none());
}

#[test]
fn faults_strike_where_they_are_told_to() {
    let sim = SimIo::new(1);
    let file = synced_file(&sim);
    let wants_write = Arc::new(|info: &EventInfo| info.label == "write f");
    sim.inject(Fault { when: When::Matches(wants_write), kind: FaultKind::Short(2), times: 1 });
    let refused = file.write_at(b"xyz", 0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert_eq!(content(&sim, "d/f").unwrap(), b"xyd");
    sim.inject(Fault { when: When::Read(1), kind: FaultKind::Eio, times: 1 });
    let mut buf = [0; 3];
    assert!(
        file.read_at(&mut buf, 0).is_ok() && file.read_at(&mut buf, 0).is_err() && file.read_at(&mut buf, 0).is_ok()
    );
    sim.flip_bit(Path::new("d/f"), 0, 0).unwrap();
    assert_eq!(content(&sim, "d/f").unwrap(), b"yyd");
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let run = || {
        let sim = SimIo::new(9);
        synced_file(&sim).write_at(&[3; 5000], 100).unwrap();
        (0..50).map(|seed| sim.crash(sim.event_count(), Crash::Random(seed)).image_hash()).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn labels_name_the_step_not_the_file() {
    assert_eq!(label("write", Path::new("j/000000000000001a.seg")), "write #.seg");
    assert_eq!(label("sync", Path::new("MANIFEST-12.tmp")), "sync MANIFEST-#.tmp");
}
