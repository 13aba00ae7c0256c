//! Read-modify-write of one key: what it reads is what it replaces.

use biombo_engine::{Durability, Error, Op, Result};

use crate::options::Partitioning;
use crate::planning::Way;
use crate::store::Inner;
use crate::{Store, keyspace};

/// What a read-modify-write does with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// Leave it as it is.
    Keep,
    /// Set it to this value.
    Put(Vec<u8>),
    /// Remove it.
    Delete,
}

impl Store {
    /// Read `key`, decide by its value, and write the decision with no other write to the key in between. `decide` runs
    /// while the key's partition takes no other write: keep it short, and do not touch the store in it.
    ///
    /// ```
    /// # use biombo_engine::{Durability, Registry, memory};
    /// # use biombo_store::{Options, Update};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// # let store = Options::new().engine("memory").partitions(2).open(dir.path(), &registry)?;
    /// store.update(b"visits", Durability::Os, |old| {
    ///     let visits = old.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    ///     Update::Put((visits + 1).to_le_bytes().to_vec())
    /// })?;
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: impl FnOnce(Option<&[u8]>) -> Update,
    ) -> Result<()> {
        let inner = &*self.inner;
        inner.poison.check()?;
        inner.capabilities.check_key(key)?;
        inner.noted(Way::Write, |watch| watch.tracker.write(key), || inner.update(key, durability, decide))
    }

    /// Set `key` to `new` (`None`: remove it) if its value is `expected` (`None`: absent); says whether it did.
    pub fn compare_and_swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        let mut swapped = false;
        self.update(key, self.inner.durability, |old| {
            if old != expected {
                return Update::Keep;
            }
            swapped = true;
            new.map_or(Update::Delete, |value| Update::Put(value.to_vec()))
        })?;
        Ok(swapped)
    }
}

impl Inner {
    fn update(&self, key: &[u8], durability: Durability, decide: impl FnOnce(Option<&[u8]>) -> Update) -> Result<()> {
        let checked = |update: Update| {
            if let Update::Put(value) = &update {
                self.capabilities.check(&Op::Put { key, value })?;
            }
            Ok::<_, Error>(update)
        };
        if self.partitioning == Partitioning::None {
            let _own = self.stripes.own(key);
            let engine = &self.instances[0].engine;
            let update = checked(decide(engine.get(key)?.as_deref()))?;
            let Some(op) = op_of(key, &update) else { return Ok(()) };
            self.lanes[0].count(&[op]);
            return self.poison.watch(engine.apply(&[op], durability));
        }
        let stored = if self.partitioning == Partitioning::Hard { keyspace::encode(key) } else { key.into() };
        let touches = [Op::Delete { key: &stored }];
        let mut decide = Some(decide);
        loop {
            let (number, routed) = self.lane_of(key);
            let lane = &self.lanes[number];
            let instance = &self.instances[lane.instance];
            let waits = instance.deferred.as_ref().zip(self.intents.as_ref());
            if let Some((_, intents)) = waits {
                intents.make_room(&self.lanes, &self.instances, &self.poison)?;
            }
            let gathered = {
                let mut held = lane.lock();
                self.poison.check()?;
                if !routed.is_current() || !held.admits(&touches) {
                    drop(held);
                    self.wait_for_moves(&[Op::Delete { key }])?;
                    continue;
                }
                let decide = decide.take().expect("invariant: who has decided does not come back");
                let update = checked(decide(instance.engine.get(&stored)?.as_deref()))?;
                let Some(op) = op_of(&stored, &update) else { return Ok(()) };
                lane.count(&[op]);
                match waits {
                    Some((deferred, intents)) if self.may_wait(&[op]) => {
                        let ops = [op];
                        let gathered =
                            intents.commit_in_lane(number, &mut held, deferred, &ops, durability, &self.poison)?;
                        Some((intents, gathered))
                    }
                    _ => {
                        lane.publish(&mut held, instance, &[op], durability, &self.poison)?;
                        None
                    }
                }
            };
            if let Some((intents, gathered)) = gathered {
                return intents.relieve(gathered, instance, lane.instance, &self.poison);
            }
            if durability == Durability::Sync && instance.engine.capabilities().sync_apart {
                instance.sync_applied(&self.poison)?;
            }
            return Ok(());
        }
    }
}

fn op_of<'a>(key: &'a [u8], update: &'a Update) -> Option<Op<'a>> {
    match update {
        Update::Keep => None,
        Update::Put(value) => Some(Op::Put { key, value }),
        Update::Delete => Some(Op::Delete { key }),
    }
}
