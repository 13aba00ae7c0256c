//! Which of many numbered ids is this one: a hash table of numbers alone, the ids stand elsewhere.
//!
//! Open addressing with linear probing: 4 bytes a slot. Removal closes the gap it leaves, so that no marks of what was removed pile up.
//!
//! Invariants:
//! 1. At most three quarters of the slots are taken; their number is a power of two.
//! 2. From where an id hashes to up to where its number stands, no slot is free.

/// The table; numbers are below 2^32 - 1. Who asks says which id has a number.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Number + 1, or 0.
    slots: Vec<u32>,
    taken: usize,
}

impl Slots {
    /// The number of `id`; `None` when it has none. O(1).
    #[inline]
    pub(crate) fn find(&self, id: u64, id_of: impl Fn(u32) -> u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot_of(id, id_of)].checked_sub(1)
    }

    /// `id`, which is not there, has `number`. O(1), amortised.
    pub(crate) fn insert(&mut self, id: u64, number: u32, id_of: impl Fn(u32) -> u64) {
        if self.taken >= self.slots.len() / 4 * 3 {
            self.grow(&id_of);
        }
        let slot = self.slot_of(id, id_of);
        self.slots[slot] = number + 1;
        self.taken += 1;
    }

    /// `id`, which is there, has another `number` from now on. O(1).
    pub(crate) fn renumber(&mut self, id: u64, number: u32, id_of: impl Fn(u32) -> u64) {
        let slot = self.slot_of(id, id_of);
        self.slots[slot] = number + 1;
    }

    /// `id`, which is there, is no more. O(1).
    pub(crate) fn remove(&mut self, id: u64, id_of: impl Fn(u32) -> u64) {
        let mask = self.slots.len() - 1;
        let mut free = self.slot_of(id, &id_of);
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let Some(number) = self.slots[at].checked_sub(1) else { break };
            // Who would be found before the free slot may stay; others move up to it.
            let home = hash(id_of(number)) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(free) & mask) {
                self.slots[free] = number + 1;
                free = at;
            }
        }
        self.slots[free] = 0;
        self.taken -= 1;
    }

    /// How much memory it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Where `id` is, or the free slot where it belongs.
    #[inline]
    fn slot_of(&self, id: u64, id_of: impl Fn(u32) -> u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(id) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                number if id_of(number - 1) == id => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self, id_of: impl Fn(u32) -> u64) {
        let larger = vec![0; (self.slots.len() * 2).max(1 << 10)];
        for number in std::mem::replace(&mut self.slots, larger).into_iter().filter_map(|slot| slot.checked_sub(1)) {
            let slot = self.slot_of(id_of(number), &id_of);
            self.slots[slot] = number + 1;
        }
    }
}

/// Fibonacci hashing, with the high bits folded in first: ids often differ in their low bits or high bits alone.
#[inline]
fn hash(id: u64) -> u64 {
    (id ^ (id >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ids_that_are_there_are_found_and_others_are_not(
            steps in proptest::collection::vec((prop_oneof![0..60u64, any::<u64>()], any::<bool>()), 1..3000),
        ) {
            let (mut slots, mut ids) = (Slots::default(), Vec::new());
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            for (id, removes) in &steps {
                let id_of = |number: u32| ids[number as usize];
                prop_assert_eq!(slots.find(*id, id_of), model.get(id).copied());
                if *removes && model.contains_key(id) {
                    slots.remove(*id, id_of);
                    model.remove(id);
                } else if !removes && !model.contains_key(id) {
                    let number = ids.len() as u32;
                    ids.push(*id);
                    slots.insert(*id, number, |number| ids[number as usize]);
                    model.insert(*id, number);
                }
            }
            for (id, _) in steps {
                prop_assert_eq!(slots.find(id, |number| ids[number as usize]), model.get(&id).copied());
            }
        }
    }
}
