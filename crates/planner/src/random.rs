//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): small, seeded, the same everywhere.

/// One step of mixing: a bijection whose output looks random.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`, which is not 0.
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    (u128::from(random) * u128::from(bound)).checked_shr(64).unwrap_or(0) as u64
}

/// The numbers below `count` in an order that the seed picks (Fisher-Yates).
pub(crate) fn order(count: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = mix(seed);
    for at in (1..count).rev() {
        state = mix(state);
        order.swap(at, below(state, at as u64 + 1) as usize);
    }
    order
}
