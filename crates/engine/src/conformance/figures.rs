//! What an engine says of itself: figures, verification, compaction.

use super::model::Model;
use super::subject::{Instance, Subject, bytes, must};
use crate::{Batch, Op};

/// 2,000 keys of incompressible values, a tenth overwritten, a tenth deleted.
fn filled(subject: &Subject) -> (Instance, Model) {
    let instance = subject.instance();
    let mut model = Model::default();
    for group in 0..20u64 {
        let mut batch = Batch::new();
        for i in group * 100..(group + 1) * 100 {
            batch.put(&bytes(i, 16), &bytes(i + 1, 500));
            if i % 10 == 0 {
                batch.put(&bytes(i, 16), &bytes(i + 2, 500));
            }
        }
        instance.apply(&batch.to_ops());
        model.apply(&batch.to_ops());
        let deleted: Vec<Vec<u8>> = (group * 100..(group + 1) * 100).step_by(10).map(|i| bytes(i + 5, 16)).collect();
        let ops: Vec<Op<'_>> = deleted.iter().map(|key| Op::Delete { key }).collect();
        instance.apply(&ops);
        model.apply(&ops);
    }
    (instance, model)
}

/// Counts are exact unless said to be estimates, sizes are of the right order, a persistent engine names its options, and
/// an empty engine holds nothing.
pub fn check_stats_are_plausible(subject: &Subject) {
    subject.bounded(|subject| {
        let empty = must(subject.instance().engine.stats(), "stats of an empty engine");
        assert_eq!(empty.keys.unwrap_or(0), 0, "keys of an empty engine");
        let (instance, model) = filled(subject);
        must(instance.engine.sync(), "sync");
        let stats = must(instance.engine.stats(), "stats");
        let (keys, logical) = (model.map.len() as u64, model.logical_bytes());
        match stats.keys {
            Some(said) if stats.keys_estimated => {
                assert!((keys / 2..=keys * 3).contains(&said), "{said} keys estimated, {keys} are there");
            }
            Some(said) => assert_eq!(said, keys, "keys, said to be exact"),
            None => assert!(!stats.keys_estimated, "no count, so no estimate either"),
        }
        if let Some(said) = stats.logical_bytes {
            let least = if stats.keys_estimated { logical / 2 } else { logical };
            let most = if stats.keys_estimated { logical * 3 } else { logical };
            assert!((least..=most).contains(&said), "{said} logical bytes, {logical} are there");
        }
        if subject.capabilities.persistent {
            assert!(!stats.options.is_empty(), "a persistent engine names its options for the report");
            for (name, value) in &stats.options {
                assert!(
                    !name.is_empty() && !name.contains('\n') && !value.contains('\n'),
                    "option {name:?} = {value:?}"
                );
            }
            if let Some(said) = stats.physical_bytes {
                assert!(said >= logical, "{said} bytes on the device hold {logical} incompressible ones");
                assert!(said <= logical * 8 + (256 << 20), "{said} bytes on the device for {logical}");
            }
            if let Some(said) = stats.written_bytes {
                assert!(said >= logical, "{said} bytes written, {logical} were put and synced");
            }
        }
        if let Some(compaction) = &stats.compaction {
            assert!(compaction.seconds.is_finite() && compaction.seconds >= 0.0, "{} s", compaction.seconds);
            assert!(compaction.count > 0 || compaction.latency_ns_p50.is_none(), "{compaction:?}: the median of none");
        }
        let again = must(instance.engine.stats(), "stats again");
        assert_eq!(again.options, stats.options, "options do not change by themselves");
    });
}

/// `verify` reads exactly the live keys and finds nothing on a healthy instance: empty, filled, and reopened.
pub fn check_verify_counts_the_live_keys(subject: &Subject) {
    subject.bounded(|subject| {
        let verify = |instance: &Instance, keys: usize, when: &str| {
            let mut damages = Vec::new();
            let count = must(instance.engine.verify(&mut |damage| damages.push(damage)), "verify");
            assert_eq!(damages, [], "damage of a healthy instance, {when}");
            assert_eq!(count, keys as u64, "live keys, {when}");
        };
        verify(&subject.instance(), 0, "empty");
        let (instance, model) = filled(subject);
        verify(&instance, model.map.len(), "filled");
        if subject.capabilities.persistent {
            verify(&instance.reopen(), model.map.len(), "reopened");
        }
    });
}

/// Compaction changes no answer, on an empty, a filled and an emptied instance.
pub fn check_compact_keeps_everything(subject: &Subject) {
    subject.bounded(|subject| {
        let empty = subject.instance();
        must(empty.engine.compact(), "compact an empty engine");
        empty.same_as(&Model::default());
        let (instance, mut model) = filled(subject);
        must(instance.engine.compact(), "compact");
        instance.same_as(&model);
        let keys: Vec<Vec<u8>> = model.map.keys().cloned().collect();
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete { key }).collect();
        instance.apply(&ops);
        model.apply(&ops);
        must(instance.engine.compact(), "compact after everything was deleted");
        instance.same_as(&model);
        assert!(keys.iter().all(|key| instance.get(key).is_none()), "a deleted key came back");
        instance.put(b"new", b"v");
        assert_eq!(instance.get(b"new").as_deref(), Some(&b"v"[..]));
    });
}
