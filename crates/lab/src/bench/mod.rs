//! The benches: what the command's `bench` offers.

pub mod observer;
pub mod plan;
pub mod ycsb;

pub use observer::{Observer, Silent};
pub use plan::Plan;
pub use ycsb::Outcome;
