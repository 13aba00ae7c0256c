//! Room for the store's own keys inside an engine of a `hard` partition.
//!
//! The marks of atomic batches live in the same engine as the user's keys, because mark and writes must be one engine batch.
//! Invariants:
//!
//! 1. Every byte string of 1 B or more is a valid user key: a user key that begins with `00` is stored as `00 01` and the rest;
//!    all others as they are.
//! 2. The store's own keys begin with `00 00`: below every user key, equal to none.
//! 3. The mapping keeps bytewise order, so scans and ranges work on stored keys.

use std::borrow::Cow;

/// The first stored key that can be a user's.
pub(crate) const USER_FROM: &[u8] = &[0, 1];

/// The mark: the number of the last atomic batch whose slice this partition holds, 8 bytes little-endian.
pub(crate) const MARK: &[u8] = b"\0\0intent";

/// The stored form of a user key (not empty). Copies only keys that begin with a zero byte.
#[inline]
pub(crate) fn encode(key: &[u8]) -> Cow<'_, [u8]> {
    if key.first() == Some(&0) { Cow::Owned(escape(key)) } else { Cow::Borrowed(key) }
}

#[cold]
fn escape(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 1);
    stored.extend_from_slice(USER_FROM);
    stored.extend_from_slice(&key[1..]);
    stored
}

/// The stored form of a range's lower bound, which may be empty: the first user key.
pub(crate) fn encode_from(from: &[u8]) -> Cow<'_, [u8]> {
    if from.is_empty() { Cow::Borrowed(USER_FROM) } else { encode(from) }
}

/// Whether a stored key is the store's own.
pub(crate) fn is_own(stored: &[u8]) -> bool {
    stored.starts_with(&[0, 0])
}

/// The user key of a stored one; `scratch` holds it where it must be put together.
#[inline]
pub(crate) fn decode<'a>(stored: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if stored.first() != Some(&0) {
        return stored;
    }
    scratch.clear();
    scratch.push(0);
    scratch.extend_from_slice(stored.get(2..).unwrap_or_default());
    scratch
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stored_keys_keep_order_and_come_back(a in proptest::collection::vec(0u8..4, 1..6), b in proptest::collection::vec(0u8..4, 1..6)) {
            let mut scratch = Vec::new();
            let stored = encode(&a);
            prop_assert_eq!(decode(&stored, &mut scratch), &a[..]);
            prop_assert_eq!(stored.cmp(&encode(&b)), a.cmp(&b));
            prop_assert!(!is_own(&stored));
            prop_assert!(MARK < &*stored);
        }
    }
}
