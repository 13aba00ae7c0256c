//! Graphs measured: layouts side by side, on the same edges, in the same run.
//!
//! A [`Plan`] says what; [`run`] does it and hands out a [`Record`] for each step:
//!
//! - `load`: the layout is made of all edges in memory;
//! - `ingest`: the dynamic layout is made of a tenth of the edges, the others come in batches from all threads;
//! - `churn`: a share of the edges is deleted, and inserted again in another order, both in batches from all threads;
//! - `kernel`: a kernel over a layout, the layouts in turns, trial by trial, so that what the machine does meanwhile meets all alike.
//!
//! Each answer is verified against the definition of what was asked once, and by its hash afterwards: all layouts, threads and trials have to
//! give the same one.

mod kernel;
mod record;
mod stream;

use std::path::PathBuf;
use std::time::Instant;

use biombo_base::{Error, Result};
use biombo_graph::Edge;
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::edges::EdgeList;
use biombo_graph::generate::Synthetic;
use biombo_graph::ids::Ids;
use biombo_graph::pma::{Pma, Snapshot, Update};
use biombo_graph::team::Team;
use biombo_graph::view::View;

pub use kernel::Kernel;
use kernel::{Answer, Answers};
pub use record::{Record, Step};
use stream::{apply, shuffle};

/// A layout that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Static.
    Csr,
    /// Dynamic.
    Pma,
}

impl Layout {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::Pma => "pma",
        }
    }
}

/// Where a graph that takes edges in is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// In memory only.
    Dram,
    /// Each batch is durable in the journal when it is acknowledged.
    Disk,
    /// Each batch is durable in persistent memory, or what plays it, when it is acknowledged.
    Pmem,
}

impl Media {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Disk => "disk",
            Self::Pmem => "pmem",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `kron:SCALE:DEGREE`, `uniform:SCALE:DEGREE` or a file of edges.
    pub graph: String,
    /// The layouts whose kernels are run in turns.
    pub layouts: Vec<Layout>,
    /// Where graphs are kept that take edges in.
    pub media: Vec<Media>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Threads, one number after the other.
    pub threads: Vec<usize>,
    /// How often each kernel is run over each layout.
    pub trials: u32,
    /// Whether ingest is measured.
    pub ingest: bool,
    /// The share of the edges that is deleted and inserted again before the kernels run over the dynamic layout.
    pub churn: f64,
    /// Where graphs on disk are made, each in a directory of its own that is removed afterwards.
    pub dir: PathBuf,
}

/// The edges of a graph.
struct Edges {
    edges: Vec<Edge>,
    ids: Ids,
    shape: Shape,
    /// Drawn, not read: their order means nothing.
    is_synthetic: bool,
}

impl Edges {
    fn of(graph: &str, team: &mut Team) -> Result<Self> {
        let is_synthetic = ["kron:", "uniform:"].iter().any(|model| graph.starts_with(model));
        if !is_synthetic {
            let EdgeList { ids, edges, is_directed } = EdgeList::read(&[graph])?;
            let shape = if is_directed.unwrap_or(true) { Shape::DIRECTED } else { Shape::UNDIRECTED };
            return Ok(Self { edges, ids, shape, is_synthetic });
        }
        let synthetic: Synthetic = graph.parse()?;
        let mut edges = synthetic.draw(team)?.to_vec();
        shuffle(&mut edges);
        Ok(Self { edges, ids: Ids::dense(synthetic.vertices()), shape: Shape::GAP, is_synthetic })
    }
}

/// Measure; each record is handed out when it is there.
///
/// # Errors
/// Those of reading and building; `Invalid` for a plan that cannot be; `Corruption` when an answer is wrong; those of `each`.
pub fn run(plan: &Plan, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
    let is_sound = plan.trials > 0 && (0.0..=1.0).contains(&plan.churn) && !plan.threads.is_empty();
    if !is_sound || plan.layouts.is_empty() {
        return Err(Error::invalid("a bench of graphs has layouts, threads, trials and a churn from 0 to 1"));
    }
    let mut answers = Answers::default();
    let edges = Edges::of(&plan.graph, &mut Team::new(plan.threads[0])?)?;
    for threads in &plan.threads {
        Bench { plan, edges: &edges, threads: *threads, team: Team::new(*threads)? }.run(&mut answers, each)?;
    }
    Ok(())
}

/// A run with one number of threads.
struct Bench<'p> {
    plan: &'p Plan,
    edges: &'p Edges,
    threads: usize,
    team: Team,
}

/// A layout with a graph in it.
enum Loaded {
    Csr(Csr),
    Pma(Snapshot),
}

impl Bench<'_> {
    fn run(&mut self, answers: &mut Answers, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
        let Edges { edges, ids, shape, .. } = self.edges;
        let begun = Instant::now();
        let csr = Csr::build(ids.len(), edges, *shape, &mut self.team)?;
        let built = begun.elapsed().as_secs_f64();
        let stored = csr.edges();
        let record = |bench: &Self, layout: Layout, media: Media, step: Step, seconds: f64| Record {
            bench: "graph",
            graph: bench.plan.graph.clone(),
            vertices: ids.len() as u64,
            edges: stored,
            layout: layout.name(),
            media: media.name(),
            nodes: 1,
            threads: bench.threads,
            step,
            kernel: None,
            trial: 1,
            seconds,
            answer: None,
            verified: None,
            edges_per_s: None,
            bytes_per_edge: None,
        };
        if self.plan.ingest && self.plan.layouts.contains(&Layout::Pma) {
            for media in &self.plan.media {
                let streamed = edges.len() - edges.len() / 10;
                let (seconds, bytes, made) =
                    stream::ingest(self.plan, *media, edges, ids, *shape, self.threads, &mut self.team)?;
                each(&Record {
                    edges_per_s: Some(streamed as f64 / seconds),
                    bytes_per_edge: per_edge(bytes, made),
                    verified: Some(made == stored),
                    ..record(self, Layout::Pma, *media, Step::Ingest, seconds)
                })?;
                if made != stored {
                    return Err(wrong(format!("ingest made {made} edges, and there are {stored}")));
                }
            }
        }
        let mut loaded = Vec::new();
        for layout in &self.plan.layouts {
            let (graph, seconds, bytes) = match layout {
                Layout::Csr => (None, built, csr.memory_bytes()),
                Layout::Pma => {
                    let begun = Instant::now();
                    let graph = Pma::from_view(&csr, ids, shape.keeps_loops, &mut self.team)?;
                    let seconds = built + begun.elapsed().as_secs_f64();
                    let bytes = graph.memory_bytes();
                    (Some(graph), seconds, bytes)
                }
            };
            each(&Record {
                edges_per_s: Some(edges.len() as f64 / seconds),
                bytes_per_edge: per_edge(bytes, stored),
                ..record(self, *layout, Media::Dram, Step::Load, seconds)
            })?;
            let Some(graph) = graph else { continue };
            if self.plan.churn > 0.0 {
                let (seconds, updates) = self.churn(&graph)?;
                let snapshot = graph.snapshot(&mut self.team)?;
                if snapshot.edges() != stored {
                    return Err(wrong(format!("after churn there are {} edges and not {stored}", snapshot.edges())));
                }
                each(&Record {
                    edges_per_s: Some(updates as f64 / seconds),
                    bytes_per_edge: per_edge(graph.memory_bytes(), stored),
                    ..record(self, *layout, Media::Dram, Step::Churn, seconds)
                })?;
            }
            loaded.push(Loaded::Pma(graph.snapshot(&mut self.team)?));
        }
        let source = (0..csr.vertices() as u32).max_by_key(|vertex| csr.out_degree(*vertex));
        if self.plan.layouts.contains(&Layout::Csr) {
            loaded.insert(0, Loaded::Csr(csr));
        }
        let Some(source) = source else { return Ok(()) };
        for kernel in &self.plan.kernels {
            for trial in 1..=self.plan.trials {
                for graph in &loaded {
                    let (layout, seconds, answer) = match graph {
                        Loaded::Csr(view) => self.kernel(*kernel, Layout::Csr, view, source, answers)?,
                        Loaded::Pma(view) => self.kernel(*kernel, Layout::Pma, view, source, answers)?,
                    };
                    each(&Record {
                        kernel: Some(kernel.name()),
                        trial,
                        answer: Some(answer),
                        verified: Some(true),
                        ..record(self, layout, Media::Dram, Step::Kernel, seconds)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn kernel<V: View>(
        &mut self,
        kernel: Kernel,
        layout: Layout,
        view: &V,
        source: u32,
        answers: &mut Answers,
    ) -> Result<(Layout, f64, String)> {
        // Made when first asked for: no part of the kernel.
        view.blocks();
        let begun = Instant::now();
        let answer = Answer::of(kernel, view, source, &mut self.team)?;
        let seconds = begun.elapsed().as_secs_f64();
        let hash = answers.check(kernel, view, source, &answer).map_err(|what| {
            wrong(format!("{} over {} with {} threads: {what}", kernel.name(), layout.name(), self.threads))
        })?;
        Ok((layout, seconds, hash))
    }

    /// Delete a share of the edges and insert it again in another order; seconds and updates.
    fn churn(&self, graph: &Pma) -> Result<(f64, usize)> {
        let mut share = self.edges.edges.clone();
        if !self.edges.is_synthetic {
            shuffle(&mut share);
        }
        share.truncate((share.len() as f64 * self.plan.churn) as usize);
        let take = |batch: &[Update]| graph.apply(batch).map(drop);
        let begun = Instant::now();
        apply(&share, &self.edges.ids, self.threads, Update::DeleteEdge, take)?;
        shuffle(&mut share);
        apply(&share, &self.edges.ids, self.threads, Update::InsertEdge, take)?;
        Ok((begun.elapsed().as_secs_f64(), 2 * share.len()))
    }
}

fn per_edge(bytes: usize, edges: u64) -> Option<f64> {
    (edges > 0).then(|| bytes as f64 / edges as f64)
}

fn wrong(what: String) -> Error {
    Error::new(biombo_base::ErrorKind::Corruption, what)
}

#[cfg(test)]
mod tests;
