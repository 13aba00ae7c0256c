//! A store that can no longer keep its promises says so and turns read-only.

use std::sync::OnceLock;
use std::thread::panicking;

use biombo_engine::{Error, ErrorKind, Result};

/// What is said of a panic, an engine's or ours, within a write.
pub(crate) const PANICKED: &str = "a thread panicked in the middle of a write: close the store and open it again";

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

    /// From now until what is returned is dropped a panic leaves a write half done: then it is noted as a failure.
    pub(crate) fn note_panic(&self) -> NotePanic<'_> {
        NotePanic { poison: self, already: panicking() }
    }

    /// The reason.
    pub(crate) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Of a span of work that must not end in its middle without anybody hearing of it.
pub(crate) struct NotePanic<'a> {
    poison: &'a Poison,
    /// Of a destructor that works while its thread unwinds nothing can be told by that.
    already: bool,
}

impl Drop for NotePanic<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.already && panicking() {
            self.poison.set(&Error::poisoned(PANICKED));
        }
    }
}
