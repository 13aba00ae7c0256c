//! Snapshots: one point in history, for as long as they are held.

use std::sync::Arc;

use super::model::Model;
use super::sequence::nasty_keys;
use super::subject::{Instance, Subject, bytes, must, must_refuse};
use crate::{Durability, ErrorKind, Op, Snapshot};

#[track_caller]
fn same(model: &Model, snapshot: &Arc<dyn Snapshot>, subject: &Subject, when: &str) {
    if let Err(difference) = model.same_as_snapshot(snapshot, subject.capabilities.ordered) {
        panic!("a snapshot, {when}: {difference}");
    }
}

/// Snapshots taken at several points, the empty one among them, each go on showing theirs across overwrites, deletes, range
/// deletes, syncs and compactions.
pub fn check_snapshot_held_across_writes(subject: &Subject) {
    if !subject.capabilities.snapshots {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let keys = nasty_keys(subject.capabilities.key_bytes_max);
        let mut model = Model::default();
        let mut held = vec![(instance.snapshot(), model.clone())];
        for round in 0..6u64 {
            let values: Vec<Vec<u8>> = (0..keys.len() as u64).map(|i| bytes(round << 32 | i, 100)).collect();
            let mut ops: Vec<Op<'_>> = Vec::new();
            if round == 3 && subject.capabilities.ordered {
                ops.push(Op::DeleteRange { from: b"", to: None });
            }
            for (i, (key, value)) in keys.iter().zip(&values).enumerate() {
                match (i as u64 + round) % 3 {
                    0 => ops.push(Op::Put { key, value }),
                    1 => ops.push(Op::Delete { key }),
                    _ => {}
                }
            }
            must(instance.engine.apply(&ops, Durability::Os), "apply while snapshots are held");
            model.apply(&ops);
            held.push((instance.snapshot(), model.clone()));
            match round {
                1 => must(instance.engine.sync(), "sync while snapshots are held"),
                4 => must(instance.engine.compact(), "compact while snapshots are held"),
                _ => {}
            }
            for (i, (snapshot, then)) in held.iter().enumerate() {
                same(then, snapshot, subject, &format!("taken at point {i}, read after round {round}"));
                for key in &keys {
                    let got = must(snapshot.get(key), "get of a snapshot");
                    assert_eq!(got.as_deref(), then.map.get(key).map(Vec::as_slice), "point {i} after round {round}");
                }
            }
        }
        must_refuse(held[0].0.get(b""), ErrorKind::Invalid, "get of an empty key from a snapshot");
        // Dropped in the middle first, the others stay.
        held.remove(3);
        held.remove(0);
        instance.put(b"after", b"drop");
        for (snapshot, then) in &held {
            same(then, snapshot, subject, "after others were dropped");
        }
    });
}

/// A snapshot keeps the engine open when every handle of it is gone, and a cursor its snapshot.
pub fn check_snapshots_and_cursors_outlive_handles(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let mut model = Model::default();
        let ops = [Op::Put { key: b"a", value: b"1" }, Op::Put { key: b"b", value: b"2" }];
        instance.apply(&ops);
        model.apply(&ops);
        let snapshot = subject.capabilities.snapshots.then(|| instance.snapshot());
        let cursor = subject.capabilities.ordered.then(|| instance.cursor());
        let of_snapshot = match &snapshot {
            Some(snapshot) if subject.capabilities.ordered => {
                Some(must(Arc::clone(snapshot).cursor(), "cursor of a snapshot"))
            }
            _ => None,
        };
        let (_dir, _home) = Instance::close(instance);
        if let Some(snapshot) = snapshot {
            same(&model, &snapshot, subject, "after the engine's handle was dropped");
        }
        for cursor in [cursor, of_snapshot].into_iter().flatten() {
            if let Err(difference) = model.same_as_cursor(cursor) {
                panic!("a cursor, after the handles of its engine were dropped: {difference}");
            }
        }
    });
}

/// Several hundred snapshots and cursors may be held at once while writes go on.
pub fn check_many_snapshots_and_cursors_at_once(subject: &Subject) {
    subject.bounded(|subject| {
        const HELD: u64 = 300;
        let instance = subject.instance();
        let mut snapshots = Vec::new();
        let mut cursors = Vec::new();
        for i in 0..HELD {
            instance.put(b"n", &i.to_be_bytes());
            if subject.capabilities.snapshots {
                snapshots.push((i, instance.snapshot()));
            }
            // Without snapshots a cursor may hold writers up: those are opened and dropped.
            if subject.capabilities.ordered {
                let mut cursor = instance.cursor();
                must(cursor.first(), "first");
                assert_eq!(cursor.value(), Some(&i.to_be_bytes()[..]));
                if subject.capabilities.snapshots {
                    cursors.push((i, cursor));
                }
            }
        }
        for (i, snapshot) in snapshots {
            assert_eq!(must(snapshot.get(b"n"), "get").as_deref(), Some(&i.to_be_bytes()[..]), "snapshot {i}");
        }
        for (i, mut cursor) in cursors {
            assert_eq!(cursor.value(), Some(&i.to_be_bytes()[..]), "cursor {i}");
            must(cursor.last(), "last");
            assert_eq!(cursor.value(), Some(&i.to_be_bytes()[..]), "cursor {i}, moved");
        }
    });
}
