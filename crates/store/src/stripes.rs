//! Read-modify-write over an engine that is used directly.
//!
//! Under `none` partitioning writers go straight to the engine, many at a time. A read-modify-write needs its key to itself:
//! keys hash to stripes; plain writes hold their stripes shared, a read-modify-write holds its stripe exclusively.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use biombo_engine::Op;
use xxhash_rust::xxh3::xxh3_64;

const STRIPES: usize = 64;

#[derive(Default)]
#[repr(align(128))]
struct Stripe(RwLock<()>);

/// The stripes of one engine.
pub(crate) struct Stripes(Vec<Stripe>);

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Stripe::default()).collect())
    }

    /// Hold the stripes of all of `ops` shared, taken in order (so that nobody waits in a circle).
    pub(crate) fn share(&self, ops: &[Op<'_>]) -> Held<'_> {
        if let [Op::Put { key, .. } | Op::Delete { key }] = ops {
            return Held::One(self.share_one(stripe_of(key)));
        }
        let mut wanted = 0u64;
        for op in ops {
            match op {
                Op::Put { key, .. } | Op::Delete { key } => wanted |= 1 << stripe_of(key),
                Op::DeleteRange { .. } => wanted = u64::MAX,
            }
        }
        Held::Many(
            (0..STRIPES).filter(|stripe| wanted >> stripe & 1 == 1).map(|stripe| self.share_one(stripe)).collect(),
        )
    }

    /// Hold the stripe of `key` alone.
    pub(crate) fn own(&self, key: &[u8]) -> RwLockWriteGuard<'_, ()> {
        self.0[stripe_of(key)].0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn share_one(&self, stripe: usize) -> RwLockReadGuard<'_, ()> {
        self.0[stripe].0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held stripes.
pub(crate) enum Held<'a> {
    One(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'a, ()>),
    Many(#[expect(dead_code, reason = "held, not read")] Vec<RwLockReadGuard<'a, ()>>),
}

fn stripe_of(key: &[u8]) -> usize {
    (xxh3_64(key) >> (64 - STRIPES.trailing_zeros())) as usize
}
