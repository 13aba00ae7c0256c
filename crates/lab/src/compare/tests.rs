//! Verdicts over records whose truth is known.

use super::*;
use crate::driver::Until;
use crate::measure::Place;
use crate::record::tests::record;
use crate::workload::Random;

fn compared_apart(old: &[Record], new: &[Record], threshold: f64) -> Result<Comparison> {
    compare(old, new, Made::Apart, threshold)
}

/// Runs of `engine` around `ops_per_s`, spread by `noise`.
fn runs(engine: &str, ops_per_s: f64, noise: f64, count: u32, seed: u64) -> Vec<Record> {
    let mut random = Random::new(seed, 1);
    let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (1..=count).map(|repetition| record(engine, "hard", repetition, ops_per_s * (1.0 + noise * normal()))).collect()
}

fn verdict(old: &[Record], new: &[Record], threshold: f64) -> (Verdict, bool) {
    let comparison = compared_apart(old, new, threshold).unwrap();
    let judged: Vec<_> = comparison.judged().collect();
    assert_eq!(judged.len(), 1);
    (judged[0].verdict, comparison.regressions() > 0)
}

#[test]
fn a_loss_beyond_the_threshold_is_a_regression_and_a_smaller_one_is_worse_only() {
    let old = runs("log", 100_000.0, 0.005, 9, 1);
    let new = |factor| runs("log", 100_000.0 * factor, 0.005, 9, 2);
    assert_eq!(verdict(&old, &new(0.90), 0.05), (Verdict::Worse, true));
    assert_eq!(verdict(&old, &new(0.98), 0.05), (Verdict::Worse, false));
    assert_eq!(verdict(&old, &new(0.98), 0.01), (Verdict::Worse, true));
    assert_eq!(verdict(&old, &new(1.10), 0.05), (Verdict::Better, false));
    assert_eq!(verdict(&old, &new(1.0), 0.0), (Verdict::Same, false));
}

/// (Mutation: the other end of the interval.)
#[test]
fn a_noisy_comparison_says_what_loss_it_does_not_rule_out() {
    let said = |noise: f64| {
        let (old, new) = (runs("log", 1e5, noise, 9, 1), runs("log", 1e5, noise, 9, 2));
        let comparison = compared_apart(&old, &new, 0.05).unwrap();
        let mut text = Vec::new();
        print(&comparison, &mut text).unwrap();
        let figure = comparison.judged().next().unwrap();
        assert_eq!(figure.verdict, Verdict::Same);
        assert_eq!(figure.possible_loss, figure.interval.map(|(low, _)| 1.0 - low));
        assert_eq!(comparison.possible_loss(), figure.possible_loss);
        String::from_utf8(text).unwrap()
    };
    assert!(said(0.1).contains("cannot be ruled out: more runs tell more"), "{}", said(0.1));
    assert!(!said(0.005).contains("ruled out"), "{}", said(0.005));
    let (old, new) = (runs("log", 1e5, 0.005, 9, 1), runs("log", 8e4, 0.005, 9, 2));
    let comparison = compared_apart(&old, &new, 0.05).unwrap();
    assert_eq!(comparison.judged().next().unwrap().possible_loss, None, "it is worse");
    // A latency is lost by growing.
    let mut slower = runs("log", 50_000.0, 0.0, 14, 1);
    for (i, record) in slower.iter_mut().enumerate() {
        record.rate = Some(50_000.0);
        record.latency_ns.retain(|kind, _| kind == "read");
        record.latency_ns.values_mut().for_each(|latency| latency.p99 = 1_000 + 10 * (i as u64 % 7));
    }
    let same = compared_apart(&slower[..7], &slower[7..], 0.05).unwrap();
    let figure = same.judged().next().unwrap();
    assert_eq!((figure.verdict, figure.possible_loss), (Verdict::Same, figure.interval.map(|(_, high)| high - 1.0)));
}

#[test]
fn all_rows_of_a_comparison_together_are_wrong_once_in_twenty_and_a_loss_of_five_percent_is_caught() {
    let engines = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let side = |factor: f64, seed: u64| -> Vec<Record> {
        let rows =
            engines.iter().zip(10..).flat_map(|(engine, i)| runs(engine, 1e5 * factor, 0.015, 9, seed * 100 + i));
        // Without what is not judged: it only takes time.
        rows.map(|record| Record { latency_ns: Default::default(), waf: None, ..record }).collect()
    };
    let compared = |factor, seed| compared_apart(&side(1.0, seed), &side(factor, seed + 1_000), 0.05).unwrap();
    let differs = |c: &Comparison| c.judged().any(|figure| figure.verdict != Verdict::Same);
    // Two are to be expected; with intervals of 95 % for each row it would be sixteen.
    let false_alarms = (0..40).filter(|seed| differs(&compared(1.0, *seed))).count();
    assert!(false_alarms <= 6, "{false_alarms} of 40 comparisons of one build show a difference");
    let caught = (0..20).filter(|seed| compared(0.95, *seed).regressions() > 0).count();
    assert!(caught >= 19, "{caught} of 20 builds that are slower by 5 % are caught");
}

#[test]
fn in_an_open_loop_the_latencies_are_judged_and_larger_is_worse() {
    let at = |p99: u64| -> Vec<Record> {
        let mut records = runs("log", 50_000.0, 0.0, 7, 1);
        for (i, record) in records.iter_mut().enumerate() {
            record.rate = Some(50_000.0);
            for latency in record.latency_ns.values_mut() {
                latency.p99 = p99 + i as u64;
            }
        }
        records
    };
    let comparison = compared_apart(&at(1_000), &at(1_200), 0.05).unwrap();
    let judged: Vec<_> = comparison.judged().map(|figure| figure.metric.as_str()).collect();
    assert_eq!(judged, ["latency_ns.read.p99", "latency_ns.update.p99"]);
    assert_eq!(comparison.regressions(), 2);
    assert_eq!(compared_apart(&at(1_200), &at(1_000), 0.05).unwrap().regressions(), 0);
}

#[test]
fn too_few_runs_judge_nothing_and_other_settings_are_other_rows() {
    let old = runs("log", 100_000.0, 0.01, 5, 1);
    assert_eq!(verdict(&old, &runs("log", 50_000.0, 0.01, 9, 2), 0.05), (Verdict::Unknown, false));
    let mut threads = old.clone();
    threads.iter_mut().for_each(|record| record.threads = 4);
    assert!(compared_apart(&old, &threads, 0.05).unwrap_err().to_string().contains("no run in common"));
    let both: Vec<Record> = old.iter().chain(&threads).cloned().collect();
    let comparison = compared_apart(&old, &both, 0.05).unwrap();
    assert_eq!((comparison.rows.len(), comparison.only_new.len(), comparison.only_old.len()), (1, 1, 0));
    assert!(comparison.only_new[0].contains("4 threads"), "{}", comparison.only_new[0]);
    assert!(compared_apart(&old, &old, 1.0).is_err() && compared_apart(&old, &old, f64::NAN).is_err());
}

/// Ten times as many operations are another figure, and another device another cost of each: neither is another build. Fails if such runs
/// are compared without a word.
#[test]
fn other_lengths_are_other_rows_and_other_places_are_told() {
    let of = |ops_per_s: f64, until: Option<Until>, kind: &str| {
        let mut records = runs("log", ops_per_s, 0.005, 9, 1);
        for record in &mut records {
            record.until = until;
            record.places = vec![Place { file_system: Some(kind.to_owned()), device: None }];
        }
        records
    };
    let (two, twenty) = (Some(Until::Seconds(2.0)), Some(Until::Seconds(20.0)));
    let old = of(1e5, two, "ext4");
    let refused = compared_apart(&old, &of(2e5, twenty, "ext4"), 0.05).unwrap_err().to_string();
    assert!(refused.contains("length of the runs must be the same"), "{refused}");
    let moved = compared_apart(&old, &of(2e5, two, "tmpfs"), 0.05).unwrap();
    assert_eq!((moved.rows.len(), &moved.differences[..]), (1, &["place: ext4 before, tmpfs now".to_owned()][..]));
    // What is there on both sides is compared with itself, whatever else is like it.
    let both = [of(5e4, two, "tmpfs"), old.clone()].concat();
    let compared = compared_apart(&old, &both, 0.05).unwrap();
    assert_eq!((compared.rows.len(), compared.only_new.len(), compared.differences.len()), (1, 1, 0));
    assert_eq!(compared.judged().next().unwrap().verdict, Verdict::Same);
    // Lines of before lengths and places were kept are compared as they were, and that is told.
    let mut earlier = of(1e5, None, "ext4");
    earlier.iter_mut().for_each(|record| record.places.clear());
    let compared = compared_apart(&earlier, &old, 0.05).unwrap();
    let told = ["length: not told before, runs of 2 s now", "place: not told before, ext4 now"].map(str::to_owned);
    assert_eq!((compared.rows.len(), compared.only_old.len(), compared.differences), (1, 0, told.to_vec()));
}

/// The option decides what is moved, or what is kept: another one is no other build. Fails if such runs are compared, or fall into one
/// row that is judged by the setting of its first run.
#[test]
fn other_planners_bounds_on_space_and_numbers_of_places_are_other_rows() {
    let set = |change: &dyn Fn(&mut Record)| {
        let mut records = runs("log", 1e5, 0.005, 9, 1);
        records.iter_mut().for_each(change);
        records
    };
    let moving = |planner: &'static str| {
        set(&move |record| (record.repartition, record.planner) = ("1s".to_owned(), Some(planner.to_owned())))
    };
    let bound = |bound: &'static str| {
        set(&move |record| record.engine_options = vec![("space_amplification".into(), bound.into())])
    };
    let dealt = |places: usize| set(&move |record| record.places = vec![record.places[0].clone(); places]);
    for (one, other) in [(moving("greedy"), moving("ldg")), (bound("1.1"), bound("3")), (dealt(1), dealt(2))] {
        assert!(compared_apart(&one, &other, 0.05).unwrap_err().to_string().contains("no run in common"));
        // Of a file with both, each run is compared with those of its own setting, whichever came first.
        let half = |records: &[Record], factor: f64| -> Vec<Record> {
            records.iter().map(|record| Record { ops_per_s: record.ops_per_s * factor, ..record.clone() }).collect()
        };
        let both = [half(&other, 0.5), one.clone()].concat();
        let compared = compared_apart(&one, &both, 0.05).unwrap();
        assert_eq!((compared.rows.len(), compared.only_new.len()), (1, 1));
        assert_eq!(compared.judged().next().unwrap().verdict, Verdict::Same);
        let (name, gone) = (compared.rows[0].name.as_str(), compared.only_new[0].as_str());
        assert!(name != gone && name.contains("log hard-8"), "{name} | {gone}");
    }
    // Alone it is called as it always was.
    assert_eq!(compared_apart(&bound("3"), &bound("3"), 0.05).unwrap().rows[0].row, "log hard-8");
}

/// A bench that does a row twice in each round, the second time at half the speed. Fails if both new runs stand beside the first old one.
#[test]
fn of_several_runs_of_a_round_each_has_a_partner_of_its_own() {
    let twice = |factor: f64| -> Vec<Record> {
        let round = |n| [record("log", "hard", n, 1e5 * factor), record("log", "hard", n, 5e4 * factor)];
        (1..=6).flat_map(round).collect()
    };
    let compared = compare(&twice(1.0), &twice(1.1), Made::ByTurns, 0.05).unwrap();
    let (low, high) = compared.judged().next().unwrap().interval.unwrap();
    assert!((low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9, "{low} .. {high}");
}

#[test]
fn the_table_says_the_change_with_its_interval_and_what_else_is_different() {
    let old = runs("log", 100_000.0, 0.005, 9, 1);
    let mut new = runs("log", 80_000.0, 0.005, 9, 2);
    new.iter_mut().for_each(|record| {
        record.host.cores = 64;
        record.engine_version.push_str("-next");
        record.engine_options.push(("slowed".to_owned(), "0.8".to_owned()));
    });
    let mut text = Vec::new();
    print(&compared_apart(&old, &new, 0.05).unwrap(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for expected in [
        "note: another machine: A processor (2 cores)",
        "note: another version of log: ",
        "note: another option slowed of log: not given before, 0.8 now",
        "YCSB workload A, 2 threads (zipfian): 1.00 k records of 16 + 1000 bytes, os, closed loop",
        "log hard-8  ops/s",
        "WORSE, beyond the threshold",
        "read p99",
        "1 judged: 0 better, 1 worse (1 beyond the threshold of 5.0 %), 0 without a difference",
    ] {
        assert!(text.contains(expected), "`{expected}` is missing in\n{text}");
    }
    assert_eq!(text.matches("note: another").count(), 3, "nine runs say it once\n{text}");
}

/// What a comparison of such runs ends with, and what it ends with where what is missing is allowed.
fn failures(old: &[Record], new: &[Record]) -> [String; 2] {
    let comparison = compared_apart(old, new, 0.05).unwrap();
    [false, true].map(|allow| comparison.failures(allow).join("; "))
}

#[test]
fn runs_with_errors_take_no_part_and_those_of_the_new_build_are_a_failure() {
    let old = runs("log", 100_000.0, 0.005, 9, 1);
    // Every read of it misses: it is three times as fast.
    let mut wrong = runs("log", 300_000.0, 0.005, 9, 2);
    wrong.iter_mut().for_each(|record| (record.errors, record.first_error) = (7, Some("read of record 3".to_owned())));
    let comparison = compared_apart(&old, &wrong, 0.05).unwrap();
    assert!(comparison.judged().all(|figure| figure.verdict == Verdict::Unknown && figure.new.is_none()));
    for said in failures(&old, &wrong) {
        assert!(
            said.contains("63 operations in 9 new runs of YCSB workload A") && said.contains("read of record 3"),
            "{said}"
        );
    }
    // One wrong run of ten is left out, and told all the same; of the old ones it is only told.
    let mut once = runs("log", 100_000.0, 0.005, 10, 3);
    (once[4].ops_per_s, once[4].errors) = (900_000.0, 1);
    let comparison = compared_apart(&old, &once, 0.05).unwrap();
    let figure = comparison.judged().next().unwrap();
    assert!(figure.verdict == Verdict::Same && figure.new.is_some_and(|side| side.runs == 9 && side.max < 200_000.0));
    assert!(failures(&old, &once)[1].contains("1 operation in 1 new run"));
    assert_eq!(failures(&once, &old), ["", ""]);
    let mut text = Vec::new();
    print(&compared_apart(&once, &old, 0.05).unwrap(), &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("without a part in this: 1 old run of YCSB workload A"));
}

#[test]
fn a_row_that_is_gone_or_cannot_be_judged_is_a_failure_unless_it_is_allowed() {
    let log = |seed| runs("log", 100_000.0, 0.005, 9, seed);
    let with = |engine: &str, count: u32, seed: u64| -> Vec<Record> {
        log(seed).into_iter().chain(runs(engine, 50_000.0, 0.005, count, seed + 7)).collect()
    };
    let [said, allowed] = failures(&with("lmdb", 9, 1), &log(2));
    assert!(said.contains("lacks 1 row") && said.contains("lmdb hard-8") && allowed.is_empty(), "{said} | {allowed}");
    assert_eq!(failures(&log(1), &with("lmdb", 9, 2)), ["", ""], "a row more is no loss");
    let [said, allowed] = failures(&with("lmdb", 9, 1), &with("lmdb", 5, 2));
    assert!(said.contains("9 old and 5 new runs are too few: it takes 6 of each") && allowed.is_empty(), "{said}");
    // A figure of 0 used to make the row vanish.
    let mut stands_still = with("lmdb", 9, 2);
    stands_still[9].ops_per_s = 0.0;
    let comparison = compared_apart(&with("lmdb", 9, 1), &stands_still, 0.05).unwrap();
    assert_eq!(comparison.judged().count(), 2);
    assert!(failures(&with("lmdb", 9, 1), &stands_still)[0].contains("it is 0 in one of the new runs"));
    // Where nothing is left there is nothing to allow.
    let few = runs("log", 100_000.0, 0.005, 5, 1);
    assert!(failures(&few, &few).iter().all(|said| said.starts_with("nothing could be judged")));
}

#[test]
fn a_kind_of_operation_that_the_new_build_does_no_more_is_not_passed_over() {
    let mut old = runs("log", 50_000.0, 0.0, 7, 1);
    old.iter_mut().for_each(|record| record.rate = Some(50_000.0));
    let mut new = old.clone();
    for record in &mut new {
        record.latency_ns.remove("update");
    }
    assert!(failures(&old, &new)[0].contains("latency_ns.update.p99: no new run without errors has it"));
    // What neither does is no figure.
    for record in old.iter_mut().chain(&mut new) {
        record.latency_ns.insert("update".to_owned(), crate::record::Latency::default());
    }
    assert_eq!(failures(&old, &new), ["", ""]);
}

#[test]
fn many_rows_together_need_more_runs_each() {
    let rows = |count: u32, seed: u64| -> Vec<Record> {
        let engine = |i: u64| runs(&format!("engine-{i}"), 100_000.0, 0.005, count, seed + i);
        (0..30).flat_map(engine).collect()
    };
    let comparison = compared_apart(&rows(6, 1), &rows(6, 100), 0.05).unwrap();
    assert_eq!(comparison.runs_needed, 7);
    let said = comparison.failures(true).join("");
    assert!(said.contains("6 old and 6 new runs are too few: it takes 7 of each (--repeat 7)"), "{said}");
    assert_eq!(compared_apart(&rows(7, 1), &rows(7, 100), 0.05).unwrap().unjudged().count(), 0);
}

/// The machine slows down from round to round by more than the builds differ: beside each other they show it all the same. (Mutation: runs by turns
/// compared as those of two files are.)
#[test]
fn what_the_machine_does_from_round_to_round_is_no_change_and_hides_none() {
    let by_turns = |factor: f64, seed: u64| {
        let side = |factor: f64, seed: u64| -> Vec<Record> {
            let mut records = runs("log", 1e5 * factor, 0.01, 9, seed);
            records.iter_mut().for_each(|record| record.ops_per_s *= 1.0 - 0.05 * f64::from(record.repetition));
            // Without what is not judged: it only takes time.
            records.into_iter().map(|record| Record { latency_ns: Default::default(), waf: None, ..record }).collect()
        };
        compare(&side(1.0, seed), &side(factor, seed + 1_000), Made::ByTurns, 0.05).unwrap()
    };
    let verdict = |comparison: &Comparison| comparison.judged().next().unwrap().verdict;
    let differ = (0..200).filter(|seed| verdict(&by_turns(1.0, *seed)) != Verdict::Same).count();
    assert!(differ <= 16, "{differ} of 200 comparisons of one build show a difference");
    let caught = (0..100).filter(|seed| by_turns(0.95, *seed).regressions() > 0).count();
    assert!(caught >= 95, "{caught} of 100 builds that are slower by 5 % are caught");
}

#[test]
fn rounds_that_only_one_build_has_make_no_pair_and_runs_that_the_new_one_lacks_are_told() {
    let old = runs("log", 50_000.0, 0.001, 9, 1);
    let new: Vec<Record> = runs("log", 50_000.0, 0.001, 9, 2).into_iter().filter(|run| run.repetition > 2).collect();
    let comparison = compare(&old, &new, Made::ByTurns, 0.05).unwrap();
    let judged = comparison.judged().next().unwrap();
    assert_eq!((judged.verdict, comparison.runs_needed), (Verdict::Same, 7));
    let failures = comparison.failures(false);
    assert!(failures.len() == 1 && failures[0].contains("7 in place of 9"), "{failures:?}");
    assert!(comparison.failures(true).is_empty() && comparison.regressions() == 0);
    let few = compare(&old[..5], &new, Made::ByTurns, 0.05).unwrap();
    assert!(few.unjudged().next().unwrap().contains("--rounds 7"), "{:?}", few.unjudged().next());
    // Enough of either, and in too few rounds both: what is lacking are rounds.
    let of = |rounds: std::ops::RangeInclusive<u32>| -> Vec<Record> {
        runs("log", 50_000.0, 0.001, 12, 3).into_iter().filter(|run| rounds.contains(&run.repetition)).collect()
    };
    let apart = compare(&of(1..=8), &of(5..=12), Made::ByTurns, 0.05).unwrap();
    let said = apart.unjudged().next().unwrap();
    assert!(said.contains("8 old and 8 new runs are too few: 4 rounds with both, and it takes 7"), "{said}");
}
