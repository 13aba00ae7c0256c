//! How much of a store is live: the smaller figure of space amplification.

use biombo_engine::Stats;

use crate::driver::{Loaded, Ran};
use crate::spec::RunSpec;
use crate::workload::{Benchmark, OpKind, Task};

/// Bytes of live keys and values after loading, or after the run `ran`: as the engine says; by the keys that it says it has, if that is
/// exact; by what the driver knows. `None` for a trace over an empty store, which may put a key once or often.
pub(crate) fn live_bytes(spec: &RunSpec, stats: Option<&Stats>, loaded: &Loaded, ran: Option<&Ran>) -> Option<u64> {
    let record_bytes = u64::from(spec.key_bytes) + u64::from(spec.value_bytes);
    let is_trace = matches!(spec.task, Task::Trace { .. });
    let keys = stats.filter(|stats| !stats.keys_estimated && !is_trace).and_then(|stats| stats.keys);
    if let Some(bytes) = stats.and_then(|stats| stats.logical_bytes).or(keys.map(|keys| keys * record_bytes)) {
        return Some(bytes);
    }
    let Some(ran) = ran else { return Some(loaded.bytes) };
    let inserted = ran.latencies.iter().find(|(kind, _)| *kind == OpKind::Insert).map_or(0, |(_, times)| times.len());
    Some(match spec.task {
        // Every key that it names was loaded.
        Task::Trace { .. } if spec.preload => loaded.bytes,
        Task::Trace { .. } => return None,
        Task::Db { benchmark: Benchmark::FillSeq } => inserted.min(spec.records) * record_bytes,
        Task::Db { benchmark: Benchmark::FillRandom } => drawn(spec.records, inserted) * record_bytes,
        _ => loaded.bytes + inserted * record_bytes,
    })
}

/// How many of `records` are drawn at least once, on average, by so many draws with replacement.
fn drawn(records: u64, draws: u64) -> u64 {
    let never = (1.0 - 1.0 / records.max(1) as f64).powf(draws as f64);
    (records as f64 * (1.0 - never)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Plan;
    use crate::driver::{Latencies, Timeline};
    use crate::workload::Workload;

    fn spec(task: Task) -> RunSpec {
        Plan { engines: vec!["null".into()], tasks: vec![task], records: 1_000, ..Plan::default() }.runs().remove(0)
    }

    fn ran(inserts: u64) -> Ran {
        let mut latencies = Latencies::new([OpKind::Insert]);
        (0..inserts).for_each(|_| latencies.record(OpKind::Insert, 1));
        Ran {
            operations: inserts,
            seconds: 1.0,
            ops_per_s: 0.0,
            latencies,
            timeline: Timeline::default(),
            errors: 0,
            first_error: None,
            logical_write_bytes: 0,
            logical_read_bytes: 0,
        }
    }

    /// Fails if inserts of a run are left out, or keys that were drawn twice count twice.
    #[test]
    fn what_the_driver_knows_stands_in_where_the_engine_says_nothing() {
        let loaded = Loaded { records: 1_000, bytes: 1_016_000, seconds: 1.0 };
        let of = |task: Task, inserts| live_bytes(&spec(task), None, &loaded, Some(&ran(inserts)));
        assert_eq!(live_bytes(&spec(Workload::A.into()), None, &loaded, None), Some(1_016_000));
        assert_eq!(of(Workload::D.into(), 50), Some(1_050 * 1_016));
        assert_eq!(of(Benchmark::FillSeq.into(), 2_500), Some(1_000 * 1_016));
        // A thousand draws of a thousand leave out one in e of them.
        assert_eq!(of(Benchmark::FillRandom.into(), 1_000), Some(632 * 1_016));
    }

    /// Fails if an estimate is taken for a count.
    #[test]
    fn the_engine_is_believed_before_the_driver_unless_it_guesses() {
        let loaded = Loaded { records: 1_000, bytes: 1_016_000, seconds: 1.0 };
        let of = |stats: Stats| live_bytes(&spec(Workload::A.into()), Some(&stats), &loaded, Some(&ran(0)));
        assert_eq!(of(Stats { logical_bytes: Some(7), keys: Some(9), ..Stats::default() }), Some(7));
        assert_eq!(of(Stats { keys: Some(9), ..Stats::default() }), Some(9 * 1_016));
        assert_eq!(of(Stats { keys: Some(9), keys_estimated: true, ..Stats::default() }), Some(1_016_000));
    }
}
