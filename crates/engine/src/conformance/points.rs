//! Single keys: put, overwrite, delete, and the three ways of reading.

use super::model::Model;
use super::sequence::nasty_keys;
use super::subject::{Subject, bytes, must};
use crate::{Durability, ErrorKind, Op};

/// A put is read back, an overwrite replaces it, an empty value is no absence, deleting what is absent is no error.
pub fn check_points_put_overwrite_delete(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
            let put = |value: &[u8]| {
                must(instance.engine.apply(&[Op::Put { key: b"key", value }], durability), "put");
            };
            assert_eq!(instance.get(b"key"), None);
            assert!(!must(instance.engine.contains(b"key"), "contains"));
            must(instance.engine.apply(&[Op::Delete { key: b"key" }], durability), "delete what is absent");
            put(b"one");
            assert_eq!(instance.get(b"key").as_deref(), Some(&b"one"[..]));
            put(b"a longer one");
            assert_eq!(instance.get(b"key").as_deref(), Some(&b"a longer one"[..]));
            put(b"");
            assert_eq!(instance.get(b"key").as_deref(), Some(&b""[..]), "an empty value is a value");
            assert!(must(instance.engine.contains(b"key"), "contains"));
            assert_eq!(instance.get(b"ke"), None, "a prefix of a key is another key");
            assert_eq!(instance.get(b"key\0"), None, "a key and a zero byte is another key");
            must(instance.engine.apply(&[Op::Delete { key: b"key" }], durability), "delete");
        }
        must(instance.engine.sync(), "sync");
        assert_eq!(instance.get(b"key"), None);
    });
}

/// `get_into` leaves exactly the value in a reused buffer, and an empty one when the key is absent.
pub fn check_get_into_clears_and_fills(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let long = bytes(1, 5000.min(subject.capabilities.value_bytes_max));
        instance.put(b"long", &long);
        instance.put(b"short", b"s");
        instance.put(b"empty", b"");
        let mut buffer = b"what was there before".to_vec();
        for (key, value) in
            [(&b"long"[..], Some(&long[..])), (b"short", Some(b"s")), (b"empty", Some(b"")), (b"x", None)]
        {
            let found = must(instance.engine.get_into(key, &mut buffer), "get_into");
            assert_eq!(found, value.is_some());
            assert_eq!(
                buffer,
                value.unwrap_or_default(),
                "the buffer after get_into of {:?}",
                key.escape_ascii().to_string()
            );
            buffer.extend_from_slice(b"rest");
        }
    });
}

/// Many keys at once are read as each for itself, in the order asked for: absent, repeated, empty and long ones, behind what was there before; and
/// what was read stays as it was.
pub fn check_multi_get_reads_each_in_order(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let key = |n: usize| format!("key {n:03}").into_bytes();
        let value = |n: usize| bytes(n as u64, [0, 1, 100, 3000][n % 4].min(subject.capabilities.value_bytes_max));
        for n in (0..100).step_by(2) {
            instance.put(&key(n), &value(n));
        }
        let asked: Vec<usize> = (0..150).map(|i| i * 37 % 100).collect();
        let keys: Vec<Vec<u8>> = asked.iter().map(|n| key(*n)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let expected: Vec<Option<Vec<u8>>> = asked.iter().map(|n| n.is_multiple_of(2).then(|| value(*n))).collect();
        let mut got = Vec::new();
        must(instance.engine.multi_get(&keys[..1], &mut got), "multi_get");
        must(instance.engine.multi_get(&keys[1..], &mut got), "multi_get");
        must(instance.engine.multi_get(&[], &mut got), "multi_get of nothing");
        instance.put(&key(0), b"later");
        let got: Vec<Option<Vec<u8>>> = got.into_iter().map(|value| value.map(|value| value.to_vec())).collect();
        assert!(got == expected, "{} values of {} keys, or others", got.len(), keys.len());
        let refused = instance.engine.multi_get(&[&key(2), b"", &key(4)], &mut Vec::new());
        assert_eq!(refused.expect_err("an empty key").kind(), ErrorKind::Invalid);
    });
}

/// Keys that share prefixes, contain zeros and 0xff, or lie around length boundaries do not stand for each other.
pub fn check_nasty_keys_are_distinct(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let keys = nasty_keys(subject.capabilities.key_bytes_max);
        let mut model = Model::default();
        for (i, key) in keys.iter().enumerate() {
            let value = bytes(i as u64, i % 40);
            assert_eq!(instance.get(key), None, "found before it was put");
            let op = [Op::Put { key, value: &value }];
            instance.apply(&op);
            model.apply(&op);
        }
        // A hint, for whatever keys: present, absent, such as no engine holds.
        let long = vec![b'l'; subject.capabilities.key_bytes_max + 1];
        let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).chain([&b""[..], b"absent", &long]).collect();
        instance.engine.prefetch(&asked);
        instance.same_as(&model);
        for key in keys.iter().step_by(2) {
            let op = [Op::Delete { key }];
            instance.apply(&op);
            model.apply(&op);
            assert_eq!(instance.get(key), None, "found after it was deleted");
        }
        instance.same_as(&model);
    });
}

/// A value that is held keeps its bytes while its key is overwritten and deleted by the same thread, which must not hang.
pub fn check_held_value_survives_later_writes(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        for len in [3, 100, 10_000] {
            let len = len.min(subject.capabilities.value_bytes_max);
            let old = bytes(7, len);
            instance.put(b"key", &old);
            let held = must(instance.engine.get(b"key"), "get").unwrap_or_else(|| panic!("just put"));
            for i in 0..50u64 {
                instance.put(b"key", &bytes(i, len));
                instance.put(format!("other {i}").as_bytes(), &bytes(i, len));
            }
            instance.apply(&[Op::Delete { key: b"key" }]);
            must(instance.engine.sync(), "sync while a value is held");
            assert_eq!(&held[..], &old[..], "a held value of {len} bytes changed");
        }
    });
}
