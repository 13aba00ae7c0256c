//! The index means the same as a `BTreeMap`: random sequences of every operation, over keys that make every kind of node and
//! every way of sharing bytes.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use biombo_log::index::{Index, KEY_BYTES_MAX, Leaf, Pin};
use common::{Log, Random};
use proptest::prelude::*;

struct Subject {
    index: Index,
    log: Log,
    model: BTreeMap<Vec<u8>, Leaf>,
}

impl Subject {
    fn new() -> Self {
        Self { index: Index::new(), log: Log::default(), model: BTreeMap::new() }
    }

    fn insert(&mut self, key: &[u8]) {
        let leaf = self.log.append(key);
        let old = self.index.writer().insert(key, leaf, &self.log).expect("a good key");
        assert_eq!(old, self.model.insert(key.to_vec(), leaf), "insert {key:?}");
    }

    fn remove(&mut self, key: &[u8]) {
        let old = self.index.writer().remove(key, &self.log).expect("a whole index");
        assert_eq!(old, self.model.remove(key), "remove {key:?}");
    }

    /// What a cleaner does: the record goes to another place.
    fn relocate(&mut self, key: &[u8]) {
        let new = self.log.append(key);
        let mut writer = self.index.writer();
        match self.model.get_mut(key) {
            Some(leaf) => {
                assert!(!writer.replace(key, new, *leaf).expect("whole"), "it does not lead to that leaf");
                assert!(writer.replace(key, *leaf, new).expect("whole"));
                *leaf = new;
            }
            None => assert!(!writer.replace(key, new, new).expect("whole")),
        }
    }

    /// The exact answer: a candidate whose key in the log is the wanted one.
    fn get(&self, pin: &Pin<'_>, key: &[u8]) -> Option<Leaf> {
        pin.get(key).expect("whole").filter(|leaf| self.log.key(*leaf) == key)
    }

    fn check_point(&self, key: &[u8]) {
        let pin = self.index.pin();
        assert_eq!(self.get(&pin, key), self.model.get(key).copied(), "get {key:?}");
        // The leaves in order; a cursor stands at -1 (before the first) to their number (behind the last).
        let leaves: Vec<Leaf> = self.model.values().copied().collect();
        let at_or_after = self.model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).count();
        let after = at_or_after + usize::from(self.model.contains_key(key));
        let leaf = |at: isize| usize::try_from(at).ok().and_then(|at| leaves.get(at)).copied();
        let end = leaves.len() as isize;
        let mut cursor = pin.cursor(&self.log);
        let mut turns = 0b0110_1001_1100u32;
        for (seek, at) in
            [("at", at_or_after as isize), ("after", after as isize), ("before", at_or_after as isize - 1)]
        {
            let found = match seek {
                "at" => cursor.seek(key),
                "after" => cursor.seek_after(key),
                _ => cursor.seek_before(key),
            };
            assert_eq!(found.expect("whole"), leaf(at), "seek {seek} {key:?}");
            let mut at = at;
            for _ in 0..5 {
                let forward = turns & 1 == 1;
                turns = turns.rotate_right(1);
                let found = if forward { cursor.next() } else { cursor.prev() };
                at = (at + if forward { 1 } else { -1 }).clamp(-1, end);
                assert_eq!(found.expect("whole"), leaf(at), "near {key:?}");
            }
        }
        for n in [1, 5, 60] {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            cursor.seek_before(key).expect("whole");
            assert_eq!(cursor.next_n(n, &mut up).expect("whole"), up.len());
            assert_eq!(up, leaves[at_or_after..].iter().take(n).copied().collect::<Vec<_>>(), "next_n from {key:?}");
            cursor.seek(key).expect("whole");
            cursor.prev_n(n, &mut down).expect("whole");
            assert_eq!(down, leaves[..at_or_after].iter().rev().take(n).copied().collect::<Vec<_>>(), "prev_n");
        }
    }

    fn check_all(&self) {
        assert_eq!(self.index.len(), self.model.len());
        self.index.verify().expect("whole");
        let pin = self.index.pin();
        let expected: Vec<Leaf> = self.model.values().copied().collect();
        let mut cursor = pin.cursor(&self.log);
        let mut found = Vec::new();
        while let Some(leaf) = cursor.next().expect("whole") {
            found.push(leaf);
        }
        assert_eq!(found, expected);
        found.clear();
        while let Some(leaf) = cursor.prev().expect("whole") {
            found.push(leaf);
        }
        found.reverse();
        assert_eq!(found, expected);
        for n in [1, 7, usize::MAX] {
            let (mut forward, mut backward) = (Vec::new(), Vec::new());
            let mut cursor = pin.cursor(&self.log);
            while cursor.next_n(n, &mut forward).expect("whole") == n {}
            while cursor.prev_n(n, &mut backward).expect("whole") == n {}
            backward.reverse();
            assert_eq!((&forward, &backward), (&expected, &expected), "{n} at a time");
        }
        let keys: Vec<&[u8]> = self.model.keys().map(Vec::as_slice).collect();
        let mut found = vec![None; keys.len()];
        pin.get_batch(&keys, &mut found).expect("whole");
        assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected);
    }
}

/// Keys that share much: few letters, long runs, prefixes of one another, every byte at one place.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop::collection::vec(prop::sample::select(vec![0u8, 1, 254, 255]), 1..6);
    let run = (1usize..40, 0u8..2, any::<u8>()).prop_map(|(n, byte, end)| {
        let mut key = vec![byte; n];
        key.push(end);
        key
    });
    let wide = any::<[u8; 2]>().prop_map(|[a, b]| vec![a & 1, b]);
    let path =
        prop::collection::vec(prop::sample::select(vec!["usr", "usr2", "lib", "a", "a-long-name", "share"]), 1..6)
            .prop_map(|parts| parts.join("/").into_bytes());
    let prefix = (0usize..60).prop_map(|n| b"0123456789".iter().cycle().take(n + 1).copied().collect());
    prop_oneof![4 => letters, 3 => run, 4 => wide, 3 => path, 2 => prefix]
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    RemoveNear(Vec<u8>),
    Relocate(Vec<u8>),
    Check(Vec<u8>),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => key().prop_map(Op::Insert),
        2 => key().prop_map(Op::Remove),
        4 => key().prop_map(Op::RemoveNear),
        1 => key().prop_map(Op::Relocate),
        4 => key().prop_map(Op::Check),
        1 => prop::bool::weighted(0.1).prop_map(|clear| if clear { Op::Clear } else { Op::Insert(vec![1, 2, 3]) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_operations_means_the_same_as_on_an_ordered_map(ops in prop::collection::vec(op(), 1..300)) {
        let mut subject = Subject::new();
        for op in ops {
            match op {
                Op::Insert(key) => subject.insert(&key),
                Op::Remove(key) => subject.remove(&key),
                Op::RemoveNear(key) => {
                    let near = subject.model.range(key..).next().map(|(key, _)| key.clone());
                    if let Some(key) = near {
                        subject.remove(&key);
                    }
                }
                Op::Relocate(key) => subject.relocate(&key),
                Op::Check(key) => subject.check_point(&key),
                Op::Clear => {
                    subject.index.writer().clear();
                    subject.model.clear();
                }
            }
        }
        subject.check_all();
    }
}

#[test]
fn many_keys_come_and_go_through_every_kind_of_node() {
    for (seed, bytes, spread) in [(1, 16, 256), (2, 3, 200), (3, 9, 3), (4, 4, 60)] {
        let mut subject = Subject::new();
        let mut random = Random(seed);
        let keys: Vec<Vec<u8>> = (0..6000).map(|_| (0..bytes).map(|_| random.below(spread) as u8).collect()).collect();
        for key in &keys {
            subject.insert(key);
        }
        for key in keys.iter().take(300) {
            subject.check_point(key);
        }
        subject.check_all();
        for (i, key) in keys.iter().enumerate() {
            subject.remove(key);
            if i % 1500 == 7 {
                subject.check_all();
                keys.iter().skip(i - 5).take(40).for_each(|key| subject.check_point(key));
            }
        }
        assert!(subject.index.is_empty());
        subject.check_all();
    }
}

#[test]
fn a_workload_that_goes_on_for_ever_needs_no_more_memory_for_ever() {
    let (index, log, mut random) = (Index::new(), Log::default(), Random(9));
    let mut keys: Vec<[u8; 8]> = (0..20_000).map(|_| random.next().to_be_bytes()).collect();
    let leaf: Vec<Leaf> = keys.iter().map(|key| log.append(key)).collect();
    let mut writer = index.writer();
    for (key, leaf) in keys.iter().zip(&leaf) {
        writer.insert(key, *leaf, &log).expect("good");
    }
    drop(writer);
    let before = index.memory_bytes();
    for round in 0..5 {
        for key in &mut keys {
            index.writer().remove(key, &log).expect("whole").expect("there");
            *key = random.next().to_be_bytes();
            index.writer().insert(key, log.append(key), &log).expect("good");
        }
        assert!(index.memory_bytes() < before * 2, "round {round}: {} from {before}", index.memory_bytes());
    }
    for _ in 0..20 {
        index.writer().clear();
        for key in &keys {
            index.writer().insert(key, log.append(key), &log).expect("good");
        }
    }
    assert!(index.memory_bytes() < before * 3, "{} from {before}", index.memory_bytes());
}

#[test]
fn keys_of_64_kib_are_indexed_and_longer_or_empty_ones_refused() {
    let mut subject = Subject::new();
    let long = |n: usize, end: u8| {
        let mut key = vec![b'x'; n];
        *key.last_mut().expect("not empty") = end;
        key
    };
    let mut keys = vec![long(KEY_BYTES_MAX, b'x'), long(KEY_BYTES_MAX, b'a'), long(KEY_BYTES_MAX - 1, b'x')];
    keys.extend((1..200).map(|i| vec![b'x'; i * 300]));
    keys.extend((1..50).map(|i| long(i * 1300, b'z')));
    for key in &keys {
        subject.insert(key);
        subject.check_point(key);
    }
    subject.check_all();
    for key in &keys {
        subject.check_point(key);
        subject.remove(key);
    }
    assert!(subject.index.is_empty());
    let leaf = Leaf::new(0).expect("small");
    for key in [Vec::new(), vec![0; KEY_BYTES_MAX + 1]] {
        let error = subject.index.writer().insert(&key, leaf, &subject.log).expect_err("not a key");
        assert_eq!(error.kind(), biombo_base::ErrorKind::Invalid);
    }
    let pin = subject.index.pin();
    assert_eq!(pin.get(b"").expect("whole"), None);
    assert!(pin.get_batch(&[b"a", b"b"], &mut [None]).is_err());
}

#[test]
fn a_record_that_cannot_be_read_fails_the_operation_and_changes_nothing() {
    let (index, log) = (Index::new(), Log::default());
    let lost = Leaf::new(1 << 40).expect("in range");
    let mut writer = index.writer();
    writer.insert(b"abc", lost, &log).expect("no record was needed");
    let leaf = log.append(b"abd");
    let error = writer.insert(b"abd", leaf, &log).expect_err("the record beside it is needed");
    assert_eq!(error.kind(), biombo_base::ErrorKind::Corruption);
    assert!(writer.remove(b"abc", &log).is_err());
    assert_eq!(index.len(), 1);
    assert_eq!(index.pin().get(b"abc").expect("whole"), Some(lost));
    assert!(writer.replace(b"abc", lost, log.append(b"abc")).expect("no record is needed"));
    writer.insert(b"abd", leaf, &log).expect("readable now");
    assert_eq!(index.len(), 2);
}
