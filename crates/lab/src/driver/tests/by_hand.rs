//! A target that takes as long as it is told, by a clock that nobody else moves.

use std::sync::{Arc, Mutex};

use biombo_base::{Error, Result};
use biombo_engine::{Batch, Op, Stats};

use crate::driver::clock::RunClock;
use crate::driver::{Progress, Ran, RunPhase, Settings, run_phase};
use crate::target::{Target, Walk};
use crate::workload::{Keys, OpKind, Values};

/// One call: when it began, what it was, and its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) at_ns: u64,
    pub(super) kind: OpKind,
    pub(super) keys: Vec<Vec<u8>>,
}

/// Every call takes what `cost_ns` says for its number and moment, and finds all records; `locate` says where keys are.
pub(super) struct ByHand {
    clock: RunClock,
    hand: Arc<quanta::Mock>,
    cost_ns: fn(usize, u64) -> u64,
    pub(super) partitions: u32,
    pub(super) locate: fn(&[u8], u64) -> u32,
    calls: Mutex<Vec<Call>>,
}

impl ByHand {
    pub(super) fn new(cost_ns: fn(usize, u64) -> u64) -> Self {
        let (clock, hand) = RunClock::by_hand();
        Self { clock, hand, cost_ns, partitions: 1, locate: |_, _| 0, calls: Mutex::new(Vec::new()) }
    }

    /// Run `settings` (of one thread) and return what came of it, and every call.
    pub(super) fn run(self, settings: &Settings, keys: &Keys) -> (Ran, Vec<Call>) {
        assert_eq!(settings.threads, 1, "one thread moves the clock");
        let values = Values::new(100, 1.0, 1);
        let clock = self.clock.clone();
        let (target, progress) = (&self, &Progress::new());
        let phase = RunPhase { target, settings, keys, values: &values, progress, player: None };
        let ran = run_phase(&phase, &clock).unwrap();
        (ran, self.calls.into_inner().unwrap())
    }

    fn call(&self, kind: OpKind, keys: impl IntoIterator<Item = Vec<u8>>) {
        let mut calls = self.calls.lock().unwrap();
        let at_ns = self.clock.now_ns();
        self.hand.increment((self.cost_ns)(calls.len(), at_ns));
        calls.push(Call { at_ns, kind, keys: keys.into_iter().collect() });
    }
}

impl Target for ByHand {
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.call(OpKind::Read, [key.to_vec()]);
        into.resize(100, 0);
        Ok(true)
    }

    fn put(&self, key: &[u8], _value: &[u8]) -> Result<()> {
        self.call(OpKind::Update, [key.to_vec()]);
        Ok(())
    }

    fn load(&self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read_group(&self, keys: &[Vec<u8>], into: &mut Vec<u8>) -> Result<u32> {
        self.call(OpKind::MultiGet, keys.to_vec());
        into.resize(100 * keys.len(), 0);
        Ok(keys.len() as u32)
    }

    fn write_group(&self, batch: &Batch) -> Result<()> {
        let keys = batch.to_ops().into_iter().filter_map(|op| match op {
            Op::Put { key, value } if value.len() == 100 => Some(key.to_vec()),
            _ => None,
        });
        self.call(OpKind::Batch, keys);
        Ok(())
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn partition_of(&self, key: &[u8]) -> u32 {
        (self.locate)(key, self.clock.now_ns())
    }

    fn scan(&self, from: &[u8], limit: u32, _into: &mut Vec<u8>) -> Result<u32> {
        self.call(OpKind::Scan, [from.to_vec()]);
        Ok(limit)
    }

    fn walk(&self) -> Result<Box<dyn Walk>> {
        Err(Error::unsupported("no walks here"))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        Ok(Stats::default())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
