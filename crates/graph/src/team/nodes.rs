//! Threads of a team on NUMA nodes: where they run, and in which order they take work that lies on nodes.
//!
//! Invariants:
//! 1. A [`Turns`] hands out every place of every share once, whoever asks.
//! 2. A thread takes of another node's share only when its own is empty: threads of one node help each other first.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use biombo_base::topology::{Spread, current_cpus, pin_current_thread};
use biombo_base::{Error, Result};

use super::{Team, claim};

/// Where the threads of a team run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Where the system lets them.
    None,
    /// All on the first node, where all memory is: every access is local.
    Local,
    /// All on the first node, while all memory is on the last one: every access is remote.
    Remote,
    /// On all nodes in turn, each thread on its own.
    RoundRobin,
}

impl Bind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Local, Self::Remote, Self::RoundRobin];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Remote => "remote",
            Self::RoundRobin => "round-robin",
        }
    }

    /// The processor of each of `threads` threads; `None` where they are not bound. Threads of a node share its processors when there are
    /// fewer of those.
    fn cpus(self, spread: &Spread, threads: usize) -> Option<Vec<u32>> {
        let on = |node: usize, number: usize| {
            let cpus = &spread.nodes[node].cpus;
            cpus[number % cpus.len()]
        };
        let nodes = spread.nodes.len();
        match self {
            Self::None => None,
            Self::Local | Self::Remote => Some((0..threads).map(|thread| on(0, thread)).collect()),
            Self::RoundRobin => Some((0..threads).map(|thread| on(thread % nodes, thread / nodes)).collect()),
        }
    }
}

/// The calling thread runs on one processor until this is dropped.
pub(super) struct Bound {
    before: Vec<u32>,
}

impl Bound {
    /// `None` when the system refuses: the thread runs where it did.
    pub(super) fn to(cpu: u32) -> Option<Self> {
        let before = current_cpus();
        pin_current_thread(&[cpu]).ok().map(|()| Self { before })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The system may have taken all of them away meanwhile: then the thread stays where it is.
        let _ = pin_current_thread(&self.before);
    }
}

/// Places of several nodes, to be claimed.
struct Turns<'s> {
    shares: &'s [Range<usize>],
    grain: usize,
    claimed: Vec<Claimed>,
}

/// How many grains of a share are claimed; a cache line of its own, and the one that comes with it.
#[derive(Default)]
#[repr(align(128))]
struct Claimed(AtomicUsize);

impl<'s> Turns<'s> {
    fn new(shares: &'s [Range<usize>], grain: usize) -> Self {
        Self { shares, grain: grain.max(1), claimed: shares.iter().map(|_| Claimed::default()).collect() }
    }

    /// The first node whose share `thread` takes of.
    fn home(&self, thread: usize) -> usize {
        thread % self.shares.len().max(1)
    }

    /// Whatever is left of a node's share, grain by grain.
    fn each_of(&self, node: usize, mut work: impl FnMut(Range<usize>)) {
        let share = &self.shares[node];
        while let Some(number) = claim(&self.claimed[node].0, share.len().div_ceil(self.grain)) {
            let begin = share.start + number * self.grain;
            work(begin..(begin + self.grain).min(share.end));
        }
    }

    /// The thread's own node's share, then those of the others, the next ones first.
    fn each(&self, thread: usize, mut work: impl FnMut(Range<usize>)) {
        let nodes = self.shares.len();
        for step in 0..nodes {
            self.each_of((self.home(thread) + step) % nodes, &mut work);
        }
    }
}

impl Team {
    /// A team whose threads run on the nodes of `spread` as `bind` says. Thread t walks over the places of node t modulo the number of
    /// nodes first, bound or not. The caller, which is the first thread, is bound only while it works.
    ///
    /// # Errors
    /// As [`new`](Team::new). A thread that the system does not let run on its processor runs anywhere: see [`unbound`](Self::unbound).
    pub fn on(spread: &Spread, bind: Bind, threads: usize) -> Result<Self> {
        if spread.nodes.iter().any(|node| node.cpus.is_empty()) || spread.nodes.is_empty() {
            return Err(Error::invalid("threads cannot be bound to nodes without processors"));
        }
        let cpus = bind.cpus(spread, threads);
        let caller = cpus.as_ref().and_then(|cpus| cpus.first().copied());
        let mut team = Self::with_cpus(threads, cpus)?;
        team.caller_cpu = caller;
        Ok(team)
    }

    /// How many threads do not run on the processor that they were bound to, for the system refused it.
    pub fn unbound(&mut self) -> usize {
        let Some(cpus) = self.cpus.clone() else { return 0 };
        // Of a team that leaves its caller free, the caller does not count.
        let first = usize::from(self.caller_cpu.is_none());
        let strays = AtomicUsize::new(0);
        self.run(|thread| {
            if thread >= first && self_runs_elsewhere(cpus[thread]) {
                strays.fetch_add(1, Ordering::Relaxed);
            }
        });
        strays.into_inner()
    }

    /// Hand out the places of `shares`, one share for each node, in grains: to threads of that node first, and to others once their own
    /// share is empty. No more than a grain altogether is the caller's: others need not wake.
    pub fn walk(&mut self, shares: &[Range<usize>], grain: usize, work: impl Fn(usize, Range<usize>) + Sync) {
        if let [share] = shares
            && share.start == 0
        {
            return self.blocks(share.end, grain, work);
        }
        if is_one_grain(shares, grain) {
            return shares.iter().filter(|share| !share.is_empty()).for_each(|share| work(0, share.clone()));
        }
        let turns = Turns::new(shares, grain);
        self.run(|thread| turns.each(thread, |places| work(thread, places)));
    }

    /// As [`walk`](Self::walk); what each thread gathers, from `R::default()` on.
    pub fn gather<R: Default + Send>(
        &mut self,
        shares: &[Range<usize>],
        grain: usize,
        work: impl Fn(Range<usize>, &mut R) + Sync,
    ) -> Vec<R> {
        if is_one_grain(shares, grain) {
            // Little is not worth waking anybody: searches of long thin graphs have thousands of small frontiers.
            let mut found = R::default();
            shares.iter().filter(|share| !share.is_empty()).for_each(|share| work(share.clone(), &mut found));
            return vec![found];
        }
        let turns = Turns::new(shares, grain);
        let found: Vec<Mutex<Option<R>>> = (0..self.threads()).map(|_| Mutex::new(None)).collect();
        self.run(|thread| {
            let mut gathered = R::default();
            turns.each(thread, |places| work(places, &mut gathered));
            *found[thread].lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(gathered);
        });
        found.into_iter().filter_map(|one| one.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())).collect()
    }

    /// Hand out `tasks`, which stand in the order of the places of `shares`, as [`walk`](Self::walk) does.
    ///
    /// # Panics
    /// When there are not as many tasks as places.
    pub fn tasks_of<T: Send>(&mut self, shares: &[Range<usize>], tasks: Vec<T>, work: impl Fn(usize, T) + Sync) {
        self.hand_out(shares, tasks, false, work);
    }

    /// As [`tasks_of`](Self::tasks_of), but no thread does a task of another node that has threads of its own: for pages that are to lie where
    /// they are touched first.
    pub fn tasks_at_home<T: Send>(&mut self, shares: &[Range<usize>], tasks: Vec<T>, work: impl Fn(usize, T) + Sync) {
        self.hand_out(shares, tasks, true, work);
    }

    fn hand_out<T: Send>(
        &mut self,
        shares: &[Range<usize>],
        tasks: Vec<T>,
        at_home: bool,
        work: impl Fn(usize, T) + Sync,
    ) {
        assert_eq!(tasks.len(), shares.iter().map(Range::len).sum(), "a task for each place");
        let tasks: Vec<Mutex<Option<T>>> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
        let turns = Turns::new(shares, 1);
        let threads = self.threads();
        self.run(|thread| {
            let each = |places: Range<usize>| {
                for place in places {
                    let task = tasks[place].lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
                    work(thread, task.expect("invariant: each place is claimed once"));
                }
            };
            if !at_home {
                return turns.each(thread, each);
            }
            let nobodys = |node: &usize| *node >= threads && node % threads == thread;
            let mine = (turns.home(thread)..shares.len()).take(1);
            mine.chain((0..shares.len()).filter(nobodys)).for_each(|node| turns.each_of(node, each));
        });
    }
}

/// Whether all shares together are no more than a grain.
fn is_one_grain(shares: &[Range<usize>], grain: usize) -> bool {
    shares.iter().map(Range::len).sum::<usize>() <= grain.max(1)
}

/// Whether the calling thread may run on other processors than `cpu`.
fn self_runs_elsewhere(cpu: u32) -> bool {
    current_cpus() != [cpu]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use biombo_base::topology::{Node, Topology};

    use super::*;

    fn shares(lens: &[usize]) -> Vec<Range<usize>> {
        let mut end = 0;
        let share = |len: &usize| {
            end += len;
            end - len..end
        };
        lens.iter().map(share).collect()
    }

    #[test]
    fn every_place_is_handed_out_once_and_a_threads_own_node_comes_first() {
        for (lens, grain) in
            [(&[40, 0, 25][..], 4), (&[100], 7), (&[0, 0], 1), (&[3, 500], 1), (&[1, 1, 1, 1], 64), (&[], 3)]
        {
            let shares = shares(lens);
            let count: usize = lens.iter().sum();
            for threads in [1, 2, 3] {
                let mut team = Team::new(threads).unwrap();
                let taken: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
                team.walk(&shares, grain, |thread, places| taken[thread].lock().unwrap().extend(places));
                let gathered = team.gather(&shares, grain, |places, found: &mut Vec<usize>| found.extend(places));
                let done: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
                team.tasks_of(&shares, (0..count).collect(), |thread, task| done[thread].lock().unwrap().push(task));
                let at_home: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
                team.tasks_at_home(&shares, (0..count).collect(), |t, task| at_home[t].lock().unwrap().push(task));
                let unlocked = |lists: Vec<Mutex<Vec<usize>>>| -> Vec<Vec<usize>> {
                    lists.into_iter().map(|list| list.into_inner().unwrap()).collect()
                };
                let (taken, done, at_home) = (unlocked(taken), unlocked(done), unlocked(at_home));
                for lists in [&taken, &gathered, &done, &at_home] {
                    let mut all = lists.concat();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..count), "{lens:?} by {threads}");
                }
                let node = |place: &usize| shares.iter().position(|share| share.contains(place)).unwrap();
                let nodes = lens.len().max(1);
                for lists in [&taken, &done] {
                    for (thread, list) in lists.iter().enumerate() {
                        // Nothing of its own node after something of another.
                        let own: Vec<bool> = list.iter().map(|place| node(place) == thread % nodes).collect();
                        assert!(own.windows(2).all(|pair| pair[0] || !pair[1]), "{lens:?}, thread {thread}: {list:?}");
                    }
                }
                for (thread, list) in at_home.iter().enumerate() {
                    let of = |place: &usize| node(place) == thread % nodes || node(place) >= threads;
                    assert!(list.iter().all(of), "{lens:?}, thread {thread} of {threads}: {list:?}");
                }
            }
        }
    }

    #[test]
    fn threads_run_where_they_are_bound_and_the_caller_is_free_again() {
        let node = |id: u32, cpus: &[u32]| Node { id, cpus: cpus.to_vec() };
        let spread = Spread { nodes: vec![node(0, &[0, 1]), node(1, &[6])], machine_nodes: 2 };
        assert_eq!(Bind::RoundRobin.cpus(&spread, 5), Some(vec![0, 6, 1, 6, 0]));
        assert_eq!(Bind::Local.cpus(&spread, 3), Some(vec![0, 1, 0]));
        assert_eq!(Bind::Remote.cpus(&spread, 1), Some(vec![0]));
        assert_eq!(Bind::None.cpus(&spread, 3), None);

        let before = current_cpus();
        let spread = Topology::detect().spread(2).unwrap();
        for bind in Bind::ALL {
            for threads in [1, 2, 3] {
                let mut team = Team::on(&spread, bind, threads).unwrap();
                assert_eq!(team.unbound(), 0);
                let expected = bind.cpus(&spread, threads);
                let ran = team.gather(&shares(&[8 * threads]), 0, |_, found: &mut BTreeSet<Vec<u32>>| {
                    found.insert(current_cpus());
                });
                let all: BTreeSet<Vec<u32>> = ran.into_iter().flatten().collect();
                match expected {
                    None => assert_eq!(all, BTreeSet::from([before.clone()])),
                    Some(cpus) => assert!(all.iter().all(|ran| cpus.iter().any(|cpu| *ran == [*cpu])), "{all:?}"),
                }
                assert_eq!(current_cpus(), before, "{bind:?}");
            }
        }
        let nowhere = Spread { nodes: vec![node(0, &[])], machine_nodes: 1 };
        assert!(Team::on(&nowhere, Bind::None, 1).is_err());
    }
}
