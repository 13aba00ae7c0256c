//! SIGKILL at random times of graphs that take insertions and deletions: every acknowledged batch is there, no batch is halved, and the graph is
//! exactly what a model says after as many batches, vertex by vertex, in both directions.
//!
//! Two kinds of children: one uses the library with two writers, segments and checkpoints so small that there are several of both between
//! any two kills; the other one is `biombo graph add --acks` or `delete --acks`, with what it brings by default. Each on disk, and on persistent
//! memory, which a file plays where there is none. `BIOMBO_KILL_GRAPH_ROUNDS` is the number of kills of each, 8 unless set; `make crash` sets 100.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use biombo::graph::csr::{Csr, Shape};
use biombo::graph::ids::Ids;
use biombo::graph::pma::{Durability, Durable, DurableOptions, Update};
use biombo::graph::team::Team;
use biombo::graph::view::View;
use biombo_base::io::{Io, RealIo};
use biombo_journal::JournalOptions;
use common::kill::{Dice, MORE_ROUNDS, ROUNDS_A_STORE, kill_soon, report, rounds, this_program};
use common::{command, run, words};
use tempfile::tempdir;

/// The environment variable that turns this test program into the child that writes: a durability, a medium, a kind of graph and a directory.
const CHILD: &str = "BIOMBO_KILL_GRAPH_CHILD";
const ROUNDS: &str = "BIOMBO_KILL_GRAPH_ROUNDS";
/// Threads that change vertices of their own.
const WRITERS: u64 = 2;
/// Vertices of a writer; further on are those that say which batch was the last.
const IDS: u64 = 300;
const MARKS: u64 = 1_000;
/// A checkpoint is due after so many bytes of batches: after some hundred of them.
const CHECKPOINT_BYTES: u64 = 20 << 10;

/// The batch of a writer: its one edge from its vertex 0 leads to the batch's number, and other edges and vertices come and go.
fn batch(writer: u64, number: u64) -> Vec<Update> {
    let base = writer << 40;
    let mark = |number: u64| base + MARKS + number;
    let mut dice = Dice(writer * 1_000_003 + number * 7_919 + 1);
    let mut updates = vec![Update::InsertEdge(base, mark(number))];
    if number > 0 {
        updates.push(Update::DeleteEdge(base, mark(number - 1)));
    }
    let deletes_vertices = number % 8 == 7;
    if deletes_vertices {
        updates.extend((number.saturating_sub(8)..number).map(|old| Update::DeleteVertex(mark(old))));
    }
    for _ in 0..dice.below(40) {
        let (a, b) = (base + 1 + dice.below(IDS), base + 1 + dice.below(IDS));
        updates.push(match dice.below(12) {
            0..4 => Update::DeleteEdge(a, b),
            4 => Update::InsertVertex(a),
            5 if deletes_vertices => Update::DeleteVertex(a),
            _ => Update::InsertEdge(a, b),
        });
    }
    updates
}

/// How many batches of a writer the graph has.
fn batches(graph: &Durable, writer: u64) -> u64 {
    let base = writer << 40;
    let marks = graph.neighbors(base).unwrap_or_default();
    assert!(marks.len() <= 1, "a batch of writer {writer} is halved: {marks:?}");
    marks.first().map_or(0, |mark| mark - base - MARKS + 1)
}

/// What a writer's vertices are after its first batches.
#[derive(Default)]
struct Model {
    is_directed: bool,
    batches: u64,
    lists: BTreeMap<u64, BTreeSet<u64>>,
}

impl Model {
    fn up_to(&mut self, writer: u64, batches: u64) {
        for number in self.batches..batches {
            batch(writer, number).iter().for_each(|update| self.apply(update));
        }
        self.batches = batches;
    }

    fn remove(&mut self, from: u64, to: u64) {
        if let Some(list) = self.lists.get_mut(&from) {
            list.remove(&to);
        }
    }

    fn apply(&mut self, update: &Update) {
        match *update {
            Update::InsertEdge(a, b) => {
                self.lists.entry(a).or_default().insert(b);
                let back = self.lists.entry(b).or_default();
                if !self.is_directed {
                    back.insert(a);
                }
            }
            Update::DeleteEdge(a, b) => {
                self.remove(a, b);
                if !self.is_directed {
                    self.remove(b, a);
                }
            }
            Update::InsertVertex(a) => _ = self.lists.entry(a).or_default(),
            Update::DeleteVertex(a) => {
                self.lists.remove(&a);
                self.lists.values_mut().for_each(|list| _ = list.remove(&a));
            }
        }
    }
}

fn options() -> DurableOptions {
    let journal = JournalOptions { segment_bytes: 64 << 10, ..JournalOptions::default() };
    DurableOptions { journal, checkpoint_bytes: CHECKPOINT_BYTES, ..DurableOptions::default() }
}

fn create(io: &Arc<dyn Io>, dir: &Path, medium: &str, shape: Shape) {
    let nothing = Csr::build(0, &[], shape, &mut Team::new(1).expect("a thread")).expect("a graph");
    match medium {
        "pmem" => {
            let ids = Ids::dense(0);
            Durable::create_on_pmem(io, dir, &nothing, &ids, shape.keeps_loops).expect("a graph on pmem");
        }
        _ => Durable::create(io, dir, shape).expect("a graph on disk"),
    }
}

/// Not a test: the child. It changes the graph until it is killed, prints `ack writer number` for each batch, and `did checkpoints` now and
/// then.
#[test]
fn child_that_changes_a_graph() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut words = task.splitn(4, ' ');
    let mut word = || words.next().expect("four words");
    let (durability, medium, kind, dir) = (word(), word(), word(), Path::new(word()));
    let durability = if durability == "sync" { Durability::Sync } else { Durability::Os };
    let io = RealIo::shared();
    if !Durable::exists(&*io, dir).expect("a look") {
        create(&io, dir, medium, if kind == "directed" { Shape::DIRECTED } else { Shape::UNDIRECTED });
    }
    let graph = Durable::open(io, dir, options(), &mut Team::new(1).expect("a thread")).expect("the graph opens");
    let (logged, checkpoints) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (graph, logged, checkpoints) = (&graph, &logged, &checkpoints);
            scope.spawn(move || {
                for number in batches(graph, writer).. {
                    graph.apply(&batch(writer, number), durability).expect("a batch");
                    println!("ack {writer} {number}");
                    // A checkpoint takes away all that was logged when it began, nothing else takes anything.
                    let now = graph.logged_bytes();
                    if now + CHECKPOINT_BYTES / 2 < logged.swap(now, Relaxed) {
                        println!("did {}", checkpoints.fetch_add(1, Relaxed) + 1);
                    }
                }
            });
        }
    });
}

/// What a child was heard to say before it died.
#[derive(Default)]
struct Heard {
    acked: BTreeMap<u64, u64>,
    checkpoints: u64,
}

impl Heard {
    /// Take a line of the child's in; whether it acknowledges a batch.
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<_> = line.split(' ').skip_while(|word| !["ack", "did"].contains(word)).collect();
        match words[..] {
            ["ack", writer, number] => {
                let (Ok(writer), Ok(number)) = (writer.parse(), number.parse()) else { return false };
                self.acked.insert(writer, number);
                true
            }
            ["did", checkpoints] => {
                self.checkpoints = checkpoints.parse().map_or(self.checkpoints, |n| self.checkpoints.max(n));
                false
            }
            _ => false,
        }
    }
}

/// Every vertex with its out-neighbours and its in-neighbours.
fn lists(graph: &Durable, inward: bool) -> BTreeMap<u64, BTreeSet<u64>> {
    let snapshot = graph.snapshot(&mut Team::new(1).expect("a thread")).expect("a snapshot");
    snapshot.verify().expect("a sound graph");
    let id = |vertex: u32| snapshot.id(vertex).expect("an id");
    let list = |vertex: u32| {
        let its = if inward { snapshot.in_neighbors(vertex) } else { snapshot.out_neighbors(vertex) };
        its.iter().map(|neighbor| id(*neighbor)).collect()
    };
    (0..snapshot.vertices() as u32).map(|vertex| (id(vertex), list(vertex))).collect()
}

/// Kill children of the library, round after round; what is left must be the model's.
fn kill_writers(medium: &str) {
    let rounds = rounds(ROUNDS, 8);
    let begin = Instant::now();
    let mut dice = Dice(42 + medium.len() as u64);
    let mut dir = tempdir().expect("a directory");
    let (mut models, mut is_directed) = (Vec::new(), true);
    let (mut busy, mut checkpoints, mut taken, mut edges, mut kept_on) = (0, 0, 0, 0, medium.to_owned());
    let mut done = 0;
    for round in 0..rounds * MORE_ROUNDS {
        if round >= rounds && busy * 2 >= rounds && checkpoints * 2 >= rounds {
            break;
        }
        done = round + 1;
        if round % ROUNDS_A_STORE.min(rounds.div_ceil(2)).max(1) == 0 {
            dir = tempdir().expect("a directory");
            is_directed = !is_directed;
            models = (0..WRITERS).map(|_| Model { is_directed, ..Model::default() }).collect();
        }
        let durability = if round % 2 == 0 { "sync" } else { "os" };
        let kind = if is_directed { "directed" } else { "undirected" };
        let what = format!("{medium}, {durability}, {kind}, round {round}");
        let at = dir.path().join("g");
        let child = this_program("child_that_changes_a_graph", CHILD, &format!("{durability} {medium} {kind}"), &at);
        let heard = kill_soon(child, &mut dice, &what, Heard::hear);
        busy += u64::from(!heard.acked.is_empty());
        checkpoints += heard.checkpoints;
        let io = RealIo::shared();
        if !Durable::exists(&*io, &at).expect("a look") {
            assert!(
                heard.acked.is_empty() && models.iter().all(|model| model.batches == 0),
                "{what}: the graph is gone"
            );
            continue;
        }
        run("graph verify DIR/g", dir.path()).ok();
        let graph = Durable::open(io, &at, DurableOptions::default(), &mut Team::new(1).expect("a thread"));
        let graph = graph.unwrap_or_else(|e| panic!("{what}: {e}"));
        kept_on = graph.media().to_string();
        let mut expected = BTreeMap::new();
        for (writer, model) in (0..).zip(&mut models) {
            let found = batches(&graph, writer);
            let promised = heard.acked.get(&writer).map_or(model.batches, |number| number + 1);
            assert!(found >= promised, "{what}: {promised} batches of {writer} were promised, {found} are there");
            taken += found - model.batches;
            model.up_to(writer, found);
            expected.extend(model.lists.clone());
        }
        edges += expected.values().map(|list| list.len() as u64).sum::<u64>();
        assert!(lists(&graph, false) == expected, "{what}: other edges than after as many batches");
        let mut turned: BTreeMap<u64, BTreeSet<u64>> = expected.keys().map(|id| (*id, BTreeSet::new())).collect();
        for (from, list) in &expected {
            list.iter().for_each(|to| _ = turned.entry(*to).or_default().insert(*from));
        }
        assert!(lists(&graph, true) == turned, "{what}: other in-edges than after as many batches");
    }
    report(&format!(
        "graph on {medium} ({kept_on}): {done} kills, {busy} of writers at work; {taken} batches, at least {checkpoints} checkpoints, \
         {edges} edges compared with a model in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(busy * 2 >= rounds, "only {busy} of {done} kills hit a writer at work: nothing is shown");
    assert!(checkpoints * 2 >= rounds, "{checkpoints} checkpoints in {done} rounds: nothing is shown of them");
}

#[test]
fn a_graph_on_disk_that_is_changed_and_saved_while_it_is_killed_is_what_was_acknowledged() {
    kill_writers("disk");
}

#[test]
fn a_graph_on_persistent_memory_that_is_changed_and_saved_while_it_is_killed_is_what_was_acknowledged() {
    kill_writers("pmem");
}

/// The edges that the commands are fed with, no two alike.
fn edge(number: u64) -> (u64, u64) {
    (number % 1_000, (1 << 33) + number / 1_000)
}

/// Feed edges to `graph add --acks` and `graph delete --acks` in turns and kill them: what is there are the edges from the first one that was not
/// deleted to the last one that was added.
fn kill_commands(medium: &str) {
    let rounds = rounds(ROUNDS, 8);
    let begin = Instant::now();
    let mut dice = Dice(77 + medium.len() as u64);
    let mut dir = tempdir().expect("a directory");
    let (mut first, mut end, mut busy, mut acked_all, mut round) = (0u64, 0u64, 0, 0, 0);
    while round < rounds || (busy * 2 < rounds && round < rounds * MORE_ROUNDS) {
        if round % ROUNDS_A_STORE == 0 {
            (dir, first, end) = (tempdir().expect("a directory"), 0, 0);
            let loaded = common::biombo_with(words(&format!("graph load DIR/g - --media {medium}"), dir.path()), b"");
            assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""));
        }
        let adds = round % 3 != 2;
        let line = format!("graph {} DIR/g - --acks", if adds { "add" } else { "delete" });
        let mut child = command()
            .args(words(&line, dir.path()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let from = if adds { end } else { first };
        let feeder = std::thread::spawn(move || {
            // Some 40,000 edges a second. The pipe breaks when the reader is killed.
            for number in from.. {
                let (a, b) = edge(number);
                if writeln!(stdin, "{a} {b}").is_err() {
                    return;
                }
                if number % 40 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let what = format!("{line} on {medium}, round {round}");
        let acked = kill_soon(child, &mut dice, &what, |acked: &mut u64, line| {
            let told = line.strip_prefix("acked ").and_then(|lines| lines.parse().ok());
            told.inspect(|lines| *acked = *lines).is_some()
        });
        feeder.join().expect("the feeder ends");
        busy += u64::from(acked > 0);
        acked_all += acked;
        run("graph verify DIR/g", dir.path()).ok();
        let graph = Durable::open(
            RealIo::shared(),
            &dir.path().join("g"),
            DurableOptions::default(),
            &mut Team::new(1).expect("a thread"),
        );
        let found = lists(&graph.unwrap_or_else(|e| panic!("{what}: {e}")), false);
        let mut numbers: Vec<u64> =
            found.iter().flat_map(|(a, list)| list.iter().map(move |b| (b - (1 << 33)) * 1_000 + a)).collect();
        numbers.sort_unstable();
        if adds {
            end = numbers.last().map_or(end, |last| last + 1);
            assert!(end >= from + acked, "{what}: {acked} edges were acknowledged, those up to {end} are there");
        } else {
            first = numbers.first().copied().unwrap_or(end);
            assert!(first >= (from + acked).min(end), "{what}: {acked} edges went, those from {first} on are there");
        }
        assert!(
            numbers.iter().copied().eq(first..end),
            "{what}: not all edges from {first} to {end} are there, or others"
        );
        round += 1;
    }
    report(&format!(
        "biombo graph add and delete on {medium}: {round} kills, {busy} of a command at work; {acked_all} acknowledged edges in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(busy * 2 >= rounds, "only {busy} of {round} kills hit a command at work: nothing is shown");
}

#[test]
fn graph_add_and_delete_on_disk_lose_nothing_acknowledged() {
    kill_commands("disk");
}

#[test]
fn graph_add_and_delete_on_persistent_memory_lose_nothing_acknowledged() {
    kill_commands("pmem");
}
