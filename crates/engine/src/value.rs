//! Values on their way out, without a copy where the engine can.

use std::fmt;
use std::ops::Deref;

/// A value that derefs to its bytes. It may hold resources of the engine (a read transaction, a pinned block): keep it
/// for as long as the bytes are needed, not longer.
pub struct Value<'a>(Inner<'a>);

enum Inner<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
    Guarded(Box<dyn Deref<Target = [u8]> + 'a>),
}

impl<'a> Value<'a> {
    /// Bytes that live as long as the engine is borrowed.
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Self(Inner::Borrowed(bytes))
    }

    /// Bytes of its own.
    pub fn owned(bytes: Vec<u8>) -> Self {
        Self(Inner::Owned(bytes))
    }

    /// Bytes that a guard keeps valid.
    pub fn guarded(guard: impl Deref<Target = [u8]> + 'a) -> Self {
        Self(Inner::Guarded(Box::new(guard)))
    }

    /// The bytes as a vector; without a copy if they are owned already.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Inner::Borrowed(bytes) => bytes.to_vec(),
            Inner::Owned(bytes) => bytes,
            Inner::Guarded(guard) => guard.to_vec(),
        }
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Borrowed(bytes) => bytes,
            Inner::Owned(bytes) => bytes,
            Inner::Guarded(guard) => guard,
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

impl PartialEq<[u8]> for Value<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}
