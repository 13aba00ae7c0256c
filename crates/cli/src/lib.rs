//! The text formats of the `biombo` command, apart from the command itself, so that what holds of any line can be checked
//! from outside.
#![forbid(unsafe_code)]

pub mod format;
