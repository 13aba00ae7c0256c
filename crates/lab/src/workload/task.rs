//! What one run does: a YCSB core workload, one of db_bench's benchmarks, a workload that shifts, or a trace.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::core::SHIFT_PERIOD_SECONDS;
use super::shift::Mark;
use super::trace::Counts;
use super::{Benchmark, Distribution, KeyFormat, Mix, OpKind, Shift, ShiftKind, Workload};

/// A task, with all that defines it but the sizes (and a trace's files).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// A YCSB core workload.
    Ycsb {
        /// Which.
        workload: Workload,
        /// How it chooses records.
        distribution: Distribution,
    },
    /// Operations by their shares.
    Mix {
        /// The shares.
        mix: Mix,
        /// How it chooses records.
        distribution: Distribution,
    },
    /// One of db_bench's benchmarks.
    Db {
        /// Which.
        benchmark: Benchmark,
    },
    /// A workload that shifts.
    Shift {
        /// Which, with its parameters.
        shift: Shift,
    },
    /// Recorded operations.
    Trace {
        /// What is in all files together.
        counts: Counts,
    },
}

impl From<Workload> for Task {
    /// With the distribution that its definition names.
    fn from(workload: Workload) -> Self {
        Self::Ycsb { workload, distribution: workload.distribution() }
    }
}

impl From<Benchmark> for Task {
    fn from(benchmark: Benchmark) -> Self {
        Self::Db { benchmark }
    }
}

impl From<Shift> for Task {
    fn from(shift: Shift) -> Self {
        Self::Shift { shift }
    }
}

impl Task {
    /// The bench that it belongs to, as records name it.
    pub fn bench(self) -> &'static str {
        match self {
            Self::Ycsb { .. } | Self::Mix { .. } => "ycsb",
            Self::Db { .. } => "db",
            Self::Shift { .. } => "shift",
            Self::Trace { .. } => "trace",
        }
    }

    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ycsb { workload, .. } => workload.name(),
            Self::Mix { .. } => "mix",
            Self::Db { benchmark } => benchmark.name(),
            Self::Shift { shift } => shift.kind.name(),
            Self::Trace { .. } => "trace",
        }
    }

    /// How keys are chosen, as records name it.
    pub fn distribution(self) -> &'static str {
        match self {
            Self::Ycsb { distribution, .. } | Self::Mix { distribution, .. } => distribution.name(),
            Self::Db { benchmark } if benchmark.in_order() => "sequential",
            Self::Db { .. } => "uniform",
            Self::Shift { .. } => "shift",
            Self::Trace { .. } => "recorded",
        }
    }

    /// The share of `kind` in what the clients do.
    pub fn share(self, kind: OpKind) -> f64 {
        match self {
            Self::Ycsb { workload, .. } => workload.share(kind),
            Self::Mix { mix, .. } => mix.share(kind),
            Self::Db { benchmark } => f64::from(u8::from(benchmark.kind() == kind)),
            Self::Shift { shift } => shift.share_of(kind),
            Self::Trace { counts } => counts.share(kind),
        }
    }

    /// What one more client does beside the others, for as long as they work. It does not count for throughput.
    pub fn beside(self) -> Option<OpKind> {
        matches!(self, Self::Db { benchmark: Benchmark::ReadWhileWriting }).then_some(OpKind::Update)
    }

    /// The kinds of operation that occur.
    pub fn kinds(self) -> impl Iterator<Item = OpKind> {
        OpKind::ALL.into_iter().filter(move |kind| self.share(*kind) > 0.0 || self.beside() == Some(*kind))
    }

    /// Whether all records are loaded before it begins.
    pub fn loads(self) -> bool {
        !matches!(self, Self::Db { benchmark } if benchmark.fills())
    }

    /// Whether it adds records to those loaded, without a bound known before.
    pub fn grows(self) -> bool {
        !matches!(self, Self::Db { .. }) && self.share(OpKind::Insert) > 0.0
    }

    /// Records that one write puts.
    pub fn records_per_write(self) -> u64 {
        match self {
            Self::Shift { shift } => shift.records_per_write(),
            _ => 1,
        }
    }

    /// The shifts of a run phase of `seconds` that are known before.
    pub fn marks(self, seconds: f64) -> Vec<Mark> {
        match self {
            Self::Shift { shift } => shift.marks(seconds),
            Self::Ycsb { distribution: Distribution::Shift, .. }
            | Self::Mix { distribution: Distribution::Shift, .. } => {
                Shift { period_seconds: SHIFT_PERIOD_SECONDS, ..ShiftKind::Jump.into() }.marks(seconds)
            }
            _ => Vec::new(),
        }
    }

    /// What it needs an order of keys for, if it does.
    pub fn order(self) -> Option<&'static str> {
        match self {
            Self::Db { benchmark: Benchmark::ReadSeq } => Some("it cannot be read in order"),
            Self::Trace { .. } if self.share(OpKind::Scan) > 0.0 => Some("the trace's scans cannot be run"),
            _ if self.share(OpKind::Scan) > 0.0 => Some("the workload's scans cannot be run"),
            _ => None,
        }
    }

    /// How keys are written.
    pub fn key_format(self) -> KeyFormat {
        match self {
            Self::Ycsb { .. } | Self::Mix { .. } | Self::Trace { .. } => KeyFormat::Hashed,
            Self::Shift { shift } => shift.key_format(),
            Self::Db { .. } => KeyFormat::Decimal,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_does_what_its_definition_says() {
        let kinds = |task: Task| task.kinds().map(OpKind::name).collect::<Vec<_>>().join("+");
        let said: Vec<_> = Benchmark::ALL
            .map(Task::from)
            .map(|task| format!("{task} {} {} {}", kinds(task), task.distribution(), task.loads()))
            .into();
        let expected = [
            "fillseq insert sequential false",
            "fillrandom insert uniform false",
            "overwrite update uniform true",
            "readseq read sequential true",
            "readrandom read uniform true",
            "readwhilewriting read+update uniform true",
        ];
        assert_eq!(said, expected);
        for workload in Workload::ALL {
            let task = Task::from(workload);
            assert!(task.loads() && task.beside().is_none());
            assert_eq!(task.kinds().map(|kind| task.share(kind)).sum::<f64>(), 1.0);
        }
        assert_eq!(kinds(Workload::F.into()), "read+read_modify_write");
    }

    #[test]
    fn shifting_tasks_load_and_only_inserts_grow() {
        for kind in ShiftKind::ALL {
            let task = Task::from(Shift::from(kind));
            assert!(task.loads() && task.order().is_none() && task.beside().is_none(), "{kind}");
            assert_eq!(task.grows(), kind == ShiftKind::Monotonic);
            assert_eq!(task.records_per_write(), if kind == ShiftKind::Groups { 10 } else { 1 });
        }
        let groups = Task::from(Shift::from(ShiftKind::Groups));
        assert_eq!(groups.kinds().map(OpKind::name).collect::<Vec<_>>(), ["multi_get", "batch"]);
        let moving = Task::Ycsb { workload: Workload::A, distribution: Distribution::Shift };
        assert_eq!(moving.marks(11.0).iter().map(|mark| mark.at_seconds).collect::<Vec<_>>(), [5.0, 10.0]);
        assert!(Task::from(Workload::A).marks(100.0).is_empty());
    }

    #[test]
    fn only_what_reads_in_order_needs_an_order() {
        let ordered: Vec<_> = Benchmark::ALL
            .map(Task::from)
            .into_iter()
            .chain(Workload::ALL.map(Task::from))
            .filter(|task| task.order().is_some())
            .map(Task::name)
            .collect();
        assert_eq!(ordered, ["readseq", "e"]);
    }
}
