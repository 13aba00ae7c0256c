use super::*;

#[test]
fn every_thread_does_its_part_of_every_loop_once() {
    for threads in [1, 2, 3, 7] {
        let mut team = Team::new(threads).unwrap();
        let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..500 {
            team.run(|thread| _ = counts[thread].fetch_add(1, Ordering::Relaxed));
        }
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 500), "{counts:?}");
    }
}

#[test]
fn blocks_tasks_and_maps_cover_everything_once_and_in_order() {
    let mut team = Team::new(3).unwrap();
    for (count, grain) in [(0, 5), (1, 5), (1000, 7), (1000, 0), (64, 64)] {
        let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        team.blocks(count, grain, |_, block| block.for_each(|n| _ = seen[n].fetch_add(1, Ordering::Relaxed)));
        assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1));
    }
    let mut parts = vec![0; 100];
    team.tasks(parts.chunks_mut(7).collect(), |_, part| part.fill(1));
    assert_eq!(parts, [1; 100]);
    assert_eq!(team.map(50, |_, n| n * n), (0..50).map(|n| n * n).collect::<Vec<_>>());
}

#[test]
fn threads_that_slept_wake_for_the_next_loop() {
    let mut team = Team::new(2).unwrap();
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        let both = std::sync::Barrier::new(2);
        team.run(|_| _ = both.wait());
    }
}

#[test]
fn a_panic_reaches_the_caller_after_all_have_ended_and_the_team_goes_on() {
    let mut team = Team::new(3).unwrap();
    for guilty in 0..3 {
        let ended = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|thread| {
                if thread == guilty {
                    resume_unwind(Box::new("as planned"));
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }));
        assert!(outcome.is_err(), "the panic of thread {guilty} was lost");
        assert_eq!(ended.into_inner(), 2);
        assert_eq!(team.map(10, |_, n| n).len(), 10);
    }
}

#[test]
fn teams_have_a_sensible_size() {
    assert!(Team::new(0).is_err());
    assert!(Team::new(THREADS_MAX + 1).is_err());
    let cpus = Topology::detect().cpus().len();
    assert_eq!(Team::pinned(cpus).unwrap().threads(), cpus);
    assert!(Team::pinned(cpus + 1).is_err());
}
