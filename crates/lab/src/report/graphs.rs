//! The page of graphs: how many times as fast as the static layout with one thread each kernel is, ingest, and bytes per edge.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::again::reproduced;
use super::context::{COLOURS, distinct};
use super::graph_findings::findings;
use super::plots::{Series, bars_of};
use super::{date, escape};
use crate::graph::{Layout, Placing, Record, Setting, Step, Whole};
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
fn kind(record: &Record) -> (&str, &str, &str, u32, &str, usize, bool, Setting<'_>) {
    let Record { layout, media, placement, nodes, bind, threads, why, .. } = record;
    (layout, media, placement, *nodes, bind, *threads, why.is_some(), Setting::of(record))
}

/// What is measured again and again: all trials of it.
pub(super) struct Turns<'a> {
    records: Vec<&'a Record>,
    /// The settings in which others of its layout differ.
    apart: String,
}

impl<'a> Turns<'a> {
    /// Those of `records`, in the order of their first.
    pub(super) fn of(records: &[&'a Record]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for record in records {
            match all.iter_mut().find(|turns| kind(turns.records[0]) == kind(record)) {
                Some(turns) => turns.records.push(record),
                None => all.push(Self { records: vec![record], apart: String::new() }),
            }
        }
        let firsts: Vec<&Record> = all.iter().map(Self::first).collect();
        for turns in &mut all {
            let first = turns.first();
            let others = firsts.iter().filter(|other| other.layout == first.layout);
            turns.apart = Setting::of(first).apart_from(others.map(|other| Setting::of(other)));
        }
        all
    }

    /// The settings in which others of its layout differ, each behind a comma.
    pub(super) fn apart(&self) -> &str {
        &self.apart
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
        format!("{}{media}{placed}{}, {threads}", first.layout, self.apart)
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
    let mut runs: Vec<usize> = Vec::new();
    for kernel in kernels {
        let is_its = |record: &&Record| record.kernel.as_deref() == Some(kernel);
        let its: Vec<&Record> = records.iter().copied().filter(is_its).collect();
        let turns = Turns::of(&its);
        let base = base(&turns);
        plots.push(speed_ups(kernel, &turns, base));
        rows.extend(lines(kernel, &turns, base));
        runs.extend(turns.iter().map(|turns| turns.records.len()));
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
    // Nor about these.
    let shares: Vec<Value> = distinct(of(Step::Placement).into_iter().filter_map(share))
        .into_iter()
        .map(|(placement, shares)| context! { placement => placement, shares => shares })
        .collect();
    let nodes = records.iter().filter_map(|record| record.edges_per_node.as_ref()).map(Vec::len).max().unwrap_or(0);
    context! {
        heading => graph,
        setting => records.first().map(|first| setting(first)),
        plots => plots,
        shares => shares,
        keeps => records.iter().any(|record| record.units_moved.is_some()),
        nodes => (0..nodes).collect::<Vec<_>>(),
        spread => repetitions(&runs),
        rows => Value::from(Serde(rows)),
    }
}

/// How often each turn of a kernel was done, by their `runs`.
fn repetitions(runs: &[usize]) -> String {
    match (runs.iter().min(), runs.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("medians of {least} to {most} repetitions"),
        (Some(all), _) if *all > 1 => format!("medians of {all} repetitions"),
        _ => "one run each".to_owned(),
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
            layout: format!("{}{}", first.layout, turns.apart),
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
            layout: format!("{}{}", first.layout, turns.apart),
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

/// A placement, and what each node has of the edges.
fn share(record: &Record) -> Option<(&str, Vec<String>)> {
    let edges = record.edges_per_node.as_ref()?;
    let percent = |of: &u64| format!("{:.2} %", 100.0 * *of as f64 / record.edges.max(1) as f64);
    Some((&record.placement, edges.iter().map(percent).collect()))
}

/// What is to be said of the answers, as far as the records tell it; nothing where no kernel was run.
fn answers(records: &[Record]) -> Option<String> {
    let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
    let untold = kernels.iter().filter(|record| record.verified != Some(true) || record.answer.is_none()).count();
    if untold > 0 {
        return Some(format!("Of {} answers {untold} are not said to be right.", kernels.len()));
    }
    let question = |record: &&Record| (record.kernel.clone().unwrap_or_default(), record.graph.clone());
    let has_several = |asked: &(String, String)| {
        let its = kernels.iter().filter(|record| question(record) == *asked);
        distinct(its.map(|record| record.answer.as_deref())).len() > 1
    };
    let questions = distinct(kernels.iter().map(question));
    let open: Vec<String> =
        questions.into_iter().filter(has_several).map(|(kernel, graph)| format!("{kernel} over {graph}")).collect();
    let how = "Each answer is verified against the definition of what was asked once, and by its hash afterwards";
    (!kernels.is_empty()).then(|| match open.as_slice() {
        [] => format!("{how}: all layouts, placements, threads and trials gave the same one."),
        _ => format!(
            "{how}, of each run by itself. Not all that is shown here gave the same one: the answers of {} differ, so these times do \
             not compare.",
            open.join(", ")
        ),
    })
}

fn methods(records: &[Record]) -> Vec<String> {
    let mut methods = vec![
        "Every kernel runs over all layouts and placements in turns, trial by trial, so that what the machine does meanwhile meets all alike. Graphs are in \
         memory when it begins, and nothing but the kernel is in its time."
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
    methods.extend(answers(records));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::trial;

    /// Two files of three trials each, of which the second one's are done otherwise by `change`.
    fn two_files(change: impl Fn(&mut Record)) -> Vec<Record> {
        let trials =
            (1..=3u32).map(|number| trial(|record| (record.trial, record.seconds) = (number, f64::from(number))));
        let first: Vec<Record> = trials.collect();
        let mut second = first.clone();
        second.iter_mut().for_each(change);
        [first, second].concat()
    }

    /// Fails if trials of other settings fall into one median, or if nothing says what their settings are.
    #[test]
    fn trials_of_other_settings_are_turns_of_their_own_and_say_so() {
        let labels = |change: &dyn Fn(&mut Record)| -> Vec<String> {
            let records = two_files(change);
            Turns::of(&records.iter().collect::<Vec<_>>()).iter().map(|turns| turns.label(false)).collect()
        };
        assert_eq!(labels(&|record| record.seconds *= 2.0), ["pma, 1 thread"]);
        let streamed = labels(&|record| (record.stream, record.stream_per_s) = (Some(1_000), Some(990.0)));
        assert_eq!(streamed, ["pma, no stream, 1 thread", "pma, stream of 1000/s, 1 thread"]);
        let churned = labels(&|record| record.churn = Some(0.1));
        assert_eq!(churned, ["pma, no churn, 1 thread", "pma, churn 0.1, 1 thread"]);
        let laid = labels(&|record| record.allocation = "interleave".to_owned());
        assert_eq!(laid, ["pma, allocation bind, 1 thread", "pma, allocation interleave, 1 thread"]);
        let ingested = labels(&|record| (record.step, record.batch) = (Step::Ingest, Some(1)));
        assert_eq!(ingested, ["pma, no batches, 1 thread", "pma, batches of 1, 1 thread"]);
    }

    /// Fails if the number of a trial is taken for how many there are: two files of three trials have six of them.
    #[test]
    fn repetitions_are_those_of_the_turns_that_are_shown() {
        let page = |records: &[Record]| crate::report::graphs(records, None).unwrap();
        let same = page(&two_files(|_| {}));
        assert!(same.contains("medians of 6 repetitions"), "{same}");
        let streamed = two_files(|record| record.stream_per_s = Some(990.0));
        assert!(page(&streamed).contains("medians of 3 repetitions"));
        assert!(page(&streamed[..5]).contains("medians of 2 to 3 repetitions"));
        assert!(page(&streamed[2..3]).contains("one run each"), "the third trial alone is one");
    }

    /// Fails if a page says of answers that they were the same without looking at them.
    #[test]
    fn answers_are_said_to_be_the_same_where_they_are() {
        let same = "trials gave the same one";
        assert!(answers(&two_files(|_| {})).is_some_and(|said| said.contains(same)));
        let other = answers(&two_files(|record| record.answer = Some("xxh3:01".to_owned()))).unwrap();
        assert!(!other.contains(same) && other.contains("the answers of cc over kron:4:4 differ"), "{other}");
        // Another question has another answer.
        let asked = two_files(|record| (record.kernel, record.answer) = (Some("bfs".to_owned()), Some("x".to_owned())));
        assert!(answers(&asked).is_some_and(|said| said.contains(same)));
        let untold = answers(&two_files(|record| record.verified = None)).unwrap();
        assert_eq!(untold, "Of 6 answers 3 are not said to be right.");
        assert_eq!(answers(&[trial(|record| record.step = Step::Load)]), None);
        assert!(
            methods(&two_files(|record| record.answer = Some("x".to_owned()))).iter().all(|said| !said.contains(same))
        );
    }
}
