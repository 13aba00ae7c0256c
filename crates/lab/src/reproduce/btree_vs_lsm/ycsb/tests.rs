//! Conclusions over records whose truth is known.

use super::super::findings as of_both;
use super::*;
use crate::amplification::{Amplification, PhaseFigures, Ways};
use crate::bench::Outcome;
use crate::record::tests::record;
use crate::spec::RunSpec;

/// Three repetitions of every run; `of` gives throughput, and the mean latency of reads and of updates.
fn outcome(of: impl Fn(&str, &str, &str) -> (f64, f64, f64)) -> Outcome {
    let mut records = Vec::new();
    for level in ["os", "sync"] {
        for (work, ..) in THROUGHPUT {
            for engine in [TREE, MERGED, "log"] {
                for repetition in 1..=3 {
                    let noise = 1.0 + 0.01 * f64::from(repetition);
                    let (throughput, read, update) = of(work, engine, level);
                    let mut record = record(engine, "none", repetition, throughput * noise);
                    record.workload = if work == LOAD { "fillrandom".into() } else { work.to_lowercase() };
                    record.durability = level.into();
                    let with = |mean: f64| Latency { mean: (mean * noise * 1e3) as u64, ..record.latency_ns["read"] };
                    record.latency_ns = [("read".to_owned(), with(read)), ("update".to_owned(), with(update))].into();
                    records.push(record);
                }
            }
        }
    }
    Outcome { records, failures: Vec::new(), interrupted: 0 }
}

/// The published figures, whatever the level.
fn as_published(work: &str, engine: &str, _level: &str) -> (f64, f64, f64) {
    let row = THROUGHPUT.iter().find(|row| row.0 == work).unwrap();
    if engine == TREE { (row.1.unwrap_or(900.0), 264.0, 1_065.0) } else { (row.2, 124.0, 145.0) }
}

fn verdicts(outcome: &Outcome) -> Vec<(String, Verdict)> {
    let found = of_both(outcome).unwrap().findings.into_iter().filter(|f| !f.published.starts_with("micro"));
    found.map(|finding| (finding.published, finding.verdict)).collect()
}

#[test]
fn published_figures_confirm_everything_but_that_a_workload_failed_if_they_were_repeated() {
    let mut outcome = outcome(as_published);
    for found in [Verdict::Holds, Verdict::Mixed] {
        for (published, verdict) in verdicts(&outcome) {
            // That it ended once is enough.
            let due = if published.contains("cannot be run") { Verdict::Refuted } else { found };
            assert_eq!(verdict, due, "{published}");
        }
        outcome.records.retain(|record| record.repetition == 1);
    }
}

#[test]
fn the_opposite_refutes_and_what_overlaps_is_not_clear() {
    let opposite =
        |_: &str, engine: &str, _: &str| if engine == TREE { (9e4, 100.0, 100.0) } else { (1e3, 100.0, 900.0) };
    assert!(verdicts(&outcome(opposite)).iter().all(|(_, verdict)| *verdict == Verdict::Refuted));
    let alike = verdicts(&outcome(|_, _, _| (1e3, 264.0, 1_065.0)));
    assert!(alike.iter().filter(|(text, _)| text.contains("is 4")).all(|(_, verdict)| *verdict == Verdict::Mixed));
}

#[test]
fn each_engine_is_judged_at_the_level_of_the_study_and_told_at_both() {
    // At the level of the other, each would look the other way round.
    let found = of_both(&outcome(|_, engine, level| match (engine, level) {
        (TREE, "sync") => (1_000.0, 264.0, 1_065.0),
        (TREE, _) => (8_000.0, 100.0, 100.0),
        (_, "os") => (4_000.0, 124.0, 145.0),
        _ => (2_000.0, 100.0, 900.0),
    }))
    .unwrap();
    let a = found.findings.iter().find(|finding| finding.published.starts_with("workload A:")).unwrap();
    assert_eq!((a.verdict, a.measured_figure.map(|x| (x * 100.0).round())), (Verdict::Holds, Some(400.0)));
    assert!(a.measured.contains("both at os 0.50") && a.measured.contains("both at sync 2.00"), "{}", a.measured);
    let throughput = |engine: &str| {
        let of = |figure: &&Figure| figure.of == "throughput" && figure.engine.as_deref() == Some(engine);
        found.figures.iter().filter(of).map(|figure| (figure.load.clone(), figure.measured)).collect::<Vec<_>>()
    };
    assert_eq!(throughput(TREE)[1], ("A, sync".to_owned(), Some(1_020.0)));
    assert_eq!(throughput(MERGED)[1], ("A, os".to_owned(), Some(4_080.0)));
    assert_eq!((throughput("log").len(), throughput(TREE).len()), (7, 7));
}

#[test]
fn without_runs_nothing_is_judged_nor_by_runs_with_errors_which_are_told() {
    let nothing = Outcome { records: Vec::new(), failures: Vec::new(), interrupted: 9 };
    assert!(verdicts(&nothing).iter().all(|(_, verdict)| *verdict == Verdict::Unknown));
    let mut failing = outcome(as_published);
    failing.records.iter_mut().filter(|record| record.workload == "e").for_each(|record| record.errors = 5);
    let known = crate::reproduce::EXPERIMENTS.iter().find(|experiment| experiment.name == "btree-vs-lsm").unwrap();
    let Some(crate::reproduce::Work::Stores(work)) = known.work else { panic!("an experiment over stores") };
    let of_e = |outcome: &Outcome| {
        let found = work.judged(outcome).unwrap();
        let e = found.findings.iter().find(|finding| finding.published.contains("cannot be run")).unwrap().verdict;
        (e, found.differences.join(" "))
    };
    let (verdict, said) = of_e(&outcome(as_published));
    assert!(verdict == Verdict::Refuted && !said.contains("wrong answer"), "{said}");
    let (verdict, said) = of_e(&failing);
    assert!(verdict == Verdict::Unknown && said.contains("operations failed or gave a wrong answer"), "{said}");
}

#[test]
fn the_page_and_the_table_show_published_beside_measured_with_tails_and_waf() {
    let outcome = outcome(as_published);
    let found = of_both(&outcome).unwrap();
    let mut text = Vec::new();
    super::super::super::print(&found, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let html = crate::report::reproduction(&outcome, &found).unwrap();
    crate::report::tests::look("reproduction", &html);
    let (head, rest) = found.headline();
    for page in [&text, &html] {
        for expected in [
            head.as_str(),
            &rest,
            "A-load, sync",
            "update, mean",
            "264 µs",
            "PostgreSQL",
            "WAF by the device",
            "ArithmeticException",
            "1.40 µs",
        ] {
            assert!(page.contains(expected), "`{expected}` is missing in\n{page}");
        }
    }
    // Each figure and each conclusion that was measured leads to its runs, the one with its three of 126.
    let throughput = found.figures.iter().find(|figure| figure.load == "A, os" && figure.of == "throughput").unwrap();
    assert_eq!((throughput.lines.len(), throughput.spread().contains(" to ")), (3, true));
    let records = throughput.lines.iter().map(|line| &outcome.records[*line as usize - 1]);
    assert!(records.map(|r| (&*r.workload, &*r.durability, r.engine.as_str())).all(|run| run == ("a", "os", MERGED)));
    let lines = throughput.lines.iter().map(u32::to_string).collect::<Vec<_>>();
    let link = format!("<a href=\"#raw\" data-lines=\"{}\">{}</a>", lines.join(" "), lines.join(", "));
    let page = html.replace("&#x2f;", "/");
    assert!(page.contains(&link) && page.contains(&throughput.spread()), "{link} or its spread is missing");
    assert_eq!(html.matches("class=\"label\">throughput</div>").count(), 1, "a row of the plot");
    let measured = found.findings.iter().filter(|finding| finding.verdict != Verdict::Unknown);
    assert!(measured.clone().count() > 5 && measured.clone().all(|finding| !finding.lines.is_empty()), "{found:?}");
}

/// Fails if the write amplification of the whole run is shown, which is the load's in C and has a cluster of 40 MB in A-load; or if what closing
/// leaves in a log counts for nobody.
#[test]
fn write_amplification_is_that_of_the_run_phase_alone() {
    let mut outcome = outcome(as_published);
    for record in &mut outcome.records {
        let phase = |process: u64, put| PhaseFigures {
            write_bytes: Ways { process: Some(process), device: Some(2 * process), ..Ways::default() },
            logical_write_bytes: put,
            ..PhaseFigures::default()
        };
        let put = if record.workload == "c" { 0 } else { 1_000_000 };
        record.amplification = Some(Amplification {
            open: phase(40_000_000, 0),
            load: (record.workload != "fillrandom").then(|| phase(9_000_000, 3_000_000)),
            run: phase(4_000_000, put),
            ..Amplification::default()
        });
        record.unflushed_write_bytes = if record.engine == MERGED { 500_000 } else { 0 };
        record.waf_by.process = Some(77.0);
        if let Some(told) = &mut record.amplification {
            told.run.waf.statistics = Some(if record.engine == MERGED { 5.0 } else { 4.1 });
        }
    }
    let figures = of_both(&outcome).unwrap().figures;
    let of = |engine: &str, by: &str| {
        let is = |f: &&Figure| f.of == format!("WAF by the {by}") && f.engine.as_deref() == Some(engine);
        figures.iter().filter(is).map(|figure| figure.measured).collect::<Vec<_>>()
    };
    let all_but_c = |waf| THROUGHPUT.map(|(work, ..)| (work != "C").then_some(waf)).to_vec();
    assert_eq!((of(TREE, "kernel"), of(TREE, "device")), (all_but_c(4.0), all_but_c(8.0)));
    assert_eq!(of(MERGED, "kernel"), all_but_c(4.5));
    // Nor does one stand alone that the kernel took over 5 % off.
    let starred: Vec<_> = figures.iter().filter(|figure| figure.engine_says_more).collect();
    let is_due = |figure: &&Figure| figure.engine.as_deref() == Some(MERGED) && figure.of == "WAF by the kernel";
    assert!(starred.len() == 6 && starred.iter().all(is_due), "{starred:?}");
    assert!(starred.iter().all(|figure| figure.cells()[5] == "4.50*"), "{starred:?}");
    assert_eq!(of(MERGED, "engine")[1], Some(5.0), "what it says stands beside");
}

/// Fails if a run that puts next to nothing has the compactions of its load for a figure.
#[test]
fn a_run_that_puts_less_than_a_tenth_of_its_load_has_no_write_amplification() {
    let with = |put: u64, loaded: Option<u64>| {
        let phase = |put| PhaseFigures {
            write_bytes: Ways { process: Some(5_000), device: Some(5_000), ..Ways::default() },
            logical_write_bytes: put,
            ..PhaseFigures::default()
        };
        let told = Amplification { load: loaded.map(phase), run: phase(put), ..Amplification::default() };
        Record { workload: "b".to_owned(), amplification: Some(told), ..record(MERGED, "none", 1, 1.0) }
    };
    let phases = [(99, Some(1_000)), (100, Some(1_000)), (1, None), (0, Some(1))];
    assert_eq!(phases.map(|(put, load)| is_own(&with(put, load))), [false, true, true, false]);
    let records = vec![with(1_000, Some(10_001)), with(1_000, Some(10_000)), with(1_000, Some(10_000))];
    let outcome = Outcome { records, failures: Vec::new(), interrupted: 0 };
    let found = of_both(&outcome).unwrap();
    let waf = found.figures.iter().find(|figure| figure.load == "B, os" && figure.of == "WAF by the kernel").unwrap();
    assert_eq!((waf.measured, waf.extremes), (Some(5.0), Some((5.0, 5.0))));
    let few = Outcome { records: outcome.records[..1].to_vec(), ..Outcome::default() };
    let figures = of_both(&few).unwrap().figures;
    let wafs: Vec<_> = figures.iter().filter(|figure| figure.of.starts_with("WAF by ")).collect();
    assert!(!wafs.is_empty() && wafs.iter().all(|figure| figure.measured.is_none()), "{wafs:?}");
}

#[test]
fn the_setup_says_the_cache_of_both_loads() {
    let mut outcome = outcome(as_published);
    for record in &mut outcome.records {
        record.cache_bytes = if record.workload == "fillrandom" { 16 << 20 } else { 25_400_000 };
    }
    let setup = of_both(&outcome).unwrap().setup_now;
    assert!(setup.contains("25.4 MB of cache (16.8 MB for A-load), "), "{setup}");
}

#[test]
fn every_workload_is_run_at_both_levels_and_without_either_system_none_is() {
    let mut registry = Registry::new();
    registry.add(biombo_engine::memory::kind());
    assert!(plans(&registry, 1.0).is_empty());
    for name in [TREE, MERGED, "log"] {
        registry.add(biombo_engine::EngineKind { name, ..biombo_engine::memory::kind() });
    }
    let runs: Vec<_> = plans(&registry, 1.0).iter().flat_map(Plan::runs).collect();
    assert_eq!(runs.len(), 2 * (1 + 6) * 3 * 3);
    let operations = |run: &RunSpec| if run.task == Workload::E.into() { 10_000 } else { 40_000 };
    assert!(runs.iter().all(|run| run.threads == 1 && run.operations == operations(run)));
    // By default 2 GiB, with which no merge tree would flush: a quarter of what is loaded, or of what A-load puts, and 16 MiB at least.
    assert!(runs.iter().all(|run| run.cache_bytes == 16 << 20), "{:?}", runs[0]);
    let twice: Vec<_> = plans(&registry, 2.0).iter().flat_map(Plan::runs).collect();
    let due = |run: &RunSpec| if run.task == Task::from(Benchmark::FillRandom) { 20_320_000 } else { 30_480_000 };
    assert!(twice.iter().all(|run| run.cache_bytes == due(run)), "{:?}", twice[0]);
}
