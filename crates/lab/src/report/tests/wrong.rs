//! Runs with wrong answers are in nothing that a page shows of a row that has others.

use crate::amplification::{Amplification, PhaseFigures, Series, Sides, Ways};
use crate::record::tests::record;
use crate::record::{CompactionFigures, Record};
use crate::report::{amplification, page, plots, sweep, timeline};
use crate::summary::{Table, tables};

/// A run whose every figure is `times` the common one, with a throughput and a number of errors.
fn run(engine: &str, repetition: u32, ops_per_s: f64, times: u32, errors: u64) -> Record {
    let mut record = record(engine, "none", repetition, ops_per_s);
    let (whole, many) = (u64::from(times), f64::from(times));
    record.errors = errors;
    for latency in record.latency_ns.values_mut() {
        (latency.p50, latency.p99, latency.max) = (300 * whole, 1_400 * whole, 210_000 * whole);
    }
    record.waf = Some(many);
    record.load.ops_per_s = 10_000.0 * many;
    record.compaction = CompactionFigures {
        count: Some(4 * whole),
        seconds: Some(many),
        latency_ns_p50: Some(7_000 * whole),
        ..CompactionFigures::default()
    };
    record.timeline.operations = vec![100 * whole; 20];
    let phase = PhaseFigures {
        seconds: 1.0,
        logical_write_bytes: 1_000,
        write_bytes: Ways { process: Some(1_000 * whole), ..Ways::default() },
        waf: Ways { process: Some(many), ..Ways::default() },
        read_amplification: Sides { process: Some(many), device: None },
        series: Series {
            at_seconds: vec![0.5, 1.0],
            waf: Ways { process: Some(vec![Some(many); 2]), ..Ways::default() },
            ..Series::default()
        },
        ..PhaseFigures::default()
    };
    record.amplification = Some(Amplification { load: Some(phase.clone()), run: phase, ..Amplification::default() });
    record
}

/// Two engines with values of two sizes, three runs each; the same with one of wrong answers first, whose throughput is the median of the
/// others and all of whose other figures are wild.
fn both() -> [Vec<Table>; 2] {
    let mut sound = Vec::new();
    let mut all = Vec::new();
    for value_bytes in [100, 200] {
        for engine in ["log", "lmdb"] {
            let of = |one: Record| Record { value_bytes, ..one };
            all.push(of(run(engine, 0, 2_000.0, 70, 3)));
            for (repetition, times) in [1, 2, 3].into_iter().zip([3, 1, 2]) {
                let one = of(run(engine, repetition, 1_000.0 * f64::from(times), times, 0));
                sound.push(one.clone());
                all.push(one);
            }
        }
    }
    [tables(&sound), tables(&all)]
}

fn engines() -> Vec<String> {
    ["log", "lmdb"].map(str::to_owned).to_vec()
}

/// Fails if the plot of latencies has the quick answers of a store that finds nothing.
#[test]
fn they_are_in_no_plot_of_latencies() {
    let [sound, all] = both().map(|tables| {
        let series = plots::Series { label: "log", colour: 0, direct: true };
        plots::latencies(&[(series, plots::Percentiles::of(&tables[0].rows[0], "read").unwrap())])
    });
    assert_eq!(all, sound);
}

/// Fails if the p99, the write amplification or the compactions of a sweep are also those of wrong runs.
#[test]
fn they_are_in_no_plot_of_a_sweep() {
    let [sound, all] =
        both().map(|tables| format!("{:?}", sweep::sweep(&tables.iter().collect::<Vec<_>>(), &engines())));
    for title in ["99th percentile of reads", "Write amplification", "Compactions", "Median compaction"] {
        assert!(sound.contains(title), "no plot of {title}");
    }
    assert!(all == sound, "{all}\nis not\n{sound}");
}

/// Fails if a wrong run is the one whose write amplification is drawn, or is in the medians of the table below it.
#[test]
fn they_are_in_no_picture_of_amplification_and_not_in_its_table() {
    let [sound, all] = both().map(|tables| {
        let card = amplification::card(&tables[0]);
        let (picture, table) = card.split_once("What storage wrote").unwrap();
        (picture.to_owned(), table.to_owned())
    });
    assert_eq!(all.0, sound.0);
    assert_eq!(all.1, sound.1);
}

/// Fails if a wrong run is the one that is drawn over time.
#[test]
fn they_are_not_drawn_over_time() {
    let [sound, all] =
        both().map(|tables| format!("{:?}", timeline::Timelines::new(&tables[0]).throughput(&engines())));
    assert!(all == sound, "{all}\nis not\n{sound}");
}

/// Fails if the rate of loading, the number of repetitions or the spread are also those of wrong runs, or if nobody is told.
#[test]
fn they_are_in_no_rate_of_loading_and_no_number_of_repetitions() {
    let runs = |errors: &[u64]| -> String {
        let runs = errors
            .iter()
            .zip(1..)
            .map(|(errors, i)| run("log", i, 1_000.0 * f64::from(i), if *errors > 0 { 70 } else { i }, *errors));
        let html = page(&runs.collect::<Vec<_>>(), &[]).unwrap();
        html.split_once("<script").unwrap().0.to_owned()
    };
    let html = runs(&[0, 0, 5]);
    assert!(html.contains("<td rowspan=\"2\">15.0 k</td>"), "loading is that of the first two: {html}");
    assert!(html.contains("median of 2 repetitions") && html.contains("is in no figure, plot or ratio"), "{html}");
    let one = runs(&[0, 5, 5]);
    assert!(one.contains("one run each: no spread is known") && !one.contains("<br><small>1.00 k to"), "{one}");
    // Where there are no others they are shown, with their errors.
    let none = runs(&[5, 5, 5]);
    assert!(none.contains("<td rowspan=\"2\">700 k</td>") && none.contains("median of 3 repetitions"), "{none}");
    assert!(!runs(&[0, 0, 0]).contains("is in no figure"), "there is nothing to be told");
}
