//! What a store says of itself, and whether all of it can be read.

use biombo_engine::{Compaction, CompactionTail, Damage, IndexFigures, Result, Segments, Stats};

use crate::lane::Instance;
use crate::options::{Partitioning, PlacementKind};
use crate::placement::Epoch;
use crate::scan::Range;
use crate::{PartitionId, Store, keyspace};

/// Figures of a store.
#[derive(Debug, Clone)]
pub struct StoreStats {
    /// The engine's name; while partitions of another one leave, that of those that stay.
    pub engine: String,
    /// How keys are divided.
    pub partitioning: Partitioning,
    /// The number of partitions, those that leave among them.
    pub partitions: u32,
    /// The partitions that leave: see [`Store::leaving`].
    pub leaving: Vec<PartitionId>,
    /// How keys find their partition.
    pub placement: PlacementKind,
    /// The placement's version.
    pub epoch: Epoch,
    /// Units (slots or ranges) of each partition.
    pub units_by_partition: Vec<usize>,
    /// Keys held; the engines' estimate where `keys_estimated`.
    pub keys: Option<u64>,
    /// Whether `keys` is an estimate.
    pub keys_estimated: bool,
    /// Bytes of live keys and values as stored, where the engines know.
    pub logical_bytes: Option<u64>,
    /// Bytes on the devices.
    pub physical_bytes: Option<u64>,
    /// Bytes of keys and values that were written since the store was opened.
    pub logical_write_bytes: u64,
    /// Bytes that the engines wrote since the store was opened, where they know.
    pub engine_write_bytes: Option<u64>,
    /// Bytes that the store's own journals wrote since it was opened: batches over several partitions, `Sync` writes that share a sync,
    /// moves.
    pub journal_write_bytes: u64,
    /// Bytes of atomic batches that the intent journal still holds.
    pub intent_bytes: u64,
    /// What has moved between partitions since the store was opened, whoever moved it.
    pub moves: Moves,
    /// The worker that each partition has at this moment; empty under the executor `direct`.
    pub worker_by_partition: Vec<u32>,
    /// Keys that are pinned elsewhere than their slot.
    pub pins: u64,
    /// Why the store is read-only, if it is.
    pub poisoned: Option<String>,
    /// Each engine instance's own figures.
    pub instances: Vec<Stats>,
}

/// Moves between partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Moves {
    /// Plans of the store's own that were carried out. [`Store::plans`] says more of them.
    pub plans: u64,
    /// Plans of its own that it made and did not begin.
    pub refused: u64,
    /// Units, and single keys.
    pub units: u64,
    /// Keys that were copied.
    pub keys: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Partitions that got another worker, which moves nothing.
    pub workers: u64,
    /// What watching and planning have cost, in nanoseconds of the store's own thread: carried out, a plan is paid for in what it moves.
    pub planning_ns: u64,
}

impl StoreStats {
    /// Bytes that the engines and the store's own journals wrote since the store was opened, where the engines know theirs.
    pub fn written_bytes(&self) -> Option<u64> {
        self.engine_write_bytes.map(|bytes| bytes + self.journal_write_bytes)
    }

    /// Write amplification by the counters of the engines and of the store's own journals since the store was opened.
    pub fn waf(&self) -> Option<f64> {
        let written = self.written_bytes()?;
        (self.logical_write_bytes > 0).then(|| written as f64 / self.logical_write_bytes as f64)
    }

    /// The instances' work in the background together, where they tell it.
    pub fn compaction(&self) -> Option<Compaction> {
        self.all(|stats| stats.compaction.as_ref()).map(Compaction::together)
    }

    /// The slowest of the instances' work in the background, where all of them keep it.
    pub fn compaction_tail(&self) -> Option<CompactionTail> {
        self.all(|stats| stats.compaction_tail.as_ref()).and_then(CompactionTail::together)
    }

    /// The instances' segments together, where they have some.
    pub fn segments(&self) -> Option<Segments> {
        self.all(|stats| stats.segments).map(Segments::together)
    }

    /// The instances' indexes together, where they keep one of all keys in memory.
    pub fn index(&self) -> Option<IndexFigures> {
        self.all(|stats| stats.index).and_then(IndexFigures::together)
    }

    /// A figure of every instance; `None` when one does not tell it.
    fn all<'a, T>(&'a self, of: impl Fn(&'a Stats) -> Option<T>) -> Option<Vec<T>> {
        self.instances.iter().map(of).collect()
    }
}

impl Store {
    /// Figures of this moment. No pass over the data. They are to be had also when an engine takes no more writes; what waits for it is
    /// missing in them then.
    pub fn stats(&self) -> Result<StoreStats> {
        let inner = &*self.inner;
        let figures = |instance: &Instance| {
            if inner.poison.why().is_none() {
                // Whose write it is will be told: by the next flush, or the next write.
                let _ = instance.drain(&inner.poison);
            }
            instance.raw().stats()
        };
        let mut instances = inner.instances.iter().map(figures).collect::<Result<Vec<_>>>()?;
        if inner.partitioning == Partitioning::Hard {
            for (stats, instance) in instances.iter_mut().zip(inner.instances.iter()) {
                // The store's own mark is not the user's key.
                let marks = u64::from(!stats.keys_estimated && instance.engine.contains(keyspace::MARK)?);
                stats.keys = stats.keys.map(|keys| keys - marks.min(keys));
            }
        }
        let sum = |of: fn(&Stats) -> Option<u64>| instances.iter().map(of).sum::<Option<u64>>();
        let topology = inner.topology.get().1;
        let placement = &topology.placement;
        Ok(StoreStats {
            engine: inner.manifest.engine.clone(),
            partitioning: inner.partitioning,
            partitions: inner.manifest.partitions,
            leaving: self.leaving(),
            placement: placement.kind(),
            epoch: placement.epoch(),
            units_by_partition: placement.units_by_partition(inner.manifest.partitions),
            keys: sum(|s| s.keys),
            // What moves have left over is counted too.
            keys_estimated: topology.has_strangers() || instances.iter().any(|s| s.keys_estimated),
            logical_bytes: sum(|s| s.logical_bytes),
            physical_bytes: sum(|s| s.physical_bytes),
            logical_write_bytes: inner.lanes.iter().map(|lane| lane.logical_bytes()).sum(),
            engine_write_bytes: sum(|s| s.written_bytes),
            journal_write_bytes: self.journal_write_bytes(),
            intent_bytes: inner.intents.as_ref().map_or(0, |intents| intents.outstanding_bytes()),
            moves: self.moves(),
            worker_by_partition: self.worker_by_partition(),
            pins: placement.pins() as u64,
            poisoned: inner.poison.why().map(str::to_owned),
            instances,
        })
    }

    /// Each engine instance's own figures, of what has reached it. Unlike [`stats`](Self::stats), nothing is brought in for them and the
    /// keys of the store's own are counted: they may be asked for again and again while others work.
    pub fn instance_stats(&self) -> Result<Vec<Stats>> {
        self.inner.instances.iter().map(|instance| instance.raw().stats()).collect()
    }

    /// Bytes that the store's own journals wrote since it was opened: [`StoreStats::journal_write_bytes`]. Waits for a write of theirs that is
    /// under way.
    pub fn journal_write_bytes(&self) -> u64 {
        let intents = self.inner.intents.as_ref().map_or(0, |intents| intents.written_bytes());
        intents + self.inner.mover.as_ref().map_or(0, |mover| mover.journal_written_bytes())
    }

    /// Somebody had the kernel write all that it kept of the store's files (`syncfs`): engines that count what they make the kernel write take
    /// note. Nothing else changes.
    pub fn written_back(&self) {
        self.inner.instances.iter().for_each(|instance| instance.raw().written_back());
    }

    fn moves(&self) -> Moves {
        let (units, keys, bytes) = self.inner.mover.as_ref().map_or((0, 0, 0), |mover| mover.totals());
        let since_opened = self.inner.planning.as_ref().map(|planning| planning.driver.since_opened());
        let (plans, refused, planning_ns) = since_opened.unwrap_or_default();
        let workers = self.inner.workers.as_ref().map_or(0, |workers| workers.crew.reassigned());
        Moves { plans, refused, units, keys, bytes, workers, planning_ns }
    }

    fn worker_by_partition(&self) -> Vec<u32> {
        let Some(workers) = &self.inner.workers else { return Vec::new() };
        // Under `soft`, several partitions may share a lane.
        let of_lane = workers.crew.worker_of();
        (0..self.inner.manifest.partitions as usize).map(|partition| of_lane[partition % of_lane.len()]).collect()
    }

    /// Read everything: every engine verifies itself, and every key is where the placement says, or where a move may have left it.
    /// Calls `report` for each damage; returns the number of keys read.
    pub fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let inner = &*self.inner;
        let hard = inner.partitioning == Partitioning::Hard;
        let mut keys = 0;
        for (index, instance) in inner.instances.iter().enumerate() {
            keys += instance.engine.verify(report)?;
            if !hard {
                continue;
            }
            keys -= u64::from(instance.engine.contains(keyspace::MARK)?).min(keys);
            if inner.capabilities.ordered {
                self.verify_owner(index, report)?;
            }
        }
        Ok(keys)
    }

    fn verify_owner(&self, index: usize, report: &mut dyn FnMut(Damage)) -> Result<()> {
        let inner = &*self.inner;
        let partition = PartitionId(index as u16);
        loop {
            // Which keys may be where they do not belong is known before the cursor is opened, and still so after.
            let (version, topology) = inner.topology.get();
            let leftovers = inner.mover.as_ref().map_or_else(Vec::new, |mover| mover.leftovers_in(partition));
            let mut cursor = std::sync::Arc::clone(&inner.instances[index].engine).cursor()?;
            if inner.topology.version() != version {
                continue;
            }
            let mut scratch = Vec::new();
            cursor.seek(keyspace::USER_FROM)?;
            while let Some(stored) = cursor.key() {
                let key = keyspace::decode(stored, &mut scratch);
                let owner = topology.placement.owner(key);
                if owner != partition && !leftovers.iter().any(|units| units.may_hold(stored)) {
                    report(Damage {
                        file: inner.manifest.engine_dir(&inner.dir, index),
                        offset: 0,
                        what: format!("key `{}` belongs to partition {}", key.escape_ascii(), owner.0),
                    });
                }
                cursor.next()?;
            }
            return Ok(());
        }
    }

    /// Give room back and put neighbours together, as far as the engine can.
    pub fn compact(&self) -> Result<()> {
        self.inner.poison.check()?;
        self.inner.instances.iter().try_for_each(|instance| instance.engine.compact())
    }

    /// The number of keys, by a scan.
    pub fn count(&self) -> Result<u64> {
        let mut scan = self.scan(Range::all())?;
        let mut keys = 0;
        while scan.next()?.is_some() {
            keys += 1;
        }
        Ok(keys)
    }
}
