//! Batches: in order, as a whole, of any size.

use super::model::Model;
use super::subject::{Subject, bytes, must};
use crate::{Batch, Durability, Op};

/// Of several operations on one key in a batch, the last one decides.
pub fn check_later_operation_of_a_batch_wins(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let mut model = Model::default();
        let put = |key, value| Op::Put { key, value };
        let batches: [&[Op<'_>]; 5] = [
            &[put(b"a", b"1"), put(b"b", b"1"), put(b"a", b"2")],
            &[put(b"c", b"1"), Op::Delete { key: b"c" }],
            &[Op::Delete { key: b"a" }, put(b"a", b"3")],
            &[put(b"d", b"1"), Op::Delete { key: b"d" }, put(b"d", b""), Op::Delete { key: b"b" }],
            &[Op::Delete { key: b"a" }, Op::Delete { key: b"a" }, put(b"e", b"last")],
        ];
        for ops in batches {
            for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
                must(instance.engine.apply(ops, durability), "apply");
                model.apply(ops);
                instance.same_as(&model);
                for key in [b"a", b"b", b"c", b"d", b"e"] {
                    assert_eq!(instance.get(key).as_ref(), model.map.get(&key[..]), "key {}", key.escape_ascii());
                }
            }
        }
    });
}

/// A batch without operations is done at once; one of 20,000 operations and some megabytes is applied whole.
pub fn check_empty_and_large_batches(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
            must(instance.engine.apply(&[], durability), "apply nothing");
        }
        let mut batch = Batch::new();
        for i in 0..20_000u64 {
            // Scattered keys, each tenth written twice and each hundredth deleted again.
            let key = bytes(i, 8.min(subject.capabilities.key_bytes_max));
            batch.put(&key, &bytes(i, 150.min(subject.capabilities.value_bytes_max)));
            if i % 10 == 0 {
                batch.put(&key, b"again");
            }
            if i % 100 == 0 {
                batch.delete(&key);
            }
        }
        let ops = batch.to_ops();
        must(instance.engine.apply(&ops, Durability::Sync), "apply 20,000 operations");
        let mut model = Model::default();
        model.apply(&ops);
        instance.same_as(&model);
    });
}

/// Inside a batch a range delete removes what stands before it, in the engine and in the batch, and nothing after it.
pub fn check_range_deletes_inside_batches_keep_their_place(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let put = |key, value| Op::Put { key, value };
        let range = |from, to| Op::DeleteRange { from, to };
        let batches: [&[Op<'_>]; 6] = [
            &[put(b"a", b"1"), put(b"b", b"1"), put(b"c", b"1"), put(b"d", b"1")],
            &[put(b"bb", b"2"), range(b"b", Some(b"c")), put(b"b", b"3")],
            &[range(b"a", Some(b"b")), range(b"c", None), put(b"c", b"4"), put(b"e", b"4")],
            &[put(b"f", b"5"), range(b"", None)],
            &[
                range(b"", None),
                put(b"g", b"6"),
                put(b"h", b"6"),
                range(b"g", Some(b"h")),
                Op::Delete { key: b"h" },
                put(b"h", b"7"),
            ],
            &[put(b"x", b"8"), range(b"x", Some(b"x\0")), put(b"y", b"8"), range(b"y", Some(b"y"))],
        ];
        let mut model = Model::default();
        for ops in batches {
            instance.apply(ops);
            model.apply(ops);
            instance.same_as(&model);
        }
    });
}
