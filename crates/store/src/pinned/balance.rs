//! Which worker runs which lane: pure.
//!
//! A lane's load is the time that its worker spends on it, halved whenever it is looked at. The heaviest worker gives a lane to the lightest, or
//! they exchange two, as long as the heavier of them has less to do after it.
//!
//! Invariants: a lane changes its worker only if that takes at least [`GAIN_MIN`] off the heavier of two workers, so noise moves nothing; every
//! worker is one of those that there are; loads that are even stay where they are.

/// What a change must take off the heavier worker's load, as a share of it.
const GAIN_MIN: f64 = 0.1;

/// What is remembered of the lanes.
pub(crate) struct Balance {
    loads: Vec<f64>,
}

impl Balance {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { loads: vec![0.0; lanes] }
    }

    /// Take in what each lane took since the last time, in nanoseconds.
    pub(crate) fn take_in(&mut self, took_ns: impl Iterator<Item = u64>) {
        for (load, took_ns) in self.loads.iter_mut().zip(took_ns) {
            *load = *load / 2.0 + took_ns as f64;
        }
    }

    /// Change `worker_of` where that evens the load of `workers` workers. Returns how many lanes have another worker now.
    pub(crate) fn change(&self, worker_of: &mut [u32], workers: u32) -> u64 {
        let mut changed = 0;
        // Each step makes the heavier of two lighter, so it ends; the bound spares a proof about sums of floats.
        for _ in 0..worker_of.len() {
            match step(&self.loads, worker_of, workers) {
                0 => break,
                lanes => changed += lanes,
            }
        }
        changed
    }
}

/// The loads of the workers.
fn of_workers(loads: &[f64], worker_of: &[u32], workers: u32) -> Vec<f64> {
    let mut sums = vec![0.0; workers as usize];
    for (load, worker) in loads.iter().zip(worker_of) {
        sums[*worker as usize] += load;
    }
    sums
}

/// One change that evens the load, if there is one; returns how many lanes have changed their worker.
fn step(loads: &[f64], worker_of: &mut [u32], workers: u32) -> u64 {
    let sums = of_workers(loads, worker_of, workers);
    let by_load = |a: &usize, b: &usize| sums[*a].total_cmp(&sums[*b]);
    let Some(heavy) = (0..sums.len()).max_by(by_load) else { return 0 };
    let Some(light) = (0..sums.len()).min_by(by_load) else { return 0 };
    let of =
        |worker: usize| -> Vec<usize> { (0..loads.len()).filter(|lane| worker_of[*lane] as usize == worker).collect() };
    // A lane for nothing, or for another one.
    let backs: Vec<_> = std::iter::once(None).chain(of(light).into_iter().map(Some)).collect();
    let gives = of(heavy).into_iter().flat_map(|lane| backs.iter().map(move |back| (lane, *back)));
    let after = |(lane, back): &(usize, Option<usize>)| {
        let moved = loads[*lane] - back.map_or(0.0, |back| loads[back]);
        (sums[heavy] - moved).max(sums[light] + moved)
    };
    let best = gives.min_by(|a, b| after(a).total_cmp(&after(b)));
    let Some((lane, back)) = best.filter(|give| after(give) <= sums[heavy] * (1.0 - GAIN_MIN) && sums[heavy] > 0.0)
    else {
        return 0;
    };
    worker_of[lane] = light as u32;
    if let Some(back) = back {
        worker_of[back] = heavy as u32;
    }
    1 + u64::from(back.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of looking often enough at lanes that take so much each time.
    fn settle(took_ns: &[u64], worker_of: &mut [u32], workers: u32) -> (u64, Vec<f64>) {
        let mut balance = Balance::new(took_ns.len());
        let mut changed = 0;
        for _ in 0..20 {
            balance.take_in(took_ns.iter().copied());
            changed += balance.change(worker_of, workers);
        }
        let loads: Vec<f64> = took_ns.iter().map(|ns| *ns as f64).collect();
        (changed, of_workers(&loads, worker_of, workers))
    }

    #[test]
    fn lanes_leave_a_worker_that_has_more_to_do_than_others() {
        let mut worker_of = [0, 1, 0, 1, 0, 1, 0, 1];
        let (changed, loads) = settle(&[100, 0, 100, 0, 100, 0, 100, 0], &mut worker_of, 2);
        assert_eq!(loads, [200.0, 200.0]);
        assert_eq!(changed, 2, "no more than it takes: {worker_of:?}");
    }

    #[test]
    fn two_lanes_change_places_where_no_one_lane_would_help() {
        let mut worker_of = [0, 0, 1, 1];
        let (_, loads) = settle(&[60, 50, 30, 20], &mut worker_of, 2);
        assert_eq!(loads, [80.0, 80.0], "{worker_of:?}");
    }

    #[test]
    fn what_is_even_or_nothing_or_cannot_be_divided_stays() {
        for took_ns in [[100; 6], [0; 6], [1000, 0, 0, 0, 0, 0], [104, 96, 100, 97, 103, 100]] {
            let mut worker_of = [0, 1, 2, 0, 1, 2];
            assert_eq!(settle(&took_ns, &mut worker_of, 3).0, 0, "{took_ns:?}: {worker_of:?}");
        }
    }

    #[test]
    fn random_loads_come_close_to_the_best_and_then_nothing_changes() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let (lanes, workers) = (random.usize(1..32), random.u32(1..6));
            let took_ns: Vec<u64> = (0..lanes).map(|_| random.u64(0..1000)).collect();
            let mut worker_of: Vec<u32> = (0..lanes).map(|_| random.u32(0..workers)).collect();
            let (_, loads) = settle(&took_ns, &mut worker_of, workers);
            assert!(worker_of.iter().all(|worker| *worker < workers));
            let heaviest = loads.iter().copied().fold(0.0, f64::max);
            // No schedule is better than the mean, or than the heaviest lane; a local search ends within twice that.
            let least = (took_ns.iter().sum::<u64>() as f64 / f64::from(workers))
                .max(took_ns.iter().copied().max().unwrap_or(0) as f64);
            assert!(heaviest <= 2.0 * least, "{heaviest} of {least}: {took_ns:?} on {workers}");
            let before = worker_of.clone();
            assert_eq!(settle(&took_ns, &mut worker_of, workers).0, 0, "{before:?} became {worker_of:?}");
        }
    }

    #[test]
    fn what_was_is_forgotten() {
        let mut balance = Balance::new(4);
        let mut worker_of = [0, 1, 0, 1];
        for _ in 0..9 {
            balance.take_in([500, 0, 500, 0].into_iter());
            balance.change(&mut worker_of, 2);
        }
        assert_ne!(worker_of[0], worker_of[2]);
        for _ in 9..20 {
            balance.take_in([500, 500, 0, 0].into_iter());
            balance.change(&mut worker_of, 2);
        }
        assert_ne!(worker_of[0], worker_of[1], "{worker_of:?}");
    }
}
