//! The states that a history went through, and what was promised of them when.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use crate::Op;

/// What an instance holds.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The states of a history, each after one call of `apply`, and what was promised of them when: times are numbers of the disk's events.
#[derive(Debug)]
pub struct Model {
    pub(super) states: Vec<State>,
    /// For each state the number of events after which it was acknowledged.
    acked_at: Vec<usize>,
    /// Numbers of events, and the state that was durable then.
    synced: Vec<(usize, usize)>,
    /// The steps that the engine went through, each with the events that it took, in order.
    steps: Vec<(Range<usize>, String)>,
}

impl Default for Model {
    fn default() -> Self {
        Self { states: vec![State::new()], acked_at: vec![0], synced: Vec::new(), steps: Vec::new() }
    }
}

impl Model {
    /// Of an instance that is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// All keys of the history.
    pub fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.states.iter().flat_map(|state| state.keys().cloned()).collect()
    }

    /// The state after the last operation.
    pub fn last(&self) -> &State {
        self.states.last().expect("the empty one is there")
    }

    /// The state before the last operation.
    pub fn before_last(&self) -> &State {
        &self.states[self.states.len() - 2]
    }

    /// An operation begins; it is acknowledged when [`acked`](Self::acked) says so.
    pub fn begin(&mut self, ops: &[Op<'_>]) {
        let mut state = self.last().clone();
        for op in ops {
            match *op {
                Op::Put { key, value } => drop(state.insert(key.to_vec(), value.to_vec())),
                Op::Delete { key } => drop(state.remove(key)),
                Op::DeleteRange { from, to } => {
                    state.retain(|key, _| &key[..] < from || to.is_some_and(|to| &key[..] >= to))
                }
            }
        }
        self.states.push(state);
        self.acked_at.push(usize::MAX);
    }

    /// The last operation is acknowledged.
    pub fn acked(&mut self, events: usize) {
        *self.acked_at.last_mut().expect("the empty one is there") = events;
    }

    /// The last operation was refused, and changed nothing.
    pub fn refused(&mut self) {
        self.states.pop();
        self.acked_at.pop();
    }

    /// All that is acknowledged is durable from now on.
    pub fn synced(&mut self, events: usize) {
        let acked = self.acked_at.partition_point(|at| *at <= events) - 1;
        self.synced.push((events, acked));
    }

    /// The engine took a step: the events from `begun` to `ended`.
    pub fn stepped(&mut self, name: impl Into<String>, begun: usize, ended: usize) {
        if begun < ended {
            self.steps.push((begun..ended, name.into()));
        }
    }

    /// The step that event `cut` is of.
    pub fn step(&self, cut: usize) -> Option<&str> {
        let at = self.steps.partition_point(|(events, _)| events.end <= cut);
        self.steps.get(at).filter(|(events, _)| events.contains(&cut)).map(|(_, name)| &**name)
    }

    /// Which states a crash at `cut` may leave. After a mere kill that is all that was acknowledged, or one operation more.
    pub fn allowed(&self, cut: usize, killed: bool) -> RangeInclusive<usize> {
        let acked = self.acked_at.partition_point(|at| *at <= cut) - 1;
        let synced = self.synced.iter().filter(|(at, _)| *at <= cut).map(|(_, state)| *state).max().unwrap_or(0);
        (if killed { acked } else { synced })..=(acked + 1).min(self.states.len() - 1)
    }

    /// Which state was found: the last of those allowed that equals it.
    pub fn find(&self, allowed: RangeInclusive<usize>, found: &State) -> Option<usize> {
        allowed.rev().find(|at| self.states[*at] == *found)
    }

    /// The keys whose values are not those of state `at`, with the lengths and ends of what is found and of what should be.
    pub fn difference(&self, at: usize, found: &State) -> String {
        let show = |value: Option<&Vec<u8>>| {
            value.map_or("none".to_owned(), |value| {
                let end = &value[value.len().saturating_sub(4)..];
                format!("{} bytes, ..{}", value.len(), end.escape_ascii())
            })
        };
        let expected = &self.states[at];
        let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        let differing = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
        let each = differing.map(|key| {
            let short = &key[..key.len().min(20)];
            let (found, expected) = (show(found.get(key)), show(expected.get(key)));
            format!("{}({}): {found} for {expected}", short.escape_ascii(), key.len())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// The model of what goes on after a crash at `cut` that left `found`. What survived a kill may still be lost later.
    pub fn after(&self, cut: usize, killed: bool, found: usize) -> Self {
        let durable = if killed { *self.allowed(cut, false).start() } else { found };
        Self {
            states: self.states[..=found].to_vec(),
            acked_at: vec![0; found + 1],
            synced: vec![(0, durable)],
            steps: Vec::new(),
        }
    }
}
