//! What was written is there after a clean close, whatever the durability; an engine that keeps nothing opens empty.

use super::model::Model;
use super::subject::{Subject, bytes, must};
use crate::{Durability, Op};

/// After each durability level, with and without a sync before the close, everything is there again.
pub fn check_reopen_after_each_durability(subject: &Subject) {
    subject.bounded(|subject| {
        for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
            for synced in [false, true] {
                let instance = subject.instance();
                let mut model = Model::default();
                for i in 0..120u64 {
                    let (key, value) = (bytes(i % 100, 12), bytes(i, 300));
                    let mut ops = vec![Op::Put { key: &key, value: &value }];
                    let old = bytes(i / 2, 12);
                    if i % 7 == 3 {
                        ops.push(Op::Delete { key: &old });
                    }
                    must(instance.engine.apply(&ops, durability), "apply");
                    model.apply(&ops);
                }
                if synced {
                    must(instance.engine.sync(), "sync");
                }
                let instance = instance.reopen();
                if !subject.capabilities.persistent {
                    model = Model::default();
                    assert_eq!(instance.get(&bytes(5, 12)), None, "it is declared to keep nothing");
                }
                if let Err(difference) = model.same_as_engine(&instance.engine, &subject.capabilities) {
                    panic!("reopened after writes at `{durability}`, synced: {synced}: {difference}");
                }
            }
        }
    });
}

/// Opened again and again with some writes between, it loses nothing and brings nothing back.
pub fn check_reopen_many_times(subject: &Subject) {
    if !subject.capabilities.persistent {
        return;
    }
    subject.bounded(|subject| {
        let mut instance = subject.instance();
        let mut model = Model::default();
        for round in 0..8u64 {
            instance = instance.reopen();
            instance.same_as(&model);
            let durability = [Durability::Sync, Durability::Os, Durability::Relaxed][round as usize % 3];
            for i in 0..20u64 {
                let (key, value) = (bytes(i, 9), bytes(round << 20 | i, 200 * i as usize));
                let op = [if (i + round) % 4 == 0 {
                    Op::Delete { key: &key }
                } else {
                    Op::Put { key: &key, value: &value }
                }];
                must(instance.engine.apply(&op, durability), "apply");
                model.apply(&op);
            }
            if round == 5 {
                must(instance.engine.compact(), "compact");
            }
            for i in 0..20u64 {
                let key = bytes(i, 9);
                assert_eq!(instance.get(&key), model.map.get(&key).cloned(), "key {i} in round {round}");
            }
        }
        // A round that writes nothing.
        let instance = instance.reopen().reopen();
        instance.same_as(&model);
    });
}
