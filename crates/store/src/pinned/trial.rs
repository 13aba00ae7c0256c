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
//! A load that is another one than before begins with looks of its own (`look`): answers to small writes say nothing of what large ones take, so a
//! trial waits until all that it will be held against is of one load, and where the load changes under it, it is given up and not judged.
//!
//! Invariants: at most one change is on trial, with all looks before it under the workers that it changes and of one load, as far as looks can tell;
//! what is on trial is judged by at least [`WRITES_MIN`] writes on each side; while so few are answered nothing is judged, and what was changed then
//! goes back once there are more.

use super::balance::Balance;
use super::look::{Answers, Load, Look, WRITES_MIN, Window, have_shifted};

/// Looks at what came after a change, but for the first, in which queues empty that were filled before.
const AFTER: u32 = 3;
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
/// Looks without a change at least after a trial whose load went away under it: where loads keep changing a tenth of the looks, at most, are spent on trials.
const GIVEN_UP_OWES: u32 = 50;
/// What gives less is doubted again after so many looks, and after twice as many each time, up to the longest rest. The first doubt comes early, as what
/// stayed by chance costs something until then; it takes a ninth of the looks, each further one half as much.
const SURELY_GIVES: f64 = 0.3;
const DOUBT_AGAIN: u32 = 30;

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
    /// The latest looks, all under the present workers.
    looks: Window,
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
            looks: Window::default(),
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
        self.looks.push(look);
        if let State::Resting { left, owed } = &mut self.state {
            (*left, *owed) = (left.saturating_sub(1), owed.saturating_sub(1));
        }
        let Some(looks) = self.looks.settled() else { return 0 };
        // Workers that nothing is asked of are no reason to move anything.
        let is_used = looks.iter().flat_map(|look| &look.took_ns).any(|took_ns| *took_ns > 0);
        if let Some(load) = Load::known(looks)
            && self.known.as_ref().is_none_or(|known| load.is_other_than(known))
        {
            self.known = Some(load);
            self.rest = REST.0;
            if let State::Resting { left, owed } = &mut self.state {
                *left = (*left).min(*owed);
            }
            if *worker_of != self.home {
                self.looks.take();
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
                self.state = State::Trying(OnTrial::of_what_stayed(&self.home, worker_of, self.looks.take()));
                return replace(worker_of, self.home.clone());
            }
        }
        let workers_before = worker_of.clone();
        let changed = self.balance.change(worker_of, workers);
        self.is_settled = changed == 0 && is_used;
        if changed > 0 {
            let before = self.looks.take();
            if Answers::of(&before).count >= WRITES_MIN {
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
                self.known = Load::known(&attempt.after);
                self.rest = REST.0;
                let OnTrial { after, doubted: Some((tried, again)), .. } = attempt else { return 0 };
                let by = Answers::of(&after).by(Answers::of(&again));
                let gives = by.map_or(0.0, |(longer, more)| more.max(1.0 / longer) - 1.0);
                self.doubt = match self.doubt {
                    _ if gives >= SURELY_GIVES => None,
                    Some(doubt) => Some(doubt),
                    None => Some((DOUBT_AGAIN, 2 * DOUBT_AGAIN)),
                };
                self.looks = Window::of(after);
                return replace(worker_of, tried);
            }
            Verdict::Worse(cost) => {
                let owed = (cost * REST_TIMES).ceil() as u32;
                self.state = State::Resting { left: self.rest.max(owed), owed };
                self.rest = (self.rest * 2).min(REST.1);
                self.known = Load::known(&attempt.before);
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
        let verdict = self.hear(look);
        // Whoever serves them, the same lanes ask for it. One look of several may be strange, so it is all of them that tell.
        let heard = self.doubted.as_ref().map_or(&self.after, |(_, again)| again);
        if !matches!(verdict, Verdict::Open) && have_shifted(heard, &self.before) { Verdict::GivenUp } else { verdict }
    }

    fn hear(&mut self, look: Look) -> Verdict {
        self.looks += 1;
        if let Some((_, again)) = &mut self.doubted {
            if self.looks > 1 {
                again.push(look);
            }
            let by = Answers::of(&self.after).by(Answers::of(again));
            return if self.looks > AFTER { self.judge(by, Verdict::Better) } else { Verdict::Open };
        }
        let before = Answers::of(&self.before);
        // At the first, answers may take longer that were owed before.
        let is_owed = |more: f64| self.looks == 1 && more >= 1.0 / MUCH_LONGER;
        let is_much_worse =
            look.answers.by(before).is_some_and(|(longer, more)| longer > MUCH_LONGER && !is_owed(more));
        self.much_worse = if is_much_worse { self.much_worse + 1 } else { 0 };
        if self.looks > 1 {
            self.after.push(look);
        }
        let by = Answers::of(&self.after).by(before);
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
