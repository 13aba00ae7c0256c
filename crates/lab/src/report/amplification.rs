//! Write amplification over the time of a run, counted in four ways: a panel for each engine and layout; below it a table with what each
//! phase wrote, read and kept. And what the ways count, in words.
//!
//! A line of the kernel or the device is what it counted while the phase went on, whatever it was written for. The table has each phase pay for
//! what was put in it, as the columns `WAF load` and `WAF run` of the terminal ([`crate::table`]) and `biombo reproduce` do.
//!
//! Lines are told apart by colour, by dashes and by the shape near their end. Of each engine and layout the picture shows the repetition
//! whose throughput is the median; the table has medians of all.

use std::fmt::Write;

use super::axis::{Linear, Log};
use super::escape;
use crate::amplification::{Amplification, OF_PHASES, PhaseFigures, Sides, Waf, Ways, note};
use crate::record::Record;
use crate::statistics::Spread;
use crate::summary::{Row, Table};
use crate::units::{bytes, count, duration_ns};

/// The ways of counting bytes written, in the order of [`Ways::each`](crate::amplification::Ways::each), and the shape near the end of a line.
const WAYS: [(&str, &str); 4] = [
    ("the engine's own counters", "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z"),
    ("the engine's statistics", "M-3 -3h6v6h-6z"),
    ("the kernel, for the processes", "M0 -4l4 7h-8z"),
    ("the device, whoever wrote", "M0 -4.5l4 4.5l-4 4.5l-4 -4.5z"),
];

/// Of each way, whether it counts bytes when they are written and knows nothing of such as are owed.
const COUNTS_LATE: [bool; 4] = [false, false, true, true];

const TOP_PX: f64 = 16.0;
const PANEL_PX: f64 = 110.0;

/// Figures further apart than this stand on a logarithmic scale.
const LINEAR_MAX: f64 = 20.0;

/// A run and its name.
struct Shown<'a> {
    label: &'a str,
    told: &'a Amplification,
}

/// The card of a table; nothing where its records are from before there were such figures, or nothing was written.
pub(super) fn card(table: &Table) -> String {
    let shown: Vec<Shown<'_>> = table.rows.iter().filter_map(shown).collect();
    if shown.is_empty() {
        return String::new();
    }
    let scale = Scale::of(&shown);
    let mut out = String::new();
    if let Some(scale) = &scale {
        let _ = write!(
            out,
            "<div class=\"card wide\"><h3>Write amplification over time <small>bytes written by bytes put, from the beginning of each \
             phase{}; the repetition of median throughput; the kernel and the device as they count: what a phase owes another is settled in the table \
             below</small></h3>{}<div class=\"panels\">",
            if scale.is_logarithmic() { ", logarithmic" } else { "" },
            legend(&shown)
        );
        for run in &shown {
            let _ = write!(out, "<div><h4>{}</h4>{}</div>", escape(run.label), panel(run, scale));
        }
        out.push_str("</div></div>");
    }
    out.push_str(&figures(table));
    out
}

/// The repetition of median throughput, if it tells anything.
fn shown(row: &Row) -> Option<Shown<'_>> {
    let distance = |record: &Record| (record.ops_per_s - row.ops_per_s.median).abs();
    let record = row.told().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    record.amplification.as_ref().map(|told| Shown { label: &row.label, told })
}

/// The figures of all lines of a run.
fn all<'a>(run: &Shown<'a>) -> impl Iterator<Item = f64> + use<'a> {
    let phases = run.told.phases();
    let columns = phases.flat_map(|(_, phase)| phase.series.waf.each().into_iter().flatten());
    columns.flatten().filter_map(|waf| *waf)
}

/// The axis upwards, the same in all panels.
enum Scale {
    Linear(Linear),
    /// Of hundredths: amplification may lie below 1.
    Log(Log),
}

impl Scale {
    fn of(shown: &[Shown<'_>]) -> Option<Self> {
        let figures = || shown.iter().flat_map(all).filter(|waf| *waf > 0.0);
        let (least, most) = (figures().reduce(f64::min)?, figures().reduce(f64::max)?);
        Some(if most > LINEAR_MAX * least {
            Self::Log(Log::fitted(100.0 * least, 100.0 * most))
        } else {
            Self::Linear(Linear::new(most, 3))
        })
    }

    fn is_logarithmic(&self) -> bool {
        matches!(self, Self::Log(_))
    }

    /// How high a figure lies, in pixels from the top.
    fn y(&self, waf: f64) -> f64 {
        let percent = match self {
            Self::Linear(axis) => axis.at(waf),
            Self::Log(axis) => axis.at(100.0 * waf),
        };
        TOP_PX + PANEL_PX * (1.0 - percent / 100.0)
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear(axis) => axis.ticks.clone(),
            Self::Log(axis) => axis.ticks.iter().map(|hundredths| hundredths / 100.0).collect(),
        }
    }
}

/// The ways that occur.
fn legend(shown: &[Shown<'_>]) -> String {
    let is_drawn = |column: Option<&Vec<Option<f64>>>| column.is_some_and(|column| column.iter().any(Option::is_some));
    let occurs = |way: usize| {
        shown.iter().flat_map(|run| run.told.phases()).any(|(_, phase)| is_drawn(phase.series.waf.each()[way]))
    };
    let mut out = String::from("<p class=\"key\">");
    for (way, (name, shape)) in WAYS.iter().enumerate().filter(|(way, _)| occurs(*way)) {
        let _ = write!(
            out,
            "<span><svg width=\"40\" height=\"12\" aria-hidden=\"true\"><line class=\"line c{way} l{way}\" x1=\"0\" x2=\"32\" y1=\"6\" \
             y2=\"6\"/><svg x=\"33\" y=\"6\" overflow=\"visible\"><path class=\"dot c{way}\" d=\"{shape}\"/></svg></svg> {name}</span>"
        );
    }
    out.push_str("<span><i class=\"mark plan\"></i>the run begins</span></p>");
    out
}

/// One run: its phases one behind the other.
fn panel(run: &Shown<'_>, scale: &Scale) -> String {
    let seconds = run.told.phases().map(|(_, phase)| phase.seconds).sum::<f64>().max(1e-3);
    let ticks: Vec<(f64, String)> = scale.ticks().into_iter().map(|tick| (scale.y(tick), figure(tick))).collect();
    let letters = ticks.iter().map(|(_, word)| word.chars().count()).max().unwrap_or(0);
    let mut out =
        format!("<div class=\"over\"><svg class=\"ordinate\" width=\"{}\" height=\"142\">", (letters * 15 / 2).max(12));
    for (y, word) in &ticks {
        let y = y + 4.0;
        let _ = write!(out, "<text class=\"tick\" x=\"100%\" y=\"{y:.1}\" text-anchor=\"end\">{word}</text>");
    }
    let _ = write!(
        out,
        "</svg><svg class=\"panel amplification\" role=\"img\" height=\"142\" aria-label=\"Write amplification of {} over time\">",
        escape(run.label)
    );
    for (y, _) in &ticks {
        let _ = write!(out, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    let mut began = 0.0;
    for (name, phase) in run.told.phases() {
        let (from, to) = (began / seconds * 100.0, (began + phase.seconds) / seconds * 100.0);
        out.push_str(&head(name, from, to, phase));
        for (way, column) in phase.series.waf.each().into_iter().enumerate() {
            let at = |seconds_in: f64| (began + seconds_in) / seconds * 100.0;
            let points = column.into_iter().flatten().zip(&phase.series.at_seconds);
            let points: Vec<(f64, f64)> = points.filter_map(|(waf, t)| Some((at(*t), scale.y((*waf)?)))).collect();
            line(&mut out, way, &points, from, run.label, name, phase);
        }
        began += phase.seconds;
    }
    let _ = write!(
        out,
        "<text class=\"tick\" x=\"0\" y=\"140\">0</text><text class=\"tick\" x=\"100%\" y=\"140\" text-anchor=\"end\">{}</text></svg></div>",
        duration_ns(seconds * 1e9)
    );
    out
}

/// Where a phase begins, its name, and a word where it has no lines.
fn head(name: &str, from: f64, to: f64, phase: &PhaseFigures) -> String {
    let mut out = String::new();
    if from > 0.0 {
        let bottom = TOP_PX + PANEL_PX;
        let _ = write!(
            out,
            "<line class=\"mark plan\" x1=\"{from:.2}%\" x2=\"{from:.2}%\" y1=\"4\" y2=\"{bottom:.0}\"><title>the {name} begins</title></line>"
        );
    }
    // Where there is no room for the name, the other one's tells.
    if to - from > 20.0 {
        let _ = write!(out, "<text class=\"tick\" x=\"{from:.2}%\" dx=\"4\" y=\"11\">{name}</text>");
        if phase.logical_write_bytes == 0 {
            let (x, y) = ((from + to) / 2.0, TOP_PX + PANEL_PX / 2.0);
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{x:.2}%\" y=\"{y:.0}\" text-anchor=\"middle\">nothing put</text>"
            );
        }
    }
    out
}

/// A line through `points`, percent of the width and pixels, with its shape near its end, each way's at another place, as lines may lie on each other; one point is a level line from the phase's beginning.
fn line(out: &mut String, way: usize, points: &[(f64, f64)], from: f64, label: &str, name: &str, phase: &PhaseFigures) {
    let Some(&(end_x, end_y)) = points.last() else { return };
    let level = [(from, end_y), (end_x, end_y)];
    let points = if points.len() == 1 { &level[..] } else { points };
    let waf = phase.waf.each()[way].copied().map_or(String::new(), figure);
    let unsettled =
        if COUNTS_LATE[way] { ", as counted: what was owed before is in it, what it owes is not" } else { "" };
    let title = format!("{}, {name}, by {}: {waf} at its end{unsettled}", escape(label), WAYS[way].0);
    let back = way * (points.len() / 16 + 1);
    let (shape_x, shape_y) = points[points.len().saturating_sub(1 + back)];
    let path = points.iter().fold(String::new(), |mut path, (x, y)| {
        let _ = write!(path, "{}{:.1},{:.2}", if path.is_empty() { "" } else { " " }, x * 10.0, y - TOP_PX);
        path
    });
    let _ = write!(
        out,
        "<svg x=\"0\" y=\"{TOP_PX}\" width=\"100%\" height=\"{PANEL_PX}\" viewBox=\"0 0 1000 {PANEL_PX}\" preserveAspectRatio=\"none\" \
         overflow=\"visible\"><polyline class=\"line c{way} l{way}\" points=\"{path}\"><title>{title}</title></polyline></svg>\
         <svg x=\"{shape_x:.2}%\" y=\"{shape_y:.1}\" overflow=\"visible\"><path class=\"dot c{way}\" d=\"{}\"><title>{title}</title></path></svg>",
        WAYS[way].1
    );
}

/// A ratio as short as three digits allow.
fn figure(ratio: f64) -> String {
    match ratio {
        r if r.fract() == 0.0 || r >= 99.5 => count(r.round()),
        r if r >= 9.95 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// One phase of an engine's runs in the table below.
struct Phase<'a> {
    name: &'static str,
    phases: Vec<&'a PhaseFigures>,
    /// Write amplification of each, as if it had written what was put in it and nothing else.
    wafs: Vec<Ways<f64>>,
}

impl<'a> Phase<'a> {
    fn load(runs: &[(&Record, &'a Amplification)]) -> Self {
        let loads = || runs.iter().filter_map(|(_, told)| Some((*told, told.load.as_ref()?)));
        let waf = |(told, load): (&Amplification, &PhaseFigures)| Ways {
            process: told.waf_of_load(|ways| ways.process),
            device: told.waf_of_load(|ways| ways.device),
            ..load.waf
        };
        Self { name: "load", phases: loads().map(|(_, load)| load).collect(), wafs: loads().map(waf).collect() }
    }

    fn run(runs: &[(&Record, &'a Amplification)]) -> Self {
        let waf = |(record, told): &(&Record, &Amplification)| Ways {
            process: record.waf_of_run(|ways| ways.process),
            device: record.waf_of_run(|ways| ways.device),
            ..told.run.waf
        };
        Self {
            name: "run",
            phases: runs.iter().map(|(_, told)| &told.run).collect(),
            wafs: runs.iter().map(waf).collect(),
        }
    }

    /// The median of a figure over the repetitions that tell it.
    fn median(&self, of: impl Fn(&PhaseFigures) -> Option<f64>) -> Option<f64> {
        Spread::of(self.phases.iter().filter_map(|phase| of(phase))).map(|spread| spread.median)
    }

    /// The same of write amplification by one of the ways.
    fn waf(&self, way: usize) -> Option<f64> {
        Spread::of(self.wafs.iter().filter_map(|waf| waf.each()[way].copied())).map(|spread| spread.median)
    }

    /// By the kernel, with a star where the engine says more.
    fn waf_by_kernel(&self) -> String {
        let starred = self.waf(2).and_then(|kernel| Waf::of(Some(kernel), self.waf(0).or(self.waf(1))));
        starred.map_or_else(|| "-".to_owned(), |waf| figure(waf.figure) + waf.star())
    }

    fn bytes(&self, of: impl Fn(&PhaseFigures) -> Option<u64>) -> String {
        told(self.median(|phase| of(phase).map(|n| n as f64)), bytes)
    }
}

fn told(figure: Option<f64>, text: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}

/// What each phase wrote, read and kept.
fn figures(table: &Table) -> String {
    let mut out = String::from(
        "<div class=\"card wide\"><h3>What storage wrote, read and kept <small>for what was asked of it, phase by phase; medians of the \
         repetitions; in WAF each phase pays for what was put in it: what was owed when it began is taken off, what it owes at its end counts</small></h3><div class=\"scroll\"><table><thead><tr><th class=\"l\">engine and layout</th><th class=\"l\">phase</th>\
         <th>put</th><th>WAF of the<br>phase by own<br>counters</th><th>by<br>statistics</th><th>by the<br>kernel</th><th>by the<br>device</th>\
         <th>returned</th><th>read ampl.<br>by the kernel</th><th>by the<br>device</th><th>on disk by<br>live bytes</th><th>still to be<br>\
         written</th><th>compactions</th><th>their<br>time</th><th>their<br>bytes</th><th>p99 of one,<br>all phases</th><th>slowest</th></tr>\
         </thead><tbody>",
    );
    for row in &table.rows {
        let runs: Vec<_> = row.told().filter_map(|record| Some((record, record.amplification.as_ref()?))).collect();
        let phases = [Phase::load(&runs), Phase::run(&runs)];
        let phases: Vec<Phase<'_>> = phases.into_iter().filter(|phase| !phase.phases.is_empty()).collect();
        for (i, phase) in phases.iter().enumerate() {
            let (first, rows) = (i == 0, phases.len());
            let _ = write!(out, "<tr{}>", if first { " class=\"first\"" } else { "" });
            if first {
                let _ = write!(out, "<td class=\"l name\" rowspan=\"{rows}\">{}</td>", escape(&row.label));
            }
            let waf = |way: usize| told(phase.waf(way), figure);
            let read = |of: fn(&Sides<f64>) -> Option<f64>| told(phase.median(|p| of(&p.read_amplification)), figure);
            let cells = [
                phase.bytes(|p| Some(p.logical_write_bytes)),
                waf(0),
                waf(1),
                phase.waf_by_kernel(),
                waf(3),
                phase.bytes(|p| Some(p.logical_read_bytes)),
                read(|sides| sides.process),
                read(|sides| sides.device),
                told(phase.median(|p| p.space_amplification), figure),
                phase.bytes(|p| p.unflushed_bytes),
                told(phase.median(|p| p.compaction.count.map(|n| n as f64)), count),
                told(phase.median(|p| p.compaction.seconds), |seconds| duration_ns(seconds * 1e9)),
                phase.bytes(|p| p.compaction.bytes),
            ];
            let _ = write!(out, "<td class=\"l\">{}</td>", phase.name);
            for cell in cells {
                let _ = write!(out, "<td>{cell}</td>");
            }
            if first {
                for tail in [row.compaction.latency_ns_p99, row.compaction.latency_ns_max] {
                    let tail = told(tail.map(|ns| ns as f64), duration_ns);
                    let _ = write!(out, "<td rowspan=\"{rows}\">{tail}</td>");
                }
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div>");
    if let Some(stars) = note(&table.rows, &OF_PHASES) {
        let _ = write!(out, "<p class=\"setting\">{}</p>", escape(&stars));
    }
    out.push_str("</div>");
    out
}

/// How these figures came about; nothing where there are none.
pub(super) fn methods(records: &[Record]) -> Vec<String> {
    let told: Vec<&Amplification> = records.iter().filter_map(|record| record.amplification.as_ref()).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let share =
        |told: &Amplification| told.sampling_seconds / told.phases().map(|(_, phase)| phase.seconds).sum::<f64>();
    let dearest = told.into_iter().map(share).filter(|share| share.is_finite()).fold(0.0, f64::max);
    let mut paragraphs = vec![
        format!(
            "Amplification over time: a thread of its own looks at all counters every tenth of a second or less often, so that it takes at most \
             a hundredth of one processor (here at most {:.2} %). Load and run are told apart: a line begins anew with each phase, and shows \
             everything since the phase began. Lines of the kernel and of the device are as these count: those of a run have what loading left in \
             memory to be written, and lack what the run leaves, so that a short run flatters an engine that writes late. In the table of phases, \
             as in the columns WAF load and WAF run of the terminal and in biombo reproduce, each phase pays for what was put in it and for \
             nothing else: what the engine owed when it began, by its own word, is taken off, and what it owed at its end or left in a log by \
             closing is added. (Where the kernel tells nothing, the terminal has the engine's own figure.) The last point of the load is taken when all of it is on the device, that of the run after \
             closing. What an engine that Biombo wrote has still to write counts by its own counters at each moment. What loading left to be \
             compacted is written in the time of the run, and counts there. Opening is neither in the one nor in the other, but it is in the \
             WAF of the other tables.",
            100.0 * dearest
        ),
        "Read amplification is the bytes read from storage by the bytes that reads returned (values; of scans keys too). What the kernel's or \
         the engine's cache answers is not read, so it may be 0; what the kernel reads ahead in vain counts. Space amplification is what the \
         store's files have on disk by the live keys and values: as the engine tells them, or as the driver put them."
            .to_owned(),
    ];
    if records.iter().any(|record| record.engine == "log" && record.amplification.is_some()) {
        paragraphs.push(
            "The engine log fills the room ahead of its writer with zeros, up to some 4 MiB. Where the record is stored before the zeros are \
             on the device, the kernel counts the page once; where something syncs the file between, as the laboratory does after loading, \
             twice. Its own counters follow that, and have what closing writes of the index. Records of versions before left both out: \
             in a run of some tens of megabytes that made 1.35 by its own counters and 1.94 to 2.06 by the kernel. docs/lab.md has what \
             is left between the counters of each engine."
                .to_owned(),
        );
    }
    paragraphs
}

#[cfg(test)]
mod tests;
