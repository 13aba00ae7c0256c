//! Choices out of bytes. Every string of bytes is some choice, and near strings are near choices, so that a fuzzer that
//! changes bytes explores; behind the end all choices are the first.

use arbitrary::Unstructured;

/// Bytes that are used up as choices are made.
pub struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    /// Choices out of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    /// Whether all bytes are used up.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// Any number.
    pub fn u64(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.int_in_range(0..=limit - 1).unwrap_or(0)
    }

    /// One of `all`, which is not empty.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// True once in `odds` times.
    pub fn once_in(&mut self, odds: usize) -> bool {
        self.below(odds) == odds - 1
    }

    /// Up to `bytes_max` of the bytes, as they are.
    pub fn bytes(&mut self, bytes_max: usize) -> &'a [u8] {
        let bytes = self.below(bytes_max + 1).min(self.0.len());
        self.0.bytes(bytes).unwrap_or_default()
    }

    /// All bytes that are left, as they are.
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }

    /// A key out of few that share much: one letter, and one of some endings, of which some are prefixes of others; now and then
    /// any bytes.
    pub fn key(&mut self) -> Vec<u8> {
        const ENDINGS: [&[u8]; 8] =
            [b"", b"\0", b"\0\x01", b"\x01", b"\xff\xff", b"a common middle", b"a common middle, and more", b"aa"];
        let choice = self.byte();
        match choice {
            0xf0..=0xf7 => vec![0; usize::from(choice & 7) + 1],
            0xf8.. => {
                let bytes = self.bytes(40);
                if bytes.is_empty() { vec![choice] } else { bytes.to_vec() }
            }
            _ => [&[(choice >> 3) % 12 * 23][..], ENDINGS[usize::from(choice & 7)]].concat(),
        }
    }

    /// A value that names `number`, mostly short, now and then larger than a small segment.
    pub fn value(&mut self, number: usize) -> Vec<u8> {
        let choice = usize::from(self.byte());
        let bytes = match choice {
            0..200 => choice,
            200..254 => (choice - 199) * 64,
            _ => 9000,
        };
        let mut value = number.to_le_bytes()[..2].to_vec();
        value.resize(bytes.max(2), choice as u8);
        value
    }
}
