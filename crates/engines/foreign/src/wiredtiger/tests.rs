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
