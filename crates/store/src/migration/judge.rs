//! What a crash may leave of a history of writes: each key as the last write that survives, or a later one, left it, and batches whole.

use std::collections::BTreeMap;

use biombo_engine::Durability;

pub(super) type State<V = Vec<u8>> = BTreeMap<Vec<u8>, V>;

/// A write that was acknowledged.
pub(super) struct Acknowledged {
    /// After so many events.
    pub(super) at: usize,
    /// All keys after it. No two writes put the same value.
    pub(super) state: State,
    pub(super) durability: Durability,
    /// The keys that it wrote or deleted.
    pub(super) keys: Vec<Vec<u8>>,
}

impl Acknowledged {
    /// What there was before any write.
    pub(super) fn first(state: State) -> Self {
        Self { at: 0, state, durability: Durability::Sync, keys: Vec::new() }
    }
}

/// Why `found` is nothing that a crash after `cut` events may leave, if so, where writes survive it from `level` on.
pub(super) fn refusal(
    writes: &[Acknowledged],
    cut: usize,
    level: Durability,
    keys: impl Iterator<Item = Vec<u8>>,
    found: &State,
) -> Option<String> {
    let last = writes.partition_point(|write| write.at <= cut).saturating_sub(1);
    // With the one that was in flight.
    let writes = &writes[..=(last + 1).min(writes.len() - 1)];
    if level == Durability::Relaxed {
        let is_known = writes[last..].iter().any(|write| write.state == *found);
        return (!is_known).then(|| "not all that was acknowledged".to_owned());
    }
    // Partitions lose their tails for themselves.
    let mut of = State::new();
    for key in keys {
        let sources = sources(writes, last, level, &key, found);
        if sources.is_empty() {
            return Some(format!("not what was acknowledged of {}", key.escape_ascii()));
        }
        of.insert(key, sources);
    }
    halved(writes, &of).map(|number| format!("half of write {number}"))
}

/// The numbers of the writes to `key` of which what is found of it may have come, in ascending order; 0, if it may be as it was before all.
fn sources(writes: &[Acknowledged], last: usize, level: Durability, key: &Vec<u8>, found: &State) -> Vec<usize> {
    let value = |at: usize| writes[at].state.get(key);
    let survives = |at: &usize| writes[*at].durability >= level && value(*at) != value(at - 1);
    let oldest = (1..=last).rev().find(survives).unwrap_or(0);
    let is_of_key = |at: &usize| writes[*at].keys.contains(key);
    let possible = (oldest..writes.len()).filter(|at| value(*at) == found.get(key));
    let mut sources: Vec<usize> = possible.map(|at| (1..=at).rev().find(is_of_key).unwrap_or(0)).collect();
    sources.dedup();
    sources
}

/// The number of a batch of which one key is left for sure, and another for sure as it was before: it must be as the batch, or a later write, has it.
fn halved(writes: &[Acknowledged], sources: &State<Vec<usize>>) -> Option<usize> {
    let is_halved = |number: &usize| {
        let mut of = writes[*number].keys.iter().map(|key| &sources[key]);
        of.clone().any(|sources| sources[..] == [*number]) && of.any(|sources| sources.last() < Some(number))
    };
    (1..writes.len()).find(is_halved)
}

#[test]
fn halves_of_batches_are_found_and_whole_ones_that_were_partly_overwritten_are_not() {
    let state = |keys: &[(&str, &str)]| -> State {
        keys.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    };
    let mut writes = vec![Acknowledged::first(state(&[("b", "0"), ("c", "0")]))];
    let mut write = |at, keys: &str, after: &[(&str, &str)]| {
        let keys = keys.bytes().map(|key| vec![key]).collect();
        writes.push(Acknowledged { at, state: state(after), durability: Durability::Os, keys });
    };
    write(1, "ab", &[("a", "1"), ("b", "1"), ("c", "0")]);
    write(2, "b", &[("a", "1"), ("b", "2"), ("c", "0")]);
    write(3, "bc", &[("a", "1")]);
    write(4, "d", &[("a", "1"), ("d", "4")]);
    let of = |cut, found: &[(&str, &str)]| {
        refusal(&writes, cut, Durability::Sync, (b'a'..=b'd').map(|key| vec![key]), &state(found))
    };
    let whole: [&[(&str, &str)]; 6] = [
        &[("b", "0"), ("c", "0")],
        &[("a", "1"), ("b", "1"), ("c", "0")],
        &[("a", "1"), ("b", "2"), ("c", "0")],
        &[("a", "1"), ("b", "2"), ("c", "0"), ("d", "4")],
        // The range was deleted in one partition at least, and of the other nobody knows what was lost.
        &[("a", "1")],
        &[("a", "1"), ("d", "4")],
    ];
    for found in whole {
        assert_eq!(of(4, found), None, "{found:?}");
    }
    assert_eq!(of(4, &[("a", "1"), ("c", "0")]).as_deref(), Some("half of write 3"));
    assert_eq!(of(1, &[("a", "1"), ("b", "0"), ("c", "0")]).as_deref(), Some("half of write 1"));
    assert_eq!(of(4, &[("b", "1"), ("c", "0")]).as_deref(), Some("half of write 1"));
    assert_eq!(
        of(4, &[("b", "2"), ("c", "0")]).as_deref(),
        None,
        "the batch was lost, and a later write to its key was not"
    );
    assert_eq!(of(4, &[("b", "0"), ("c", "1")]).as_deref(), Some("not what was acknowledged of c"));
    assert_eq!(of(1, &[("b", "0"), ("c", "0"), ("d", "4")]).as_deref(), Some("not what was acknowledged of d"));
}
