//! Range deletes: the first bound belongs to the range, the second does not.

use super::model::Model;
use super::sequence::nasty_keys;
use super::subject::{Subject, bytes};
use crate::{Batch, Op};

/// Every pair of bounds out of a small set, present and absent, empty, equal, reversed and open, removes what the model
/// removes.
pub fn check_delete_range_bounds(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let keys: [&[u8]; 7] = [b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff"];
        let mut bounds: Vec<&[u8]> = vec![b"", b"aa", b"c", b"\xff\0"];
        bounds.extend(keys);
        let fill: Vec<Op<'_>> = keys.iter().map(|key| Op::Put { key, value: b"v" }).collect();
        for from in &bounds {
            for to in bounds.iter().copied().map(Some).chain([None]) {
                let mut model = Model::default();
                for ops in [&fill[..], &[Op::DeleteRange { from, to }]] {
                    instance.apply(ops);
                    model.apply(ops);
                }
                if let Err(difference) = model.same_as_engine(&instance.engine, &subject.capabilities) {
                    let to = to.map_or("the end".to_owned(), |to| format!("\"{}\"", to.escape_ascii()));
                    panic!("after delete_range from \"{}\" to {to}: {difference}", from.escape_ascii());
                }
            }
        }
    });
}

/// Bounds are no keys: they may be longer than the longest key and still stand where the order puts them.
pub fn check_delete_range_with_bounds_past_the_longest_key(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let max = subject.capabilities.key_bytes_max;
        let longest = vec![b'm'; max];
        let mut past = longest.clone();
        past.push(0);
        let before = &longest[..max - 1];
        let keys: [&[u8]; 5] = [b"a", before, &longest, b"n", b"z"];
        let keys = keys.into_iter().filter(|key| !key.is_empty());
        let fill: Vec<Op<'_>> = keys.map(|key| Op::Put { key, value: b"v" }).collect();
        for (from, to) in
            [(&b"b"[..], Some(&past[..])), (&past, Some(b"o")), (&past, None), (b"", Some(&past)), (&past, Some(&past))]
        {
            let mut model = Model::default();
            for ops in [&fill[..], &[Op::DeleteRange { from, to }]] {
                instance.apply(ops);
                model.apply(ops);
            }
            instance.same_as(&model);
        }
    });
}

/// A range over tens of thousands of keys is removed at once, its neighbours stay, and its keys can be put again.
pub fn check_delete_range_of_many_keys(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let mut model = Model::default();
        for group in 0..15u64 {
            let mut batch = Batch::new();
            for i in 0..1000u64 {
                batch.put(format!("{:05}", group * 1000 + i).as_bytes(), &bytes(i, 60));
            }
            instance.apply(&batch.to_ops());
            model.apply(&batch.to_ops());
        }
        let steps: [&[Op<'_>]; 4] = [
            &[Op::DeleteRange { from: b"00100", to: Some(b"14900") }],
            &[Op::Put { key: b"07777", value: b"back" }],
            &[Op::DeleteRange { from: b"", to: Some(b"00050") }, Op::DeleteRange { from: b"14950", to: None }],
            &[Op::DeleteRange { from: b"", to: None }],
        ];
        for ops in steps {
            instance.apply(ops);
            model.apply(ops);
            instance.same_as(&model);
        }
        let keys = nasty_keys(subject.capabilities.key_bytes_max);
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Put { key, value: b"v" }).collect();
        instance.apply(&ops);
        model.apply(&ops);
        instance.same_as(&model);
    });
}
