//! What scripts/vm.sh runs inside its virtual machine, which has two NUMA nodes and persistent memory:
//!
//! - `numa`: memory lies on the nodes that placements say, threads run on theirs, and answers are the same for all of them;
//! - `write DIR`: batches into a graph on persistent memory, each told on standard output when it is durable, until the machine is reset;
//! - `check DIR N`: the graph has the first N batches at least (what was told last may not have come out of the machine), each whole, and
//!   nothing else.
//!
//! Batch b inserts edges from vertex b, deletes those of batch b - [`KEPT`], and moves the one edge of [`MARK`] to vertex b: so what a number of
//! batches leaves is known.

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use biombo_base::io::RealIo;
use biombo_base::numa::node_of;
use biombo_base::topology::{Topology, current_cpus};
use biombo_base::{Error, Result};
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::generate::Synthetic;
use biombo_graph::ids::Ids;
use biombo_graph::kernels::pagerank::Stop;
use biombo_graph::kernels::{afforest, pagerank};
use biombo_graph::numa::{Allocation, Home, Load, Memory, Owners, Placed, Placement, Spreading};
use biombo_graph::pma::{Durability, Durable, DurableOptions, Media, Update};
use biombo_graph::team::{Bind, Team};
use biombo_graph::view::View;

/// Batches whose edges are there at a time.
const KEPT: u64 = 40;
/// Edges of a batch.
const EDGES: u64 = 25;
/// Has one edge, to the number of the last batch.
const MARK: u64 = 5_000_000;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["numa"] => numa(),
        ["write", dir] => write(Path::new(dir)),
        ["check", dir, batches] => {
            let batches = batches.parse().map_err(|_| Error::invalid(format!("{batches} is no number of batches")))?;
            check(Path::new(dir), batches)
        }
        _ => {
            println!("usage: guest numa | write DIR | check DIR N (scripts/vm.sh runs it in a virtual machine)");
            Ok(())
        }
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(biombo_base::ErrorKind::Corruption, what.into())
}

fn holds(is: bool, what: impl Into<String>) -> Result<()> {
    if is { Ok(()) } else { Err(wrong(what)) }
}

/// Two nodes: threads, memory, answers.
fn numa() -> Result<()> {
    let topology = Topology::detect();
    let spread = topology.spread(2)?;
    holds(spread.has_distance() && topology.nodes.len() == 2, format!("not two nodes: {topology:?}"))?;
    let mut team = Team::on(&spread, Bind::RoundRobin, 2)?;
    holds(team.unbound() == 0, "a thread is not bound")?;
    // Nobody takes the other's work before both are there.
    let (there, begun) = (Mutex::new(HashSet::new()), Instant::now());
    let ran = team.gather(&[0..64, 64..128], 1, |_, found: &mut BTreeSet<Vec<u32>>| {
        found.insert(current_cpus());
        let arrived = || {
            let mut there = there.lock().expect("nobody panics with it");
            there.insert(thread::current().id());
            there.len()
        };
        while arrived() < 2 && begun.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
    });
    let ran: BTreeSet<Vec<u32>> = ran.into_iter().flatten().collect();
    let nodes: BTreeSet<Vec<u32>> = spread.nodes.iter().map(|node| node.cpus.clone()).collect();
    holds(ran == nodes, format!("threads ran on {ran:?}"))?;
    println!("threads: each on its own node, {ran:?}");

    let synthetic: Synthetic = "kron:14:16".parse()?;
    let edges = synthetic.draw(&mut team)?;
    let csr = Csr::build(synthetic.vertices(), &edges, Shape::GAP, &mut team)?;
    let load = Load::of(&csr, &mut team);
    let stop = Stop { iterations: 10, tolerance: 0.0 };
    let bits = |scores: &[f64]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
    let expected = bits(&pagerank(&csr, stop, &mut team)?.scores);
    for placement in Placement::ALL {
        let owners = Owners::new(placement, 2, &load);
        let home = Arc::new(Home::new(&spread, Bind::RoundRobin, Allocation::Bind)?);
        home.place_lists(&csr, csr.vertices(), &owners)?;
        let on = pages(&csr, &owners)?;
        let placed = Placed::new(&csr, placement, 2, &load).at_home(home);
        holds(bits(&pagerank(&placed, stop, &mut team)?.scores) == expected, format!("{placement}: another answer"))?;
        afforest(&placed, &mut team)?;
        println!("memory: {placement}: lists on the node of their vertex {} of {}", on.0, on.1);
        // A page at either end of a stretch belongs to a neighbour.
        holds(
            on.1 > 100 && on.0 * 100 >= on.1 * 90,
            format!("{placement}: {} of {} lists lie on their node", on.0, on.1),
        )?;
    }
    let maps = std::fs::read_to_string("/proc/self/numa_maps").map_err(|e| Error::io("read numa_maps", e))?;
    for line in maps.lines().filter(|line| line.contains("bind:") || line.contains("interleave:")).take(6) {
        println!("numa_maps: {line}");
    }
    Ok(())
}

/// Of some vertices: how many have their list on their node, and how many there are. Striped vertices share pages, which go in turns.
fn pages(csr: &Csr, owners: &Owners) -> Result<(usize, usize)> {
    let (mut right, mut by_node) = (0, [0usize; 2]);
    for vertex in (0..csr.vertices()).step_by(16) {
        csr.memory_of(vertex..vertex + 1, &mut |memory| {
            if let Memory::Numbers(list) = memory
                && let Some(node) = node_of(list)
            {
                by_node[node as usize % 2] += 1;
                right += usize::from(node as usize == owners.node(vertex as u32));
            }
            Ok(())
        })?;
    }
    let all = by_node.iter().sum();
    Ok(if owners.is_striped() { (2 * by_node[0].min(by_node[1]), all) } else { (right, all) })
}

fn batch(number: u64) -> Vec<Update> {
    let edges = |number: u64| (0..EDGES).map(move |edge| (number, 1_000_000 + number * 7 % 1000 + edge));
    let gone = number.checked_sub(KEPT).into_iter().flat_map(edges);
    let gone = gone.chain(number.checked_sub(1).map(|last| (MARK, last)));
    let inserts = edges(number).chain([(MARK, number)]).map(|(from, to)| Update::InsertEdge(from, to));
    gone.map(|(from, to)| Update::DeleteEdge(from, to)).chain(inserts).collect()
}

fn open(dir: &Path) -> Result<Durable> {
    let options = DurableOptions { checkpoint_bytes: 256 << 10, ..DurableOptions::default() };
    let graph = Durable::open(RealIo::shared(), dir, options, &mut Team::new(1)?)?;
    let media = graph.media();
    let is_real = matches!(media, Media::Pmem(backing) if !backing.is_played());
    holds(is_real, format!("this is no persistent memory: kept on {media}"))?;
    println!("kept on {media}");
    Ok(graph)
}

/// How many batches a graph has.
fn batches(graph: &Durable) -> Result<u64> {
    match &graph.neighbors(MARK).unwrap_or_default()[..] {
        [] => Ok(0),
        [last] => Ok(last + 1),
        several => Err(wrong(format!("a batch is there by half: the mark leads to {several:?}"))),
    }
}

fn write(dir: &Path) -> Result<()> {
    let io = RealIo::shared();
    if !Durable::exists(&*io, dir)? {
        let nothing = Csr::build(0, &[], Shape::DIRECTED, &mut Team::new(1)?)?;
        Durable::create_on_pmem(&io, dir, &nothing, &Ids::dense(0), true)?;
    }
    let graph = open(dir)?;
    let begin = batches(&graph)?;
    println!("goes on after {begin}");
    for number in begin.. {
        graph.apply(&batch(number), Durability::Sync)?;
        println!("acked {}", number + 1);
        std::io::stdout().flush().map_err(|e| Error::io("tell", e))?;
    }
    Ok(())
}

fn check(dir: &Path, acked: u64) -> Result<()> {
    let graph = open(dir)?;
    let found = batches(&graph)?;
    holds(found >= acked, format!("{acked} batches were durable, and {found} are there"))?;
    for number in 0..found + 2 {
        let mut list = graph.neighbors(number).unwrap_or_default();
        list.sort_unstable();
        let is_there = number < found && number + KEPT >= found;
        let expected: Vec<u64> =
            if is_there { (0..EDGES).map(|edge| 1_000_000 + number * 7 % 1000 + edge).collect() } else { Vec::new() };
        holds(list == expected, format!("vertex {number} of {found} batches has {list:?} and not {expected:?}"))?;
    }
    let snapshot = graph.snapshot(&mut Team::new(1)?)?;
    let expected = found.min(KEPT) * EDGES + u64::from(found > 0);
    holds(snapshot.edges() == expected, format!("{} edges after {found} batches", snapshot.edges()))?;
    println!("right: {found} batches, {} edges; {acked} were told to be durable", snapshot.edges());
    Ok(())
}
