//! CRC-32C with the processor's own instruction, for records of any size.
//!
//! The instruction takes eight bytes in a cycle but gives its result three cycles later. So the bytes are cut into three
//! lanes of equal length that go on side by side, and the checksums of the first two are moved behind the others: moving a
//! checksum over n bits multiplies it by x^n modulo the polynomial, which is one carry-less multiplication by a constant
//! and one more step of the instruction as the reduction (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using
//! CRC32 Instruction", Intel, 2011). The lanes are as long as the bytes allow, so a record of any length is read almost
//! whole in them; a record of a kilobyte costs about 50 ns, one of 16 bytes two.

use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    _mm_xor_si128,
};

/// The polynomial, the bit of the highest power last.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// A lane has at most so many words of eight bytes.
const LANE_WORDS_MAX: usize = 128;
/// Fewer are not worth the moves at the end.
const LANE_WORDS_MIN: usize = 6;

/// At `n`: x^(64 n - 33) modulo the polynomial, which moves a checksum over `n` words. The multiplication of reflected
/// numbers gives one power of x, the reduction 32.
static MOVES: [u32; 2 * LANE_WORDS_MAX + 1] = {
    let mut moves = [0; 2 * LANE_WORDS_MAX + 1];
    // x^31, whose bit is the last one of a reflected number.
    let mut power: u32 = 1;
    let mut n = 1;
    while n < moves.len() {
        moves[n] = power;
        let mut bit = 0;
        while bit < 64 {
            power = if power & 1 == 0 { power >> 1 } else { power >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        n += 1;
    }
    moves
};

/// [`crc32c_append`](super::crc32c_append), if the processor has the instructions.
#[inline]
#[allow(unsafe_code)]
pub(super) fn append(crc: u32, bytes: &[u8]) -> Option<u32> {
    if !(is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")) {
        return None;
    }
    // SAFETY: (B12) the line above has found the features that it needs.
    Some(unsafe { append_with_features(crc, bytes) })
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn append_with_features(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = u64::from(!crc);
    let mut rest = bytes;
    while rest.len() >= 3 * 8 * LANE_WORDS_MIN {
        let words = (rest.len() / 24).min(LANE_WORDS_MAX);
        let (first, behind) = rest.split_at(8 * words);
        let (second, behind) = behind.split_at(8 * words);
        let (third, behind) = behind.split_at(8 * words);
        let (mut a, mut b, mut c) = (crc, 0, 0);
        let lanes = first.as_chunks::<8>().0.iter().zip(second.as_chunks::<8>().0).zip(third.as_chunks::<8>().0);
        for ((first, second), third) in lanes {
            a = _mm_crc32_u64(a, u64::from_le_bytes(*first));
            b = _mm_crc32_u64(b, u64::from_le_bytes(*second));
            c = _mm_crc32_u64(c, u64::from_le_bytes(*third));
        }
        let moved = |crc: u64, words: usize| {
            let by = i64::from(MOVES[words]);
            _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(crc as i64), _mm_cvtsi64_si128(by))
        };
        let moved = _mm_cvtsi128_si64(_mm_xor_si128(moved(a, 2 * words), moved(b, words)));
        crc = _mm_crc32_u64(0, moved as u64) ^ c;
        rest = behind;
    }
    let (words, mut rest) = rest.as_chunks::<8>();
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    if let Some((four, behind)) = rest.split_first_chunk::<4>() {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*four));
        rest = behind;
    }
    for byte in rest {
        crc = _mm_crc32_u8(crc, *byte);
    }
    !crc
}
