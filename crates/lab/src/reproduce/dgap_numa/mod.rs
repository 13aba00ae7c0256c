//! `dgap-numa`: kernels over graphs that change, on NUMA nodes, beside a static graph.
//!
//! Published: "Optimising graph structures in persistent memory for NUMA architectures" (dissertation, 2025), tables 5.1 to 5.3: BFS,
//! PageRank, connected components and betweenness over DGAP as it is, with halves of the vertices on each of two nodes, and with
//! vertices dealt to the nodes in turn and pinned threads; CSR, GraphOne and XPGraph beside it; edges of each node.
//! Here `pma` stands for DGAP, `adjacency` for GraphOne and `buffered` for XPGraph, which they are built as.
//!
//! What is compared are ratios to CSR in the same trial: the machines are not alike. CSR is that of the published comparison: without nodes,
//! whatever the system beside it does with them. All systems have their turns in one plan, trial by trial.
//!
//! Shown are intervals of the bootstrap, as published. A conclusion that is drawn from several series is judged by those of the sign test, at a level
//! that leaves all of them together one error in twenty (`Told`).

mod published;

use std::collections::BTreeSet;
use std::path::Path;

use biombo_base::{Error, Result};
use biombo_graph::csr::Shape;
use biombo_graph::numa::Placement;
use biombo_graph::team::Bind;

use self::published::{EDGES_BY_HALVES, EDGES_ROUND_ROBIN, REMOTE, ROWS, System, THREADS, row};
use super::{Figure, Finding, RUNS_MIN, Reproduction, Seen, Unit, Verdict};
use crate::graph::{BATCH, Kernel, Layout, Media, NodesPlan, Placing, Plan, Record, Step, Whole};
use crate::measure::Host;
use crate::statistics::{Ratio, Spread, change_in_pairs, pairs_needed, resampled_ratio};
use crate::units::{count, duration_ns, plural};

/// What was published.
pub const TITLE: &str = "Optimising graph structures in persistent memory for NUMA architectures (2025)";
const SETUP: &str =
    "2 x Xeon Gold 5317, 256 GB DRAM, 8 x 128 GB Optane 200 in App Direct mode with DAX (two nodes); 10 repetitions";

/// The published graphs, what stands for them, and the name of SNAP's file.
const GRAPHS: [(&str, &str, &str); 2] =
    [("orkut", "orkut-like", "com-orkut.ungraph.txt"), ("livejournal", "livejournal-like", "soc-LiveJournal1.txt")];
const KERNELS: [Kernel; 4] = [Kernel::Pagerank, Kernel::Bc, Kernel::Bfs, Kernel::CcSv];
/// So many that up to twelve series can be judged together; ten are the most that there are ([`pairs_needed`]).
const TRIALS: u32 = 9;
const NODES: usize = 2;

/// One plan a graph: every layout without nodes, and the graph that changes on two nodes, by halves, in turn, and with all memory near or far.
/// SNAP's files are taken where `dir` has them; otherwise graphs of their size and density are drawn, or a share of them.
pub fn plans(scale: f64, dir: Option<&Path>) -> Result<Vec<Plan>> {
    if scale > 1.0 {
        return Err(Error::invalid(format!("--scale {scale} is above 1: the graphs have the published size at 1")));
    }
    // One, the fewest that were published, and those of the others that have a processor each.
    let cores = Host::here().cores;
    let more = THREADS.into_iter().filter(|threads| (3..=cores).contains(threads));
    let threads: Vec<usize> = [1, THREADS[0]].into_iter().chain(more).map(|threads| threads as usize).collect();
    let plan = |(_, like, file): (&str, &str, &str)| {
        let files = ["", ".gz", ".zst"].map(|end| format!("{file}{end}"));
        let found = dir.and_then(|dir| files.iter().map(|file| dir.join(file)).find(|path| path.is_file()));
        let drawn = if scale < 1.0 { format!("{like}:{scale}") } else { like.to_owned() };
        Plan {
            graph: found.map_or(drawn, |path| path.display().to_string()),
            // As published: LiveJournal's file is of a directed graph, and its edges were made to lead both ways.
            shape: Some(Shape::GAP),
            layouts: Layout::ALL.to_vec(),
            media: vec![Media::Dram],
            kernels: KERNELS.to_vec(),
            threads: threads.clone(),
            nodes: NodesPlan {
                placings: vec![WITHOUT, HALVES, IN_TURN, LOCAL, REMOTELY],
                nodes: Some(NODES),
                bind: Some(Bind::RoundRobin),
                ..NodesPlan::default()
            },
            dealt: vec![Layout::Pma],
            trials: TRIALS,
            ingest: false,
            batch: BATCH,
            churn: 0.0,
            stream: None,
            dir: std::env::temp_dir(),
        }
    };
    Ok(GRAPHS.map(plan).to_vec())
}

const WITHOUT: Placing = Placing::Whole(Whole::NoNodes);
const HALVES: Placing = Placing::Fixed(Placement::Block);
const IN_TURN: Placing = Placing::Fixed(Placement::RoundRobin);
const LOCAL: Placing = Placing::Whole(Whole::Local);
const REMOTELY: Placing = Placing::Whole(Whole::Remote);

/// What stands for a published system here: a layout, and what becomes of its vertices.
fn stand_in(system: System) -> (Layout, Placing) {
    match system {
        System::Csr => (Layout::Csr, WITHOUT),
        System::Dgap => (Layout::Pma, WITHOUT),
        System::DgapDm => (Layout::Pma, HALVES),
        System::DgapRr => (Layout::Pma, IN_TURN),
        System::GraphOne => (Layout::Adjacency, WITHOUT),
        System::XpGraph => (Layout::Buffered, WITHOUT),
    }
}

/// The name of a stand-in.
fn name(system: System) -> String {
    let (layout, placing) = stand_in(system);
    if placing == WITHOUT { layout.name().to_owned() } else { format!("{}, {}", layout.name(), placing.name()) }
}

/// The runs of one of the graphs.
struct Runs<'a> {
    graph: &'static str,
    records: Vec<&'a Record>,
    seen: &'a Seen<'a, Record>,
    /// Drawn, and not SNAP's.
    is_drawn: bool,
    /// Of the published size: seconds over a share of a graph are not to be held beside those over all of it.
    is_whole: bool,
}

impl<'a> Runs<'a> {
    fn of(records: &'a [Record], seen: &'a Seen<'a, Record>) -> Vec<Self> {
        let of = |(graph, like, file): (&'static str, &str, &str)| {
            let is_its = |record: &&Record| record.graph.starts_with(like) || record.graph.contains(file);
            let records: Vec<&Record> = records.iter().filter(is_its).collect();
            let is_drawn = records.iter().any(|record| record.graph.starts_with(like));
            let is_whole = records.iter().all(|record| record.graph == like || record.graph.contains(file));
            Self { graph, records, seen, is_drawn, is_whole }
        };
        GRAPHS.map(of).into_iter().filter(|runs| !runs.records.is_empty()).collect()
    }

    /// The numbers of threads of its runs, ascending.
    fn threads(&self) -> Vec<u32> {
        let kernels = self.records.iter().filter(|record| record.step == Step::Kernel);
        kernels.map(|record| record.threads as u32).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Seconds of a kernel, trial by trial.
    fn seconds(&self, kernel: &str, threads: u32, (layout, placing): (Layout, Placing)) -> Vec<f64> {
        let its = self.records.iter().filter(|record| {
            record.kernel.as_deref() == Some(kernel)
                && record.threads == threads as usize
                && record.layout == layout.name()
                && placing.has(record)
        });
        its.inspect(|record| self.seen.saw(record)).map(|record| record.seconds).collect()
    }

    /// Seconds of one and of the other, trial by trial.
    fn pairs(&self, kernel: &str, threads: u32, of: (Layout, Placing), by: (Layout, Placing)) -> Vec<(f64, f64)> {
        let by = self.seconds(kernel, threads, by);
        self.seconds(kernel, threads, of).into_iter().zip(by).collect()
    }

    /// Those of a system, and those of CSR without nodes, whatever nodes the system has.
    fn by_csr(&self, kernel: &str, threads: u32, system: System) -> Vec<(f64, f64)> {
        self.pairs(kernel, threads, stand_in(system), stand_in(System::Csr))
    }

    /// With all memory far, and with all of it near.
    fn remote(&self, kernel: &str, threads: u32) -> Vec<(f64, f64)> {
        self.pairs(kernel, threads, (Layout::Pma, REMOTELY), (Layout::Pma, LOCAL))
    }

    /// Edges of each node.
    fn edges(&self, placement: Placement) -> Option<&'a [u64]> {
        let mut shown = self.records.iter().filter(|record| record.step == Step::Placement);
        let found = shown.find(|record| record.placement == placement.name())?;
        self.seen.saw(found);
        found.edges_per_node.as_deref()
    }
}

/// What came out, beside what was published.
pub fn findings(records: &[Record]) -> Result<Reproduction> {
    let seen = Seen::of(records);
    let all = Runs::of(records, &seen);
    let virtual_nodes = records.iter().find_map(|record| record.not_done.as_deref());
    let host = Host::here();
    let graphs: BTreeSet<String> = records
        .iter()
        .map(|r| format!("{} ({} vertices, {} stored edges)", r.graph, count(r.vertices as f64), count(r.edges as f64)))
        .collect();
    let graphs: Vec<String> = graphs.into_iter().collect();
    Ok(Reproduction {
        name: "dgap-numa",
        title: TITLE,
        setup_then: SETUP,
        setup_now: format!(
            "{} ({} cores), Linux {}; {}; graphs in memory, {TRIALS} repetitions in turns",
            host.cpu,
            host.cores,
            host.kernel,
            if graphs.is_empty() { "no run was done".to_owned() } else { graphs.join(", ") }
        ),
        differences: differences(&all, virtual_nodes),
        figures: figures(&all),
        curves: Vec::new(),
        findings: vec![
            seen.finding(|| gains(&all, "cc-sv", 2.3, virtual_nodes)),
            seen.finding(|| gains(&all, "pagerank", 1.25, virtual_nodes)),
            seen.finding(|| no_gain(&all, virtual_nodes)),
            seen.finding(|| balanced(&all)),
            seen.finding(|| slower(&all)),
            seen.finding(|| remote(&all, virtual_nodes)),
            seen.finding(|| same_answers(records, &seen)),
            Finding::unknown("XPGraph's answers on nodes are not always the same".to_owned(), None),
        ],
    })
}

/// `orkut, 2 threads`.
fn load(graph: &str, threads: u32) -> String {
    format!("{graph}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

fn figures(all: &[Runs<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for runs in all {
        for threads in runs.threads() {
            let load = load(runs.graph, threads);
            for kernel in KERNELS.map(Kernel::name) {
                let Some(published) = row(runs.graph, kernel) else { continue };
                let ns = || -> Vec<(f64, f64)> {
                    let csr = runs.seconds(kernel, threads, stand_in(System::Csr));
                    csr.into_iter().map(|seconds| (seconds * 1e9, 1.0)).collect()
                };
                let time = Figure::new(load.clone(), format!("{kernel}, time"), Unit::Ns);
                let seconds = published.seconds(System::Csr, threads).filter(|_| runs.is_whole);
                let time = time.published(System::Csr.name(), seconds.map(|seconds| seconds * 1e9));
                figures.push(runs.seen.figure(|| time.measured_in_pairs(&name(System::Csr), &ns())));
                for system in System::ALL.into_iter().filter(|system| *system != System::Csr) {
                    let by = Figure::new(load.clone(), format!("{kernel}, by CSR"), Unit::Ratio);
                    let by = by.published(system.name(), published.by_csr(system, threads));
                    let pairs = || runs.by_csr(kernel, threads, system);
                    figures.push(runs.seen.figure(|| by.measured_in_pairs(&name(system), &pairs())));
                }
                // Published is the largest of them alone: it stands with the conclusions.
                let far = Figure::new(load.clone(), format!("{kernel}, remote by local"), Unit::Ratio);
                let far = far.published(System::Dgap.name(), None);
                let pairs = || runs.remote(kernel, threads);
                figures.push(runs.seen.figure(|| far.measured_in_pairs(&name(System::Dgap), &pairs())));
            }
        }
        for (system, placement, published) in [
            (System::DgapDm, Placement::Block, EDGES_BY_HALVES),
            (System::DgapRr, Placement::RoundRobin, EDGES_ROUND_ROBIN),
        ] {
            // Of the other graph it was not published.
            let published = (runs.graph == "orkut").then(|| largest_share(&published));
            let share = Figure::new(runs.graph, "edges of the fuller node, share", Unit::Ratio);
            let spread = || {
                let share = runs.edges(placement).map(largest_share)?;
                Some(Spread { median: share, min: share, max: share, runs: 1 })
            };
            let share = share.published(system.name(), published);
            figures.push(runs.seen.figure(|| share.measured(&name(system), spread())));
        }
    }
    figures
}

fn largest_share(edges: &[u64]) -> f64 {
    *edges.iter().max().unwrap_or(&0) as f64 / edges.iter().sum::<u64>().max(1) as f64
}

/// What was measured in pairs, under its name.
type Named = (String, Vec<(f64, f64)>);

/// How many times as fast round robin is as the same layout without nodes, with the published numbers of threads.
fn speed_ups<'r, 's: 'r>(all: impl IntoIterator<Item = &'r Runs<'s>>, kernel: &str) -> Vec<Named> {
    let mut ups = Vec::new();
    for runs in all {
        for threads in runs.threads().into_iter().filter(|threads| THREADS.contains(threads)) {
            let pairs = runs.pairs(kernel, threads, stand_in(System::Dgap), stand_in(System::DgapRr));
            ups.push((load(runs.graph, threads), pairs));
        }
    }
    ups
}

/// What is less than that is no gain.
const GAIN: f64 = 1.05;

/// What several series say together.
struct Told {
    /// `orkut, 2 threads 1.02 [1.00, 1.05]`, for each, with its interval of 95 % by the bootstrap; and at which level they are judged.
    text: String,
    /// The largest median.
    most: f64,
    /// Of each the interval of the sign test, at a level that leaves all of them together one error in twenty; `None` where one has too few pairs
    /// for it. Of eight series without any difference, one has an interval of 95 % beyond 1 in a fifth of all tries and more.
    intervals: Option<Vec<(f64, f64)>>,
}

impl Told {
    /// Of the series that have pairs; `None` where none has.
    fn of(named: &[Named]) -> Option<Self> {
        let ratios: Vec<(&Named, Ratio)> =
            named.iter().filter_map(|series| Some((series, resampled_ratio(&series.1)?))).collect();
        let most = ratios.iter().map(|(_, ratio)| ratio.median).reduce(f64::max)?;
        let text = |(series, ratio): &(&Named, Ratio)| {
            let (name, (low, high)) = (&series.0, ratio.interval.unwrap_or((ratio.min, ratio.max)));
            match ratio.pairs {
                few @ ..RUNS_MIN => format!("{name} {:.2} [{}, too few]", ratio.median, plural(few as u64, "pair")),
                _ => format!("{name} {:.2} [{low:.2}, {high:.2}]", ratio.median),
            }
        };
        let texts: Vec<String> = ratios.iter().map(text).collect();
        let level = 1.0 - 0.05 / ratios.len() as f64;
        let interval = |(series, _): &(&Named, Ratio)| change_in_pairs(&series.1, level)?.interval;
        let intervals: Option<Vec<(f64, f64)>> = ratios.iter().map(interval).collect();
        let judged = match intervals {
            Some(_) => format!("judged at {:.1} %", 100.0 * level),
            None => format!("to judge {} series at once takes {} pairs of each", ratios.len(), pairs_needed(level)),
        };
        Some(Self { text: format!("{}; {judged}", texts.join("; ")), most, intervals })
    }

    /// Whether some series lies above `bound` beyond doubt; it does not hold where all lie below `least` beyond doubt.
    fn passes(&self, bound: f64, least: f64) -> Verdict {
        let Some(intervals) = &self.intervals else { return Verdict::Mixed };
        if intervals.iter().any(|(low, _)| *low > bound) {
            Verdict::Holds
        } else if intervals.iter().all(|(_, high)| *high < least) {
            Verdict::Refuted
        } else {
            Verdict::Mixed
        }
    }

    /// Whether there is a gain; there is none where all series exclude one of a twentieth.
    fn gains(&self) -> Verdict {
        self.passes(1.0, GAIN)
    }
}

/// A verdict about what two nodes do. Where nothing is remote there is none: what could be gained is not there to be gained.
fn on_nodes(virtual_nodes: Option<&str>, verdict: Verdict) -> Verdict {
    if virtual_nodes.is_some() { Verdict::Unknown } else { verdict }
}

fn gains(all: &[Runs<'_>], kernel: &str, published_figure: f64, virtual_nodes: Option<&str>) -> Finding {
    let published = format!(
        "vertices on two nodes in turn, with pinned threads, make {kernel} faster (up to {published_figure} times as fast then)"
    );
    let Some(found) = Told::of(&speed_ups(all, kernel)) else {
        return Finding::unknown(published, Some(published_figure));
    };
    Finding {
        published,
        published_figure: Some(published_figure),
        measured: format!("{}{}", found.text, virtual_nodes.map_or(String::new(), |why| format!(" ({why})"))),
        measured_figure: Some(found.most),
        ratio: virtual_nodes.is_none().then_some(found.most / published_figure),
        lines: Vec::new(),
        is_published: true,
        verdict: on_nodes(virtual_nodes, found.gains()),
    }
}

fn no_gain(all: &[Runs<'_>], virtual_nodes: Option<&str>) -> Finding {
    let published = "no gain, or a loss, of breadth-first search on the sparse graph".to_owned();
    let sparse = all.iter().filter(|runs| runs.graph == "livejournal");
    let Some(found) = Told::of(&speed_ups(sparse, "bfs")) else {
        return Finding::unknown(published, None);
    };
    Finding {
        published,
        published_figure: None,
        verdict: on_nodes(virtual_nodes, found.gains().opposite()),
        measured: found.text,
        measured_figure: Some(found.most),
        ratio: None,
        lines: Vec::new(),
        is_published: true,
    }
}

/// The graph whose edges of each node were published.
const SHARED: &str = "orkut";
/// The largest share of the edges that is even, and the smallest that is twice the other: 1.86 times as many. Published are 67.5 %.
const EVEN: f64 = 0.505;
const TWICE: f64 = 0.65;

/// What the larger share of the edges says: of halves of the vertices, and of vertices in turn.
fn shares(halves: f64, in_turn: f64, is_drawn: bool) -> Verdict {
    match (in_turn <= EVEN, halves >= TWICE) {
        (true, true) => Verdict::Holds,
        // It is not the graph that was published: its vertices have no order that halves could divide.
        (true, false) if is_drawn => Verdict::Mixed,
        _ => Verdict::Refuted,
    }
}

fn balanced(all: &[Runs<'_>]) -> Finding {
    let published = format!(
        "{SHARED}: halves of the vertices give one node twice as many edges as the other; in turn they are even"
    );
    let figure = largest_share(&EDGES_ROUND_ROBIN);
    let of = |placement: Placement| {
        let its = all.iter().find(|runs| runs.graph == SHARED)?;
        Some((largest_share(its.edges(placement)?), its.is_drawn))
    };
    let (Some((halves, is_drawn)), Some((in_turn, _))) = (of(Placement::Block), of(Placement::RoundRobin)) else {
        return Finding::unknown(published, Some(figure));
    };
    let drawn = " (the graph is drawn: numbers of its vertices are random, so halves are about even)";
    Finding {
        published,
        published_figure: Some(figure),
        measured: format!(
            "the fuller node has {:.2} % by halves{}, and {:.2} % in turn",
            100.0 * halves,
            if is_drawn { drawn } else { "" },
            100.0 * in_turn
        ),
        measured_figure: Some(in_turn),
        ratio: Some(in_turn / figure),
        lines: Vec::new(),
        is_published: true,
        verdict: shares(halves, in_turn, is_drawn),
    }
}

/// What the slowest kernel costs. It is a reading of the figures, and no conclusion that somebody published: betweenness took less time then.
fn slower(all: &[Runs<'_>]) -> Finding {
    let then = ROWS.iter().filter_map(|row| row.by_csr(System::Dgap, THREADS[0])).fold(0.0, f64::max);
    let what = format!(
        "not published: of all kernels, the one that a graph that changes slows most takes a tenth more than over a static one, with 2 \
         threads (by the figures, {then:.2} times its time then)"
    );
    let by = |runs: &Runs<'_>| {
        let of = |kernel: &'static str| {
            (format!("{kernel} on {}", runs.graph), runs.by_csr(kernel, THREADS[0], System::Dgap))
        };
        KERNELS.map(Kernel::name).map(of)
    };
    let by: Vec<Named> = all.iter().flat_map(by).collect();
    let found = Told::of(&by);
    Finding {
        published: what,
        published_figure: Some(then),
        measured_figure: found.as_ref().map(|found| found.most),
        ratio: found.as_ref().map(|found| found.most / then),
        lines: Vec::new(),
        is_published: false,
        verdict: found.as_ref().map_or(Verdict::Unknown, |found| found.passes(1.1, 1.1)),
        measured: found.map_or("no figures".to_owned(), |found| found.text),
    }
}

fn remote(all: &[Runs<'_>], virtual_nodes: Option<&str>) -> Finding {
    let published = format!("PageRank takes longer when every access is remote (up to {REMOTE} times as long then)");
    let of = |runs: &Runs<'_>| {
        let far = |threads: u32| (load(runs.graph, threads), runs.remote(Kernel::Pagerank.name(), threads));
        runs.threads().into_iter().map(far).collect::<Vec<Named>>()
    };
    let far: Vec<Named> = all.iter().flat_map(of).collect();
    let Some(found) = Told::of(&far) else { return Finding::unknown(published, Some(REMOTE)) };
    let why = virtual_nodes.map_or(String::new(), |why| format!(" ({why})"));
    Finding {
        published,
        published_figure: Some(REMOTE),
        measured: format!("remote by local: {}{why}", found.text),
        measured_figure: Some(found.most),
        ratio: virtual_nodes.is_none().then_some(found.most / REMOTE),
        lines: Vec::new(),
        is_published: true,
        verdict: on_nodes(virtual_nodes, found.gains()),
    }
}

fn same_answers(records: &[Record], seen: &Seen<'_, Record>) -> Finding {
    let published = "DGAP's answers are always the same".to_owned();
    let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
    if kernels.is_empty() {
        return Finding::unknown(published, None);
    }
    kernels.iter().for_each(|record| seen.saw(record));
    let of = |record: &Record| (record.graph.clone(), record.kernel.clone(), record.answer.clone());
    let answers: BTreeSet<_> = kernels.iter().map(|record| of(record)).collect();
    let asked: BTreeSet<_> = kernels.iter().map(|record| (record.graph.clone(), record.kernel.clone())).collect();
    let longest = kernels.iter().map(|record| record.seconds).fold(0.0, f64::max);
    Finding {
        published,
        published_figure: None,
        measured: format!(
            "{} runs gave {} answers to {} questions, over all layouts, placements and threads; each was verified, the longest took {}",
            kernels.len(),
            answers.len(),
            asked.len(),
            duration_ns(longest * 1e9)
        ),
        measured_figure: None,
        ratio: None,
        lines: Vec::new(),
        is_published: true,
        verdict: if answers.len() == asked.len() { Verdict::Holds } else { Verdict::Refuted },
    }
}

fn differences(all: &[Runs<'_>], virtual_nodes: Option<&str>) -> Vec<String> {
    let threads: BTreeSet<u32> = all.iter().flat_map(Runs::threads).collect();
    let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
    let mut differences = vec![
        format!(
            "The published machine has two nodes of persistent memory, and 2 to 48 threads; here the graph is in memory, and the figures are those of {} \
             threads. So what is compared is each system by CSR on the same machine, in the same trial. CSR and systems without nodes have their lists on \
             the first node, and threads where the system lets them.",
            if threads.is_empty() { "no".to_owned() } else { threads.join(", ") }
        ),
        "DGAP, GraphOne and XPGraph are not measured themselves: pma, adjacency and buffered are built as they are. Their published trees were built \
         with their own kernels; here all layouts run the same ones, so what is left of the difference is the layout's."
            .to_owned(),
        "Where SNAP's files are not in --dir, graphs of the same size and density are drawn (R-MAT), or a share of them (--scale); their \
         vertices are numbered at random, and Orkut's are not."
            .to_owned(),
        "Where a share of a graph is drawn, the seconds of CSR stand beside no published ones: those are of all of it, and its ratios to other \
         systems alone can be compared."
            .to_owned(),
        "What is shown in brackets are 95 % intervals of 5,000 bootstrap resamples, as published. A conclusion that is drawn from several \
         series, such as one of each graph and number of threads, is judged by intervals of the sign test that hold for all of them at once, \
         which are wider; less than a twentieth is no gain."
            .to_owned(),
        "Connected components are those of Shiloach and Vishkin, which the published systems have; `biombo bench graph --kernel cc` is Afforest.".to_owned(),
    ];
    differences.extend(virtual_nodes.map(|why| format!("No access is remote on this machine: {why}.")));
    differences
}

#[cfg(test)]
mod tests;
