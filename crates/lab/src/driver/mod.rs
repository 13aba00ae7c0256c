//! Drivers: the load phase and the run phase of a workload over a [`Target`](crate::target::Target).

mod client;
mod clock;
pub mod latency;
pub mod load;
mod pace;
pub mod progress;
pub mod run;
mod slowed;
mod source;
mod tail;
pub mod timeline;

pub(crate) use clock::RunClock;
pub use latency::Latencies;
pub use load::{Loaded, load, load_trace};
pub use progress::Progress;
pub use run::{Ran, Settings, Until, run};
pub(crate) use run::{RunPhase, run_phase};
pub use slowed::SLOWED;
pub use timeline::Timeline;

#[cfg(test)]
mod tests;
