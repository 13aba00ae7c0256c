//! Units that move from one partition to another, while reads and writes go on, through any crash.
//!
//! | room | idea |
//! |---|---|
//! | `machine` | the order of the steps, and why it is right: pure |
//! | `run` | the steps themselves |
//! | `forward` | writes to what is leaving: forwarded, and held back while it changes hands |
//! | `clean` | what is left over: found, deleted, told to the journal |
//! | `walk` | a pass over the keys of units, a chunk at a time: for both |
//! | `ranges` | ranges that are split, merged, and moved by their bounds |
//! | `spread` | which units go where, for equal shares of the partitions that stay |
//! | `even` | the same of ranges, whose shares are bytes |
//! | `throttle` | how much of its rate a move takes: less while users feel it |
//! | `rests` | how it rests, for its rate and for its share |
//! | `tidy` | the thread that cleans what nobody waits for |
//!
//! Moving is a role of the calling thread; one thread of a store has it at a time. What readers, writers and scans see meanwhile:
//! `topology`. What a crash leaves: `placement::journal`.
//!
//! Why what is left over stays gone. Garbage of units in a partition X can come back only if a crash makes recovery reapply intents that
//! put it there. So cleaning begins with a sync of X, after the units have left it: then X's mark is durable and above every intent that
//! touched them there, and none of those is ever reapplied. What is reapplied to the new *owner* is about the units only if it came after the
//! flip, and then it lands where it was. Before the flip only ranges that are deleted in several partitions could be about keys of both: those are
//! held back while units of them change hands, so they are before the hand-over's sync, and their mark with them, since ranges never
//! wait for their engine.
//!
//! Copies and garbage are written past the lanes and past what waits for an engine ([`apply_aside`](crate::lane::Instance::apply_aside)): they are about
//! keys that the partition does not own, so no write of its lane is about them. One is: a range that is deleted in all
//! partitions may delete copies early. The forwarded deletion would have done so later.
//!
//! What a move costs others. Finding the keys of one slot is a pass over its partition, and cleaning them another: units are best moved many at
//! a time. A combined group of writers of which one meets units that change hands comes again as a whole. Over LMDB each chunk's cursor first
//! brings in what waits for the engine. Over `log`, copies at `Os` between users' `Sync` writes may end a segment each time. The syncs of
//! a move are the engines' own, and writers to the same engine feel them: so a move syncs every 2 MiB, and an engine syncs without
//! the lock of its writers where it can (`log`). Governed by the throttle, with 20,000 operations a second, open loop, on two processors, while
//! 64 slots at a time moved at 64 MiB a second at most (the bench `stall`, medians of 9 rounds of 10 s, commit aa150fb): p99.9 of writes 5.5 ms over
//! `log` (2.5 ms at rest; 10 MiB a second went) and 6.4 ms over LMDB (5.0 ms at rest; 3.7 MiB a second); writes of the units themselves
//! were held back for 1.6 and 0.3 ms at most. To give the processor away every few keys makes that smaller,
//! and moves come to a standstill on a machine that has more to do than it can.

mod clean;
#[cfg(test)]
mod crash_tests;
mod even;
mod forward;
#[cfg(test)]
mod forward_tests;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod linear;
mod machine;
#[cfg(test)]
mod machine_tests;
mod ranges;
mod rests;
#[cfg(test)]
mod rests_tests;
mod run;
#[cfg(test)]
pub(crate) mod seam_tests;
#[cfg(test)]
mod settle_tests;
mod spread;
#[cfg(test)]
mod threads_tests;
mod throttle;
mod tidy;
#[cfg(test)]
mod tidy_tests;
mod walk;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use biombo_engine::{Error, ErrorKind, Result};

pub(crate) use forward::{Handover, Held, Outgoing};

use crate::lane::{Instance, Lane};
use crate::options::Partitioning;
use crate::placement::{MoveId, PlacementJournal, UnitSet};
use crate::poison::Poison;
use crate::present::Present;
use crate::store::Inner;
use crate::topology::{Scans, Topology};
use crate::{PartitionId, Store, UnitId};
pub(crate) use machine::Step;
pub(crate) use throttle::Throttle;
pub(crate) use tidy::Tidier;

use clean::{Cleaned, Cleaning};
use machine::End;
use run::Carrier;

/// How fast a move may go, and how finely it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes of keys and values a second that are copied, and bytes of keys that are cleaned; `None`: as fast as it goes, whoever feels it.
    ///
    /// A rate is the most. A move that has one begins with a quarter of it, and of its thread's time; takes less, down to an eighth, while users'
    /// operations stall for more than about one and a half times as long as at rest; and more by steps while they do not. What they take at rest
    /// it learns by standing still for up to a fifth of a second (a whole one where few come) before it begins, unless another move did so lately, and
    /// now and then: so a first move of next to nothing takes as long, or a twentieth of a second where nobody uses the store.
    pub bytes_per_second: Option<u64>,
    /// Bytes of keys and values that are read, and written, at a time: 4 times as many where `to` commits at a high cost, and down to a quarter
    /// while a move takes little of its rate; 0 counts as 1.
    pub chunk_bytes: usize,
    /// Keys that are looked at, at a time: most of them may belong to units that stay; down to a sixteenth while a move takes little
    /// of its rate, or a quarter where `to` commits at a high cost; 0 counts as 1.
    pub chunk_keys: usize,
}

impl Default for Pace {
    /// As fast as it goes, by 64 KiB or 4,096 keys.
    fn default() -> Self {
        Self { bytes_per_second: None, chunk_bytes: 64 << 10, chunk_keys: 4096 }
    }
}

impl Pace {
    /// Let time pass after so many bytes that a scan of the caller's own read: nobody else feels those but by the device.
    fn rest(&self, bytes: usize) {
        if let Some(rate) = self.bytes_per_second {
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
        }
    }
}

/// What a move came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Moved {
    /// Units, or single keys, that have another owner now.
    pub units: usize,
    /// Keys that were copied.
    pub keys: u64,
    /// Bytes of keys and values that were copied.
    pub bytes: u64,
    /// Writes that came meanwhile and were forwarded.
    pub forwarded: u64,
    /// The longest that writes of the units were held back.
    pub pause: Duration,
    /// Whether nothing is left over where the units were; otherwise see [`Store::clean_leftovers`].
    pub cleaned: bool,
}

impl Moved {
    pub(crate) fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.forwarded += other.forwarded;
        self.pause = self.pause.max(other.pause);
        self.cleaned &= other.cleaned;
    }
}

/// What moving needs of a store.
pub(crate) struct Mover {
    pub(crate) instances: Arc<[Instance]>,
    pub(crate) lanes: Arc<[Lane]>,
    pub(crate) topology: Arc<Present<Topology>>,
    pub(crate) poison: Arc<Poison>,
    /// Whether scans keep what they saw.
    pub(crate) has_snapshots: bool,
    /// Partitions that leave the store: nothing moves to them.
    leaving: Vec<PartitionId>,
    /// Held by the thread that moves, or cleans.
    role: Mutex<()>,
    /// Callers who wait for the role: who cleans without being asked gives way to them.
    pub(crate) waiting: AtomicUsize,
    journal: Mutex<PlacementJournal>,
    pub(crate) handover: Handover,
    /// Of topologies that were replaced: scans that may still read by them.
    older_scans: Mutex<Vec<Arc<Scans>>>,
    /// The store is closing: moves that have not changed hands yet are given up.
    pub(crate) closing: AtomicBool,
    totals: Totals,
    /// How much of its rate a move may have; none where time is not real.
    throttle: OnceLock<Throttle>,
}

/// What has moved since the store was opened.
#[derive(Default)]
struct Totals {
    units: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
    rested_ns: AtomicU64,
}

impl Mover {
    pub(crate) fn new(
        journal: PlacementJournal,
        instances: Arc<[Instance]>,
        lanes: Arc<[Lane]>,
        poison: Arc<Poison>,
        topology: Arc<Present<Topology>>,
        has_snapshots: bool,
        leaving: Vec<PartitionId>,
    ) -> Self {
        Self {
            instances,
            lanes,
            topology,
            poison,
            has_snapshots,
            leaving,
            role: Mutex::default(),
            waiting: AtomicUsize::new(0),
            journal: Mutex::new(journal),
            handover: Handover::default(),
            older_scans: Mutex::default(),
            closing: AtomicBool::new(false),
            totals: Totals::default(),
            throttle: OnceLock::new(),
        }
    }

    /// How long callers have waited for lanes.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.lanes.iter().map(Lane::waited_ns).sum()
    }

    /// Units, keys and bytes that have moved since the store was opened.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let of = |total: &AtomicU64| total.load(Ordering::Relaxed);
        (of(&self.totals.units), of(&self.totals.keys), of(&self.totals.bytes))
    }

    /// How long moves have rested since the store was opened, which costs nobody anything.
    pub(crate) fn rested_ns(&self) -> u64 {
        self.totals.rested_ns.load(Ordering::Relaxed)
    }

    /// The role of a caller who was asked to move or to clean: it waits for whoever moves now, however long that takes.
    pub(crate) fn take_role(&self) -> MutexGuard<'_, ()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let role = self.role.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        role
    }

    /// Bytes that the journal of placements has written since it was opened.
    pub(crate) fn journal_written_bytes(&self) -> u64 {
        self.journal().written_bytes()
    }

    fn journal(&self) -> MutexGuard<'_, PlacementJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units of which `partition` may hold keys that it does not own, or may come to in a moment.
    pub(crate) fn leftovers_in(&self, partition: PartitionId) -> Vec<Arc<UnitSet>> {
        let journal = self.journal();
        let about = journal.leftovers().filter(|(_, leftover)| leftover.is_about(partition));
        about.map(|(_, leftover)| Arc::clone(&leftover.units)).collect()
    }

    /// The topology that the journal says.
    fn topology(&self) -> Topology {
        let journal = self.journal();
        Topology::new(journal.placement().clone(), journal.leftovers().map(|(_, leftover)| leftover))
    }

    /// Replace the store's topology. Where units change hands, the caller holds their lane's lock.
    fn replace(&self, new: Topology) {
        let mut older = self.older_scans.lock().unwrap_or_else(PoisonError::into_inner);
        older.push(Arc::clone(self.topology.get().1.scans()));
        self.topology.replace(new);
        older.retain(|scans| !scans.is_over());
    }

    /// Whether no scan reads the present by a topology that was replaced.
    fn older_scans_are_over(&self) -> bool {
        let older = self.older_scans.lock().unwrap_or_else(PoisonError::into_inner);
        older.iter().all(|scans| scans.is_over())
    }

    /// Clean one leftover, all of it. False: a scan may be reading it.
    fn clean(&self, id: MoveId, holder: PartitionId, units: &UnitSet, pace: Pace) -> Result<bool> {
        let cleaning = Cleaning { mover: self, id, holder, units, pace };
        let mut is_open = || !self.closing.load(Ordering::Relaxed);
        Ok(cleaning.run(&mut Vec::new(), &mut is_open)? == Cleaned::Whole)
    }

    /// Those leftovers in `partition`, or in all, of which `wanted` holds.
    fn leftovers(&self, wanted: impl Fn(PartitionId, &UnitSet) -> bool) -> Vec<(MoveId, PartitionId, Arc<UnitSet>)> {
        let journal = self.journal();
        let found = journal.leftovers().filter(|(_, leftover)| wanted(leftover.holder(), &leftover.units));
        found.map(|(id, leftover)| (id, leftover.holder(), Arc::clone(&leftover.units))).collect()
    }
}

impl Mover {
    /// [`Store::move_units`].
    pub(crate) fn move_units(&self, units: &[UnitId], to: PartitionId, pace: Pace) -> Result<Moved> {
        let _role = self.take_role();
        let _governed = self.govern(pace);
        self.move_units_in_role(units, to, pace)
    }

    /// As [`move_units`](Mover::move_units), by the thread that has the role.
    fn move_units_in_role(&self, units: &[UnitId], to: PartitionId, pace: Pace) -> Result<Moved> {
        let topology = self.topology.get().1;
        let placement = &topology.placement;
        UnitSet::of(placement, units)?;
        self.check_target(to)?;
        let mut moved = Moved { cleaned: true, ..Moved::default() };
        let mut owned: Vec<_> = units.iter().filter_map(|unit| Some((placement.owner_of(*unit)?, *unit))).collect();
        owned.retain(|(owner, _)| *owner != to);
        owned.sort_unstable();
        owned.dedup();
        for group in owned.chunk_by(|(a, _), (b, _)| a == b) {
            let units: Vec<_> = group.iter().map(|(_, unit)| *unit).collect();
            let units = Arc::new(UnitSet::of(placement, &units)?);
            self.move_group(&units, group[0].0, to, pace, &mut moved)?;
        }
        Ok(moved)
    }

    /// [`Store::move_keys`].
    pub(crate) fn move_keys(&self, keys: &[impl AsRef<[u8]>], to: PartitionId, pace: Pace) -> Result<Moved> {
        let _role = self.take_role();
        let _governed = self.govern(pace);
        self.move_keys_in_role(keys, to, pace)
    }

    /// As [`move_keys`](Mover::move_keys), by the thread that has the role.
    pub(crate) fn move_keys_in_role(&self, keys: &[impl AsRef<[u8]>], to: PartitionId, pace: Pace) -> Result<Moved> {
        let topology = self.topology.get().1;
        let placement = &topology.placement;
        self.check_target(to)?;
        UnitSet::of_keys(placement, keys.iter().map(AsRef::as_ref))?;
        let mut moved = Moved { cleaned: true, ..Moved::default() };
        let mut owned: Vec<_> = keys.iter().map(|key| (placement.owner(key.as_ref()), key.as_ref())).collect();
        owned.retain(|(owner, _)| *owner != to);
        owned.sort_unstable();
        for group in owned.chunk_by(|(a, _), (b, _)| a == b) {
            let units = Arc::new(UnitSet::of_keys(placement, group.iter().map(|(_, key)| *key))?);
            self.move_group(&units, group[0].0, to, pace, &mut moved)?;
        }
        Ok(moved)
    }

    fn check_target(&self, to: PartitionId) -> Result<()> {
        let count = self.instances.len();
        if to.index() >= count {
            return Err(Error::invalid(format!("there is no partition {}: the store has {count}", to.0)));
        }
        if self.leaving.contains(&to) {
            return Err(Error::invalid(format!("partition {} leaves the store: name one that stays", to.0)));
        }
        Ok(())
    }

    /// Move units of one partition.
    fn move_group(
        &self,
        units: &Arc<UnitSet>,
        from: PartitionId,
        to: PartitionId,
        pace: Pace,
        moved: &mut Moved,
    ) -> Result<()> {
        self.poison.check()?;
        for (id, holder, old) in self.leftovers(|holder, old| holder == to && old.meets(units)) {
            if !self.clean(id, holder, &old, pace)? {
                let what = format!("partition {} still holds keys of these units that a scan may be reading", to.0);
                return Err(Error::new(ErrorKind::Busy, what));
            }
        }
        let mut carrier = Carrier::new(self, units, from, to, pace);
        let end = carrier.run();
        let (figures, error) = carrier.into_parts();
        match end {
            End::Moved => {}
            _ => return Err(error.unwrap_or_else(|| Error::new(ErrorKind::Busy, TOO_FAST))),
        }
        self.totals.units.fetch_add(units.len() as u64, Ordering::Relaxed);
        self.totals.keys.fetch_add(figures.keys, Ordering::Relaxed);
        self.totals.bytes.fetch_add(figures.bytes, Ordering::Relaxed);
        moved.units += units.len();
        moved.keys += figures.keys;
        moved.bytes += figures.bytes;
        moved.forwarded += figures.forwarded;
        moved.pause = moved.pause.max(figures.pause);
        for (id, holder, old) in self.leftovers(|holder, old| holder == from && old == &**units) {
            // The units have moved, whatever comes of this; who cleans later is told of what is in the way.
            moved.cleaned &= self.clean(id, holder, &old, pace).unwrap_or(false);
        }
        Ok(())
    }
}

impl Store {
    /// Give `units` (slots or ranges, by their numbers in the present [`placement`](Store::placement)) to the partition `to`, with all
    /// their keys, while reads and writes go on; units that it owns already stay. (Where ranges are split and merged meanwhile, their numbers change:
    /// then name them by their bounds, with [`move_range`](Store::move_range).) Runs on the calling thread; at most one move of a
    /// store runs at a time, further callers wait. A pass over each partition that the units leave, for hash slots over all its keys.
    ///
    /// Writes to keys of the units are held back for the time of a sync of `to` (of two, where it does not promise to keep a prefix of its unsynced
    /// writes through a power cut) and one of the placement journal ([`Moved::pause`]), and of one of their own partition, where at the last moment a
    /// batch below `Sync` comes of which the units have a part only; nothing else waits.
    ///
    /// # Errors
    /// `Invalid` for units or a partition that do not exist, and for one that leaves. `Unsupported` without `hard` partitions, and on engines without order.
    /// `Busy` when writes came faster than `to` took them, or a scan still reads what an earlier move left there. After these, and after
    /// `Full` and `Io` while copying, the units that were to leave the partition at hand are where they were (those of partitions before it
    /// have moved: ask the placement), and copies in `to` are left over. `Poisoned`: the store is read-only.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace, PartitionId};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let store = Options::new().engine("memory").partitions(2).open(dir.path(), &registry)?;
    /// store.put(b"screen", b"folding")?;
    /// let to = PartitionId(1 - store.route(b"screen").0);
    /// let moved = store.move_units(&[store.placement().unit_of(b"screen")], to, Pace::default())?;
    /// assert_eq!((moved.units, moved.keys, store.route(b"screen")), (1, 1, to));
    /// assert_eq!(store.get(b"screen")?.as_deref(), Some(&b"folding"[..]));
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn move_units(&self, units: &[UnitId], to: PartitionId, pace: Pace) -> Result<Moved> {
        let _tidy = Tidied(&self.inner);
        self.mover()?.move_units(units, to, pace)
    }

    /// Give single keys to the partition `to`, wherever their slots are: hot keys, or such as are accessed together. They stay *pinned* there,
    /// whoever owns their slots, until they are moved to where their slots are. A key whose slot `to` owns needs no pin and gets none: it stays with its
    /// slot, and leaves with it. As [`move_units`](Store::move_units), but for the pass: each key is
    /// looked up. A key that does not exist is pinned as well, for when it does.
    ///
    /// # Errors
    /// As `move_units`; `Invalid` for no keys, an empty one or one over 1,024 bytes; `Unsupported` under range placement.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace, PartitionId};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let store = Options::new().engine("memory").partitions(8).open(dir.path(), &registry)?;
    /// let keys = [b"order 17", b"stock 52", b"buyer 03"];
    /// keys.iter().try_for_each(|key| store.put(*key, b"..."))?;
    /// store.move_keys(&keys, PartitionId(5), Pace::default())?;
    /// assert!(keys.iter().all(|key| store.route(*key) == PartitionId(5)));
    /// assert_eq!(store.get(b"stock 52")?.as_deref(), Some(&b"..."[..]));
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn move_keys(&self, keys: &[impl AsRef<[u8]>], to: PartitionId, pace: Pace) -> Result<Moved> {
        let _tidy = Tidied(&self.inner);
        self.mover()?.move_keys(keys, to, pace)
    }

    /// Delete what moves have left over: in partitions that units have left, or that a move was to and was given up, by an error or
    /// by a crash. Says whether nothing is left: a scan that reads the present may be in the way, on engines without snapshots.
    /// Until then scans pass over such keys. A pass over each partition that holds some. A thread does it, slowly, if nobody else does:
    /// after opening, and after moves that left something over.
    ///
    /// # Errors
    /// As the engines say; what is left then can be cleaned by another call.
    pub fn clean_leftovers(&self, pace: Pace) -> Result<bool> {
        let Ok(mover) = self.mover() else { return Ok(true) };
        let _role = mover.take_role();
        let _governed = mover.govern(pace);
        let _tidy = Tidied(&self.inner);
        let mut all = true;
        for (id, holder, units) in mover.leftovers(|_, _| true) {
            all &= mover.clean(id, holder, &units, pace)?;
        }
        Ok(all)
    }

    fn mover(&self) -> Result<&Mover> {
        let what = match &self.inner.mover {
            Some(mover) if self.inner.capabilities.ordered => return Ok(mover),
            Some(_) => return Err(self.inner.lacks("order of keys: units cannot be found and moved")),
            None if self.inner.partitioning == Partitioning::Soft => "share one engine: nothing is gained by moving",
            None => "are one: there is nowhere to move to",
        };
        Err(Error::unsupported(format!("the partitions of this store {what}; it needs `hard` partitioning")))
    }
}

/// Has what is left over cleaned in the background, however a move or a cleaning ends.
struct Tidied<'a>(&'a Inner);

impl Drop for Tidied<'_> {
    fn drop(&mut self) {
        if let Some(tidier) = &self.0.tidier {
            tidier.wake();
        }
    }
}

const TOO_FAST: &str = "writes to the units came faster than the target took them, so they stay: try again later";
