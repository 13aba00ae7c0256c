//! A pool of read transactions.
//!
//! Beginning a read transaction allocates it and takes LMDB's reader mutex; renewing one that was reset costs two stores.
//! So ended ones are kept, reset, in slots of which each thread has its own (threads past [`SLOTS`] share).
//!
//! 1. A slot's transaction is reset: it holds no snapshot and keeps no page from being used again.
//! 2. A transaction taken out of its slot has one owner; MDB_NOTLS lets it move between threads.
//! 3. Each slot has cache lines of its own, so threads write no line in common.

use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use lmdb_master_sys as ffi;

use super::MAIN;

const SLOTS: usize = 64;

// Two lines: the processor fetches them in pairs.
#[repr(align(128))]
struct Slot(AtomicPtr<ffi::MDB_txn>);

/// The pool of one environment.
pub struct Readers {
    env: *mut ffi::MDB_env,
    slots: Box<[Slot]>,
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
        Self { env, slots: (0..SLOTS).map(|_| Slot(AtomicPtr::new(ptr::null_mut()))).collect() }
    }

    /// A read transaction at the present state; LMDB's code if there is none.
    #[inline]
    pub fn begin(&self) -> Result<Reading<'_>, i32> {
        Ok(Reading { readers: self, txn: self.take()? })
    }

    /// As [`begin`](Readers::begin), to be given back by [`give_back`](Readers::give_back).
    #[inline]
    pub fn take(&self) -> Result<*mut ffi::MDB_txn, i32> {
        let txn = self.slots[thread_slot()].0.swap(ptr::null_mut(), Ordering::Acquire);
        if txn.is_null() {
            return self.begin_new();
        }
        self.renew(txn)
    }

    fn renew(&self, txn: *mut ffi::MDB_txn) -> Result<*mut ffi::MDB_txn, i32> {
        // SAFETY: (FL3) the transaction came out of its slot: it is reset and has no other owner.
        match unsafe { ffi::mdb_txn_renew(txn) } {
            0 => Ok(txn),
            code => {
                // SAFETY: (FL3) as above; a failed renewal leaves it reset.
                unsafe { ffi::mdb_txn_abort(txn) };
                Err(code)
            }
        }
    }

    #[cold]
    fn begin_new(&self) -> Result<*mut ffi::MDB_txn, i32> {
        let mut txn = ptr::null_mut();
        // SAFETY: (FC2) the environment is open and `txn` is live.
        match unsafe { ffi::mdb_txn_begin(self.env, ptr::null_mut(), ffi::MDB_RDONLY, &mut txn) } {
            0 => Ok(txn),
            // All reader slots are taken: an idle transaction of another thread has one.
            ffi::MDB_READERS_FULL => {
                let mut idle = self.slots.iter().map(|slot| slot.0.swap(ptr::null_mut(), Ordering::Acquire));
                match idle.find(|txn| !txn.is_null()) {
                    Some(txn) => self.renew(txn),
                    None => Err(ffi::MDB_READERS_FULL),
                }
            }
            code => Err(code),
        }
    }

    /// End a transaction that [`take`](Readers::take) gave. All that was read in it is invalid from now on.
    #[inline]
    pub fn give_back(&self, txn: *mut ffi::MDB_txn) {
        // SAFETY: (FL3) the caller owned the transaction and gives it up.
        unsafe { ffi::mdb_txn_reset(txn) };
        let slot = &self.slots[thread_slot()].0;
        if slot.compare_exchange(ptr::null_mut(), txn, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: (FL3) it is in no slot: nobody else can reach it.
            unsafe { ffi::mdb_txn_abort(txn) };
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let txn = *slot.0.get_mut();
            if !txn.is_null() {
                // SAFETY: (FL3) the pool is being dropped: the slot was the only owner.
                unsafe { ffi::mdb_txn_abort(txn) };
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

    /// A guard of `bytes`, which [`find`](Reading::find) of this transaction gave.
    pub fn pin(self, bytes: NonNull<[u8]>) -> Pinned<'a> {
        Pinned { bytes, _reading: self }
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.readers.give_back(self.txn);
    }
}

/// A value in the map; the transaction that keeps it there ends when this is dropped.
pub struct Pinned<'a> {
    bytes: NonNull<[u8]>,
    _reading: Reading<'a>,
}

impl Deref for Pinned<'_> {
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
