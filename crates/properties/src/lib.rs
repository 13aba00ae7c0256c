//! What must hold for any bytes and for any sequence of operations, as functions of bytes.
//!
//! A [`Property`] takes any bytes and panics if it does not hold. `make test` tries each with proptest, on random bytes and on
//! changed examples (`tests/properties.rs`); `make fuzz` lets libFuzzer look for bytes that break it (`fuzz/`). An input that once
//! broke one stands in `regressions/NAME/` and is tried by every `make test` from then on.
//!
//! Two kinds:
//!
//! - [`decode`]: files that are damaged, mostly with right checksums, so that the damage gets behind those. Opening them, reading
//!   them and repairing them ends, in an answer or in an error that says that the bytes are wrong; never in a panic, in a value
//!   that was not written, or in memory that follows from a number in the file alone.
//! - [`sequence`]: operations, reopenings and crashes on the simulated disk, compared with a model.
#![forbid(unsafe_code)]

pub mod decode;
pub mod files;
pub mod input;
pub mod seal;
pub mod sequence;

use biombo_base::{Error, ErrorKind};

/// Something that holds for any bytes.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its name, that of its fuzz target and of its directory of regressions.
    pub name: &'static str,
    /// Panics if it does not hold for these bytes.
    pub holds: fn(&[u8]),
    /// Examples to begin from, which come deep.
    pub examples: fn() -> Vec<Vec<u8>>,
    /// How many inputs `make test` tries: fewer where one costs more.
    pub cases: u32,
}

/// All of them.
pub const ALL: [Property; 15] = [
    decode::frames::PROPERTY,
    decode::journal::PROPERTY,
    decode::records::PROPERTY,
    decode::checkpoint::PROPERTY,
    decode::image::PROPERTY,
    decode::store::MANIFEST,
    decode::store::PLACEMENT,
    decode::store::INTENTS,
    decode::backup::PROPERTY,
    decode::text::PROPERTY,
    decode::lab::PROPERTY,
    sequence::index::PROPERTY,
    sequence::journal::PROPERTY,
    sequence::engine::PROPERTY,
    sequence::store::PROPERTY,
];

/// Damaged files may be called damaged, of another version, missing or not to be asked for; anything else is wrong, for the disk
/// has refused nothing.
pub(crate) fn blames_the_bytes(error: &Error, doing: &str) {
    let fine = [ErrorKind::Corruption, ErrorKind::Unsupported, ErrorKind::Invalid, ErrorKind::NotFound];
    assert!(fine.contains(&error.kind()), "{doing}: {:?}: {error}", error.kind());
}
