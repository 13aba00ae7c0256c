//! What a reader may read and the writer may write only when no reader can: loom fails the model if the two race.

#![allow(unsafe_code)]

use loom::cell::UnsafeCell;

pub struct Shared(UnsafeCell<()>);

// SAFETY: (IX7) no content is accessed; loom checks each announced access.
unsafe impl Sync for Shared {}
// SAFETY: (IX7) as above.
unsafe impl Send for Shared {}

impl Shared {
    pub fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    pub fn read(&self) {
        self.0.with(|_| ());
    }

    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}
