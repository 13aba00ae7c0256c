//! Keys, their loads, and their closest neighbours, in bounded memory.
//!
//! 1. A full table takes in a new key at its second sight only (the doorkeeper of Einziger, Friedman and Manes, "TinyLFU: A Highly
//!    Efficient Cache Admission Policy", 2017), and drops for it the lightest of a few keys from all over the table: what comes
//!    once drops nobody, and a heavy key goes only where all that are looked at are heavier.
//! 2. A key's neighbours are the frequent items of its own stream (Misra and Gries, "Finding repeated elements", 1982): what is
//!    kept is never too much, and too little by at most the sum of all divided by the places plus one.
//! 3. A place that was given to another key has another generation: ties to the former one are void.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::{KeyView, Load, Pair};
use crate::sample::Kind;

/// Keys that are compared when one has to go.
const PICKED: usize = 8;
/// Fingerprints of the doorkeeper for each place of the table.
const SEEN_PER_KEY: usize = 2;

struct Entry {
    key: Box<[u8]>,
    generation: u32,
    load: Load,
    neighbours: Vec<Neighbour>,
}

#[derive(Clone, Copy)]
struct Neighbour {
    number: u32,
    generation: u32,
    weight: f64,
}

pub(super) struct KeyTable {
    entries: Vec<Entry>,
    index: HashTable<u32>,
    /// Fingerprints of keys that were turned away once; made when the table is full.
    seen: Vec<u32>,
    hasher: DefaultHashBuilder,
    /// Of the key that was admitted last.
    generation: u32,
    keys_max: usize,
    neighbours_max: usize,
}

impl KeyTable {
    pub(super) fn new(keys_max: usize, neighbours_max: usize) -> Self {
        let keys_max = keys_max.clamp(1, u32::MAX as usize);
        Self {
            entries: Vec::new(),
            index: HashTable::new(),
            seen: Vec::new(),
            hasher: DefaultHashBuilder::default(),
            generation: 0,
            keys_max,
            neighbours_max,
        }
    }

    /// Count an access of `key`, and give its number if it is known from now on.
    pub(super) fn touch(&mut self, key: &[u8], kind: Kind, weight: f64, random: &mut fastrand::Rng) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let found = self.index.find(hash, |number| *self.entries[*number as usize].key == *key).copied();
        let number = match found {
            Some(number) => number,
            None if self.entries.len() < self.keys_max || self.was_seen(hash) => self.admit(key, hash, random),
            None => return None,
        };
        self.entries[number as usize].load.add(kind, weight);
        Some(number)
    }

    /// Whether the doorkeeper has seen a key of this hash lately; from now on it has.
    fn was_seen(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; self.keys_max * SEEN_PER_KEY];
        }
        let place = (hash >> 32) as usize % self.seen.len();
        let fingerprint = (hash as u32).max(1);
        std::mem::replace(&mut self.seen[place], fingerprint) == fingerprint
    }

    fn admit(&mut self, key: &[u8], hash: u64, random: &mut fastrand::Rng) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let entry =
            Entry { key: key.into(), generation: self.generation, load: Load::default(), neighbours: Vec::new() };
        let number = if self.entries.len() < self.keys_max {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let number = self.lightest(random);
            self.unlink(number);
            self.entries[number as usize] = entry;
            number
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hash, number, |number| hasher.hash_one(&*entries[*number as usize].key));
        number
    }

    /// The lightest of one key from each of [`PICKED`] stretches of the table.
    fn lightest(&self, random: &mut fastrand::Rng) -> u32 {
        let count = self.entries.len();
        let stretches = PICKED.min(count);
        let picked = (0..stretches).map(|i| random.usize(i * count / stretches..(i + 1) * count / stretches));
        let weight = |at: &usize| self.entries[*at].load.total();
        picked.min_by(|a, b| weight(a).total_cmp(&weight(b))).unwrap_or(0) as u32
    }

    /// Take a key out of the index.
    fn unlink(&mut self, number: u32) {
        let hash = self.hasher.hash_one(&*self.entries[number as usize].key);
        if let Ok(place) = self.index.find_entry(hash, |other| *other == number) {
            place.remove();
        }
    }

    /// Two different keys were accessed together.
    pub(super) fn tie(&mut self, a: u32, b: u32, weight: f64) {
        for (from, to) in [(a, b), (b, a)] {
            let generation = self.entries[to as usize].generation;
            let neighbours_max = self.neighbours_max;
            let neighbours = &mut self.entries[from as usize].neighbours;
            if let Some(known) = neighbours.iter_mut().find(|n| n.number == to) {
                if known.generation != generation {
                    *known = Neighbour { number: to, generation, weight: 0.0 };
                }
                known.weight += weight;
                continue;
            }
            let mut weight = weight;
            if neighbours.len() >= neighbours_max {
                let least = neighbours.iter().map(|n| n.weight).fold(weight, f64::min);
                neighbours.retain_mut(|n| {
                    n.weight -= least;
                    n.weight > 0.0
                });
                weight -= least;
            }
            if weight > 0.0 && neighbours.len() < neighbours_max {
                neighbours.push(Neighbour { number: to, generation, weight });
            }
        }
    }

    /// Multiply all weights, and forget keys and ties that then weigh less than `forgotten`.
    pub(super) fn bring_down(&mut self, factor: f64, forgotten: f64) {
        for entry in &mut self.entries {
            entry.load = entry.load.scaled(factor);
            entry.neighbours.retain_mut(|n| {
                n.weight *= factor;
                n.weight >= forgotten
            });
        }
        // Places keep their numbers, because ties name them: only a tail of forgotten keys can go.
        while self.entries.last().is_some_and(|last| last.load.total() < forgotten) {
            self.unlink((self.entries.len() - 1) as u32);
            self.entries.pop();
        }
    }

    pub(super) fn views(&self, scale: f64) -> impl Iterator<Item = KeyView<'_>> {
        self.entries.iter().enumerate().map(move |(number, entry)| KeyView {
            number: number as u32,
            key: &entry.key,
            load: entry.load.scaled(scale),
        })
    }

    /// A pair may be known at one end, or at both with different weights, all of which are at most the true one: the greatest is closest.
    pub(super) fn pairs(&self, scale: f64) -> impl Iterator<Item = Pair> + '_ {
        let weight_at = |from: u32, to: u32| {
            let generation = self.entries.get(to as usize)?.generation;
            let found = self.entries[from as usize].neighbours.iter().find(|n| n.number == to)?;
            (found.generation == generation).then_some(found.weight)
        };
        self.entries.iter().enumerate().flat_map(move |(from, entry)| {
            let from = from as u32;
            entry.neighbours.iter().filter_map(move |n| {
                let here = weight_at(from, n.number)?;
                let there = weight_at(n.number, from);
                // Known at both ends: told by the smaller one.
                if from > n.number && there.is_some() {
                    return None;
                }
                let weight = here.max(there.unwrap_or(0.0)) * scale;
                Some(Pair { a: from.min(n.number), b: from.max(n.number), weight })
            })
        })
    }
}
