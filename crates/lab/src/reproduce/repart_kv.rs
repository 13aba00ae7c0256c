//! `repart-kv`: YCSB over engines used directly, in one partition, in eight, and in eight that repartition themselves.
//!
//! Published: "Experimental evaluation report: Repart-KV" (February 2026): workloads A and D over LMDB and Tkrzw's tree, one and two workers
//! that each replay the whole workload, five repetitions. Its future work is done here, too: B, C, E and F, and other engines.
//!
//! Nothing is published of its caches. Eight instances of an engine with a cache of a fixed size have eight times the cache of one; here all
//! layouts have the same in all, and one more run gives eight partitions eight times that, which says how much of the published gain it is.

use biombo_base::Result;
use biombo_engine::{Durability, Registry};
use biombo_store::Repartition;

use super::{Figure, Finding, Lack, Reproduction, Seen, Trend, Unit, Verdict};
use super::{describe, judge, missing, of_runs, quotient, spread_text};
use crate::bench::{Outcome, Plan};
use crate::record::Record;
use crate::spec::Partitioning;
use crate::statistics::Spread;
use crate::units::{bytes, count, times};
use crate::workload::{Task, Workload};

/// What was published.
pub const TITLE: &str = "Experimental evaluation report: Repart-KV (2026)";
const SETUP: &str = "Xeon E5-2683 v4 (16 cores, no SMT), 64 GB DDR4-2400, Ubuntu 24.04, GCC 13.3; 5 repetitions; 1 and 8 partitions; \
                     repartitioning off and every second; 1 and 2 workers, each replaying the whole workload; LMDB as it comes, Tkrzw's \
                     TreeDBM with zlib compression";

const LMDB: &str = "lmdb";
/// Tkrzw's tree as it was published, with zlib, or without where a build lacks that.
const TREES: [&str; 2] = ["tkrzw-tree-zlib", "tkrzw-tree"];
/// The engines of the whole matrix.
const ALL: [&str; 6] = [LMDB, "tkrzw-tree", "leveldb", "rocksdb", "wiredtiger", "log"];

/// A way to divide the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Engine,
    Hard1,
    Hard8,
    Moving8,
}

impl Layout {
    /// As the published tables call it.
    fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Hard1 => "hard-1",
            Self::Hard8 => "hard-8",
            Self::Moving8 => "hard-8-repartitioning",
        }
    }

    fn is_of(self, record: &Record) -> bool {
        let (partitioning, partitions, moves) = match self {
            Self::Engine => ("none", 1, false),
            Self::Hard1 => ("hard", 1, false),
            Self::Hard8 => ("hard", 8, false),
            Self::Moving8 => ("hard", 8, true),
        };
        (record.partitioning.as_str(), record.partitions) == (partitioning, partitions)
            && (record.repartition != "off") == moves
    }
}

/// Whose figure was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Tkrzw,
    Lmdb,
}

impl System {
    fn name(self) -> &'static str {
        match self {
            Self::Tkrzw => "Tkrzw",
            Self::Lmdb => "LMDB",
        }
    }
}

/// Operations per second, all approximate: workload, system, layout, workers.
const THROUGHPUT: [(&str, System, Layout, u32, f64); 13] = [
    ("A", System::Tkrzw, Layout::Engine, 1, 41_000.0),
    ("A", System::Tkrzw, Layout::Engine, 2, 98_000.0),
    ("A", System::Tkrzw, Layout::Hard8, 1, 481_000.0),
    ("A", System::Tkrzw, Layout::Hard8, 2, 378_000.0),
    ("A", System::Tkrzw, Layout::Moving8, 1, 389_000.0),
    ("A", System::Lmdb, Layout::Engine, 1, 206_000.0),
    ("A", System::Lmdb, Layout::Engine, 2, 173_000.0),
    ("A", System::Lmdb, Layout::Hard8, 2, 212_000.0),
    ("D", System::Tkrzw, Layout::Engine, 2, 283_000.0),
    ("D", System::Tkrzw, Layout::Hard8, 2, 804_000.0),
    ("D", System::Lmdb, Layout::Engine, 2, 1_000_000.0),
    ("D", System::Lmdb, Layout::Hard8, 2, 701_000.0),
    ("D", System::Lmdb, Layout::Hard1, 2, 566_000.0),
];

/// Records, and seconds of a run, at scale 1; the least of either.
const RECORDS: (f64, f64) = (50_000.0, 1_000.0);
const SECONDS: (f64, f64) = (2.0, 0.05);
/// All caches of a store together: about half of the records.
const CACHE_BYTES: u64 = 32 << 20;
const VALUE_BYTES: u32 = 1_000;
/// Repetitions of what was published, and of the rest, whose runs are shorter and plan more often by as much: all of it takes less than half an
/// hour.
const REPEAT: u32 = 5;
const REPEAT_REST: u32 = 3;
const SHORTER: u32 = 4;
/// Below this scale, which only tries whether all works, there is one of everything.
const REPEAT_SCALE_MIN: f64 = 0.1;

/// The engine that stands for Tkrzw.
fn tree(is_here: impl Fn(&str) -> bool) -> Option<&'static str> {
    TREES.into_iter().find(|name| is_here(name))
}

/// What this build or this machine lacks.
pub fn lacks(registry: &Registry) -> Vec<Lack> {
    missing(registry, &ALL, "it is not measured")
}

/// The runs, of all engines or those of `asked`. `scale` multiplies the number of records and the seconds of each run, as far as they make sense.
pub fn plans(registry: &Registry, asked: &[String], scale: f64) -> Result<Vec<Plan>> {
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let is_here = |name: &str| is_asked(name) && registry.get(name).is_ok_and(|kind| kind.is_installed());
    registry.get(LMDB)?;
    let tree = tree(is_here);
    let repeated = |repeat| if scale < REPEAT_SCALE_MIN { 1 } else { repeat };
    let repeat = repeated(REPEAT);
    let second = std::time::Duration::from_secs(1);
    let every = Repartition::every(second)?;
    let base = Plan {
        records: (RECORDS.0 * scale).max(RECORDS.1) as u64,
        seconds: Some((SECONDS.0 * scale).max(SECONDS.1)),
        threads: vec![1, 2],
        partitionings: vec![Partitioning::None, Partitioning::Hard],
        partitions: vec![1, 8],
        repartitions: vec![Repartition::Off, every],
        durability: Durability::Os,
        value_bytes: vec![VALUE_BYTES],
        compression_ratio: 0.5,
        cache_bytes: Some(((CACHE_BYTES as f64 * scale) as u64).max(1 << 20)),
        ..Plan::default()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let tasks = |tasks: &[Workload]| tasks.iter().copied().map(Task::from).collect::<Vec<_>>();
    let published: Vec<&str> = [LMDB].into_iter().filter(|name| is_here(name)).chain(tree).collect();
    let all: Vec<&str> = ALL.into_iter().filter(|name| is_here(name)).collect();
    let others: Vec<&str> = all.iter().copied().filter(|name| !published.contains(name)).collect();
    let known = tasks(&[Workload::A, Workload::D]);
    let rest = tasks(&[Workload::B, Workload::C, Workload::E, Workload::F]);
    let mut plans = vec![Plan { engines: names(&published), tasks: known.clone(), repeat, ..base.clone() }];
    if let Some(tree) = tree {
        plans.push(Plan {
            engines: names(&[tree]),
            tasks: tasks(&[Workload::A]),
            threads: vec![1],
            partitionings: vec![Partitioning::Hard],
            partitions: vec![8],
            repartitions: vec![Repartition::Off],
            cache_bytes: base.cache_bytes.map(|bytes| 8 * bytes),
            repeat,
            ..base.clone()
        });
    }
    let shorter = Plan {
        seconds: base.seconds.map(|seconds| (seconds / f64::from(SHORTER)).max(SECONDS.1)),
        repartitions: vec![Repartition::Off, Repartition::every(second / SHORTER)?],
        repeat: repeated(REPEAT_REST),
        ..base
    };
    plans.push(Plan { engines: names(&others), tasks: known, ..shorter.clone() });
    plans.push(Plan { engines: names(&all), tasks: rest, ..shorter });
    plans.retain(|plan| !plan.engines.is_empty());
    Ok(plans)
}

/// The runs of all engines.
struct Runs<'a> {
    records: &'a [Record],
    seen: Seen<'a, Record>,
    /// The cache that all layouts are compared at.
    cache_bytes: u64,
}

impl<'a> Runs<'a> {
    fn new(records: &'a [Record]) -> Self {
        Self {
            records,
            seen: Seen::of(records),
            cache_bytes: records.iter().map(|record| record.cache_bytes).min().unwrap_or(0),
        }
    }

    fn engine(&self, system: System) -> Option<&'static str> {
        match system {
            System::Lmdb => Some(LMDB),
            System::Tkrzw => tree(|name| self.records.iter().any(|record| record.engine == name)),
        }
    }

    fn of(&self, work: &str, engine: &str, layout: Layout, workers: u32) -> Option<Spread> {
        let fits = |record: &&Record| {
            record.workload.eq_ignore_ascii_case(work)
                && record.engine == engine
                && record.threads == workers
                && record.cache_bytes == self.cache_bytes
                && layout.is_of(record)
        };
        let here = self.records.iter().filter(fits).inspect(|record| self.seen.saw(record));
        Spread::of(here.map(|record| record.ops_per_s))
    }

    /// The throughput of one layout by that of another.
    fn by(&self, work: &str, engine: &str, layouts: [Layout; 2], workers: u32) -> Option<Spread> {
        Some(quotient(self.of(work, engine, layouts[0], workers)?, self.of(work, engine, layouts[1], workers)?))
    }

    /// Every series: workload, engine, workers.
    fn series(&self) -> Vec<(&'a str, &'a str, u32)> {
        let mut series = Vec::new();
        for record in self.records {
            let one = (record.workload.as_str(), record.engine.as_str(), record.threads);
            if !series.contains(&one) {
                series.push(one);
            }
        }
        series
    }

    /// What repartitioning does to throughput, in the series of which `wanted` holds.
    fn moving(&self, wanted: impl Fn(&str, &str) -> bool) -> Vec<Trend> {
        let series = self.series().into_iter().filter(|(work, engine, _)| wanted(work, engine));
        let trend = |(work, engine, workers): (&str, &str, u32)| {
            let small = self.of(work, engine, Layout::Hard8, workers)?;
            Some(Trend { small, large: self.of(work, engine, Layout::Moving8, workers)? })
        };
        series.filter_map(trend).collect()
    }
}

/// What came out, beside what was published.
pub fn findings(outcome: &Outcome) -> Result<Reproduction> {
    let runs = Runs::new(&outcome.records);
    let first = outcome.records.first();
    let host = first.map(|r| format!("{} ({} cores), Linux {}", r.host.cpu, r.host.cores, r.host.kernel));
    let records = first.map_or(0, |record| record.records);
    Ok(Reproduction {
        name: "repart-kv",
        title: TITLE,
        setup_then: SETUP,
        setup_now: format!(
            "{} records of 16 + {VALUE_BYTES} bytes that a compressor halves, {} of cache in all, runs of {}, acknowledged at os, {}",
            count(records as f64),
            bytes(runs.cache_bytes as f64),
            lengths(&outcome.records),
            host.unwrap_or_else(|| "no run was done".to_owned())
        ),
        differences: differences(),
        figures: figures(&runs),
        curves: Vec::new(),
        findings: judged(&runs, outcome),
    })
}

/// `2.0 s`, or `0.5 to 2.0 s`: what was published has longer runs than the rest.
fn lengths(records: &[Record]) -> String {
    let seconds = Spread::of(records.iter().map(|record| record.seconds));
    let [least, most] = seconds.map_or([0.0; 2], |spread| [spread.min, spread.max]).map(|s| format!("{s:.1}"));
    if least == most { format!("{most} s") } else { format!("{least} to {most} s") }
}

fn workers(count: u32) -> String {
    format!("{count} worker{}", if count == 1 { "" } else { "s" })
}

fn figures(runs: &Runs<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (work, system, layout, count, published) in THROUGHPUT {
        let figure = Figure::new(format!("{work}, {}", workers(count)), layout.name(), Unit::PerSecond);
        let engine = runs.engine(system).unwrap_or(TREES[0]);
        let figure = figure.published(system.name(), Some(published));
        figures.push(runs.seen.figure(|| figure.measured(engine, runs.of(work, engine, layout, count))));
    }
    // What nobody had measured.
    for (work, engine, count) in runs.series() {
        for layout in [Layout::Engine, Layout::Hard1, Layout::Hard8, Layout::Moving8] {
            let is_published = THROUGHPUT.iter().any(|(of, system, on, by, _)| {
                (of.eq_ignore_ascii_case(work), *on, *by) == (true, layout, count)
                    && runs.engine(*system) == Some(engine)
            });
            if runs.of(work, engine, layout, count).is_some() && !is_published {
                let load = format!("{}, {}", work.to_uppercase(), workers(count));
                let figure = Figure::new(load, layout.name(), Unit::PerSecond);
                figures.push(runs.seen.figure(|| figure.measured(engine, runs.of(work, engine, layout, count))));
            }
        }
    }
    figures
}

/// `3.10 (2.90 to 3.30)`.
fn text(spread: Spread) -> String {
    spread_text(spread, times)
}

fn finding(published: String, figure: Option<f64>, measured: Option<(Spread, String)>) -> Finding {
    let Some((by, measured)) = measured else {
        return Finding::unknown(published, figure);
    };
    let faster = figure.is_none_or(|figure| figure > 1.0);
    let verdict = match (by.min > 1.0, by.max < 1.0) {
        (false, false) => Verdict::Mixed,
        (is_faster, _) if is_faster == faster => Verdict::Holds,
        _ => Verdict::Refuted,
    };
    Finding {
        published,
        published_figure: figure,
        measured,
        measured_figure: Some(by.median),
        ratio: figure.map(|figure| by.median / figure),
        lines: Vec::new(),
        is_published: true,
        verdict: of_runs(by.runs, verdict),
    }
}

/// What was published of one layout by another, of the same workload, system and workers.
fn layouts(runs: &Runs<'_>, work: &str, system: System, [new, old]: [Layout; 2], count: u32) -> Option<Finding> {
    let of = |layout: Layout| {
        let row = THROUGHPUT.iter().find(|row| (row.0, row.1, row.2, row.3) == (work, system, layout, count));
        row.map(|row| row.4)
    };
    let ratio = of(new)? / of(old)?;
    let published = format!(
        "{work} over {}, {}: {} is {} than {} ({ratio:.2} times its throughput then)",
        system.name(),
        workers(count),
        new.name(),
        if ratio > 1.0 { "faster" } else { "slower" },
        old.name()
    );
    let engine = runs.engine(system);
    let measured = || {
        let engine = engine?;
        let by = runs.by(work, engine, [new, old], count)?;
        let now = |layout| runs.of(work, engine, layout, count).map_or(0.0, |spread| spread.median);
        let text =
            format!("{} times over {engine}: {}/s by {}/s", text(by), self::count(now(new)), self::count(now(old)));
        Some((by, text))
    };
    Some(runs.seen.finding(|| finding(published, Some(ratio), measured())))
}

fn judged(runs: &Runs<'_>, outcome: &Outcome) -> Vec<Finding> {
    let (engine, hard_1, hard_8, moving) = (Layout::Engine, Layout::Hard1, Layout::Hard8, Layout::Moving8);
    let ratios = [
        layouts(runs, "A", System::Tkrzw, [hard_8, engine], 1),
        layouts(runs, "A", System::Tkrzw, [hard_8, engine], 2),
        layouts(runs, "D", System::Tkrzw, [hard_8, engine], 2),
        layouts(runs, "A", System::Lmdb, [hard_8, engine], 2),
        layouts(runs, "D", System::Lmdb, [hard_8, engine], 2),
        layouts(runs, "D", System::Lmdb, [hard_1, engine], 2),
        layouts(runs, "A", System::Tkrzw, [moving, hard_8], 1),
    ];
    let mut findings: Vec<Finding> = ratios.into_iter().flatten().collect();
    findings.push(caches(runs));
    let published = |work: &str, engine: &str| {
        let systems = [System::Tkrzw, System::Lmdb].map(|system| runs.engine(system));
        ["A", "D"].iter().any(|of| of.eq_ignore_ascii_case(work)) && systems.contains(&Some(engine))
    };
    let units: u64 = outcome.records.iter().map(|record| record.moves.units).sum();
    // It is drawn from the published series; the others are told beside.
    let all = runs.moving(|_, _| true);
    let everywhere = |trends: &[Trend]| Finding {
        published:
            "repartitioning switched on costs throughput everywhere: 19 % (A, Tkrzw, 1 worker), about 15 % (A, LMDB)"
                .to_owned(),
        published_figure: None,
        measured: format!(
            "{}; of all engines and workloads: {}; {} units moved in all runs",
            describe(trends, SIDES),
            describe(&all, SIDES),
            self::count(units as f64)
        ),
        measured_figure: None,
        ratio: None,
        lines: Vec::new(),
        is_published: true,
        verdict: judge(trends, false),
    };
    findings.push(runs.seen.finding(|| everywhere(&runs.moving(published))));
    findings.push(Finding {
        published: "with one partition, repartitioning on and off are the same: tracking itself is cheap".to_owned(),
        published_figure: None,
        measured: "a store with one partition refuses to repartition itself: it has nowhere to move anything"
            .to_owned(),
        measured_figure: None,
        ratio: None,
        lines: Vec::new(),
        is_published: true,
        verdict: Verdict::Unknown,
    });
    findings
}

/// What is compared where repartitioning is switched on.
const SIDES: [&str; 2] = ["what repartitions itself", "what does not"];

/// Whether most of a gain is that of eight caches: `alone` is the engine used directly; eight partitions have `equal` cache, or eight times as
/// much. Gains multiply, so shares are those of their logarithms, with the extremes that the repetitions allow. Without a gain there is
/// nothing to divide.
fn of_caches(alone: Spread, equal: Spread, large: Spread) -> Verdict {
    let (gain, of_partitions, of_cache) = (quotient(large, alone), quotient(equal, alone), quotient(large, equal));
    let verdict = if gain.min <= 1.0 {
        Verdict::Mixed
    } else if of_partitions.max <= 1.0 || of_cache.min.ln() > 0.5 * gain.max.ln() {
        Verdict::Holds
    } else if of_cache.max.ln() < 0.5 * gain.min.ln() {
        Verdict::Refuted
    } else {
        Verdict::Mixed
    };
    of_runs(gain.runs.min(of_cache.runs), verdict)
}

/// How much of the gain of eight partitions is that of eight caches.
fn caches(runs: &Runs<'_>) -> Finding {
    let measured = || {
        let engine = runs.engine(System::Tkrzw)?;
        let large = runs.records.iter().filter(|record| {
            record.cache_bytes > runs.cache_bytes && record.engine == engine && Layout::Hard8.is_of(record)
        });
        let large = Spread::of(large.inspect(|record| runs.seen.saw(record)).map(|record| record.ops_per_s))?;
        let equal = runs.of("A", engine, Layout::Hard8, 1)?;
        let alone = runs.of("A", engine, Layout::Engine, 1)?;
        let (by, gain) = (quotient(large, equal), quotient(large, alone));
        let percent = 100.0 * by.median.ln() / gain.median.ln();
        let share = (gain.median > 1.0).then(|| format!("; {percent:.0} % of that gain is the cache's"));
        let share = share.unwrap_or_default();
        let text = format!(
            "by the engine used directly: {} times with its cache, {} times with eight times that{share}",
            text(quotient(equal, alone)),
            text(gain)
        );
        Some((by, text, of_caches(alone, equal, large)))
    };
    let published =
        "not asked: whether most of the gain of eight partitions over Tkrzw (A, 1 worker) is that of eight caches";
    runs.seen.finding(|| {
        let unknown = Finding { is_published: false, ..Finding::unknown(published.to_owned(), None) };
        let Some((by, measured, verdict)) = measured() else { return unknown };
        Finding { measured, measured_figure: Some(by.median), verdict, ..unknown }
    })
}

fn differences() -> Vec<String> {
    [
        "Caches are not published. Eight instances with the cache that one has by default have eight times as much. Here all layouts share \
         one size, which holds about half of the records; LMDB has none of its own, and reads the kernel's.",
        "Then each write took one exclusive lock of a map of all keys, and each operation a look-up in a second database. Here a key is routed \
         by its hash, without a lock, and reads and writes run on their caller's thread (the executor direct).",
        "Then METIS grouped keys that scans had touched together, they moved whatever it cost, and everybody waited meanwhile. Here a plan (of \
         ldg) must be \
         predicted to pay, so where nothing is to be gained nothing moves; what is measured then is what watching costs.",
        "Then a worker replayed a whole file of operations, so two workers did twice the work. Here a run takes as long with one as with two, \
         and throughput is counted.",
        "When a write was acknowledged is not published. As it comes, LMDB syncs each commit; 200,000 operations a second, half of them writes, are \
         out of reach of that. Here all are at os. Writes to LMDB in hard partitions go to the store's journal first, and to LMDB in bulk; \
         used directly, each is a transaction.",
        "What was published is measured five times. The rest, other workloads and other engines, is measured three times in runs of a quarter of \
         that length, which plan four times as often; --repeat gives all of it other repetitions.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests;
