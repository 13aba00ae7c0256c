//! How writes are handed over to a worker, under loom: the very module of `src`, compiled over loom's locks, in every order of its steps (up to
//! a bound of preemptions).
//!
//! Two callers, each of which asks twice, and a worker, over a queue with room for one ticket; then the queue is closed. What is asked must be
//! answered, each time with what belongs to it, and everybody must come to an end. And two callers who leave something for the worker and wait for
//! nothing: all of it must be taken. The models must hold as they are, and must fail with
//! each of the mistakes that it is there for: a model that cannot fail proves nothing.

#[path = "../../src/pinned/queue.rs"]
#[allow(dead_code, reason = "the model uses a part of it")]
mod queue;
mod sync;

use std::process::Command;

use loom::sync::atomic::AtomicU32;
use queue::{Queue, Ticket, Wish};
use sync::{Arc, Ordering};

/// A mistake that the model must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The worker forgets a ticket.
    NotAnswered,
    /// The worker answers before it has taken what is written on the ticket, so the caller writes on it again meanwhile.
    AnsweredEarly,
    /// The queue is not closed, and the worker waits for more.
    NotClosed,
    /// The worker answers twice.
    AnsweredTwice,
    /// The worker looks what was left for it, and then says that it begins.
    BegunLate,
}

type Slip = Arc<Ticket<u32, u32>>;

fn work(queue: &Queue<Slip>, mistake: Mistake) {
    let (mut taken, mut blank, mut done) = (Vec::new(), 0, 0);
    while queue.take(&mut taken).is_some() {
        for slip in taken.drain(..) {
            done += 1;
            match mistake {
                Mistake::NotAnswered if done == 2 => continue,
                Mistake::AnsweredEarly => {
                    slip.answer(blank + 100);
                    slip.exchange(&mut blank);
                }
                _ => {
                    slip.exchange(&mut blank);
                    slip.answer(blank + 100);
                    if mistake == Mistake::AnsweredTwice {
                        slip.answer(blank + 100);
                    }
                }
            }
        }
    }
}

/// Ask `times` times, by one ticket.
fn ask(queue: &Queue<Slip>, first: u32, times: u32) {
    let slip: Slip = Arc::new(Ticket::new(0));
    for number in first..first + times {
        slip.fill(|job| *job = number);
        queue.push(Arc::clone(&slip)).expect("open");
        assert_eq!(slip.wait(), number + 100);
    }
}

fn model(mistake: Mistake) {
    let queue: Arc<Queue<Slip>> = Arc::new(Queue::new(1));
    let (other, workplace) = (Arc::clone(&queue), Arc::clone(&queue));
    let worker = loom::thread::spawn(move || work(&workplace, mistake));
    let caller = loom::thread::spawn(move || ask(&other, 10, 1));
    ask(&queue, 20, 2);
    caller.join().expect("the other caller");
    if mistake != Mistake::NotClosed {
        queue.close();
    }
    worker.join().expect("the worker");
}

/// What callers leave, and the wish that it be taken.
struct Left {
    queue: Queue<()>,
    wish: Wish,
    left: AtomicU32,
}

impl Left {
    fn leave(&self, times: u32) {
        for _ in 0..times {
            self.left.fetch_add(1, Ordering::Release);
            if self.wish.have() {
                self.queue.push(()).expect("open");
            }
        }
    }

    fn take_all(&self, mistake: Mistake) -> u32 {
        let (mut taken, mut sum) = (Vec::new(), 0);
        while self.queue.take(&mut taken).is_some() {
            for () in taken.drain(..) {
                if mistake != Mistake::BegunLate {
                    self.wish.begin();
                }
                // Who finds nothing looks no further.
                if self.left.load(Ordering::Acquire) > 0 {
                    sum += self.left.swap(0, Ordering::AcqRel);
                }
                if mistake == Mistake::BegunLate {
                    self.wish.begin();
                }
            }
        }
        sum
    }
}

fn model_of_wishes(mistake: Mistake) {
    let all = Arc::new(Left { queue: Queue::new(1), wish: Wish::new(), left: AtomicU32::new(0) });
    let (other, workplace) = (Arc::clone(&all), Arc::clone(&all));
    let worker = loom::thread::spawn(move || workplace.take_all(mistake));
    let caller = loom::thread::spawn(move || other.leave(1));
    all.leave(2);
    caller.join().expect("the other caller");
    all.queue.close();
    assert_eq!(worker.join().expect("the worker"), 3, "something that was left is not taken");
}

fn check(mistake: Mistake) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(2);
    loom.max_branches = 50_000;
    if mistake != Mistake::BegunLate {
        loom.check(move || model(mistake));
    }
    if matches!(mistake, Mistake::None | Mistake::BegunLate) {
        loom.check(move || model_of_wishes(mistake));
    }
}

const MISTAKES: [Mistake; 5] =
    [Mistake::NotAnswered, Mistake::AnsweredEarly, Mistake::NotClosed, Mistake::AnsweredTwice, Mistake::BegunLate];

/// Each mistake in a process of its own: loom's locks may panic again while a model that failed unwinds, which ends the process.
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if let Some(mistake) = MISTAKES.into_iter().find(|mistake| format!("{mistake:?}") == wanted) {
        return check(mistake);
    }
    check(Mistake::None);
    println!("handing over holds in every order of its steps");
    let this = std::env::current_exe().expect("this program");
    for mistake in MISTAKES {
        let run = Command::new(&this).arg(format!("{mistake:?}")).output().expect("a process");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let why = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or_default();
        assert!(!run.status.success() && !why.is_empty(), "the model does not notice {mistake:?}: {said}");
        println!("noticed: {mistake:?}: {why}");
    }
}
