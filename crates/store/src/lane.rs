//! The executor `direct`: how a write reaches an engine.
//!
//! A lane is the one logical writer of a partition (two partitions may share an engine under `soft` partitioning). Its writes run
//! one at a time, on the caller's own thread. The ways, by what the engine declares:
//!
//! - `Os` writes, and all writes of engines whose sync can be done apart: under the lane's lock, to completion. A `Sync` write
//!   then meets the others that wait for a sync of the same engine ([`SharedSync`]), outside the lock.
//! - Writes that may wait for their engine ([`Deferred`]) go to the journal of intents, `Os` writes lane by lane
//!   ([`Intents::commit_in_lane`](crate::intent::Intents::commit_in_lane)), `Sync` writes in groups.
//! - `Relaxed` writes under the executor `pinned` are gathered in memory ([`Instance::relaxed`]), for its worker.
//! - Engines with costly transactions, or whose commit and sync are one: callers who find the lane taken are combined
//!   ([`Combiner`]) into one transaction and one sync.
//!
//! Invariants:
//!
//! 1. A write is published under the lane's lock (`publish`). Who holds the locks of several lanes therefore sees one point in
//!    the history of all of them: this is the gate that snapshots close, and that atomic batches hold while they apply.
//! 2. Locks of several lanes are taken in the order of their numbers.
//! 3. The lock is held over a device sync only where the engine's commit is its sync (`sync_apart` is false), and over the
//!    journal's where a write waits for such an engine.
//! 4. What was routed is looked at again under the lock ([`Routed`]): units may have left the lane since, and then nothing is
//!    published here, but routed again. Writes of units that are leaving are forwarded, or held back ([`Held`]).
//! 5. A reader may see a `Sync` write of a `sync_apart` engine an instant before it is durable; its writer is told after.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use biombo_engine::combine::Combiner;
use biombo_engine::{Batch, Durability, Engine, ErrorKind, Op, Result, Value};

use crate::deferred::Deferred;
use crate::migration::{Held, Outgoing};
use crate::poison::Poison;
use crate::present::Present;
use crate::shared_sync::SharedSync;
use crate::topology::Topology;
use crate::{keyspace, seam};

/// How an attempt to write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Attempt {
    /// It is done.
    Landed,
    /// Nothing was changed: the keys are about to belong to another lane, or do already. Route again.
    Again,
}

/// By what a write came to its lane.
#[derive(Clone, Copy)]
pub(crate) struct Routed<'a> {
    pub(crate) topology: &'a Present<Topology>,
    /// The version that it was routed by.
    pub(crate) version: u64,
    /// The number of the lane; `None` where units never move (no `hard` partitions).
    pub(crate) lane: Option<usize>,
}

impl Routed<'_> {
    /// Whether nothing has moved since. To be asked under the lane's lock.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.topology.version() == self.version
    }

    /// Whether all these stored operations belong to the lane, whenever each of them was routed. To be asked under the lane's lock.
    fn owns(&self, ops: &[Op<'_>]) -> bool {
        let Some(lane) = self.lane else { return true };
        let mut scratch = Vec::new();
        self.topology.with(|topology| {
            ops.iter().all(|op| match op {
                Op::Put { key, .. } | Op::Delete { key } => {
                    topology.placement.owner(keyspace::decode(key, &mut scratch)).index() == lane
                }
                Op::DeleteRange { from, to } => {
                    let from = keyspace::decode(from, &mut scratch).to_vec();
                    let to = to.map(|to| keyspace::decode(to, &mut scratch));
                    topology.placement.owners_of_range(&from, to).iter().all(|owner| owner.index() == lane)
                }
            })
        })
    }
}

/// One engine instance and its syncs.
pub(crate) struct Instance {
    pub(crate) engine: Arc<dyn Engine>,
    /// The same engine, where writes may wait for it.
    pub(crate) deferred: Option<Arc<Deferred>>,
    /// The same engine, where writes at `Relaxed` are gathered and others do not wait.
    pub(crate) relaxed: Option<Arc<Deferred>>,
    shared_sync: SharedSync,
    /// Writes below `Sync` that were applied, counted under their lane's lock.
    applied: AtomicU64,
    /// Those of them that a finished sync covers.
    durable: AtomicU64,
}

impl Instance {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            deferred: None,
            relaxed: None,
            shared_sync: SharedSync::default(),
            applied: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    /// An instance of a store with intents: writes wait for the engine if that pays. If `gathers`, somebody brings in what was written at
    /// `Relaxed`: to an engine that takes it whole. Of one that does not, a crash might leave what came later and not what came before.
    pub(crate) fn deferring(engine: Arc<dyn Engine>, gathers: bool) -> Self {
        let suits = Deferred::suits(engine.capabilities());
        let gathers = gathers && engine.capabilities().atomic_batches;
        if !suits && !gathers {
            return Self::new(engine);
        }
        let deferred = Arc::new(Deferred::new(engine));
        let kept = Some(Arc::clone(&deferred));
        let new = Self::new(deferred);
        if suits { Self { deferred: kept, ..new } } else { Self { relaxed: kept, ..new } }
    }

    /// Whether a slice can wait for the engine.
    pub(crate) fn can_wait(&self, slice: &Batch) -> bool {
        self.deferred.is_some() && Deferred::can_take(&slice.to_ops())
    }

    /// What may wait for the engine.
    fn waiting(&self) -> Option<&Arc<Deferred>> {
        self.deferred.as_ref().or(self.relaxed.as_ref())
    }

    /// The value of a stored key. Without a dynamic call on the way to what waits for the engine.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        match &self.deferred {
            Some(deferred) => deferred.get(key),
            None => self.engine.get(key),
        }
    }

    /// As [`get`](Instance::get), copied into `into`.
    #[inline]
    pub(crate) fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        match &self.deferred {
            Some(deferred) => deferred.get_into(key, into),
            None => self.engine.get_into(key, into),
        }
    }

    /// The values of stored keys, in their order; see [`Engine::multi_get`].
    pub(crate) fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        match &self.deferred {
            Some(deferred) => deferred.multi_get(keys, values),
            None => self.engine.multi_get(keys, values),
        }
    }

    /// Make everything written so far durable; callers at the same time share one sync.
    pub(crate) fn sync(&self, poison: &Poison) -> Result<()> {
        // A full disk met here has lost nothing: what waits for the engine is in the journal, or stays where it was gathered.
        self.drain(poison)?;
        self.sync_applied(poison)
    }

    /// Make everything that is in the engine durable. For a write that was applied, and with it all that had been gathered before: what others
    /// have gathered since must not make it wait, nor fail.
    pub(crate) fn sync_applied(&self, poison: &Poison) -> Result<()> {
        let engine = self.raw();
        let result = self.shared_sync.sync(|| {
            let covers = self.unsynced_writes();
            engine.sync()?;
            self.durable.fetch_max(covers, Ordering::SeqCst);
            Ok(())
        });
        // Whatever a failed sync says, the data may be gone.
        result.inspect_err(|error| poison.set(error))
    }

    /// Bring what waits for the engine into it.
    pub(crate) fn drain(&self, poison: &Poison) -> Result<()> {
        self.waiting().map_or(Ok(()), |waiting| poison.watch(waiting.drain()))
    }

    /// Bring what was written at `Relaxed` into the engine, before an intent about this instance is in the journal.
    pub(crate) fn drain_relaxed(&self, poison: &Poison) -> Result<()> {
        match &self.relaxed {
            Some(relaxed) if !relaxed.is_empty() => {
                poison.check()?;
                poison.watch(relaxed.drain())
            }
            _ => Ok(()),
        }
    }

    /// Sync if a write below `Sync` was applied that no finished sync covers. As [`sync_applied`](Instance::sync_applied): the caller's write came
    /// after all that had been gathered was brought in, and that is counted before it is gone from where it was gathered; and what is deferred is
    /// in the journal, before the caller's.
    pub(crate) fn sync_if_unsynced(&self, poison: &Poison) -> Result<()> {
        if self.has_unsynced() { self.sync_applied(poison) } else { Ok(()) }
    }

    /// Let no crash take what was published of this instance: what waits for the engine goes on waiting where the journal has it, which drops it only
    /// after a sync. For a mover, from here.
    pub(crate) fn settle_published(&self, poison: &Poison) -> Result<()> {
        self.drain_relaxed(poison)?;
        if let Some(deferred) = &self.deferred {
            poison.watch(deferred.promise())?;
        }
        if self.has_unsynced() { self.sync_applied(poison) } else { Ok(()) }
    }

    /// Whether a write below `Sync` was applied that no finished sync covers.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.durable.load(Ordering::SeqCst) < self.unsynced_writes()
    }

    /// Whether each of its `Sync` writes takes a sync of its own, and its engine keeps a prefix of its other ones through a power cut: a redo of them
    /// elsewhere is as good.
    pub(crate) fn syncs_alone(&self) -> bool {
        let capabilities = self.engine.capabilities();
        let keeps_prefix = capabilities.survives_power_cut.is_some_and(|level| level <= Durability::Os);
        capabilities.persistent && keeps_prefix && !capabilities.sync_apart && !capabilities.costly_transactions
    }

    /// Writes that reached the engine without a sync, those that had waited for it among them.
    fn unsynced_writes(&self) -> u64 {
        let drained = self.waiting().map_or(0, |waiting| waiting.drained_unsynced());
        self.applied.load(Ordering::SeqCst) + drained
    }

    /// Apply stored operations that are no part of the lane's history: keys that this partition does not own, as a move brings or
    /// clears them. At `Os` where the engine keeps a prefix of such writes whole through a power cut; otherwise synced. They pass by
    /// what waits for the engine: none of that is about their keys. Nobody's sync need cover them but the mover's own.
    pub(crate) fn apply_aside(&self, ops: &[Op<'_>], poison: &Poison) -> Result<()> {
        let keeps_prefix = self.engine.capabilities().survives_power_cut.is_none_or(|level| level <= Durability::Os);
        let level = if keeps_prefix { Durability::Os } else { Durability::Sync };
        poison.watch(self.raw().apply(ops, level))
    }

    /// Make what was applied aside, and all else that is in the engine, durable. What waits for the engine goes on waiting: a hand-over must not
    /// wait for that.
    pub(crate) fn sync_aside(&self, poison: &Poison) -> Result<()> {
        self.raw().sync().inspect_err(|error| poison.set(error))
    }

    /// The engine itself, past what waits for it.
    pub(crate) fn raw(&self) -> &Arc<dyn Engine> {
        self.waiting().map_or(&self.engine, |waiting| waiting.engine())
    }

    /// Something is in the engine that no sync is known to cover.
    pub(crate) fn note_unsynced(&self) {
        self.applied.fetch_add(1, Ordering::SeqCst);
    }
}

/// One logical writer.
#[repr(align(128))]
pub(crate) struct Lane {
    pub(crate) instance: usize,
    publish: Mutex<Option<Outgoing>>,
    combiner: Combiner<Attempt>,
    logical_bytes: AtomicU64,
    /// How long callers waited for `publish`, or for the worker to come to them.
    waited_ns: AtomicU64,
}

impl Lane {
    pub(crate) fn new(instance: usize) -> Self {
        Self {
            instance,
            publish: Mutex::new(None),
            combiner: Combiner::default(),
            logical_bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    /// The right to publish in this lane.
    pub(crate) fn lock(&self) -> Held<'_> {
        seam::pass(seam::Point::Lock);
        Held(match self.publish.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        })
    }

    /// Wait for the lock, and count how long.
    #[cold]
    fn wait(&self) -> MutexGuard<'_, Option<Outgoing>> {
        let begun = Instant::now();
        let held = self.publish.lock().unwrap_or_else(PoisonError::into_inner);
        self.count_wait(begun.elapsed().as_nanos() as u64);
        held
    }

    /// Callers have waited for others who write here.
    pub(crate) fn count_wait(&self, ns: u64) {
        self.waited_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// How long callers have waited for this lane, all together.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    /// Apply operations that were checked and belong to this lane; returns when they are as durable as asked.
    pub(crate) fn write(
        &self,
        instance: &Instance,
        ops: &[Op<'_>],
        durability: Durability,
        routed: Routed<'_>,
        poison: &Poison,
    ) -> Result<Attempt> {
        let capabilities = instance.engine.capabilities();
        let sync_apart = durability < Durability::Sync || capabilities.sync_apart;
        if capabilities.costly_transactions || !sync_apart {
            let level = if sync_apart { durability.min(Durability::Os) } else { durability };
            let attempt = self.combiner.commit(ops, level, |ops, level| {
                let mut held = self.lock();
                poison.check()?;
                // Each of the group was routed for itself.
                if !routed.owns(ops) || !held.admits(ops) {
                    return Ok(Attempt::Again);
                }
                self.apply(&mut held, instance, ops, level, poison)?;
                Ok(Attempt::Landed)
            })?;
            if attempt == Attempt::Again {
                return Ok(attempt);
            }
        } else {
            let mut held = self.lock();
            poison.check()?;
            if !routed.is_current() || !held.admits(ops) {
                return Ok(Attempt::Again);
            }
            self.publish(&mut held, instance, ops, durability, poison)?;
        }
        self.count(ops);
        if durability == Durability::Sync && sync_apart {
            instance.sync_applied(poison)?;
        }
        Ok(Attempt::Landed)
    }

    /// Apply under the lane's lock, which the caller holds; the caller has asked whether the lane admits it. A `Sync` write of a `sync_apart` engine is not durable yet: the
    /// caller syncs the instance after letting the lock go.
    pub(crate) fn publish(
        &self,
        held: &mut Held<'_>,
        instance: &Instance,
        ops: &[Op<'_>],
        durability: Durability,
        poison: &Poison,
    ) -> Result<()> {
        let level = if instance.engine.capabilities().sync_apart { durability.min(Durability::Os) } else { durability };
        self.apply(held, instance, ops, level, poison)
    }

    fn apply(
        &self,
        held: &mut Held<'_>,
        instance: &Instance,
        ops: &[Op<'_>],
        level: Durability,
        poison: &Poison,
    ) -> Result<()> {
        let before = instance.unsynced_writes();
        // What the engine holds then, and no move has heard of, is not known.
        let _half_done = poison.note_panic();
        let applied = poison.watch(instance.engine.apply(ops, level));
        let is_refused = applied.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
        if !is_refused || !instance.engine.capabilities().atomic_batches {
            held.published(ops, &applied);
        } // Else nothing was changed, and what leaves a full partition goes on leaving it.
        applied?;
        if level < Durability::Sync {
            instance.note_unsynced();
        } else if instance.syncs_alone() {
            // A prefix survives, so what came before a write that does, does too.
            instance.durable.fetch_max(before, Ordering::SeqCst);
        }
        Ok(())
    }

    pub(crate) fn count(&self, ops: &[Op<'_>]) {
        self.count_bytes(ops.iter().map(Op::logical_bytes).sum());
    }

    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.logical_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of keys and values that were written through this lane.
    pub(crate) fn logical_bytes(&self) -> u64 {
        self.logical_bytes.load(Ordering::Relaxed)
    }
}
