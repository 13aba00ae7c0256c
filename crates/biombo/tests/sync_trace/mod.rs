//! A judge of traces: did each acknowledgement come after the device sync of its data?

pub mod calls;
pub mod judge;

#[cfg(test)]
mod judge_tests;
