//! Finding a byte among a node's keys, eight or sixteen at a time.

/// The place of `byte` among the low seven bytes of `keys`, if it is one of the first `count`.
#[inline(always)]
pub fn in_word(keys: u64, byte: u8, count: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let differing = keys ^ (ONES * u64::from(byte));
    // The lowest bit that this leaves is exact: borrows come from a zero byte further down.
    let zeros = differing.wrapping_sub(ONES) & !differing & (ONES << 7);
    let at = zeros.trailing_zeros() as usize / 8;
    (at < count).then_some(at)
}

/// The place of `byte` among the bytes of `keys`, if it is one of the first `count`.
#[inline(always)]
pub fn in_words<const N: usize>(keys: &[u64; N], byte: u8, count: usize) -> Option<usize> {
    let found = equal_bytes(keys, byte) & (1u64 << (count & 63)).wrapping_sub(1);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// A bit for each byte of `keys` that is `byte`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
#[allow(unsafe_code)]
fn equal_bytes<const N: usize>(keys: &[u64; N], byte: u8) -> u64 {
    // SAFETY: (IX5) SSE2 is enabled for the whole build, as the condition above says.
    unsafe { equal_bytes_sse2(keys, byte) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline]
#[target_feature(enable = "sse2")]
fn equal_bytes_sse2<const N: usize>(keys: &[u64; N], byte: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let wanted = _mm_set1_epi8(byte as i8);
    let mut found = 0;
    let mut i = 0;
    while i < N {
        let high = if i + 1 < N { keys[i + 1] } else { 0 };
        let equal = _mm_cmpeq_epi8(wanted, _mm_set_epi64x(high as i64, keys[i] as i64));
        found |= u64::from(_mm_movemask_epi8(equal) as u16) << (i * 8);
        i += 2;
    }
    found
}

/// A bit for each byte of `keys` that is `byte`.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline(always)]
fn equal_bytes<const N: usize>(keys: &[u64; N], byte: u8) -> u64 {
    portable(keys, byte)
}

#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
fn portable<const N: usize>(keys: &[u64; N], byte: u8) -> u64 {
    let bytes = keys.iter().flat_map(|word| word.to_le_bytes());
    bytes.enumerate().fold(0, |found, (i, b)| found | u64::from(b == byte) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_where_it_stands_and_nowhere_else() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..2000 {
            // Few different values, so that neighbours differ by one, where borrows would show.
            let mut keys = [0u64; 6];
            for word in &mut keys {
                *word = u64::from_le_bytes(std::array::from_fn(|_| (random() % 5) as u8 + 126));
            }
            let bytes: Vec<u8> = keys.iter().flat_map(|w| w.to_le_bytes()).collect();
            for byte in 125..=132 {
                assert_eq!(equal_bytes(&keys, byte), portable(&keys, byte));
                let count = (random() % 49) as usize;
                assert_eq!(in_words(&keys, byte, count), bytes[..count].iter().position(|b| *b == byte));
                let three = [keys[0], keys[1], keys[2]];
                let few = count.min(24);
                assert_eq!(in_words(&three, byte, few), bytes[..few].iter().position(|b| *b == byte));
                let few = count.min(7);
                assert_eq!(in_word(keys[0] << 8 >> 8, byte, few), bytes[..few].iter().position(|b| *b == byte));
            }
        }
    }
}
