//! What a window knows against what was really accessed.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::sync::Arc;

use biombo_tracker::{GROUP_KEYS_MAX, Limits, Rates, Tracker, Window};

const SECOND: u64 = 1_000_000_000;

fn all() -> Rates {
    Rates { singles: 1, groups: 1, ring_bytes: 1 << 20, thinned_max: 1 }
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

fn drain(tracker: &Tracker, window: &mut Window) -> u64 {
    tracker.drain(|sample| window.note(sample, |key| u32::from(key[key.len() - 1] % 4))).samples
}

#[test]
fn sampled_loads_are_those_of_all_accesses_in_the_mean() {
    // Its own thread, so that count-downs of other tests' trackers play no part.
    std::thread::spawn(|| {
        let tracker = Tracker::new(Rates { ring_bytes: 1 << 20, ..Rates::default() });
        let mut window = Window::new(Limits::default());
        let mut truth = HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        // A caller with a rhythm of 64: a count-down of constant length would always meet the same key.
        for i in 0..2_000_000u64 {
            let n = if i % 64 == 0 { 0 } else { random.u64(1..100).pow(2) / 100 };
            *truth.entry(n).or_insert(0u64) += 1;
            tracker.read(&key(n));
            if i % 10_000 == 0 {
                drain(&tracker, &mut window);
            }
        }
        drain(&tracker, &mut window);
        let known: HashMap<Vec<u8>, f64> = window.keys().map(|k| (k.key.to_vec(), k.load.reads)).collect();
        for (n, count) in truth {
            let found = known.get(&key(n)).copied().unwrap_or(0.0);
            let share = found / count as f64;
            // 312 samples of the rarest of them: six standard deviations.
            assert!(count < 20_000 || (0.66..1.34).contains(&share), "key {n}: {found} of {count}");
        }
        let sum: f64 = window.units().map(|(_, load)| load.total()).sum();
        assert!((1.95e6..2.05e6).contains(&sum), "{sum} of 2,000,000");
    })
    .join()
    .unwrap();
}

#[test]
fn samples_that_were_lost_count_with_those_that_found_room() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(Rates { ring_bytes: 1 << 10, ..all() });
        let mut window = Window::new(Limits::default());
        for round in 0..100 {
            (0..500).for_each(|_| tracker.write(b"key"));
            let drained = tracker.drain(|sample| window.note(sample, |_| 0));
            assert!(drained.lost > 400 && drained.samples > 10, "{drained:?} in round {round}");
        }
        tracker.write(b"key");
        tracker.drain(|sample| window.note(sample, |_| 0));
        let (_, load) = window.units().next().unwrap();
        assert_eq!((load.writes, load.reads), (50_001.0, 0.0));
    })
    .join()
    .unwrap();
}

/// Were the first sample after a full ring to stand for all that were lost, some keys would weigh twenty times what others do.
#[test]
fn no_key_seems_hot_because_its_sample_was_the_first_to_find_room() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(Rates { ring_bytes: 4 << 10, ..all() });
        let mut window = Window::new(Limits::default());
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..100 {
            (0..2_000).for_each(|_| tracker.write(&key(random.u64(..100))));
            let drained = tracker.drain(|sample| window.note(sample, |_| 0));
            assert!(drained.lost > 1_500 && drained.samples > 100, "{drained:?}");
        }
        let loads: Vec<f64> = window.keys().map(|key| key.load.writes).collect();
        // 2,000 each, of some 150 samples: within five standard deviations.
        assert_eq!((loads.len(), loads.iter().sum::<f64>()), (100, 200_000.0));
        assert!(loads.iter().all(|load| (1_100.0..2_900.0).contains(load)), "{loads:?}");
        // Many keys at once, of which each stands for several, beside single ones: together they stand for all.
        let many: Vec<_> = (1_000..1_640).map(key).collect();
        for _ in 0..50 {
            tracker.write_group(640, || many.iter().map(Vec::as_slice));
            (0..640).for_each(|_| tracker.write(b"alone"));
            tracker.drain(|sample| window.note(sample, |key| u32::from(key == b"alone")));
        }
        let alone = window.units().find(|(unit, _)| *unit == 1).unwrap().1.writes;
        let many = window.units().find(|(unit, _)| *unit == 0).unwrap().1.writes - 200_000.0;
        assert!((alone + many - 64_000.0).abs() < 3_200.0 && alone + many <= 64_000.0, "{alone} and {many}");
    })
    .join()
    .unwrap();
}

#[test]
fn one_sample_that_no_ring_has_room_for_keeps_no_other_out() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(Rates { ring_bytes: 1 << 10, ..all() });
        let mut window = Window::new(Limits::default());
        let long = vec![7; 2_000];
        for _ in 0..10 {
            tracker.write(&long);
            (0..5).for_each(|_| tracker.write(b"short"));
            tracker.drain(|sample| window.note(sample, |_| 0));
        }
        let keys: Vec<_> = window.keys().map(|key| (key.key.to_vec(), key.load.writes)).collect();
        assert_eq!(keys, [(b"short".to_vec(), 60.0)], "what was lost counts with what was kept");
    })
    .join()
    .unwrap();
}

#[test]
fn what_threads_leave_behind_is_found_after_their_end() {
    let tracker = Arc::new(Tracker::new(all()));
    for thread in 0..8u64 {
        let tracker = Arc::clone(&tracker);
        std::thread::spawn(move || (0..1_000).for_each(|_| tracker.read(&key(thread)))).join().unwrap();
    }
    let mut window = Window::new(Limits::default());
    let samples = drain(&tracker, &mut window);
    assert_eq!((samples, drain(&tracker, &mut window)), (8 * 1_000, 0));
    assert!(window.keys().all(|key| key.load.reads == 1_000.0) && window.keys().count() == 8);
}

#[test]
fn an_access_counts_half_after_each_half_life_and_long_after_it_is_forgotten() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let limits = Limits { half_life_ns: SECOND, ..Limits::default() };
        let mut window = Window::new(limits);
        tracker.write_group(2, || [&b"old1"[..], b"old2"]);
        drain(&tracker, &mut window);
        let load = |window: &Window, name: &[u8]| window.keys().find(|k| k.key == name).map(|k| k.load.total());
        for halvings in 1..=200 {
            window.advance(halvings * SECOND);
            let expected = 0.5f64.powi(halvings as i32);
            let old = load(&window, b"old1").unwrap_or(0.0);
            assert!((old - expected).abs() <= expected * 1e-9 || expected < 1e-3, "{old} after {halvings}");
            tracker.read(b"new");
            drain(&tracker, &mut window);
        }
        let new = load(&window, b"new").unwrap();
        assert!((1.99..2.01).contains(&new), "1 + 1/2 + 1/4 + .. is {new}");
        assert!(window.pairs().all(|pair| pair.weight < 1e-3), "{:?}", window.pairs().next());
    })
    .join()
    .unwrap();
}

/// Groups of ten, each accessed whole: the pairs that weigh anything are those of one group, and they tie it together.
#[test]
fn groups_are_found_among_noise_in_a_table_that_is_too_small_for_all() {
    std::thread::spawn(|| {
        const GROUPS: u64 = 100;
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits { keys_max: 2_000, ..Limits::default() });
        let mut random = fastrand::Rng::with_seed(3);
        let mut noise = 1_000_000;
        for _ in 0..20_000 {
            let group = random.u64(..GROUPS);
            let keys: Vec<_> = (0..10).map(|member| key(group * 10 + member)).collect();
            tracker.write_group(10, || keys.iter().map(Vec::as_slice));
            // As many keys again that are never seen a second time.
            let strangers: Vec<_> = (0..10).map(|i| key(noise + i)).collect();
            noise += 10;
            tracker.read_group(10, || strangers.iter().map(Vec::as_slice));
            drain(&tracker, &mut window);
        }
        let number_of = |n: u32| {
            let view = window.keys().find(|k| k.number == n).unwrap();
            String::from_utf8_lossy(&view.key[3..]).parse::<u64>().unwrap()
        };
        let mut tied: Vec<u64> = (0..GROUPS * 10).collect();
        fn root(tied: &[u64], mut n: u64) -> u64 {
            while tied[n as usize] != n {
                n = tied[n as usize];
            }
            n
        }
        for pair in window.pairs().filter(|pair| pair.weight >= 10.0) {
            let (a, b) = (number_of(pair.a), number_of(pair.b));
            assert!(a / 10 == b / 10 && a < GROUPS * 10, "{a} and {b} are never accessed together: {}", pair.weight);
            let (a, b) = (root(&tied, a), root(&tied, b));
            tied[a as usize] = b;
        }
        let is_whole = |group: &u64| {
            let roots: Vec<u64> = (0..10).map(|member| root(&tied, group * 10 + member)).collect();
            roots.iter().all(|r| *r == roots[0])
        };
        // Who is dropped is drawn by lot: once in some runs it is a member of a group, a moment ago.
        let whole = (0..GROUPS).filter(is_whole).count();
        assert!(whole >= 95, "only {whole} of {GROUPS} groups are tied together");
    })
    .join()
    .unwrap();
}

#[test]
fn a_place_that_went_to_another_key_keeps_no_ties_of_the_former_one() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits { keys_max: 3, ..Limits::default() });
        for _ in 0..1_000 {
            tracker.read(b"heavy");
        }
        tracker.read_group(2, || [&b"heavy"[..], b"a"]);
        drain(&tracker, &mut window);
        for n in 0..400 {
            tracker.read(&key(n / 2));
        }
        drain(&tracker, &mut window);
        assert!(window.keys().any(|k| k.key == b"heavy") && window.keys().count() == 3);
        assert!(window.keys().all(|k| k.key != b"a"), "the light key should have gone");
        assert_eq!(window.pairs().count(), 0);
    })
    .join()
    .unwrap();
}

#[test]
fn an_operation_over_more_keys_than_a_group_has_counts_them_without_tying_them() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits::default());
        let count = GROUP_KEYS_MAX * 10;
        let keys: Vec<_> = (0..count as u64).map(key).collect();
        tracker.write_group(count, || keys.iter().map(Vec::as_slice));
        drain(&tracker, &mut window);
        let sum: f64 = window.units().map(|(_, load)| load.writes).sum();
        assert_eq!((sum, window.pairs().count()), (count as f64, 0));
    })
    .join()
    .unwrap();
}

#[test]
fn a_span_ties_units_and_no_keys() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits::default());
        tracker.read_span(&[1], &[2]);
        tracker.read_span(&[2], &[1]);
        tracker.read_span(&[3], &[3]);
        drain(&tracker, &mut window);
        assert_eq!(window.unit_pairs().collect::<Vec<_>>(), [((1, 2), 2.0)]);
        assert_eq!(window.keys().count(), 0);
        let total = window.units().map(|(_, load)| load.total()).sum::<f64>();
        // 1 is split into 1 and 2, 2 is 3 now, and 3 is no more.
        window.renumber_units(|unit| match unit {
            1 => vec![(1, 0.25), (2, 0.75)],
            2 => vec![(3, 1.0)],
            _ => Vec::new(),
        });
        assert_eq!(window.unit_pairs().collect::<Vec<_>>(), [((2, 3), 2.0)]);
        let mut loads: Vec<_> = window.units().map(|(unit, load)| (unit, load.total())).collect();
        loads.sort_by_key(|(unit, _)| *unit);
        assert_eq!(loads, [(1, 0.5), (2, 1.5), (3, 2.0)]);
        assert_eq!(loads.iter().map(|(_, load)| load).sum::<f64>(), total - 2.0);
    })
    .join()
    .unwrap();
}

#[test]
fn pairs_of_units_are_bounded_and_those_that_come_often_stay() {
    std::thread::spawn(|| {
        const PAIRS: usize = 100;
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits { pairs_max: PAIRS, ..Limits::default() });
        let mut random = fastrand::Rng::with_seed(11);
        let unit = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
        let (mut all, mut most) = (0.0, 0);
        for _ in 0..2_000 {
            for often in [1u32, 2, 3] {
                tracker.read_span(&often.to_be_bytes(), &(often + 1).to_be_bytes());
            }
            for _ in 0..27 {
                tracker.read_span(&random.u32(100..1_000).to_be_bytes(), &random.u32(2_000..3_000).to_be_bytes());
            }
            all += 30.0;
            tracker.drain(|sample| window.note(sample, unit));
            most = most.max(window.unit_pairs().count());
        }
        assert!(most > PAIRS && most <= 2 * PAIRS, "{most} pairs");
        for often in [1, 2, 3] {
            let found = window.unit_pairs().find(|(pair, _)| *pair == (often, often + 1));
            let weight = found.map_or(0.0, |(_, weight)| weight);
            let least = 2_000.0 - all / (PAIRS as f64 + 1.0);
            assert!((least..=2_000.0).contains(&weight), "{often}: {weight} of 2,000, at least {least}");
        }
    })
    .join()
    .unwrap();
}

#[test]
fn the_first_and_the_last_of_a_group_are_tied_too() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits::default());
        for _ in 0..100 {
            tracker.write_group(3, || [&b"a"[..], b"b", b"c"]);
        }
        drain(&tracker, &mut window);
        let weights: Vec<f64> = window.pairs().map(|pair| pair.weight).collect();
        // Two of three edges each time, evenly.
        assert!(weights.len() == 3 && weights.iter().all(|w| (45.0..90.0).contains(w)), "{weights:?}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_frequent_neighbour_finds_a_place_among_rare_ones() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(all());
        let mut window = Window::new(Limits { neighbours_max: 2, ..Limits::default() });
        for n in 0..300 {
            let rare = key(n);
            tracker.read_group(2, || [&b"hub"[..], &rare]);
            tracker.read_group(2, || [&b"hub"[..], b"friend"]);
        }
        drain(&tracker, &mut window);
        let number = |name: &[u8]| window.keys().find(|k| k.key == name).unwrap().number;
        let (hub, friend) = (number(b"hub"), number(b"friend"));
        let of_hub: Vec<_> = window.pairs().filter(|p| [p.a, p.b].contains(&hub) && p.weight > 1.0).collect();
        let only = of_hub[0];
        // 600 in all and two places: at most 200 too little, at either end.
        assert!(of_hub.len() == 1 && [only.a, only.b].contains(&friend), "{of_hub:?}");
        assert!((100.0..=300.0).contains(&only.weight), "{only:?}");
    })
    .join()
    .unwrap();
}

/// Fails if whoever accesses goes on putting together what no ring has room for, or if what is sampled more rarely weighs less.
#[test]
fn where_rings_are_too_small_samples_get_rarer_and_stand_for_as_much() {
    std::thread::spawn(|| {
        let tracker = Tracker::new(Rates { ring_bytes: 16 << 10, thinned_max: 256, ..all() });
        let mut window = Window::new(Limits::default());
        let busy = || {
            (0..20_000u64).for_each(|n| tracker.write_group(2, || [&b"order"[..], [&b"a"[..], b"b"][n as usize % 2]]))
        };
        let mut lost = 0;
        for round in 0..100 {
            busy();
            let drained = tracker.drain(|sample| window.note(sample, |_| 0));
            lost = if round < 10 { 0 } else { lost + drained.lost };
            assert!(drained.samples > 50, "{drained:?} in round {round}");
        }
        assert!(lost < 100, "{lost} samples were lost though they had become rarer");
        let order = window.keys().find(|key| key.key == b"order").unwrap().load.writes;
        // 100 rounds of some 250 samples: three standard deviations are 2 %.
        assert!((1.96e6..2.04e6).contains(&order), "{order} of 2,000,000");
        // Few accesses are sampled as before again.
        for _ in 0..10 {
            (0..20).for_each(|_| tracker.write_group(2, || [&b"order"[..], b"a"]));
            tracker.drain(|_| {});
        }
        (0..20).for_each(|_| tracker.write_group(2, || [&b"order"[..], b"a"]));
        assert_eq!(tracker.drain(|_| {}).samples, 20);
    })
    .join()
    .unwrap();
}
