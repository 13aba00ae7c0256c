//! The run phase: T client threads issue their streams of operations, each waiting for its answer; where the task has it,
//! one more works beside them until they are done.

use std::path::PathBuf;
use std::sync::{Barrier, OnceLock};

use biombo_base::clock::monotonic_ns;
use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::client::{Client, Shared};
use super::clock::RunClock;
use super::slowed::Slowed;
use super::{Latencies, Progress, Timeline};
use crate::target::{Moved, Target};
use crate::turns::{Gate, Player};
use crate::workload::shift::{Mark, MarkKind};
use crate::workload::{Keys, Task, Values};

/// When a run phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After this many operations of all threads together.
    Operations(u64),
    /// After this many seconds.
    Seconds(f64),
    /// When every client has replayed its trace.
    Once,
}

/// What to run.
#[derive(Debug, Clone)]
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
    /// Check that every record read is there and has the length put (not for engines that keep nothing, nor for a trace over an
    /// empty store).
    pub check: bool,
    /// The files of a trace: one for each thread, or one that every thread replays.
    pub traces: Vec<PathBuf>,
}

impl Settings {
    /// Whether a trace is replayed once.
    pub(super) fn once(&self) -> bool {
        self.until == Until::Once
    }
}

/// What a run phase is over.
#[derive(Clone, Copy)]
pub(crate) struct RunPhase<'a> {
    pub target: &'a dyn Target,
    pub settings: &'a Settings,
    pub keys: &'a Keys,
    pub values: &'a Values,
    pub progress: &'a Progress,
    /// Where it goes on by turns.
    pub player: Option<&'a Player<'a>>,
}

/// What a run phase gave.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Operations finished, those of a client beside the others not counted.
    pub operations: u64,
    /// From the common beginning to the last counted operation's end; in an open loop by seconds to the end of these at least.
    pub seconds: f64,
    /// Operations per second: of a run that has a number of operations, by all of its time; of one that has a time, the sum of what each client
    /// did in its own, so that one which ended at once is not charged for another's last, slow operation.
    pub ops_per_s: f64,
    /// Latencies by kind of operation, of all clients; from the intended beginning in an open loop.
    pub latencies: Latencies,
    /// Throughput and tail over time, of the counted operations, and what happened meanwhile.
    pub timeline: Timeline,
    /// Operations that failed, or did not find the record that exists.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Bytes of keys and values put.
    pub logical_write_bytes: u64,
    /// Bytes that reads returned: values of gets, keys and values of scans and walks.
    pub logical_read_bytes: u64,
}

/// Run `settings` over `target`, in which the records `0..settings.records` were loaded if the task wants it.
///
/// Errors of single operations are counted; one after which all others would fail too (a full disk, a poisoned store, an
/// unsupported operation) ends the run and is returned.
pub fn run(target: &dyn Target, settings: &Settings, keys: &Keys, values: &Values, progress: &Progress) -> Result<Ran> {
    run_phase(&RunPhase { target, settings, keys, values, progress, player: None }, &RunClock::start())
}

/// As [`run`], by a clock that is given, and in the turns of `phase.player`, where there is one.
pub(crate) fn run_phase(phase: &RunPhase<'_>, calibrated: &RunClock) -> Result<Ran> {
    let RunPhase { target, settings, progress, player, .. } = *phase;
    let planning_before = target.moved()?.planning_seconds;
    let mut shared = Shared::new(phase);
    shared.slowed = Slowed::asked()?;
    let threads = settings.threads + u32::from(settings.task.beside().is_some());
    let begun_ns = OnceLock::new();
    let ready = Barrier::new(threads as usize + 1);
    let go = Barrier::new(threads as usize + 1);
    let clock = OnceLock::new();
    let clients: Result<Vec<Client<'_>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (ready, go, clock, shared) = (&ready, &go, (calibrated, &clock), &shared);
                scope.spawn(move || {
                    let _inside = shared.gate.map(Gate::enter);
                    let client = Client::new(shared, thread);
                    ready.wait();
                    go.wait();
                    let worked = client.and_then(|mut client| {
                        client.work(clock.1.get_or_init(|| clock.0.restart()))?;
                        Ok(client)
                    });
                    // Where one cannot go on, the others need not.
                    worked.inspect_err(|_| progress.stop())
                })
            })
            .collect();
        ready.wait();
        // Clients who hear of no beginning end soon.
        let begun = player.map_or(Ok(()), Player::begin).inspect_err(|_| progress.stop());
        let keeping = player
            .filter(|_| begun.is_ok())
            .map(|player| scope.spawn(|| player.keep(calibrated).inspect_err(|_| progress.stop())));
        clock.get_or_init(|| calibrated.restart());
        begun_ns.get_or_init(monotonic_ns);
        go.wait();
        // Join all before looking at any: the scope would wait for them anyway.
        let joined: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        begun?;
        if let (Some(player), Some(keeping)) = (player, keeping) {
            player.done()?;
            keeping.join().unwrap_or_else(|_| Err(Error::invalid("the thread that keeps to turns panicked")))?;
        }
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
    let seconds = counted().map(|client| client.ended_ns).max().unwrap_or(0) as f64 / 1e9;
    let operations: u64 = counted().map(|client| client.operations).sum();
    let rate = |operations: u64, seconds: f64| if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
    let ops_per_s = match settings.until {
        Until::Seconds(_) => counted().map(|client| rate(client.operations, client.ended_ns as f64 / 1e9)).sum(),
        _ => rate(operations, seconds),
    };
    let mut timeline = Timeline::merge(counted().map(|client| client.ticks.clone()));
    timeline.marks = settings.task.marks(seconds);
    timeline.marks.extend(shared.supply.common().marks());
    let moved = target.moved()?;
    timeline.planning_seconds = (moved.planning_seconds - planning_before).max(0.0);
    timeline.marks.extend(plans(&moved, *begun_ns.get_or_init(monotonic_ns), seconds));
    Ok(Ran {
        operations,
        seconds,
        ops_per_s,
        latencies,
        errors: clients.iter().map(|client| client.errors).sum(),
        first_error: clients.iter().find_map(|client| client.first_error.clone()),
        logical_write_bytes: clients.iter().map(|client| client.written).sum(),
        logical_read_bytes: clients.iter().map(|client| client.returned).sum(),
        timeline,
    })
}

/// The plans that were carried out in a run that began at `begun_ns` and took `seconds`, and when all had moved.
fn plans(moved: &Moved, begun_ns: u64, seconds: f64) -> impl Iterator<Item = Mark> {
    let all = moved.plans.iter().flat_map(|carried| {
        let plan = (MarkKind::Plan, carried.begun_ns, &carried.plan);
        [plan, (MarkKind::Move, carried.ended_ns, &carried.moved)]
    });
    all.filter_map(move |(kind, at_ns, text)| {
        let at_seconds = at_ns.checked_sub(begun_ns)? as f64 / 1e9;
        (at_seconds <= seconds).then(|| Mark { at_seconds, kind, text: text.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Carried;

    #[test]
    fn a_plan_is_marked_where_it_begins_and_where_all_has_moved() {
        let carried = |begun_ns, ended_ns| Carried { begun_ns, ended_ns, plan: "why".into(), moved: "what".into() };
        let second = 1_000_000_000;
        let plans =
            [carried(second / 2, 3 * second), carried(4 * second, 5 * second), carried(9 * second, 20 * second)];
        let moved = Moved { plans: plans.to_vec(), ..Moved::default() };
        let marks: Vec<_> = plans_of(&moved, second, 10.0);
        let expected = [
            (2.0, MarkKind::Move, "what"),
            (3.0, MarkKind::Plan, "why"),
            (4.0, MarkKind::Move, "what"),
            (8.0, MarkKind::Plan, "why"),
        ];
        assert_eq!(
            marks,
            expected.map(|(at, kind, text)| (at, kind, text.to_owned())),
            "none before it began or after it ended"
        );
    }

    fn plans_of(moved: &Moved, begun_ns: u64, seconds: f64) -> Vec<(f64, MarkKind, String)> {
        plans(moved, begun_ns, seconds).map(|mark| (mark.at_seconds, mark.kind, mark.text)).collect()
    }
}
