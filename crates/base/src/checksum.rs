//! Checksums of stored bytes: CRC-32C (Castagnoli), in hardware where the processor has it.

/// CRC-32C of `bytes`.
///
/// ```
/// assert_eq!(biombo_base::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of what `crc` covers followed by `bytes`. A value that is no checksum of anything (an identity, an address)
/// serves as a seed: bytes sealed under one seed do not pass under another.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appending_is_the_same_as_checking_at_once() {
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
    }
}
