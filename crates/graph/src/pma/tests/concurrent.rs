//! Several write while snapshots are taken: each is the graph after some first batches, whole ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::*;

/// Draws numbers; the same ones for the same seed.
pub(in crate::pma) struct Draw(pub(in crate::pma) u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(below)) >> 64) as u64
    }

    pub(in crate::pma) fn batch(&mut self) -> Vec<Update> {
        let length = [1, 3, 40, 300][self.next(4) as usize];
        let ids = [20, 4000][self.next(2) as usize];
        (0..length)
            .map(|_| {
                let (a, b) = (self.next(ids), self.next(4000));
                match self.next(200) {
                    0 => Update::DeleteVertex(a + (1 << 33) * self.next(2)),
                    1 => Update::InsertEdge(a + (1 << 33), b),
                    2..120 => Update::InsertEdge(a, b),
                    _ => Update::DeleteEdge(a, b),
                }
            })
            .collect()
    }
}

/// At so many points in the history, at least, snapshots must be taken while it goes on.
pub(in crate::pma) const AMONG_MIN: usize = 3;

/// Two writers without regard for each other, and this thread, which takes snapshots; then all of it once more on the model.
fn snapshots_are_exact<L: Layout>(shape: Shape, tuning: Tuning, time: Duration, seed: u64) {
    let graph = Changing::<L>::tuned(shape, tuning).unwrap();
    let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut applied, kept, said) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (graph, stop, batches) = (&graph, &stop, &batches);
                scope.spawn(move || {
                    let (mut draw, mut applied) = (Draw(seed * 2 + writer + 1), Vec::new());
                    while !stop.load(Relaxed) {
                        let batch = draw.batch();
                        applied.push((graph.apply(&batch).unwrap(), batch));
                        batches.fetch_add(1, Relaxed);
                    }
                    applied
                })
            })
            .collect();
        let (mut team, mut kept, mut said) = (team(), Vec::new(), Vec::<(u64, usize, u64)>::new());
        let (begun, mut points) = (Instant::now(), 0);
        // A loaded machine may need longer until batches come at all.
        while begun.elapsed() < time || points < 2 * AMONG_MIN && begun.elapsed() < 100 * time {
            let snapshot = graph.snapshot(&mut team).unwrap();
            points += usize::from(said.last().is_none_or(|(last, ..)| *last < snapshot.sequence()));
            said.push((snapshot.sequence(), snapshot.vertices(), snapshot.edges()));
            // A few are kept while the graph changes, most are let go at once.
            if kept.len() < 12 || kept.len() < 50 && snapshot.sequence().is_multiple_of(64) {
                kept.push(snapshot);
            }
        }
        stop.store(true, Relaxed);
        kept.push(graph.snapshot(&mut team).unwrap());
        let applied = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>();
        kept.push(graph.snapshot(&mut team).unwrap());
        (applied, kept, said)
    });
    applied.sort_by_key(|(sequence, _)| *sequence);
    assert!(
        applied.iter().map(|(sequence, _)| *sequence).eq(1..=applied.len() as u64),
        "batches have numbers of their own"
    );
    let counts: HashMap<u64, (usize, u64)> =
        said.iter().map(|(at, vertices, edges)| (*at, (*vertices, *edges))).collect();
    assert!(
        said.iter().all(|(at, vertices, edges)| counts[at] == (*vertices, *edges)),
        "snapshots of one point differ"
    );
    let mut model = Model::new(shape);
    let mut made = 0;
    let (count, last) = (kept.len(), kept.last().unwrap().sequence());
    assert_eq!(last as usize, applied.len());
    for snapshot in kept {
        while made < snapshot.sequence() as usize {
            model.apply(&applied[made].1);
            made += 1;
            if let Some(counts) = counts.get(&(made as u64)) {
                assert_eq!(*counts, model.counts(), "seed {seed}: vertices and edges after {made} batches");
            }
        }
        model.check(&snapshot).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    // Between the first batch and the last one: the others show nothing.
    let among = counts.keys().filter(|at| (1..last).contains(at)).count();
    assert!(among >= AMONG_MIN, "seed {seed}: {among} points of {last} batches were seen while they came");
    println!("{count} of {} snapshots were kept, at {among} points while batches came, of {last} batches", said.len());
}

#[test]
fn snapshots_are_exact_while_two_write() {
    over_layouts!(exact_while_two_write());
}

fn exact_while_two_write<L: Layout>() {
    let time = Duration::from_millis(150);
    for (seed, shape) in [(1, Shape::UNDIRECTED), (2, Shape::DIRECTED)] {
        snapshots_are_exact::<L>(shape, Tuning::EAGER, time, seed);
        snapshots_are_exact::<L>(shape, L::TUNING, time, seed + 10);
    }
}

#[test]
#[ignore = "ten minutes: `make soak`"]
fn soak_two_writers_and_snapshots_for_ten_minutes() {
    let begun = Instant::now();
    let mut seed = 100;
    while begun.elapsed() < Duration::from_secs(600) {
        for shape in [Shape::UNDIRECTED, Shape::DIRECTED] {
            over_layouts!(snapshots_are_exact(shape, Tuning::EAGER, Duration::from_secs(2), seed));
            seed += 1;
        }
    }
}
