//! What a worker process says: one JSON object a line on its standard output.

use serde::{Deserialize, Serialize};

use crate::record::Record;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase begins.
    Phase {
        /// `open`, `load`, `settle`, `run` or `close`.
        phase: String,
        /// Operations that it will do, where the number is known.
        operations: Option<u64>,
        /// Seconds that it will take, where it runs by time.
        seconds: Option<f64>,
    },
    /// How far it is.
    Progress {
        /// Operations finished in this phase.
        done: u64,
    },
    /// It waits for another process, which is no hanging.
    Waiting {
        /// Whether it begins to; otherwise it ends.
        waiting: bool,
    },
    /// The run is done.
    Result {
        /// What came out.
        record: Box<Record>,
    },
    /// The run failed.
    Error {
        /// Why, in one line.
        message: String,
    },
}
