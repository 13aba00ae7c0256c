//! Little-endian integers in byte slices. Everything that Biombo stores is little-endian and of fixed width.

/// The `u32` at `at`, or `None` past the end.
#[inline]
pub fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The `u64` at `at`, or `None` past the end.
#[inline]
pub fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Store `value` at `at`. Panics past the end: the caller owns the buffer and its size.
#[inline]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Store `value` at `at`. Panics past the end: the caller owns the buffer and its size.
#[inline]
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_little_endian_and_never_read_past_the_end() {
        let mut bytes = [0; 12];
        put_u32(&mut bytes, 0, 0x0102_0304);
        put_u64(&mut bytes, 4, 5);
        assert_eq!(bytes, [4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((get_u32(&bytes, 0), get_u64(&bytes, 4)), (Some(0x0102_0304), Some(5)));
        assert_eq!((get_u32(&bytes, 9), get_u64(&bytes, 5), get_u32(&bytes, 99)), (None, None, None));
    }
}
