//! Changes of workers on trial, in a model of who is served how well.

use super::look::{Answers, Look};
use super::trial::Evener;

/// Two lanes of four that are asked for, of one worker at first.
const UNEVEN: [u64; 4] = [100, 0, 100, 0];
const TOGETHER: [u32; 4] = [0, 1, 0, 1];
const LOOK_NS: u64 = 100_000_000;
/// Looks before the first change, and while a change is on trial.
const FIRST: usize = 5;
const TRIAL: usize = 4;

/// How writes are served: what each takes, and how many are answered at each look.
#[derive(Clone, Copy)]
struct Served {
    each_ns: u64,
    writes: u64,
}

/// By so many callers who write again at once.
fn closed(callers: u64, each_ns: u64) -> Served {
    Served { each_ns, writes: callers * LOOK_NS / each_ns }
}

struct Scene {
    evener: Evener,
    worker_of: Vec<u32>,
    took_ns: [u64; 4],
    together: Served,
    apart: Served,
    /// Looks at which lanes have changed their workers.
    changes: Vec<usize>,
    looks: usize,
}

impl Scene {
    fn new(together: Served, apart: Served) -> Self {
        let worker_of = TOGETHER.to_vec();
        let evener = Evener::new(worker_of.clone());
        Self { evener, worker_of, took_ns: UNEVEN, together, apart, changes: Vec::new(), looks: 0 }
    }

    fn is_apart(&self) -> bool {
        self.worker_of[0] != self.worker_of[2]
    }

    fn look(&mut self, times: usize) {
        for _ in 0..times {
            let Served { each_ns, writes } = if self.is_apart() { self.apart } else { self.together };
            let answers = Answers { count: writes, took_ns: writes * each_ns, elapsed_ns: LOOK_NS };
            let look = Look { took_ns: self.took_ns.to_vec(), answers };
            if self.evener.look(look, &mut self.worker_of, 2) > 0 {
                self.changes.push(self.looks);
            }
            self.looks += 1;
        }
    }
}

#[test]
fn lanes_that_are_served_better_apart_stay_apart() {
    for apart_ns in [10_000, 28_000] {
        let mut scene = Scene::new(closed(2, 30_000), closed(2, apart_ns));
        scene.look(2000);
        assert!(scene.is_apart() && scene.evener.is_settled(), "{apart_ns}");
        let doubted = FIRST - 1 + TRIAL;
        let (made, later) = scene.changes.split_at(3);
        assert_eq!(made, [FIRST - 1, doubted, doubted + TRIAL], "tried, doubted and made: {apart_ns}");
        // A small gain is doubted again, each time after twice as long.
        let again: Vec<usize> = later.iter().step_by(2).copied().collect();
        assert!(later.chunks(2).all(|doubt| doubt[1] - doubt[0] == TRIAL), "{later:?}");
        assert_eq!(again.len(), if apart_ns == 10_000 { 0 } else { 6 }, "{later:?}");
        assert!(again.windows(2).take(4).enumerate().all(|(i, two)| two[1] - two[0] == TRIAL + (60 << i)), "{again:?}");
    }
}

#[test]
fn lanes_that_are_served_no_better_go_back_and_rest_for_longer_each_time() {
    for apart_ns in [29_500, 30_000, 36_000] {
        let mut scene = Scene::new(closed(8, 30_000), closed(8, apart_ns));
        scene.look(3000);
        let tried: Vec<usize> = scene.changes.iter().step_by(2).copied().collect();
        let undone: Vec<usize> = scene.changes.iter().skip(1).step_by(2).copied().collect();
        assert!(
            !scene.is_apart() && !scene.evener.is_settled(),
            "{apart_ns}: what failed is no ground for moving keys"
        );
        assert!(tried.iter().zip(&undone).all(|(tried, undone)| undone - tried == TRIAL), "{:?}", scene.changes);
        let rests: Vec<usize> = undone.iter().zip(&tried[1..]).map(|(undone, tried)| tried - undone).collect();
        let last = *rests.last().expect("a rest");
        assert!(rests.is_sorted() && (100..110).contains(&rests[0]) && (600..610).contains(&last), "{rests:?}");
    }
}

/// Writes of a store that warms up are answered sooner and sooner, whoever serves them.
#[test]
fn what_gets_better_by_itself_is_no_gain() {
    for slower_apart in [0, 1_500] {
        let mut scene = Scene::new(closed(8, 60_000), closed(8, 60_000));
        for look in 0..100 {
            let each_ns = 30_000 + 30_000 / (1 + look / 3);
            (scene.together, scene.apart) = (closed(8, each_ns), closed(8, each_ns + slower_apart));
            scene.look(1);
        }
        assert!(!scene.is_apart(), "{slower_apart}: {:?}", scene.changes);
        assert!(scene.changes.len() >= 2, "it was tried: {:?}", scene.changes);
    }
}

/// Writes that are answered sooner say nothing of reads, which wait for a processor meanwhile.
#[test]
fn in_a_closed_loop_throughput_decides() {
    let served = |each_ns, writes| Served { each_ns, writes };
    let mut scene = Scene::new(served(30_000, 20_000), served(27_000, 16_000));
    scene.look(50);
    assert!(!scene.is_apart() && scene.changes.len() == 2, "{:?}", scene.changes);
    let mut scene = Scene::new(served(30_000, 20_000), served(30_000, 22_000));
    scene.look(50);
    assert!(scene.is_apart(), "as soon, and more of them");
}

#[test]
fn in_an_open_loop_response_time_decides() {
    let served = |each_ns| Served { each_ns, writes: 5_000 };
    for (apart_ns, stays) in [(24_000, true), (30_000, false), (36_000, false)] {
        let mut scene = Scene::new(served(30_000), served(apart_ns));
        scene.look(50);
        assert_eq!(scene.is_apart(), stays, "{apart_ns}: {:?}", scene.changes);
    }
}

#[test]
fn what_is_far_worse_is_undone_at_once() {
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 60_000));
    scene.look(50);
    assert_eq!(scene.changes, [FIRST - 1, FIRST + 1], "two looks");
    // An open loop has answers to give that it owed before: the second look tells, and the one after it.
    let served = |each_ns| Served { each_ns, writes: 5_000 };
    let mut scene = Scene::new(served(30_000), served(60_000));
    scene.look(50);
    assert_eq!(scene.changes, [FIRST - 1, FIRST + 2], "three looks");
}

/// A store is filled, by small writes that all lanes get alike; then large ones come that only some get.
#[test]
fn large_writes_are_not_held_against_small_ones_that_came_before() {
    // Uneven ones would have been tried had they come for longer.
    for (small, seen) in [([100; 4], 2), ([100; 4], FIRST + 2), (UNEVEN, 1), (UNEVEN, FIRST - 1)] {
        let mut scene = Scene::new(closed(4, 40_000), closed(4, 40_000));
        scene.took_ns = small;
        scene.look(seen);
        (scene.took_ns, scene.together, scene.apart) = (UNEVEN, closed(4, 2_600_000), closed(4, 1_600_000));
        scene.look(FIRST + 2 * TRIAL);
        assert!(scene.is_apart() && scene.changes.len() == 3, "{seen}: {:?}", scene.changes);
        assert_eq!(scene.changes[0], seen + FIRST - 1, "as soon as there are looks enough of its own");
    }
}

#[test]
fn one_look_at_a_stall_undoes_nothing() {
    for stalled in 0..TRIAL - 1 {
        let mut scene = Scene::new(closed(8, 30_000), closed(8, 12_000));
        scene.look(FIRST + stalled);
        let apart = std::mem::replace(&mut scene.apart, closed(8, 60_000));
        scene.took_ns = [20, 0, 180, 0];
        scene.look(1);
        (scene.apart, scene.took_ns) = (apart, UNEVEN);
        scene.look(2 * TRIAL);
        assert!(scene.is_apart() && scene.changes.len() == 3, "{stalled}: {:?}", scene.changes);
    }
}

/// Hardly ever anybody waits.
#[test]
fn callers_that_are_few_are_of_one_load() {
    let served = |each_ns| Served { each_ns, writes: 500 };
    let mut scene = Scene::new(served(30_000), served(20_000));
    scene.look(FIRST + 2 * TRIAL);
    assert!(scene.is_apart() && scene.changes.len() == 3, "{:?}", scene.changes);
}

#[test]
fn a_gain_that_was_chance_is_found_out() {
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 27_000));
    scene.look(FIRST + 2 * TRIAL);
    assert!(scene.is_apart());
    scene.apart = closed(8, 33_000);
    scene.look(30 + TRIAL);
    assert!(!scene.is_apart() && scene.changes.len() == 4, "{:?}", scene.changes);
    scene.look(90);
    assert_eq!(scene.changes.len(), 4, "and rests: {:?}", scene.changes);
}

/// Where the load goes away while a small gain is doubted, nothing is left to doubt.
#[test]
fn who_is_at_home_is_not_doubted() {
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 27_000));
    scene.look(FIRST + 2 * TRIAL + 31);
    assert!(!scene.is_apart(), "doubted: {:?}", scene.changes);
    scene.took_ns = [100; 4];
    scene.look(TRIAL);
    assert_eq!(scene.changes.len(), 4, "given up: {:?}", scene.changes);
    scene.look(200);
    assert!(scene.evener.is_settled() && scene.changes.len() == 4, "{:?}", scene.changes);
}

/// What comes under a trial is another load: it is no fault of the workers'.
#[test]
fn a_trial_whose_load_goes_away_is_given_up_and_made_again_soon() {
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 20_000));
    scene.look(FIRST + 1);
    assert!(scene.is_apart());
    let apart = std::mem::replace(&mut scene.apart, closed(8, 60_000));
    scene.took_ns = [0, 100, 0, 100];
    scene.look(2);
    assert!(!scene.is_apart() && scene.changes.len() == 2, "{:?}", scene.changes);
    scene.apart = apart;
    scene.look(50 + 2 * TRIAL);
    assert!(scene.worker_of[1] != scene.worker_of[3] && scene.changes.len() == 5, "{:?}", scene.changes);
}

#[test]
fn workers_that_nothing_is_asked_of_are_no_reason_to_move_keys() {
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 30_000));
    scene.took_ns = [0; 4];
    scene.look(50);
    assert!(!scene.evener.is_settled());
    scene.took_ns = [100; 4];
    scene.look(50);
    assert!(scene.evener.is_settled());
}

#[test]
fn a_few_writes_undo_nothing_and_many_have_it_judged() {
    let few = Served { each_ns: 30_000, writes: 3 };
    let mut scene = Scene::new(few, Served { each_ns: 90_000, ..few });
    scene.look(500);
    assert!(scene.is_apart());
    assert_eq!(scene.changes.len(), 1, "{:?}", scene.changes);
    (scene.together, scene.apart) = (closed(8, 30_000), closed(8, 60_000));
    scene.look(20);
    assert!(!scene.is_apart(), "{:?}", scene.changes);
    assert_eq!(scene.changes.len(), 4, "home, tried, and home again: {:?}", scene.changes);
}

/// With two callers two workers were better; with eight they are not.
#[test]
fn what_was_found_under_another_load_is_judged_anew() {
    let mut scene = Scene::new(closed(2, 30_000), closed(2, 20_000));
    scene.look(100);
    assert!(scene.is_apart());
    (scene.together, scene.apart) = (closed(8, 40_000), closed(8, 60_000));
    scene.look(30);
    assert!(!scene.is_apart(), "{:?}", scene.changes);
    scene.look(300);
    let tried = scene.changes.len();
    // Three for the gain, one home, and two for each trial in thirty seconds.
    assert!(!scene.is_apart() && (6..=10).contains(&tried), "{:?}", scene.changes);
}

#[test]
fn what_was_undone_is_tried_again_under_another_load_as_soon_as_its_cost_is_paid() {
    // It takes four looks, and a tenth of what they give: forty looks of rest, though a hundred would be right.
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 33_333));
    scene.look(FIRST + TRIAL);
    assert_eq!(scene.changes.len(), 2, "{:?}", scene.changes);
    scene.took_ns = [0, 100, 0, 100];
    scene.look(30);
    assert_eq!(scene.changes.len(), 2, "not yet paid: {:?}", scene.changes);
    scene.look(12);
    assert_eq!(scene.changes.len(), 3, "long before a hundred: {:?}", scene.changes);
}

/// Lanes that are loaded alike, but for noise, as while a store is filled.
#[test]
fn noise_tries_hardly_anything_and_keeps_nothing() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut scene = Scene::new(closed(8, 30_000), closed(8, 30_000));
    for _ in 0..2000 {
        scene.took_ns = std::array::from_fn(|_| random.u64(70..130));
        let served = Served { each_ns: random.u64(29_400..30_600), writes: random.u64(26_000..27_000) };
        (scene.together, scene.apart) = (served, served);
        scene.look(1);
    }
    assert_eq!(scene.worker_of, TOGETHER, "{:?}", scene.changes);
    assert!(scene.changes.len() < 30, "{:?}", scene.changes);
}
