//! The one public error type of Biombo: its kind tells the caller what to do, its message says what happened.
//!
//! A missing key is not an error (`Option`). Library code never panics on bad input, bad files or a full disk: it
//! returns one of these.

use std::fmt;
use std::path::{Path, PathBuf};

/// What a caller can do about an error. New kinds may come: match with a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself is wrong (an empty key, a value past the engine's limit, contradicting options): change it.
    Invalid,
    /// Somebody else changed what the request relied on: read again and retry.
    Conflict,
    /// Another process or thread holds it: wait or stop the other one.
    Busy,
    /// No room on the device or in the engine's map: nothing was changed; free room and retry.
    Full,
    /// An earlier failed sync or write made the store read-only: reopen it. Nothing acknowledged was lost.
    Poisoned,
    /// Stored bytes are not what was written; the message names file, offset and damage.
    Corruption,
    /// This engine or version cannot do it, by declaration.
    Unsupported,
    /// It is not there (a store's directory, a file; never a key).
    NotFound,
    /// The operating system refused; the source carries its error.
    Io,
}

/// An error of Biombo: [`kind`](Error::kind) for programs, [`Display`](fmt::Display) for people (one line, no newline).
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    place: Option<(PathBuf, u64)>,
    source: Option<std::io::Error>,
}

/// The result of anything in Biombo that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a one-line message for people: what happened and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, source: None }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The engine or version cannot do it.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Stored bytes at `offset` of `file` are damaged; `what` says how.
    pub fn corruption(file: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Corruption, message: what.into(), place: Some((file.into(), offset)), source: None }
    }

    /// The store turned read-only because of `why`.
    pub fn poisoned(why: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Poisoned,
            format!("the store is read-only since a write or sync failed ({why}); reopen it"),
        )
    }

    /// The operating system refused `doing` (a phrase such as "write DIR/MANIFEST"). ENOSPC and EDQUOT become
    /// [`ErrorKind::Full`], ENOENT [`ErrorKind::NotFound`].
    pub fn io(doing: impl fmt::Display, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Self { kind, message: format!("cannot {doing}: {source}"), place: None, source: Some(source) }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The damaged file and the offset in it, for [`ErrorKind::Corruption`].
    pub fn place(&self) -> Option<(&Path, u64)> {
        self.place.as_ref().map(|(path, offset)| (path.as_path(), *offset))
    }

    /// The message without the damaged place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((path, offset)) => write!(f, "{} is damaged at offset {offset}: {}", path.display(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_full_and_a_missing_file_is_not_found() {
        let full = Error::io("write x", std::io::Error::from_raw_os_error(28));
        assert_eq!(full.kind(), ErrorKind::Full);
        let missing = Error::io("open x", std::io::Error::from_raw_os_error(2));
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn corruption_names_file_and_offset() {
        let e = Error::corruption("a/b", 12, "checksum differs");
        assert_eq!(e.to_string(), "a/b is damaged at offset 12: checksum differs");
        assert_eq!(e.place(), Some((Path::new("a/b"), 12)));
    }
}
