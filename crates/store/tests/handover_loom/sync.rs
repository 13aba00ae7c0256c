//! As `src/sync.rs`, by loom.

pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::LocalKey;
pub(crate) use std::sync::PoisonError;
