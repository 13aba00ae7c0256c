//! What the conformance suite cannot see: the library's limits and damaged files.

use std::os::unix::fs::FileExt;

use super::*;

fn open(dir: &Path) -> Result<Arc<WiredTiger>> {
    WiredTiger::open(&OpenOptions::new(dir)).map(Arc::new)
}

fn put(engine: &WiredTiger, key: &[u8], value: &[u8]) -> Result<()> {
    engine.apply(&[Op::Put { key, value }], Durability::Os)
}

#[test]
fn a_value_larger_than_the_cache_comes_back_also_after_reopening() {
    // One GiB works too; it takes too long for a test that always runs.
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir.path()) };
    let engine = WiredTiger::open(&options).unwrap();
    let value: Vec<u8> = (0..64u32 << 20).map(|i| (i >> 3) as u8).collect();
    put(&engine, b"k", &value).unwrap();
    assert!(engine.get(b"k").unwrap().unwrap()[..] == value[..]);
    drop(engine);
    let engine = WiredTiger::open(&options).unwrap();
    assert!(engine.get(b"k").unwrap().unwrap()[..] == value[..]);
}

#[test]
fn a_lost_or_emptied_file_is_corruption_and_nothing_is_created_in_its_place() {
    for name in ["WiredTiger", "WiredTiger.turtle", "WiredTiger.wt", TABLE_FILE] {
        let dir = tempfile::tempdir().unwrap();
        put(&open(dir.path()).unwrap(), b"k", b"v").unwrap();
        let path = dir.path().join(name);
        let sound = fs::read(&path).unwrap();
        for damage in [None, Some(Vec::new()), Some(vec![0xa5; sound.len()])] {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = &damage {
                fs::write(&path, bytes).unwrap();
            }
            // The file WiredTiger only says that a database is here: its text does not matter.
            if name == "WiredTiger" && damage.as_ref().is_some_and(|bytes| !bytes.is_empty()) {
                fs::write(&path, &sound).unwrap();
                continue;
            }
            let refused = open(dir.path()).and_then(|engine| engine.get(b"k").map(drop)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corruption, "{name} {refused}");
            fs::write(&path, &sound).unwrap();
        }
    }
}

#[test]
fn verify_names_the_file_and_the_offset_of_a_damaged_block() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    for i in 0..2000u32 {
        put(&engine, &i.to_be_bytes(), &[7; 1000]).unwrap();
    }
    drop(engine);
    let path = dir.path().join(TABLE_FILE);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 100], 1 << 20).unwrap();
    let engine = open(dir.path()).unwrap();
    let mut damages = Vec::new();
    let keys = engine.verify(&mut |damage| damages.push(damage)).unwrap();
    assert!(keys < 2000);
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].file, path);
    assert!((1 << 20) - damages[0].offset < (64 << 10), "{damages:?}");
}

/// Fails when a range is deleted beside other writers: the log names it by its ends, so whoever replays it removes what came in between.
#[test]
fn what_is_put_while_a_range_is_deleted_is_there_after_recovery_as_it_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    let key = |writer: u8, number: u32| [&[b'm', writer][..], &number.to_be_bytes()].concat();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let engine = &engine;
            scope.spawn(move || (0..3_000).for_each(|number| put(engine, &key(writer, number), b"v").unwrap()));
        }
        for _ in 0..300 {
            put(&engine, b"a", b"v").unwrap();
            put(&engine, b"z", b"v").unwrap();
            engine.apply(&[Op::DeleteRange { from: b"a", to: Some(b"zz") }], Durability::Os).unwrap();
        }
    });
    engine.sync().unwrap();
    // As a kill would leave them: no checkpoint has been since the table was made.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let recovered = open(copy.path()).unwrap();
    let mut differ = Vec::new();
    for (writer, number) in (0..2).flat_map(|writer| (0..3_000).map(move |number| (writer, number))) {
        let key = key(writer, number);
        if engine.contains(&key).unwrap() != recovered.contains(&key).unwrap() {
            differ.push((writer, number));
        }
    }
    assert!(differ.is_empty(), "{} keys, the first of which is {:?}", differ.len(), differ[0]);
}

/// Fails when a healthy directory is called damaged because this process still has it, or because of an absurd cache.
#[test]
fn an_engine_that_failed_keeps_its_directory_busy_until_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    put(&open(dir.path()).unwrap(), b"k", b"v").unwrap();
    let absurd = OpenOptions { cache_bytes: u64::MAX, ..OpenOptions::new(dir.path()) };
    let engine = WiredTiger::open(&absurd).unwrap();
    assert!(engine.contains(b"k").unwrap());
    engine.poison.after(Error::poisoned("a disk that is broken"));
    drop(engine);
    let refused = open(dir.path()).map(drop).unwrap_err();
    assert!(refused.kind() == ErrorKind::Busy && refused.message().contains("end that, then open it"), "{refused}");
}
