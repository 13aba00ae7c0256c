//! Edges that come in batches, from several threads at once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biombo_base::io::{Io, RealIo};
use biombo_base::{Error, Result};
use biombo_graph::Edge;
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::ids::Ids;
use biombo_graph::media::Backing;
use biombo_graph::pma::{Changing, Durability, Durable, DurableChanging, DurableOptions, Layout, Update};
use biombo_graph::team::Team;
use biombo_graph::view::View;

use super::loaded::Behind;
use super::{Media, Memory, Plan};
use crate::measure::file_system;

/// Updates of a batch, where nobody says otherwise.
pub const BATCH: usize = 1 << 16;

/// Another order, the same for the same order.
pub(super) fn shuffle(edges: &mut [Edge]) {
    let mut state = 1u64;
    for at in (1..edges.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        edges.swap(at, ((u128::from(state) * (at as u128 + 1)) >> 64) as usize);
    }
}

/// Hand `take` an update of each edge, in batches of `size` that the threads take in turns.
pub(super) fn apply(
    edges: &[Edge],
    ids: &Ids,
    (threads, size): (usize, usize),
    update: fn(u64, u64) -> Update,
    take: impl Fn(&[Update]) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let id = |vertex: u32| ids.id(vertex).expect("invariant: edges lead between vertices that have ids");
    let work = || -> Result<()> {
        let mut batch = Vec::with_capacity(size.min(edges.len()));
        loop {
            let begin = next.fetch_add(size, Relaxed);
            let Some(share) = edges.get(begin..(begin + size).min(edges.len())).filter(|share| !share.is_empty())
            else {
                return Ok(());
            };
            batch.clear();
            batch.extend(share.iter().map(|[source, target]| update(id(*source), id(*target))));
            take(&batch)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// The fewest updates of a batch, and how many come a second where there are more.
const STREAM: (u64, u64) = (64, 100);

/// Do `work` while another thread deletes edges from `graph` and inserts them again, `rate` updates a second as far as it gets; what came of the
/// work, and how many a second it got to. In the end the graph has the edges that it had.
pub(super) fn meanwhile<L: Layout, T>(
    graph: &Changing<L>,
    edges: &[Edge],
    ids: &Ids,
    rate: u64,
    work: impl FnOnce() -> T,
) -> Result<(T, f64)> {
    let is_over = AtomicBool::new(false);
    let id = |vertex: u32| ids.id(vertex).expect("invariant: edges lead between vertices that have ids");
    let size = (rate / STREAM.1).clamp(STREAM.0, BATCH as u64) as usize;
    let stream = || -> Result<f64> {
        let (begun, mut updates, mut batch) = (Instant::now(), 0u64, Vec::with_capacity(size));
        // Whole rounds alone, one at least: what was deleted is inserted before it ends.
        for share in edges.chunks(size).cycle() {
            for update in [Update::DeleteEdge, Update::InsertEdge] {
                batch.clear();
                batch.extend(share.iter().map(|[source, target]| update(id(*source), id(*target))));
                graph.apply(&batch)?;
                updates += share.len() as u64;
                let due = Duration::from_secs_f64(updates as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
            if is_over.load(Relaxed) {
                break;
            }
        }
        Ok(updates as f64 / begun.elapsed().as_secs_f64())
    };
    /// Also when the work panics.
    struct Ended<'a>(&'a AtomicBool);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let stream = scope.spawn(stream);
        let ended = Ended(&is_over);
        let done = work();
        drop(ended);
        let per_s = stream.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((done, per_s))
    })
}

/// What ingest came to.
pub(super) struct Ingested {
    /// Of the stream; no checkpoint was due in it.
    pub(super) seconds: f64,
    /// How long its batches took, but for very small ones.
    pub(super) batches: Option<BatchTimes>,
    /// Of the first snapshot after it, which merges what waits.
    pub(super) snapshot_seconds: f64,
    /// Of a checkpoint after that, where the graph is kept.
    pub(super) checkpoint_seconds: Option<f64>,
    pub(super) memory: Memory,
    /// Stored ones.
    pub(super) edges: u64,
    /// What is behind the medium `pmem`, and whether it is played.
    pub(super) pmem: Option<Behind>,
}

/// How long batches took to be acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTimes {
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
}

/// Batches of at least so many updates are timed: looking at a clock twice is nothing beside them.
const TIMED_MIN: usize = 64;

/// Times of batches, from all threads.
#[derive(Default)]
struct Timer {
    ns: Mutex<Vec<u64>>,
}

impl Timer {
    fn time(&self, batch: &[Update], take: impl FnOnce() -> Result<()>) -> Result<()> {
        if batch.len() < TIMED_MIN {
            return take();
        }
        let begun = Instant::now();
        take()?;
        let ns = begun.elapsed().as_nanos() as u64;
        self.ns.lock().unwrap_or_else(PoisonError::into_inner).push(ns);
        Ok(())
    }

    fn times(self) -> Option<BatchTimes> {
        let mut ns = self.ns.into_inner().unwrap_or_else(PoisonError::into_inner);
        ns.sort_unstable();
        let at = |share: f64| ns[((ns.len() - 1) as f64 * share).round() as usize];
        (!ns.is_empty()).then(|| BatchTimes { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: at(1.0) })
    }
}

/// What `work` gives, and how long it takes.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

/// What is behind `pmem` in `dir`, in a few words.
pub(super) fn behind(backing: Backing, dir: &Path) -> String {
    match backing {
        Backing::Dax(lines) => format!("MAP_SYNC, {lines}"),
        Backing::Memory(lines) => format!("played by memory, {lines}"),
        Backing::File => {
            format!("played by a file on {}", file_system(dir).as_deref().unwrap_or("a file system without a name"))
        }
    }
}

/// A graph of all vertices and a tenth of the edges, in the layout `L`, takes the others in.
pub(super) fn ingest<L: Layout>(
    plan: &Plan,
    media: Media,
    edges: &[Edge],
    ids: &Ids,
    shape: Shape,
    threads: usize,
    team: &mut Team,
) -> Result<Ingested> {
    let (base, streamed) = edges.split_at(edges.len() / 10);
    let base = Csr::build(ids.len(), base, shape, team)?;
    if media == Media::Dram {
        let graph = Changing::<L>::from_view(&base, ids, shape.keeps_loops, team)?;
        drop(base);
        let (begun, timer) = (Instant::now(), Timer::default());
        let take = |batch: &[Update]| timer.time(batch, || graph.apply(batch).map(drop));
        apply(streamed, ids, (threads, plan.batch), Update::InsertEdge, take)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (snapshot, snapshot_seconds) = timed(|| graph.snapshot(team))?;
        let (memory, edges, checkpoint_seconds) = (Memory::of(&graph), snapshot.edges(), None);
        let batches = timer.times();
        return Ok(Ingested { seconds, batches, snapshot_seconds, checkpoint_seconds, memory, edges, pmem: None });
    }
    let io: Arc<dyn Io> = RealIo::shared();
    let dir = plan.dir.join(format!("biombo-bench-graph-{}", std::process::id()));
    let measured = (|| {
        let backing = match media {
            Media::Pmem => Some(Durable::create_on_pmem(&io, &dir, &base, ids, shape.keeps_loops)?),
            _ => {
                Durable::create_from(&io, &dir, &base, ids, shape.keeps_loops)?;
                None
            }
        };
        drop(base);
        // A checkpoint is measured apart: by default one is due every 256 MiB, so that graphs of some sizes would have one in their figure.
        let options = DurableOptions { checkpoint_bytes: u64::MAX, ..DurableOptions::default() };
        let graph = DurableChanging::<L>::open(io.clone(), &dir, options, team)?;
        let (begun, timer) = (Instant::now(), Timer::default());
        let take = |batch: &[Update]| timer.time(batch, || graph.apply(batch, Durability::Sync).map(drop));
        apply(streamed, ids, (threads, plan.batch), Update::InsertEdge, take)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (snapshot, snapshot_seconds) = timed(|| graph.snapshot(team))?;
        let memory = Memory { bytes: graph.memory_bytes(), in_edges: graph.in_edges_memory_bytes() };
        let edges = snapshot.edges();
        drop(snapshot);
        let ((), checkpoint_seconds) = timed(|| graph.checkpoint())?;
        let pmem = backing.map(|backing| (behind(backing, &dir), backing.is_played()));
        let (checkpoint_seconds, batches) = (Some(checkpoint_seconds), timer.times());
        Ok(Ingested { seconds, batches, snapshot_seconds, checkpoint_seconds, memory, edges, pmem })
    })();
    let removed = io.remove_dir_all(&dir).map_err(|e| Error::io(format_args!("remove {}", dir.display()), e));
    measured.and_then(|measured| removed.map(|()| measured))
}
