//! The store: what a user holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_engine::{Batch, Capabilities, Durability, Error, Op, Result, Value};

use crate::intent::Intents;
use crate::lane::{Instance, Lane};
use crate::manifest::Manifest;
use crate::migration::{Mover, Tidier};
use crate::options::{Partitioning, PlacementKind};
use crate::owner::Owner;
use crate::pinned::Workers;
use crate::planning::{Planning, Watch, Way};
use crate::poison::Poison;
use crate::present::Present;
use crate::pulse::Pulse;
use crate::retirer::Retirer;
use crate::stripes::Stripes;
use crate::topology::Topology;
use crate::{Moved, PartitionId, Placement, keyspace, seam};

/// Keys of one [`Store::multi_get`] that engines are told of at once: their records fit the processor's second cache.
const AHEAD_KEYS: usize = 32;

/// An open store. Cheap to clone; all methods may be called from any number of threads. The last clone to go closes it.
///
/// Keys are 1 B to the engine's limit (at most 64 KiB), values 0 B to the engine's limit (at most 1 GiB). Single keys are
/// linearizable, a [`Batch`] is atomic across partitions, a [`Snapshot`](crate::Snapshot) is one point in the history of all of
/// them. Writes that name no [`Durability`] use the store's.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    // Fields are dropped in this order: the threads end first; engines go before the lock that says the store is free.
    pub(crate) planning: Option<Planning>,
    pub(crate) tidier: Option<Arc<Tidier>>,
    pub(crate) _retirer: Option<Retirer>,
    /// Who writes, under the executor `pinned`.
    pub(crate) workers: Option<Workers>,
    pub(crate) instances: Arc<[Instance]>,
    pub(crate) lanes: Arc<[Lane]>,
    pub(crate) intents: Option<Arc<Intents>>,
    pub(crate) topology: Arc<Present<Topology>>,
    /// Under `hard` partitioning.
    pub(crate) mover: Option<Arc<Mover>>,
    /// Where operations leave what they did, if the store repartitions itself.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Whether operations are looked at, and how long they take while something moves.
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) stripes: Stripes,
    pub(crate) poison: Arc<Poison>,
    /// Whether writes to some partitions may wait for their engine.
    pub(crate) defers: bool,
    /// Whether `Sync` writes of all partitions share the syncs of the store's journal.
    pub(crate) shares_syncs: bool,
    pub(crate) capabilities: Capabilities,
    /// The longest key that a partition may hold: longer than may be written, while a store changes to an engine that takes only shorter ones.
    pub(crate) key_bytes_held_max: usize,
    pub(crate) partitioning: Partitioning,
    pub(crate) durability: Durability,
    pub(crate) manifest: Manifest,
    /// By this opening, because the placement was to be another one.
    pub(crate) copied: Moved,
    pub(crate) warnings: Vec<String>,
    pub(crate) dir: PathBuf,
    pub(crate) io: Arc<dyn Io>,
    pub(crate) owner: Owner,
}

impl Store {
    /// The value of `key`, without a copy where the engine can; it may hold resources of the engine: drop it soon.
    ///
    /// Runs on the calling thread, straight to the owner's engine; never waits for a writer of another key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let inner = &*self.inner;
        inner.noted(Way::Read, |watch| watch.tracker.read(key), || inner.get(key))
    }

    /// Copy the value of `key` into `into` (cleared first) and say whether there is one: the cheapest read for a caller that
    /// reuses its buffer.
    pub fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let inner = &*self.inner;
        inner.noted(Way::Read, |watch| watch.tracker.read(key), || inner.get_into(key, into))
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of several keys, in their order. Each is read for itself; take a snapshot for one point in history. Engines
    /// that can are told of the keys ahead, so that many waits for memory become one.
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value<'_>>>> {
        let inner = &*self.inner;
        inner.observed(Way::Read, |watch| match watch {
            None => inner.multi_get(keys),
            Some(watch) => watch.read_group(keys, |key| inner.owner_of(key).1, || inner.multi_get(keys)),
        })
    }

    /// Set `key` to `value`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, self.inner.durability)
    }

    /// Set `key` to `value`, acknowledged at `durability`.
    pub fn put_with(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.inner.write(&[Op::Put { key, value }], durability)
    }

    /// Remove `key`; one that is absent is no error.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, self.inner.durability)
    }

    /// Remove `key`, acknowledged at `durability`.
    pub fn delete_with(&self, key: &[u8], durability: Durability) -> Result<()> {
        self.inner.write(&[Op::Delete { key }], durability)
    }

    /// Remove all keys from `from` (included) up to `to` (excluded; `None`: to the end), atomically over all partitions.
    pub fn delete_range(&self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        self.inner.write(&[Op::DeleteRange { from, to }], self.inner.durability)
    }

    /// Apply a batch: all or nothing, across partitions and through any crash, later operations winning. (As far as the
    /// engine's capabilities go, where one engine instance holds all of it.)
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, self.inner.durability)
    }

    /// Apply a batch atomically, acknowledged at `durability`.
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.inner.write(&batch.to_ops(), durability)
    }

    /// Apply every operation of `batch` for itself, acknowledged together: the fast way to load. After an error or a crash any
    /// of them may be there; no other order is kept than that of operations on one key.
    pub fn write_each(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.inner.write_each(batch, durability)
    }

    /// Make everything written so far durable; errors of writes at [`Relaxed`](Durability::Relaxed) surface here.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// What this store can do, and its limits.
    pub fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    /// The partition that owns `key` at this moment: the route that every read and write takes, without a lock.
    #[inline]
    pub fn route(&self, key: &[u8]) -> PartitionId {
        self.inner.topology.with(|topology| topology.placement.owner(key))
    }

    /// The placement of this moment: a copy, which costs a walk over the bounds of ranges.
    pub fn placement(&self) -> Arc<Placement> {
        Arc::new(self.inner.topology.get().1.placement.clone())
    }

    /// The store's directory.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The engine's name; while partitions of another one [leave](Store::leaving), that of those that stay.
    pub fn engine(&self) -> &str {
        &self.inner.manifest.engine
    }

    /// The number of partitions, those that [leave](Store::leaving) among them.
    pub fn partitions(&self) -> u32 {
        self.inner.manifest.partitions
    }

    /// The partitions that leave, because [`Options::reshape`](crate::Options::reshape) asked for fewer or for another engine: they serve what they
    /// own until [`spread`](Store::spread) has given it to the others. The first opening that finds them with nothing takes them away.
    pub fn leaving(&self) -> Vec<PartitionId> {
        self.inner.manifest.leaving.iter().copied().map(PartitionId).collect()
    }

    /// What this opening copied, because it gave the store another placement ([`Options::reshape`](crate::Options::reshape)).
    pub fn copied(&self) -> Moved {
        self.inner.copied
    }

    /// How the keys are divided.
    pub fn partitioning(&self) -> Partitioning {
        self.inner.partitioning
    }

    /// How keys find their partition.
    pub fn placement_kind(&self) -> PlacementKind {
        self.inner.topology.with(|topology| topology.placement.kind())
    }

    /// What an operator should know about this opening, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// Make everything durable and let go of this handle; the store closes when no clone, snapshot or scan of it lives.
    pub fn close(self) -> Result<()> {
        self.flush()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.inner.dir)
            .field("engine", &self.inner.manifest.engine)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Do an operation of a user, with what watches accesses, if anything does; it is timed while something moves. One load where neither is so.
    #[inline]
    pub(crate) fn observed<R>(&self, way: Way, run: impl FnOnce(Option<&Watch>) -> R) -> R {
        let look = self.pulse.look();
        if look.is_nothing() { run(None) } else { self.pulse.timed(look, way, || run(self.watch.as_deref())) }
    }

    /// As [`observed`](Inner::observed), where all that watching takes is done before the operation: whether it is watched or not, the same
    /// instructions do it.
    #[inline]
    pub(crate) fn noted<R>(&self, way: Way, note: impl FnOnce(&Watch), run: impl FnOnce() -> R) -> R {
        let look = self.pulse.look();
        if look.is_watched()
            && let Some(watch) = &self.watch
        {
            note(watch);
        }
        self.pulse.timed(look, way, run)
    }

    /// Refuse a key that no partition can hold.
    #[inline]
    pub(crate) fn check_held(&self, key: &[u8]) -> Result<()> {
        if key.len() > self.capabilities.key_bytes_max && key.len() <= self.key_bytes_held_max {
            return Ok(());
        }
        self.capabilities.check_key(key)
    }

    /// Whether an instance can hold a stored key that was checked so: asked for one that it cannot, it would refuse to look.
    #[inline]
    pub(crate) fn can_hold(&self, instance: &Instance, stored: &[u8]) -> bool {
        let bytes = stored.len();
        bytes <= self.capabilities.key_bytes_max || bytes <= instance.engine.capabilities().key_bytes_max
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.check_held(key)?;
        match self.partitioning {
            Partitioning::Hard => {
                let stored = keyspace::encode(key);
                loop {
                    let (version, instance) = self.instance_of(key);
                    let found = if self.can_hold(instance, &stored) { instance.get(&stored)? } else { None };
                    // `topology` says why a hit is right, and a miss only if nothing has moved.
                    if found.is_some() || self.topology.version() == version {
                        return Ok(found);
                    }
                }
            }
            _ => self.instances[0].engine.get(key),
        }
    }

    #[inline]
    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.check_held(key)?;
        match self.partitioning {
            Partitioning::Hard => {
                let stored = keyspace::encode(key);
                loop {
                    let (version, instance) = self.instance_of(key);
                    into.clear();
                    if self.can_hold(instance, &stored) && instance.get_into(&stored, into)? {
                        return Ok(true);
                    }
                    if self.topology.version() == version {
                        return Ok(false);
                    }
                }
            }
            _ => self.instances[0].engine.get_into(key, into),
        }
    }

    fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value<'_>>>> {
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AHEAD_KEYS) {
            match self.partitioning {
                Partitioning::Hard if keys.len() > 1 => self.get_from_owners(keys, &mut values)?,
                Partitioning::Hard => values.push(self.get(keys[0].as_ref())?),
                _ => {
                    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
                    self.instances[0].engine.multi_get(&keys, &mut values)?;
                }
            }
        }
        Ok(values)
    }

    /// Append the value of each key, read together with those that have the same owner.
    fn get_from_owners<'s>(&'s self, keys: &[impl AsRef<[u8]>], values: &mut Vec<Option<Value<'s>>>) -> Result<()> {
        let mut routed = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            self.check_held(key)?;
            let (version, owner) = self.owner_of(key);
            routed.push((owner, at, version, keyspace::encode(key)));
        }
        seam::pass(seam::Point::Read);
        routed.sort_unstable_by_key(|(owner, at, ..)| (*owner, *at));
        let first = values.len();
        values.resize_with(first + keys.len(), || None);
        let (mut stored, mut found) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for group in routed.chunk_by(|(a, ..), (b, ..)| a == b) {
            let instance = &self.instances[group[0].0];
            let held = || group.iter().filter(|(.., key)| self.can_hold(instance, key));
            stored.extend(held().map(|(.., key)| &**key));
            instance.multi_get(&stored, &mut found)?;
            held().zip(found.drain(..)).for_each(|((_, at, ..), value)| values[first + at] = value);
            stored.clear();
        }
        // As in `get`: a hit is right, and a miss only if nothing has moved.
        let is_unsure = |(_, at, version, _): &&(usize, usize, u64, _)| {
            values[first + at].is_none() && self.topology.version() != *version
        };
        let unsure: Vec<usize> = routed.iter().filter(is_unsure).map(|(_, at, ..)| *at).collect();
        for at in unsure {
            values[first + at] = self.get(keys[at].as_ref())?;
        }
        Ok(())
    }

    /// The number of the partition that owns `key`, and the version of the topology that says so.
    #[inline]
    pub(crate) fn owner_of(&self, key: &[u8]) -> (u64, usize) {
        self.topology.with_version(|topology| topology.placement.owner(key).index())
    }

    /// The engine instance that owns `key`, under `hard` partitioning.
    #[inline]
    fn instance_of(&self, key: &[u8]) -> (u64, &Instance) {
        let (version, owner) = self.owner_of(key);
        let instance = &self.instances[owner];
        seam::pass(seam::Point::Read);
        (version, instance)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.poison.check()?;
        for instance in self.instances.iter() {
            instance.sync(&self.poison)?;
        }
        match &self.intents {
            Some(intents) => intents.retire(&self.lanes, &self.instances, &self.poison),
            None => Ok(()),
        }
    }

    /// An error that names the store, for operations that need what the engine lacks.
    pub(crate) fn lacks(&self, what: &str) -> Error {
        Error::unsupported(format!("the engine {} has no {what}", self.manifest.engine))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let intents_left = self.shares_syncs && self.intents.as_ref().is_some_and(|it| it.outstanding_bytes() > 0);
        if self.defers || intents_left {
            // Only to spare the next opening the work: the journal has it, so a failure loses nothing.
            let _ = self.flush();
        }
        // What was written at `Relaxed` and not flushed: an error has nobody to be told to.
        self.instances.iter().for_each(|instance| drop(instance.drain_relaxed(&self.poison)));
        // A poisoned store stays marked as open: the next opening has work to do.
        if self.poison.why().is_none() {
            self.owner.closed();
        }
    }
}
