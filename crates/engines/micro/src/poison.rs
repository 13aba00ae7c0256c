//! Read-only after a failed write: a write or sync whose outcome is unknown is never tried again.
//!
//! 1. Once poisoned, an instance stays so until it is opened anew; what was acknowledged as durable is there then.
//! 2. Reads go on.

use std::sync::OnceLock;

use biombo_base::{Error, Result};

/// Why the instance refuses writes, if it does.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// `Poisoned` after a failure; one load otherwise.
    pub fn check(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |why| Err(Error::poisoned(why)))
    }

    /// Whether something has failed.
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Remember a failure and pass it on; the first one counts.
    pub fn after(&self, error: Error) -> Error {
        let _ = self.0.set(error.message().to_owned());
        error
    }
}
