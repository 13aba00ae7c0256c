//! The index of the log engine means the same as a `BTreeMap`, through images of it too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use biombo_base::{Error, ErrorKind, Result};
use biombo_log::index::{CHUNK_BYTES, Header, Index, Keys, Leaf, Loader};

use crate::Property;
use crate::input::Input;

/// Operations, one after the other.
pub const PROPERTY: Property = Property { name: "index_ops", holds, examples, cases: 150 };

/// A log that keeps keys only; a leaf is a place in it.
#[derive(Default)]
pub struct KeyLog(Mutex<Vec<Vec<u8>>>);

impl KeyLog {
    /// Add `key`.
    pub fn append(&self, key: &[u8]) -> Leaf {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key.to_vec());
        Leaf::new(keys.len() as u64 - 1).expect("invariant: a short history")
    }
}

impl Keys for KeyLog {
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let key = {
            let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            usize::try_from(leaf.get()).ok().and_then(|at| keys.get(at).cloned())
        };
        match key {
            Some(key) => Ok(f(&key)),
            None => Err(Error::new(ErrorKind::Corruption, "a leaf that leads nowhere")),
        }
    }
}

struct Chunks(Vec<Vec<u8>>);

impl Loader for Chunks {
    fn load(&self, number: usize, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0[number]);
        Ok(())
    }

    fn place(&self, number: usize) -> (PathBuf, u64) {
        ("image".into(), (number * CHUNK_BYTES) as u64)
    }
}

struct Subject {
    index: Index,
    log: KeyLog,
    model: BTreeMap<Vec<u8>, Leaf>,
}

const WHOLE: &str = "the index is whole";

impl Subject {
    fn insert(&mut self, key: &[u8]) {
        let leaf = self.log.append(key);
        let old = self.index.writer().insert(key, leaf, &self.log).expect(WHOLE);
        assert_eq!(old, self.model.insert(key.to_vec(), leaf), "insert {key:?}");
    }

    fn remove(&mut self, key: &[u8]) {
        let old = self.index.writer().remove(key, &self.log).expect(WHOLE);
        assert_eq!(old, self.model.remove(key), "remove {key:?}");
    }

    /// What a cleaner does: the record goes to another place.
    fn relocate(&mut self, key: &[u8]) {
        let new = self.log.append(key);
        let mut writer = self.index.writer();
        match self.model.get_mut(key) {
            Some(leaf) => {
                assert!(writer.replace(key, *leaf, new).expect(WHOLE), "relocate {key:?}");
                *leaf = new;
            }
            None => assert!(!writer.replace(key, new, new).expect(WHOLE)),
        }
    }

    /// A cursor goes where the model's ranges go.
    fn walk(&self, key: &[u8], input: &mut Input<'_>) {
        let leaves: Vec<Leaf> = self.model.values().copied().collect();
        let below = self.model.range(..key.to_vec()).count() as isize;
        let there = self.model.contains_key(key) as isize;
        let leaf = |at: isize| usize::try_from(at).ok().and_then(|at| leaves.get(at)).copied();
        let pin = self.index.pin();
        let found = pin.get(key).expect(WHOLE).filter(|leaf| self.log.with_key(*leaf, |k| k == key).unwrap_or(false));
        assert_eq!(found, self.model.get(key).copied(), "get {key:?}");
        let mut cursor = pin.cursor(&self.log);
        let (found, mut at) = match input.below(3) {
            0 => (cursor.seek(key), below),
            1 => (cursor.seek_after(key), below + there),
            _ => (cursor.seek_before(key), below - 1),
        };
        assert_eq!(found.expect(WHOLE), leaf(at), "seek {key:?}");
        for _ in 0..input.below(8) {
            let step = if input.once_in(2) { 1 } else { -1 };
            let found = if step > 0 { cursor.next() } else { cursor.prev() };
            at = (at + step).clamp(-1, leaves.len() as isize);
            assert_eq!(found.expect(WHOLE), leaf(at), "near {key:?}");
        }
    }

    fn check(&self) {
        assert_eq!(self.index.len(), self.model.len());
        self.index.verify().expect(WHOLE);
        let pin = self.index.pin();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut cursor = pin.cursor(&self.log);
        cursor.next_n(usize::MAX, &mut up).expect(WHOLE);
        cursor.prev_n(usize::MAX, &mut down).expect(WHOLE);
        down.reverse();
        assert!(up.iter().eq(self.model.values()), "forward: {up:?}, and {:?}", self.model);
        assert_eq!(up, down, "backward");
        let keys: Vec<&[u8]> = self.model.keys().map(Vec::as_slice).collect();
        let mut found = vec![None; keys.len()];
        pin.get_batch(&keys, &mut found).expect(WHOLE);
        assert!(found.into_iter().flatten().eq(self.model.values().copied()), "get_batch");
    }

    /// Go on from an image, into which a key may have come after the freeze: then it is not in there.
    fn reopen(&mut self, after: Option<&[u8]>) {
        let mut image = self.index.freeze().expect("no other image is made");
        if let Some(key) = after {
            let leaf = self.log.append(key);
            self.index.writer().insert(key, leaf, &self.log).expect(WHOLE);
        }
        let chunks = (0..image.chunks()).map(|number| image.chunk(number).expect(WHOLE)).collect();
        let header = image.finish().expect("all chunks were taken").encode();
        let header = Header::decode(&header).expect("it was just made");
        self.index = Index::from_image(header, Box::new(Chunks(chunks)));
    }
}

/// A key that makes nodes of every kind: short ones of any bytes, or a few that share much.
fn key(input: &mut Input<'_>) -> Vec<u8> {
    match input.below(4) {
        0 => vec![b'w', input.byte()],
        1 => [&b"a path that is longer than a node holds/"[..], &[input.byte() & 7, b'/', input.byte()]].concat(),
        _ => input.key(),
    }
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let mut subject = Subject { index: Index::new(), log: KeyLog::default(), model: BTreeMap::new() };
    for _ in 0..400 {
        if input.is_over() {
            break;
        }
        match input.below(24) {
            0..10 => subject.insert(&key(&mut input)),
            10..14 => subject.remove(&key(&mut input)),
            14 => {
                // A run of neighbours, so that nodes grow and shrink.
                let (first, count, step) = (input.byte(), input.below(64), 1 + input.byte() % 5);
                let remove = input.once_in(3);
                for n in 0..count as u8 {
                    let key = [b'w', first.wrapping_add(n.wrapping_mul(step))];
                    if remove { subject.remove(&key) } else { subject.insert(&key) }
                }
            }
            15 | 16 => subject.relocate(&key(&mut input)),
            17..21 => {
                let key = key(&mut input);
                subject.walk(&key, &mut input);
            }
            21 => subject.check(),
            22 => {
                let after = key(&mut input);
                subject.reopen(input.once_in(2).then_some(&after[..]));
            }
            _ => {
                if input.once_in(8) {
                    subject.index.writer().clear();
                    subject.model.clear();
                }
            }
        }
    }
    subject.check();
}

fn examples() -> Vec<Vec<u8>> {
    (0..8u8).map(|n| (0..300u32).map(|i| ((i * 41 + u32::from(n) * 67) >> 1) as u8).collect()).collect()
}
