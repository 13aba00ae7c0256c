//! The hand-over of a unit under loom: the very modules of `src` that a writer, a reader and the mover meet in, compiled over loom's locks and
//! atomics, in every order of their steps (up to a bound of preemptions).
//!
//! The model must hold as it is, and must fail with each of the mistakes that it is there for: a model that cannot fail proves nothing.

#[path = "../../src/migration/forward.rs"]
#[allow(dead_code, reason = "the model uses a part of it")]
mod forward;
#[path = "../../src/present.rs"]
#[allow(dead_code, reason = "the model uses a part of it")]
mod present;
mod sync;

/// All keys of this model are of the unit that moves.
mod placement {
    use biombo_engine::Op;

    pub(crate) struct UnitSet;

    impl UnitSet {
        pub(crate) fn touched_by(&self, _: &Op<'_>) -> bool {
            true
        }
    }
}

use std::process::Command;

use biombo_engine::{Batch, Op};
use forward::{Handover, Held, Outgoing};
use placement::UnitSet;
use present::{Kept, Mine, Present, nothing_kept};
use sync::{Arc, LocalKey, Mutex};

/// A mistake that the model must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The writer does not look at the version under the lock.
    WriterBelieves,
    /// A reader takes a miss for the truth.
    ReaderBelieves,
    /// Writers are not held back from the last taking on.
    NotClosed,
    /// Detached first, then replaced: a writer gets in between.
    DetachedEarly,
    /// The source is cleaned before the topology is replaced.
    CleanedEarly,
    /// Who waits is not woken.
    NotWoken,
}

struct Topology {
    owner: usize,
}

impl Kept for Topology {
    fn mine() -> &'static LocalKey<Mine<Self>> {
        loom::thread_local!(static MINE: Mine<Topology> = nothing_kept());
        &MINE
    }
}

/// Two partitions, and one key.
struct World {
    mistake: Mistake,
    topology: Present<Topology>,
    lanes: [Mutex<Option<Outgoing>>; 2],
    engines: [Mutex<Option<u8>>; 2],
    handover: Handover,
}

const KEY: &[u8] = b"k";

impl World {
    fn new(mistake: Mistake) -> Self {
        Self {
            mistake,
            topology: Present::new(Topology { owner: 0 }),
            lanes: [Mutex::new(None), Mutex::new(None)],
            engines: [Mutex::new(Some(1)), Mutex::new(None)],
            handover: Handover::default(),
        }
    }

    fn lane(&self, number: usize) -> Held<'_> {
        Held(self.lanes[number].lock().expect("no panic"))
    }

    fn has(&self, number: usize) -> Option<u8> {
        *self.engines[number].lock().expect("no panic")
    }

    fn set(&self, number: usize, value: Option<u8>) {
        *self.engines[number].lock().expect("no panic") = value;
    }

    fn write(&self, value: u8) {
        let ops = [Op::Put { key: KEY, value: &[value] }];
        loop {
            let (version, owner) = self.topology.with_version(|topology| topology.owner);
            {
                let mut held = self.lane(owner);
                let is_current = self.topology.version() == version || self.mistake == Mistake::WriterBelieves;
                if is_current && held.admits(&ops) {
                    self.set(owner, Some(value));
                    held.published(&ops, &Ok(()));
                    return;
                }
            }
            self.handover.wait(&ops);
        }
    }

    fn read(&self) -> Option<u8> {
        loop {
            let (version, owner) = self.topology.with_version(|topology| topology.owner);
            let found = self.has(owner);
            if found.is_some() || self.topology.version() == version || self.mistake == Mistake::ReaderBelieves {
                return found;
            }
        }
    }

    fn move_over(&self) {
        let units = Arc::new(UnitSet);
        *self.lane(0).0 = Some(Outgoing::new(Arc::clone(&units)));
        let copy = self.has(0);
        self.set(1, copy);
        self.handover.begin(&units);
        let taken = {
            let mut held = self.lane(0);
            let outgoing = held.0.as_mut().expect("attached");
            if self.mistake != Mistake::NotClosed {
                outgoing.close();
            }
            outgoing.take(Batch::new()).expect("not broken")
        };
        for op in taken.iter() {
            let Op::Put { value, .. } = op else { unreachable!("only puts") };
            self.set(1, Some(value[0]));
        }
        match self.mistake {
            Mistake::DetachedEarly => *self.lane(0).0 = None,
            Mistake::CleanedEarly => self.set(0, None),
            _ => {}
        }
        {
            let mut held = self.lane(0);
            self.topology.replace(Topology { owner: 1 });
            *held.0 = None;
        }
        if self.mistake != Mistake::NotWoken {
            self.handover.end();
        }
        self.set(0, None);
    }
}

fn model(mistake: Mistake) {
    let world = Arc::new(World::new(mistake));
    let (mover, writer) = (Arc::clone(&world), Arc::clone(&world));
    let mover = loom::thread::spawn(move || mover.move_over());
    let writer = loom::thread::spawn(move || writer.write(2));
    let (first, second) = (world.read(), world.read());
    assert!(first == Some(1) || first == Some(2), "read {first:?}");
    assert!(second == Some(2) || second == first, "read {first:?}, then {second:?}");
    mover.join().expect("the mover");
    writer.join().expect("the writer");
    assert_eq!((world.read(), world.has(0), world.has(1)), (Some(2), None, Some(2)));
}

fn check(mistake: Mistake) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(2);
    loom.max_branches = 50_000;
    loom.check(move || model(mistake));
}

const MISTAKES: [Mistake; 6] = [
    Mistake::WriterBelieves,
    Mistake::ReaderBelieves,
    Mistake::NotClosed,
    Mistake::DetachedEarly,
    Mistake::CleanedEarly,
    Mistake::NotWoken,
];

/// Each mistake in a process of its own: loom's locks may panic again while a model that failed unwinds, which ends the process.
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if let Some(mistake) = MISTAKES.into_iter().find(|mistake| format!("{mistake:?}") == wanted) {
        return check(mistake);
    }
    check(Mistake::None);
    println!("the hand-over holds in every order of its steps");
    let this = std::env::current_exe().expect("this program");
    for mistake in MISTAKES {
        let run = Command::new(&this).arg(format!("{mistake:?}")).output().expect("a process");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let why = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or_default();
        assert!(!run.status.success() && !why.is_empty(), "the model does not notice {mistake:?}: {said}");
        println!("noticed: {mistake:?}: {why}");
    }
}
