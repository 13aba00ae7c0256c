//! What came out, in sentences.

use super::size::MARGIN_PER_DOUBLING;
use super::{Advice, Candidate, LeftOut, Question, Ranked, Size, Standing};
use crate::spec::{Partitioning, Placement};
use crate::units::{bytes, count, duration_ns, plural, size};
use crate::workload::{OpKind, Task};

/// A figure that is at least so many times better is worth a word.
const WORTH_A_WORD: f64 = 1.25;
/// More names than this are counted.
const NAMES_MAX: usize = 3;

/// What is asked about, in a line.
pub(super) fn question(question: &Question) -> String {
    let Question { task, traces, records, key_bytes, value_bytes, threads, durability, .. } = question;
    let shares = || {
        let text = |kind: OpKind| format!("{} % {}", percent(task.share(kind)), kind.name().replace('_', "-"));
        OpKind::ALL.into_iter().filter(|kind| task.share(*kind) > 0.0).map(text).collect::<Vec<_>>().join(", ")
    };
    let what = match task {
        Task::Trace { .. } => {
            let names: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
            format!("the {} operations of {} ({})", count(*records as f64), names.join(", "), shares())
        }
        Task::Ycsb { workload, distribution } => {
            format!("workload {workload} ({}, {distribution}) over {} records", shares(), count(*records as f64))
        }
        _ => format!("{} ({}) over {} records", shares(), task.distribution(), count(*records as f64)),
    };
    let keys = if traces.is_empty() { size(*key_bytes) } else { format!("{} on the mean", size(*key_bytes)) };
    format!(
        "{what}, keys of {keys}, values of {}, {}, durability {durability}",
        size(*value_bytes),
        plural(u64::from(*threads), "client thread")
    )
}

/// `95`, `0.5`.
fn percent(share: f64) -> String {
    let rounded = (share * 1_000.0).round() / 10.0;
    rounded.to_string()
}

/// `1.3 times as fast`, `8 % faster`.
fn faster(times: f64) -> String {
    if times >= 2.0 {
        format!("{times:.1} times as fast as")
    } else {
        format!("{:.0} % faster than", (times - 1.0) * 100.0)
    }
}

/// What is advised and why.
pub(super) fn why(advice: &Advice) -> Vec<String> {
    let Some(first) = advice.ranking.first() else { return Vec::new() };
    let mut why = vec![advised(first)];
    let others: Vec<&Ranked> = advice.ranking[1..].iter().collect();
    let other_engine =
        others.iter().find(|r| r.candidate.engine != first.candidate.engine && r.standing.failure().is_none());
    if let Some(other) = other_engine
        && let Some(by) = other.by_first.filter(|by| *by > 0.0)
    {
        why.push(match other.standing {
            Standing::Beaten { .. } if by < 1.0 => {
                format!("It is {} the next engine, {}.", faster(1.0 / by), other.name)
            }
            _ => format!("The next engine, {}, has {:.0} % of its throughput.", other.name, 100.0 * by),
        });
    }
    let is_first = |less: &&LeftOut| less.engine == first.candidate.engine;
    why.extend(
        advice.promising_less.iter().find(is_first).map(|less| format!("Beware of {}: {}.", less.engine, less.why)),
    );
    why.extend(divided(first, &others));
    why.extend(executed(first, &others));
    why.extend(ranges(first));
    let close: Vec<&Ranked> = others.iter().copied().filter(|r| r.standing == Standing::Close).collect();
    if !close.is_empty() {
        let first_impression =
            if advice.rounds == 1 { "; each had one trial, so the order is a first impression" } else { "" };
        why.push(format!(
            "Not told apart from it beyond doubt: {}{first_impression}. A longer --budget tells more.",
            names(&close)
        ));
    }
    why.extend(close.iter().take(NAMES_MAX).filter_map(|ranked| better_at(ranked, first)));
    why.extend(advice.noise.map(noise));
    let beaten = others.iter().filter(|r| matches!(r.standing, Standing::Beaten { .. })).count();
    if beaten > 0 {
        why.push(format!(
            "Of {} candidates {beaten} were beaten beyond doubt within {} rounds; the risk that the best is among them is at most {:.0} %{}.",
            advice.ranking.len(),
            advice.rounds,
            100.0 * advice.error,
            on_condition(advice)
        ));
    }
    let out = |ranked: &&Ranked| Some(format!("{} is out: {}.", ranked.name, line(ranked.standing.failure()?)));
    why.extend(others.iter().filter_map(out));
    if advice.rounds == 1 && advice.seconds > advice.budget_seconds {
        why.push(format!(
            "One round took {:.0} s, more than the budget of {:.0} s: fewer engines (--engine) or layouts (--partitions, --placement) leave \
             room for more.",
            advice.seconds, advice.budget_seconds
        ));
    }
    why.extend((advice.trial.records < advice.records).then(|| smaller(advice)));
    why
}

/// What the risk of an error rests on: what a store does late (compactions, cleaning, writing back) is not in a short trial.
fn on_condition(advice: &Advice) -> String {
    let data = if advice.trial.records < advice.records {
        format!(
            "ratios change by no more than {:.0} % with each doubling of the data, and ",
            100.0 * MARGIN_PER_DOUBLING
        )
    } else {
        String::new()
    };
    format!(", if {data}what runs for longer than {:.2} s ranks as the trials did", advice.trial.seconds)
}

/// How large the trials were: `4.00 k records for 0.20 s`, `4.00 k records for 0.20 s to 32.0 k for 1.60 s`.
pub(super) fn sizes(advice: &Advice) -> String {
    let (first, last) = (advice.first_trial, advice.trial);
    let grown = format!(" to {} for {:.2} s", count(last.records as f64), last.seconds);
    let grown = if first == last { String::new() } else { grown };
    format!("{} records for {:.2} s{grown}", count(first.records as f64), first.seconds)
}

/// That the trials had less data than there will be.
fn smaller(advice: &Advice) -> String {
    let (first, last) = (advice.first_trial, advice.trial);
    let records = |size: Size| count(size.records as f64);
    let (were, lasting) = if first == last {
        (format!("A trial was {}", records(last)), format!("for {:.2} s", last.seconds))
    } else {
        let lasting = format!("and from {:.2} s to {:.2} s", first.seconds, last.seconds);
        (format!("Trials grew from {} to {}", records(first), records(last)), lasting)
    };
    let behind = 100.0 * (1.0 - (-last.margin(advice.records)).exp());
    format!(
        "{were} of the {} records, {lasting}: with more data the order may be another, so nothing was dropped that was less than {behind:.0} % \
         behind; a longer --budget tries more of it.",
        count(advice.records as f64)
    )
}

/// That the race ended before its time.
pub(super) fn broke_off(why: &str) -> String {
    format!("The race ended before its time, since its next round could not be done: {}.", line(why))
}

/// What was said in several lines, in one.
pub(super) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `a, b`, `a, b, c and 4 more`.
fn names(ranked: &[&Ranked]) -> String {
    let names: Vec<&str> = ranked.iter().take(NAMES_MAX).map(|ranked| ranked.name.as_str()).collect();
    match ranked.len().saturating_sub(NAMES_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// How far trials differed.
fn noise(factor: f64) -> String {
    let usually =
        if factor >= 2.0 { format!("a factor of {factor:.1}") } else { format!("{:.0} %", (factor - 1.0) * 100.0) };
    let so = if factor >= WORTH_A_WORD {
        ": the machine is busy, or the trials are short, so that only large differences show"
    } else {
        ""
    };
    format!("Two trials of one store usually differ by {usually}{so}.")
}

/// The first, with its figures.
fn advised(first: &Ranked) -> String {
    let mut figures = Vec::new();
    if let Some(ops) = first.ops_per_s {
        let (low, high) = first.ops_per_s_extremes.unwrap_or((ops, ops));
        let largest = if first.largest_trials < first.trials { "the largest" } else { "all" };
        let trials = match (first.trials, first.largest_trials) {
            (1, _) => "in one trial".to_owned(),
            (_, 1) => "in the largest trial".to_owned(),
            (_, trials) => format!("{} to {} in {largest} {trials} trials", count(low), count(high)),
        };
        figures.push(format!("{} operations a second ({trials})", count(ops)));
    }
    figures.extend(first.p99_ns.map(|ns| format!("a 99th percentile of {}", duration_ns(ns))));
    let own = first.waf_by_engine.map_or(String::new(), |own| format!(" ({own:.2} by its own word)"));
    figures.extend(first.waf.map(|waf| format!("{waf:.2} bytes written for a byte put{own}")));
    figures.extend(first.memory_bytes.map(|memory| format!("{} of memory", bytes(memory))));
    figures.extend(first.disk_bytes.map(|disk| format!("{} on disk", bytes(disk))));
    format!("Take {}: {}.", first.name, figures.join(", "))
}

/// What dividing the advised engine gains or costs, where it was tried both ways.
fn divided(first: &Ranked, others: &[&Ranked]) -> Option<String> {
    let is_whole = first.candidate.partitions == 1;
    let same = others.iter().filter(|r| r.candidate.engine == first.candidate.engine);
    let (other, by) =
        same.filter(|r| (r.candidate.partitions == 1) != is_whole).find_map(|r| Some((r, r.by_first?)))?;
    let (divided, gain) = if is_whole { (&other.name, by) } else { (&first.name, 1.0 / by) };
    let engine = &first.candidate.engine;
    Some(if gain >= 1.0 {
        format!("Divided, {divided} does {gain:.2} times as much as {engine} whole.")
    } else {
        format!("Whole, {engine} does {:.2} times as much as {divided}.", 1.0 / gain)
    })
}

/// What the executor of the advised store gains, where the same store was tried with the other one.
fn executed(first: &Ranked, others: &[&Ranked]) -> Option<String> {
    let workers = first.candidate.workers;
    let is_twin = |r: &&&Ranked| r.candidate.workers != workers && r.candidate.with(workers) == first.candidate;
    let gain = 1.0 / others.iter().find(is_twin)?.by_first.filter(|by| *by > 0.0)?;
    let (own, other) = ("threads bound to processors", "whoever calls");
    let (one, other) = if workers.is_some() { (own, other) } else { (other, own) };
    Some(format!("With its writes run by {one} it does {gain:.2} times as much as with them run by {other}."))
}

/// Where the ranges of the advised store come from: a configuration has none.
fn ranges(first: &Ranked) -> Option<String> {
    let Candidate { partitioning, placement, .. } = first.candidate;
    (partitioning != Partitioning::None && placement == Placement::Range).then(|| {
        "Its ranges were cut by a sample of the keys, as biombo load --config cuts those of a new store by what it loads; a program gives one \
         to Options::range_sample, or keys are divided by their first two bytes alone."
            .to_owned()
    })
}

/// What one that is close to the first is better at.
fn better_at(close: &Ranked, first: &Ranked) -> Option<String> {
    let share = |of: fn(&Ranked) -> Option<f64>| {
        let share = of(close)? / of(first)?;
        (share * WORTH_A_WORD <= 1.0).then_some(share)
    };
    let words: Vec<String> = [
        ("its tail", share(|r| r.p99_ns)),
        // What was removed before it was written commends nobody: at another pace it is written.
        ("what it writes", share(|r| r.waf_by_engine.or(r.waf))),
        ("memory", share(|r| r.memory_bytes)),
        ("room on disk", share(|r| r.disk_bytes)),
    ]
    .into_iter()
    .filter_map(|(what, share)| Some(format!("{what} ({:.2} of the first's)", share?)))
    .collect();
    let trials = if close.largest_trials.min(first.largest_trials) == 1 { ", in one trial" } else { "" };
    (!words.is_empty()).then(|| format!("{} is better at {}{trials}.", close.name, words.join(", ")))
}
