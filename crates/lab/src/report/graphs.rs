//! The page of graphs: how many times as fast as the static layout with one thread each kernel is, ingest, and bytes per edge.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::again::reproduced;
use super::context::{COLOURS, distinct};
use super::graph_findings::findings;
use super::plots::{Series, bars_of};
use super::{date, escape};
use crate::graph::{Layout, Placing, Record, Step, Whole};
use crate::measure::Host;
use crate::reproduce::Reproduction;
use crate::statistics::Spread;
use crate::units::{count, duration_ns, plural};

pub(super) fn page(records: &[Record], again: Option<&Reproduction>, lines: String) -> Value {
    let graphs = distinct(records.iter().map(|record| record.graph.as_str()));
    let layouts: Vec<String> = Layout::ALL.iter().map(|layout| layout.name().to_owned()).collect();
    context! {
        again => again.map(|again| reproduced(again, &layouts)),
        title => again.map_or_else(|| format!("Graphs: {}", graphs.join(", ")), |again| again.title.to_owned()),
        lead => lead(records),
        findings => Value::from(Serde(findings(records))),
        sections => graphs.iter().map(|graph| section(graph, records)).collect::<Vec<_>>(),
        methods => methods(records),
        records => lines,
    }
}

/// How many steps, on which machines, by which versions: of lines that do not say it, these.
fn lead(records: &[Record]) -> String {
    let here = Host::here();
    let machine = |record: &Record| {
        let Host { cpu, cores, kernel } = record.host.as_ref().unwrap_or(&here);
        format!("{cpu} ({}), Linux {kernel}", plural(u64::from(*cores), "core"))
    };
    let machines = distinct(records.iter().map(machine));
    let versions = distinct(records.iter().map(|r| r.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"))));
    let mixed = if machines.len() > 1 { ". Figures of different machines do not compare" } else { "" };
    format!(
        "{} steps, {}, on {}, biombo {}{mixed}",
        records.len(),
        date::today(),
        machines.join("; "),
        versions.join(", ")
    )
}

/// What trials of one thing have in common.
fn kind(record: &Record) -> (&str, &str, &str, u32, &str, usize, bool) {
    let Record { layout, media, placement, nodes, bind, threads, why, .. } = record;
    (layout, media, placement, *nodes, bind, *threads, why.is_some())
}

/// What is measured again and again: all trials of it.
pub(super) struct Turns<'a> {
    records: Vec<&'a Record>,
}

impl<'a> Turns<'a> {
    /// Those of `records`, in the order of their first.
    pub(super) fn of(records: &[&'a Record]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for record in records {
            match all.iter_mut().find(|turns| kind(turns.records[0]) == kind(record)) {
                Some(turns) => turns.records.push(record),
                None => all.push(Self { records: vec![record] }),
            }
        }
        all
    }

    pub(super) fn first(&self) -> &'a Record {
        self.records[0]
    }

    pub(super) fn spread(&self, of: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.records.iter().filter_map(|record| of(record)))
    }

    pub(super) fn seconds(&self) -> Spread {
        let alone = Spread { median: 0.0, min: 0.0, max: 0.0, runs: 0 };
        self.spread(|record| Some(record.seconds)).unwrap_or(alone)
    }

    /// As it is called beside others.
    pub(super) fn label(&self, with_media: bool) -> String {
        let first = self.first();
        let threads = format!("{} thread{}", first.threads, if first.threads == 1 { "" } else { "s" });
        let media =
            if with_media || first.pmem.is_some() { format!(" on {}", first.media_text()) } else { String::new() };
        let placed = match first.kernel {
            Some(_) if has_no_nodes(first) => ", without nodes".to_owned(),
            Some(_) if first.nodes > 1 => format!(", {} on {} nodes", placement(first), first.nodes),
            _ => String::new(),
        };
        format!("{}{media}{placed}, {threads}", first.layout)
    }

    fn series<'s>(&self, label: &'s str) -> Series<'s> {
        let colour = Layout::ALL.iter().position(|layout| layout.name() == self.first().layout).unwrap_or(0) % COLOURS;
        Series { label, colour, direct: self.first().threads == 1 }
    }
}

/// Whether its turn was without nodes, among others that had some.
fn has_no_nodes(record: &Record) -> bool {
    Placing::Whole(Whole::NoNodes).has(record)
}

fn placement(record: &Record) -> String {
    if record.why.is_some() { format!("auto: {}", record.placement) } else { record.placement.clone() }
}

fn section(graph: &str, records: &[Record]) -> Value {
    let records: Vec<&Record> = records.iter().filter(|record| record.graph == graph).collect();
    let of = |step: Step| records.iter().copied().filter(move |record| record.step == step).collect::<Vec<_>>();
    let kernels = distinct(records.iter().filter_map(|record| record.kernel.as_deref()));
    let mut plots = Vec::new();
    let mut rows = Vec::new();
    for kernel in kernels {
        let is_its = |record: &&Record| record.kernel.as_deref() == Some(kernel);
        let its: Vec<&Record> = records.iter().copied().filter(is_its).collect();
        let turns = Turns::of(&its);
        let base = base(&turns);
        plots.push(speed_ups(kernel, &turns, base));
        rows.extend(lines(kernel, &turns, base));
    }
    let loads = [Step::Load, Step::Churn, Step::Ingest].map(|step| (step, Turns::of(&of(step))));
    for (step, turns) in &loads {
        let name = step_name(*step);
        if *step == Step::Ingest {
            let rate = |turns: &Turns<'_>| turns.spread(|record| record.edges_per_s);
            plots.extend(plot(
                "Ingest",
                "edges as the file has them, per second",
                "edges per second",
                turns,
                true,
                &rate,
                &count,
            ));
        }
        rows.extend(lines(name, turns, None));
        rows.extend(afterwards("snapshot after ingest", turns, |record| record.snapshot_seconds));
        rows.extend(afterwards("checkpoint after ingest", turns, |record| record.checkpoint_seconds));
    }
    let (_, loaded) = &loads[0];
    let bytes_each = |turns: &Turns<'_>| turns.spread(|record| record.bytes_per_edge);
    let one = |figure: f64| format!("{figure:.2}");
    let is_directed = records.iter().any(|record| record.bytes_per_in_edge.is_some());
    // Threads change nothing about it.
    let fewest = loaded.iter().map(|turns| turns.first().threads).min();
    let loaded: Vec<Turns<'_>> =
        Turns::of(&of(Step::Load)).into_iter().filter(|t| Some(t.first().threads) == fewest).collect();
    plots.extend(plot(
        "Memory",
        if is_directed { "all of it but for in-edges, by stored edges" } else { "all of it, by stored edges" },
        "bytes per stored edge",
        &loaded,
        false,
        &bytes_each,
        &one,
    ));
    let shares: Vec<Value> = Turns::of(&of(Step::Placement)).iter().filter_map(|turns| share(turns.first())).collect();
    let nodes = records.iter().filter_map(|record| record.edges_per_node.as_ref()).map(Vec::len).max().unwrap_or(0);
    let trials = records.iter().map(|record| record.trial).max().unwrap_or(1);
    context! {
        heading => graph,
        setting => records.first().map(|first| setting(first)),
        plots => plots,
        shares => shares,
        keeps => records.iter().any(|record| record.units_moved.is_some()),
        nodes => (0..nodes).collect::<Vec<_>>(),
        spread => if trials > 1 { format!("medians of {trials} repetitions") } else { "one run each".to_owned() },
        rows => Value::from(Serde(rows)),
    }
}

fn setting(first: &Record) -> String {
    let why_not = first.not_done.as_ref().map_or(String::new(), |why| format!(" Not done: {why}."));
    format!(
        "{} vertices, {} stored edges (both directions of an undirected one).{why_not}",
        count(first.vertices as f64),
        count(first.edges as f64)
    )
}

/// The static layout with one thread: what others are compared with. Without it the first.
fn base(turns: &[Turns<'_>]) -> Option<f64> {
    let is_base = |turns: &&Turns<'_>| turns.first().layout == Layout::Csr.name() && turns.first().threads == 1;
    turns.iter().find(is_base).or(turns.first()).map(|turns| turns.seconds().median)
}

fn speed_ups(kernel: &str, turns: &[Turns<'_>], base: Option<f64>) -> Value {
    let labels: Vec<String> = turns.iter().map(|turns| turns.label(false)).collect();
    let bars = turns.iter().zip(&labels).filter_map(|(turns, label)| {
        let (base, seconds) = (base?, turns.seconds());
        let spread = Spread {
            median: base / seconds.median,
            min: base / seconds.max,
            max: base / seconds.min,
            runs: seconds.runs,
        };
        Some((turns.series(label), spread))
    });
    let bars: Vec<_> = bars.collect();
    let first = turns.first().map_or(String::new(), |turns| turns.first().layout.clone());
    let is_csr = turns.iter().any(|turns| turns.first().layout == Layout::Csr.name() && turns.first().threads == 1);
    let by = if is_csr { "csr with 1 thread".to_owned() } else { first };
    context! {
        title => kernel,
        note => format!("how many times as fast as {by}; longer is better"),
        plot => bars_of(&bars, &format!("times as fast as {}", escape(&by)), &|figure| format!("{figure:.2}")),
    }
}

/// A plot of one figure of each; none where there is none.
fn plot(
    title: &str,
    note: &str,
    unit: &str,
    turns: &[Turns<'_>],
    with_media: bool,
    figure: &dyn Fn(&Turns<'_>) -> Option<Spread>,
    text: &dyn Fn(f64) -> String,
) -> Option<Value> {
    let labels: Vec<String> = turns.iter().map(|turns| turns.label(with_media)).collect();
    let bars: Vec<_> =
        turns.iter().zip(&labels).filter_map(|(turns, label)| Some((turns.series(label), figure(turns)?))).collect();
    (!bars.is_empty()).then(|| context! { title => title, note => note, plot => bars_of(&bars, unit, text) })
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::Load => "load",
        Step::Placement => "placement",
        Step::Ingest => "ingest",
        Step::Churn => "churn",
        Step::Kernel => "kernel",
    }
}

/// A line of the table.
#[derive(Serialize)]
struct Line {
    first: bool,
    step: String,
    layout: String,
    media: String,
    placement: String,
    threads: usize,
    time: String,
    spread: String,
    ratio: String,
    rate: String,
    bytes: String,
    stream: String,
    kept: String,
}

fn lines(step: &str, turns: &[Turns<'_>], base: Option<f64>) -> Vec<Line> {
    let line = |(at, turns): (usize, &Turns<'_>)| {
        let (first, seconds) = (turns.first(), turns.seconds());
        let figure = |of: fn(&Record) -> Option<f64>, text: &dyn Fn(f64) -> String| {
            turns.spread(of).map_or(String::new(), |spread| text(spread.median))
        };
        Line {
            first: at == 0,
            step: step.to_owned(),
            layout: first.layout.clone(),
            media: first.media_text(),
            placement: match first.kernel {
                Some(_) if first.nodes > 1 || has_no_nodes(first) => placement(first),
                _ => String::new(),
            },
            threads: first.threads,
            time: time(seconds.median),
            spread: extremes(seconds, turns),
            ratio: base.map_or(String::new(), |base| format!("{:.2}", seconds.median / base)),
            rate: figure(|record| record.edges_per_s, &count),
            bytes: bytes(turns),
            stream: figure(|record| record.stream_per_s, &count),
            kept: kept(turns),
        }
    };
    turns.iter().enumerate().map(line).collect()
}

/// `5.21`; of a directed graph `5.21 + 4.30`: what in-edges take stands apart.
fn bytes(turns: &Turns<'_>) -> String {
    let each = [turns.spread(|record| record.bytes_per_edge), turns.spread(|record| record.bytes_per_in_edge)];
    each.into_iter().flatten().map(|spread| format!("{:.2}", spread.median)).collect::<Vec<_>>().join(" + ")
}

/// `3 + 120`: units that moved, and stretches of memory that were placed, in all turns.
fn kept(turns: &Turns<'_>) -> String {
    let sum = |of: fn(&Record) -> Option<usize>| {
        let of: Vec<usize> = turns.records.iter().filter_map(|record| of(record)).collect();
        (!of.is_empty()).then(|| count(of.iter().map(|of| *of as f64).sum()))
    };
    let each = [sum(|record| record.units_moved), sum(|record| record.stretches_placed)];
    each.into_iter().flatten().collect::<Vec<_>>().join(" + ")
}

fn time(seconds: f64) -> String {
    duration_ns(seconds * 1e9)
}

/// The slowest and the fastest, where there are several.
fn extremes(seconds: Spread, turns: &Turns<'_>) -> String {
    let several = || format!("{} to {}", time(seconds.max), time(seconds.min));
    if turns.records.len() > 1 { several() } else { String::new() }
}

/// Lines of what was timed after a step; none where nothing was.
fn afterwards(what: &str, turns: &[Turns<'_>], seconds: fn(&Record) -> Option<f64>) -> Vec<Line> {
    let its = turns.iter().filter_map(|turns| Some((turns, turns.spread(seconds)?)));
    let line = |(at, (turns, seconds)): (usize, (&Turns<'_>, Spread))| {
        let first = turns.first();
        Line {
            first: at == 0,
            step: what.to_owned(),
            layout: first.layout.clone(),
            media: first.media_text(),
            placement: String::new(),
            threads: first.threads,
            time: time(seconds.median),
            spread: extremes(seconds, turns),
            ratio: String::new(),
            rate: String::new(),
            bytes: String::new(),
            stream: String::new(),
            kept: String::new(),
        }
    };
    its.enumerate().map(line).collect()
}

fn share(record: &Record) -> Option<Value> {
    let edges = record.edges_per_node.as_ref()?;
    let percent = |of: &u64| format!("{:.2} %", 100.0 * *of as f64 / record.edges.max(1) as f64);
    Some(context! { placement => record.placement.as_str(), shares => edges.iter().map(percent).collect::<Vec<_>>() })
}

fn methods(records: &[Record]) -> Vec<String> {
    let mut methods = vec![
        "Every kernel runs over all layouts and placements in turns, trial by trial, so that what the machine does meanwhile meets all alike. Graphs are in \
         memory when it begins, and nothing but the kernel is in its time."
            .to_owned(),
        "Each answer is verified against the definition of what was asked once, and by its hash afterwards: all layouts, placements, threads and \
         trials gave the same one."
            .to_owned(),
        "csr is static. pma is a packed memory array, adjacency a log of edges archived into adjacency blocks, buffered are buffers of vertices over \
         such blocks: these three take edges in and let them go."
            .to_owned(),
        "Breadth-first search and betweenness begin at the vertex with the most out-edges; PageRank does 20 iterations. cc is Afforest, cc-sv is Shiloach \
         and Vishkin's."
            .to_owned(),
        "Bytes per edge are all memory of a layout, logs and buffers included, by stored edges; of a directed graph, what in-edges take stands apart, \
         behind a +."
            .to_owned(),
    ];
    let batches = distinct(records.iter().filter_map(|record| record.batch).map(|batch| count(batch as f64)));
    if !batches.is_empty() {
        methods.push(format!(
            "Ingest: a tenth of the edges is there, the others come from all threads in batches of {}, durable when acknowledged on disk and on pmem. No \
             checkpoint was due meanwhile; what a snapshot and one checkpoint take after it stands apart.",
            batches.join(", ")
        ));
    }
    if records.iter().any(|record| record.stream_per_s.is_some()) {
        methods.push(
            "While a kernel ran over a snapshot of a dynamic layout, another thread deleted edges from the graph and inserted them again.".to_owned(),
        );
    }
    if records.iter().any(|record| record.units_moved.is_some()) {
        methods.push(
            "On several nodes each placement was kept from one snapshot to the next: a node with more than 1.05 times its share of the edges gave units of \
             vertices away, and only memory that lay elsewhere was brought home. The figures are those of all turns together."
                .to_owned(),
        );
    }
    if let Some(behind) = records.iter().filter(|record| record.step == Step::Kernel).find_map(|r| r.pmem.as_ref()) {
        methods.push(format!(
            "Lists of csr on pmem are read where they are kept ({behind}), those of all others in memory."
        ));
    }
    methods
}
