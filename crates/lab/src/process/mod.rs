//! Every run in a process of its own: its memory and its bytes are one engine's alone, and a crash ends one run only.
//!
//! The parent writes a [`RunSpec`](crate::spec::RunSpec) as JSON to a worker's standard input; the worker answers with
//! [`Event`]s, one JSON object a line. A worker that hangs is killed, and none outlives its parent.

pub mod launch;
mod patience;
pub mod protocol;
pub mod rundir;
pub mod worker;

pub use launch::{WorkerCommand, launch};
pub use protocol::Event;
pub use rundir::RunDir;
