//! A value that is read with one load and replaced as a whole.
//!
//! Readers [pin](Domain::pin) a [`Domain`] and then [load](Published::load) what is published there: one plain atomic load,
//! no lock, no count that readers share. A replaced value is dropped when everybody who might have loaded it has let go of
//! the guard.
//!
//! Invariants:
//! 1. A pointer is retired only after it was swapped out, and dropped only after every guard of its domain that was
//!    pinned before that is gone (epoch-based reclamation: Fraser, 2004; `crossbeam-epoch`).
//! 2. A load takes a guard of the value's own domain; that is checked.
//!
//! Each domain has its own collector, so that a reader who keeps a guard for long delays only what was retired there. One
//! domain serves all that one owner (a partition's engine, say) publishes: one pin covers a look-up in its index and in
//! its log.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_epoch::{Atomic, Collector, LocalHandle, Owned, Shared};

/// A group of published values that are reclaimed together. Clones are the same domain.
#[derive(Clone)]
pub struct Domain {
    shared: Arc<DomainShared>,
}

struct DomainShared {
    collector: Collector,
    /// Never given twice in a process.
    number: u64,
}

/// While it lives, what it [loads](Published::load) stays. It belongs to its thread. Cheap to take (some nanoseconds), to
/// be let go of soon: what is retired meanwhile waits for it.
pub struct Guard {
    pin: crossbeam_epoch::Guard,
    number: u64,
}

struct Registered {
    number: u64,
    domain: Weak<DomainShared>,
    handle: LocalHandle,
}

thread_local! {
    /// This thread's handles, that of the last pin first.
    static HANDLES: RefCell<Vec<Registered>> = const { RefCell::new(Vec::new()) };
}

impl Domain {
    /// A new one.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::new(DomainShared { collector: Collector::new(), number }) }
    }

    /// A guard for loads from this domain's values. Guards nest.
    #[inline]
    pub fn pin(&self) -> Guard {
        let number = self.shared.number;
        let pin = HANDLES.try_with(|handles| {
            let mut handles = handles.borrow_mut();
            match handles.iter().position(|registered| registered.number == number) {
                Some(0) => {}
                Some(found) => handles.swap(0, found),
                None => self.register(&mut handles),
            }
            handles[0].handle.pin()
        });
        // The thread is ending and has no handles any more: take one for this pin.
        Guard { pin: pin.unwrap_or_else(|_| self.shared.collector.register().pin()), number }
    }

    #[cold]
    fn register(&self, handles: &mut Vec<Registered>) {
        // Handles of domains that are gone would keep what was retired there.
        handles.retain(|registered| registered.domain.strong_count() > 0);
        let domain = Arc::downgrade(&self.shared);
        handles.insert(0, Registered { number: self.shared.number, domain, handle: self.shared.collector.register() });
    }

    /// Drop some of the retired values that can be dropped now, rather than at some later pin.
    pub fn collect(&self) {
        // An epoch moves on only when everybody pinned has seen it: what was retired now goes with the third.
        for _ in 0..3 {
            self.pin().pin.flush();
        }
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({})", self.shared.number)
    }
}

impl Guard {
    /// Run `last` (a destructor, say) when nobody who is pinned now is pinned any more, on any thread that
    /// [collects](Domain::collect). For what readers reach by other ways than a [`Published`].
    pub fn defer(&self, last: impl FnOnce() + Send + 'static) {
        self.pin.defer(last);
        // Otherwise it would stay with this thread, where nobody else finds it, until dozens have gathered.
        self.pin.flush();
    }

    /// Let go and pin again, so that what was retired since can go; what was loaded before cannot be used afterwards.
    pub fn repin(&mut self) {
        self.pin.repin();
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.number)
    }
}

/// One immutable value; see the module.
///
/// ```
/// use biombo_base::published::{Domain, Published};
/// let domain = Domain::new();
/// let table = Published::new(&domain, vec![1, 2]);
/// let guard = domain.pin();
/// let before = table.load(&guard);
/// table.replace(vec![3]);
/// assert_eq!((before, table.load(&guard)), (&vec![1, 2], &vec![3]));
/// ```
pub struct Published<T: Send + Sync + 'static> {
    current: Atomic<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publish `value` in `domain`.
    pub fn new(domain: &Domain, value: T) -> Self {
        Self { current: Atomic::new(value), domain: domain.clone() }
    }

    /// Where it is published.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The present value. It stays as long as the guard does, even if it is replaced or this `Published` is dropped.
    ///
    /// # Panics
    ///
    /// When `guard` is of another domain, which would not protect it.
    #[inline]
    pub fn load<'g>(&self, guard: &'g Guard) -> &'g T {
        assert!(guard.number == self.domain.shared.number, "a guard of another domain");
        let current = self.current.load(Ordering::Acquire, &guard.pin);
        // SAFETY: (B10) it is never null, was stored with Release after it was built, and is dropped only after this guard,
        // which was pinned in its domain before the load.
        unsafe { current.deref() }
    }

    /// Publish `value` instead; the former one is dropped after its last reader.
    pub fn replace(&self, value: T) {
        let guard = self.domain.pin();
        let former = self.current.swap(Owned::new(value), Ordering::AcqRel, &guard.pin);
        retire(former, &guard);
        guard.pin.flush();
    }
}

fn retire<T: Send + 'static>(former: Shared<'_, T>, guard: &Guard) {
    // SAFETY: (B11) the swap took it out, so no later load finds it and nobody else retires it; who loaded it before is
    // pinned in this domain. `T` is Send and 'static, so any thread may drop it, at any time.
    unsafe { guard.pin.defer_destroy(former) }
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        let guard = self.domain.pin();
        // Not dropped at once: a load is bound to its guard only.
        let last = self.current.swap(Shared::null(), Ordering::AcqRel, &guard.pin);
        retire(last, &guard);
        guard.pin.flush();
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(&self.domain.pin()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    /// Knows whether it was dropped.
    struct Tracked {
        alive: AtomicBool,
        value: u64,
        dropped: Arc<AtomicUsize>,
    }

    impl Tracked {
        fn new(value: u64, dropped: &Arc<AtomicUsize>) -> Self {
            Self { alive: AtomicBool::new(true), value, dropped: Arc::clone(dropped) }
        }
    }

    impl Drop for Tracked {
        fn drop(&mut self) {
            self.alive.store(false, Ordering::SeqCst);
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_loaded_value_outlives_its_replacement_and_its_owner_and_is_dropped_once() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let domain = Domain::new();
        let published = Published::new(&domain, Tracked::new(1, &dropped));
        let guard = domain.pin();
        let first = published.load(&guard);
        published.replace(Tracked::new(2, &dropped));
        let second = published.load(&guard);
        drop(published);
        domain.collect();
        assert_eq!((first.value, second.value, dropped.load(Ordering::SeqCst)), (1, 2, 0));
        assert!(first.alive.load(Ordering::SeqCst));
        drop(guard);
        domain.collect();
        domain.collect();
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_slow_reader_of_one_domain_does_not_delay_another() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (slow, other) = (Domain::new(), Domain::new());
        let _guard = slow.pin();
        let published = Published::new(&other, Tracked::new(1, &dropped));
        published.replace(Tracked::new(2, &dropped));
        other.collect();
        other.collect();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_one_thread_defers_another_one_runs() {
        let (domain, done) = (Domain::new(), Arc::new(AtomicBool::new(false)));
        let (deferred, wait) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (domain_there, done_there) = (domain.clone(), Arc::clone(&done));
            scope.spawn(move || {
                domain_there.pin().defer(move || done_there.store(true, Ordering::SeqCst));
                deferred.send(()).unwrap();
                // It lives on and does nothing, as a thread that waits for work.
                let _ = ended.recv();
            });
            wait.recv().unwrap();
            domain.collect();
            assert!(done.load(Ordering::SeqCst));
            drop(end);
        });
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_guard_of_another_domain_is_refused() {
        Published::new(&Domain::new(), 1).load(&Domain::new().pin());
    }

    #[test]
    fn readers_never_see_a_dropped_value_and_values_never_go_back() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let domain = Domain::new();
        let published = Published::new(&domain, Tracked::new(0, &dropped));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let guard = domain.pin();
                        let value = published.load(&guard);
                        assert!(value.value >= last);
                        last = value.value;
                        std::hint::spin_loop();
                        assert!(value.alive.load(Ordering::SeqCst), "{last} was dropped under its reader");
                    }
                });
            }
            for value in 1..20_000 {
                published.replace(Tracked::new(value, &dropped));
            }
            stop.store(true, Ordering::Relaxed);
        });
        for _ in 0..10_000 {
            domain.collect();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 19_999, "all but the present one");
    }
}
