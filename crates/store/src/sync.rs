//! What threads share of `present` and of the hand-over, in one place: the loom test (`tests/handover_loom`) compiles the same modules over
//! loom's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread::LocalKey;
