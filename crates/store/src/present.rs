//! The value of this moment, one plain load away.
//!
//! Every operation asks for it, and it changes at most a few times a second. So each thread keeps the one that it used last, and
//! an operation only compares versions: no line that several threads write, no atomic exchange. Safe Rust only.
//!
//! Invariants:
//!
//! 1. `version` grows after the value was replaced, both under the lock: a thread that reads version v and takes the value under the lock
//!    gets that of v or a newer one, and never calls an older value by a newer version.
//! 2. An operation that begins after [`Present::replace`] returned sees the new value: it reads the version first.
//! 3. Nobody sees a value before its version: a thread takes one under the lock, or has kept it with its version.
//! 4. What a thread keeps is found by the number of its store, which is never given twice in one process. A kept value of a
//!    closed store costs memory until the thread ends or needs the place, nothing else.

use std::cell::RefCell;

use crate::sync::{Arc, AtomicU64, LocalKey, Mutex, Ordering, PoisonError};

/// Stores whose values one thread keeps; more of them at a time take turns.
pub(crate) const KEPT: usize = 4;

/// What a thread keeps: of which store, which version, and the value.
pub(crate) type Mine<T> = RefCell<[Option<(u64, u64, Arc<T>)>; KEPT]>;

/// A thread that keeps nothing yet.
pub(crate) const fn nothing_kept<T>() -> Mine<T> {
    RefCell::new([const { None }; KEPT])
}

/// Where each thread keeps its own.
pub(crate) trait Kept: Sized + 'static {
    fn mine() -> &'static LocalKey<Mine<Self>>;
}

/// A value that is read far more often than replaced.
pub(crate) struct Present<T> {
    /// Of this store, in this process.
    number: u64,
    version: AtomicU64,
    value: Mutex<Arc<T>>,
}

impl<T: Kept> Present<T> {
    pub(crate) fn new(value: T) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(0),
            value: Mutex::new(Arc::new(value)),
        }
    }

    /// The version of this moment: who finds the same one later knows that nothing was replaced meanwhile.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Ask the value of this moment; `ask` must not come back here. O(1), without a lock unless it was replaced since this
    /// thread last asked.
    #[inline]
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&T) -> R) -> R {
        self.with_version(ask).1
    }

    /// As [`with`](Present::with), and the version of what answered.
    #[inline]
    pub(crate) fn with_version<R>(&self, ask: impl FnOnce(&T) -> R) -> (u64, R) {
        let version = self.version();
        let place = (self.number % KEPT as u64) as usize;
        let mut ask = Some(ask);
        let answer = T::mine().try_with(|mine| {
            let mine = mine.try_borrow().ok()?;
            match &mine[place] {
                Some((number, kept, value)) if *number == self.number && *kept == version => {
                    ask.take().map(|ask| ask(value))
                }
                _ => None,
            }
        });
        match (answer, ask) {
            (Ok(Some(answer)), _) => (version, answer),
            (_, ask) => {
                let (version, value) = self.renew(place);
                (version, ask.expect("invariant: asked once")(&value))
            }
        }
    }

    /// Take the value under the lock, and keep it. (A thread that is ending keeps nothing.)
    #[cold]
    #[inline(never)]
    fn renew(&self, place: usize) -> (u64, Arc<T>) {
        let (version, value) = self.get();
        let _ = T::mine().try_with(|mine| {
            if let Ok(mut mine) = mine.try_borrow_mut() {
                mine[place] = Some((self.number, version, Arc::clone(&value)));
            }
        });
        (version, value)
    }

    /// The value itself and its version, for who holds on to it.
    pub(crate) fn get(&self) -> (u64, Arc<T>) {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        (self.version(), Arc::clone(&value))
    }

    /// Put another value in its place: who asks after this returned gets it.
    pub(crate) fn replace(&self, new: T) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *value = Arc::new(new);
        self.version.fetch_add(1, Ordering::Release);
    }
}
