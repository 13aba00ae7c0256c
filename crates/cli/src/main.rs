//! The `biombo` command.
#![forbid(unsafe_code)]

fn main() {}
