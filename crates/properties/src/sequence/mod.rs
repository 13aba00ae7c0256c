//! Operations, reopenings and crashes, compared with a model.

pub mod engine;
pub mod history;
pub mod index;
pub mod journal;
pub mod store;

/// What keys and values there are.
pub type State = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;
