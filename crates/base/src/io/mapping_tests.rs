use std::path::Path;

use super::*;
use crate::io::sim::{Crash, SimIo};
use crate::io::{File, Io, OpenMode, RealIo};

fn allocated(io: &dyn Io, path: &Path, bytes: u64) -> Arc<dyn File> {
    let file = io.open(path, OpenMode::WRITE).unwrap();
    file.allocate(bytes).unwrap();
    file
}

fn on_both(check: impl Fn(&dyn Io, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    check(&RealIo::new(), &dir.path().join("f"));
    check(&SimIo::new(1), Path::new("f"));
}

#[test]
fn what_is_appended_is_read_through_the_mapping_and_through_the_file() {
    on_both(|io, path| {
        let file = allocated(io, path, 10_000);
        let mapping = file.map(10_000, 100, true).unwrap();
        assert_eq!((mapping.capacity(), mapping.committed()), (10_000, 100));
        let mut writer = mapping.writer().unwrap();
        assert!(mapping.writer().is_none(), "a second writer");
        mapping.populate(0, u64::MAX).unwrap();
        mapping.advise(5000, 100, Advice::WillNeed).unwrap();
        writer.append_at(100, &[b"abc", b"", &[7; 5000]]).unwrap();
        writer.tail(3).unwrap().copy_from_slice(b"xyz");
        assert_eq!(mapping.slice(5103, 1), None, "filled and not committed");
        writer.commit(3).unwrap();
        assert_eq!(mapping.slice(100, 4), Some(&b"abc\x07"[..]));
        assert_eq!(mapping.slice(5102, 4), Some(&b"\x07xyz"[..]));
        assert_eq!(mapping.slice(5106, 0), Some(&b""[..]));
        for (offset, bytes) in [(5106, 1), (0, 5107), (u64::MAX, 2), (2, u64::MAX)] {
            assert_eq!(mapping.slice(offset, bytes), None);
        }
        let mut back = [0; 4];
        file.read_at(&mut back, 5102).unwrap();
        assert_eq!(&back, b"\x07xyz");
        drop(writer);
        assert!(mapping.writer().is_some(), "the writer's right is given back");
        let again = io.open(path, OpenMode::READ).unwrap().map(10_000, 10_000, false).unwrap();
        assert_eq!(again.slice(100, 3), Some(&b"abc"[..]));
        assert!(again.writer().is_none(), "a read-only mapping");
    });
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    on_both(|io, path| {
        let file = allocated(io, path, 4096);
        for (bytes, committed) in [(0, 0), (4097, 0), (4096, 4097), (u64::MAX, 0)] {
            assert_eq!(file.map(bytes, committed, true).unwrap_err().kind(), ErrorKind::InvalidInput, "{bytes}");
        }
        let reader = io.open(path, OpenMode::READ).unwrap();
        assert!(reader.map(4096, 0, true).is_err(), "a file opened for reading is not mapped for writing");
        let mapping = file.map(4096, 0, true).unwrap();
        let mut writer = mapping.writer().unwrap();
        assert_eq!(writer.append_at(1, &[b"x"]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(writer.append_at(0, &[&[0; 4096], b"x"]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(writer.commit(4097).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(writer.tail(4097).is_none());
        assert_eq!(mapping.committed(), 0);
        drop(writer);
        let mut mapping = mapping;
        assert!(Arc::get_mut(&mut mapping).unwrap().reset(4097).is_err());
    });
}

#[test]
fn a_mapping_is_used_again_only_when_nobody_reads_it() {
    let mut mapping = Mapping::anonymous(8192).unwrap();
    let mut writer = mapping.writer().unwrap();
    writer.append_at(0, &[&[1; 8192]]).unwrap();
    assert!(Arc::get_mut(&mut mapping).is_none(), "the writer holds it");
    drop(writer);
    Arc::get_mut(&mut mapping).unwrap().reset(10).unwrap();
    assert_eq!((mapping.slice(0, 11), mapping.slice(0, 10)), (None, Some(&[1; 10][..])));
    mapping.writer().unwrap().append_at(10, &[b"new"]).unwrap();
    assert_eq!(mapping.slice(9, 4), Some(&b"\x01new"[..]));
}

#[test]
fn a_store_survives_a_kill_and_is_lost_or_torn_by_a_power_cut_until_it_is_synced() {
    let sim = SimIo::new(1);
    let file = allocated(&sim, Path::new("f"), 8192);
    file.sync().unwrap();
    sim.sync_dir(Path::new("")).unwrap();
    let mapping = file.map(8192, 0, true).unwrap();
    mapping.writer().unwrap().append_at(0, &[&[1; 2048]]).unwrap();
    let content = |sim: &SimIo| {
        let mut data = vec![0; 2048];
        sim.open(Path::new("f"), OpenMode::READ).unwrap().read_at(&mut data, 0).unwrap();
        data
    };
    let end = sim.event_count();
    assert_eq!(content(&sim.crash(end, Crash::Kill)), [1; 2048]);
    let half = content(&sim.crash(end - 1, Crash::Kill));
    assert!(half.contains(&0) && half.contains(&1), "a process may die in the middle of a store");
    assert_eq!(content(&sim.crash(end, Crash::Nothing)), [0; 2048]);
    let torn = (0..100).filter(|seed| {
        let data = content(&sim.crash(end, Crash::Random(*seed)));
        data[..512] != data[512..1024]
    });
    assert!(torn.count() > 5, "pages of a mapping are written in any order");
    file.sync().unwrap();
    assert_eq!(content(&sim.crash(end + 1, Crash::Nothing)), [1; 2048]);
    file.set_len(1000).unwrap();
    assert!(mapping.writer().unwrap().append_at(2048, &[b"x"]).is_err(), "the file was cut off");
}

#[test]
fn readers_see_whole_appends_while_the_writer_goes_on() {
    let mapping = Mapping::anonymous(1 << 20).unwrap();
    let mut writer = mapping.writer().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 1 << 20 {
                    seen = mapping.committed();
                    assert_eq!(seen % 64, 0);
                    if let Some(at) = seen.checked_sub(64) {
                        let record = mapping.slice(at, 64).unwrap();
                        assert!(record.iter().all(|byte| *byte == (at / 64 % 251) as u8 + 1), "at {at}");
                    }
                }
            });
        }
        for i in 0..(1u64 << 20) / 64 {
            writer.append_at(i * 64, &[&[(i % 251) as u8 + 1; 64]]).unwrap();
        }
    });
}
