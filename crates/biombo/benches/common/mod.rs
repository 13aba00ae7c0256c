//! What the benches share: how they are told what to do, and the records that they do it to. (Draws of these are in `draws.rs`, for those that draw.)

/// What the environment says, or `otherwise`.
pub fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

/// Different for each number, and in no order (the finalizer of SplitMix64).
pub fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// The key of a record: 16 bytes, in random order.
pub fn key(record: u64) -> [u8; 16] {
    format!("{:016x}", mixed(record)).into_bytes().try_into().expect("16 digits")
}
