//! Images of the index, without the files around them: damaged nodes with right checksums, read and written.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use biombo_base::Result;
use biombo_log::index::{CHUNK_BYTES, Header, Index, Leaf, Loader};

use crate::input::Input;
use crate::sequence::index::KeyLog;
use crate::{Property, blames_the_bytes, seal};

/// Damage to the header and to words of nodes, then what is asked of the index.
pub const PROPERTY: Property = Property { name: "index_image", holds, examples, cases: 60 };

struct Whole {
    header: Vec<u8>,
    chunk: Vec<u8>,
    /// Where the chunk has words.
    words: Vec<usize>,
    keys: Vec<Vec<u8>>,
}

struct Chunk(Vec<u8>);

impl Loader for Chunk {
    fn load(&self, _: usize, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }

    fn place(&self, _: usize) -> (PathBuf, u64) {
        ("image".into(), 0)
    }
}

/// Keys that make nodes of every kind.
fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let fine = "invariant: the index is whole";
        let (index, log) = (Index::new(), KeyLog::default());
        let all = (0..=255u8).map(|n| vec![b'w', n]);
        let some = (0..40u8).map(|n| vec![b'm', n, n]);
        let few = (0..300u32).map(|n| format!("a long way to go/{}/{n}", n % 5).into_bytes());
        let keys: Vec<Vec<u8>> = all.chain(some).chain(few).collect();
        for key in &keys {
            index.writer().insert(key, log.append(key), &log).expect(fine);
        }
        let mut image = index.freeze().expect(fine);
        assert_eq!(image.chunks(), 1);
        let chunk = image.chunk(0).expect(fine);
        let header = image.finish().expect(fine).encode();
        let words = (0..CHUNK_BYTES).step_by(8).filter(|at| chunk[*at..at + 8] != [0; 8]).collect();
        Whole { header, chunk, words, keys }
    })
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let Whole { header, chunk, words, keys } = whole();
    let (mut header, mut chunk) = (header.clone(), chunk.clone());
    for _ in 0..1 + input.below(16) {
        let word = words[input.below(words.len())];
        match input.below(6) {
            0 => header[16 + input.below(24)] = input.byte(),
            1 => chunk[word..word + 8].copy_from_slice(&input.u64().to_le_bytes()),
            2 => {
                // One word for another: references that go round, or meet.
                let other = words[input.below(words.len())];
                chunk.copy_within(other..other + 8, word);
            }
            3 => chunk[word + input.below(8)] = input.byte(),
            _ => chunk[word + input.below(8)] ^= 1 << input.below(8),
        }
    }
    seal::image_header(&mut header, &chunk);
    let header = match Header::decode(&header) {
        Ok(header) => header,
        Err(error) => return blames_the_bytes(&error, "decode the header of an image"),
    };
    let index = Index::from_image(header, Box::new(Chunk(chunk)));
    let log = KeyLog::default();
    for key in keys {
        log.append(key);
    }
    let found = Mutex::new(Vec::<Leaf>::new());
    let _ = index.verify();
    for _ in 0..24 {
        let key = &keys[input.below(keys.len())];
        ask(&index, &log, key, &found, &mut input);
    }
    if let Ok(mut image) = index.freeze() {
        for number in 0..image.chunks() {
            let _ = image.chunk(number);
        }
    }
    index.writer().clear();
}

fn ask(index: &Index, log: &KeyLog, key: &[u8], found: &Mutex<Vec<Leaf>>, input: &mut Input<'_>) {
    let mut leaves = found.lock().expect("invariant: one thread");
    leaves.clear();
    let pin = index.pin();
    let asked = match input.below(6) {
        0 => pin.get(key).map(|_| ()),
        1 => {
            let mut cursor = pin.cursor(log);
            cursor.seek(key).and_then(|_| cursor.next_n(20, &mut leaves)).map(|_| ())
        }
        2 => {
            let mut cursor = pin.cursor(log);
            cursor.seek_before(key).and_then(|_| cursor.prev_n(20, &mut leaves)).map(|_| ())
        }
        3 => {
            drop(pin);
            index.writer().remove(key, log).map(|_| ())
        }
        4 => {
            drop(pin);
            let near = [key, b"x"].concat();
            index.writer().insert(&near, log.append(&near), log).map(|_| ())
        }
        _ => {
            drop(pin);
            let leaf = log.append(key);
            index.writer().replace(key, leaf, leaf).map(|_| ())
        }
    };
    if let Err(error) = asked {
        blames_the_bytes(&error, "ask the index");
    }
}

fn examples() -> Vec<Vec<u8>> {
    (0..6u8).map(|n| (0..60u32).map(|i| ((i * 29 + u32::from(n) * 83) >> 1) as u8).collect()).collect()
}
