//! Everything that reads bytes which may be damaged.

pub mod backup;
pub mod checkpoint;
pub mod frames;
pub mod image;
pub mod journal;
pub mod lab;
pub mod records;
pub mod store;
pub mod text;
