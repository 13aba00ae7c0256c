//! Checksums of stored bytes: CRC-32C (Castagnoli), in hardware where the processor has it.

#[cfg(target_arch = "x86_64")]
mod sse42;

/// CRC-32C of `bytes`.
///
/// ```
/// assert_eq!(biombo_base::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of what `crc` covers followed by `bytes`. A value that is no checksum of anything (an identity, an address)
/// serves as a seed: bytes sealed under one seed do not pass under another.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(crc) = sse42::append(crc, bytes) {
        return crc;
    }
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appending_is_the_same_as_checking_at_once() {
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
    }

    #[test]
    fn every_length_and_alignment_agrees_with_another_implementation() {
        let mut state = 1u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        })
        .take(20_000)
        .collect();
        let lengths = (0..1200).chain((1200..20_000).step_by(611));
        for length in lengths {
            for start in [0, 1, 7] {
                let bytes = &bytes[start..(start + length).min(20_000)];
                for seed in [0, 1, 0x9e37_79b9, u32::MAX] {
                    let expected = crc32c::crc32c_append(seed, bytes);
                    assert_eq!(crc32c_append(seed, bytes), expected, "{length} bytes from {start} under {seed:x}");
                }
            }
        }
    }
}
