//! Cursors: positions, order, both directions.

use super::model::{Model, ModelCursor, Move};
use super::sequence::nasty_keys;
use super::subject::{Instance, Subject, bytes, must};
use crate::Op;

/// Put the nasty keys and give the model of them.
fn filled(subject: &Subject) -> (Instance, Model) {
    let instance = subject.instance();
    let mut model = Model::default();
    let keys = nasty_keys(subject.capabilities.key_bytes_max);
    let values: Vec<Vec<u8>> = (0..keys.len() as u64).map(|i| bytes(i, (i % 50) as usize)).collect();
    let ops: Vec<Op<'_>> = keys.iter().zip(&values).map(|(key, value)| Op::Put { key, value }).collect();
    instance.apply(&ops);
    model.apply(&ops);
    (instance, model)
}

/// Make the same moves on the engine and on the model, comparing after each.
#[track_caller]
fn walk(instance: &Instance, model: &Model, moves: impl IntoIterator<Item = Move>) {
    let mut cursor = instance.cursor();
    let mut here = ModelCursor::new(model);
    for (i, step) in moves.into_iter().enumerate() {
        must(step.apply(&mut *cursor), "move a cursor");
        here.apply(&step);
        if let Err(difference) = here.same_as(&*cursor) {
            panic!("after move {i} ({step:?}): {difference}");
        }
    }
}

/// A new cursor has no position, a cursor that ran off either end has none, and moving on from nowhere stays there until
/// the next seek; on an empty engine every move leads nowhere.
pub fn check_cursor_without_position_stays_nowhere(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        use Move::{First, Last, Next, Prev, Seek, SeekBefore};
        let instance = subject.instance();
        let mut model = Model::default();
        let moves = || {
            let seeks = [Seek(vec![]), SeekBefore(vec![]), Seek(b"b".to_vec()), SeekBefore(b"b".to_vec()), First, Last];
            let off = seeks
                .into_iter()
                .flat_map(|seek| [seek.clone(), Next, Next, Next, Prev, Next, seek, Prev, Prev, Next, Prev]);
            [Next, Prev, Next].into_iter().chain(off)
        };
        let nowhere = instance.cursor();
        assert_eq!((nowhere.key(), nowhere.value()), (None, None), "a new cursor has a position");
        drop(nowhere);
        walk(&instance, &model, moves());
        for key in [&b"b"[..], b"a"] {
            let op = [Op::Put { key, value: b"v" }];
            instance.apply(&op);
            model.apply(&op);
            walk(&instance, &model, moves());
        }
    });
}

/// All keys come in bytewise order forward and in the reverse order backward, and a cursor may turn round anywhere.
pub fn check_cursor_walks_both_ways(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let (instance, model) = filled(subject);
        instance.same_as(&model);
        let count = model.map.len();
        // What is expected is a hint: fewer or more keys follow it all the same.
        for expected in [0, 1, 3, u64::MAX] {
            let mut cursor = instance.cursor();
            cursor.expect(expected);
            must(cursor.first(), "first");
            for key in model.map.keys() {
                assert_eq!(cursor.key(), Some(&key[..]), "with {expected} keys expected");
                must(cursor.next(), "next");
            }
            assert_eq!(cursor.key(), None, "with {expected} keys expected");
        }
        // Two forward, one back, over everything; then the mirror image.
        walk(
            &instance,
            &model,
            [Move::First].into_iter().chain((0..count).flat_map(|_| [Move::Next, Move::Next, Move::Prev])),
        );
        walk(
            &instance,
            &model,
            [Move::Last].into_iter().chain((0..count).flat_map(|_| [Move::Prev, Move::Prev, Move::Next])),
        );
    });
}

/// `seek` finds the first key at or after, `seek_before` the last key before, for keys that are there and their neighbours
/// that are not.
pub fn check_cursor_seeks_between_keys(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let (instance, mut model) = filled(subject);
        let probes: Vec<Vec<u8>> =
            model.map.keys().flat_map(|key| neighbours(key)).chain([vec![], vec![0xff; 40]]).collect();
        // With every other key deleted, half of the exact probes meet what is there no more.
        for round in 0..2 {
            let moves = probes.iter().flat_map(|probe| {
                [Move::Seek(probe.clone()), Move::Prev, Move::SeekBefore(probe.clone()), Move::Next, Move::Next]
            });
            walk(&instance, &model, moves);
            if round == 0 {
                let keys: Vec<Vec<u8>> = model.map.keys().step_by(2).cloned().collect();
                let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete { key }).collect();
                instance.apply(&ops);
                model.apply(&ops);
            }
        }
    });
}

/// The key, and what stands just before and after it in the order.
fn neighbours(key: &[u8]) -> Vec<Vec<u8>> {
    let mut after = key.to_vec();
    after.push(0);
    let mut found = vec![key.to_vec(), after, key[..key.len() - 1].to_vec()];
    if let Some((last, rest)) = key.split_last() {
        found.extend(last.checked_add(1).map(|next| [rest, &[next]].concat()));
        found.extend(last.checked_sub(1).map(|next| [rest, &[next, 0xff]].concat()));
    }
    found
}

/// A seek target is no key: it may be longer than the longest key and still stands where the order puts it.
pub fn check_cursor_seeks_past_the_longest_key(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let max = subject.capabilities.key_bytes_max;
        let instance = subject.instance();
        let mut model = Model::default();
        let longest = vec![b'm'; max];
        for key in [b"a", &longest[..], b"z"] {
            let op = [Op::Put { key, value: b"v" }];
            instance.apply(&op);
            model.apply(&op);
        }
        let mut smaller = longest.clone();
        smaller[max - 1] = b'l';
        let targets = [
            longest.clone(),
            [&longest[..], b"\0"].concat(),
            [&smaller[..], b"\xff"].concat(),
            vec![0xff; max + 1],
            vec![0; max + 1],
        ];
        let moves = targets.into_iter().flat_map(|target| {
            [
                Move::Seek(target.clone()),
                Move::Next,
                Move::Seek(target.clone()),
                Move::Prev,
                Move::SeekBefore(target.clone()),
                Move::Next,
                Move::SeekBefore(target),
                Move::Prev,
            ]
        });
        walk(&instance, &model, moves);
    });
}

/// Where snapshots are declared, a cursor shows the state of its beginning, whatever is written while it walks.
pub fn check_cursor_keeps_the_view_of_its_beginning(subject: &Subject) {
    if !subject.capabilities.ordered || !subject.capabilities.snapshots {
        return;
    }
    subject.bounded(|subject| {
        let (instance, model) = filled(subject);
        let untouched = instance.cursor();
        let mut cursor = instance.cursor();
        let mut here = ModelCursor::new(&model);
        let keys: Vec<&Vec<u8>> = model.map.keys().collect();
        for (i, key) in keys.iter().enumerate() {
            let step = if i == 0 { Move::First } else { Move::Next };
            must(step.apply(&mut *cursor), "move a cursor");
            here.apply(&step);
            // Change what lies under, behind and ahead of it, and put a new key right after it.
            let new = [key, &b"\0new"[..]].concat();
            let ahead = keys[(i + 1) % keys.len()];
            instance.apply(&[Op::Delete { key }, Op::Put { key: ahead, value: b"changed" }]);
            if new.len() <= subject.capabilities.key_bytes_max {
                instance.put(&new, b"new");
            }
            if let Err(difference) = here.same_as(&*cursor) {
                panic!("at key {i}, after a write: {difference}");
            }
        }
        instance.apply(&[Op::DeleteRange { from: b"", to: None }]);
        if let Err(difference) = model.same_as_cursor(cursor) {
            panic!("a cursor that had walked, after everything was deleted: {difference}");
        }
        if let Err(difference) = model.same_as_cursor(untouched) {
            panic!("a cursor that had not moved before everything was deleted: {difference}");
        }
    });
}
