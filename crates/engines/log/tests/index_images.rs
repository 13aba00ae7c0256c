//! Images: what is written is the index at the instant of the freeze, whatever the writer does meanwhile; an index that begins
//! from one answers right or says that it is damaged.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use biombo_base::{Error, ErrorKind, Result};
use biombo_log::index::{CHUNK_BYTES, Header, Image, Index, Leaf, Loader};
use common::{Log, Random};

type Model = BTreeMap<Vec<u8>, Leaf>;

/// The chunks of an image in memory, with faults to order.
struct Chunks {
    bytes: Vec<Vec<u8>>,
    /// How many loads fail first.
    failing: AtomicUsize,
}

impl Loader for Chunks {
    fn load(&self, number: usize, bytes: &mut [u8]) -> Result<()> {
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(Error::new(ErrorKind::Io, "the device is tired"));
        }
        bytes.copy_from_slice(&self.bytes[number]);
        Ok(())
    }

    fn place(&self, number: usize) -> (PathBuf, u64) {
        ("image".into(), (number * CHUNK_BYTES) as u64)
    }
}

fn load(header: &[u8], bytes: Vec<Vec<u8>>) -> Index {
    let header = Header::decode(header).expect("a whole header");
    assert_eq!(header.chunks(), bytes.len());
    Index::from_image(header, Box::new(Chunks { bytes, failing: AtomicUsize::new(0) }))
}

/// Take all chunks of an image in some order.
fn write(mut image: Image<'_>, random: &mut Random, between: impl Fn()) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut order: Vec<usize> = (0..image.chunks()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    let mut chunks = vec![Vec::new(); order.len()];
    for number in order {
        chunks[number] = image.chunk(number).expect("there");
        assert_eq!(image.chunk(number).expect_err("only once").kind(), ErrorKind::Invalid);
        between();
    }
    (image.finish().expect("all were taken").encode(), chunks)
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(3) {
        0 => format!("path/{:04}/{}", random.below(500), random.below(40)).into_bytes(),
        1 => (random.next() % 60_000).to_be_bytes()[5..].to_vec(),
        _ => random.next().to_be_bytes()[..6].to_vec(),
    }
}

fn change(index: &Index, log: &Log, model: &mut Model, random: &mut Random, changes: usize) {
    for _ in 0..changes {
        if random.below(5) < 4 {
            let key = key(random);
            let leaf = log.append(&key);
            let old = index.writer().insert(&key, leaf, log).expect("good");
            assert_eq!(old, model.insert(key, leaf));
        } else if let Some(key) = model.range(key(random)..).next().map(|(key, _)| key.clone()) {
            assert_eq!(index.writer().remove(&key, log).expect("whole"), model.remove(&key));
        }
    }
}

fn check(index: &Index, log: &Log, model: &Model) {
    assert_eq!(index.len(), model.len());
    index.verify().expect("whole");
    let pin = index.pin();
    for (key, leaf) in model.iter().step_by(7) {
        assert_eq!(pin.get(key).expect("whole"), Some(*leaf));
    }
    let mut found = Vec::new();
    pin.cursor(log).next_n(usize::MAX, &mut found).expect("whole");
    assert!(found.iter().eq(model.values()), "the leaves differ");
}

#[test]
fn an_image_is_the_index_at_the_freeze_while_the_writer_goes_on() {
    let mut random = Random(11);
    let (mut index, log, mut model) = (Index::new(), Log::default(), Model::new());
    let mut most = 0;
    for round in 0..6 {
        change(&index, &log, &mut model, &mut random, 40_000);
        if round == 3 {
            index.writer().clear();
            model.clear();
            change(&index, &log, &mut model, &mut random, 2_000);
        }
        let image = index.freeze().expect("the first");
        assert_eq!(index.freeze().err().map(|e| e.kind()), Some(ErrorKind::Busy));
        let frozen = model.clone();
        let written = std::thread::scope(|scope| {
            let (log, index, mut order) = (&log, &index, Random(round));
            let checkpointer = scope.spawn(move || write(image, &mut order, std::thread::yield_now));
            if round == 4 {
                index.writer().clear();
                model.clear();
            }
            change(index, log, &mut model, &mut random, 15_000);
            checkpointer.join().expect("no panic")
        });
        most = most.max(written.1.len());
        check(&index, &log, &model);
        let loaded = load(&written.0, written.1);
        check(&loaded, &log, &frozen);
        // The next round's image is one of the index that began from this one, sometimes of an untouched one.
        let again = write(loaded.freeze().expect("the first"), &mut random, || ());
        (index, model) = (load(&again.0, again.1), frozen);
    }
    assert!(most > 3, "too few chunks to be a test: {most}");
}

#[test]
fn an_index_from_an_image_is_written_before_it_is_all_there() {
    let mut random = Random(12);
    let (index, log, mut model) = (Index::new(), Log::default(), Model::new());
    change(&index, &log, &mut model, &mut random, 120_000);
    let (header, chunks) = write(index.freeze().expect("the first"), &mut random, || ());
    assert!(chunks.len() > 3, "too few chunks to be a test: {}", chunks.len());
    let header = Header::decode(&header).expect("whole");
    assert_eq!(header.keys(), model.len() as u64);
    let index = Index::from_image(header, Box::new(Chunks { bytes: chunks, failing: AtomicUsize::new(1) }));
    let before = index.memory_bytes();
    let first = model.keys().next().expect("not empty").clone();
    assert_eq!(index.pin().get(&first).expect_err("the first load fails").kind(), ErrorKind::Io);
    assert_eq!(index.pin().get(&first).expect("the second does not"), model.get(&first).copied());
    assert!(index.memory_bytes() < before + 3 * CHUNK_BYTES, "one look-up loads few chunks");
    change(&index, &log, &mut model, &mut random, 20_000);
    check(&index, &log, &model);
    // A clear of what was never loaded, and an image after it.
    let (header, chunks) = write(index.freeze().expect("the first"), &mut random, || ());
    let index = load(&header, chunks);
    index.writer().clear();
    model.clear();
    change(&index, &log, &mut model, &mut random, 3_000);
    let (header, chunks) = write(index.freeze().expect("the first"), &mut random, || ());
    let index = load(&header, chunks);
    check(&index, &log, &model);
    // Every chunk of it, also those that only a clear has left.
    write(index.freeze().expect("the first"), &mut random, || ());
    index.verify().expect("whole");
}

#[test]
fn the_header_of_an_empty_index_is_as_the_format_page_says() {
    let index = Index::new();
    let header = index.freeze().expect("the first").finish().expect("no chunks").encode();
    let mut expected = b"BIOMBOIX\x01\0\0\0\x0e\0\0\0".to_vec();
    expected.resize(40, 0);
    assert_eq!((&header[..40], header.len()), (&expected[..], 44));
    check(&load(&header, Vec::new()), &Log::default(), &Model::new());
}

#[test]
fn an_image_that_is_dropped_lets_the_next_one_be_made() {
    let mut random = Random(13);
    let (index, log, mut model) = (Index::new(), Log::default(), Model::new());
    change(&index, &log, &mut model, &mut random, 5_000);
    drop(index.freeze().expect("the first"));
    change(&index, &log, &mut model, &mut random, 5_000);
    let image = index.freeze().expect("the last one is gone");
    assert_eq!(image.finish().expect_err("nothing was taken").kind(), ErrorKind::Invalid);
    let (header, chunks) = write(index.freeze().expect("again"), &mut random, || ());
    check(&load(&header, chunks), &log, &model);
}

#[test]
fn a_damaged_image_gives_errors_or_right_answers() {
    let mut random = Random(14);
    let (index, log, mut model) = (Index::new(), Log::default(), Model::new());
    change(&index, &log, &mut model, &mut random, 80_000);
    let (header, chunks) = write(index.freeze().expect("the first"), &mut random, || ());
    for at in 0..header.len() * 8 {
        let mut header = header.clone();
        header[at / 8] ^= 1 << (at % 8);
        let error = Header::decode(&header).expect_err("a flipped bit");
        assert!(matches!(error.kind(), ErrorKind::Corruption), "{error}");
    }
    for cut in 0..header.len() {
        assert!(Header::decode(&header[..cut]).is_err());
    }
    for damaged in 0..chunks.len() {
        let mut chunks = chunks.clone();
        chunks[damaged][random.below(CHUNK_BYTES)] ^= 1 << random.below(8);
        let index = load(&header, chunks);
        let (mut errors, mut answers) = (0, 0);
        for (key, leaf) in &model {
            match index.pin().get(key) {
                Ok(found) => {
                    assert_eq!(found, Some(*leaf));
                    answers += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    assert_eq!(error.place().map(|(_, at)| at), Some((damaged * CHUNK_BYTES) as u64));
                    errors += 1;
                }
            }
        }
        assert!(errors > 0, "chunk {damaged} was needed by none of {answers} keys");
        let mut writer = index.writer();
        for key in model.keys().step_by(97) {
            if let Ok(removed) = writer.remove(key, &log) {
                assert_eq!(removed, model.get(key).copied());
            }
        }
    }
}

/// Damage that somebody has given right checksums: any answer or error may come, but no panic and nothing worse.
#[test]
fn a_damaged_image_with_right_checksums_is_survived() {
    let mut random = Random(15);
    let (index, log, mut model) = (Index::new(), Log::default(), Model::new());
    change(&index, &log, &mut model, &mut random, 4_000);
    let (header, chunks) = write(index.freeze().expect("the first"), &mut random, || ());
    let (log, found) = (&log, Mutex::new(Vec::new()));
    for _ in 0..60 {
        let (mut header, mut chunks) = (header.clone(), chunks.clone());
        for (number, chunk) in chunks.iter_mut().enumerate() {
            // Mostly where nodes are: behind the bitmap, in words that are not zero.
            for _ in 0..200 {
                let at = random.below(CHUNK_BYTES);
                if chunk[at] != 0 {
                    chunk[at] =
                        if random.below(2) == 0 { chunk[at] ^ (1 << random.below(8)) } else { random.next() as u8 };
                }
            }
            let checksum = biombo_base::checksum::crc32c(chunk);
            header[40 + number * 4..][..4].copy_from_slice(&checksum.to_le_bytes());
        }
        let end = header.len() - 4;
        let checksum = biombo_base::checksum::crc32c(&header[..end]);
        header[end..].copy_from_slice(&checksum.to_le_bytes());
        let index = load(&header, chunks);
        for (key, _) in model.iter().step_by(3) {
            let pin = index.pin();
            let _ = pin.get(key);
            let mut cursor = pin.cursor(log);
            let mut leaves = found.lock().expect("no panic");
            leaves.clear();
            let _ = cursor.seek(key).and_then(|_| cursor.next_n(20, &mut leaves));
            let _ = cursor.seek_before(key).and_then(|_| cursor.prev_n(20, &mut leaves));
        }
        for key in model.keys().step_by(5) {
            let mut writer = index.writer();
            let _ = writer.remove(key, log);
            let near = [&key[..], b"x"].concat();
            let leaf = log.append(&near);
            let _ = writer.insert(&near, leaf, log);
            let _ = writer.replace(&near, leaf, leaf);
        }
        let image = index.freeze().expect("the first");
        let _ = write(image, &mut random, || ());
        let _ = index.verify();
        index.writer().clear();
    }
}
