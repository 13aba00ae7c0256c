//! The limits of keys and values: the last that fits works, the first that does not is `Invalid` and changes nothing.

use super::model::Model;
use super::subject::{Subject, bytes, must, must_refuse};
use crate::{Durability, ErrorKind, Op};

/// Keys of 1 B to `key_bytes_max` work in every operation; an empty key and one byte more are `Invalid` in all of them.
pub fn check_key_limits(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let max = subject.capabilities.key_bytes_max;
        let mut model = Model::default();
        let longest = [bytes(1, max), vec![0; max], vec![0xff; max]];
        for key in longest.iter().map(Vec::as_slice).chain([&b"\0"[..], b"\xff", b"a"]) {
            let op = [Op::Put { key, value: b"value" }];
            instance.apply(&op);
            model.apply(&op);
            assert!(must(instance.engine.contains(key), "contains"));
        }
        instance.same_as(&model);
        for key in [vec![], vec![0; max + 1], bytes(2, max + 1), bytes(3, max * 2 + 70_000)] {
            let engine = &instance.engine;
            let what = format!("a key of {} bytes (at most {max})", key.len());
            must_refuse(engine.get(&key), ErrorKind::Invalid, &format!("get of {what}"));
            must_refuse(engine.get_into(&key, &mut Vec::new()), ErrorKind::Invalid, &format!("get_into of {what}"));
            must_refuse(engine.contains(&key), ErrorKind::Invalid, &format!("contains of {what}"));
            for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
                let put = engine.apply(&[Op::Put { key: &key, value: b"v" }], durability);
                must_refuse(put, ErrorKind::Invalid, &format!("put of {what}"));
                must_refuse(
                    engine.apply(&[Op::Delete { key: &key }], durability),
                    ErrorKind::Invalid,
                    &format!("delete of {what}"),
                );
            }
        }
        instance.same_as(&model);
        let ops: Vec<Op<'_>> = longest.iter().map(|key| Op::Delete { key }).collect();
        instance.apply(&ops);
        model.apply(&ops);
        instance.same_as(&model);
    });
}

/// A value of one byte more than `value_bytes_max` is `Invalid`, before its bytes are read.
pub fn check_value_limits(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        instance.put(b"k", b"old");
        // Zeroed memory that nobody reads takes no room: an engine that checks first makes this cheap even at 1 GiB.
        let value = vec![0; subject.capabilities.value_bytes_max + 1];
        let put = Op::Put { key: b"k", value: &value };
        must_refuse(instance.engine.apply(&[put], Durability::Os), ErrorKind::Invalid, "put of a value past the limit");
        let batch = [Op::Put { key: b"other", value: b"v" }, put];
        must_refuse(
            instance.engine.apply(&batch, Durability::Os),
            ErrorKind::Invalid,
            "a batch with a value past the limit",
        );
        assert_eq!(instance.get(b"k").as_deref(), Some(&b"old"[..]));
        assert_eq!(instance.get(b"other"), None);
    });
}

/// One operation past the limits, first, in the middle or last, leaves the whole batch unapplied; the engine goes on.
pub fn check_invalid_operation_leaves_its_batch_unapplied(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let mut model = Model::default();
        let op = [Op::Put { key: b"old", value: b"kept" }];
        instance.apply(&op);
        model.apply(&op);
        let long = vec![b'x'; subject.capabilities.key_bytes_max + 1];
        let wrong = [
            Op::Put { key: b"", value: b"v" },
            Op::Put { key: &long, value: b"" },
            Op::Delete { key: b"" },
            Op::Delete { key: &long },
        ];
        for wrong in wrong {
            for at in 0..4 {
                let mut ops = vec![
                    Op::Put { key: b"new", value: b"v" },
                    Op::Delete { key: b"old" },
                    Op::Put { key: b"n2", value: b"v" },
                ];
                ops.insert(at, wrong);
                must_refuse(
                    instance.engine.apply(&ops, Durability::Os),
                    ErrorKind::Invalid,
                    "a batch with an invalid operation",
                );
                instance.same_as(&model);
                assert_eq!(instance.get(b"new"), None, "part of a refused batch was applied");
                assert_eq!(instance.get(b"n2"), None, "part of a refused batch was applied");
            }
        }
        let op = [Op::Put { key: b"new", value: b"v" }];
        instance.apply(&op);
        model.apply(&op);
        instance.same_as(&model);
    });
}

/// Values around page sizes, of 1 MiB, 8 MiB and (unless the budget is a small one) one of 64 MiB come back whole by every
/// way of reading, grow, shrink and go.
pub fn check_large_values(subject: &Subject) {
    subject.bounded(|subject| {
        const LENGTHS: [usize; 15] = [
            0,
            1,
            255,
            256,
            4095,
            4096,
            4097,
            16_383,
            16_385,
            65_535,
            65_536,
            (1 << 20) - 1,
            1 << 20,
            8 << 20,
            64 << 20,
        ];
        let instance = subject.instance();
        let mut buffer = Vec::new();
        let max = if subject.has_small_budget() { 8 << 20 } else { 64 << 20 };
        let max = subject.capabilities.value_bytes_max.min(max);
        let fitting: Vec<usize> = LENGTHS.into_iter().filter(|len| *len <= max).collect();
        for (i, len) in fitting.iter().copied().enumerate() {
            let value = bytes(i as u64, len);
            // One key grows through all sizes, another one stays.
            for key in [&b"grows"[..], &i.to_be_bytes()] {
                instance.put(key, &value);
                assert!(
                    must(instance.engine.get(key), "get").as_deref() == Some(&value[..]),
                    "get of {len} bytes differs"
                );
                assert!(
                    must(instance.engine.get_into(key, &mut buffer), "get_into"),
                    "get_into of {len} bytes: absent"
                );
                assert!(buffer == value, "get_into of {len} bytes differs");
                if len >= 64 << 20 {
                    break;
                }
            }
        }
        if subject.capabilities.ordered {
            let mut cursor = instance.cursor();
            must(cursor.seek(b"grows"), "seek");
            let last = fitting.len() - 1;
            assert_eq!(cursor.key(), Some(&b"grows"[..]));
            assert!(cursor.value() == Some(&bytes(last as u64, fitting[last])), "a large value at a cursor differs");
        }
        instance.put(b"grows", b"small again");
        assert_eq!(instance.get(b"grows").as_deref(), Some(&b"small again"[..]));
        must(instance.engine.sync(), "sync");
        instance.apply(&[Op::Delete { key: b"grows" }]);
        assert_eq!(instance.get(b"grows"), None);
        for (i, len) in fitting.iter().copied().enumerate().filter(|(_, len)| *len < 64 << 20) {
            assert!(
                instance.get(&i.to_be_bytes()).as_deref() == Some(&bytes(i as u64, len)),
                "{len} bytes differ in the end"
            );
        }
    });
}
