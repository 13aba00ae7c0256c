//! How writes find their lanes, and find them again when units move.
//!
//! Each way to write is an attempt: route, lock, look again, publish. An attempt that came too late, or to units that are changing
//! hands, changed nothing; its caller waits for those units, if any of its keys is of them, and routes again.
//!
//! Invariants: an operation is published under the lock of every lane that owns a piece of it at that instant; whoever waits for units
//! that change hands holds no lock.

use biombo_engine::{Batch, Durability, Op, Result};

use crate::deferred::Deferred;
use crate::intent::{Routes, push_stored};
use crate::lane::{Attempt, Routed};
use crate::options::Partitioning;
use crate::pinned::{Crew, HAND_OVER_BYTES_MAX};
use crate::planning::Way;
use crate::store::Inner;
use crate::{keyspace, seam};

/// Operations larger than this together go to their engine at once: written twice they would cost more than they save.
const DEFER_BYTES_MAX: u64 = 1 << 20;
/// Bytes that gather at `Relaxed` for a partition; past it a caller does the worker's work, and is told if that fails.
const RELAXED_BYTES_MAX: usize = 4 << 20;

impl Routes for Inner {
    fn version(&self) -> u64 {
        self.topology.version()
    }

    fn lanes_of(&self, op: &Op<'_>) -> Vec<usize> {
        match op {
            Op::Put { key, .. } | Op::Delete { key } => vec![self.lane_of(key).0],
            Op::DeleteRange { from, to } => {
                let owners = self.topology.with(|topology| topology.placement.owners_of_range(from, *to));
                let mut lanes: Vec<_> = owners.iter().map(|owner| owner.index() % self.lanes.len()).collect();
                lanes.sort_unstable();
                lanes.dedup();
                lanes
            }
        }
    }
}

impl Inner {
    /// The lane that writes `key`, and by which version. Several partitions share a lane where the engine gains nothing from dividing.
    #[inline]
    pub(crate) fn lane_of(&self, key: &[u8]) -> (usize, Routed<'_>) {
        let (version, owner) = self.owner_of(key);
        let lane = owner % self.lanes.len();
        (lane, self.routed(lane, version))
    }

    fn routed(&self, lane: usize, version: u64) -> Routed<'_> {
        let lane = (self.partitioning == Partitioning::Hard).then_some(lane);
        Routed { topology: &self.topology, version, lane }
    }

    /// Apply operations atomically.
    pub(crate) fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        if let [op] = ops {
            return self.noted(Way::Write, |watch| watch.write_one(op), || self.write_unwatched(ops, durability));
        }
        self.observed(Way::Write, |watch| match watch {
            None => self.write_unwatched(ops, durability),
            Some(watch) => watch.write(ops, |key| self.owner_of(key).1, || self.write_unwatched(ops, durability)),
        })
    }

    fn write_unwatched(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.poison.check()?;
        for op in ops {
            self.capabilities.check(op)?;
        }
        if ops.is_empty() {
            return Ok(());
        }
        if self.partitioning == Partitioning::None {
            let _shared = self.stripes.share(ops);
            self.lanes[0].count(ops);
            return self.poison.watch(self.instances[0].engine.apply(ops, durability));
        }
        while self.attempt(ops, durability)? == Attempt::Again {
            self.wait_for_moves(ops)?;
        }
        Ok(())
    }

    fn attempt(&self, ops: &[Op<'_>], durability: Durability) -> Result<Attempt> {
        match ops {
            _ if durability == Durability::Sync && (self.may_wait(ops) || self.shares_sync(ops)) => {
                self.write_intent(ops, durability)
            }
            [Op::Put { key, .. } | Op::Delete { key }] => {
                let (lane, routed) = self.lane_of(key);
                self.write_lane(lane, routed, ops, durability)
            }
            _ => self.write_many(ops, durability),
        }
    }

    /// Wait while one of the keys is changing hands. The caller holds no lock.
    #[cold]
    pub(crate) fn wait_for_moves(&self, ops: &[Op<'_>]) -> Result<()> {
        if let Some(mover) = &self.mover {
            let mut stored = Batch::new();
            ops.iter().for_each(|op| push_stored(&mut stored, op));
            mover.handover.wait(&stored.to_ops());
        }
        self.poison.check()
    }

    fn write_many(&self, ops: &[Op<'_>], durability: Durability) -> Result<Attempt> {
        let version = self.topology.version();
        let mut lanes: Vec<_> = ops.iter().flat_map(|op| self.lanes_of(op)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let redo_needed = lanes.len() > 1 || !self.capabilities.atomic_batches;
        match lanes[..].first() {
            _ if redo_needed && self.intents.is_some() => self.write_intent(ops, durability),
            Some(&lane) if lanes.len() == 1 => self.write_lane(lane, self.routed(lane, version), ops, durability),
            _ => {
                // `soft`: one engine, whose own batch is atomic; the lanes are held so that each keeps its order.
                let mut publishing: Vec<_> = lanes.iter().map(|lane| self.lanes[*lane].lock()).collect();
                let Some(first) = publishing.first_mut() else { return Ok(Attempt::Landed) };
                self.lanes[0].count(ops);
                self.lanes[0].publish(first, &self.instances[0], ops, durability, &self.poison)?;
                drop(publishing);
                if durability == Durability::Sync {
                    self.instances[0].sync_if_unsynced(&self.poison)?;
                }
                Ok(Attempt::Landed)
            }
        }
    }

    /// Whether the journal alone makes these operations durable, so that their engine may get them later.
    pub(crate) fn may_wait(&self, ops: &[Op<'_>]) -> bool {
        self.defers && Self::is_worth_an_intent(ops)
    }

    fn is_worth_an_intent(ops: &[Op<'_>]) -> bool {
        ops.iter().all(|op| !matches!(op, Op::DeleteRange { .. }))
            && ops.iter().map(Op::logical_bytes).sum::<u64>() <= DEFER_BYTES_MAX
    }

    /// Whether a `Sync` write goes the way of batches over several partitions, though their engines could sync it themselves: all
    /// partitions then share one sync, where each would have its own. Not where its partition has writes that no sync covers: that
    /// takes a sync of its engine anyway, and the engine's own covers both.
    fn shares_sync(&self, ops: &[Op<'_>]) -> bool {
        self.shares_syncs
            && Self::is_worth_an_intent(ops)
            && ops.first().is_some_and(|op| match op {
                Op::Put { key, .. } | Op::Delete { key } => {
                    let lane = &self.lanes[self.lane_of(key).0];
                    !self.instances[lane.instance].has_unsynced()
                }
                Op::DeleteRange { .. } => false,
            })
    }

    /// Write operations of any lanes as one intent.
    fn write_intent(&self, ops: &[Op<'_>], durability: Durability) -> Result<Attempt> {
        let intents = self.intents.as_ref().expect("invariant: the callers know that there are intents");
        intents.commit(ops, durability, &self.lanes, &self.instances, &self.poison, self)
    }

    /// Write operations that belong to one lane.
    fn write_lane(&self, lane: usize, routed: Routed<'_>, ops: &[Op<'_>], durability: Durability) -> Result<Attempt> {
        if let Some(workers) = &self.workers
            && ops.iter().map(Op::logical_bytes).sum::<u64>() <= HAND_OVER_BYTES_MAX
        {
            let relaxed = self.instances[self.lanes[lane].instance].relaxed.as_ref();
            if let (Durability::Relaxed, Some(relaxed), true) = (durability, relaxed, Deferred::can_take(ops)) {
                return self.gather(lane, routed, ops, relaxed, &workers.crew);
            }
            let may_wait = self.may_wait(ops);
            return workers.crew.write(lane, routed.version, ops, durability, may_wait);
        }
        let number = lane;
        let lane = &self.lanes[lane];
        let instance = &self.instances[lane.instance];
        if self.partitioning != Partitioning::Hard {
            return lane.write(instance, ops, durability, routed, &self.poison);
        }
        let write = |ops: &[Op<'_>]| match (&instance.deferred, &self.intents) {
            (Some(deferred), Some(intents)) if self.may_wait(ops) => {
                intents.make_room(&self.lanes, &self.instances, &self.poison)?;
                let gathered = {
                    let mut held = lane.lock();
                    self.poison.check()?;
                    if !routed.is_current() || !held.admits(ops) {
                        return Ok(Attempt::Again);
                    }
                    lane.count(ops);
                    intents.commit_in_lane(number, &mut held, deferred, ops, durability, &self.poison)?
                };
                intents.relieve(gathered, instance, lane.instance, &self.poison)?;
                Ok(Attempt::Landed)
            }
            _ => lane.write(instance, ops, durability, routed, &self.poison),
        };
        if let [op] = ops {
            let (Op::Put { key, .. } | Op::Delete { key }) = *op else {
                let mut stored = Batch::new();
                push_stored(&mut stored, op);
                return write(&stored.to_ops());
            };
            let key = keyspace::encode(key);
            let stored = match *op {
                Op::Put { value, .. } => Op::Put { key: &key, value },
                _ => Op::Delete { key: &key },
            };
            return write(&[stored]);
        }
        let mut stored = Batch::new();
        for op in ops {
            push_stored(&mut stored, op);
        }
        write(&stored.to_ops())
    }

    /// Write operations at `Relaxed`: they are seen from now on, and the lane's worker brings them into the engine.
    fn gather(
        &self,
        number: usize,
        routed: Routed<'_>,
        ops: &[Op<'_>],
        relaxed: &Deferred,
        crew: &Crew,
    ) -> Result<Attempt> {
        if relaxed.gathering_bytes() > RELAXED_BYTES_MAX {
            self.poison.check()?;
            self.poison.watch(relaxed.drain())?;
        }
        let mut stored = Batch::new();
        ops.iter().for_each(|op| push_stored(&mut stored, op));
        let lane = &self.lanes[number];
        {
            let mut held = lane.lock();
            self.poison.check()?;
            if !routed.is_current() || !held.admits_batch(&stored) {
                return Ok(Attempt::Again);
            }
            relaxed.gather(&stored.to_ops());
            held.published_batch(&stored, &Ok(()));
        }
        lane.count(ops);
        crew.bring(number)?;
        Ok(Attempt::Landed)
    }

    /// Apply operations for themselves.
    pub(crate) fn write_each(&self, batch: &Batch, durability: Durability) -> Result<()> {
        let ops = batch.to_ops();
        let is_range = |op: &Op<'_>| matches!(op, Op::DeleteRange { .. });
        // Only operations on single keys can be written lane by lane, and those of a lane again.
        if self.partitioning != Partitioning::Hard || ops.iter().any(is_range) {
            return self.write(&ops, durability);
        }
        self.poison.check()?;
        self.noted(Way::Write, |watch| watch.write_each(&ops), || self.write_each_unwatched(&ops, durability))
    }

    fn write_each_unwatched(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        if durability == Durability::Sync && self.may_wait(ops) {
            return self.write_unwatched(ops, durability);
        }
        for op in ops {
            self.capabilities.check(op)?;
        }
        let mut left = ops.to_vec();
        while !left.is_empty() {
            // All by one placement, however long it takes: operations on one key stay together, and so in their order.
            let (version, topology) = self.topology.get();
            let mut slices: Vec<(Batch, Vec<Op<'_>>)> = vec![<_>::default(); self.lanes.len()];
            for op in left.drain(..) {
                seam::pass(seam::Point::Route);
                let (Op::Put { key, .. } | Op::Delete { key }) = op else { continue };
                let slice = &mut slices[topology.placement.owner(key).index() % self.lanes.len()];
                push_stored(&mut slice.0, &op);
                slice.1.push(op);
            }
            for (number, (slice, ops)) in slices.iter().enumerate().filter(|(_, (slice, _))| !slice.is_empty()) {
                let (lane, routed) = (&self.lanes[number], self.routed(number, version));
                let instance = &self.instances[lane.instance];
                if lane.write(instance, &slice.to_ops(), durability, routed, &self.poison)? == Attempt::Again {
                    left.extend(ops);
                }
            }
            if !left.is_empty() {
                self.wait_for_moves(&left)?;
            }
        }
        Ok(())
    }
}
