//! Group commit: one transaction, one sync, for everybody who waits.
//!
//! Writing is a role, not a thread (a hop to another thread costs more than the write itself). A caller that finds the role free
//! takes it and runs its own operations at once, without a copy. A caller that finds it taken adds its operations to the group
//! that gathers; when the role comes free, one of that group's callers takes it and runs the whole group.
//!
//! Callers who write in turns would never share a run: each comes back while the other's is under way. So who has the role
//! *lingers* a moment for those who were here a moment ago (`Crowd`), as long as that is seen to pay.
//!
//! Invariants:
//!
//! 1. At most one thread holds the role.
//! 2. Operations of one caller stay together and in order; a group runs in the order in which its members joined.
//! 3. Every member of a group gets the result of the run that carried its operations.
//! 4. While a group runs, the next gathers: nobody waits for more than the run under way, the one of its own group, and what is
//!    lingered before that.
//! 5. Who waits sleeps until it is unparked: by the end of its group's run, or when the role is free and it is the one to look
//!    after it. A newcomer may be quicker: then the one that woke up is a member of what that one runs, or is woken again by it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use biombo_base::clock::monotonic_ns;

use crate::{Batch, Durability, Error, ErrorKind, Op, Result};

/// Operations larger than this together run alone, uncopied.
const JOIN_BYTES_MAX: u64 = 1 << 20;
/// A group that holds this much takes no more members: a commit must not grow without bound.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Runs that are shorter than this are not lingered for, in nanoseconds.
const LINGER_RUN_NS_MIN: u64 = 20_000;
/// The longest that is lingered, in nanoseconds, and as a part of what a run takes.
const LINGER_NS_MAX: u64 = 100_000;
const LINGER_SHARE: u64 = 4;
/// After how many vain attempts in sequence the pauses between attempts grow no more: 2 to the power of this many runs.
const VAIN_MAX: u32 = 8;

/// A point where concurrent writers meet. What a run returns, all whose operations it carried get.
///
/// ```
/// use biombo_engine::combine::Combiner;
/// use biombo_engine::{Durability, Op};
///
/// let combiner: Combiner = Combiner::default();
/// let put = Op::Put { key: b"k", value: b"v" };
/// combiner.commit(&[put], Durability::Sync, |ops, _| {
///     assert_eq!(ops, [put], "alone; with others at the same time, theirs too");
///     Ok(())
/// })?;
/// # Ok::<(), biombo_engine::Error>(())
/// ```
pub struct Combiner<T = ()> {
    state: Mutex<State<T>>,
    /// Members of the group that gathers, for who lingers.
    gathered: AtomicUsize,
}

struct State<T> {
    busy: bool,
    gathering: Gathering<T>,
    /// Callers who wait for the role itself: with large operations, or because the gathering group was full.
    alone: Vec<Thread>,
    spare: Batch,
    crowd: Crowd,
}

struct Gathering<T> {
    group: Arc<Group<T>>,
    batch: Batch,
    members: Vec<Thread>,
    durability: Option<Durability>,
}

struct Group<T> {
    /// Set once, by the thread that ran the group.
    done: OnceLock<Outcome<T>>,
}

impl<T> Default for Combiner<T> {
    fn default() -> Self {
        let state = State {
            busy: false,
            gathering: Gathering::default(),
            alone: Vec::new(),
            spare: Batch::new(),
            crowd: Crowd::default(),
        };
        Self { state: Mutex::new(state), gathered: AtomicUsize::new(0) }
    }
}

impl<T> Default for Gathering<T> {
    fn default() -> Self {
        let group = Arc::new(Group { done: OnceLock::new() });
        Self { group, batch: Batch::new(), members: Vec::new(), durability: None }
    }
}

#[derive(Clone)]
enum Outcome<T> {
    Done(T),
    Failed(ErrorKind, String),
}

impl<T: Clone> Outcome<T> {
    /// What a group's members learn when the thread that ran it unwound.
    fn panicked() -> Self {
        Self::Failed(ErrorKind::Poisoned, "a thread that wrote for others panicked".to_owned())
    }

    fn of(result: &Result<T>) -> Self {
        match result {
            Ok(done) => Self::Done(done.clone()),
            Err(error) => Self::Failed(error.kind(), error.message().to_owned()),
        }
    }

    fn into_result(self) -> Result<T> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Failed(kind, message) => Err(Error::new(kind, message)),
        }
    }
}

/// How many write here at the same time, and whether lingering for them pays.
#[derive(Default)]
struct Crowd {
    /// Members of the last run, and those who had gathered when it ended.
    present: usize,
    /// What a run takes, in nanoseconds, averaged.
    run_ns: u64,
    /// Vain attempts in sequence.
    vain: u32,
    /// Runs to go before the next attempt.
    pause: u32,
}

impl Crowd {
    /// A run of `members` took `ns`, and `gathered` came meanwhile.
    fn ran(&mut self, members: usize, gathered: usize, ns: u64) {
        self.present = members + gathered;
        // A disk that stalls says nothing of the next run.
        let ns = if self.run_ns == 0 { ns } else { ns.min(4 * self.run_ns) };
        self.run_ns = (7 * self.run_ns + ns) / 8;
    }

    /// How long to linger with `members` in the group, in nanoseconds; 0: not at all.
    fn linger_ns(&mut self, members: usize) -> u64 {
        if self.present <= members || self.run_ns < LINGER_RUN_NS_MIN {
            return 0;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return 0;
        }
        (self.run_ns / LINGER_SHARE).min(LINGER_NS_MAX)
    }

    /// Lingering for `ns` brought the group from `before` members to `after`: it has paid if that is the larger growth.
    fn lingered(&mut self, before: usize, after: usize, ns: u64) {
        if after as u64 * self.run_ns >= before as u64 * (self.run_ns + ns) && after > before {
            self.vain = 0;
        } else {
            self.vain = (self.vain + 1).min(VAIN_MAX);
            self.pause = 1 << self.vain;
        }
    }
}

impl<T: Clone> Combiner<T> {
    /// Run `ops` through `run`, alone or in a group; returns the result of the run that carried them. `run` is called by one
    /// thread at a time. Operations must have been checked: one that `run` refuses fails its whole group.
    pub fn commit(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        run: impl Fn(&[Op<'_>], Durability) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let is_free = !state.busy && state.gathering.members.is_empty();
        if is_free && state.crowd.present <= 1 {
            state.busy = true;
            drop(state);
            let role = Role::new(self);
            let result = run(ops, durability);
            drop(role);
            return result;
        }
        let bytes: u64 = ops.iter().map(Op::logical_bytes).sum();
        if bytes > JOIN_BYTES_MAX || state.gathering.batch.bytes() > GROUP_BYTES_MAX {
            return self.commit_alone(state, ops, durability, &run);
        }
        for op in ops {
            state.gathering.batch.push(*op);
        }
        state.gathering.members.push(std::thread::current());
        self.gathered.store(state.gathering.members.len(), Ordering::Relaxed);
        state.gathering.durability = state.gathering.durability.max(Some(durability));
        let mine = Arc::clone(&state.gathering.group);
        loop {
            if !state.busy && Arc::ptr_eq(&state.gathering.group, &mine) {
                return self.lead(state, &mine, &run);
            }
            drop(state);
            std::thread::park();
            if let Some(outcome) = mine.done.get() {
                return outcome.clone().into_result();
            }
            state = self.lock();
        }
    }

    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        mine: &Arc<Group<T>>,
        run: &impl Fn(&[Op<'_>], Durability) -> Result<T>,
    ) -> Result<T> {
        state.busy = true;
        let members = state.gathering.members.len();
        let linger_ns = state.crowd.linger_ns(members);
        if linger_ns > 0 {
            let expected = state.crowd.present;
            drop(state);
            let waited_ns = self.linger(expected, linger_ns);
            state = self.lock();
            let after = state.gathering.members.len();
            state.crowd.lingered(members, after, waited_ns);
        }
        let next = Gathering { batch: std::mem::take(&mut state.spare), ..Gathering::default() };
        let mut gathered = std::mem::replace(&mut state.gathering, next);
        self.gathered.store(0, Ordering::Relaxed);
        drop(state);
        let mut role = Role::new(self);
        role.group = Some((Arc::clone(mine), Outcome::panicked()));
        role.members = gathered.members;
        let result = run(&gathered.batch.to_ops(), gathered.durability.unwrap_or_default());
        gathered.batch.clear();
        if gathered.batch.capacity() <= GROUP_BYTES_MAX {
            self.lock().spare = gathered.batch;
        }
        role.group = Some((Arc::clone(mine), Outcome::of(&result)));
        drop(role);
        result
    }

    /// Let others run until so many have gathered, for so long at most; returns how long that was, in nanoseconds.
    fn linger(&self, members: usize, ns: u64) -> u64 {
        let begun_ns = monotonic_ns();
        loop {
            let waited_ns = monotonic_ns() - begun_ns;
            if waited_ns >= ns || self.gathered.load(Ordering::Relaxed) >= members {
                return waited_ns;
            }
            std::thread::yield_now();
        }
    }

    fn commit_alone<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        ops: &[Op<'_>],
        durability: Durability,
        run: &impl Fn(&[Op<'_>], Durability) -> Result<T>,
    ) -> Result<T> {
        while state.busy {
            state.alone.push(std::thread::current());
            drop(state);
            std::thread::park();
            state = self.lock();
            let me = std::thread::current().id();
            state.alone.retain(|thread| thread.id() != me);
        }
        state.busy = true;
        drop(state);
        let role = Role::new(self);
        let result = run(ops, durability);
        drop(role);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The held role. Dropping it, also while unwinding, tells the group its outcome, frees the role and wakes somebody who
/// waits for it.
struct Role<'a, T: Clone> {
    combiner: &'a Combiner<T>,
    begun_ns: u64,
    group: Option<(Arc<Group<T>>, Outcome<T>)>,
    /// Of the group; none: one who runs alone.
    members: Vec<Thread>,
}

impl<'a, T: Clone> Role<'a, T> {
    fn new(combiner: &'a Combiner<T>) -> Self {
        Self { combiner, begun_ns: monotonic_ns(), group: None, members: Vec::new() }
    }
}

impl<T: Clone> Drop for Role<'_, T> {
    fn drop(&mut self) {
        if let Some((group, outcome)) = self.group.take() {
            // Nobody else sets it.
            let _ = group.done.set(outcome);
        }
        let ns = monotonic_ns() - self.begun_ns;
        let mut state = self.combiner.lock();
        state.busy = false;
        let gathered = state.gathering.members.len();
        state.crowd.ran(self.members.len().max(1), gathered, ns);
        // Both kinds wait for the role: whoever gets the mutex first takes it.
        let next = [state.alone.first().cloned(), state.gathering.members.first().cloned()];
        drop(state);
        // The next run first: it takes longest.
        next.into_iter().flatten().for_each(|thread| thread.unpark());
        let me = std::thread::current().id();
        self.members.iter().filter(|thread| thread.id() != me).for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    #[test]
    fn every_operation_runs_once_in_order_and_one_run_at_a_time() {
        let combiner: Combiner = Combiner::default();
        let running = AtomicUsize::new(0);
        let runs = AtomicU64::new(0);
        let seen: Mutex<Vec<Vec<u8>>> = Mutex::default();
        const THREADS: u8 = 6;
        const EACH: u8 = 200;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (combiner, running, runs, seen) = (&combiner, &running, &runs, &seen);
                scope.spawn(move || {
                    for i in 0..EACH {
                        // Some are too large to join a group.
                        let value = vec![0; if i % 50 == 7 { 2 << 20 } else { 10 }];
                        let op = Op::Put { key: &[thread, i], value: &value };
                        combiner
                            .commit(&[op], Durability::Sync, |ops, _| {
                                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one run at a time");
                                runs.fetch_add(1, Ordering::SeqCst);
                                for op in ops {
                                    let Op::Put { key, .. } = op else { unreachable!() };
                                    seen.lock().expect("seen").push(key.to_vec());
                                }
                                std::thread::sleep(std::time::Duration::from_micros(20));
                                running.fetch_sub(1, Ordering::SeqCst);
                                Ok(())
                            })
                            .expect("commits");
                    }
                });
            }
        });
        let seen = seen.into_inner().expect("seen");
        assert_eq!(seen.len(), usize::from(THREADS) * usize::from(EACH));
        for thread in 0..THREADS {
            let of_thread: Vec<_> = seen.iter().filter(|key| key[0] == thread).map(|key| key[1]).collect();
            assert_eq!(of_thread, (0..EACH).collect::<Vec<_>>());
        }
        assert!(runs.load(Ordering::SeqCst) < seen.len() as u64, "writers that wait share a run");
    }

    #[test]
    fn it_is_lingered_for_who_was_here_a_moment_ago_while_that_pays() {
        let mut crowd = Crowd::default();
        let us = 1000;
        crowd.ran(1, 0, 5 * us);
        crowd.ran(1, 1, 5 * us);
        assert_eq!(crowd.linger_ns(1), 0, "runs are too short");
        (0..100).for_each(|_| crowd.ran(1, 0, 80 * us));
        assert_eq!(crowd.linger_ns(1), 0, "nobody else was here");
        crowd.ran(1, 1, 80 * us);
        assert_eq!(crowd.linger_ns(2), 0, "all are here");
        let linger_ns = crowd.linger_ns(1);
        assert!((15 * us..=20 * us).contains(&linger_ns), "{linger_ns}");
        crowd.lingered(1, 2, linger_ns);
        assert_eq!(crowd.linger_ns(1), linger_ns, "it has paid");
        // From 20 to 21 at a quarter of a run more: no.
        let mut attempts = 0;
        for _ in 0..4096 {
            crowd.ran(20, 20, 80 * us);
            if crowd.linger_ns(20) > 0 {
                crowd.lingered(20, 21, linger_ns);
                attempts += 1;
            }
        }
        assert!((9..30).contains(&attempts), "{attempts} in vain");
        crowd.ran(1, 1, 1_000_000 * us);
        assert!((0..=256).any(|_| crowd.linger_ns(1) > 0), "never given up");
        assert!(crowd.run_ns < 120 * us, "a stall counts as a slow run: {}", crowd.run_ns);
    }

    #[test]
    fn all_members_of_a_group_learn_of_its_failure_and_of_a_panic() {
        let combiner: Combiner = Combiner::default();
        let failures = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                let (combiner, failures) = (&combiner, &failures);
                scope.spawn(move || {
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        combiner.commit(&[Op::Delete { key: &[thread] }], Durability::Os, |ops, _| {
                            std::thread::sleep(std::time::Duration::from_millis(5));
                            assert!(!ops.contains(&Op::Delete { key: &[3] }), "a run that panics");
                            Err(Error::new(ErrorKind::Full, "no room"))
                        })
                    }));
                    if !matches!(outcome, Ok(Ok(()))) {
                        failures.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(failures.load(Ordering::SeqCst), 8, "nobody waits for ever, nobody is told a success");
    }
}
