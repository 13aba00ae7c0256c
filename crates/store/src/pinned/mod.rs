//! The executor `pinned`: the lanes belong to a few worker threads, each bound to a processor; callers hand their writes over and wait.
//!
//! | room | idea |
//! |---|---|
//! | `queue` | how a write is handed over, and its caller waits |
//! | `worker` | what a worker does with the writes that it takes: one group for each lane, written and synced at once |
//! | `balance` | which worker runs which lane, by the time that lanes take: asked by a store that repartitions itself, ten times a second |
//! | `look` | what is seen of lanes and their callers, and whether that is of one load |
//! | `trial` | whether lanes that have changed their workers are served better, and back if they are not |
//!
//! It is a choice of who runs a write, not of what the write does: a worker takes the lane's lock as any caller does under `direct`, and everything
//! that holds several lanes at once (snapshots, batches over several partitions, moves) goes on as it does there. So a lane may change its worker
//! at any instant, for nothing: what is still in the old one's queue is written by the old one.
//!
//! Writes at `Relaxed` do not wait: over `hard` partitions of an engine with atomic batches whose writes do not wait anyway ([`Deferred`](crate::deferred::Deferred)), their
//! caller leaves them where every read looks first, asks the worker to bring them into the engine ([`Crew::bring`]) and goes on. What
//! gathers meanwhile goes there at once. It is bounded: a caller that finds too much of it brings it in itself. An error there leaves all of it where it
//! is, still seen, and is told by the next flush, or turns the store read-only; a later write tries again.
//!
//! What runs on its caller's thread here, too: reads; batches over several lanes, and `Sync` writes that wait for their engine or share the syncs of
//! the store's journal, which are one record of it, with those of others; read-modify-writes, whose closures stay with their threads; writes of more than
//! [`HAND_OVER_BYTES_MAX`], and what [`write_each`](crate::Store::write_each) loads, which are not worth a copy.
//!
//! Invariants:
//!
//! 1. Who hands a write over holds no lock, and gets an answer: a worker that panics poisons the store and answers `Poisoned`, then and to whoever
//!    comes after.
//! 2. Operations of one caller on one lane are done in its order: it waits for each.
//! 3. A group of a lane is one application to its engine: its members are told the same, but for those that were routed by an older
//!    placement or meet units that change hands, who route again.
//! 4. Who has gathered a write at `Relaxed` asks after that; a worker takes note of what it is asked before it looks what there is. So nothing stays
//!    behind that nobody brings in, but after an error.
//! 5. The workers end before the instances and journals are given up (dropping [`Workers`] waits for them).

mod balance;
mod look;
mod queue;
#[cfg(test)]
pub(crate) mod tests;
mod trial;
#[cfg(test)]
mod trial_tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use biombo_base::clock::monotonic_ns;
use biombo_base::topology;
use biombo_engine::{Batch, Durability, Error, Op, Result};

use crate::intent::{Intents, push_stored};
use crate::lane::{Attempt, Instance, Lane};
use crate::poison::Poison;
use crate::present::Present;
use crate::seam;
use crate::topology::Topology;
use look::{Answers, Look};
use queue::{Queue, Ticket, Wish};
pub(crate) use trial::Evener;

/// Operations larger than this together are written by their caller, uncopied.
pub(crate) const HAND_OVER_BYTES_MAX: u64 = 1 << 20;
/// Neither a ticket nor a worker keeps more room than this for one write to the next.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Tickets that a queue has room for.
const QUEUE_MAX: usize = 1024;

/// A write of one lane.
#[derive(Default)]
struct Work {
    /// In stored form.
    batch: Batch,
    lane: usize,
    /// Of the topology that it was routed by.
    version: u64,
    durability: Durability,
    /// Whether the store's journal can take it before the engine does.
    may_wait: bool,
    asked_ns: u64,
}

type Slip = Arc<Ticket<Work, Result<Attempt>>>;

/// What a worker finds in its queue.
enum Errand {
    /// Somebody waits for this.
    Write(Slip),
    /// Bring what was gathered for a lane into its engine.
    Bring(usize),
}

thread_local! {
    /// A thread waits for one write at a time, whichever store it is of.
    static MINE: Slip = blank();
}

fn blank() -> Slip {
    Arc::new(Ticket::new(Work::default()))
}

/// What workers need of a store.
pub(crate) struct Site {
    pub(crate) instances: Arc<[Instance]>,
    pub(crate) lanes: Arc<[Lane]>,
    pub(crate) intents: Option<Arc<Intents>>,
    pub(crate) topology: Arc<Present<Topology>>,
    pub(crate) poison: Arc<Poison>,
    /// Whether keys are written in stored form, and may wait for their engine: `hard` partitions.
    pub(crate) hard: bool,
}

/// What callers and workers share.
pub(crate) struct Crew {
    site: Site,
    queues: Box<[Queue<Errand>]>,
    /// The worker of each lane.
    worker_of: Box<[AtomicU32]>,
    /// Of each lane: to bring in what was gathered.
    wishes: Box<[Wish]>,
    /// What each lane took since loads were evened last.
    took_ns: Box<[AtomicU64]>,
    /// How long users of each lane waited for answers since loads were evened last.
    answers: Box<[Answered]>,
    /// How often a lane has changed its worker.
    reassigned: AtomicU64,
}

/// Writes to a lane that were answered, and how long that took. Each on a line of its own: the callers of all lanes write here.
#[derive(Default)]
#[repr(align(64))]
struct Answered {
    count: AtomicU64,
    took_ns: AtomicU64,
}

/// The threads.
pub(crate) struct Workers {
    pub(crate) crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Start `count` workers, or as many as there are lanes if those are fewer. What could not be bound to a processor is told to `warn`.
    pub(crate) fn start(site: Site, count: u32, warn: &mut dyn FnMut(String)) -> Result<Self> {
        let lanes = site.lanes.len();
        let count = (count as usize).clamp(1, lanes.max(1));
        let crew = Arc::new(Crew {
            site,
            queues: (0..count).map(|_| Queue::new(QUEUE_MAX)).collect(),
            worker_of: (0..lanes).map(|lane| AtomicU32::new((lane % count) as u32)).collect(),
            wishes: (0..lanes).map(|_| Wish::new()).collect(),
            took_ns: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            answers: (0..lanes).map(|_| Answered::default()).collect(),
            reassigned: AtomicU64::new(0),
        });
        let cpus = topology::Topology::detect().cpus();
        let mut workers = Self { crew, threads: Vec::new() };
        for number in 0..count {
            let (say, bound) = std::sync::mpsc::sync_channel(1);
            let (crew, cpu) = (Arc::clone(&workers.crew), cpus.get(number % cpus.len().max(1)).copied());
            let run = move || {
                let pinned = cpu.map_or(Ok(()), |cpu| topology::pin_current_thread(&[cpu]));
                // Nobody listens once the opening was given up.
                let _ = say.send(pinned);
                crew.run(number);
            };
            let begun = Builder::new().name(format!("biombo-work-{number}")).spawn(run);
            workers.threads.push(begun.map_err(|e| Error::io("start a worker", e))?);
            if let Ok(Err(error)) = bound.recv() {
                warn(format!("worker {number} is bound to no processor: {error}"));
            }
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.crew.queues.iter().for_each(Queue::close);
        for thread in self.threads.drain(..) {
            // What panicked in it was answered, and has poisoned the store.
            let _ = thread.join();
        }
    }
}

impl Crew {
    /// Write users' operations, which belong to one lane and were checked, by its worker. The caller holds no lock.
    pub(crate) fn write(
        &self,
        lane: usize,
        version: u64,
        ops: &[Op<'_>],
        durability: Durability,
        may_wait: bool,
    ) -> Result<Attempt> {
        let slip = MINE.try_with(Arc::clone).unwrap_or_else(|_| blank());
        let asked_ns = monotonic_ns();
        slip.fill(|work| {
            work.batch.clear();
            for op in ops {
                if self.site.hard {
                    push_stored(&mut work.batch, op);
                } else {
                    work.batch.push(*op);
                }
            }
            (work.lane, work.version, work.durability, work.may_wait) = (lane, version, durability, may_wait);
            work.asked_ns = asked_ns;
        });
        seam::pass(seam::Point::Lock);
        self.hand_over(lane, Errand::Write(Arc::clone(&slip)))?;
        let answer = slip.wait();
        let answered = &self.answers[lane];
        answered.count.fetch_add(1, Ordering::Relaxed);
        answered.took_ns.fetch_add(monotonic_ns().saturating_sub(asked_ns), Ordering::Relaxed);
        answer
    }

    /// Have what was gathered for a lane brought into its engine, soon. The caller holds no lock.
    pub(crate) fn bring(&self, lane: usize) -> Result<()> {
        if self.wishes[lane].have() { self.hand_over(lane, Errand::Bring(lane)) } else { Ok(()) }
    }

    fn hand_over(&self, lane: usize, errand: Errand) -> Result<()> {
        let worker = self.worker_of[lane].load(Ordering::Relaxed) as usize;
        let closed = |_| Error::poisoned("the worker of this partition has ended");
        self.queues[worker].push(errand).map_err(closed)
    }

    /// How many workers there are.
    pub(crate) fn count(&self) -> u32 {
        self.queues.len() as u32
    }

    /// The worker of each lane, at this moment.
    pub(crate) fn worker_of(&self) -> Vec<u32> {
        self.worker_of.iter().map(|worker| worker.load(Ordering::Relaxed)).collect()
    }

    /// Give lanes to other workers where that evens what these have to do, and back where users gain nothing by it; one caller at a time, which
    /// says how long ago it was here last.
    pub(crate) fn even(&self, evener: &mut Evener, elapsed_ns: u64) {
        let mut worker_of = self.worker_of();
        let took_ns = self.took_ns.iter().map(|took_ns| took_ns.swap(0, Ordering::Relaxed)).collect();
        let taken =
            |of: fn(&Answered) -> &AtomicU64| self.answers.iter().map(|its| of(its).swap(0, Ordering::Relaxed)).sum();
        let answers = Answers { count: taken(|its| &its.count), took_ns: taken(|its| &its.took_ns), elapsed_ns };
        let changed = evener.look(Look { took_ns, answers }, &mut worker_of, self.count());
        self.reassigned.fetch_add(changed, Ordering::Relaxed);
        for (worker, new) in self.worker_of.iter().zip(worker_of) {
            worker.store(new, Ordering::Relaxed);
        }
    }

    /// How often a lane has changed its worker.
    pub(crate) fn reassigned(&self) -> u64 {
        self.reassigned.load(Ordering::Relaxed)
    }
}
