//! Random sequences of operations, and the interpreter that runs one on an engine and on the model.
//!
//! A case draws a small pool of keys first and lets every action refer to it by index, so that keys collide often and a
//! failing case shrinks to few keys and few actions.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::model::{Difference, Model, ModelCursor, Move, show, show_option};
use super::subject::{Instance, Subject, bytes};
use crate::{Cursor, Durability, Op, Snapshot};

/// Keys that have been mixed up by somebody before: shared prefixes, zeros and 0xff, lengths around the powers of two at
/// which length fields, pages and prefix compression change, one byte, not UTF-8. Sorted, without duplicates.
pub fn nasty_keys(key_bytes_max: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for byte in [0, 1, b'a', 0x7f, 0x80, 0xc3, 0xfe, 0xff] {
        keys.extend([vec![byte], vec![byte, 0], vec![byte, 0xff], vec![0, byte], vec![0xff, byte], vec![byte; 3]]);
    }
    keys.extend([b"key".to_vec(), b"key\0".to_vec(), b"key\0\0".to_vec(), b"key\x01".to_vec(), b"kex\xff".to_vec()]);
    for len in [
        7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 129, 254, 255, 256, 257, 510, 511, 512, 1023, 4096, 16_384,
        65_535, 65_536,
    ] {
        let mut key = vec![b'p'; len];
        keys.push(key.clone());
        for last in [0, 0xff] {
            key[len - 1] = last;
            keys.push(key.clone());
        }
    }
    let mut longest = vec![b'p'; key_bytes_max];
    keys.push(longest.clone());
    longest[key_bytes_max - 1] = b'q';
    keys.push(longest);
    keys.retain(|key| key.len() <= key_bytes_max);
    keys.sort();
    keys.dedup();
    keys
}

/// What a profile puts its weight on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Writes and point reads.
    Operations,
    /// Cursor walks over what was written.
    Walks,
    /// Snapshots and cursors held across writes.
    Snapshots,
    /// Closing and opening between writes.
    Reopens,
}

/// One write, by indices into the pool.
#[derive(Debug, Clone)]
pub enum Write {
    /// Put a value of this many bytes, drawn from this seed.
    Put(Index, u64, usize),
    /// Delete.
    Delete(Index),
    /// Delete a range of two keys of the pool, whichever way round; `None`: to the end.
    DeleteRange(Index, Option<Index>),
}

/// One movement, by index into the pool; `true`: to the neighbour after the key (the key and a zero byte).
#[derive(Debug, Clone)]
pub enum Step {
    /// `seek`.
    Seek(Index, bool),
    /// `seek_before`.
    SeekBefore(Index, bool),
    /// Any other.
    Simple(Move),
}

/// One action of a case.
#[derive(Debug, Clone)]
pub enum Action {
    /// One batch.
    Apply(Vec<Write>, Durability),
    /// `get`, `get_into` and `contains`.
    Read(Index),
    /// Open a cursor, make these moves, drop it.
    Walk(Vec<Step>),
    /// Open a cursor and keep it.
    KeepCursor,
    /// Make these moves with a kept cursor.
    MoveKept(Index, Vec<Step>),
    /// Take a snapshot and keep it.
    KeepSnapshot,
    /// Read a key from a kept snapshot.
    ReadKept(Index, Index),
    /// Compare a kept snapshot with the model of its time.
    CompareKept(Index),
    /// Drop a kept snapshot and a kept cursor.
    DropKept(Index),
    /// `sync`.
    Sync,
    /// `compact`.
    Compact,
    /// Close and open again.
    Reopen,
    /// Compare everything.
    Compare,
}

/// A pool of keys and what is done with them.
#[derive(Debug, Clone)]
pub struct Case {
    /// At least one.
    pub pool: Vec<Vec<u8>>,
    /// In order.
    pub actions: Vec<Action>,
}

fn key(key_bytes_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let nasty = nasty_keys(key_bytes_max);
    let short: Vec<Vec<u8>> = nasty.iter().filter(|key| key.len() <= 64).cloned().collect();
    let byte = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(b'b'), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![
        6 => vec(byte.clone(), 1..5),
        2 => (0usize..40, vec(byte, 1..3)).prop_map(|(len, tail)| [vec![b'p'; len], tail].concat()),
        3 => proptest::sample::select(short),
        1 => proptest::sample::select(nasty),
    ]
    .prop_map(move |mut key| {
        key.truncate(key_bytes_max);
        key
    })
}

fn write(ordered: bool, value_bytes_max: usize) -> impl Strategy<Value = Write> {
    let len = prop_oneof![10 => 0usize..20, 6 => 20usize..300, 2 => 300usize..5000, 1 => 60_000usize..70_000];
    let len = len.prop_map(move |len| len.min(value_bytes_max));
    let put = (any::<Index>(), any::<u64>(), len).prop_map(|(key, seed, len)| Write::Put(key, seed, len)).boxed();
    let delete = any::<Index>().prop_map(Write::Delete).boxed();
    let range = (any::<Index>(), proptest::option::weighted(0.9, any::<Index>()))
        .prop_map(|(from, to)| Write::DeleteRange(from, to))
        .boxed();
    proptest::strategy::Union::new_weighted(if ordered {
        vec![(12, put), (3, delete), (1, range)]
    } else {
        vec![(4, put), (1, delete)]
    })
}

fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (any::<Index>(), any::<bool>()).prop_map(|(key, after)| Step::Seek(key, after)),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(key, after)| Step::SeekBefore(key, after)),
        1 => Just(Step::Simple(Move::First)),
        1 => Just(Step::Simple(Move::Last)),
        6 => Just(Step::Simple(Move::Next)),
        6 => Just(Step::Simple(Move::Prev)),
    ];
    vec(step, 1..max)
}

/// Cases for this subject with the weights of this profile.
pub fn cases(subject: &Subject, profile: Profile) -> impl Strategy<Value = Case> + use<> {
    let declared = &subject.capabilities;
    let is = |yes: bool, weight: u32| if yes { weight } else { 0 };
    let (walks, snapshots, reopens) =
        (profile == Profile::Walks, profile == Profile::Snapshots, profile == Profile::Reopens);
    let durability =
        prop_oneof![1 => Just(Durability::Relaxed), 4 => Just(Durability::Os), 1 => Just(Durability::Sync)];
    let batch = vec(write(declared.ordered, declared.value_bytes_max), 1..12);
    let of_one = vec(write(declared.ordered, declared.value_bytes_max), 1..2);
    let kept = is(declared.snapshots && snapshots, 6);
    let kept_cursor = is(declared.snapshots && declared.ordered && snapshots, 6);
    let actions: Vec<(u32, BoxedStrategy<Action>)> = vec![
        (
            if walks { 6 } else { 10 },
            (prop_oneof![batch, of_one], durability).prop_map(|(ops, d)| Action::Apply(ops, d)).boxed(),
        ),
        (if walks { 1 } else { 6 }, any::<Index>().prop_map(Action::Read).boxed()),
        (is(declared.ordered, if walks { 12 } else { 1 }), steps(40).prop_map(Action::Walk).boxed()),
        (kept_cursor / 2, Just(Action::KeepCursor).boxed()),
        (kept_cursor, (any::<Index>(), steps(20)).prop_map(|(kept, steps)| Action::MoveKept(kept, steps)).boxed()),
        (kept / 2, Just(Action::KeepSnapshot).boxed()),
        (kept, (any::<Index>(), any::<Index>()).prop_map(|(kept, key)| Action::ReadKept(kept, key)).boxed()),
        (kept / 2, any::<Index>().prop_map(Action::CompareKept).boxed()),
        (kept / 4, any::<Index>().prop_map(Action::DropKept).boxed()),
        (1, Just(Action::Sync).boxed()),
        (1, Just(Action::Compact).boxed()),
        (is(reopens, 4), Just(Action::Reopen).boxed()),
        (2, Just(Action::Compare).boxed()),
    ];
    let actions = actions.into_iter().filter(|(weight, _)| *weight > 0).collect();
    let actions = vec(proptest::strategy::Union::new_weighted(actions), 1..if reopens { 20 } else { 50 });
    (vec(key(declared.key_bytes_max), 1..30), actions).prop_map(|(pool, actions)| Case { pool, actions })
}

/// Run `case` on a new instance of `subject` and on the model; the first difference, if any.
pub fn run(subject: &Subject, case: &Case) -> Result<(), Difference> {
    let mut running = Running {
        subject,
        pool: &case.pool,
        instance: Some(subject.instance()),
        model: Model::default(),
        snapshots: Vec::new(),
        cursors: Vec::new(),
    };
    for (i, action) in case.actions.iter().enumerate() {
        running.act(action).map_err(|difference| format!("action {i}: {difference}"))?;
    }
    running.act(&Action::Compare).map_err(|difference| format!("in the end: {difference}"))
}

struct KeptCursor {
    cursor: Box<dyn Cursor>,
    then: Arc<Model>,
    made: Vec<Move>,
}

struct Running<'a> {
    subject: &'a Subject,
    pool: &'a [Vec<u8>],
    model: Model,
    snapshots: Vec<(Arc<dyn Snapshot>, Arc<Model>)>,
    cursors: Vec<KeptCursor>,
    // Dropped last: with it goes the directory, which snapshots and cursors keep in use.
    instance: Option<Instance>,
}

impl Running<'_> {
    fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("invariant: only a reopen takes it, and puts it back")
    }

    fn key(&self, index: &Index) -> &[u8] {
        chosen(self.pool, index)
    }

    fn moves(&self, steps: &[Step]) -> Vec<Move> {
        let target = |index: &Index, after: &bool| {
            let mut key = self.key(index).to_vec();
            if *after {
                key.push(0);
            }
            key
        };
        let steps = steps.iter().map(|step| match step {
            Step::Seek(index, after) => Move::Seek(target(index, after)),
            Step::SeekBefore(index, after) => Move::SeekBefore(target(index, after)),
            Step::Simple(step) => step.clone(),
        });
        steps.collect()
    }

    fn act(&mut self, action: &Action) -> Result<(), Difference> {
        match action {
            Action::Apply(writes, durability) => self.apply(writes, *durability),
            Action::Read(index) => self.read(index),
            Action::Walk(steps) => {
                let cursor = self.instance().engine.clone().cursor().map_err(|e| format!("open a cursor: {e}"))?;
                let mut kept = KeptCursor { cursor, then: Arc::new(self.model.clone()), made: Vec::new() };
                kept.go(self.moves(steps))
            }
            Action::KeepCursor => {
                let cursor = self.instance().engine.clone().cursor().map_err(|e| format!("open a cursor: {e}"))?;
                self.cursors.push(KeptCursor { cursor, then: Arc::new(self.model.clone()), made: Vec::new() });
                Ok(())
            }
            Action::MoveKept(index, steps) => {
                let moves = self.moves(steps);
                let count = self.cursors.len();
                if count == 0 {
                    return Ok(());
                }
                self.cursors[index.index(count)].go(moves).map_err(|e| format!("a cursor kept across writes: {e}"))
            }
            Action::KeepSnapshot => {
                let snapshot =
                    self.instance().engine.clone().snapshot().map_err(|e| format!("take a snapshot: {e}"))?;
                self.snapshots.push((snapshot, Arc::new(self.model.clone())));
                Ok(())
            }
            Action::ReadKept(kept, key) if !self.snapshots.is_empty() => {
                let (snapshot, then) = kept.get(&self.snapshots);
                let key = self.key(key);
                let got = snapshot.get(key).map_err(|e| format!("get {} of a snapshot: {e}", show(key)))?;
                same(key, got.as_deref(), then.map.get(key), "in a snapshot kept across writes")
            }
            Action::CompareKept(kept) if !self.snapshots.is_empty() => {
                let (snapshot, then) = kept.get(&self.snapshots);
                let compared = then.same_as_snapshot(snapshot, self.subject.capabilities.ordered);
                compared.map_err(|e| format!("a snapshot kept across writes: {e}"))
            }
            Action::ReadKept(..) | Action::CompareKept(_) => Ok(()),
            Action::DropKept(kept) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(kept.index(self.snapshots.len()));
                }
                if !self.cursors.is_empty() {
                    self.cursors.remove(kept.index(self.cursors.len()));
                }
                Ok(())
            }
            Action::Sync => self.instance().engine.sync().map_err(|e| format!("sync: {e}")),
            Action::Compact => self.instance().engine.compact().map_err(|e| format!("compact: {e}")),
            Action::Reopen => {
                self.snapshots.clear();
                self.cursors.clear();
                self.instance = self.instance.take().map(Instance::reopen);
                if !self.subject.capabilities.persistent {
                    self.model = Model::default();
                }
                self.act(&Action::Compare).map_err(|e| format!("after opening again: {e}"))
            }
            Action::Compare => {
                self.model.same_as_engine(&self.instance().engine, &self.subject.capabilities)?;
                // What is not in the model must not be in the engine: an engine without order shows it only so.
                (0..self.pool.len()).try_for_each(|i| {
                    let key = &self.pool[i];
                    let got = self.instance().engine.get(key).map_err(|e| format!("get {}: {e}", show(key)))?;
                    same(key, got.as_deref(), self.model.map.get(key), "at the comparison of all")
                })
            }
        }
    }

    fn apply(&mut self, writes: &[Write], durability: Durability) -> Result<(), Difference> {
        let values: Vec<Vec<u8>> = writes
            .iter()
            .map(|write| match write {
                Write::Put(_, seed, len) => bytes(*seed, *len),
                _ => Vec::new(),
            })
            .collect();
        let ops: Vec<Op<'_>> = writes
            .iter()
            .zip(&values)
            .map(|(write, value)| match write {
                Write::Put(key, ..) => Op::Put { key: chosen(self.pool, key), value },
                Write::Delete(key) => Op::Delete { key: chosen(self.pool, key) },
                Write::DeleteRange(from, to) => {
                    Op::DeleteRange { from: chosen(self.pool, from), to: to.as_ref().map(|to| chosen(self.pool, to)) }
                }
            })
            .collect();
        self.instance().engine.apply(&ops, durability).map_err(|e| format!("apply: {e}"))?;
        self.model.apply(&ops);
        Ok(())
    }

    fn read(&self, index: &Index) -> Result<(), Difference> {
        let (key, engine) = (self.key(index), &self.instance().engine);
        let due = self.model.map.get(key);
        let got = engine.get(key).map_err(|e| format!("get {}: {e}", show(key)))?;
        same(key, got.as_deref(), due, "by get")?;
        let mut buffer = b"before".to_vec();
        let found = engine.get_into(key, &mut buffer).map_err(|e| format!("get_into {}: {e}", show(key)))?;
        same(key, found.then_some(&buffer[..]), due, "by get_into")?;
        if !found && !buffer.is_empty() {
            return Err(format!("get_into of {}, which is absent, left {}", show(key), show(&buffer)));
        }
        let contains = engine.contains(key).map_err(|e| format!("contains {}: {e}", show(key)))?;
        if contains != due.is_some() {
            return Err(format!("contains {} is {contains}", show(key)));
        }
        Ok(())
    }
}

impl KeptCursor {
    /// Move on, comparing after each move. The model's cursor borrows its model, so it follows from its last absolute
    /// position.
    fn go(&mut self, moves: Vec<Move>) -> Result<(), Difference> {
        let then = Arc::clone(&self.then);
        let mut here = ModelCursor::new(&then);
        self.made.iter().for_each(|step| here.apply(step));
        for step in moves {
            step.apply(&mut *self.cursor).map_err(|e| format!("{step:?}: {e}"))?;
            here.apply(&step);
            here.same_as(&*self.cursor).map_err(|e| format!("after {step:?}: {e}"))?;
            self.made.push(step);
        }
        Ok(())
    }
}

fn chosen<'a>(pool: &'a [Vec<u8>], index: &Index) -> &'a [u8] {
    &pool[index.index(pool.len())]
}

fn same(key: &[u8], got: Option<&[u8]>, due: Option<&Vec<u8>>, how: &str) -> Result<(), Difference> {
    let due = due.map(Vec::as_slice);
    if got == due {
        return Ok(());
    }
    Err(format!("key {} has {}, not {}, {how}", show(key), show_option(got), show_option(due)))
}
