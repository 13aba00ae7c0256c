//! A Bloom filter of a table's keys (Bloom 1970; two hashes for all, Kirsch and Mitzenmacher 2006): ten bits a key, one false yes in a
//! hundred.

use xxhash_rust::xxh3::xxh3_64;

const BITS_PER_KEY: usize = 10;
const PROBES: u64 = 7;

/// The hash of a key.
pub(super) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

fn bits(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let (step, count) = (hash.rotate_left(32) | 1, bytes as u64 * 8);
    (0..PROBES).map(move |probe| (hash.wrapping_add(probe.wrapping_mul(step)) % count) as usize)
}

/// Bytes of the filter of so many keys.
pub(super) fn filter_bytes(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(8).max(8)
}

/// The filter of keys with these hashes.
pub(super) fn filter_of(hashes: &[u64]) -> Vec<u8> {
    let mut filter = vec![0; filter_bytes(hashes.len())];
    for hash in hashes {
        let bytes = filter.len();
        bits(*hash, bytes).for_each(|bit| filter[bit / 8] |= 1 << (bit % 8));
    }
    filter
}

/// Whether a key with this hash may be there.
pub(super) fn may_hold(filter: &[u8], hash: u64) -> bool {
    filter.is_empty() || bits(hash, filter.len()).all(|bit| filter[bit / 8] & 1 << (bit % 8) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_denies_a_key_and_seldom_admits_another() {
        let hashes: Vec<u64> = (0..5000u32).map(|n| hash(&n.to_le_bytes())).collect();
        let filter = filter_of(&hashes);
        assert!(hashes.iter().all(|hash| may_hold(&filter, *hash)));
        let wrong = (5000..105_000u32).filter(|n| may_hold(&filter, hash(&n.to_le_bytes()))).count();
        assert!((300..1600).contains(&wrong), "{wrong} of 100,000");
    }
}
