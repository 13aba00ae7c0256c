use std::sync::Arc;

use super::*;
use crate::io::{AlignedBuf, BLOCK_BYTES};

#[test]
fn direct_writes_read_back_and_every_byte_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let io = RealIo::new();
    let path = dir.path().join("f");
    let file = io.open(&path, OpenMode { direct_sync: true, ..OpenMode::CREATE_NEW }).unwrap();
    file.allocate(64 << 10).unwrap();
    assert_eq!(file.len().unwrap(), 64 << 10);
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    block.fill(7);
    file.write_at(&block, 8192).unwrap();
    let reader = io.open(&path, OpenMode::READ).unwrap();
    let mut back = vec![0; 3 * BLOCK_BYTES];
    assert_eq!(reader.read_at(&mut back, 4096).unwrap(), 3 * BLOCK_BYTES);
    assert_eq!(&back[4096..8192], &[7; 4096]);
    assert!(back[..4096].iter().chain(&back[8192..]).all(|b| *b == 0));
    let counts = io.counts();
    assert_eq!((counts.written_bytes, counts.read_bytes, counts.writes), (4096, 12288, 1));
    assert_eq!(reader.read_at(&mut back, 60 << 10).unwrap(), 4 << 10, "a read stops at the end of the file");
}

#[test]
fn direct_reads_see_what_was_written_and_stop_at_an_end_within_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let io = RealIo::new();
    let path = dir.path().join("f");
    let content: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    let written = io.open(&path, OpenMode::CREATE_NEW).unwrap();
    written.write_at(&content, 0).unwrap();
    let reader = io.open(&path, OpenMode::READ_DIRECT).unwrap();
    let mut back = AlignedBuf::zeroed(4 * BLOCK_BYTES);
    for forgotten in [false, true] {
        assert_eq!(reader.read_at(&mut back, 0).unwrap(), content.len());
        assert_eq!(&back[..content.len()], &content[..], "forgotten: {forgotten}");
        assert_eq!(reader.read_at(&mut back[..BLOCK_BYTES], 8192).unwrap(), content.len() - 8192);
        assert_eq!(reader.read_at(&mut back[..BLOCK_BYTES], 12288).unwrap(), 0);
        written.sync().unwrap();
        written.uncache();
    }
}

#[test]
fn a_device_that_stops_within_a_block_is_an_error_and_never_the_end_of_the_file() {
    let mut buf = AlignedBuf::zeroed(4 * BLOCK_BYTES);
    let bad = 2 * BLOCK_BYTES + 512;
    // The kernel gives what lies before a bad place.
    let device = |buf: &mut [u8], at: u64| {
        assert!(at.is_multiple_of(BLOCK_BYTES as u64) && buf.len().is_multiple_of(BLOCK_BYTES), "not aligned");
        match (at as usize, at as usize + buf.len()) {
            (at, end) if at <= bad && end > bad => Ok(bad - at),
            _ => Ok(buf.len()),
        }
    };
    let read = |buf: &mut AlignedBuf, len| read_blocks(buf, 0, device, || Ok(len));
    assert!(read(&mut buf, 1 << 20).is_err());
    assert_eq!(read(&mut buf, bad as u64).unwrap(), bad, "there the file ends");
    buf.resize(2 * BLOCK_BYTES);
    assert_eq!(read(&mut buf, 1 << 20).unwrap(), 2 * BLOCK_BYTES, "what lies before it can be read");
}

/// As a child has it between its fork and the program that it is to become.
#[test]
fn a_lock_that_is_dropped_is_free_though_a_child_has_a_copy_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let held = RealLock::try_take(&path).unwrap().unwrap();
    let copy = held.file.try_clone().unwrap();
    assert!(RealLock::try_take(&path).unwrap().is_none());
    drop(held);
    assert!(RealLock::try_take(&path).unwrap().is_some());
    drop(copy);
}

#[test]
fn a_lock_excludes_a_second_holder_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let io = RealIo::new();
    let path = dir.path().join("LOCK");
    let held = io.try_lock(&path).unwrap();
    assert!(held.is_some());
    assert!(io.try_lock(&path).unwrap().is_none());
    drop(held);
    assert!(io.try_lock(&path).unwrap().is_some());
}

#[test]
fn names_behave_as_the_trait_says() {
    let dir = tempfile::tempdir().unwrap();
    let io: Arc<dyn Io> = RealIo::shared();
    let deep = dir.path().join("a/b");
    io.create_dir_all(&deep).unwrap();
    io.create_dir_all(&deep).unwrap();
    io.open(&deep.join("y"), OpenMode::CREATE_NEW).unwrap();
    assert_eq!(io.open(&deep.join("y"), OpenMode::CREATE_NEW).err().map(|e| e.kind()), Some(ErrorKind::AlreadyExists));
    io.open(&deep.join("x"), OpenMode::WRITE).unwrap().write_at(b"new", 0).unwrap();
    io.rename(&deep.join("x"), &deep.join("y")).unwrap();
    io.sync_dir(&deep).unwrap();
    assert_eq!(io.read_dir(&deep).unwrap(), [PathBuf::from("y")]);
    assert_eq!(io.open(&deep.join("y"), OpenMode::READ).unwrap().len().unwrap(), 3);
    assert!(io.open(&deep, OpenMode::READ).is_err(), "a directory is no file");
    io.remove_dir_all(&deep).unwrap();
    io.remove_dir_all(&deep).unwrap();
    assert!(!io.exists(&deep).unwrap());
}

#[test]
fn random_numbers_differ() {
    let io = RealIo::new();
    let numbers: std::collections::HashSet<_> = (0..1000).map(|_| io.random_u64()).collect();
    assert_eq!(numbers.len(), 1000);
}
