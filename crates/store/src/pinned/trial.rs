//! Whether lanes that have changed their workers are served better: pure.
//!
//! Even loads are no end in themselves. One worker that serves all lanes takes what many callers want at once, writes it as one and stays awake; two
//! that share it wake each other, make smaller groups and take turns with the callers on the same processors, which with many callers is worse for
//! everybody, and with few is better. What a change gave is therefore measured, before and after: how many writes are answered a second, and how
//! long each takes. In a closed loop the first says what users get, and it counts what answers do not know of (reads that wait for a processor); in
//! an open one it is what is asked for, and the second decides. A change stays only where it has given something; else the lanes go back.
//! What looks better is doubted: stores warm up, and what came later would have been better anyway. The lanes go back for as long, and only if that
//! is worse again the change is made once more, and stays. Noise passes both now and then where the gain seems small: that is doubted again, after
//! a while that doubles each time.
//!
//! What was found holds for the load that it was found under: which lanes take the time, and how many callers wait at a time. Under another one
//! the lanes go back to where they were at the beginning, the arrangement that repartitioning must not be worse than, and are judged anew.
//! What was undone is not tried again before a rest, which doubles each time as long as the load stays as it is. A trial that went wrong has
//! cost something: that is paid by so long a rest that it is a hundredth, whatever the load does.
//! A load that is another one than before begins with looks of its own: answers to small writes say nothing of what large ones take, so a trial
//! waits until all that it will be held against is of one load, and where the load changes under it, it is given up and not judged.
//!
//! Invariants: at most one change is on trial, with all looks before it under the workers that it changes and of one load, as far as looks can tell;
//! what is on trial is judged by at least [`WRITES_MIN`] writes on each side; while so few are answered nothing is judged, and what was changed then
//! goes back once there are more.

use super::balance::Balance;

/// Looks at what was before a change.
const BEFORE: usize = 5;
/// Looks at what came after it, but for the first, in which queues empty that were filled before.
const AFTER: u32 = 3;
/// Means of fewer writes say nothing.
const WRITES_MIN: u64 = 200;
/// What a change must give, of time or of answers, and what it must not take of the other: less is noise.
const GIVES_MIN: f64 = 0.05;
const TAKES_MAX: f64 = 0.03;
/// So much longer at so many looks in a row, at the first only where so much less is answered, too, is not looked at to the end. One alone may be a
/// stall of the engine's.
const MUCH_LONGER: f64 = 1.3;
const MUCH_LOOKS: u32 = 2;
/// Looks without a change after the first that was undone, and at most.
const REST: (u32, u32) = (100, 600);
/// Rest for what a trial has cost, whatever the load does.
const REST_TIMES: f64 = 100.0;
/// Of the time of lanes, what is spent on others in another load.
const SHIFTED_MIN: f64 = 0.25;
/// So many times the callers, or so many times fewer, are another load; and below this they are few.
const CROWD_TIMES: f64 = 1.6;
const CROWD_MIN: f64 = 0.5;

/// What gives less is doubted again after so many looks, and after twice as many each time, up to the longest rest.
const SURELY_GIVES: f64 = 0.3;
const DOUBT_AGAIN: u32 = 30;

/// Fewer writes at a look do not say which lanes take the time; fewer still not even what one takes.
const SEEN_MIN: u64 = 50;
const TAKEN_MIN: u64 = 10;
/// Of one look to the next: so many times the work of a write, or of its callers, is another load. On a processor that others want, too, the work of
/// the same writes varies by twice.
const WORK_TIMES: f64 = 4.0;
const LOOK_CROWD_TIMES: f64 = 3.0;
/// Looks without a change at least after a trial whose load went away under it, so that one which keeps changing is not tried all the time.
const GIVEN_UP_OWES: u32 = 50;

/// Writes that were answered in some time, and how long that took from their questions on, together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    pub(crate) took_ns: u64,
    pub(crate) elapsed_ns: u64,
}

impl Answers {
    fn and(self, more: Self) -> Self {
        Self {
            count: self.count + more.count,
            took_ns: self.took_ns + more.took_ns,
            elapsed_ns: self.elapsed_ns + more.elapsed_ns,
        }
    }

    /// How long writes take, and how many are answered, as times what it was `before`; `None`: too few to tell.
    fn by(self, before: Self) -> Option<(f64, f64)> {
        let each = |answers: Self| answers.took_ns.max(1) as f64 / answers.count as f64;
        let rate = |answers: Self| answers.count as f64 / answers.elapsed_ns.max(1) as f64;
        let are_many = self.count.min(before.count) >= WRITES_MIN;
        are_many.then(|| (each(self) / each(before), rate(self) / rate(before)))
    }
}

/// What is seen at one look: what each lane took since the one before, in nanoseconds, and what was answered.
#[derive(Clone)]
pub(crate) struct Look {
    pub(crate) took_ns: Vec<u64>,
    pub(crate) answers: Answers,
}

impl Look {
    /// Whether it is of another load than `earlier` ones under the same workers.
    fn is_unlike(&self, earlier: &[Self]) -> bool {
        let (now, then) = (std::slice::from_ref(self), earlier);
        let work = |looks: &[Self]| {
            let took_ns: u64 = looks.iter().flat_map(|look| &look.took_ns).sum();
            let count = all_answers(looks).count;
            (count >= TAKEN_MIN && took_ns > 0).then(|| took_ns as f64 / count as f64)
        };
        let is_other_work = work(now).zip(work(then)).is_some_and(|(now, then)| are_far(now, then, WORK_TIMES));
        let loads = Load::of(now, SEEN_MIN).zip(Load::of(then, SEEN_MIN));
        is_other_work
            || loads.is_some_and(|(now, then)| {
                now.is_shifted_from(&then)
                    || are_far(now.crowd.max(CROWD_MIN), then.crowd.max(CROWD_MIN), LOOK_CROWD_TIMES)
            })
    }
}

/// Whether one is more than so many times the other, either way.
fn are_far(one: f64, other: f64, times: f64) -> bool {
    !(1.0 / times..=times).contains(&(one / other))
}

fn all_answers(looks: &[Look]) -> Answers {
    looks.iter().fold(Answers::default(), |sum, look| sum.and(look.answers))
}

/// What load was seen at some looks.
struct Load {
    /// Of the time that lanes take, by lane.
    shares: Vec<f64>,
    /// How many callers wait at a time (Little's law).
    crowd: f64,
}

impl Load {
    /// `None`: fewer than `least` writes, too little to tell.
    fn of(looks: &[Look], least: u64) -> Option<Self> {
        let mut shares = vec![0.0; looks.first()?.took_ns.len()];
        for look in looks {
            shares.iter_mut().zip(&look.took_ns).for_each(|(share, took_ns)| *share += *took_ns as f64);
        }
        let total: f64 = shares.iter().sum();
        let answers = all_answers(looks);
        if total == 0.0 || answers.count < least {
            return None;
        }
        shares.iter_mut().for_each(|share| *share /= total);
        Some(Self { shares, crowd: answers.took_ns as f64 / answers.elapsed_ns.max(1) as f64 })
    }

    /// Whether other lanes take the time.
    fn is_shifted_from(&self, known: &Self) -> bool {
        let shifted: f64 = self.shares.iter().zip(&known.shares).map(|(now, then)| (now - then).abs()).sum();
        shifted / 2.0 > SHIFTED_MIN
    }

    fn is_other_than(&self, known: &Self) -> bool {
        self.is_shifted_from(known) || are_far(self.crowd.max(CROWD_MIN), known.crowd.max(CROWD_MIN), CROWD_TIMES)
    }
}

/// What a look is about.
enum State {
    /// Changes are welcome.
    Calm,
    /// Not for so many looks more, and so many in any case.
    Resting { left: u32, owed: u32 },
    /// A change is on trial.
    Trying(OnTrial),
}

struct OnTrial {
    /// The workers of lanes before it, and what was seen then.
    workers_before: Vec<u32>,
    before: Vec<Look>,
    after: Vec<Look>,
    /// The workers that were tried, while those before serve again, and what is seen of these.
    doubted: Option<(Vec<u32>, Vec<Look>)>,
    /// Since the latest change, and the latest of them at which it was much worse.
    looks: u32,
    much_worse: u32,
}

/// What has come of a trial.
enum Verdict {
    Open,
    /// So it seems: back, to see whether that is worse.
    Promising,
    Better,
    /// It has cost so many looks' worth of answers.
    Worse(f64),
    /// The load that it was tried under has gone.
    GivenUp,
    /// Hardly anybody writes any more.
    Deserted,
}

/// Loads of lanes, evened as long as that pays.
pub(crate) struct Evener {
    balance: Balance,
    state: State,
    /// Workers as they are where nothing was found to be better.
    home: Vec<u32>,
    /// The latest looks, all under the present workers and of one load.
    looks: Vec<Look>,
    /// What these workers are good for, as far as is known.
    known: Option<Load>,
    /// The next rest.
    rest: u32,
    /// Of a change that stayed: looks until it is doubted again, and until it is the time after that.
    doubt: Option<(u32, u32)>,
    is_settled: bool,
}

/// Give `worker_of` other values; returns how many have changed.
fn replace(worker_of: &mut Vec<u32>, new: Vec<u32>) -> u64 {
    let changed = worker_of.iter().zip(&new).filter(|(now, new)| now != new).count();
    *worker_of = new;
    changed as u64
}

impl Evener {
    /// For lanes that have these workers.
    pub(crate) fn new(home: Vec<u32>) -> Self {
        let balance = Balance::new(home.len());
        Self {
            balance,
            state: State::Calm,
            home,
            looks: Vec::new(),
            known: None,
            rest: REST.0,
            doubt: None,
            is_settled: false,
        }
    }

    /// Whether the loads of workers are as even as lanes can make them: nothing is on trial, and the latest trial under this load, if any, was no failure.
    /// Only then may moving keys from one worker to another give what moving lanes did not.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Take in what was seen since the last look, and change `worker_of` where that evens the load of `workers` workers and users gain by it. Returns
    /// how many lanes have another worker now.
    pub(crate) fn look(&mut self, look: Look, worker_of: &mut Vec<u32>, workers: u32) -> u64 {
        self.balance.take_in(look.took_ns.iter().copied());
        self.is_settled = false;
        if let State::Trying(attempt) = &mut self.state {
            let verdict = attempt.take_in(look);
            return self.conclude(verdict, worker_of);
        }
        if look.is_unlike(&self.looks) {
            self.looks.clear();
        }
        if self.looks.len() == BEFORE {
            self.looks.remove(0);
        }
        self.looks.push(look);
        if let State::Resting { left, owed } = &mut self.state {
            (*left, *owed) = (left.saturating_sub(1), owed.saturating_sub(1));
        }
        if self.looks.len() < BEFORE {
            return 0;
        }
        if let Some(load) = Load::of(&self.looks, WRITES_MIN)
            && self.known.as_ref().is_none_or(|known| load.is_other_than(known))
        {
            self.known = Some(load);
            self.rest = REST.0;
            if let State::Resting { left, owed } = &mut self.state {
                *left = (*left).min(*owed);
            }
            if *worker_of != self.home {
                self.looks.clear();
                return replace(worker_of, self.home.clone());
            }
        }
        match self.state {
            State::Resting { left: 0, .. } => self.state = State::Calm,
            State::Resting { .. } => return 0,
            _ => {}
        }
        if *worker_of == self.home {
            self.doubt = None;
        }
        if let Some((left, again)) = &mut self.doubt {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *left = (*again).min(REST.1);
                *again = *left * 2;
                self.state =
                    State::Trying(OnTrial::of_what_stayed(&self.home, worker_of, std::mem::take(&mut self.looks)));
                return replace(worker_of, self.home.clone());
            }
        }
        let workers_before = worker_of.clone();
        let changed = self.balance.change(worker_of, workers);
        // Workers that nothing is asked of are no reason to move anything.
        self.is_settled = changed == 0 && self.looks.iter().flat_map(|look| &look.took_ns).any(|took_ns| *took_ns > 0);
        if changed > 0 {
            let before = std::mem::take(&mut self.looks);
            if all_answers(&before).count >= WRITES_MIN {
                self.state = State::Trying(OnTrial::new(workers_before, before));
            } else {
                self.known = None;
            }
        }
        changed
    }

    /// Do what a trial has come to.
    fn conclude(&mut self, verdict: Verdict, worker_of: &mut Vec<u32>) -> u64 {
        if matches!(verdict, Verdict::Open) {
            return 0;
        }
        let State::Trying(mut attempt) = std::mem::replace(&mut self.state, State::Calm) else { return 0 };
        match verdict {
            Verdict::Promising => {
                attempt.looks = 0;
                attempt.doubted = Some((worker_of.clone(), Vec::new()));
                let changed = replace(worker_of, attempt.workers_before.clone());
                self.state = State::Trying(attempt);
                return changed;
            }
            Verdict::Better => {
                self.known = Load::of(&attempt.after, WRITES_MIN);
                self.rest = REST.0;
                let OnTrial { after, doubted: Some((tried, again)), .. } = attempt else { return 0 };
                let by = all_answers(&after).by(all_answers(&again));
                let gives = by.map_or(0.0, |(longer, more)| more.max(1.0 / longer) - 1.0);
                self.doubt = match self.doubt {
                    _ if gives >= SURELY_GIVES => None,
                    Some(doubt) => Some(doubt),
                    None => Some((DOUBT_AGAIN, 2 * DOUBT_AGAIN)),
                };
                self.looks = after;
                return replace(worker_of, tried);
            }
            Verdict::Worse(cost) => {
                let owed = (cost * REST_TIMES).ceil() as u32;
                self.state = State::Resting { left: self.rest.max(owed), owed };
                self.rest = (self.rest * 2).min(REST.1);
                self.known = Load::of(&attempt.before, WRITES_MIN);
            }
            Verdict::GivenUp => self.state = State::Resting { left: GIVEN_UP_OWES, owed: GIVEN_UP_OWES },
            Verdict::Deserted | Verdict::Open => {}
        }
        replace(worker_of, attempt.workers_before)
    }
}

impl OnTrial {
    fn new(workers_before: Vec<u32>, before: Vec<Look>) -> Self {
        Self { workers_before, before, after: Vec::new(), doubted: None, looks: 0, much_worse: 0 }
    }

    /// Doubt once more what is served by `tried`, as these looks say, beside what it was at `home`.
    fn of_what_stayed(home: &[u32], tried: &[u32], looks: Vec<Look>) -> Self {
        let doubted = Some((tried.to_vec(), Vec::new()));
        Self { after: looks.clone(), doubted, ..Self::new(home.to_vec(), looks) }
    }

    /// Take in what came after the latest change.
    fn take_in(&mut self, look: Look) -> Verdict {
        self.looks += 1;
        // Whoever serves them, the same lanes ask for it.
        let loads = Load::of(std::slice::from_ref(&look), SEEN_MIN).zip(Load::of(&self.before, SEEN_MIN));
        if loads.is_some_and(|(now, before)| now.is_shifted_from(&before)) {
            return Verdict::GivenUp;
        }
        if let Some((_, again)) = &mut self.doubted {
            if self.looks > 1 {
                again.push(look);
            }
            let by = all_answers(&self.after).by(all_answers(again));
            return if self.looks > AFTER { self.judge(by, Verdict::Better) } else { Verdict::Open };
        }
        let before = all_answers(&self.before);
        // At the first, answers may take longer that were owed before.
        let is_owed = |more: f64| self.looks == 1 && more >= 1.0 / MUCH_LONGER;
        let is_much_worse =
            look.answers.by(before).is_some_and(|(longer, more)| longer > MUCH_LONGER && !is_owed(more));
        self.much_worse = if is_much_worse { self.much_worse + 1 } else { 0 };
        if self.looks > 1 {
            self.after.push(look);
        }
        let by = all_answers(&self.after).by(before);
        match by {
            _ if self.looks > AFTER => self.judge(by, Verdict::Promising),
            _ if self.much_worse == MUCH_LOOKS => self.worse(by),
            _ => Verdict::Open,
        }
    }

    /// `good` if the change has given something, by what these times say.
    fn judge(&self, by: Option<(f64, f64)>, good: Verdict) -> Verdict {
        let Some((longer, more)) = by else { return Verdict::Deserted };
        let gives = longer < 1.0 - GIVES_MIN || more > 1.0 + GIVES_MIN;
        let takes = longer > 1.0 + TAKES_MAX || more < 1.0 - TAKES_MAX;
        if gives && !takes { good } else { self.worse(by) }
    }

    /// It was all in vain: who writes and what waits for it has less by the worse of the two.
    fn worse(&self, by: Option<(f64, f64)>) -> Verdict {
        let least = by.map_or(1.0, |(longer, more)| more.min(1.0 / longer));
        Verdict::Worse(f64::from(self.looks) * (1.0 - least).max(0.0))
    }
}
