//! The `biombo` command.
fn main() {}
