//! What is seen of lanes and their callers at a look, and whether looks are of one load: pure.
//!
//! Two looks under the same workers are of one load if the same lanes take the time, if a write takes about as much of it, and if about as many
//! callers wait. Each varies by chance, and an engine's stall varies all of them at once, so bounds are wide and one strange look is only waited out:
//! two in a row are another load.
//!
//! Invariant: the looks of a [`Window`] are of one load, as far as looks can tell, but for single ones that came between others.

/// Looks at what was before a change.
const WINDOW: usize = 5;
/// Means of fewer writes say nothing of what they are compared with.
pub(super) const WRITES_MIN: u64 = 200;
/// Fewer writes at a look do not say which lanes take the time: of fifty that eight lanes share alike, chance alone spends an eighth on others, but hardly
/// ever a quarter. Fewer still do not even say what one takes.
const SEEN_MIN: u64 = 50;
const TAKEN_MIN: u64 = 10;
/// Of the time of lanes, what is spent on others in another load.
const SHIFTED_MIN: f64 = 0.25;
/// So many times the callers, or so many times fewer, are another load; and below this they are few.
const CROWD_TIMES: f64 = 1.6;
const CROWD_MIN: f64 = 0.5;
/// The same of a single look, in which a queue may fill or empty.
const LOOK_CROWD_TIMES: f64 = 3.0;
/// So many times the work of a write, or so many times less, is another load. On a processor that others want, too, that of the same writes varies by
/// twice; groups of them that grow or shrink, likewise.
const WORK_TIMES: f64 = 4.0;
/// Strange looks in a row that are another load.
const STRANGE_MAX: usize = 2;

/// Writes that were answered in some time, and how long that took from their questions on, together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    pub(crate) took_ns: u64,
    pub(crate) elapsed_ns: u64,
}

impl Answers {
    /// Of all these looks.
    pub(super) fn of(looks: &[Look]) -> Self {
        looks.iter().fold(Self::default(), |sum, look| sum.and(look.answers))
    }

    fn and(self, more: Self) -> Self {
        Self {
            count: self.count + more.count,
            took_ns: self.took_ns + more.took_ns,
            elapsed_ns: self.elapsed_ns + more.elapsed_ns,
        }
    }

    /// How long writes take, and how many are answered, as times what it was `before`; `None`: too few to tell.
    pub(super) fn by(self, before: Self) -> Option<(f64, f64)> {
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
        let now = std::slice::from_ref(self);
        let is_other_work =
            work_ns(now).zip(work_ns(earlier)).is_some_and(|(now, then)| are_far(now, then, WORK_TIMES));
        let loads = Load::of(now, SEEN_MIN).zip(Load::of(earlier, SEEN_MIN));
        is_other_work
            || loads.is_some_and(|(now, then)| now.is_shifted_from(&then) || now.is_far_from(&then, LOOK_CROWD_TIMES))
    }
}

/// What a write takes of the lanes' time; `None`: too few to tell.
fn work_ns(looks: &[Look]) -> Option<f64> {
    let took_ns: u64 = looks.iter().flat_map(|look| &look.took_ns).sum();
    let count = Answers::of(looks).count;
    (count >= TAKEN_MIN && took_ns > 0).then(|| took_ns as f64 / count as f64)
}

/// Whether one is more than so many times the other, either way.
fn are_far(one: f64, other: f64, times: f64) -> bool {
    !(1.0 / times..=times).contains(&(one / other))
}

/// Whether other lanes take the time in `looks` than in `earlier` ones, whoever serves them; no where too few writes were seen to tell.
pub(super) fn have_shifted(looks: &[Look], earlier: &[Look]) -> bool {
    Load::of(looks, SEEN_MIN).zip(Load::of(earlier, SEEN_MIN)).is_some_and(|(now, then)| now.is_shifted_from(&then))
}

/// What load was seen at some looks.
pub(super) struct Load {
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
        let answers = Answers::of(looks);
        if total == 0.0 || answers.count < least {
            return None;
        }
        shares.iter_mut().for_each(|share| *share /= total);
        Some(Self { shares, crowd: answers.took_ns as f64 / answers.elapsed_ns.max(1) as f64 })
    }

    /// The load that is worth to be remembered; `None`: too little to tell.
    pub(super) fn known(looks: &[Look]) -> Option<Self> {
        Self::of(looks, WRITES_MIN)
    }

    /// Whether other lanes take the time.
    fn is_shifted_from(&self, known: &Self) -> bool {
        let shifted: f64 = self.shares.iter().zip(&known.shares).map(|(now, then)| (now - then).abs()).sum();
        shifted / 2.0 > SHIFTED_MIN
    }

    fn is_far_from(&self, known: &Self, times: f64) -> bool {
        are_far(self.crowd.max(CROWD_MIN), known.crowd.max(CROWD_MIN), times)
    }

    pub(super) fn is_other_than(&self, known: &Self) -> bool {
        self.is_shifted_from(known) || self.is_far_from(known, CROWD_TIMES)
    }
}

/// The latest looks, all under the same workers.
#[derive(Default)]
pub(super) struct Window {
    looks: Vec<Look>,
    /// The last so many are unlike those before them.
    strange: usize,
}

impl Window {
    /// Those of whoever has been looked at already.
    pub(super) fn of(looks: Vec<Look>) -> Self {
        Self { looks, strange: 0 }
    }

    /// Take one more in, and forget what it makes too old, by number or by another load.
    pub(super) fn push(&mut self, look: Look) {
        let known = self.looks.len() - self.strange;
        self.strange = if look.is_unlike(&self.looks[..known]) { self.strange + 1 } else { 0 };
        self.looks.push(look);
        if self.strange == STRANGE_MAX {
            self.looks.drain(..known);
            self.strange = 0;
        }
        if self.looks.len() > WINDOW {
            self.looks.remove(0);
        }
    }

    /// All of them, if there are enough, and if the last one is like the others.
    pub(super) fn settled(&self) -> Option<&[Look]> {
        (self.looks.len() == WINDOW && self.strange == 0).then_some(&self.looks[..])
    }

    /// Take all out.
    pub(super) fn take(&mut self) -> Vec<Look> {
        std::mem::take(self).looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of a second in which `count` writes took these times of two lanes, with so many callers.
    fn look(took_ns: [u64; 2], count: u64, callers: u64) -> Look {
        let elapsed_ns = 100_000_000;
        Look { took_ns: took_ns.to_vec(), answers: Answers { count, took_ns: callers * elapsed_ns, elapsed_ns } }
    }

    fn window(looks: usize) -> Window {
        let mut window = Window::default();
        (0..looks).for_each(|_| window.push(look([30_000, 30_000], 1_000, 4)));
        window
    }

    #[test]
    fn one_strange_look_is_waited_out_and_two_are_another_load() {
        for strange in [
            look([60_000, 0], 1_000, 4),
            look([600_000, 600_000], 1_000, 4),
            look([5_000, 5_000], 1_000, 4),
            look([30_000, 30_000], 1_000, 16),
            // Too few to tell whose they are, but not what they take.
            look([300_000, 0], 12, 4),
        ] {
            let mut seen = window(WINDOW + 2);
            assert_eq!(seen.settled().map(<[_]>::len), Some(WINDOW));
            seen.push(strange.clone());
            assert!(seen.settled().is_none());
            let mut stalled = Window::of(seen.take());
            stalled.strange = 1;
            stalled.push(look([30_000, 30_000], 1_000, 4));
            assert_eq!(stalled.settled().map(<[_]>::len), Some(WINDOW), "a stall is one of them");
            let mut other = window(3);
            (0..STRANGE_MAX).for_each(|_| other.push(strange.clone()));
            assert_eq!(other.looks.len(), STRANGE_MAX, "what came before is forgotten");
            (STRANGE_MAX..WINDOW).for_each(|_| other.push(strange.clone()));
            let settled = other.settled().expect("a load of its own");
            assert!(settled.iter().all(|look| look.took_ns == strange.took_ns));
        }
    }

    #[test]
    fn what_varies_by_chance_is_of_one_load() {
        for usual in [
            look([40_000, 20_000], 1_000, 4),
            look([80_000, 80_000], 1_000, 4),
            look([30_000, 30_000], 1_000, 10),
            look([0, 0], 0, 0),
            // Nine writes may go anywhere and take anything.
            look([900_000, 0], 9, 1),
        ] {
            let mut seen = window(WINDOW);
            seen.push(usual);
            assert_eq!((seen.settled().map(<[_]>::len), seen.strange), (Some(WINDOW), 0));
        }
        // Hardly ever anybody waits: twice as many callers is as few.
        let few = |callers: u64| {
            let answers = Answers { count: 1_000, took_ns: callers * 1_000_000, elapsed_ns: 100_000_000 };
            Look { answers, ..look([30_000, 30_000], 0, 0) }
        };
        assert!(!few(1).is_unlike(&[few(20)]) && !few(20).is_unlike(&[few(1)]));
    }
}
