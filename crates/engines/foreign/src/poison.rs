//! Read-only after a failed write: the state that every adapter shares.
//!
//! 1. Once poisoned, an instance stays so until it is opened anew: a failed write or sync is never retried, because the
//!    kernel may have dropped the pages and the engine's file may end in half a record.
//! 2. Reads go on.

use std::sync::OnceLock;

use biombo_base::{Error, ErrorKind, Result};

/// Why the instance refuses writes, if it does.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// `Poisoned` after a failure; one load otherwise.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Error::poisoned(why)),
        }
    }

    /// Remember the failure of a write, unless it was refused before it changed anything, and pass it on.
    pub(crate) fn after(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Busy | ErrorKind::Conflict => {}
            // The first failure is remembered; later ones only follow from it.
            _ => drop(self.0.set(error.message().to_owned())),
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_poisons_and_a_refused_one_does_not() {
        let poison = Poison::default();
        drop(poison.after(Error::invalid("an empty key")));
        assert!(poison.check().is_ok());
        drop(poison.after(Error::new(ErrorKind::Full, "no space")));
        drop(poison.after(Error::new(ErrorKind::Io, "later")));
        let error = poison.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        assert!(error.message().contains("no space"), "{error}");
    }
}
