//! The states that a history went through on the simulated disk, and which of them a crash may leave.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use biombo_base::io::sim::{Crash, SimIo};

use crate::input::Input;

/// States of type `S`, each after one operation.
pub struct History<S> {
    states: Vec<S>,
    /// For each state the number of events after which it was acknowledged.
    acked_at: Vec<usize>,
    /// Numbers of events, and the state that was durable then.
    durable: Vec<(usize, usize)>,
}

impl<S: Clone + PartialEq + Debug> History<S> {
    /// One that begins with `state`, which is durable.
    pub fn of(state: S) -> Self {
        Self { states: vec![state], acked_at: vec![0], durable: vec![(0, 0)] }
    }

    /// The present state.
    pub fn last(&self) -> &S {
        self.states.last().expect("invariant: the first one is there")
    }

    /// An operation begins that leads to `state`.
    pub fn begin(&mut self, state: S) {
        self.states.push(state);
        self.acked_at.push(usize::MAX);
    }

    /// It leads to `state`, which was not known when it began.
    pub fn becomes(&mut self, state: S) {
        *self.states.last_mut().expect("invariant: the first one is there") = state;
    }

    /// It is acknowledged.
    pub fn acked(&mut self, io: &SimIo) {
        *self.acked_at.last_mut().expect("invariant: the first one is there") = io.event_count();
    }

    /// All that is acknowledged is durable from now on.
    pub fn synced(&mut self, io: &SimIo) {
        self.durable.push((io.event_count(), self.states.len() - 1));
    }

    /// The states that a crash at event `cut` may leave.
    fn allowed(&self, cut: usize, crash: Crash) -> RangeInclusive<usize> {
        let acked = self.acked_at.partition_point(|at| *at <= cut) - 1;
        let durable = self.durable.iter().filter(|(at, _)| *at <= cut).map(|(_, state)| *state).max().unwrap_or(0);
        let least = if crash == Crash::Kill { acked } else { durable };
        least..=(acked + 1).min(self.states.len() - 1)
    }

    /// Go on from `found` after a crash. Panics if it is no state that the crash may have left.
    pub fn crashed(self, cut: usize, crash: Crash, found: &S) -> Self {
        let allowed = self.allowed(cut, crash);
        let at = allowed.clone().rev().find(|at| self.states[*at] == *found);
        let Some(at) = at else {
            let elsewhere = self.states.iter().position(|state| state == found);
            panic!(
                "after {crash:?} at event {cut} one of the states {allowed:?} of {} must be there, and it is {}\n{found:?}\n{:?}",
                self.states.len(),
                elsewhere.map_or_else(|| "none of all".to_owned(), |at| format!("state {at}")),
                self.states[*allowed.end()]
            );
        };
        // What survived a kill may still be lost to a power cut later.
        let durable = if crash == Crash::Kill { *self.allowed(cut, Crash::Nothing).start() } else { at };
        Self { states: self.states[..=at].to_vec(), acked_at: vec![0; at + 1], durable: vec![(0, durable)] }
    }
}

/// A crash, at one of the last events of `io`.
pub fn crash(io: &SimIo, input: &mut Input<'_>) -> (SimIo, usize, Crash) {
    let crash = match input.below(6) {
        0 | 1 => Crash::Kill,
        2 => Crash::Nothing,
        3 => Crash::Everything,
        _ => Crash::Random(u64::from(input.byte())),
    };
    let cut = io.event_count().saturating_sub(usize::from(input.byte()));
    (io.crash(cut, crash), cut, crash)
}
