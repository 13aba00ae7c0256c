//! The picture and the table are there, with everything that was told and nothing that was not.

use crate::amplification::{Amplification, PhaseFigures, Series, Sides, Ways};
use crate::record::tests::record;
use crate::record::{CompactionFigures, Record};
use crate::report::page;

/// A phase of three seconds in six intervals; `waf` at the end of each, by its own counters, statistics, kernel and device.
fn phase(waf: [Option<[f64; 6]>; 4], put: u64) -> PhaseFigures {
    let ways = waf.map(|column| column.map(|column| column.map(Some).to_vec()));
    let last = waf.map(|column| column.map(|column| column[5]));
    let [own, statistics, process, device] = ways;
    PhaseFigures {
        seconds: 3.0,
        logical_write_bytes: put,
        logical_read_bytes: 1_000_000,
        write_bytes: {
            let written = |waf: Option<f64>| waf.map(|waf| (waf * put as f64) as u64);
            Ways { process: written(last[2]), device: written(last[3]), ..Ways::default() }
        },
        waf: Ways { own: last[0], statistics: last[1], process: last[2], device: last[3] },
        read_amplification: Sides { process: Some(0.75), device: None },
        space_amplification: Some(1.31),
        compaction: CompactionFigures { count: Some(17), ..CompactionFigures::default() },
        series: Series {
            at_seconds: (1..=6).map(|i| f64::from(i) / 2.0).collect(),
            waf: Ways { own, statistics, process, device },
            ..Series::default()
        },
        ..PhaseFigures::default()
    }
}

fn with(mut record: Record, load: PhaseFigures, run: PhaseFigures) -> Record {
    record.compaction.latency_ns_max = Some(98_000_000);
    let (load, samples) = (Some(load), 12);
    record.amplification =
        Some(Amplification { sampling_seconds: 0.006, samples, load, run, ..Amplification::default() });
    record
}

const RISES: [f64; 6] = [1.1, 1.4, 1.9, 2.2, 2.4, 2.5];
const FALLS: [f64; 6] = [4.0, 3.0, 2.6, 2.5, 2.5, 2.5];

fn records() -> Vec<Record> {
    let own = phase([Some(RISES), None, Some(FALLS), Some(FALLS)], 1_000_000);
    let told = phase([None, Some(RISES), Some(FALLS), Some(FALLS)], 1_000_000);
    vec![
        with(record("log", "none", 1, 1_000.0), own.clone(), own),
        with(record("rocksdb", "none", 1, 2_000.0), told.clone(), told),
        with(record("lmdb", "none", 1, 1_500.0), phase([None, None, Some(FALLS), None], 1), phase([None; 4], 0)),
    ]
}

/// Fails if a way of counting has no line, if it is told from others by its colour alone, or if one is drawn that nobody counted.
#[test]
fn each_way_of_counting_has_a_line_a_shape_and_a_name() {
    let html = page(&records(), &[]).unwrap();
    if let Some(dir) = std::env::var_os("BIOMBO_REPORT_SAMPLES") {
        std::fs::write(std::path::Path::new(&dir).join("amplification.html"), &html).unwrap();
    }
    let (_, card) = html.split_once("Write amplification over time").expect("the picture");
    let (card, table) = card.split_once("What storage wrote, read and kept").expect("the table");
    let lines = |way: usize| card.matches(&format!("<polyline class=\"line c{way} l{way}\"")).count();
    // The load and the run of one engine each by own counters and statistics, of three loads and two runs by the kernel.
    assert_eq!([lines(0), lines(1), lines(2), lines(3)], [2, 2, 5, 4]);
    for (name, shape) in super::WAYS {
        assert!(card.contains(name), "`{name}` is not in the legend");
        assert!(card.matches(shape).count() > 2, "`{name}` has no shape at its lines' ends");
    }
    for expected in
        ["bytes written by bytes put", ">load</text>", ">run</text>", "the run begins", "nothing put", ">6.00 s<"]
    {
        assert!(card.contains(expected), "`{expected}` is missing");
    }
    assert_eq!(card.matches("class=\"panel amplification\"").count(), 3);
    for cell in ["0.75", "1.31", "98.0 ms", "2.50", "17", "run", "load"] {
        assert!(table.contains(&format!(">{cell}</td>")), "no cell `{cell}`");
    }
    assert!(html.contains("a thread of its own looks at all counters") && html.contains("(here at most 0.10 %)"));
    assert!(html.contains("fills the room ahead of its writer with zeros"));
}

/// Fails if the table has what the kernel and the device counted in a phase for what was put in it, so that it is at odds with the columns of
/// the terminal; or if a line that is of what they counted does not say so.
#[test]
fn each_phase_pays_in_the_table_for_what_was_put_in_it_as_in_the_terminal() {
    // A run that writes 2,000 bytes for what loading put, and leaves 500 of its own to the next opening.
    let mut load = phase([Some([7.5; 6]), None, Some([5.25; 6]), Some([6.0; 6])], 1_000);
    load.unflushed_bytes = Some(2_000);
    let mut run = phase([Some([2.75; 6]), None, Some([4.125; 6]), Some([5.0; 6])], 1_000);
    run.unflushed_bytes = Some(500);
    let mut record = with(record("log", "none", 1, 1_000.0), load, run);
    (record.unflushed_write_bytes, record.waf, record.waf_by) = (500, None, crate::record::WafBy::default());
    let html = page(std::slice::from_ref(&record), &[]).unwrap();
    let (picture, table) = html.split_once("What storage wrote, read and kept").expect("the table");
    for (name, cells) in [("load", ["7.50", "-", "7.25", "8"]), ("run", ["2.75", "-", "2.62", "3.50"])] {
        let cells = cells.map(|cell| format!("<td>{cell}</td>")).concat();
        let (_, row) = table.split_once(&format!("<td class=\"l\">{name}</td>")).expect("its row");
        assert!(row.starts_with(&format!("<td>1.00 kB</td>{cells}")), "{name}: {}", &row[..160]);
    }
    let mut text = Vec::new();
    crate::table::print(&crate::summary::tables(&[record]), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("  7.25  ") && text.contains("  2.62  "), "the terminal says the same:\n{text}");
    let titles: Vec<&str> =
        picture.split("<title>log, run, by ").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let of = |way: &str| *titles.iter().find(|title| title.starts_with(way)).expect("its line");
    assert_eq!(of("the engine's own counters"), "the engine's own counters: 2.75 at its end");
    assert!(
        of("the kernel").ends_with(": 4.12 at its end, as counted: what was owed before is in it, what it owes is not")
    );
    assert!(
        of("the device").ends_with(": 5 at its end, as counted: what was owed before is in it, what it owes is not")
    );
    for words in ["the kernel and the device as they count", "WAF of the<br>phase", "WAF, load<br>included, by"] {
        assert!(html.contains(words), "`{words}`");
    }
    assert!(html.contains("a short run flatters an engine that writes late"));
}

/// Fails if a log that was deleted before it was written makes its engine look as if it had none, and the page does not say so.
#[test]
fn what_the_kernel_took_back_has_a_star_in_each_table_and_words_below() {
    let mut load = phase([None, Some([1.5; 6]), Some([1.5; 6]), None], 1_000_000);
    let mut run = phase([None, Some([1.25; 6]), Some([0.25; 6]), None], 1_000_000);
    (load.cancelled_write_bytes, run.cancelled_write_bytes) = (Some(0), Some(990_000));
    let mut record = with(record("rocksdb", "none", 1, 1_000.0), load, run);
    (record.waf, record.waf_by.process, record.waf_by.engine) = (Some(0.75), Some(0.75), Some(1.5));
    let html = page(std::slice::from_ref(&record), &[]).unwrap();
    let (_, table) = html.split_once("What storage wrote, read and kept").expect("the table of phases");
    let (phases, whole) = table.split_once("<h3>Figures").expect("the table of figures");
    assert!(phases.contains("<td>0.25*</td>") && phases.contains("<td>1.50</td>"), "{phases}");
    assert!(phases.contains("wrote more: rocksdb 1.25 in run, 990 kB taken back. The kernel"), "{phases}");
    assert!(whole.contains("<td rowspan=\"2\">0.75*</td>") && whole.contains("<td>0.75*</td>"), "{whole}");
    assert_eq!(whole.matches("wrote more: rocksdb 1.50, 990 kB taken back. The kernel").count(), 2, "{whole}");
    assert!(html.contains("A star behind a figure of the kernel"), "nor is it explained");
    let none = page(&records(), &[]).unwrap();
    assert!(!none.contains("wrote more:"), "all counters of these agree");
}

/// Fails if lines of before there were such figures give an empty picture, or none at all a page.
#[test]
fn records_without_such_figures_have_a_page_without_the_picture() {
    let html = page(&[record("lmdb", "none", 1, 1_000.0)], &[]).unwrap();
    for word in
        ["Write amplification over time", "What storage wrote", "a thread of its own looks", "ahead of its writer"]
    {
        assert!(!html.contains(word), "`{word}`");
    }
}

/// Fails if what only reads is given a line, or no table because it has none.
#[test]
fn a_run_that_nobody_put_anything_in_has_a_table_and_no_lines() {
    let quiet = || phase([None; 4], 0);
    let html = page(&[with(record("lmdb", "none", 1, 1_000.0), quiet(), quiet())], &[]).unwrap();
    assert!(!html.contains("Write amplification over time") && html.contains("What storage wrote, read and kept"));
}

/// Fails if figures far apart are squeezed into one linear axis, or if those below 1 leave a logarithmic one.
#[test]
fn figures_far_apart_stand_on_a_logarithmic_scale() {
    let steep = phase([Some([256.0; 6]), None, Some([0.5; 6]), None], 100);
    let html = page(&[with(record("log", "none", 1, 1.0), steep.clone(), steep)], &[]).unwrap();
    let (_, card) = html.split_once("Write amplification over time").expect("the picture");
    assert!(card.contains("phase, logarithmic;"));
    let (card, _) = card.split_once("What storage wrote").expect("the table");
    // Of the two level lines the one lies above the other, and both in the panel of 110 pixels.
    let heights: Vec<f64> = card
        .split("points=\"")
        .skip(1)
        .map(|points| {
            points.split(['"', ' ']).next().and_then(|first| first.split_once(',')).expect("a point").1.parse().unwrap()
        })
        .collect();
    assert!(heights.len() == 4 && heights.iter().all(|y| (0.0..=110.0).contains(y)), "{heights:?}");
    assert!(heights[0] < heights[1], "{heights:?}");
}

/// Fails if a label can end the element that it stands in.
#[test]
fn names_are_text() {
    let steep = || phase([Some(RISES), None, None, None], 100);
    let html = page(&[with(record("<b>x", "none", 1, 1.0), steep(), steep())], &[]).unwrap();
    let (_, card) = html.split_once("Write amplification over time").expect("the picture");
    let (card, _) = card.split_once("<script").expect("the records behind it");
    assert!(card.contains("&lt;b&gt;x") && !card.contains("<b>x"));
}
