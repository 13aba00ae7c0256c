//! `leveldb-sizes`: what the lengths of keys and values do to LevelDB, in throughput, latency, write amplification and compaction.
//!
//! Published: "Effect of key and value size on LevelDB compaction", LevelDB 1.23, db_bench's fillrandom and readrandom, keys of 16, 32,
//! 64 and 128 bytes, values of 256, 1024, 4096 and 16384 bytes, three repetitions. Here the same grid, finer steps along
//! both axes, and the same number of operations at every size, as with db_bench's `--num`.

use biombo_base::Result;
use biombo_engine::Registry;

use super::{ENDS, Finding, Lack, Reproduction, Seen, Trend, Verdict};
use super::{describe, judge, missing, of_runs, quotient, spread_text};
use crate::amplification::Waf;
use crate::bench::{Outcome, Plan};
use crate::record::Record;
use crate::statistics::Spread;
use crate::units::{bytes, count, times};
use crate::workload::Benchmark;

/// What was published.
pub const TITLE: &str =
    "Effect of key and value size on LevelDB compaction (LevelDB 1.23, db_bench fillrandom and readrandom)";
const SETUP: &str = "LevelDB 1.23, db_bench, keys of 16 to 128 bytes, values of 256 B to 16 KiB, 3 repetitions; the machine is not named";

const KEYS: [u32; 4] = [16, 32, 64, 128];
const VALUES: [u32; 4] = [256, 1_024, 4_096, 16_384];
const FINER_KEYS: [u32; 3] = [24, 48, 96];
const FINER_VALUES: [u32; 3] = [512, 2_048, 8_192];

/// Operations of a run at scale 1.
const OPERATIONS: f64 = 50_000.0;

/// The runs: the published grid, then finer values at the shortest key and finer keys at the second value. `scale` multiplies the
/// number of operations.
pub fn plans(_registry: &Registry, _asked: &[String], scale: f64) -> Result<Vec<Plan>> {
    let operations = ((OPERATIONS * scale) as u64).max(1_000);
    let base = Plan {
        engines: vec!["leveldb".to_owned()],
        tasks: vec![Benchmark::FillRandom.into(), Benchmark::ReadRandom.into()],
        records: operations,
        operations,
        threads: vec![1],
        compression_ratio: 0.5,
        cache_bytes: Some(16 << 20),
        repeat: 3,
        ..Plan::default()
    };
    let of =
        |keys: &[u32], values: &[u32]| Plan { key_bytes: keys.to_vec(), value_bytes: values.to_vec(), ..base.clone() };
    Ok(vec![of(&KEYS, &VALUES), of(&KEYS[..1], &FINER_VALUES), of(&FINER_KEYS, &VALUES[1..2])])
}

/// What this build or this machine lacks.
pub fn lacks(registry: &Registry) -> Vec<Lack> {
    missing(registry, &["leveldb"], "it is measured over nothing else")
}

/// A figure of a run.
type Figure = fn(&Record) -> Option<f64>;

const THROUGHPUT: Figure = |record| Some(record.ops_per_s);
const LATENCY: Figure = |record| record.latency_ns.values().next().map(|latency| latency.mean as f64);
const WAF: Figure = |record| record.waf;
const COMPACTION: Figure = |record| record.compaction.latency_ns_p50.filter(|ns| *ns > 0).map(|ns| ns as f64);

/// The runs of one benchmark.
struct Runs<'a> {
    records: Vec<&'a Record>,
    seen: &'a Seen<'a, Record>,
}

impl<'a> Runs<'a> {
    fn of(records: &'a [Record], benchmark: Benchmark, seen: &'a Seen<'a, Record>) -> Self {
        Self { records: records.iter().filter(|record| record.workload == benchmark.name()).collect(), seen }
    }

    fn at(&self, key: u32, value: u32, figure: Figure) -> Option<Spread> {
        let here = self.records.iter().filter(|record| (record.key_bytes, record.value_bytes) == (key, value));
        let here = here.inspect(|record| self.seen.saw(record));
        Spread::of(here.filter_map(|record| figure(record)))
    }

    /// From one value length to another, for each key length.
    fn along_values(&self, from: u32, to: u32, figure: Figure) -> Vec<Trend> {
        let trend = |key: u32| Some(Trend { small: self.at(key, from, figure)?, large: self.at(key, to, figure)? });
        KEYS.into_iter().filter_map(trend).collect()
    }

    /// From the shortest to the longest key, for each value length.
    fn along_keys(&self, figure: Figure) -> Vec<Trend> {
        let (from, to) = (KEYS[0], KEYS[KEYS.len() - 1]);
        let trend =
            |value: u32| Some(Trend { small: self.at(from, value, figure)?, large: self.at(to, value, figure)? });
        VALUES.into_iter().filter_map(trend).collect()
    }
}

/// What a fourfold value does to a figure: the geometric mean of all steps with the means of their extremes, and the least number of runs
/// that a step rests on.
fn fourfold(runs: &Runs<'_>, figure: Figure) -> Option<Spread> {
    let steps: Vec<Spread> = VALUES
        .windows(2)
        .flat_map(|pair| runs.along_values(pair[0], pair[1], figure))
        .map(|trend| quotient(trend.large, trend.small))
        .filter(|step| [step.min, step.median, step.max].iter().all(|ratio| ratio.ln().is_finite()))
        .collect();
    let least = steps.iter().map(|step| step.runs).min()?;
    let mean = |of: fn(&Spread) -> f64| {
        let sum: f64 = steps.iter().map(|step| of(step).ln()).sum();
        (sum / steps.len() as f64).exp()
    };
    Some(Spread { median: mean(|s| s.median), min: mean(|s| s.min), max: mean(|s| s.max), runs: least })
}

/// What came out, beside what was published.
pub fn findings(outcome: &Outcome) -> Result<Reproduction> {
    let records = &outcome.records;
    let seen = Seen::of(records);
    let of = |benchmark| Runs::of(records, benchmark, &seen);
    let (fill, read) = (of(Benchmark::FillRandom), of(Benchmark::ReadRandom));
    let ends = (VALUES[0], VALUES[VALUES.len() - 1]);
    let mut findings = Vec::new();
    let mut trend = |published: &str, trends: &dyn Fn() -> Vec<Trend>, rises: bool| {
        findings.push(seen.finding(|| {
            let trends = trends();
            Finding {
                published: published.to_owned(),
                published_figure: None,
                measured: describe(&trends, ENDS),
                measured_figure: None,
                ratio: None,
                lines: Vec::new(),
                is_published: true,
                verdict: judge(&trends, rises),
            }
        }));
    };
    let values = |figure| fill.along_values(ends.0, ends.1, figure);
    trend("fillrandom, larger values: throughput falls", &|| values(THROUGHPUT), false);
    trend("fillrandom, larger values: write amplification rises", &|| values(WAF), true);
    trend("fillrandom, larger values: latency rises", &|| values(LATENCY), true);
    trend("fillrandom, larger values: compactions take longer", &|| values(COMPACTION), true);
    trend("fillrandom, larger keys: write amplification falls", &|| fill.along_keys(WAF), false);
    trend("fillrandom, larger keys: throughput rises", &|| fill.along_keys(THROUGHPUT), true);
    trend("fillrandom, larger keys: latency rises", &|| fill.along_keys(LATENCY), true);
    trend("fillrandom, larger keys: compactions take longer", &|| fill.along_keys(COMPACTION), true);
    trend("readrandom, larger values: latency rises", &|| read.along_values(ends.0, ends.1, LATENCY), true);
    let per_step = |what: &str, first: f64, repeat: f64, figure| {
        let found = fourfold(&fill, figure);
        let text = |spread: Spread| format!("{} times, the geometric mean of all steps", spread_text(spread, times));
        Finding {
            published: format!(
                "fillrandom, a value four times as large: {first} times the {what}, in the repeat {repeat} times"
            ),
            published_figure: Some(repeat),
            measured: found.map_or("no figures".to_owned(), text),
            measured_figure: found.map(|spread| spread.median),
            ratio: found.map(|spread| spread.median / repeat),
            lines: Vec::new(),
            is_published: true,
            verdict: found.map_or(Verdict::Unknown, |spread| within(spread, repeat.min(first), repeat.max(first))),
        }
    };
    findings.push(seen.finding(|| per_step("latency", 5.33, 2.5, LATENCY)));
    findings.push(seen.finding(|| per_step("time of a compaction", 5.18, 3.5, COMPACTION)));
    findings.push(seen.finding(|| jump(&read)));
    let host = records.first().map(|r| format!("{} ({} cores), Linux {}", r.host.cpu, r.host.cores, r.host.kernel));
    let version = records.first().map(|r| r.engine_version.clone()).unwrap_or_default();
    let operations = records.first().map_or(0, |r| r.operations);
    Ok(Reproduction {
        name: "leveldb-sizes",
        title: TITLE,
        setup_then: SETUP,
        setup_now: format!(
            "LevelDB {version}, {} operations a run, 16 MiB of caches, values that compress to half, {}",
            count(operations as f64),
            host.unwrap_or_else(|| "no run was done".to_owned())
        ),
        differences: differences(&fill),
        figures: Vec::new(),
        curves: Vec::new(),
        findings,
    })
}

/// Within the published figures, or a fifth outside of them: with both extremes, or with neither and on one side.
fn within(measured: Spread, low: f64, high: f64) -> Verdict {
    let (low, high) = (low / 1.2, high * 1.2);
    let verdict = if measured.min >= low && measured.max <= high {
        Verdict::Holds
    } else if measured.max < low || measured.min > high {
        Verdict::Refuted
    } else {
        Verdict::Mixed
    };
    of_runs(measured.runs, verdict)
}

/// The published jump of readrandom's latency between 4 KiB and 16 KiB.
fn jump(read: &Runs<'_>) -> Finding {
    let trends = read.along_values(4_096, 16_384, LATENCY);
    let largest = trends.iter().map(Trend::ratio).fold(0.0, f64::max);
    let measured = (!trends.is_empty()).then_some(largest);
    let runs = trends.iter().map(Trend::runs).min().unwrap_or(0);
    Finding {
        published: "readrandom, from values of 4 KiB to 16 KiB: latency rises by more than 100 times".to_owned(),
        published_figure: Some(100.0),
        measured: measured
            .map_or("no figures".to_owned(), |m| format!("at most {m:.2} times, of {} key lengths", trends.len())),
        measured_figure: measured,
        ratio: measured.map(|m| m / 100.0),
        lines: Vec::new(),
        is_published: true,
        // By every key length, not by the one that was disturbed.
        verdict: match trends.iter().filter(|trend| trend.ratio() > 100.0).count() {
            _ if trends.is_empty() => Verdict::Unknown,
            0 => of_runs(runs, Verdict::Refuted),
            jumps if jumps == trends.len() => of_runs(runs, Verdict::Holds),
            _ => Verdict::Mixed,
        },
    }
}

fn differences(fill: &Runs<'_>) -> Vec<String> {
    let mut differences = vec![
        "The number of operations is the same at every size, so larger values are also more data: more levels, more compaction, and \
         for reads more that the 16 MiB of caches do not hold; the page cache of the machine holds more than that."
            .to_owned(),
        "One client waits for each operation, so mean latency is the reciprocal of throughput: throughput and latency cannot both rise \
         as keys grow, as it was published."
            .to_owned(),
    ];
    // As write amplification counts: with what the log still has to give to tables.
    let written: Figure = |record| {
        let bytes = record.physical_write_bytes + record.unflushed_write_bytes;
        Some(bytes as f64 / record.operations.max(1) as f64)
    };
    let of = |key, figure| fill.at(key, VALUES[0], figure);
    if let (Some(short), Some(long)) = (of(KEYS[0], written), of(KEYS[3], written)) {
        let asked = f64::from(KEYS[3] + VALUES[0]) / f64::from(KEYS[0] + VALUES[0]);
        let (long, short) = (long.median, short.median);
        let waf = of(KEYS[0], WAF).zip(of(KEYS[3], WAF)).map(|(small, large)| Trend { small, large });
        let why = match waf {
            Some(waf) if waf.falls() => {
                "Write amplification falls by that; that longer keys are padded, and what they share before their digits is stored once in a \
                 block, while all their bytes are put, would explain it"
            }
            Some(waf) if waf.rises() => "Write amplification rises in this run",
            _ => "Write amplification does neither fall nor rise beyond the spread of this run",
        };
        differences.push(format!(
            "Keys and write amplification: with values of 256 bytes, an operation at keys of 128 bytes puts {asked:.2} times the bytes of one \
             at keys of 16, and made LevelDB write {} instead of {}, {:.2} times as much. {why}.",
            bytes(long),
            bytes(short),
            long / short
        ));
    }
    let says_more = |record: &&&Record| {
        Waf::of(record.waf_by.process, record.waf_by.engine).is_some_and(|waf| waf.engine.is_some())
    };
    let below = fill.records.iter().filter(says_more).count();
    if below > 0 {
        differences.push(format!(
            "Write amplification is by the kernel. In {below} of {} runs of fillrandom it is more than 5 % below what LevelDB's own info log \
             adds up to: the kernel takes back what is removed before it was written, a log after its flush and tables after a compaction.",
            fill.records.len()
        ));
    }
    differences
}

#[cfg(test)]
mod tests;
