//! A set of vertices as bits, shared by threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use biombo_base::Result;

use crate::media::Array;
use crate::team::Team;

/// A set of vertices. Threads that write apart write whole words ([`set_word`](Self::set_word)); others use [`insert`](Self::insert).
#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Array<AtomicU64>,
}

impl Bitmap {
    /// An empty set of vertices below `vertices`.
    pub(crate) fn new(vertices: usize, team: &Team) -> Result<Self> {
        let (mut words, is_zero) = Array::<AtomicU64>::spare(vertices.div_ceil(64), team.spares())?;
        if !is_zero {
            words.iter_mut().for_each(|word| *word = AtomicU64::new(0));
        }
        Ok(Self { words })
    }

    #[inline]
    pub(crate) fn contains(&self, vertex: u32) -> bool {
        self.words[vertex as usize / 64].load(Relaxed) >> (vertex % 64) & 1 == 1
    }

    /// Several threads may insert at once.
    #[inline]
    pub(crate) fn insert(&self, vertex: u32) {
        self.words[vertex as usize / 64].fetch_or(1 << (vertex % 64), Relaxed);
    }

    /// The 64 vertices from `word * 64` on.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> u64 {
        self.words[word].load(Relaxed)
    }

    /// One thread a word.
    #[inline]
    pub(crate) fn set_word(&self, word: usize, bits: u64) {
        self.words[word].store(bits, Relaxed);
    }

    /// Put `bits` in too. Several threads may put in at once.
    #[inline]
    pub(crate) fn insert_word(&self, word: usize, bits: u64) {
        self.words[word].fetch_or(bits, Relaxed);
    }

    /// Take out everything in the words that `vertices` are in.
    pub(crate) fn clear_words_of(&self, vertices: &[u32]) {
        vertices.iter().for_each(|vertex| self.set_word(*vertex as usize / 64, 0));
    }
}

/// The positions of the bits that are set, ascending.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_there_and_nothing_else() {
        let team = Team::new(1).unwrap();
        // Of memory that a fuller set has left.
        let before = Bitmap::new(200, &team).unwrap();
        (0..4).for_each(|word| before.set_word(word, !0));
        drop(before);
        let set = Bitmap::new(200, &team).unwrap();
        let members = [0, 1, 63, 64, 127, 199];
        members.iter().for_each(|vertex| set.insert(*vertex));
        assert!((0..200).filter(|vertex| set.contains(*vertex)).eq(members));
        let listed = (0..4).flat_map(|word| bits(set.word(word)).map(move |bit| word as u32 * 64 + bit));
        assert!(listed.eq(members));
        set.clear_words_of(&[1, 64]);
        assert!((0..200).filter(|vertex| set.contains(*vertex)).eq([199]));
    }
}
