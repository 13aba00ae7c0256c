//! How a team's threads begin and end loops together, and how batches come through in the order of their records, under loom: the very modules of
//! `src`, compiled over loom's locks and atomics, in every order of their steps (up to a bound of preemptions).
//!
//! Two other threads and a caller who has two rounds, each of which reads what the caller stored and stores something; and three threads of
//! which one comes through after the other, or one of which fails, so that the one after it never comes. (One that panics in the middle of its work
//! is in `src/pma/tests/turn.rs`: loom's locks do not unwind.) The models must hold as they are, and must fail with each of the mistakes
//! that they are there for: a model that cannot fail proves nothing.

#[path = "../../src/team/rounds.rs"]
mod rounds;
mod sync;
#[path = "../../src/pma/turn.rs"]
#[allow(dead_code, reason = "the model uses a part of it")]
mod turn;

use std::process::Command;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use rounds::Rounds;
use turn::Turn;

/// A mistake that a model must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// A thread says that its part has ended before it has stored what came of it.
    EndedEarly,
    /// A thread does not say so.
    NotEnded,
    /// A thread says so without a fence.
    EndedRelaxed,
    /// The caller does not wait.
    NotAwaited,
    /// The caller leaves, and nobody says that all is over.
    NotClosed,
    /// A batch comes through for the one before it.
    OutOfOrder,
    /// A batch never comes.
    Missing,
    /// A batch never comes, and nobody is told.
    Untold,
}

const ROUNDS: u32 = 2;

/// What caller and threads share: the round's input, and what each thread made of it.
struct Work {
    rounds: Rounds<u32>,
    input: AtomicU32,
    outputs: [AtomicU32; 2],
}

fn follow(work: &Work, thread: usize, mistake: Mistake) {
    let mut seen = 0;
    while let Some(call) = work.rounds.next(seen) {
        seen += 1;
        assert_eq!(u64::from(call), seen, "a call of another round");
        let input = work.input.load(Relaxed);
        assert_eq!(input, call * 10, "what was stored before the round is not seen");
        if mistake == Mistake::EndedEarly {
            work.rounds.end();
        }
        work.outputs[thread].store(input + 1, Relaxed);
        if !matches!(mistake, Mistake::EndedEarly | Mistake::NotEnded) {
            work.rounds.end();
        }
    }
}

fn model_of_rounds(mistake: Mistake, others: usize) {
    sync::ENDS_RELAXED.store(mistake == Mistake::EndedRelaxed, Relaxed);
    let outputs = [AtomicU32::new(0), AtomicU32::new(0)];
    let work = Arc::new(Work { rounds: Rounds::new(), input: AtomicU32::new(0), outputs });
    let follower = |thread: usize| {
        let work = Arc::clone(&work);
        loom::thread::spawn(move || follow(&work, thread, mistake))
    };
    let threads: Vec<_> = (0..others).map(follower).collect();
    for round in 1..=ROUNDS {
        work.input.store(round * 10, Relaxed);
        work.rounds.begin(others, round);
        if mistake != Mistake::NotAwaited {
            work.rounds.wait();
        }
        for output in &work.outputs[..others] {
            assert_eq!(output.load(Relaxed), round * 10 + 1, "what a thread stored is not seen");
        }
    }
    if mistake != Mistake::NotClosed {
        work.rounds.close();
    }
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
}

fn model_of_turns(mistake: Mistake) {
    let shared = Arc::new((Turn::from(0), AtomicU32::new(0)));
    let come = |number: u64, place: u32| {
        let shared = Arc::clone(&shared);
        loom::thread::spawn(move || {
            let (turn, passed) = &*shared;
            turn.take(number, || {
                assert_eq!(passed.load(Relaxed), place, "out of order");
                passed.store(place + 1, Relaxed);
            })
        })
    };
    let (second, third) = match mistake {
        Mistake::OutOfOrder => (come(2, 1), come(1, 2)),
        _ => (come(1, 1), come(2, 2)),
    };
    if mistake != Mistake::Missing {
        let first = shared.0.take(0, || shared.1.store(1, Relaxed));
        first.expect("the first one's turn");
    }
    [second, third].into_iter().for_each(|thread| thread.join().expect("a thread").expect("its turn"));
    assert_eq!(shared.1.load(Relaxed), 3);
}

/// Nobody waits for a batch that will never come; those before it come, and whoever was refused finds all refused.
fn model_of_a_failure(mistake: Mistake) {
    let turn = Arc::new(Turn::from(0));
    let come = |number: u64| {
        let turn = Arc::clone(&turn);
        loom::thread::spawn(move || {
            let has_come = turn.take(number, || ()).is_ok();
            assert!(has_come || (turn.check().is_err() && turn.settle().is_err()), "another one is let in");
            has_come
        })
    };
    let (first, third) = (come(0), come(2));
    if mistake != Mistake::Untold {
        turn.fail("there is no second one");
    }
    assert!(first.join().expect("a thread"), "a batch that was before the one that failed did not come through");
    assert!(!third.join().expect("a thread"), "a batch came through after one that failed");
}

fn check(mistake: Mistake) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(3);
    loom.max_branches = 50_000;
    match mistake {
        Mistake::None => {
            loom.check(|| model_of_rounds(Mistake::None, 1));
            loom.check(|| model_of_turns(Mistake::None));
            loom.check(|| model_of_a_failure(Mistake::None));
            loom.preemption_bound = Some(2);
            loom.check(|| model_of_rounds(Mistake::None, 2));
        }
        Mistake::Untold => loom.check(move || model_of_a_failure(mistake)),
        Mistake::OutOfOrder | Mistake::Missing => loom.check(move || model_of_turns(mistake)),
        _ => loom.check(move || model_of_rounds(mistake, 1)),
    }
}

const MISTAKES: [Mistake; 8] = [
    Mistake::EndedEarly,
    Mistake::NotEnded,
    Mistake::EndedRelaxed,
    Mistake::NotAwaited,
    Mistake::NotClosed,
    Mistake::OutOfOrder,
    Mistake::Missing,
    Mistake::Untold,
];

/// Each mistake in a process of its own: loom's locks may panic again while a model that failed unwinds, which ends the process.
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if let Some(mistake) = MISTAKES.into_iter().find(|mistake| format!("{mistake:?}") == wanted) {
        return check(mistake);
    }
    check(Mistake::None);
    println!("rounds and turns hold in every order of their steps");
    let this = std::env::current_exe().expect("this program");
    for mistake in MISTAKES {
        let run = Command::new(&this).arg(format!("{mistake:?}")).output().expect("a process");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let why = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or_default();
        assert!(!run.status.success() && !why.is_empty(), "the model does not notice {mistake:?}: {said}");
        println!("noticed: {mistake:?}: {why}");
    }
}
