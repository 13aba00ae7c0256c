//! The benches: what the command's `bench` offers.

pub mod observer;
pub mod plan;
pub(crate) mod run;

pub(crate) use observer::is_over;
pub use observer::{Observer, Silent};
pub use plan::Plan;
pub use run::{Outcome, run};
