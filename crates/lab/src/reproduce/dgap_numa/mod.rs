//! `dgap-numa`: kernels over graphs that change, on NUMA nodes, beside a static graph.
//!
//! Published: "Optimising graph structures in persistent memory for NUMA architectures" (dissertation, 2025), tables 5.1 to 5.3: BFS,
//! PageRank, connected components and betweenness over DGAP as it is, with halves of the vertices on each of two nodes, and with
//! vertices dealt to the nodes in turn and pinned threads; CSR, GraphOne and XPGraph beside it; edges of each node.
//! Here `pma` stands for DGAP, `adjacency` for GraphOne and `buffered` for XPGraph, which they are built as.
//!
//! What is compared are ratios to CSR in the same run: the machines are not alike.

mod published;

use std::collections::BTreeSet;
use std::path::Path;

use biombo_base::{Error, Result};
use biombo_graph::numa::Placement;
use biombo_graph::team::Bind;

use self::published::{EDGES_BY_HALVES, EDGES_ROUND_ROBIN, ROWS, System, THREADS, row};
use super::{Figure, Finding, Reproduction, Unit, Verdict};
use crate::graph::{Kernel, Layout, Media, NodesPlan, Placing, Plan, Record, Step};
use crate::measure::Host;
use crate::statistics::{Spread, ratio};
use crate::units::{count, duration_ns};

/// What was published.
pub const TITLE: &str = "Optimising graph structures in persistent memory for NUMA architectures (2025)";
const SETUP: &str =
    "2 x Xeon Gold 5317, 256 GB DRAM, 8 x 128 GB Optane 200 in App Direct mode with DAX (two nodes); 10 repetitions";

/// The published graphs, what stands for them, and the name of SNAP's file.
const GRAPHS: [(&str, &str, &str); 2] =
    [("orkut", "orkut-like", "com-orkut.ungraph.txt"), ("livejournal", "livejournal-like", "soc-LiveJournal1.txt")];
const KERNELS: [Kernel; 4] = [Kernel::Pagerank, Kernel::Bc, Kernel::Bfs, Kernel::CcSv];
/// As many as an interval of 95 % needs.
const TRIALS: u32 = 6;
const NODES: usize = 2;

/// The runs: every layout without nodes, then the graph that changes and the static one on two nodes, on both graphs. SNAP's files are
/// taken where `dir` has them; otherwise graphs of their size and density are drawn, or a share of them.
pub fn plans(scale: f64, dir: Option<&Path>) -> Result<Vec<Plan>> {
    if scale > 1.0 {
        return Err(Error::invalid(format!("--scale {scale} is above 1: the graphs have the published size at 1")));
    }
    let mut plans = Vec::new();
    for (_, like, file) in GRAPHS {
        let files = ["", ".gz", ".zst"].map(|end| format!("{file}{end}"));
        let found = dir.and_then(|dir| files.iter().map(|file| dir.join(file)).find(|path| path.is_file()));
        let drawn = if scale < 1.0 { format!("{like}:{scale}") } else { like.to_owned() };
        let plan = Plan {
            graph: found.map_or(drawn, |path| path.display().to_string()),
            layouts: Layout::ALL.to_vec(),
            media: vec![Media::Dram],
            kernels: KERNELS.to_vec(),
            threads: vec![1, THREADS[0] as usize],
            nodes: NodesPlan { nodes: Some(1), ..NodesPlan::default() },
            trials: TRIALS,
            ingest: false,
            churn: 0.0,
            stream: None,
            dir: std::env::temp_dir(),
        };
        let placings = [Placement::Block, Placement::RoundRobin].map(Placing::Fixed).to_vec();
        let nodes = NodesPlan { placings, nodes: Some(NODES), bind: Some(Bind::RoundRobin), ..NodesPlan::default() };
        plans.push(plan.clone());
        plans.push(Plan { layouts: vec![Layout::Csr, Layout::Pma], threads: vec![THREADS[0] as usize], nodes, ..plan });
    }
    Ok(plans)
}

/// What stands for a published system here: a layout, nodes, a placement.
fn stand_in(system: System) -> (Layout, u32, Placement) {
    let plain = NodesPlan::default().placings;
    let any = match plain.first() {
        Some(Placing::Fixed(placement)) => *placement,
        _ => Placement::Block,
    };
    match system {
        System::Csr => (Layout::Csr, 1, any),
        System::Dgap => (Layout::Pma, 1, any),
        System::DgapDm => (Layout::Pma, NODES as u32, Placement::Block),
        System::DgapRr => (Layout::Pma, NODES as u32, Placement::RoundRobin),
        System::GraphOne => (Layout::Adjacency, 1, any),
        System::XpGraph => (Layout::Buffered, 1, any),
    }
}

/// The name of a stand-in.
fn name(system: System) -> String {
    let (layout, nodes, placement) = stand_in(system);
    if nodes == 1 { layout.name().to_owned() } else { format!("{}, {placement}", layout.name()) }
}

/// The runs of one of the graphs.
struct Runs<'a> {
    graph: &'static str,
    records: Vec<&'a Record>,
}

impl<'a> Runs<'a> {
    fn of(records: &'a [Record]) -> Vec<Self> {
        let of = |(graph, like, file): (&'static str, &str, &str)| Self {
            graph,
            records: records
                .iter()
                .filter(|record| record.graph.starts_with(like) || record.graph.contains(file))
                .collect(),
        };
        GRAPHS.map(of).into_iter().filter(|runs| !runs.records.is_empty()).collect()
    }

    /// Seconds of a kernel, trial by trial.
    fn seconds(&self, kernel: &str, threads: u32, (layout, nodes, placement): (Layout, u32, Placement)) -> Vec<f64> {
        let its = self.records.iter().filter(|record| {
            record.kernel == Some(kernel)
                && record.threads == threads as usize
                && (record.layout, record.nodes) == (layout.name(), nodes)
                && record.placement == placement.name()
        });
        its.map(|record| record.seconds).collect()
    }

    /// A system's seconds by those of CSR in the same plan, trial by trial.
    fn by_csr(&self, kernel: &str, threads: u32, system: System) -> Vec<f64> {
        let its = stand_in(system);
        let csr = self.seconds(kernel, threads, (Layout::Csr, its.1, its.2));
        self.seconds(kernel, threads, its).into_iter().zip(csr).map(|(its, csr)| its / csr).collect()
    }

    /// Edges of each node.
    fn edges(&self, placement: Placement) -> Option<&'a [u64]> {
        let mut shown = self.records.iter().filter(|record| record.step == Step::Placement);
        shown.find(|record| record.placement == placement.name())?.edges_per_node.as_deref()
    }
}

/// What came out, beside what was published.
pub fn findings(records: &[Record]) -> Result<Reproduction> {
    let all = Runs::of(records);
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
        differences: differences(virtual_nodes),
        figures: figures(&all),
        curves: Vec::new(),
        findings: vec![
            gains(&all, "cc-sv", 2.3, virtual_nodes),
            gains(&all, "pagerank", 1.25, virtual_nodes),
            no_gain(&all, virtual_nodes),
            balanced(&all),
            slower(&all),
            same_answers(records),
        ],
    })
}

fn figures(all: &[Runs<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for runs in all {
        let load = format!("{}, {} threads", runs.graph, THREADS[0]);
        for kernel in KERNELS.map(Kernel::name) {
            let Some(published) = row(runs.graph, kernel) else { continue };
            let csr = published.seconds(System::Csr);
            let seconds = Spread::of(runs.seconds(kernel, THREADS[0], stand_in(System::Csr)));
            let ns = |s: Spread| Spread { median: s.median * 1e9, min: s.min * 1e9, max: s.max * 1e9 };
            let time = Figure::new(load.clone(), format!("{kernel}, time"), Unit::Ns);
            let time = time.published(System::Csr.name(), Some(csr * 1e9));
            figures.push(time.measured(&name(System::Csr), seconds.map(ns)));
            for system in System::ALL.into_iter().filter(|system| *system != System::Csr) {
                let by = Figure::new(load.clone(), format!("{kernel}, by CSR"), Unit::Ratio);
                let by = by.published(system.name(), Some(published.seconds(system) / csr));
                figures.push(by.measured(&name(system), Spread::of(runs.by_csr(kernel, THREADS[0], system))));
            }
        }
        for (system, placement, published) in [
            (System::DgapDm, Placement::Block, EDGES_BY_HALVES),
            (System::DgapRr, Placement::RoundRobin, EDGES_ROUND_ROBIN),
        ] {
            // Of the other graph it was not published.
            let published = (runs.graph == "orkut").then(|| largest_share(&published));
            let share = Figure::new(runs.graph, "edges of the fuller node, share", Unit::Ratio);
            let here = runs.edges(placement).map(largest_share);
            let spread = here.map(|share| Spread { median: share, min: share, max: share });
            figures.push(share.published(system.name(), published).measured(&name(system), spread));
        }
    }
    figures
}

fn largest_share(edges: &[u64]) -> f64 {
    *edges.iter().max().unwrap_or(&0) as f64 / edges.iter().sum::<u64>().max(1) as f64
}

/// How many times as fast round robin is as the same layout without nodes; by trials of two plans, one after the other.
fn speed_ups(all: &[Runs<'_>], kernel: &str) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let of = |runs: &Runs<'_>| {
        let seconds = |system| runs.seconds(kernel, THREADS[0], stand_in(system));
        let pairs: Vec<_> = seconds(System::Dgap).into_iter().zip(seconds(System::DgapRr)).collect();
        (runs.graph, pairs)
    };
    all.iter().map(of).filter(|(_, pairs)| !pairs.is_empty()).collect()
}

/// `orkut 1.02 [1.00, 1.05]`, for each graph; and the best of them with its bounds.
fn told(ups: &[(&'static str, Vec<(f64, f64)>)]) -> Option<(String, f64, f64, f64)> {
    let ratios: Vec<_> = ups.iter().filter_map(|(graph, pairs)| Some((graph, ratio(pairs)?))).collect();
    let text = |(graph, ratio): &(&&str, crate::statistics::Ratio)| {
        let (low, high) = ratio.interval.unwrap_or((ratio.min, ratio.max));
        format!("{graph} {:.2} [{low:.2}, {high:.2}]", ratio.median)
    };
    let texts: Vec<String> = ratios.iter().map(text).collect();
    let (_, best) = ratios.into_iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let (low, high) = best.interval.unwrap_or((best.min, best.max));
    Some((texts.join(", "), best.median, low, high))
}

fn gains(all: &[Runs<'_>], kernel: &str, published_figure: f64, virtual_nodes: Option<&str>) -> Finding {
    let published = format!(
        "vertices on two nodes in turn, with pinned threads, make {kernel} up to {published_figure} times as fast"
    );
    let Some((text, best, low, high)) = told(&speed_ups(all, kernel)) else {
        return Finding::unknown(published, Some(published_figure));
    };
    let verdict = match virtual_nodes {
        // Nothing is remote here: what could be gained is not there to be gained.
        Some(_) => Verdict::Unknown,
        None if low > 1.0 => Verdict::Holds,
        None if high < 1.0 => Verdict::Refuted,
        None => Verdict::Mixed,
    };
    Finding {
        published,
        published_figure: Some(published_figure),
        measured: format!("{text}{}", virtual_nodes.map_or(String::new(), |why| format!(" ({why})"))),
        measured_figure: Some(best),
        ratio: Some(best / published_figure),
        verdict,
    }
}

fn no_gain(all: &[Runs<'_>], virtual_nodes: Option<&str>) -> Finding {
    let published = "no gain, or a loss, of breadth-first search on the sparse graph".to_owned();
    let sparse: Vec<_> = speed_ups(all, "bfs").into_iter().filter(|(graph, _)| *graph == "livejournal").collect();
    let Some((text, best, low, high)) = told(&sparse) else { return Finding::unknown(published, None) };
    let verdict = match virtual_nodes {
        Some(_) => Verdict::Unknown,
        None if high <= 1.0 => Verdict::Holds,
        None if low > 1.0 => Verdict::Refuted,
        None => Verdict::Mixed,
    };
    Finding { published, published_figure: None, measured: text, measured_figure: Some(best), ratio: None, verdict }
}

fn balanced(all: &[Runs<'_>]) -> Finding {
    let published =
        "halves of the vertices give one node twice as many edges as the other; in turn they are even".to_owned();
    let shares = |placement: Placement| -> Vec<(&str, f64)> {
        all.iter().filter_map(|runs| Some((runs.graph, largest_share(runs.edges(placement)?)))).collect()
    };
    let (halves, turns) = (shares(Placement::Block), shares(Placement::RoundRobin));
    let Some(worst) = turns.iter().map(|(_, share)| *share).reduce(f64::max) else {
        return Finding::unknown(published, None);
    };
    let text = |shares: &[(&str, f64)]| {
        shares.iter().map(|(graph, share)| format!("{:.2} % on {graph}", 100.0 * share)).collect::<Vec<_>>().join(", ")
    };
    let is_uneven = halves.iter().any(|(_, share)| *share > 0.55);
    let verdict = match (worst <= 0.505, is_uneven) {
        (true, true) => Verdict::Holds,
        (false, _) => Verdict::Refuted,
        (true, false) => Verdict::Mixed,
    };
    let drawn = " (numbers of drawn graphs are random, so halves are about even there)";
    Finding {
        published,
        published_figure: Some(largest_share(&EDGES_ROUND_ROBIN)),
        measured: format!(
            "the fuller node has {} by halves{}, and {} in turn",
            text(&halves),
            if is_uneven { "" } else { drawn },
            text(&turns)
        ),
        measured_figure: Some(worst),
        ratio: Some(worst / largest_share(&EDGES_ROUND_ROBIN)),
        verdict,
    }
}

fn slower(all: &[Runs<'_>]) -> Finding {
    let published = ROWS.iter().map(|row| row.seconds(System::Dgap) / row.seconds(System::Csr)).fold(0.0, f64::max);
    let what = format!("a graph that changes costs up to {published:.2} times the static one's time with 2 threads");
    let by = |runs: &Runs<'_>| {
        KERNELS.map(|kernel| {
            let spread = Spread::of(runs.by_csr(kernel.name(), THREADS[0], System::Dgap))?;
            Some((format!("{} on {} {:.2}", kernel.name(), runs.graph, spread.median), spread))
        })
    };
    let by: Vec<(String, Spread)> = all.iter().flat_map(by).flatten().collect();
    let Some(worst) = by.iter().map(|(_, spread)| *spread).max_by(|a, b| a.median.total_cmp(&b.median)) else {
        return Finding::unknown(what, Some(published));
    };
    let verdict = if worst.min > 1.1 {
        Verdict::Holds
    } else if worst.max < published {
        Verdict::Refuted
    } else {
        Verdict::Mixed
    };
    Finding {
        published: what,
        published_figure: Some(published),
        measured: by.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", "),
        measured_figure: Some(worst.median),
        ratio: Some(worst.median / published),
        verdict,
    }
}

fn same_answers(records: &[Record]) -> Finding {
    let published = "DGAP's answers are always the same; those of XPGraph on nodes are not".to_owned();
    let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
    if kernels.is_empty() {
        return Finding::unknown(published, None);
    }
    let of = |record: &Record| (record.graph.clone(), record.kernel, record.answer.clone());
    let answers: BTreeSet<_> = kernels.iter().map(|record| of(record)).collect();
    let asked: BTreeSet<_> = kernels.iter().map(|record| (record.graph.clone(), record.kernel)).collect();
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
        verdict: if answers.len() == asked.len() { Verdict::Holds } else { Verdict::Refuted },
    }
}

fn differences(virtual_nodes: Option<&str>) -> Vec<String> {
    let mut differences = vec![
        "The published machine has two nodes of persistent memory, and 2 to 48 threads; here the figures are those of 2 threads, and the graph is in \
         memory. So what is compared is each system by CSR on the same machine."
            .to_owned(),
        "DGAP, GraphOne and XPGraph are not measured themselves: pma, adjacency and buffered are built as they are. Their published trees were built \
         with their own kernels; here all layouts run the same ones, so what is left of the difference is the layout's."
            .to_owned(),
        "Where SNAP's files are not in --dir, graphs of the same size and density are drawn (R-MAT), or a share of them (--scale); their \
         vertices are numbered at random, and Orkut's are not."
            .to_owned(),
        "Connected components are those of Shiloach and Vishkin, which the published systems have; `biombo bench graph --kernel cc` is Afforest.".to_owned(),
    ];
    differences.extend(virtual_nodes.map(|why| format!("No access is remote on this machine: {why}.")));
    differences
}

#[cfg(test)]
mod tests;
