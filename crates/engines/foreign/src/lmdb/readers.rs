//! A pool of read transactions.
//!
//! Beginning a read transaction allocates it and takes LMDB's reader mutex; renewing one reads the meta page and writes the
//! table of readers, lines that many environments' reads push out of the cache. So ended ones are kept in slots, of which
//! each thread has its own (threads past [`SLOTS`] share), and stay open for as long as nothing was committed: then a read
//! begins with one exchange and one comparison.
//!
//! 1. An idle transaction that is open sees the last commit: it holds no other snapshot, and keeps no page from being used
//!    again that the next write transaction could use otherwise. A commit publishes its number and resets all idle ones
//!    ([`Readers::commit`]); who gives one back looks at the number after putting it into its slot. One of the two meets the
//!    other.
//! 2. The number is published before the commit can be seen by anybody. Published after it, a read by a new transaction could
//!    see the commit, and a read begun later by an open one not. While a commit is on its way every read renews; if it fails,
//!    reads renew until the next one.
//! 3. A transaction taken out of its slot has one owner; MDB_NOTLS lets it move between threads.
//! 4. Each slot has cache lines of its own, so threads write no line in common.
//! 5. LMDB begins a read in two steps: it takes the number M of the last commit, and copies the roots from the meta page that M was
//!    written to, which commit M + 2 writes again. A read that is held up between the two has the roots of M + 2, or a mixture, before
//!    that commit is done; and who reads next, by M + 1, sees less than it did. So a read that was begun with a number two behind that of
//!    a commit under way is begun anew ([`Readers::is_whole`]).

use std::borrow::Borrow;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use lmdb_master_sys as ffi;

use super::MAIN;

const SLOTS: usize = 64;

// Two lines: the processor fetches them in pairs.
#[repr(align(128))]
struct Slot(AtomicPtr<ffi::MDB_txn>);

/// Marks the pointer of an idle transaction that is open. LMDB's transactions are allocated: the bit is free.
const OPEN: usize = 1;

fn is_open(idle: *mut ffi::MDB_txn) -> bool {
    idle.addr() & OPEN != 0
}

fn untagged(idle: *mut ffi::MDB_txn) -> *mut ffi::MDB_txn {
    idle.map_addr(|addr| addr & !OPEN)
}

/// The pool of one environment.
pub struct Readers {
    env: *mut ffi::MDB_env,
    slots: Box<[Slot]>,
    /// Slots from here on were never used.
    slots_used: AtomicUsize,
    /// The number of the last commit that was begun since the environment was opened.
    committing: AtomicU64,
}

// SAFETY: (FL1) an environment opened with MDB_NOTLS, and its reset read transactions, may be used from any thread.
unsafe impl Send for Readers {}
// SAFETY: (FL1) as above; a slot's transaction is taken by an atomic exchange.
unsafe impl Sync for Readers {}

fn thread_slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    MINE.with(|slot| *slot)
}

impl Readers {
    /// An empty pool; `env` must be open, with MDB_NOTLS, for as long as the pool lives.
    pub fn new(env: *mut ffi::MDB_env) -> Self {
        Self {
            env,
            slots: (0..SLOTS).map(|_| Slot(AtomicPtr::new(ptr::null_mut()))).collect(),
            slots_used: AtomicUsize::new(0),
            committing: AtomicU64::new(0),
        }
    }

    /// A read transaction at the present state; LMDB's code if there is none.
    #[inline]
    pub fn begin(&self) -> Result<Reading<'_>, i32> {
        Ok(Reading { readers: self, txn: self.take()? })
    }

    /// As [`begin`](Readers::begin), to be given back by [`give_back`](Readers::give_back).
    #[inline]
    pub fn take(&self) -> Result<*mut ffi::MDB_txn, i32> {
        let idle = self.slots[thread_slot()].0.swap(ptr::null_mut(), Ordering::Acquire);
        if idle.is_null() {
            return self.begin_new();
        }
        if is_open(idle) && self.is_newest(untagged(idle)) {
            return Ok(untagged(idle));
        }
        self.renew(idle)
    }

    /// Whether `txn`, which is open and the caller's, sees everything that anybody saw before this call.
    #[inline]
    fn is_newest(&self, txn: *mut ffi::MDB_txn) -> bool {
        // SAFETY: (FL3) the transaction is open and has no other owner.
        unsafe { ffi::mdb_txn_id(txn) as u64 >= self.committing.load(Ordering::SeqCst) }
    }

    /// An idle transaction at the present state.
    fn renew(&self, idle: *mut ffi::MDB_txn) -> Result<*mut ffi::MDB_txn, i32> {
        let txn = untagged(idle);
        if is_open(idle) {
            // SAFETY: (FL3) it came out of its slot open, and has no other owner.
            unsafe { ffi::mdb_txn_reset(txn) };
        }
        loop {
            // SAFETY: (FL3) the transaction came out of its slot: it is reset and has no other owner.
            match unsafe { ffi::mdb_txn_renew(txn) } {
                0 if self.is_whole(txn) => return Ok(txn),
                // SAFETY: (FL3) as above, and it is open.
                0 => unsafe { ffi::mdb_txn_reset(txn) },
                code => {
                    // SAFETY: (FL3) as above; a failed renewal leaves it reset.
                    unsafe { ffi::mdb_txn_abort(txn) };
                    return Err(code);
                }
            }
        }
    }

    /// Whether the roots of `txn`, begun just now by the caller, are those of its number (5). `false` takes two commits since it was begun.
    fn is_whole(&self, txn: *mut ffi::MDB_txn) -> bool {
        // The roots were copied before this looks at the number, which is published before a commit writes its meta page.
        fence(Ordering::Acquire);
        // SAFETY: (FL3) the transaction is open and has no other owner.
        unsafe { ffi::mdb_txn_id(txn) as u64 + 2 > self.committing.load(Ordering::SeqCst) }
    }

    /// Call `commit`, which makes write transaction `number` visible. Reads that begin after any read saw it see it too, and no
    /// idle transaction keeps an older snapshot.
    pub fn commit<R>(&self, number: u64, commit: impl FnOnce() -> R) -> R {
        self.committing.fetch_max(number, Ordering::SeqCst);
        for slot in 0..self.slots_used.load(Ordering::SeqCst) {
            self.reset_idle(slot);
        }
        commit()
    }

    /// Reset what waits in `slot`, if it is open.
    fn reset_idle(&self, slot: usize) {
        if !is_open(self.slots[slot].0.load(Ordering::SeqCst)) {
            return;
        }
        let idle = self.slots[slot].0.swap(ptr::null_mut(), Ordering::SeqCst);
        if is_open(idle) {
            // SAFETY: (FL3) it came out of its slot open, and has no other owner.
            unsafe { ffi::mdb_txn_reset(untagged(idle)) };
        }
        if !idle.is_null() {
            self.put_idle(slot, untagged(idle));
        }
    }

    /// Put a transaction without owner into `slot`; end it if another one is there. Whether it is in the slot.
    fn put_idle(&self, slot: usize, idle: *mut ffi::MDB_txn) -> bool {
        let put = self.slots[slot].0.compare_exchange(ptr::null_mut(), idle, Ordering::SeqCst, Ordering::Relaxed);
        if put.is_err() {
            // SAFETY: (FL3) it is in no slot: nobody else can reach it.
            unsafe { ffi::mdb_txn_abort(untagged(idle)) };
        }
        put.is_ok()
    }

    #[cold]
    fn begin_new(&self) -> Result<*mut ffi::MDB_txn, i32> {
        let mut txn = ptr::null_mut();
        // SAFETY: (FC2) the environment is open and `txn` is live.
        match unsafe { ffi::mdb_txn_begin(self.env, ptr::null_mut(), ffi::MDB_RDONLY, &mut txn) } {
            0 if self.is_whole(txn) => Ok(txn),
            0 => {
                // SAFETY: (FL3) it was begun just now, and has no other owner.
                unsafe { ffi::mdb_txn_reset(txn) };
                self.renew(txn)
            }
            // All reader slots are taken: an idle transaction of another thread has one.
            ffi::MDB_READERS_FULL => {
                let mut idle = self.slots.iter().map(|slot| slot.0.swap(ptr::null_mut(), Ordering::Acquire));
                match idle.find(|idle| !idle.is_null()) {
                    Some(idle) => self.renew(idle),
                    None => Err(ffi::MDB_READERS_FULL),
                }
            }
            code => Err(code),
        }
    }

    /// End a transaction that [`take`](Readers::take) gave. All that was read in it is invalid from now on.
    #[inline]
    pub fn give_back(&self, txn: *mut ffi::MDB_txn) {
        // SAFETY: (FL3) the transaction is the caller's, and open.
        let number = unsafe { ffi::mdb_txn_id(txn) as u64 };
        let slot = thread_slot();
        // A transaction may come back on another thread than took it.
        if slot >= self.slots_used.load(Ordering::Relaxed) {
            self.slots_used.fetch_max(slot + 1, Ordering::SeqCst);
        }
        if number >= self.committing.load(Ordering::Relaxed) {
            // A commit that missed it in its slot published its number before.
            if self.put_idle(slot, txn.map_addr(|addr| addr | OPEN)) && number < self.committing.load(Ordering::SeqCst)
            {
                self.reset_idle(slot);
            }
            return;
        }
        // SAFETY: (FL3) the caller owned the transaction and gives it up.
        unsafe { ffi::mdb_txn_reset(txn) };
        self.put_idle(slot, txn);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let idle = *slot.0.get_mut();
            if !idle.is_null() {
                // SAFETY: (FL3) the pool is being dropped: the slot was the only owner.
                unsafe { ffi::mdb_txn_abort(untagged(idle)) };
            }
        }
    }
}

/// An open read transaction; dropping it gives it back.
pub struct Reading<'a> {
    readers: &'a Readers,
    txn: *mut ffi::MDB_txn,
}

impl<'a> Reading<'a> {
    /// The value of `key`, valid until this is dropped; LMDB's code if the tree cannot be read.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<Option<NonNull<[u8]>>, i32> {
        // SAFETY: (FL3) `self` owns the open transaction, and `&self` is not shared between threads (it is not `Sync`).
        unsafe { find(self.txn, key) }
    }

    /// The number of the transaction that it sees.
    pub fn txn_id(&self) -> u64 {
        // SAFETY: (FL3) `self` owns the open transaction.
        unsafe { ffi::mdb_txn_id(self.txn) as u64 }
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.readers.give_back(self.txn);
    }
}

/// A value in the map; the transaction `R` that keeps it there, alone or with others, ends when this is dropped.
pub struct Pinned<R> {
    bytes: NonNull<[u8]>,
    _reading: R,
}

impl<'a, R: Borrow<Reading<'a>>> Pinned<R> {
    /// A guard of `bytes`, which [`find`](Reading::find) of `reading` gave.
    pub fn new(reading: R, bytes: NonNull<[u8]>) -> Self {
        Self { bytes, _reading: reading }
    }
}

impl<R> Deref for Pinned<R> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: (FL2) the bytes are in the map and the transaction that found them is open.
        unsafe { self.bytes.as_ref() }
    }
}

/// Look `key` up.
///
/// # Safety
/// (FL3) `txn` must be open and used by no other thread meanwhile.
#[inline]
pub unsafe fn find(txn: *mut ffi::MDB_txn, key: &[u8]) -> Result<Option<NonNull<[u8]>>, i32> {
    let mut key = val(key);
    let mut data = val(&[]);
    // SAFETY: (FL3) by the caller; (FC2) the key lives through the call, and LMDB only reads it.
    match unsafe { ffi::mdb_get(txn, MAIN, &mut key, &mut data) } {
        0 => Ok(Some(bytes(&data))),
        ffi::MDB_NOTFOUND => Ok(None),
        code => Err(code),
    }
}

/// `bytes` as LMDB wants them. LMDB takes keys and values as mutable and does not change them.
#[inline]
pub fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// The bytes that LMDB points to.
#[inline]
pub fn bytes(val: &ffi::MDB_val) -> NonNull<[u8]> {
    let data = NonNull::new(val.mv_data.cast::<u8>()).unwrap_or(NonNull::dangling());
    NonNull::slice_from_raw_parts(data, val.mv_size)
}
