//! What is declared is what the instance says; what is not declared answers `Unsupported`.

use std::sync::Arc;

use super::subject::{Subject, must_refuse};
use crate::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{Durability, ErrorKind, Op};

/// What an instance says is what its kind says, within the limits of the contract and without contradiction.
pub fn check_declared_capabilities_are_the_opened_ones(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        let declared = &subject.capabilities;
        assert_eq!(instance.engine.capabilities(), declared);
        assert!((1..=KEY_BYTES_MAX).contains(&declared.key_bytes_max), "key_bytes_max {}", declared.key_bytes_max);
        assert!(
            (1..=VALUE_BYTES_MAX).contains(&declared.value_bytes_max),
            "value_bytes_max {}",
            declared.value_bytes_max
        );
        if !declared.persistent {
            assert_eq!(declared.survives_kill, None, "it keeps nothing, so it cannot survive a kill");
            assert_eq!(declared.survives_power_cut, None, "it keeps nothing, so it cannot survive a power cut");
        }
        if let (Some(kill), Some(cut)) = (declared.survives_kill, declared.survives_power_cut) {
            assert!(kill <= cut, "what survives a power cut ({cut}) survives a kill, but that needs {kill}");
        }
    });
}

/// Cursors, range deletes, snapshots and checkpoints that are not declared are `Unsupported`, and change nothing.
pub fn check_undeclared_is_unsupported(subject: &Subject) {
    subject.bounded(|subject| {
        let instance = subject.instance();
        instance.put(b"k", b"v");
        if !subject.capabilities.ordered {
            must_refuse(Arc::clone(&instance.engine).cursor(), ErrorKind::Unsupported, "a cursor without order");
            for to in [None, Some(&b"z"[..])] {
                let ops = [Op::Delete { key: b"k" }, Op::DeleteRange { from: b"a", to }];
                let refused = instance.engine.apply(&ops, Durability::Os);
                must_refuse(refused, ErrorKind::Unsupported, "a range delete without order");
                assert_eq!(instance.get(b"k").as_deref(), Some(&b"v"[..]), "a refused batch changed something");
            }
        }
        if !subject.capabilities.snapshots {
            must_refuse(Arc::clone(&instance.engine).snapshot(), ErrorKind::Unsupported, "an undeclared snapshot");
        }
        if !subject.capabilities.checkpoints {
            let copied = instance.engine.checkpoint(&instance.beside("copy"));
            must_refuse(copied, ErrorKind::Unsupported, "an undeclared checkpoint");
        }
        assert_eq!(instance.get(b"k").as_deref(), Some(&b"v"[..]));
    });
}
