//! The native engine of Biombo: the log is the data.
//!
//! Records are written once, to an append-only log; an index in memory finds them. This crate holds that index
//! ([`index`]).

#![deny(unsafe_code)]

pub mod index;
