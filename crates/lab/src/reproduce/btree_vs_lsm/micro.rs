//! The micro-benchmark: a B-tree that writes a page at each put against an LSM-tree that writes 1,000 records at a time.
//!
//! Published: "B-trees against LSM-trees on NVMe SSDs" (February 2026), a program of its own beside YCSB: O_DIRECT, keys and values of 8
//! bytes, pages of 4 KiB, a memtable of 1,000 records, 5,000 operations, half of them reads. Here the lab's engines in their published behaviour
//! do the same, and the same engines with a journal beside them; then all of them twenty times as much.

use biombo_engine::Registry;

use super::super::{Figure, Finding, Lack, Seen, Trend, Unit, Verdict, judge, merging, of_runs, spread_text};
use crate::bench::Plan;
use crate::record::Record;
use crate::statistics::Spread;
use crate::units::{count, times};
use crate::workload::{Distribution, Task, Workload};

const BTREE: &str = "micro-btree-published";
const LSM: &str = "micro-lsm-published";
const JOURNALED_BTREE: &str = "micro-btree";
const JOURNALED_LSM: &str = "micro-lsm";
const ENGINES: [&str; 4] = [BTREE, LSM, JOURNALED_BTREE, JOURNALED_LSM];

/// The length of keys and of values.
pub(super) const VALUE_BYTES: u32 = 8;

/// Operations of a run at scale 1, as published, and of a longer one.
const OPERATIONS: f64 = 5_000.0;
const LONGER: u64 = 20;
/// The first seed of the longer runs. The operations that a run did say its length only beside runs of the other one, at any scale.
const LONGER_SEED: u64 = 1_001;

/// What was measured then: operations per second, and bytes written by bytes put.
const BTREE_OPS: f64 = 9_591.0;
const LSM_OPS: f64 = 36_144.0;
const BTREE_WAF: f64 = 256.0;
const LSM_WAF: f64 = 0.81;

/// Whether the build has the engines, which come by one feature.
fn has_engines(registry: &Registry) -> bool {
    ENGINES.iter().all(|name| registry.get(name).is_ok())
}

/// The runs: as published, and longer; none in a build without the engines.
pub(super) fn plans(registry: &Registry, scale: f64) -> Vec<Plan> {
    if !has_engines(registry) {
        return Vec::new();
    }
    let operations = ((OPERATIONS * scale) as u64).max(200);
    let of = |operations: u64, seed: u64| Plan {
        seed,
        engines: ENGINES.map(str::to_owned).to_vec(),
        tasks: vec![Task::Ycsb { workload: Workload::A, distribution: Distribution::Uniform }],
        records: operations,
        operations,
        threads: vec![1],
        key_bytes: vec![VALUE_BYTES],
        value_bytes: vec![VALUE_BYTES],
        cache_bytes: Some(16 << 20),
        repeat: 3,
        ..Plan::default()
    };
    vec![of(operations, 1), of(operations * LONGER, LONGER_SEED)]
}

/// What is left out of this part: nothing, or all of it.
pub(super) fn lacks(registry: &Registry) -> Vec<Lack> {
    if has_engines(registry) {
        return Vec::new();
    }
    vec![Lack {
        engine: BTREE,
        why: format!("this build has no engines {BTREE} and {LSM}: build it with the feature micro"),
        without: "the micro-benchmark is left out",
    }]
}

/// Runs of one length.
struct Runs<'a> {
    records: Vec<&'a Record>,
    seen: &'a Seen<'a, Record>,
}

impl Runs<'_> {
    fn spread(&self, engine: &str, figure: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        let here = self.records.iter().filter(|record| record.engine == engine);
        let here = here.inspect(|record| self.seen.saw(record));
        Spread::of(here.filter_map(|record| figure(record)))
    }

    fn ops(&self, engine: &str) -> Option<Spread> {
        self.spread(engine, |record| Some(record.ops_per_s))
    }

    /// Of the run phase by the engine's own counters, what it had still to write included.
    fn waf(&self, engine: &str) -> Option<Spread> {
        self.spread(engine, |record| record.amplification.as_ref()?.run.waf.own)
    }

    /// Of the run phase by the kernel's.
    fn waf_by_kernel(&self, engine: &str) -> Option<Spread> {
        self.spread(engine, |record| record.waf_of_run(|ways| ways.process))
    }

    /// Of the load before it, by the engine's own counters.
    fn waf_of_load(&self, engine: &str) -> Option<Spread> {
        self.spread(engine, |record| record.amplification.as_ref()?.load.as_ref()?.waf.own)
    }

    fn operations(&self) -> u64 {
        self.records.first().map_or(0, |record| record.operations)
    }
}

/// The runs of the published length, and the longer ones.
pub(super) struct Lengths<'a> {
    short: Runs<'a>,
    long: Runs<'a>,
}

impl<'a> Lengths<'a> {
    /// Told apart by their seeds, which a run has whether it or those of the other length succeed.
    pub(super) fn of(records: &[&'a Record], seen: &'a Seen<'a, Record>) -> Self {
        let (long, short) = records.iter().copied().partition(|record| record.seed >= LONGER_SEED);
        let runs = |records| Runs { records, seen };
        Self { short: runs(short), long: runs(long) }
    }
}

/// What it was done with here.
pub(super) fn setup(lengths: &Lengths<'_>) -> String {
    format!(
        "the micro-benchmark over the lab's own engines, {} operations a run over as many records, and {LONGER} times as many",
        count(lengths.short.operations() as f64)
    )
}

/// Throughput and write amplification of every engine, in runs of both lengths: that of the run by both counters, and that of its load apart.
pub(super) fn figures(lengths: &Lengths<'_>) -> Vec<Figure> {
    const LOADING: &str = "loading: WAF by the engine";
    let mut figures = Vec::new();
    for (runs, as_published) in [(&lengths.short, true), (&lengths.long, false)] {
        let load = format!("micro-benchmark, {} operations", count(runs.operations() as f64));
        let rows = [
            ("throughput", Unit::PerSecond),
            ("WAF by the engine", Unit::Ratio),
            ("WAF by the kernel", Unit::Ratio),
            (LOADING, Unit::Ratio),
        ];
        for (of, unit) in rows {
            for engine in ENGINES.into_iter().filter(|engine| runs.ops(engine).is_some()) {
                let figure = Figure::new(&load, of, unit);
                let figure = match (engine, unit) {
                    _ if !as_published || of == LOADING => figure,
                    (BTREE, Unit::PerSecond) => figure.published("B-tree", Some(BTREE_OPS)),
                    (BTREE, _) => figure.published("B-tree", Some(BTREE_WAF)),
                    (LSM, Unit::PerSecond) => figure.published("LSM-tree", Some(LSM_OPS)),
                    (LSM, _) => figure.published("LSM-tree", Some(LSM_WAF)),
                    _ => figure,
                };
                let measured = || match of {
                    "throughput" => runs.ops(engine),
                    LOADING => runs.waf_of_load(engine),
                    "WAF by the kernel" => runs.waf_by_kernel(engine),
                    _ => runs.waf(engine),
                };
                figures.push(runs.seen.figure(|| figure.measured(engine, measured())));
            }
        }
    }
    figures
}

/// `12.3 (12.1 to 12.6)`.
fn text(spread: Spread) -> String {
    spread_text(spread, |figure| if figure < 1_000.0 { times(figure) } else { count(figure) })
}

/// One side by the other, with the published ratio, if there is one; it holds where `large` is larger beyond the spread.
fn compared(
    published: String,
    figure: Option<f64>,
    unit: &str,
    small: Option<Spread>,
    large: Option<Spread>,
) -> Finding {
    let published = format!("micro-benchmark: {published}");
    let Some((small, large)) = small.zip(large) else { return Finding::unknown(published, figure) };
    let trend = Trend { small, large };
    Finding {
        published,
        published_figure: figure,
        measured: format!("{} against {} {unit}, {} times", text(large), text(small), times(trend.ratio())),
        measured_figure: Some(trend.ratio()),
        ratio: figure.map(|figure| trend.ratio() / figure),
        lines: Vec::new(),
        is_published: true,
        verdict: judge(&[trend], true),
    }
}

/// What a published write amplification may be apart from a measured one.
const NEAR: f64 = 0.02;

/// A write amplification of `engine` that was published; it holds where every repetition of the run phase has it within [`NEAR`] by the engine's
/// counters and by the kernel's, as far as that counts anything here, and does not hold where by both all of them lie on one side of that.
fn amplification(published: &str, figure: f64, runs: &Runs<'_>, engine: &str) -> Finding {
    let published = format!("micro-benchmark: {published}");
    let Some(own) = runs.waf(engine) else { return Finding::unknown(published, Some(figure)) };
    // Files in memory are written by nobody, as the kernel sees it.
    let kernel = runs.waf_by_kernel(engine).filter(|spread| spread.max > 0.0);
    let (low, high) = (figure * (1.0 - NEAR), figure * (1.0 + NEAR));
    let is_near = |spread: Spread| low <= spread.min && spread.max <= high;
    let is_apart = |spread: Spread| spread.max < low || high < spread.min;
    let verdict = match (is_near(own) && kernel.is_none_or(is_near), is_apart(own) && kernel.is_none_or(is_apart)) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Refuted,
        _ => Verdict::Mixed,
    };
    let by_kernel = kernel.map_or("which counts nothing here".to_owned(), text);
    let loading = runs.waf_of_load(engine).map_or(String::new(), |load| format!("; loading, apart, {}", text(load)));
    Finding {
        published,
        published_figure: Some(figure),
        measured: format!("{} in the run by its own counters, {by_kernel} by the kernel{loading}", text(own)),
        measured_figure: Some(own.median),
        ratio: Some(own.median / figure),
        lines: Vec::new(),
        is_published: true,
        verdict: of_runs(own.runs.min(kernel.map_or(own.runs, |kernel| kernel.runs)), verdict),
    }
}

/// The conclusions.
pub(super) fn findings(lengths: &Lengths<'_>) -> Vec<Finding> {
    let Lengths { short, long } = lengths;
    let seen = short.seen;
    let faster = || {
        let published = format!(
            "the LSM-tree is faster than the B-tree ({} operations a second and {} then, 3.77 times)",
            count(LSM_OPS),
            count(BTREE_OPS)
        );
        let ratio = Some(LSM_OPS / BTREE_OPS);
        compared(published, ratio, "operations a second", short.ops(BTREE), short.ops(LSM))
    };
    let apart = || {
        compared(
            "the B-tree amplifies writes more than the LSM-tree (316 times as much then)".to_owned(),
            Some(BTREE_WAF / LSM_WAF),
            "bytes for a byte put, in the longer run",
            long.waf(LSM),
            long.waf(BTREE),
        )
    };
    let journaled = || Finding {
        is_published: false,
        ..compared(
            "the B-tree amplifies writes more than the LSM-tree, where both keep a journal (not published)".to_owned(),
            None,
            "bytes for a byte put, with journals, in the longer run",
            long.waf(JOURNALED_LSM),
            long.waf(JOURNALED_BTREE),
        )
    };
    let mut findings = vec![
        seen.finding(faster),
        seen.finding(|| amplification("the B-tree writes 256 bytes for each byte put", BTREE_WAF, short, BTREE)),
        seen.finding(|| amplification("the LSM-tree writes 0.81 bytes for each byte put", LSM_WAF, short, LSM)),
        seen.finding(apart),
        seen.finding(journaled),
    ];
    let runs = short.records.iter().chain(&long.records).copied();
    let label = |r: &Record| format!("micro-benchmark, {} operations", count(r.operations as f64));
    findings.extend(merging::too_short(runs, label));
    findings
}

/// What differs from then.
pub(super) fn differences() -> Vec<String> {
    [
        "Micro-benchmark: an LSM-tree cannot write less than a byte for a byte put and keep it: the published 0.81 counts what had reached \
         its tables when the run ended, and leaves out up to 1,000 records in memory. Here what is still to be written counts, and so do \
         the filter and the index of each table. Loading the records, with the splits of pages that it needs, stands apart: a put there \
         writes more than the one page of 256 times its bytes.",
        "Micro-benchmark: records are chosen uniformly; the published choice is not named. No engine syncs in this run.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests;
