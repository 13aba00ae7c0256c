//! Graphs measured: layouts side by side, on the same edges, in the same run.
//!
//! A [`Plan`] says what; [`run`] does it and hands out a [`Record`] for each step:
//!
//! - `load`: the layout is made of all edges in memory; the static one on persistent memory too, if that is asked for;
//! - `ingest`: a dynamic layout is made of a tenth of the edges, the others come in batches from all threads; a snapshot and a checkpoint
//!   after that are timed apart;
//! - `churn`: a share of the edges is deleted, and inserted again in another order, both in batches from all threads;
//! - `placement`: how many edges each NUMA node has under each placement, where there are several nodes;
//! - `kernel`: a kernel over a layout under a placement, the layouts and placements in turns, trial by trial, so that what the machine does
//!   meanwhile meets all alike. On request the dynamic layouts take updates in meanwhile, each trial on a snapshot of the graph as it was given;
//!   on several nodes its placement is that of the snapshot before, mended where a node has too much.
//!
//! Each answer is verified against the definition of what was asked once, and by its hash afterwards: all layouts, placements, threads and trials
//! have to give the same one.

mod kernel;
mod loaded;
mod nodes;
mod record;
mod setting;
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
use biombo_graph::numa::{Load, Owners, Placed, Placement};
use biombo_graph::pma::{self, Changing, Update};
use biombo_graph::team::Team;
use biombo_graph::view::View;
use biombo_graph::{Edge, adjacency, buffered};

pub use kernel::Kernel;
use kernel::{Answer, Answers};
use loaded::{Live, Loaded, Of, Standings, Turn, on_pmem};
use nodes::{Laid, Nodes, Teams};
pub use nodes::{NodesPlan, Placing, Whole};
pub use record::{Record, Step, parse_lines};
pub use setting::Setting;
#[cfg(test)]
pub(crate) use setting::tests::trial;
pub use stream::BATCH;
use stream::{Ingested, apply, shuffle};

use crate::measure::Host;

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

/// Where a graph is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// In memory only.
    Dram,
    /// Each batch is durable in the journal when it is acknowledged.
    Disk,
    /// Each batch is durable in persistent memory, or what plays it, when it is acknowledged. A static graph is read there.
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
    /// Where graphs are kept that take edges in. With persistent memory among them kernels run over the static layout there too, in turns.
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
        let turns = |layout: &Layout| {
            let copies = if *layout == Layout::Csr && self.has_csr_on_pmem() { 2 } else { 1 };
            copies * self.placings(*layout).len()
        };
        let placings: usize = self.layouts.iter().map(turns).sum();
        (self.threads.len() * self.kernels.len() * placings) as u64 * u64::from(self.trials)
    }

    /// Whether kernels run over the static layout on persistent memory, beside the one in memory.
    pub fn has_csr_on_pmem(&self) -> bool {
        self.layouts.contains(&Layout::Csr) && self.media.contains(&Media::Pmem)
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
            let mut list = EdgeList::read(&[graph])?;
            let of_file = if list.is_directed.unwrap_or(true) { Shape::DIRECTED } else { Shape::UNDIRECTED };
            let shape = shape.unwrap_or(of_file);
            if shape.is_directed {
                list.mirror();
            }
            let EdgeList { ids, edges, .. } = list;
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

impl Bench<'_> {
    fn run(&mut self, answers: &mut Answers, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
        let Edges { edges, ids, shape, .. } = self.edges;
        let begun = Instant::now();
        let csr = Csr::build(ids.len(), edges, *shape, &mut self.teams.dealt)?;
        let built = begun.elapsed().as_secs_f64();
        let stored = csr.edges();
        let host = Host::here();
        let record = |bench: &Self, layout: Layout, media: Media, step: Step, seconds: f64| Record {
            bench: record::BENCH.to_owned(),
            graph: bench.plan.graph.clone(),
            vertices: ids.len() as u64,
            edges: stored,
            layout: layout.name().to_owned(),
            media: media.name().to_owned(),
            pmem: None,
            pmem_is_played: None,
            placement: bench.nodes.placings()[0].name().to_owned(),
            nodes: bench.nodes.count() as u32,
            allocation: bench.nodes.allocation().name().to_owned(),
            bind: bench.nodes.bind().name().to_owned(),
            threads: bench.threads,
            step,
            kernel: None,
            trial: 1,
            seconds,
            answer: None,
            verified: None,
            batch: None,
            batch_ns_p50: None,
            batch_ns_p99: None,
            batch_ns_max: None,
            snapshot_seconds: None,
            checkpoint_seconds: None,
            edges_per_s: None,
            bytes_per_edge: None,
            bytes_per_in_edge: None,
            churn: Some(bench.plan.churn)
                .filter(|churn| *churn > 0.0 && layout.is_dynamic() && matches!(step, Step::Churn | Step::Kernel)),
            stream: None,
            stream_per_s: None,
            units_moved: None,
            stretches_placed: None,
            edges_per_node: None,
            why: None,
            not_done: bench.nodes.not_done(),
            host: Some(host.clone()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        };
        let plan = self.plan;
        for layout in plan.layouts.iter().filter(|layout| plan.ingest && layout.is_dynamic()) {
            for media in &plan.media {
                let streamed = edges.len() - edges.len() / 10;
                let Ingested { seconds, batches, snapshot_seconds, checkpoint_seconds, memory, edges: made, pmem } =
                    match layout {
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
                    batch_ns_p50: batches.map(|times| times.p50_ns),
                    batch_ns_p99: batches.map(|times| times.p99_ns),
                    batch_ns_max: batches.map(|times| times.max_ns),
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
        let (mut loaded, mut csr_on_pmem) = (Vec::new(), None);
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
                    if plan.has_csr_on_pmem() {
                        let (graph, behind, saved) = on_pmem(plan, &csr, ids)?;
                        let (seconds, (bytes_per_edge, bytes_per_in_edge)) = (built + saved, memory.per_edge(stored));
                        each(&Record {
                            pmem: Some(behind.0.clone()),
                            pmem_is_played: Some(behind.1),
                            edges_per_s: Some(edges.len() as f64 / seconds),
                            bytes_per_edge,
                            bytes_per_in_edge,
                            ..record(self, *layout, Media::Pmem, Step::Load, seconds)
                        })?;
                        csr_on_pmem = Some(Loaded::Csr(graph, Some(behind)));
                    }
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
                    placement: placement.name().to_owned(),
                    edges_per_node: Some(edges),
                    ..record(self, self.plan.layouts[0], Media::Dram, Step::Placement, seconds)
                })?;
            }
        }
        let source = (0..csr.vertices() as u32).max_by_key(|vertex| csr.out_degree(*vertex));
        if plan.layouts.contains(&Layout::Csr) {
            loaded.splice(0..0, std::iter::once(Loaded::Csr(csr, None)).chain(csr_on_pmem));
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
                        let is_moved = lies.replace(laid) != Some(laid);
                        let of = Of { kernel: *kernel, source, layout, laid, is_moved, load: &load };
                        let Turn { seconds, answer, stream_per_s, kept } = self.turn(graph, &of, answers)?;
                        let (media, behind) = graph.media();
                        let (pmem, pmem_is_played) = behind.unzip();
                        let (count, bind) = nodes.of_turn(laid);
                        each(&Record {
                            kernel: Some(kernel.name().to_owned()),
                            trial,
                            placement: laid.name().to_owned(),
                            nodes: count as u32,
                            bind: bind.name().to_owned(),
                            answer: Some(answer),
                            verified: Some(true),
                            stream: plan.stream.filter(|_| stream_per_s.is_some()),
                            stream_per_s,
                            units_moved: kept.map(|kept| kept.units),
                            stretches_placed: kept.map(|kept| kept.stretches),
                            why,
                            pmem,
                            pmem_is_played,
                            ..record(self, layout, media, Step::Kernel, seconds)
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
        Ok(Live { graph, snapshot, standings: Standings::default() })
    }

    /// A kernel's turn over a layout.
    fn turn(&mut self, graph: &mut Loaded, of: &Of<'_>, answers: &mut Answers) -> Result<Turn> {
        match graph {
            Loaded::Csr(csr, _) => {
                if of.is_moved {
                    self.nodes.lay_static(csr, of.laid, of.load, &mut self.teams.dealt)?;
                }
                let placed = self.nodes.placed(&*csr, of.laid, of.load);
                self.timed(of, &placed, answers)
            }
            Loaded::Pma(live) => self.live(of, live, answers),
            Loaded::Adjacency(live) => self.live(of, live, answers),
            Loaded::Buffered(live) => self.live(of, live, answers),
        }
    }

    /// A kernel over the snapshot of a graph, which takes updates in meanwhile if the plan says so.
    fn live<L: pma::Layout>(&mut self, of: &Of<'_>, live: &mut Live<L>, answers: &mut Answers) -> Result<Turn> {
        let Some(rate) = self.plan.stream else {
            if of.is_moved {
                self.nodes.lay(&live.snapshot, of.layout.name(), of.laid, of.load);
            }
            let placed = self.nodes.placed(&live.snapshot, of.laid, of.load);
            return self.timed(of, &placed, answers);
        };
        // The graph as it is now, which is as it was given, since each turn's updates undo themselves.
        live.snapshot = live.graph.snapshot(&mut self.teams.dealt)?;
        let (placed, kept) = live.standings.placed(&live.snapshot, of, self.nodes, &mut self.teams.dealt);
        let Edges { edges, ids, .. } = self.edges;
        let kernel = || self.timed(of, &placed, answers);
        let (turn, updates_per_s) = stream::meanwhile(&live.graph, edges, ids, rate, kernel)?;
        Ok(Turn { stream_per_s: Some(updates_per_s), kept, ..turn? })
    }

    /// A kernel over a graph that lies where it has to.
    fn timed<V: View>(&mut self, of: &Of<'_>, placed: &Placed<'_, V>, answers: &mut Answers) -> Result<Turn> {
        // Made when first asked for: no part of the kernel.
        placed.blocks();
        let (kernel, begun) = (of.kernel, Instant::now());
        let answer = Answer::of(kernel, placed, of.source, self.teams.of(of.laid))?;
        let seconds = begun.elapsed().as_secs_f64();
        let answer = answers.check(kernel, placed, of.source, &answer).map_err(|what| {
            wrong(format!("{} over {} with {} threads: {what}", kernel.name(), of.layout.name(), self.threads))
        })?;
        Ok(Turn { seconds, answer, stream_per_s: None, kept: None })
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
