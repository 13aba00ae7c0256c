//! What the tests of cleaning and of checkpoints compare an engine with: a model of its keys, the past that a crash may leave, and a
//! count of all records beside the accounts.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_engine::{Cursor, Durability, Engine, Op, OpenOptions};
use biombo_journal::{LogOptions, SegmentNumber};

use crate::accounts::Accounts;
use crate::engine::{Core, LogEngine, leaf};
use crate::options::LogEngineOptions;
use crate::record::{Kind, Record};

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const DIR: &str = "instance";

pub(crate) fn options(segment_bytes: u64, space_amplification: f64) -> LogEngineOptions {
    LogEngineOptions {
        log: LogOptions { segment_bytes, ..LogOptions::default() },
        space_amplification,
        ..LogEngineOptions::default()
    }
}

pub(crate) fn open(io: &SimIo, own: &LogEngineOptions) -> Result<Arc<LogEngine>> {
    io.create_dir_all(Path::new(DIR)).unwrap();
    io.sync_dir(Path::new("")).unwrap();
    crate::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), own, false)
}

/// One operation out of a small space of keys.
#[derive(Debug, Clone)]
pub(crate) enum Did {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Did {
    pub(crate) fn random(random: &mut Random, keys: u64) -> Self {
        let mut key = || format!("key{:03}", random.below(keys)).into_bytes();
        let (one, other) = (key(), key());
        match random.below(40) {
            0 => Self::DeleteRange(one.clone(), Some([&one[..], b"9"].concat())),
            1 if random.below(4) == 0 => Self::DeleteRange(one.clone().min(other.clone()), Some(one.max(other))),
            2 if random.below(8) == 0 => Self::DeleteRange(one, None),
            3..=12 => Self::Delete(one),
            _ => Self::Put(one, vec![random.next() as u8; random.below(300) as usize]),
        }
    }

    pub(crate) fn op(&self) -> Op<'_> {
        match self {
            Self::Put(key, value) => Op::Put { key, value },
            Self::Delete(key) => Op::Delete { key },
            Self::DeleteRange(from, to) => Op::DeleteRange { from, to: to.as_deref() },
        }
    }

    pub(crate) fn apply_to(&self, model: &mut Model) {
        match self {
            Self::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
            Self::Delete(key) => drop(model.remove(key)),
            Self::DeleteRange(from, to) => {
                model.retain(|key, _| key < from || to.as_ref().is_some_and(|to| key >= to));
            }
        }
    }
}

pub(crate) fn all(mut cursor: Box<dyn Cursor>) -> Model {
    let mut all = Model::new();
    cursor.first().unwrap();
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        all.insert(key.to_vec(), value.to_vec());
        cursor.next().unwrap();
    }
    all
}

pub(crate) fn contents(engine: &Arc<LogEngine>) -> Model {
    all(Arc::clone(engine).cursor().unwrap())
}

/// A history on a simulated disk, and what a crash may leave of it.
pub(crate) struct Past {
    /// What the keys were after each call, with the events before it.
    states: Vec<(usize, Model)>,
    /// From which event on all was synced up to which state.
    synced: Vec<(usize, usize)>,
}

impl Past {
    /// Of an engine that was just created.
    pub(crate) fn begun(io: &SimIo) -> Self {
        let begun = io.event_count();
        Self { states: vec![(begun, Model::new())], synced: vec![(begun, 0)] }
    }

    /// Apply `did`, now and then with a sync.
    pub(crate) fn apply(&mut self, engine: &LogEngine, io: &SimIo, did: &Did, random: &mut Random) {
        let level = if random.below(25) == 0 { Durability::Sync } else { Durability::Os };
        let before = io.event_count();
        engine.apply(&[did.op()], level).unwrap();
        let mut model = self.states.last().unwrap().1.clone();
        did.apply_to(&mut model);
        self.states.push((before, model));
        if level == Durability::Sync {
            self.synced.push((io.event_count(), self.states.len() - 1));
        }
    }

    /// The contents of `engine`, opened from what `crash` left at event `cut`; panics unless they are a prefix with all that
    /// was synced, and after a kill with all that was written but the call under way.
    pub(crate) fn check(&self, engine: &Arc<LogEngine>, cut: usize, crash: Crash, place: &str) -> Model {
        let low = self.synced.iter().rfind(|(at, _)| *at <= cut).map_or(0, |(_, state)| *state);
        let written = self.states.iter().rposition(|(before, _)| *before < cut).unwrap_or(0).saturating_sub(1);
        let low = if crash == Crash::Kill { low.max(written) } else { low };
        let high = self.states.iter().rposition(|(before, _)| *before <= cut).unwrap_or(0);
        let found = contents(engine);
        assert!(
            self.states[low..=high].iter().any(|(_, state)| *state == found),
            "{place}: no state from call {low} to {high} is {:?}",
            found.iter().map(|(key, value)| (String::from_utf8_lossy(key), value.len())).collect::<Vec<_>>()
        );
        found
    }
}

/// Compare the accounts with a count of all records from the segments, unless a pass is between installing and the end.
pub(crate) fn recount(core: &Core) {
    if core.lock_cleaner().pass.as_ref().is_some_and(|pass| pass.is_installed()) {
        return;
    }
    let writer = core.lock_writer();
    let mut counted = Accounts::default();
    let mut held: HashMap<SegmentNumber, u64> = HashMap::new();
    let active = writer.log.active().map(|(number, _)| number);
    for info in writer.log.segments().iter().filter(|info| Some(info.number) != active) {
        let mut walk = core.reader.walk(info.number).unwrap();
        while let Some((at, bytes)) = walk.next_record().unwrap() {
            let record = Record::parse(bytes).unwrap();
            let mut is_live = record.kind.is_tombstone();
            match record.kind {
                Kind::Begin => {
                    counted.begin(at.segment(), record.seq);
                    continue;
                }
                Kind::Put => is_live = core.index.pin().get(record.key).unwrap() == Some(leaf(at)),
                _ => {}
            }
            counted.add(at.segment(), &record);
            if !is_live {
                counted.remove(at.segment(), &record);
                if core.versions.needs(record.key, at) {
                    *held.entry(at.segment()).or_default() += record.stored_bytes();
                }
            }
        }
        assert_eq!(writer.accounts.content(info.number), counted.content(info.number), "segment {}", info.number);
    }
    let mut kept = core.versions.held();
    kept.retain(|number, _| Some(*number) != active);
    assert_eq!(kept, held);
}
