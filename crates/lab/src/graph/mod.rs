//! Graphs measured: layouts side by side, on the same edges, in the same run.
//!
//! A [`Plan`] says what; [`run`] does it and hands out a [`Record`] for each step:
//!
//! - `load`: the layout is made of all edges in memory;
//! - `ingest`: a dynamic layout is made of a tenth of the edges, the others come in batches from all threads; a snapshot and a checkpoint
//!   after that are timed apart;
//! - `churn`: a share of the edges is deleted, and inserted again in another order, both in batches from all threads;
//! - `placement`: how many edges each NUMA node has under each placement, where there are several nodes;
//! - `kernel`: a kernel over a layout under a placement, the layouts and placements in turns, trial by trial, so that what the machine does
//!   meanwhile meets all alike. On request the dynamic layouts take updates in meanwhile, each trial on a snapshot of the graph as it was given.
//!
//! Each answer is verified against the definition of what was asked once, and by its hash afterwards: all layouts, placements, threads and trials
//! have to give the same one.

mod kernel;
mod nodes;
mod record;
mod stream;

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Instant;

use biombo_base::{Error, Result};
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::edges::EdgeList;
use biombo_graph::generate::Drawn;
use biombo_graph::ids::Ids;
use biombo_graph::media::Array;
use biombo_graph::numa::{Load, Owners, Placement};
use biombo_graph::pma::{self, Changing, Snapshot, Update};
use biombo_graph::team::Team;
use biombo_graph::view::View;
use biombo_graph::{Edge, adjacency, buffered};

pub use kernel::Kernel;
use kernel::{Answer, Answers};
use nodes::{Laid, Nodes, Teams};
pub use nodes::{NodesPlan, Placing, Whole};
pub use record::{Record, Step};
pub use stream::BATCH;
use stream::{Ingested, apply, shuffle};

/// A layout that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Static.
    Csr,
    /// Dynamic: a packed memory array.
    Pma,
    /// Dynamic: a log of edges, archived into adjacency blocks.
    Adjacency,
    /// Dynamic: buffers of vertices over adjacency blocks.
    Buffered,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Csr, Self::Pma, Self::Adjacency, Self::Buffered];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::Pma => <pma::Image as pma::Layout>::NAME,
            Self::Adjacency => <adjacency::Section as pma::Layout>::NAME,
            Self::Buffered => <buffered::Section as pma::Layout>::NAME,
        }
    }

    /// Whether its graphs change: the others have no `ingest` and no `churn`.
    pub fn is_dynamic(self) -> bool {
        self != Self::Csr
    }
}

/// Memory of a layout.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// All of it.
    bytes: usize,
    /// What of it the in-edges of a directed graph take.
    in_edges: Option<usize>,
}

impl Memory {
    /// By so many stored edges: without in-edges, and those.
    fn per_edge(self, edges: u64) -> (Option<f64>, Option<f64>) {
        let each = |bytes: usize| (edges > 0).then(|| bytes as f64 / edges as f64);
        (each(self.bytes - self.in_edges.unwrap_or(0)), self.in_edges.and_then(each))
    }

    fn of<L: pma::Layout>(graph: &Changing<L>) -> Self {
        Self { bytes: graph.memory_bytes(), in_edges: graph.in_edges_memory_bytes() }
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
    /// `kron:SCALE:DEGREE`, `uniform:SCALE:DEGREE`, `orkut-like[:F]`, `livejournal-like[:F]` or a file of edges.
    pub graph: String,
    /// What is made of its edges; `None`: what a file says, and of drawn ones what the GAP benchmark does.
    pub shape: Option<Shape>,
    /// The layouts whose kernels are run in turns.
    pub layouts: Vec<Layout>,
    /// Where graphs are kept that take edges in.
    pub media: Vec<Media>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Threads, one number after the other.
    pub threads: Vec<usize>,
    /// NUMA nodes, and how vertices are dealt to them.
    pub nodes: NodesPlan,
    /// The layouts that are run under each placing; the others are run under the first one alone.
    pub dealt: Vec<Layout>,
    /// How often each kernel is run over each layout.
    pub trials: u32,
    /// Whether ingest is measured.
    pub ingest: bool,
    /// Updates of a batch of ingest, [`BATCH`] unless told otherwise; with 1 each edge is durable by itself.
    pub batch: usize,
    /// The share of the edges that is deleted and inserted again before the kernels run over dynamic layouts.
    pub churn: f64,
    /// Updates a second that dynamic layouts take in while kernels run over them.
    pub stream: Option<u64>,
    /// Where graphs on disk are made, each in a directory of its own that is removed afterwards.
    pub dir: PathBuf,
}

impl Plan {
    /// How many times a kernel is run.
    pub fn runs(&self) -> u64 {
        let placings: usize = self.layouts.iter().map(|layout| self.placings(*layout).len()).sum();
        (self.threads.len() * self.kernels.len() * placings) as u64 * u64::from(self.trials)
    }

    /// Those that a layout is run under.
    pub fn placings(&self, layout: Layout) -> &[Placing] {
        let all = self.nodes.placings.as_slice();
        if self.dealt.contains(&layout) { all } else { &all[..all.len().min(1)] }
    }
}

/// Edges where they were made: large graphs have no room for them twice.
enum Held {
    Drawn(Array<Edge>),
    Read(Vec<Edge>),
}

impl Deref for Held {
    type Target = [Edge];

    fn deref(&self) -> &[Edge] {
        match self {
            Self::Drawn(edges) => edges,
            Self::Read(edges) => edges,
        }
    }
}

/// The edges of a graph.
struct Edges {
    edges: Held,
    ids: Ids,
    shape: Shape,
    /// Drawn, not read: their order means nothing.
    is_synthetic: bool,
}

impl Edges {
    fn of(graph: &str, shape: Option<Shape>, team: &mut Team) -> Result<Self> {
        let Some(drawn) = Drawn::named(graph)? else {
            let EdgeList { ids, edges, is_directed } = EdgeList::read(&[graph])?;
            let of_file = if is_directed.unwrap_or(true) { Shape::DIRECTED } else { Shape::UNDIRECTED };
            let shape = shape.unwrap_or(of_file);
            return Ok(Self { edges: Held::Read(edges), ids, shape, is_synthetic: false });
        };
        let mut edges = drawn.draw(team)?;
        shuffle(&mut edges);
        let edges = Held::Drawn(edges);
        let shape = shape.unwrap_or(Shape::GAP);
        Ok(Self { edges, ids: Ids::dense(drawn.vertices()), shape, is_synthetic: true })
    }
}

/// Measure; each record is handed out when it is there.
///
/// # Errors
/// Those of reading and building; `Invalid` for a plan that cannot be; `Corruption` when an answer is wrong; those of `each`.
pub fn run(plan: &Plan, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
    let is_sound = plan.trials > 0 && (0.0..=1.0).contains(&plan.churn) && !plan.threads.is_empty();
    if !is_sound || plan.layouts.is_empty() || plan.stream == Some(0) || plan.batch == 0 {
        return Err(Error::invalid(
            "a bench of graphs has layouts, threads, trials, a churn from 0 to 1, and batches and a stream, if any, above 0",
        ));
    }
    let nodes = Nodes::of(&plan.nodes)?;
    let mut answers = Answers::default();
    let edges = Edges::of(&plan.graph, plan.shape, &mut Team::new(plan.threads[0])?)?;
    for threads in &plan.threads {
        let teams = nodes.teams(*threads)?;
        Bench { plan, edges: &edges, nodes: &nodes, threads: *threads, teams }.run(&mut answers, each)?;
    }
    Ok(())
}

/// A run with one number of threads.
struct Bench<'p> {
    plan: &'p Plan,
    edges: &'p Edges,
    nodes: &'p Nodes,
    threads: usize,
    teams: Teams,
}

/// A layout with a graph in it.
enum Loaded {
    Csr(Csr),
    Pma(Live<pma::Image>),
    Adjacency(Live<adjacency::Section>),
    Buffered(Live<buffered::Section>),
}

/// A graph that may change, as it was at a moment.
struct Live<L: pma::Layout> {
    graph: Changing<L>,
    snapshot: Snapshot<L>,
}

/// What a turn of a kernel came to: seconds, a hash of the answer, updates a second meanwhile.
type Turn = (f64, String, Option<f64>);

impl Loaded {
    /// Where updates come in: the graph as it is now, which is as it was given, since each turn's updates undo themselves.
    fn take_snapshot(&mut self, stream: Option<u64>, team: &mut Team) -> Result<()> {
        if stream.is_none() {
            return Ok(());
        }
        match self {
            Self::Csr(_) => {}
            Self::Pma(live) => live.snapshot = live.graph.snapshot(team)?,
            Self::Adjacency(live) => live.snapshot = live.graph.snapshot(team)?,
            Self::Buffered(live) => live.snapshot = live.graph.snapshot(team)?,
        }
        Ok(())
    }

    /// Bring its lists to where they lie for a turn.
    fn lay(&mut self, nodes: &Nodes, laid: Laid, load: &Load, team: &mut Team) -> Result<()> {
        let layout = self.layout().name();
        match self {
            Self::Csr(csr) => nodes.lay_static(csr, laid, load, team)?,
            Self::Pma(live) => nodes.lay(&live.snapshot, layout, laid, load),
            Self::Adjacency(live) => nodes.lay(&live.snapshot, layout, laid, load),
            Self::Buffered(live) => nodes.lay(&live.snapshot, layout, laid, load),
        }
        Ok(())
    }

    fn layout(&self) -> Layout {
        match self {
            Self::Csr(_) => Layout::Csr,
            Self::Pma(_) => Layout::Pma,
            Self::Adjacency(_) => Layout::Adjacency,
            Self::Buffered(_) => Layout::Buffered,
        }
    }
}

impl Bench<'_> {
    fn run(&mut self, answers: &mut Answers, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
        let Edges { edges, ids, shape, .. } = self.edges;
        let begun = Instant::now();
        let csr = Csr::build(ids.len(), edges, *shape, &mut self.teams.dealt)?;
        let built = begun.elapsed().as_secs_f64();
        let stored = csr.edges();
        let record = |bench: &Self, layout: Layout, media: Media, step: Step, seconds: f64| Record {
            bench: "graph",
            graph: bench.plan.graph.clone(),
            vertices: ids.len() as u64,
            edges: stored,
            layout: layout.name(),
            media: media.name(),
            pmem: None,
            pmem_is_played: None,
            placement: bench.nodes.placings()[0].name(),
            nodes: bench.nodes.count() as u32,
            allocation: bench.nodes.allocation().name(),
            bind: bench.nodes.bind().name(),
            threads: bench.threads,
            step,
            kernel: None,
            trial: 1,
            seconds,
            answer: None,
            verified: None,
            batch: None,
            snapshot_seconds: None,
            checkpoint_seconds: None,
            edges_per_s: None,
            bytes_per_edge: None,
            bytes_per_in_edge: None,
            stream_per_s: None,
            edges_per_node: None,
            why: None,
            not_done: bench.nodes.not_done(),
        };
        let plan = self.plan;
        for layout in plan.layouts.iter().filter(|layout| plan.ingest && layout.is_dynamic()) {
            for media in &plan.media {
                let streamed = edges.len() - edges.len() / 10;
                let Ingested { seconds, snapshot_seconds, checkpoint_seconds, memory, edges: made, pmem } = match layout
                {
                    Layout::Adjacency => self.ingest::<adjacency::Section>(*media)?,
                    Layout::Buffered => self.ingest::<buffered::Section>(*media)?,
                    Layout::Csr | Layout::Pma => self.ingest::<pma::Image>(*media)?,
                };
                let (pmem, pmem_is_played) = pmem.unzip();
                let (bytes_per_edge, bytes_per_in_edge) = memory.per_edge(made);
                each(&Record {
                    pmem,
                    pmem_is_played,
                    batch: Some(plan.batch),
                    snapshot_seconds: Some(snapshot_seconds),
                    checkpoint_seconds,
                    edges_per_s: Some(streamed as f64 / seconds),
                    bytes_per_edge,
                    bytes_per_in_edge,
                    verified: Some(made == stored),
                    ..record(self, *layout, *media, Step::Ingest, seconds)
                })?;
                if made != stored {
                    let layout = layout.name();
                    return Err(wrong(format!("ingest into {layout} made {made} edges, and there are {stored}")));
                }
            }
        }
        let mut loaded = Vec::new();
        for layout in &plan.layouts {
            let mut step = |bench: &Self, step: Step, seconds: f64, edges: usize, memory: Memory| {
                let (bytes_per_edge, bytes_per_in_edge) = memory.per_edge(stored);
                each(&Record {
                    edges_per_s: Some(edges as f64 / seconds),
                    bytes_per_edge,
                    bytes_per_in_edge,
                    ..record(bench, *layout, Media::Dram, step, seconds)
                })
            };
            match layout {
                Layout::Csr => {
                    let memory = Memory { bytes: csr.memory_bytes(), in_edges: csr.in_edges_memory_bytes() };
                    step(self, Step::Load, built, edges.len(), memory)?;
                }
                Layout::Pma => loaded.push(Loaded::Pma(self.load(&csr, built, &mut step)?)),
                Layout::Adjacency => loaded.push(Loaded::Adjacency(self.load(&csr, built, &mut step)?)),
                Layout::Buffered => loaded.push(Loaded::Buffered(self.load(&csr, built, &mut step)?)),
            }
        }
        let (nodes, load) = (self.nodes, Load::of(&csr, &mut self.teams.dealt));
        if nodes.count() > 1 {
            for placement in Placement::ALL {
                let begun = Instant::now();
                let edges = Owners::new(placement, nodes.count(), &load).edges_by_node(&csr, &mut self.teams.dealt);
                let seconds = begun.elapsed().as_secs_f64();
                each(&Record {
                    placement: placement.name(),
                    edges_per_node: Some(edges),
                    ..record(self, self.plan.layouts[0], Media::Dram, Step::Placement, seconds)
                })?;
            }
        }
        let source = (0..csr.vertices() as u32).max_by_key(|vertex| csr.out_degree(*vertex));
        if plan.layouts.contains(&Layout::Csr) {
            loaded.insert(0, Loaded::Csr(csr));
        }
        let Some(source) = source else { return Ok(()) };
        // With how its lists lie.
        let mut loaded: Vec<(Loaded, Option<Laid>)> = loaded.into_iter().map(|graph| (graph, None)).collect();
        for kernel in &plan.kernels {
            for trial in 1..=plan.trials {
                for (graph, lies) in &mut loaded {
                    let layout = graph.layout();
                    for placing in plan.placings(layout) {
                        let (laid, why) = nodes.choose(*placing, *kernel, &load);
                        graph.take_snapshot(plan.stream, &mut self.teams.dealt)?;
                        let is_new = plan.stream.is_some() && layout.is_dynamic();
                        if lies.replace(laid) != Some(laid) || is_new {
                            graph.lay(nodes, laid, &load, &mut self.teams.dealt)?;
                        }
                        let (of, dealt) = ((*kernel, source), (laid, &load));
                        let (seconds, answer, stream_per_s) = match &*graph {
                            Loaded::Csr(view) => self.placed(of, layout, view, dealt, answers)?,
                            Loaded::Pma(live) => self.live(of, layout, live, dealt, answers)?,
                            Loaded::Adjacency(live) => self.live(of, layout, live, dealt, answers)?,
                            Loaded::Buffered(live) => self.live(of, layout, live, dealt, answers)?,
                        };
                        let (count, bind) = nodes.of_turn(laid);
                        each(&Record {
                            kernel: Some(kernel.name()),
                            trial,
                            placement: laid.name(),
                            nodes: count as u32,
                            bind: bind.name(),
                            answer: Some(answer),
                            verified: Some(true),
                            stream_per_s,
                            why,
                            ..record(self, layout, Media::Dram, Step::Kernel, seconds)
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ingest into a layout.
    fn ingest<L: pma::Layout>(&mut self, media: Media) -> Result<Ingested> {
        let Edges { edges, ids, shape, .. } = self.edges;
        stream::ingest::<L>(self.plan, media, edges, ids, *shape, self.threads, &mut self.teams.dealt)
    }

    /// A layout with the graph that `csr` has, for which `built` seconds were needed, after churn. `step` is told of each step: seconds,
    /// edges, memory.
    fn load<L: pma::Layout>(
        &mut self,
        csr: &Csr,
        built: f64,
        mut step: impl FnMut(&Self, Step, f64, usize, Memory) -> Result<()>,
    ) -> Result<Live<L>> {
        let Edges { edges, ids, shape, .. } = self.edges;
        let begun = Instant::now();
        let graph = Changing::<L>::from_view(csr, ids, shape.keeps_loops, &mut self.teams.dealt)?;
        let seconds = built + begun.elapsed().as_secs_f64();
        step(self, Step::Load, seconds, edges.len(), Memory::of(&graph))?;
        if self.plan.churn > 0.0 {
            let (seconds, updates) = self.churn(&graph)?;
            let (found, stored) = (graph.snapshot(&mut self.teams.dealt)?.edges(), csr.edges());
            if found != stored {
                return Err(wrong(format!("after churn {} has {found} edges and not {stored}", L::NAME)));
            }
            step(self, Step::Churn, seconds, updates, Memory::of(&graph))?;
        }
        let snapshot = graph.snapshot(&mut self.teams.dealt)?;
        Ok(Live { graph, snapshot })
    }

    /// A kernel over the snapshot of a graph, which takes updates in meanwhile if the plan says so.
    fn live<L: pma::Layout>(
        &mut self,
        of: (Kernel, u32),
        layout: Layout,
        live: &Live<L>,
        dealt: (Laid, &Load),
        answers: &mut Answers,
    ) -> Result<Turn> {
        let Some(rate) = self.plan.stream else { return self.placed(of, layout, &live.snapshot, dealt, answers) };
        let Edges { edges, ids, .. } = self.edges;
        let kernel = || self.placed(of, layout, &live.snapshot, dealt, answers);
        let (turn, updates_per_s) = stream::meanwhile(&live.graph, edges, ids, rate, kernel)?;
        let (seconds, answer, _) = turn?;
        Ok((seconds, answer, Some(updates_per_s)))
    }

    /// A kernel from a source over a graph with its vertices dealt to nodes.
    fn placed<V: View>(
        &mut self,
        (kernel, source): (Kernel, u32),
        layout: Layout,
        view: &V,
        (laid, load): (Laid, &Load),
        answers: &mut Answers,
    ) -> Result<Turn> {
        let placed = self.nodes.placed(view, laid, load);
        // Made when first asked for: no part of the kernel.
        placed.blocks();
        let begun = Instant::now();
        let answer = Answer::of(kernel, &placed, source, self.teams.of(laid))?;
        let seconds = begun.elapsed().as_secs_f64();
        let hash = answers.check(kernel, &placed, source, &answer).map_err(|what| {
            wrong(format!("{} over {} with {} threads: {what}", kernel.name(), layout.name(), self.threads))
        })?;
        Ok((seconds, hash, None))
    }

    /// Delete a share of the edges and insert it again in another order; seconds and updates.
    fn churn<L: pma::Layout>(&self, graph: &Changing<L>) -> Result<(f64, usize)> {
        let all = &self.edges.edges;
        let count = (all.len() as f64 * self.plan.churn) as usize;
        let mut share = if self.edges.is_synthetic {
            all[..count].to_vec()
        } else {
            let mut shuffled = all.to_vec();
            shuffle(&mut shuffled);
            shuffled.truncate(count);
            shuffled.shrink_to_fit();
            shuffled
        };
        let take = |batch: &[Update]| graph.apply(batch).map(drop);
        let begun = Instant::now();
        let by = (self.threads, BATCH);
        apply(&share, &self.edges.ids, by, Update::DeleteEdge, take)?;
        shuffle(&mut share);
        apply(&share, &self.edges.ids, by, Update::InsertEdge, take)?;
        Ok((begun.elapsed().as_secs_f64(), 2 * share.len()))
    }
}

fn wrong(what: String) -> Error {
    Error::new(biombo_base::ErrorKind::Corruption, what)
}

#[cfg(test)]
mod tests;
