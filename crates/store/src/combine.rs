//! Group commit: one transaction, one sync, for everybody who waits.
//!
//! Writing is a role, not a thread (a hop to another thread costs more than the write itself). A caller that finds the role free
//! takes it and runs its own operations at once, without a copy. A caller that finds it taken adds its operations to the group
//! that gathers; when the role comes free, one of that group's callers takes it and runs the whole group.
//!
//! Invariants:
//!
//! 1. At most one thread holds the role.
//! 2. Operations of one caller stay together and in order; a group runs in the order in which its members joined.
//! 3. Every member of a group gets the result of the run that carried its operations.
//! 4. While a group runs, the next gathers: nobody waits for more than the run under way and the one of its own group.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_engine::{Batch, Durability, Error, ErrorKind, Op, Result};

/// Operations larger than this together run alone, uncopied.
const JOIN_BYTES_MAX: u64 = 1 << 20;
/// A group that holds this much takes no more members: a commit must not grow without bound.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// A point where concurrent writers meet.
#[derive(Default)]
pub(crate) struct Combiner {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    busy: bool,
    gathering: Gathering,
    /// Callers who wait for the role itself: with large operations, or because the gathering group was full.
    alone: usize,
    spare: Batch,
}

#[derive(Default)]
struct Gathering {
    group: Arc<Group>,
    batch: Batch,
    members: usize,
    durability: Option<Durability>,
}

#[derive(Default)]
struct Group {
    /// Set once, by the thread that ran the group.
    done: Mutex<Option<Outcome>>,
    wake: Condvar,
}

#[derive(Clone)]
enum Outcome {
    Done,
    Failed(ErrorKind, String),
}

impl Outcome {
    /// What a group's members learn when the thread that ran it unwound.
    fn panicked() -> Self {
        Self::Failed(ErrorKind::Poisoned, "a thread that wrote for others panicked".to_owned())
    }

    fn of(result: &Result<()>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.kind(), error.message().to_owned()),
        }
    }

    fn into_result(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Failed(kind, message) => Err(Error::new(kind, message)),
        }
    }
}

impl Combiner {
    /// Run `ops` through `run`, alone or in a group; returns the result of the run that carried them. `run` is called by one
    /// thread at a time. Operations must have been checked: one that `run` refuses fails its whole group.
    pub(crate) fn commit(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        run: impl Fn(&[Op<'_>], Durability) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.lock();
        if !state.busy && state.gathering.members == 0 {
            state.busy = true;
            drop(state);
            let role = Role { combiner: self, group: None };
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
        state.gathering.members += 1;
        state.gathering.durability = state.gathering.durability.max(Some(durability));
        let mine = Arc::clone(&state.gathering.group);
        loop {
            if let Some(outcome) = mine.outcome() {
                return outcome.into_result();
            }
            if !state.busy && Arc::ptr_eq(&state.gathering.group, &mine) {
                return self.lead(state, &mine, &run);
            }
            state = mine.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State>,
        mine: &Arc<Group>,
        run: &impl Fn(&[Op<'_>], Durability) -> Result<()>,
    ) -> Result<()> {
        state.busy = true;
        let next = Gathering { batch: std::mem::take(&mut state.spare), ..Gathering::default() };
        let mut gathered = std::mem::replace(&mut state.gathering, next);
        drop(state);
        let mut role = Role { combiner: self, group: Some((Arc::clone(mine), Outcome::panicked())) };
        let result = run(&gathered.batch.to_ops(), gathered.durability.unwrap_or_default());
        gathered.batch.clear();
        if gathered.batch.capacity() <= GROUP_BYTES_MAX {
            self.lock().spare = gathered.batch;
        }
        role.group = Some((Arc::clone(mine), Outcome::of(&result)));
        drop(role);
        result
    }

    fn commit_alone(
        &self,
        mut state: MutexGuard<'_, State>,
        ops: &[Op<'_>],
        durability: Durability,
        run: &impl Fn(&[Op<'_>], Durability) -> Result<()>,
    ) -> Result<()> {
        state.alone += 1;
        let role = loop {
            if !state.busy {
                state.busy = true;
                state.alone -= 1;
                drop(state);
                break Role { combiner: self, group: None };
            }
            let group = Arc::clone(&state.gathering.group);
            state = group.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let result = run(ops, durability);
        drop(role);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// Read and written under the combiner's mutex only, so that no wake-up between a look and a wait is lost.
    fn outcome(&self) -> Option<Outcome> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The held role. Dropping it, also while unwinding, tells the group its outcome, frees the role and wakes somebody who
/// waits for it, all under one lock.
struct Role<'a> {
    combiner: &'a Combiner,
    group: Option<(Arc<Group>, Outcome)>,
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let mut state = self.combiner.lock();
        state.busy = false;
        if let Some((group, outcome)) = self.group.take() {
            *group.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            group.wake.notify_all();
        }
        if state.alone > 0 {
            // Both kinds of waiters sleep on the gathering group's condition: whoever gets the mutex first takes the role.
            state.gathering.group.wake.notify_all();
        } else if state.gathering.members > 0 {
            state.gathering.group.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    #[test]
    fn every_operation_runs_once_in_order_and_one_run_at_a_time() {
        let combiner = Combiner::default();
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
    fn all_members_of_a_group_learn_of_its_failure_and_of_a_panic() {
        let combiner = Combiner::default();
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
