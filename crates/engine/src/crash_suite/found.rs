//! What must hold of an instance that was opened on what a crash left.

use std::sync::Arc;

use biombo_base::io::sim::{Crash, Random, SimIo};

use super::history::{keys, random_batch};
use super::{Model, State, Subject, make_home};
use crate::{Durability, Engine};

/// Open what a crash at `cut` left; returns which state it is. Panics when it is none of those that may be, or when the engine does not
/// agree with itself.
pub fn check<S: Subject>(subject: &S, image: &SimIo, model: &Model, cut: usize, killed: bool, what: &str) -> usize {
    make_home(image);
    let engine = subject.open(image).unwrap_or_else(|e| panic!("{what}: does not open: {:?}: {e}", e.kind()));
    let state = contents(&engine);
    let allowed = model.allowed(cut, killed);
    let Some(found) = model.find(allowed.clone(), &state) else {
        let earlier = model.find(0..=*allowed.end(), &state);
        let difference = model.difference(*allowed.end(), &state);
        panic!("{what}: none of the states {allowed:?} but {earlier:?}; of the last one differ {difference}");
    };
    agree(&engine, &state, what);
    subject.audit(&engine, image, &format!("{what}: after recovery"));
    found
}

/// Write to what a crash left as state `found`, at `Sync`, and lose the power: a recovery that leaves something half done shows. Returns
/// what is left then, which was checked.
pub fn write_on<S: Subject>(
    subject: &S,
    image: &SimIo,
    model: &Model,
    found: usize,
    random: &mut Random,
    what: &str,
) -> SimIo {
    let mut after = model.after(0, false, found);
    let engine = subject.open(image).unwrap_or_else(|e| panic!("{what}: does not open again: {e}"));
    for number in 0..1 + random.below(6) as usize {
        let batch = random_batch(random, number);
        after.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), Durability::Sync).unwrap_or_else(|e| panic!("{what}: not writable: {e}"));
        after.acked(0);
        after.synced(0);
    }
    subject.audit(&engine, image, &format!("{what}: after writes"));
    // The process dies here: no destructor has closed anything.
    let crash = if random.below(2) == 0 { Crash::Nothing } else { Crash::Random(random.next()) };
    let left = image.crash(image.event_count(), crash);
    check(subject, &left, &after, 0, true, &format!("{what}, written to, {crash:?}"));
    left
}

/// What a cursor finds, going forward.
pub fn contents<E: Engine + ?Sized>(engine: &Arc<E>) -> State {
    let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
    let mut state = State::new();
    cursor.first().expect("first");
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        let before = state.last_key_value().is_none_or(|(last, _)| &last[..] < key);
        assert!(before, "the cursor goes back to {}", key.escape_ascii());
        state.insert(key.to_vec(), value.to_vec());
        cursor.next().expect("next");
    }
    state
}

/// Panics unless every way of reading agrees with `state`.
pub fn agree<E: Engine + ?Sized>(engine: &Arc<E>, state: &State, what: &str) {
    let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
    cursor.last().expect("last");
    for (key, value) in state.iter().rev() {
        assert_eq!((cursor.key(), cursor.value()), (Some(&key[..]), Some(&value[..])), "{what}: going backward");
        cursor.prev().expect("prev");
    }
    assert_eq!(cursor.key(), None, "{what}: more than there is, going backward");
    let snapshot = engine.capabilities().snapshots.then(|| Arc::clone(engine).snapshot().expect("a snapshot"));
    for key in keys() {
        let expected = state.get(&key).map(|value| &value[..]);
        assert_eq!(engine.get(&key).expect("get").as_deref(), expected, "{what}: get {}", key.escape_ascii());
        assert_eq!(engine.contains(&key).expect("contains"), expected.is_some(), "{what}: contains");
        if let Some(snapshot) = &snapshot {
            assert_eq!(snapshot.get(&key).expect("get").as_deref(), expected, "{what}: get of a snapshot");
        }
    }
    let stats = engine.stats().expect("stats");
    if !stats.keys_estimated {
        assert_eq!(stats.keys, Some(state.len() as u64), "{what}: keys");
        let logical: usize = state.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(stats.logical_bytes, Some(logical as u64), "{what}: logical bytes");
    }
    let verified = engine.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
    assert_eq!(verified, state.len() as u64, "{what}: verified keys");
}
