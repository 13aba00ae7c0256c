//! How a command fails: a status for scripts and one line for people.

use std::fmt;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operation failed: exit status 1.
    Failed(String),
    /// The arguments are wrong: exit status 2.
    Usage(String),
    /// A key that was asked for is absent: exit status 1, and exactly `not found`.
    NotFound,
    /// Nobody reads the output any more: exit status 0, nothing to say.
    Closed,
}

/// The result of a command.
pub(crate) type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::NotFound => 1,
            Self::Usage(_) => 2,
            Self::Closed => 0,
        }
    }

    /// The operation failed; `message` says what to do.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// The arguments are wrong; `message` says how to mend them.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// An error of writing to standard output.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::Closed
        } else {
            Self::Failed(format!("cannot write to standard output: {error}"))
        }
    }

    /// An error of opening or reading the file `path`.
    pub(crate) fn input(path: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::Failed(format!("cannot read {path}: {error}"))
    }
}

impl From<biombo::Error> for Failure {
    fn from(error: biombo::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for Failure {
    /// One line, whatever the message holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Failed(message) | Self::Usage(message)) = self else { return Ok(()) };
        let mut words = message.split('\n').map(str::trim).filter(|line| !line.is_empty());
        f.write_str(words.next().unwrap_or("failed"))?;
        words.try_for_each(|line| write!(f, "; {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        assert_eq!(Failure::failed("first\n\n  second\n").to_string(), "first; second");
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::output(&closed).status(), 0);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Failure::output(&full).status(), 1);
    }
}
