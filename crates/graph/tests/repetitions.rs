//! The same answers, bit for bit, 50 times: over every layout on every medium, under every placement, by one thread and more, while updates come
//! and go between the repetitions.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use biombo_base::io::{Io, RealIo};
use biombo_graph::csr::{Csr, Shape, file};
use biombo_graph::generate::Drawn;
use biombo_graph::ids::Ids;
use biombo_graph::kernels::pagerank::Stop;
use biombo_graph::kernels::{afforest, bfs, brandes, pagerank, shiloach_vishkin};
use biombo_graph::numa::{Load, Placed, Placement};
use biombo_graph::pma::{
    Changing, Durability, Durable, DurableChanging, DurableOptions, Image, Layout, Snapshot, Update,
};
use biombo_graph::team::Team;
use biombo_graph::view::View;
use biombo_graph::{Edge, adjacency, buffered};

const REPETITIONS: usize = 50;

/// Graphs of 2, 16 and 64 sections; in each repetition all threads and placements run over the smallest one, and one of them over the others, in turn:
/// in 50 repetitions each of them three times.
const GRAPHS: [(&str, usize, Runs); 3] = [
    ("kron:11:4", REPETITIONS, Runs::All),
    ("kron:14:16", REPETITIONS, Runs::OneOfThem),
    ("kron:16:8", REPETITIONS / 10, Runs::OneOfThem),
];

/// Which threads and placements run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    All,
    OneOfThem,
}

/// Of every kernel: depths, the bits of scores, labels.
fn answers<V: View>(view: &V, source: u32, team: &mut Team) -> Vec<u64> {
    let mut all: Vec<u64> = bfs(view, source, team).unwrap().depths().iter().map(|depth| *depth as u64).collect();
    let stop = Stop { iterations: 8, tolerance: 0.0 };
    all.extend(pagerank(view, stop, team).unwrap().scores.iter().map(|score| score.to_bits()));
    for components in [afforest(view, team).unwrap(), shiloach_vishkin(view, team).unwrap()] {
        all.extend((0..view.vertices() as u32).map(|vertex| u64::from(components.label(vertex))));
    }
    all.extend(brandes(view, &[source], team).unwrap().iter().map(|score| score.to_bits()));
    all
}

/// A changing graph on some medium.
enum Kept<L: Layout> {
    Dram(Box<Changing<L>>),
    Durable(DurableChanging<L>),
}

impl<L: Layout> Kept<L> {
    fn apply(&self, updates: &[Update]) {
        match self {
            Self::Dram(graph) => graph.apply(updates).map(drop).unwrap(),
            Self::Durable(graph) => graph.apply(updates, Durability::Os).map(drop).unwrap(),
        }
    }

    fn snapshot(&self, team: &mut Team) -> Snapshot<L> {
        match self {
            Self::Dram(graph) => graph.snapshot(team).unwrap(),
            Self::Durable(graph) => graph.snapshot(team).unwrap(),
        }
    }
}

/// What every run is compared with.
struct Right<'a> {
    csr: &'a Csr,
    ids: &'a Ids,
    edges: &'a [Edge],
    source: u32,
    answers: Vec<u64>,
    runs: Runs,
}

impl Right<'_> {
    /// By each of the teams, under each placement and under none, or by that which it is the turn of. How many runs of all kernels.
    fn check<V: View>(&self, (turn, what): (usize, &str), view: &V, teams: &mut [Team]) -> usize {
        let load = Load::of(view, &mut teams[0]);
        let all = teams.len() * (1 + Placement::ALL.len());
        let runs = match self.runs {
            Runs::All => 0..all,
            Runs::OneOfThem => turn % all..turn % all + 1,
        };
        for run in runs.clone() {
            let count = teams.len();
            let (team, placement) = (&mut teams[run % count], Placement::ALL.get(run / count));
            let found = match placement {
                Some(placement) => answers(&Placed::new(view, *placement, 2, &load), self.source, team),
                None => answers(view, self.source, team),
            };
            let placement = placement.map_or_else(|| "no placement".to_owned(), ToString::to_string);
            assert!(found == self.answers, "repetition {turn}: {what}, {} threads, {placement}", team.threads());
        }
        runs.len()
    }

    /// The same graph on each medium.
    fn kept<L: Layout>(&self, dir: &Path, team: &mut Team) -> Vec<(&'static str, Kept<L>)> {
        let io: Arc<dyn Io> = RealIo::shared();
        let (disk, pmem) = (dir.join(format!("{}-disk", L::NAME)), dir.join(format!("{}-pmem", L::NAME)));
        Durable::create_from(&io, &disk, self.csr, self.ids, true).unwrap();
        Durable::create_on_pmem(&io, &pmem, self.csr, self.ids, true).unwrap();
        let mut open = |dir: &Path| {
            Kept::Durable(DurableChanging::<L>::open(io.clone(), dir, DurableOptions::default(), team).unwrap())
        };
        let (disk, pmem) = (open(&disk), open(&pmem));
        vec![
            ("dram", Kept::Dram(Box::new(Changing::<L>::from_view(self.csr, self.ids, true, team).unwrap()))),
            ("disk", disk),
            ("pmem", pmem),
        ]
    }

    /// Some of the edges go and come back, then all is compared.
    fn check_changing<L: Layout>(&self, repetition: usize, all: &[(&str, Kept<L>)], teams: &mut [Team]) -> usize {
        let id = |vertex: u32| self.ids.id(vertex).unwrap();
        let share = || self.edges.iter().skip(repetition * 37).step_by(211);
        let gone: Vec<Update> = share().map(|[a, b]| Update::DeleteEdge(id(*a), id(*b))).collect();
        let back: Vec<Update> = share().rev().map(|[a, b]| Update::InsertEdge(id(*a), id(*b))).collect();
        let mut runs = 0;
        for (medium, graph) in all {
            graph.apply(&gone);
            graph.apply(&back);
            let last = teams.len() - 1;
            let snapshot = graph.snapshot(&mut teams[last]);
            runs += self.check((repetition, &format!("{} on {medium}", L::NAME)), &snapshot, teams);
        }
        runs
    }
}

#[test]
fn fifty_repetitions_give_the_same_bits_over_all_layouts_media_placements_and_threads() {
    GRAPHS.into_iter().for_each(give_the_same_bits);
}

fn give_the_same_bits((name, repetitions, runs_of): (&str, usize, Runs)) {
    let begun = Instant::now();
    let mut teams: Vec<Team> = (1..=3).map(|threads| Team::new(threads).unwrap()).collect();
    let drawn = Drawn::named(name).unwrap().unwrap();
    let edges = drawn.draw(&mut teams[0]).unwrap().to_vec();
    let ids = Ids::dense(drawn.vertices());
    let csr = Csr::build(ids.len(), &edges, Shape::UNDIRECTED, &mut teams[0]).unwrap();
    let source = (0..csr.vertices() as u32).max_by_key(|vertex| csr.out_degree(*vertex)).unwrap();
    let answers = answers(&csr, source, &mut teams[0]);
    let right = Right { csr: &csr, ids: &ids, edges: &edges, source, answers, runs: runs_of };
    let dir = tempfile::tempdir().unwrap();
    let io: Arc<dyn Io> = RealIo::shared();
    let of_csr = dir.path().join("csr-pmem");
    file::pmem::save(&io, &of_csr, &csr, &ids).unwrap();
    let (csr_on_pmem, _, _) = file::pmem::open(&io, &of_csr).unwrap();
    let pma = right.kept::<Image>(dir.path(), &mut teams[0]);
    let adjacency = right.kept::<adjacency::Section>(dir.path(), &mut teams[0]);
    let buffered = right.kept::<buffered::Section>(dir.path(), &mut teams[0]);
    let mut runs = 0;
    for repetition in 0..repetitions {
        runs += right.check((repetition, "csr"), &csr, &mut teams);
        runs += right.check((repetition, "csr on pmem"), &csr_on_pmem, &mut teams);
        runs += right.check_changing(repetition, &pma, &mut teams);
        runs += right.check_changing(repetition, &adjacency, &mut teams);
        runs += right.check_changing(repetition, &buffered, &mut teams);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{name}: {runs} runs of five kernels in {repetitions} repetitions without a difference, in {seconds:.1} s"
    );
}
