//! The run phase: T client threads issue their streams of operations, each waiting for its answer; where the task has it,
//! one more works beside them until they are done.

use std::sync::{Barrier, OnceLock};

use biombo_base::{Error, Result};

use super::client::{Client, Shared};
use super::clock::RunClock;
use super::{Latencies, Progress, Timeline};
use crate::target::Target;
use crate::workload::{Keys, Task, Values};

/// When a run phase ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// After this many operations of all threads together.
    Operations(u64),
    /// After this many seconds.
    Seconds(f64),
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What the clients do.
    pub task: Task,
    /// Records loaded, or to be named by those who fill an empty store.
    pub records: u64,
    /// Inserts to expect, for the zipfian space of workloads that insert.
    pub inserts: u64,
    /// Client threads.
    pub threads: u32,
    /// When to end.
    pub until: Until,
    /// Open loop at this many operations per second together; `None`: closed loop.
    pub rate: Option<f64>,
    /// Makes the run reproducible.
    pub seed: u64,
    /// Check that every value read has the length put (not for engines that keep nothing).
    pub check: bool,
}

/// What a run phase gave.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Operations finished, those of a client beside the others not counted.
    pub operations: u64,
    /// From the common beginning to the last counted operation's end.
    pub seconds: f64,
    /// Latencies by kind of operation, of all clients; from the intended beginning in an open loop.
    pub latencies: Latencies,
    /// Throughput over time, of the counted operations.
    pub timeline: Timeline,
    /// Operations that failed, or did not find the record that exists.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Bytes of keys and values put.
    pub logical_write_bytes: u64,
}

/// Run `settings` over `target`, in which the records `0..settings.records` were loaded if the task wants it.
///
/// Errors of single operations are counted; one after which all others would fail too (a full disk, a poisoned store, an
/// unsupported operation) ends the run and is returned.
pub fn run(target: &dyn Target, settings: &Settings, keys: &Keys, values: &Values, progress: &Progress) -> Result<Ran> {
    let shared = Shared::new(target, settings, keys, values, progress);
    let threads = settings.threads + u32::from(settings.task.beside().is_some());
    let ready = Barrier::new(threads as usize + 1);
    let go = Barrier::new(threads as usize + 1);
    let calibrated = RunClock::start();
    let clock = OnceLock::new();
    let clients: Result<Vec<Client<'_>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (ready, go, clock, shared) = (&ready, &go, (&calibrated, &clock), &shared);
                scope.spawn(move || {
                    let mut client = Client::new(shared, thread);
                    ready.wait();
                    go.wait();
                    client.work(clock.1.get_or_init(|| clock.0.restart())).map(|()| client)
                })
            })
            .collect();
        ready.wait();
        clock.get_or_init(|| calibrated.restart());
        go.wait();
        // Join all before looking at any: the scope would wait for them anyway.
        let joined: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        joined
            .into_iter()
            .map(|client| {
                client.unwrap_or_else(|_| Err(Error::invalid("a client thread panicked: see its message above")))
            })
            .collect()
    });
    let clients = clients?;
    let mut latencies = Latencies::new(settings.task.kinds());
    clients.iter().for_each(|client| latencies.merge(&client.latencies));
    let counted = || clients.iter().filter(|client| !client.beside);
    Ok(Ran {
        operations: counted().map(|client| client.operations).sum(),
        seconds: counted().map(|client| client.ended_ns).max().unwrap_or(0) as f64 / 1e9,
        latencies,
        errors: clients.iter().map(|client| client.errors).sum(),
        first_error: clients.iter().find_map(|client| client.first_error.clone()),
        logical_write_bytes: clients.iter().map(|client| client.written).sum(),
        timeline: Timeline::merge(counted().map(|client| client.ticks.clone().finish())),
    })
}
