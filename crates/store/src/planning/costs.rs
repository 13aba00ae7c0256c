//! What it costs that keys which are accessed together lie apart, and that partitions are not equally loaded: measured where it can be.
//!
//! A group that lies apart takes longer than one of the same size that lies together; by how much, for each edge of a path through its keys
//! that is cut, is the price of a cut ([`Costs::cut_ns`]). While no group of a size lies together, which is how every store begins, the
//! price is a guess ([`Costs::is_guess`]), and never more than a share of what such a group was seen to take. Once some do, it is the difference between
//! the two, and the guess is forgotten: a plan whose premise was wrong takes its own ground away. Times of operations scatter widely, those that wait
//! for a device the most: what counts is the least that the difference is likely to be, or chance would move keys where nothing is to be had.
//!
//! The price of uneven load is what writers were seen to wait for each other's lanes ([`Costs::waited_ns`]), less what they would wait if the same
//! load were even. (Not where writes go through the journal that all partitions share: there evenness saves nothing, and nobody asks.)
//!
//! Invariant: no price is negative or more than what was measured, or guessed within what was measured.

use biombo_tracker::GROUP_KEYS_MAX;

use super::watch::{Times, Way};

/// What is guessed of a cut edge, reads and writes: a read of several partitions touches the more of their memory; a write of several needs an
/// intent that is synced.
const GUESS_NS: [f64; 2] = [200.0, 6_000.0];
/// The share of the time of a group that lies apart which is guessed to be the price of its lying apart, at most.
const GUESS_SHARE_MAX: [f64; 2] = [0.1, 0.7];
/// So many groups of a size and a kind have been timed, or it is not known how long they take.
const TIMED_MIN: f64 = 8.0;

/// Sizes of which no group was seen to lie together are like those that were, unless they are so many times as much: batches that write something new
/// each time never lie together, and must not make a guess of what is known of others for good.
const GUESSED_TIMES_MAX: f64 = 9.0;
/// What groups take changes more slowly than which they are, and takes many times to be known.
const SLOWLY: f64 = 4.0;
/// A mean is likely not farther from the truth than so many times its standard error.
const ERRORS: f64 = 2.0;

/// What groups take, and how far off that may be: the variance of the mean.
#[derive(Clone, Copy)]
struct Mean {
    ns: f64,
    variance: f64,
}

/// Times of which older ones count less. How well their mean is known is told by how many of equal weight it is as good as (Kish, "Survey Sampling",
/// 1965): where nothing new comes, that stays as it is however old they are.
#[derive(Clone, Copy, Default)]
struct Sums {
    weight: f64,
    weight2: f64,
    ns: f64,
    ns2: f64,
}

impl Sums {
    fn add(&mut self, factor: f64, count: f64, ns: f64, ns2: f64) {
        self.weight = self.weight * factor + count;
        self.weight2 = self.weight2 * factor * factor + count;
        self.ns = self.ns * factor + ns;
        self.ns2 = self.ns2 * factor + ns2;
    }

    /// `None`: they are too few, or so long ago that nothing is left of them.
    fn mean(&self) -> Option<Mean> {
        let as_many = self.weight * self.weight / self.weight2;
        let ns = self.ns / self.weight;
        (as_many >= TIMED_MIN).then(|| Mean { ns, variance: (self.ns2 / self.weight - ns * ns).max(0.0) / as_many })
    }
}

/// Groups of one way and size.
#[derive(Clone, Copy, Default)]
struct Kept {
    together: Sums,
    /// The mean of those, as far as it was known last.
    known: Option<Mean>,
    apart: Sums,
    /// Edges that were cut of the latter.
    cut: f64,
}

/// What a cut edge costs.
#[derive(Clone, Copy, Default)]
struct Price {
    ns: f64,
    /// Most of it is not measured.
    is_guess: bool,
}

/// What was timed lately: times by [`SLOWLY`] times the half-life of the window, all else by that.
#[derive(Default)]
pub(crate) struct Costs {
    kept: [Vec<Kept>; 2],
    /// For each way: what a cut edge costs, as far as was known last.
    cut: [Option<Price>; 2],
    /// How many edges of paths through groups there were, by way.
    edges: [f64; 2],
    /// What writers waited for lanes since the placement changed, and how many keys they wrote.
    waited_ns: f64,
    writes: f64,
    /// Groups' samples, and accesses that they stand for.
    samples: f64,
    weight: f64,
}

impl Costs {
    /// Take in what was timed, and what writers waited, since the last call; what was before counts by `factor` less.
    pub(crate) fn add(&mut self, factor: f64, times: &Times, waited_ns: f64) {
        let slowly = factor.powf(1.0 / SLOWLY);
        for (kept, times) in self.kept.iter_mut().zip(&times.0) {
            kept.resize(GROUP_KEYS_MAX + 1, Kept::default());
            for (kept, new) in kept.iter_mut().zip(times) {
                kept.together.add(slowly, new.together, new.together_ns, new.together_ns2);
                kept.apart.add(slowly, new.apart, new.apart_ns, new.apart_ns2);
                kept.cut = kept.cut * slowly + new.apart_cut;
                kept.known = kept.together.mean().or(kept.known);
            }
        }
        let others = [&mut self.samples, &mut self.weight, &mut self.waited_ns, &mut self.writes];
        self.edges.iter_mut().chain(others).for_each(|value| *value *= factor);
        self.waited_ns += waited_ns;
        for way in Way::ALL {
            self.cut[way.index()] = self.priced(way).or(self.cut[way.index()]);
        }
    }

    /// A sample of `keys` keys that were accessed together, which stands for `weight` such accesses.
    pub(crate) fn note_group(&mut self, way: Way, keys: usize, weight: f64) {
        self.edges[way.index()] += (keys.max(1) - 1) as f64 * weight;
        self.samples += 1.0;
        self.weight += weight;
    }

    /// So many keys were written.
    pub(crate) fn note_writes(&mut self, keys: f64) {
        self.writes += keys;
    }

    /// The placement has changed: what writers waited before says nothing about it.
    pub(crate) fn forget_waits(&mut self) {
        (self.waited_ns, self.writes) = (0.0, 0.0);
    }

    /// What writers waited for each key.
    pub(crate) fn waited_per_write_ns(&self) -> f64 {
        if self.writes > 0.0 { self.waited_ns / self.writes } else { 0.0 }
    }

    /// What a sample of a group stands for.
    pub(crate) fn sample_weight(&self) -> f64 {
        if self.samples > 0.0 { self.weight / self.samples } else { f64::INFINITY }
    }

    /// What one cut edge costs of reads, or of writes.
    pub(crate) fn cut_ns_of(&self, way: Way) -> f64 {
        self.cut[way.index()].unwrap_or_default().ns
    }

    /// What one cut edge costs of those that the window knows, reads and writes as they come.
    pub(crate) fn cut_ns(&self) -> f64 {
        let edges: f64 = self.edges.iter().sum();
        let price = |way: Way| self.cut_ns_of(way) * self.edges[way.index()];
        if edges > 0.0 { Way::ALL.into_iter().map(price).sum::<f64>() / edges } else { 0.0 }
    }

    /// Whether most of that is a guess: nothing, or little, was seen to lie together.
    pub(crate) fn is_guess(&self) -> bool {
        let price = |way: &Way| self.cut[way.index()].unwrap_or_default();
        let worth = |way: Way| price(&way).ns * self.edges[way.index()];
        let guessed: f64 = Way::ALL.into_iter().filter(|way| price(way).is_guess).map(worth).sum();
        guessed > Way::ALL.into_iter().map(worth).sum::<f64>() / 2.0
    }

    /// What writers waited for lanes, in the window.
    pub(crate) fn waited_ns(&self) -> f64 {
        self.waited_ns
    }

    /// The mean over the sizes, each by how much of it lies apart.
    fn priced(&self, way: Way) -> Option<Price> {
        let (mut measured_ns, mut variance, mut measured_cut) = (0.0, 0.0, 0.0);
        let (mut guessed_ns, mut guessed_cut) = (0.0, 0.0);
        for kept in &self.kept[way.index()] {
            let (Some(apart), count) = (kept.apart.mean(), kept.apart.weight) else { continue };
            if let Some(together) = kept.known {
                measured_ns += count * (apart.ns - together.ns);
                variance += count.powi(2) * (apart.variance + together.variance);
                measured_cut += kept.cut;
            } else {
                let guess_ns = GUESS_NS[way.index()] * kept.cut / count;
                guessed_ns += count * guess_ns.min(GUESS_SHARE_MAX[way.index()] * apart.ns);
                guessed_cut += kept.cut;
            }
        }
        let least_ns = (measured_ns - ERRORS * variance.sqrt()).max(0.0);
        let is_guess = guessed_cut > GUESSED_TIMES_MAX * measured_cut;
        let (ns, cut) =
            if is_guess { (least_ns + guessed_ns, measured_cut + guessed_cut) } else { (least_ns, measured_cut) };
        (cut > 0.0).then(|| Price { ns: ns / cut, is_guess })
    }
}

/// What of the waiting for lanes is there because the loads are uneven: two writers meet in a partition as often as the squares of the shares of the
/// load say.
pub(crate) fn uneven_ns(waited_ns: f64, loads: &[u64]) -> f64 {
    let total = loads.iter().sum::<u64>() as f64;
    if total == 0.0 {
        return 0.0;
    }
    let meet: f64 = loads.iter().map(|load| (*load as f64 / total).powi(2)).sum();
    let least = 1.0 / loads.len() as f64;
    waited_ns * ((meet - least) / meet).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::watch::Timed;
    use super::*;

    fn writes_of_ten(timed: Timed) -> Times {
        let mut times = Times::default();
        times.0[Way::Write.index()][10] = timed;
        times
    }

    fn known(timed: Timed) -> Costs {
        let mut costs = Costs::default();
        costs.note_group(Way::Write, 10, 100.0);
        costs.add(1.0, &writes_of_ten(timed), 0.0);
        costs
    }

    fn price(timed: Timed) -> f64 {
        known(timed).cut_ns()
    }

    #[test]
    fn the_price_of_a_cut_is_measured_where_some_lie_together_and_guessed_within_bounds_where_none_do() {
        let apart = Timed { apart: 100.0, apart_ns: 100.0 * 80_000.0, apart_cut: 800.0, ..Timed::default() };
        assert_eq!(price(apart), 6_000.0);
        let quick = Timed { apart_ns: 100.0 * 8_000.0, ..apart };
        assert_eq!(price(quick), 700.0, "not more than seven tenths of what it takes");
        let together = |each_ns: f64| Timed { together: 50.0, together_ns: 50.0 * each_ns, ..apart };
        assert_eq!(price(together(16_000.0)), 8_000.0);
        assert_eq!(price(together(90_000.0)), 0.0, "lying apart costs nothing");
        assert_eq!(price(Timed { apart: 7.0, ..apart }), 0.0, "few say nothing");
    }

    /// Times that scatter as much as they are long: of 100 and 400 of them, means of 80 and 70 us say nothing, and of as many hundred times more they do.
    #[test]
    fn a_difference_that_chance_may_have_made_is_none_and_the_least_that_it_is_likely_to_be_counts() {
        let timed = |times: f64| {
            let (together, apart) = (100.0 * times, 400.0 * times);
            let (together_ns, apart_ns) = (together * 70_000.0, apart * 80_000.0);
            let (together_ns2, apart_ns2) = (2.0 * together * 70_000f64.powi(2), 2.0 * apart * 80_000f64.powi(2));
            Timed { together, together_ns, together_ns2, apart, apart_ns, apart_ns2, apart_cut: 8.0 * apart }
        };
        assert_eq!(price(timed(1.0)), 0.0);
        // What is known well is known as well after long, and where other groups come that lie apart.
        let mut costs = known(timed(100.0));
        let then_ns = costs.cut_ns();
        (0..200).for_each(|_| costs.add(0.5, &Times::default(), 0.0));
        costs.note_group(Way::Write, 10, 1.0);
        assert!(then_ns > 0.0 && (costs.cut_ns() / then_ns - 1.0).abs() < 1e-6, "{then_ns}, then {}", costs.cut_ns());
        let apart = Timed { together: 0.0, together_ns: 0.0, together_ns2: 0.0, ..timed(1.0) };
        (0..20).for_each(|_| costs.add(0.5, &writes_of_ten(apart), 0.0));
        costs.note_group(Way::Write, 10, 1.0);
        assert!(costs.cut_ns() > 0.0 && !costs.is_guess(), "{}", costs.cut_ns());
        // Two standard errors: twice the root of 70^2 / 10,000 + 80^2 / 40,000, in microseconds.
        let least_ns = 10_000.0 - 2.0 * (4_900.0f64 / 10_000.0 + 6_400.0 / 40_000.0).sqrt() * 1_000.0;
        assert!((price(timed(100.0)) - least_ns / 8.0).abs() < 1e-6, "{}", price(timed(100.0)));
    }

    #[test]
    fn a_price_is_a_guess_until_groups_were_timed_that_lie_together() {
        let apart = Timed { apart: 100.0, apart_ns: 8e6, apart_cut: 800.0, ..Timed::default() };
        assert!(known(apart).is_guess());
        let both = Timed { together: 50.0, together_ns: 50.0 * 16_000.0, ..apart };
        let mut costs = known(both);
        assert!(!costs.is_guess());
        // It stays known where groups change, and lie apart.
        (0..20).for_each(|_| costs.add(0.5, &writes_of_ten(apart), 0.0));
        assert!(!costs.is_guess() && (costs.cut_ns() - 8_000.0).abs() < 1e-6);
        // Reads are guessed at, and are worth less than what is known until there are many.
        let mut times = writes_of_ten(apart);
        times.0[Way::Read.index()][10] = apart;
        costs.note_group(Way::Write, 10, 100.0);
        costs.note_group(Way::Read, 10, 100.0);
        costs.add(1.0, &times, 0.0);
        assert!(!costs.is_guess());
        costs.note_group(Way::Read, 10, 10_000.0);
        assert!(costs.is_guess());
        assert!(!Costs::default().is_guess(), "nothing is worth nothing");
        // Where apart is known to cost nothing, a few groups of another size are no reason to ask again.
        let mut times = writes_of_ten(Timed { together: 50.0, together_ns: 50.0 * 80_000.0, ..apart });
        times.0[Way::Write.index()][12] = Timed { apart: 10.0, apart_ns: 8e5, apart_cut: 90.0, ..Timed::default() };
        let of = |times: &Times| {
            let mut costs = Costs::default();
            costs.note_group(Way::Write, 10, 100.0);
            costs.add(1.0, times, 0.0);
            (costs.is_guess(), costs.cut_ns())
        };
        assert_eq!(of(&times), (false, 0.0));
        // Nor are many that never lie together a reason to doubt what the others show.
        times.0[Way::Write.index()][10] = both;
        times.0[Way::Write.index()][24] = Timed { apart: 300.0, apart_ns: 3e7, apart_cut: 6e3, ..Timed::default() };
        assert_eq!(of(&times), (false, 8_000.0));
    }

    #[test]
    fn what_was_known_stays_known_when_no_group_lies_apart_any_more_and_what_is_timed_anew_replaces_it() {
        let mut costs = Costs::default();
        costs.note_group(Way::Write, 10, 1.0);
        let both = Timed {
            together: 50.0,
            together_ns: 50.0 * 16_000.0,
            apart: 100.0,
            apart_ns: 8e6,
            apart_cut: 800.0,
            ..Timed::default()
        };
        costs.add(1.0, &writes_of_ten(both), 0.0);
        for _ in 0..20 {
            costs.add(0.5, &Times::default(), 0.0);
        }
        assert!((costs.cut_ns() - 8_000.0).abs() < 1e-6, "{}", costs.cut_ns());
        costs.add(0.0, &writes_of_ten(Timed { apart_ns: 4e6, ..both }), 0.0);
        costs.note_group(Way::Write, 10, 1.0);
        assert_eq!(costs.cut_ns(), 3_000.0);
        // Reads, of which nothing was timed, cost nothing, and are nine tenths of the edges.
        costs.note_group(Way::Read, 10, 9.0);
        assert!((costs.cut_ns() - 300.0).abs() < 1e-6, "{}", costs.cut_ns());
    }

    #[test]
    fn even_loads_make_nobody_wait_more_than_he_must() {
        assert_eq!(uneven_ns(1e6, &[5, 5, 5, 5]), 0.0);
        assert_eq!(uneven_ns(1e6, &[20, 0, 0, 0]), 750_000.0);
        assert_eq!(uneven_ns(1e6, &[0, 0]), 0.0);
        assert!(uneven_ns(1e6, &[101, 99, 100, 100]) < 100.0, "noise");
    }
}
