//! A team of threads that works through loops together; see [`Team`].
//!
//! Own instead of a general pool: kernels run hundreds of short loops a second, so that threads wait for the next one awake for a
//! while; threads can be pinned; results must not depend on which thread did what. There is one call that begins a loop on
//! all threads and returns when all are done; everything else is safe code over it.
//!
//! Invariants:
//! 1. A loop runs on every thread of the team exactly once, and [`Team::run`] returns or unwinds only after all have ended.
//! 2. One loop at a time: `run` borrows the team mutably, so that loops neither nest nor meet.

#[expect(unsafe_code, reason = "a borrow lent to other threads, under a rule of SAFETY.md")]
mod call;
mod nodes;
mod rounds;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use biombo_base::topology::{Topology, pin_current_thread};
use biombo_base::{Error, Result};

use crate::media::Spares;
use call::Call;
pub use nodes::Bind;
use nodes::Bound;
use rounds::Rounds;

/// The most threads of a team.
const THREADS_MAX: usize = 1024;

/// Threads that work through loops together. The thread that calls is one of them.
///
/// ```
/// use biombo_graph::team::Team;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let mut team = Team::new(2)?;
/// let sum = AtomicU64::new(0);
/// team.blocks(1000, 64, |_, block| {
///     sum.fetch_add(block.map(|n| n as u64).sum(), Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub struct Team {
    shared: Arc<Shared>,
    threads: usize,
    others: Vec<JoinHandle<()>>,
    /// The processor that each thread was bound to.
    cpus: Option<Vec<u32>>,
    /// Where the caller runs while it works.
    caller_cpu: Option<u32>,
    /// Memory that its kernels have used, for the next ones.
    spares: Arc<Spares>,
}

/// What the team's threads share.
struct Shared {
    rounds: Rounds<Call>,
    /// What the first thread that panicked said.
    panic: Mutex<Option<Payload>>,
}

type Payload = Box<dyn std::any::Any + Send>;

impl Team {
    /// A team of `threads`, the caller included, which run where the system lets them.
    ///
    /// # Errors
    /// `Invalid` for none or more than 1,024; `Io` when the system gives no more threads.
    pub fn new(threads: usize) -> Result<Self> {
        Self::with_cpus(threads, None)
    }

    /// A team with a thread for each processor that this process may use, each pinned to its own. The caller, which is the first
    /// of them, is not pinned.
    ///
    /// # Errors
    /// As [`new`](Self::new); `Invalid` when `threads` are more than there are processors.
    pub fn pinned(threads: usize) -> Result<Self> {
        let cpus = Topology::detect().cpus();
        if threads > cpus.len() {
            let there = cpus.len();
            return Err(Error::invalid(format!("{threads} threads cannot be pinned to {there} processors: use fewer")));
        }
        Self::with_cpus(threads, Some(cpus))
    }

    fn with_cpus(threads: usize, cpus: Option<Vec<u32>>) -> Result<Self> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(Error::invalid(format!("a team has 1 to {THREADS_MAX} threads, not {threads}")));
        }
        let shared = Arc::new(Shared { rounds: Rounds::new(), panic: Mutex::default() });
        let mut team =
            Self { shared, threads, others: Vec::new(), cpus: cpus.clone(), caller_cpu: None, spares: Arc::default() };
        for thread in 1..threads {
            let shared = team.shared.clone();
            let cpu = cpus.as_ref().map(|cpus| cpus[thread]);
            let other = std::thread::Builder::new().name(format!("graph-{thread}")).spawn(move || {
                // A processor that went away since is no reason to fail: the thread runs anywhere.
                let _ = cpu.map(|cpu| pin_current_thread(&[cpu]));
                follow(&shared, thread);
            });
            team.others.push(other.map_err(|e| Error::io("start a thread", e))?);
        }
        Ok(team)
    }

    /// Memory for arrays that kernels use and leave.
    pub(crate) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Run `work` once on each thread, with the thread's number from 0.
    ///
    /// # Panics
    /// When `work` panics on one of them, after all have ended.
    pub fn run(&mut self, work: impl Fn(usize) + Sync) {
        let _bound = self.caller_cpu.and_then(Bound::to);
        if self.threads == 1 {
            return work(0);
        }
        let shared = &*self.shared;
        let outcome = Call::lend(&work, |call| {
            shared.rounds.begin(self.threads - 1, call);
            let outcome = catch_unwind(AssertUnwindSafe(|| work(0)));
            shared.rounds.wait();
            outcome
        });
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = outcome.err().or(panic) {
            resume_unwind(payload);
        }
    }

    /// Hand out `0..count` in blocks of `grain`, each to the thread that asks next. One block alone is the caller's: others need not wake.
    pub fn blocks(&mut self, count: usize, grain: usize, work: impl Fn(usize, Range<usize>) + Sync) {
        let grain = grain.max(1);
        if count <= grain {
            return if count > 0 {
                work(0, 0..count)
            };
        }
        let next = AtomicUsize::new(0);
        self.run(|thread| {
            while let Some(begin) = claim(&next, count.div_ceil(grain)).map(|block| block * grain) {
                work(thread, begin..(begin + grain).min(count));
            }
        });
    }

    /// Hand out `tasks`, each to the thread that asks next, in their order.
    pub fn tasks<T: Send>(&mut self, tasks: Vec<T>, work: impl Fn(usize, T) + Sync) {
        let tasks: Vec<Mutex<Option<T>>> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
        let next = AtomicUsize::new(0);
        self.run(|thread| {
            while let Some(task) = claim(&next, tasks.len()) {
                let task = tasks[task].lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
                work(thread, task.expect("invariant: each task is claimed once"));
            }
        });
    }

    /// What `work` gives for each of `0..count`, in their order, whoever did it: sums over the result do not depend on threads.
    pub fn map<R: Send>(&mut self, count: usize, work: impl Fn(usize, usize) -> R + Sync) -> Vec<R> {
        let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
        self.tasks(results.iter_mut().enumerate().collect(), |thread, (at, result)| *result = Some(work(thread, at)));
        results.into_iter().map(|result| result.expect("invariant: every task was done")).collect()
    }
}

/// The next of `0..count` that nobody has.
fn claim(next: &AtomicUsize, count: usize) -> Option<usize> {
    let claimed = next.fetch_add(1, Ordering::Relaxed);
    (claimed < count).then_some(claimed)
}

/// The life of a thread that is not the caller's.
fn follow(shared: &Shared, thread: usize) {
    let mut seen = 0;
    while let Some(call) = shared.rounds.next(seen) {
        seen += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| call.run(thread)));
        if let Err(payload) = outcome {
            shared.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
        shared.rounds.end();
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.rounds.close();
        for other in self.others.drain(..) {
            // Panics of work are caught and handed on by `run`.
            let _ = other.join();
        }
    }
}

#[cfg(test)]
mod tests;
