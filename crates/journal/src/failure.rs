//! Why a change of the disk failed, and what that means.

use biombo_base::{Error, ErrorKind};

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no room; nothing that counts was changed.
    Full(Error),
    /// What is on the disk is not known any more.
    Fatal(Error),
}

impl Failure {
    /// An error after which the disk's content is unknown. `Full` would say that nothing was changed, so it is not kept.
    pub fn fatal(error: Error) -> Self {
        Self::Fatal(unknown(error))
    }

    /// An error before which nothing that counts was changed: no room is no harm then.
    pub fn before(error: Error) -> Self {
        if error.kind() == ErrorKind::Full { Self::Full(error) } else { Self::Fatal(error) }
    }

    pub fn into_error(self) -> Error {
        let (Self::Full(error) | Self::Fatal(error)) = self;
        error
    }
}

/// See [`Failure::fatal`].
pub(crate) fn unknown(error: Error) -> Error {
    if error.kind() == ErrorKind::Full { Error::new(ErrorKind::Io, error.to_string()) } else { error }
}
