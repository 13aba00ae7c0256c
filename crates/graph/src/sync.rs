//! What threads share in small protocols, in one place: the loom test (`tests/protocols_loom`) compiles the same modules over loom's.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How often a thread looks for news before it sleeps: some tens of microseconds.
pub(crate) const SPINS: u32 = 4_000;
