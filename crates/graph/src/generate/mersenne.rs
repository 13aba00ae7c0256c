//! The Mersenne Twister MT19937, 32 bits a draw: the generator of the GAP benchmark, so that graphs agree with its own.
//!
//! Source: Matsumoto, Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998. C++ fixes the same algorithm as `std::mt19937`.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// A generator; the same seed gives the same numbers everywhere.
pub(super) struct Mersenne {
    state: [u32; WORDS],
    next: usize,
}

impl Mersenne {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [0; WORDS];
        state[0] = seed;
        for i in 1..WORDS {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: WORDS }
    }

    /// 32 random bits.
    pub(super) fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let joined = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % WORDS] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// A number below `bound` (at least 1), each as likely, as libstdc++'s `uniform_int_distribution` draws it.
    /// Source: Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.draw()) * u64::from(bound);
        if (product as u32) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u32) < threshold {
                product = u64::from(self.draw()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// The order of `items` changed at random, as libstdc++'s `std::shuffle` does it. At most 2^31 of them.
    pub(super) fn shuffle(&mut self, items: &mut [u32]) {
        let count = items.len();
        if count < 2 {
            return;
        }
        if (u32::MAX as usize) / count < count {
            for i in 1..count {
                items.swap(i, self.below(i as u32 + 1) as usize);
            }
            return;
        }
        // Few items: one draw serves two of them.
        let mut i = 1;
        if count.is_multiple_of(2) {
            items.swap(1, self.below(2) as usize);
            i = 2;
        }
        while i < count {
            let (first, second) = (i as u32 + 1, i as u32 + 2);
            let both = self.below(first * second);
            items.swap(i, (both / second) as usize);
            items.swap(i + 1, (both % second) as usize);
            i += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_draws_what_the_standard_of_cpp_demands() {
        // [rand.predef]: the 10,000th draw of a default-constructed mt19937.
        let mut random = Mersenne::new(5489);
        let last = (0..10_000).map(|_| random.draw()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn a_bounded_draw_reaches_everything_below_and_nothing_else() {
        let mut random = Mersenne::new(1);
        for bound in [1, 2, 3, 7, 1000] {
            let mut seen = vec![false; bound as usize];
            (0..bound * 20).for_each(|_| seen[random.below(bound) as usize] = true);
            assert!(seen.iter().all(|seen| *seen), "{bound}");
        }
    }

    #[test]
    fn a_shuffle_loses_nothing_and_moves_most() {
        for count in [0, 1, 2, 3, 10, 65_535, 65_536, 100_000] {
            let mut items: Vec<u32> = (0..count).collect();
            Mersenne::new(7).shuffle(&mut items);
            let stayed = items.iter().zip(0..).filter(|(item, at)| **item == *at).count();
            assert!(count < 10 || stayed < 10, "{stayed} of {count} stayed");
            items.sort_unstable();
            assert!(items.into_iter().eq(0..count));
        }
    }
}
