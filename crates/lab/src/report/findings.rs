//! What the figures say, in a line each: the fastest of every workload, and what partitioning and moving did to each engine.
//!
//! A card stands for a workload in one setting, over all sizes of a sweep; where these are too many, for a workload in all its settings, or
//! for a whole bench: none is left out because others came before it. In an open loop throughput is given: there the 99th percentiles tell
//! who is ahead.

use serde::Serialize;

use super::context::{distinct, list, plural};
use crate::statistics::{Ratio, Spread};
use crate::summary::{Criterion, Row, Table, sweeps};
use crate::units::{count, duration_ns};

/// One finding: what it is about, its figure, and what that means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(super) about: String,
    pub(super) figure: String,
    pub(super) text: String,
    pub(super) class: &'static str,
}

/// At most so many, so that the head of a report stays one look.
const FINDINGS_MAX: usize = 12;
/// At most so many of them are of the fastest.
const FASTEST_MAX: usize = 6;
/// So many engines and layouts are named in one.
const NAMES_MAX: usize = 3;

/// Of fewer runs nobody knows how far a throughput spreads.
const RUNS_MIN: usize = 3;

/// The fastest rows first, then the ratios, the largest differences before the small ones.
pub(crate) fn findings(tables: &[Table]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = groups(tables).iter().filter_map(|(name, tables)| fastest(name, tables)).collect();
    let mut ratios: Vec<(f64, Finding)> = tables
        .iter()
        .flat_map(|table| {
            table.rows.iter().flat_map(move |row| {
                let still = row.moving.as_ref().and_then(|moving| moving.ratio);
                let beside = [(row.ratio, "the engine used directly"), (still, "the best that stays as it is")];
                beside.into_iter().filter_map(move |(ratio, base)| Some((table, row, ratio?, base)))
            })
        })
        .map(|(table, row, ratio, base)| {
            let criterion = table.criterion();
            let finding = Finding {
                about: format!("{}, {}", row.label, table.heading()),
                figure: format!("{:.2} ×", ratio.median),
                text: meaning(&ratio, &criterion, base),
                class: class(&ratio, &criterion),
            };
            (ratio.median.ln().abs(), finding)
        })
        .collect();
    ratios.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let room = FINDINGS_MAX.saturating_sub(findings.len());
    findings.extend(ratios.into_iter().map(|(_, finding)| finding).take(room));
    findings
}

/// What the cards of the fastest stand for, as finely as there is room.
fn groups(tables: &[Table]) -> Vec<(String, Vec<&Table>)> {
    let by = |name: &dyn Fn(&Table) -> String| {
        let mut groups: Vec<(String, Vec<&Table>)> = Vec::new();
        for table in tables {
            let name = name(table) + if table.rate.is_some() { ", open loop" } else { "" };
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, tables)) => tables.push(table),
                None => groups.push((name, vec![table])),
            }
        }
        groups
    };
    let finest: Vec<_> = sweeps(tables).into_iter().map(|sweep| (sweep[0].sweep_heading(), sweep)).collect();
    let coarser: [&dyn Fn(&Table) -> String; 2] = [&Table::work, &workload];
    let mut all = std::iter::once(finest).chain(coarser.into_iter().map(&by));
    all.find(|groups| groups.len() <= FASTEST_MAX).unwrap_or_else(|| by(&|table| table.bench_name().to_owned()))
}

/// What is done, by however many.
fn workload(table: &Table) -> String {
    let work = table.work();
    work.rsplit_once(", ").map_or(work.clone(), |(workload, _)| workload.to_owned())
}

/// The fastest in each of `tables`, which together are called `name`.
fn fastest(name: &str, tables: &[&Table]) -> Option<Finding> {
    let leads: Vec<Lead<'_>> = tables.iter().filter_map(|table| Lead::of(table)).collect();
    let is_contested = leads.iter().any(|lead| lead.second.is_some());
    let mut winners: Vec<(&str, usize)> = Vec::new();
    for lead in &leads {
        match winners.iter_mut().find(|(label, _)| *label == lead.first.label) {
            Some((_, times)) => *times += 1,
            None => winners.push((lead.first.label.as_str(), 1)),
        }
    }
    winners.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let (first, _) = winners.first()?;
    let text = match winners.len() {
        1 => (*first).to_owned(),
        many => {
            let named =
                winners.iter().take(NAMES_MAX).map(|(label, times)| format!("{label} in {times} of {}", leads.len()));
            let more = if many > NAMES_MAX { format!(" and {} more", many - NAMES_MAX) } else { String::new() };
            named.collect::<Vec<_>>().join(", ") + &more
        }
    };
    let figures = || leads.iter().map(|lead| lead.spread.median);
    let (low, high) = (figures().reduce(f64::min)?, figures().reduce(f64::max)?);
    let over = if tables.len() > 1 { format!(" ({} of them)", tables.len()) } else { String::new() };
    let (contested, alone) = titles(&leads);
    let (show, unit): (fn(f64) -> String, &str) = match leads.first()?.criterion {
        Criterion::Throughput => (count, "/s"),
        Criterion::Tail(_) => (duration_ns, ""),
    };
    let ahead = if is_contested { text + &doubts(&leads) } else { format!("{text}, measured alone") };
    Some(Finding {
        about: format!("{} in {name}{over}", if is_contested { contested } else { alone }),
        figure: if low < high {
            format!("{} to {}{unit}", show(low), show(high))
        } else {
            format!("{}{unit}", show(high))
        },
        text: ahead + &behind(&leads),
        class: "",
    })
}

/// How a card begins where somebody is ahead of others, and where nobody else was measured. Its tables are all of open loops, or none is.
fn titles(leads: &[Lead<'_>]) -> (String, String) {
    let criteria = distinct(leads.iter().map(|lead| &lead.criterion));
    match criteria.as_slice() {
        [Criterion::Throughput] => ("Fastest".to_owned(), "Throughput".to_owned()),
        [Criterion::Tail(kind)] => {
            let kinds = plural(kind);
            (format!("Shortest p99 of {kinds}"), format!("p99 of {kinds}"))
        }
        _ => ("Shortest p99".to_owned(), "p99".to_owned()),
    }
}

/// Who is ahead in a table by the median, and what that is worth.
struct Lead<'a> {
    criterion: Criterion,
    first: &'a Row,
    /// The figures of the first.
    spread: Spread,
    second: Option<&'a Row>,
    /// Those whose runs, from the slowest to the fastest, meet those of the first: chance may have put it before them.
    met: Vec<&'a Row>,
    /// Those that did less than an open loop asked for.
    behind: Vec<&'a Row>,
}

impl<'a> Lead<'a> {
    fn of(table: &'a Table) -> Option<Self> {
        let criterion = table.criterion();
        let mut rows: Vec<(&Row, Spread)> =
            competitors(table).filter_map(|row| Some((row, criterion.spread(row)?))).collect();
        rows.sort_by(|(_, a), (_, b)| criterion.order(a.median, b.median));
        let (first, spread) = rows.pop()?;
        rows.reverse();
        let second = rows.first().map(|(row, _)| *row);
        let meets = |other: &Spread| match criterion {
            Criterion::Throughput => other.max >= spread.min,
            Criterion::Tail(_) => other.min <= spread.max,
        };
        let met = rows.iter().filter(|(_, other)| meets(other)).map(|(row, _)| *row).collect();
        let behind = competitors(table).filter(|row| table.is_behind(row)).collect();
        Some(Self { criterion, first, spread, second, met, behind })
    }

    /// The first or the second, where it has too few runs to be told apart from anything.
    fn few(&self) -> Option<&'a Row> {
        let second = self.second?;
        [self.first, second].into_iter().find(|row| row.ops_per_s.runs < RUNS_MIN)
    }
}

/// Why those in front may not be the fastest, to be said after their names; nothing where they are told apart from all others.
fn doubts(leads: &[Lead<'_>]) -> String {
    if let [lead] = leads {
        let few = lead.few().map_or(String::new(), |row| {
            let runs =
                if row.ops_per_s.runs == 1 { "one run".to_owned() } else { format!("{} runs", row.ops_per_s.runs) };
            if row.label == lead.first.label {
                format!(", of {runs}")
            } else {
                format!(", beside {runs} of {}", row.label)
            }
        });
        return if lead.met.is_empty() { few } else { format!("{few}, not told apart from {}", named(&lead.met)) };
    }
    let of = |words: &str, is: &dyn Fn(&Lead<'_>) -> bool| match leads.iter().filter(|lead| is(lead)).count() {
        0 => None,
        times => Some(format!("{words} in {times} of {}", leads.len())),
    };
    let few = of(&format!("of fewer than {RUNS_MIN} runs"), &|lead| lead.few().is_some());
    let met = of("not told apart from the next", &|lead| !lead.met.is_empty());
    let all: Vec<String> = [few, met].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) }
}

/// Who did not keep the rate of an open loop, to be said of a card's figures, which have what waited for them in them.
fn behind(leads: &[Lead<'_>]) -> String {
    let rows: Vec<&Row> = leads.iter().flat_map(|lead| lead.behind.iter().copied()).collect();
    if rows.is_empty() { String::new() } else { format!("; the rate was not kept by {}", named(&rows)) }
}

/// Some of `rows` by name, each once, and how many more there are.
fn named(rows: &[&Row]) -> String {
    let mut names = distinct(rows.iter().map(|row| row.label.clone()));
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    names.extend((more > 0).then(|| format!("{more} more")));
    list(&names)
}

/// The null engine is what the driver costs, no competitor; nor is a row with wrong answers.
fn competitors(table: &Table) -> impl Iterator<Item = &Row> {
    table.rows.iter().filter(|row| row.engine != crate::null::NAME && row.errors == 0)
}

/// Only an interval that leaves out 1 shows a difference.
pub(crate) fn class(ratio: &Ratio, criterion: &Criterion) -> &'static str {
    let (above, below) = if criterion.is_larger_better() { ("good", "bad") } else { ("bad", "good") };
    match ratio.interval {
        Some((low, _)) if low > 1.0 => above,
        Some((_, high)) if high < 1.0 => below,
        _ => "",
    }
}

/// Where a whole interval lies as close to 1, both are as good as each other to whoever chooses between them.
const ALIKE: f64 = 0.05;

/// A ratio to `base` in words.
fn meaning(ratio: &Ratio, criterion: &Criterion, base: &str) -> String {
    let (of, [faster, slower, alike, by]) = match criterion {
        Criterion::Throughput => (String::new(), ["faster than", "slower than", "about as fast as", "of"]),
        Criterion::Tail(kind) => (
            format!("p99 of {}: ", plural(kind)),
            ["shorter than that of", "longer than that of", "about as long as that of", "by that of"],
        ),
    };
    match ratio.interval {
        Some((low, high)) => {
            let verdict = match class(ratio, criterion) {
                "good" => faster,
                "bad" => slower,
                _ if low >= 1.0 - ALIKE && high <= 1.0 + ALIKE => alike,
                _ => "undecided, as pairs differ too much, beside",
            };
            format!("{of}{verdict} {base}; 95 % interval {low:.2} to {high:.2} over {} pairs", ratio.pairs)
        }
        None => format!(
            "{of}{by} {base}; {} pair{}, too few for an interval",
            ratio.pairs,
            if ratio.pairs == 1 { "" } else { "s" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::summary::tables;

    #[test]
    fn only_an_interval_that_leaves_out_one_is_a_difference() {
        let of = |interval| Ratio { median: 1.02, min: 0.9, max: 1.1, pairs: 9, interval };
        let class = |interval| class(&of(interval), &Criterion::Throughput);
        assert_eq!(class(Some((1.01, 1.03))), "good");
        assert_eq!(class(Some((0.97, 1.03))), "");
        assert_eq!(class(Some((0.90, 0.99))), "bad");
        assert_eq!(class(None), "");
        let meaning = |ratio| meaning(&ratio, &Criterion::Throughput, "it");
        assert!(meaning(of(Some((0.97, 1.03)))).starts_with("about as fast as it;"));
        // Twice as fast in the median, and nobody knows: to call that no difference would mislead.
        assert!(meaning(Ratio { median: 2.1, ..of(Some((0.6, 3.0))) }).starts_with("undecided"));
        assert!(meaning(of(None)).contains("too few"));
    }

    /// Fails if those that do what was given to all of them are called equally fast, if the longer tail is the better one, or if nobody is
    /// told who could not keep up.
    #[test]
    fn cards_of_an_open_loop_are_of_its_tails_and_name_who_did_not_keep_the_rate() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            for (engine, layout, ops, p99) in [
                ("log", "none", 40_000.0, 4_000),
                ("log", "hard", 40_000.0, 1_000),
                ("lmdb", "none", 30_000.0, 9_000_000),
            ] {
                let mut record = record(engine, layout, repetition, ops);
                record.rate = Some(40_000.0);
                if let Some(update) = record.latency_ns.get_mut("update") {
                    update.p99 = p99;
                }
                records.push(record);
            }
        }
        let found = findings(&tables(&records));
        assert_eq!(found[0].about, "Shortest p99 of updates in workload A, 2 threads");
        assert_eq!(found[0].text, "log hard-8; the rate was not kept by lmdb");
        assert_eq!(found[0].figure, "1.00 µs");
        assert_eq!((found[1].figure.as_str(), found[1].class), ("0.25 ×", "good"));
        assert!(found[1].text.starts_with("p99 of updates: shorter than that of the engine used directly; "));
        // A closed loop beside it is another matter, also where there is no room for a card each.
        let mut many = records.clone();
        for threads in 1..=7 {
            for rate in [None, Some(40_000.0)] {
                many.extend(records.iter().cloned().map(|record| crate::record::Record { threads, rate, ..record }));
            }
        }
        let about: Vec<String> = findings(&tables(&many)).into_iter().map(|finding| finding.about).collect();
        assert!(about.iter().any(|about| about == "Fastest in workload A (7 of them)"), "{about:?}");
        let open = "Shortest p99 of updates in workload A, open loop (7 of them)";
        assert!(about.iter().any(|about| about == open), "{about:?}");
    }

    #[test]
    fn a_sweep_is_one_card_that_says_who_is_ahead_how_often() {
        let mut records = Vec::new();
        for (value_bytes, log, lmdb) in [(100, 50.0, 40.0), (200, 45.0, 41.0), (400, 20.0, 30.0)] {
            for (engine, ops) in [("log", log), ("lmdb", lmdb)] {
                let mut record = record(engine, "none", 1, ops);
                record.value_bytes = value_bytes;
                records.push(record);
            }
        }
        let found = findings(&tables(&records));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].about, "Fastest in workload A, 2 threads (3 of them)");
        assert_eq!(
            (found[0].figure.as_str(), found[0].text.as_str()),
            ("30 to 50/s", "log in 2 of 3, lmdb in 1 of 3; of fewer than 3 runs in 3 of 3")
        );
        // Who runs alone wins nothing; nor does one whose answers are wrong.
        records.retain(|record| record.engine == "lmdb");
        let found = findings(&tables(&records));
        assert_eq!(found[0].about, "Throughput in workload A, 2 threads (3 of them)");
        assert_eq!(found[0].text, "lmdb, measured alone");
        records.iter_mut().for_each(|record| record.errors = 1);
        assert!(findings(&tables(&records)).is_empty());
    }

    #[test]
    fn many_workloads_and_settings_have_their_cards_all_the_same() {
        let mut records = Vec::new();
        for workload in ["a", "b", "c"] {
            for threads in [1, 2, 4, 8] {
                for (engine, ops) in [("log", 100.0), ("lmdb", 10.0 * f64::from(threads * threads))] {
                    let mut record = record(engine, "none", 1, ops);
                    (record.workload, record.threads) = (workload.into(), threads);
                    records.push(record);
                }
            }
        }
        let found = findings(&tables(&records));
        let about: Vec<_> = found.iter().map(|finding| finding.about.as_str()).collect();
        let of = |workload: &str| format!("Fastest in workload {workload} (4 of them)");
        assert_eq!(about, [of("A"), of("B"), of("C")]);
        assert_eq!(found[2].text, "log in 2 of 4, lmdb in 2 of 4; of fewer than 3 runs in 4 of 4");
    }

    /// Fails if one whose runs meet those of others, or that has too few of them, is called the fastest without a word.
    #[test]
    fn who_is_ahead_by_the_median_alone_is_not_told_apart() {
        type Runs<'a> = (&'a str, &'a [f64]);
        let of = |value_bytes, rows: &[Runs<'_>]| -> Vec<_> {
            let runs = |(engine, runs): &Runs<'_>| {
                let of = |(i, ops): (u32, &f64)| {
                    let mut record = record(engine, "none", i, *ops);
                    record.value_bytes = value_bytes;
                    record
                };
                (1..).zip(*runs).map(of).collect::<Vec<_>>()
            };
            rows.iter().flat_map(runs).collect()
        };
        let text = |rows: &[Runs<'_>]| findings(&tables(&of(100, rows))).remove(0).text;
        let (fast, slow) = ([30.0, 32.0, 34.0], [10.0, 11.0, 12.0]);
        assert_eq!(text(&[("log", &fast), ("lmdb", &slow)]), "log", "every run was faster than all of the other");
        let wide = [10.0, 11.0, 31.0];
        assert_eq!(text(&[("log", &fast), ("lmdb", &wide)]), "log, not told apart from lmdb");
        assert_eq!(text(&[("lmdb", &wide), ("b", &slow), ("log", &fast)]), "log, not told apart from lmdb");
        // The third by the median reaches further than the second.
        let (second, third) = ([28.0, 29.0, 29.5], [1.0, 2.0, 40.0]);
        assert_eq!(text(&[("log", &fast), ("b", &second), ("c", &third)]), "log, not told apart from c");
        let rows = ["a", "b", "c", "d", "e"].map(|engine| (engine, &wide[..]));
        assert_eq!(text(&[&rows[..3], &[("log", &fast)]].concat()), "log, not told apart from c, b and a");
        assert_eq!(text(&[&rows[..], &[("log", &fast)]].concat()), "log, not told apart from e, d, c and 2 more");
        assert_eq!(text(&[("log", &fast[..1]), ("lmdb", &slow)]), "log, of one run");
        assert_eq!(text(&[("log", &fast[..2]), ("lmdb", &slow[..1])]), "log, of 2 runs");
        assert_eq!(text(&[("log", &fast), ("lmdb", &slow[..1])]), "log, beside one run of lmdb");
        assert_eq!(text(&[("log", &fast[..2]), ("lmdb", &wide)]), "log, of 2 runs, not told apart from lmdb");
        // Of several tables, how often.
        let tables_of = |all: &[&[Runs<'_>]]| {
            let records: Vec<_> = (100..).zip(all).flat_map(|(bytes, rows)| of(bytes, rows)).collect();
            findings(&tables(&records)).remove(0).text
        };
        let (clear, met, few): (&[Runs<'_>], &[Runs<'_>], &[Runs<'_>]) = (
            &[("log", &fast), ("lmdb", &slow)],
            &[("log", &fast), ("lmdb", &wide)],
            &[("log", &slow[..1]), ("lmdb", &fast[..2])],
        );
        assert_eq!(tables_of(&[clear, clear]), "log");
        assert_eq!(tables_of(&[clear, met, clear]), "log; not told apart from the next in 1 of 3");
        assert_eq!(
            tables_of(&[clear, met, few]),
            "log in 2 of 3, lmdb in 1 of 3; of fewer than 3 runs in 1 of 3, not told apart from the next in 1 of 3"
        );
    }
}
