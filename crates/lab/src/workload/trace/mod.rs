//! Recorded operations: text files, one for each worker.
//!
//! A line is an operation:
//!
//! ```text
//! 0,key          read the key
//! 1,key          write it: a new value
//! 2,key,limit    scan: read up to `limit` records in order from the key on
//! ```
//!
//! A key is taken as it stands, any bytes but commas and line ends. A line ends with `\n` or `\r\n`. Files are read as a
//! stream, a line at a time: a trace may be larger than memory.

mod head;
mod line;
mod reader;
mod survey;

pub use head::head;
pub use line::{Line, parse};
pub use reader::Reader;
pub use survey::{Counts, survey};
