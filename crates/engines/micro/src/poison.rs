//! Read-only after a failed write: a write or sync whose outcome is unknown is never tried again.
//!
//! 1. Once poisoned, an instance stays so until it is opened anew; what was acknowledged as durable is there then.
//! 2. Reads go on, but where a failure has left what is in memory half changed ([`Poison::torn`]): half of a batch is nobody's answer.
//! 3. `Full` says that nothing was changed and that one may try again. After a failure that is not known, so it is not kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_base::{Error, ErrorKind, Result};

/// Why the instance refuses writes, if it does.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    why: OnceLock<String>,
    is_torn: AtomicBool,
}

impl Poison {
    /// `Poisoned` after a failure; one load otherwise.
    pub fn check(&self) -> Result<()> {
        self.why.get().map_or(Ok(()), |why| Err(Error::poisoned(why)))
    }

    /// The same for who only reads: `Poisoned` where what is in memory is half changed.
    pub fn check_read(&self) -> Result<()> {
        if self.is_torn.load(Ordering::Acquire) { self.check() } else { Ok(()) }
    }

    /// Whether something has failed.
    pub fn is_set(&self) -> bool {
        self.why.get().is_some()
    }

    /// Remember a failure and pass it on; the first one counts.
    pub fn after(&self, error: Error) -> Error {
        let _ = self.why.set(error.message().to_owned());
        if error.kind() == ErrorKind::Full { Error::new(ErrorKind::Io, error.to_string()) } else { error }
    }

    /// The same of one that has left what is in memory half changed. Whoever keeps readers away lets them in only after this.
    pub fn torn(&self, error: Error) -> Error {
        let error = self.after(error);
        self.is_torn.store(true, Ordering::Release);
        error
    }
}
