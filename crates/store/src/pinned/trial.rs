//! Whether lanes that have changed their workers answer sooner: pure.
//!
//! Even loads are no end in themselves. One worker that serves all lanes takes what many callers want at once, writes it as one and stays awake; two
//! that share it wake each other and sync side by side, which on some machines and for some loads takes longer for everybody. What a change gave is
//! therefore measured: the time between a write's question and its answer, before and after. Where that has grown, the lanes go back to the workers
//! that they had, and nothing is tried for a while, which doubles each time.
//!
//! Invariants: at most one change is on trial; what is on trial is judged by at least [`WRITES_MIN`] writes on each side, or stays; between two changes
//! that were undone lies a rest that is at least as long as the one before.

use super::balance::Balance;

/// Looks at what was before a change.
const BEFORE: usize = 5;
/// Looks at what came after it, but for the first, in which queues empty that were filled before.
const AFTER: u32 = 3;
/// Means of fewer writes say nothing.
const WRITES_MIN: u64 = 200;
/// By this much longer may writes take after a change.
const LONGER_MAX: f64 = 1.1;
/// This much longer is seen at the first look.
const MUCH_LONGER: f64 = 1.5;
/// Looks without a change after the first that was undone, and at most.
const REST: (u32, u32) = (100, 600);

/// Writes that were answered, and how long that took from their questions on, together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    pub(crate) took_ns: u64,
}

impl Answers {
    fn and(self, more: Self) -> Self {
        Self { count: self.count + more.count, took_ns: self.took_ns + more.took_ns }
    }

    /// Of one write, if there are enough of them.
    fn mean_ns(self) -> Option<f64> {
        (self.count >= WRITES_MIN).then(|| self.took_ns as f64 / self.count as f64)
    }
}

/// What a look is about.
enum State {
    /// Changes are welcome.
    Calm,
    /// So many looks more without one.
    Resting(u32),
    /// A change is on trial.
    Trying(OnTrial),
}

struct OnTrial {
    /// The workers of lanes before it.
    workers_before: Vec<u32>,
    /// What a write took then.
    before_ns: f64,
    after: Answers,
    looks: u32,
}

/// Loads of lanes, evened as long as that pays.
pub(crate) struct Evener {
    balance: Balance,
    state: State,
    /// The latest looks, of which nothing was on trial in any.
    before: Vec<Answers>,
    /// The next rest.
    rest: u32,
}

impl Evener {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { balance: Balance::new(lanes), state: State::Calm, before: Vec::new(), rest: REST.0 }
    }

    /// Take in what each lane took, and how long users waited for answers, since the last look, and change `worker_of` where that evens the load of
    /// `workers` workers and does not make users wait. Returns how many lanes have another worker now.
    pub(crate) fn look(
        &mut self,
        took_ns: impl Iterator<Item = u64>,
        answers: Answers,
        worker_of: &mut Vec<u32>,
        workers: u32,
    ) -> u64 {
        self.balance.take_in(took_ns);
        match &mut self.state {
            State::Trying(attempt) => {
                attempt.looks += 1;
                if attempt.looks > 1 {
                    attempt.after = attempt.after.and(answers);
                }
                let Some(longer) = attempt.longer(attempt.looks > AFTER) else { return 0 };
                let State::Trying(attempt) = std::mem::replace(&mut self.state, State::Calm) else { return 0 };
                if !longer {
                    self.rest = REST.0;
                    return 0;
                }
                self.state = State::Resting(self.rest);
                self.rest = (self.rest * 2).min(REST.1);
                let changed = worker_of.iter().zip(&attempt.workers_before).filter(|(now, before)| now != before);
                let changed = changed.count() as u64;
                *worker_of = attempt.workers_before;
                return changed;
            }
            State::Resting(0) => self.state = State::Calm,
            State::Resting(looks) => *looks -= 1,
            State::Calm => {}
        }
        if self.before.len() == BEFORE {
            self.before.remove(0);
        }
        self.before.push(answers);
        if !matches!(self.state, State::Calm) {
            return 0;
        }
        let workers_before = worker_of.clone();
        let changed = self.balance.change(worker_of, workers);
        let before = self.before.iter().fold(Answers::default(), |sum, more| sum.and(*more));
        if changed > 0 {
            self.before.clear();
            if let Some(before_ns) = before.mean_ns() {
                self.state = State::Trying(OnTrial { workers_before, before_ns, after: Answers::default(), looks: 0 });
            }
        }
        changed
    }
}

impl OnTrial {
    /// Whether writes take longer now; `None` as long as that is not known and it `is_over` not.
    fn longer(&self, is_over: bool) -> Option<bool> {
        let ratio = self.after.mean_ns().map(|after_ns| after_ns / self.before_ns);
        match ratio {
            Some(ratio) if ratio > MUCH_LONGER => Some(true),
            _ if !is_over => None,
            ratio => Some(ratio.is_some_and(|ratio| ratio > LONGER_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNEVEN: [u64; 4] = [100, 0, 100, 0];
    const TOGETHER: [u32; 4] = [0, 1, 0, 1];

    /// Looks at two lanes that are asked for, of one worker at first, when a write takes `apart_ns` with two and 1,000 ns with one.
    struct Scene {
        evener: Evener,
        worker_of: Vec<u32>,
        apart_ns: u64,
        /// Looks at which lanes have changed their workers.
        changes: Vec<usize>,
        looks: usize,
    }

    impl Scene {
        fn new(apart_ns: u64) -> Self {
            Self { evener: Evener::new(4), worker_of: TOGETHER.to_vec(), apart_ns, changes: Vec::new(), looks: 0 }
        }

        fn is_apart(&self) -> bool {
            self.worker_of[0] != self.worker_of[2]
        }

        fn look(&mut self, times: usize, writes: u64) {
            for _ in 0..times {
                let each_ns = if self.is_apart() { self.apart_ns } else { 1000 };
                let answers = Answers { count: writes, took_ns: writes * each_ns };
                if self.evener.look(UNEVEN.into_iter(), answers, &mut self.worker_of, 2) > 0 {
                    self.changes.push(self.looks);
                }
                self.looks += 1;
            }
        }
    }

    #[test]
    fn lanes_that_answer_sooner_or_as_soon_apart_stay_apart() {
        for apart_ns in [300, 1000, 1090] {
            let mut scene = Scene::new(apart_ns);
            scene.look(2000, 1000);
            assert!(scene.is_apart(), "{apart_ns}");
            assert_eq!(scene.changes.len(), 1, "{apart_ns}: {:?}", scene.changes);
        }
    }

    #[test]
    fn lanes_that_answer_later_apart_go_back_and_rest_for_longer_each_time() {
        let mut scene = Scene::new(1200);
        scene.look(3000, 1000);
        let tried: Vec<usize> = scene.changes.iter().step_by(2).copied().collect();
        let undone: Vec<usize> = scene.changes.iter().skip(1).step_by(2).copied().collect();
        assert!(!scene.is_apart());
        assert!(
            tried.iter().zip(&undone).all(|(tried, undone)| undone - tried == 1 + AFTER as usize),
            "{scene:?}",
            scene = scene.changes
        );
        let rests: Vec<usize> = undone.iter().zip(&tried[1..]).map(|(undone, tried)| tried - undone).collect();
        assert!(rests.is_sorted() && rests[0] >= 100 && *rests.last().expect("a rest") >= 600, "{rests:?}");
    }

    #[test]
    fn what_is_far_worse_is_undone_at_once() {
        let mut scene = Scene::new(3000);
        scene.look(50, 1000);
        assert_eq!(scene.changes.len(), 2);
        assert_eq!(scene.changes[1] - scene.changes[0], 2, "the first look after the one in which queues empty");
    }

    #[test]
    fn a_few_writes_undo_nothing() {
        let mut scene = Scene::new(3000);
        scene.look(500, 3);
        assert!(scene.is_apart());
        assert_eq!(scene.changes.len(), 1, "{:?}", scene.changes);
    }
}
