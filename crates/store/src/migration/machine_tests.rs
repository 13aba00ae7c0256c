//! Every interleaving of a move's steps with a few writes, tried: what the steps' order must bear.
//!
//! The world is as small as can show a wrong order: three keys of the moving units, chunks of one key, two partitions, a few writes
//! (puts, deletes, a range) that come between any two steps, a reading of a chunk that a write may split from its opening, a failure at any
//! step, and a crash at any instant. What is durable is kept apart from what is not.
//!
//! Looked at in every state: the owner by the topology holds what was acknowledged; the owner by the durable journal durably does;
//! a partition that does not own the units holds keys of them only where the durable journal says so. Crashes are not steps here: every
//! state is looked at as if the machine stopped in it.

use std::collections::{BTreeMap, HashSet};

use super::machine::{End, Machine, Outcome, Step};

const KEYS: u8 = 3;
const WRITES: u8 = 3;

type Map = BTreeMap<u8, u8>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Write {
    Put(u8, u8),
    Delete(u8),
    Clear,
}

fn apply(map: &mut Map, write: Write) {
    match write {
        Write::Put(key, value) => drop(map.insert(key, value)),
        Write::Delete(key) => drop(map.remove(&key)),
        Write::Clear => map.clear(),
    }
}

/// A mistake that the search must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mistake {
    None,
    /// One view serves all chunks, also those that come after a taking.
    OneCursor,
    ForwardBeforeLoad,
    /// What was forwarded past the last key is dropped though no chunk will read it.
    LastChunkEnds,
    /// Writes are forwarded from after the first chunk on.
    AttachLate,
    NoLastForward,
    NoLastSync,
    PublishBeforeFlip,
    NeverClose,
    NoBegin,
    /// What was taken is forgotten when too much of it is left.
    ReopenDrops,
    /// What is left is forwarded after others were let in, and not once more before the units change hands.
    ReopenCloses,
    /// Of the writes to one key the first is forwarded.
    Oldest,
    /// A round that takes nothing forgets what it left.
    SkipDrops,
}

/// Of the writes to one key the last, as `forward::newest` has it.
fn newest(writes: &mut Vec<Write>, mistake: Mistake) {
    let key_of = |write: Write| if let Write::Put(key, _) | Write::Delete(key) = write { Some(key) } else { None };
    let all = std::mem::take(writes);
    let others = |at: usize| if mistake == Mistake::Oldest { &all[..at] } else { &all[at + 1..] };
    writes.extend(all.iter().enumerate().filter_map(|(at, write)| {
        let again = key_of(*write).is_some_and(|key| others(at).iter().any(|other| key_of(*other) == Some(key)));
        (!again).then_some(*write)
    }));
}

/// What is known of the flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Flip {
    No,
    Durable,
    Perhaps,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    machine: Machine,
    acknowledged: Map,
    source: Map,
    target: Map,
    /// What a power cut would leave of the target. (The source's writes are synced ones.)
    target_durable: Map,
    queue: Option<Vec<Write>>,
    closing: bool,
    taken: Vec<Write>,
    chunk: Vec<(u8, u8)>,
    /// The cursor's view, opened and not yet read.
    opened: Option<Map>,
    position: u8,
    /// Past the last key that was looked at: not the position when the last chunk was empty.
    looked: u8,
    /// Something was forwarded after the last chunk was read.
    has_forwarded_all: bool,
    begun: bool,
    flip: Flip,
    published: bool,
    writes: u8,
}

impl World {
    fn new() -> Self {
        let start = Map::from([(0, 100), (2, 102)]);
        Self {
            machine: Machine::new(),
            acknowledged: start.clone(),
            source: start,
            target: Map::new(),
            target_durable: Map::new(),
            queue: None,
            closing: false,
            taken: Vec::new(),
            chunk: Vec::new(),
            opened: None,
            position: 0,
            looked: 0,
            has_forwarded_all: false,
            begun: false,
            flip: Flip::No,
            published: false,
            writes: 0,
        }
    }

    /// A writer, if nobody holds it back.
    fn write(&mut self, write: Write) -> bool {
        if self.closing && !self.published {
            return false;
        }
        self.writes += 1;
        apply(&mut self.acknowledged, write);
        if self.published {
            apply(&mut self.target, write);
            apply(&mut self.target_durable, write);
        } else {
            apply(&mut self.source, write);
            if let Some(queue) = &mut self.queue {
                queue.push(write);
            }
        }
        true
    }

    fn take(&mut self, mistake: Mistake) {
        self.taken.append(self.queue.as_mut().expect("attached"));
        newest(&mut self.taken, mistake);
    }

    /// Apply what was taken, to keys below `end`.
    fn forward(&mut self, end: u8) {
        for write in std::mem::take(&mut self.taken) {
            match write {
                Write::Put(key, _) | Write::Delete(key) if key >= end => {}
                Write::Clear => self.target.retain(|key, _| *key >= end),
                write => apply(&mut self.target, write),
            }
        }
    }

    /// Where what is forwarded ends.
    fn end(&self, mistake: Mistake) -> u8 {
        match mistake {
            Mistake::LastChunkEnds if self.position == KEYS && !self.has_forwarded_all => KEYS - 1,
            _ if self.machine.is_copied() => KEYS,
            _ => self.looked,
        }
    }

    fn load(&mut self) {
        self.target.extend(std::mem::take(&mut self.chunk));
    }

    fn step(&mut self, step: Step, mistake: Mistake) -> Outcome {
        match step {
            Step::Begin => self.begun = mistake != Mistake::NoBegin,
            Step::Attach if mistake == Mistake::AttachLate => {}
            Step::Attach => self.queue = Some(Vec::new()),
            Step::Read => {
                let view = self.opened.take().expect("it was opened");
                self.opened = (mistake == Mistake::OneCursor).then(|| view.clone());
                self.chunk = view.range(self.position..=self.position).map(|(key, value)| (*key, *value)).collect();
                self.position += 1;
                if !self.chunk.is_empty() || self.position < KEYS {
                    self.looked = self.position;
                }
                self.queue.get_or_insert_default();
                return if self.position == KEYS { Outcome::End } else { Outcome::Done };
            }
            Step::Take => {
                self.take(mistake);
                // The machine goes on forwarding as long as much is taken: here anything is much.
                return Outcome::Taken(if self.taken.is_empty() { 0 } else { super::machine::CLOSE_BYTES_MAX + 1 });
            }
            Step::Load if mistake == Mistake::ForwardBeforeLoad => {
                self.forward(self.end(mistake));
                self.load();
            }
            Step::Load => self.load(),
            Step::Forward if self.closing && mistake == Mistake::NoLastForward => {}
            Step::Forward => {
                self.forward(self.end(mistake));
                self.has_forwarded_all = self.machine.is_copied();
            }
            Step::Sync if self.closing && mistake == Mistake::NoLastSync => {}
            Step::Sync => self.target_durable = self.target.clone(),
            Step::Close => {
                self.take(mistake);
                self.closing = mistake != Mistake::NeverClose;
            }
            Step::Reopen => {
                self.closing = false;
                if mistake == Mistake::ReopenDrops {
                    self.taken.clear();
                }
            }
            Step::Flip if mistake == Mistake::PublishBeforeFlip => self.published = true,
            Step::Flip => self.flip = Flip::Durable,
            Step::Publish => {
                (self.published, self.flip) = (true, Flip::Durable);
                self.queue = None;
            }
            Step::Detach => (self.queue, self.closing) = (None, false),
        }
        Outcome::Done
    }

    /// What is wrong with this state, if anything is.
    fn wrong(&self) -> Option<&'static str> {
        let owner = if self.published { &self.target } else { &self.source };
        if *owner != self.acknowledged {
            return Some("the owner does not hold what was acknowledged");
        }
        if self.flip != Flip::No && self.target_durable != self.acknowledged {
            return Some("the journal gives the units to a partition that does not hold them durably");
        }
        if self.flip != Flip::Durable && self.source != self.acknowledged {
            return Some("the journal may leave the units to a partition that does not hold them");
        }
        if !self.begun && !self.target.is_empty() {
            return Some("copies that the journal does not know of");
        }
        let over = self.machine.step().err()?;
        let is_right = match over {
            End::Refused => self.target.is_empty(),
            End::Moved => self.published && self.flip == Flip::Durable && self.queue.is_none(),
            End::GivenUp => !self.published && self.flip == Flip::No && self.queue.is_none() && !self.closing,
            End::Undecided => !self.published && self.closing,
        };
        (!is_right).then_some("the end is not what it says")
    }
}

/// All states that can be reached; the first wrong one ends the search.
fn search(mistake: Mistake) -> Result<usize, &'static str> {
    let mut seen = HashSet::new();
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if let Some(wrong) = world.wrong() {
            return Err(wrong);
        }
        if world.writes < WRITES {
            let value = world.writes;
            let keys = (0..KEYS).flat_map(|key| [Write::Put(key, value), Write::Delete(key)]);
            for write in keys.chain([Write::Clear]) {
                let mut next = world.clone();
                if next.write(write) {
                    open.push(next);
                }
            }
        }
        let Ok(step) = world.machine.step() else { continue };
        let mut next = world.clone();
        if step == Step::Read && next.opened.is_none() {
            // Opened now, read later: engines without snapshots read at any instant up to the taking.
            next.opened = Some(next.source.clone());
            open.push(next);
            continue;
        }
        let outcome = next.step(step, mistake);
        next.machine.done(outcome);
        open.push(next);
        if step == Step::Take && !world.machine.is_copied() {
            // Too little to take.
            let mut later = world.clone();
            if mistake == Mistake::SkipDrops {
                later.queue = Some(Vec::new());
            }
            later.machine.done(Outcome::Taken(0));
            open.push(later);
        }
        if step == Step::Forward && world.closing && !world.taken.is_empty() {
            // More than writers may wait for: the first of it was applied, or nothing.
            for applied in 0..2 {
                let mut left = world.clone();
                left.taken.truncate(applied);
                left.forward(KEYS);
                left.taken.clone_from(&world.taken);
                if mistake == Mistake::ReopenCloses {
                    left.closing = false;
                    left.step(step, mistake);
                    left.machine.done(Outcome::Done);
                } else {
                    left.machine.done(Outcome::TooMuch);
                }
                open.push(left);
            }
        }
        // It fails: nothing of it has happened, or, of applying, part of it.
        if step != Step::Publish && step != Step::Detach {
            let mut failed = world.clone();
            failed.machine.done(Outcome::Failed);
            open.push(failed);
        }
        if step == Step::Flip {
            let mut unknown = world;
            unknown.flip = Flip::Perhaps;
            unknown.machine.done(Outcome::Unknown);
            open.push(unknown);
        }
    }
    Ok(seen.len())
}

#[test]
fn whatever_comes_between_the_steps_the_owner_holds_what_was_acknowledged() {
    let states = search(Mistake::None).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{states} states");
    assert!(states > 50_000, "only {states} states: the search is broken");
}

#[test]
fn steps_in_a_wrong_order_are_found() {
    for mistake in [
        Mistake::OneCursor,
        Mistake::ForwardBeforeLoad,
        Mistake::LastChunkEnds,
        Mistake::AttachLate,
        Mistake::NoLastForward,
        Mistake::NoLastSync,
        Mistake::PublishBeforeFlip,
        Mistake::NeverClose,
        Mistake::NoBegin,
        Mistake::ReopenDrops,
        Mistake::ReopenCloses,
        Mistake::Oldest,
        Mistake::SkipDrops,
    ] {
        let found = search(mistake);
        println!("{mistake:?}: {found:?}");
        assert!(found.is_err(), "{mistake:?} was not found");
    }
}
