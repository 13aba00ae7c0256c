//! A store that can no longer keep its promises says so and turns read-only.

use std::sync::OnceLock;

use biombo_engine::{Error, ErrorKind, Result};

/// Why a store is read-only, once it is. Set once, never cleared: reopening is the cure.
#[derive(Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// `Poisoned` with the reason, if there is one. One load on the write path.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Error::poisoned(why)),
        }
    }

    /// Note a failure after which the state on disk is not known.
    pub(crate) fn set(&self, why: &Error) {
        let _ = self.0.set(why.to_string());
    }

    /// Note a failure after which what was asked for is decided, and not done: `Poisoned`, whatever it was.
    pub(crate) fn with(&self, why: &Error) -> Error {
        self.set(why);
        self.check().err().unwrap_or_else(|| Error::poisoned(why.to_string()))
    }

    /// Note `result`'s error if it leaves the state on disk unknown; a request that was refused whole does not.
    pub(crate) fn watch<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned | ErrorKind::Corruption)
        {
            self.set(error);
        }
        result
    }

    /// The reason.
    pub(crate) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
