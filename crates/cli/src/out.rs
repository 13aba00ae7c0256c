//! Standard output: buffered, and every error of it a [`Failure`].

use std::io::{BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use serde::Serialize;

use crate::failure::{Done, Failure};

/// Whether a name means the standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A parser of the name of a file that is written beside what goes to standard output.
pub(crate) fn file_name() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match is_stdout(&path) {
        true => Err("standard output has the results already: name a file (./- for one that is called so)"),
        false => Ok(path),
    })
}

/// The buffered standard output. [`finish`](Out::finish) it: what is still buffered when it is dropped may be lost without a
/// word.
pub(crate) struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    /// Lock the standard output for as long as this lives.
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, std::io::stdout().lock()))
    }

    /// Write bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Done {
        self.0.write_all(bytes).map_err(|e| Failure::output(&e))
    }

    /// Write a line.
    pub(crate) fn line(&mut self, line: impl std::fmt::Display) -> Done {
        writeln!(self.0, "{line}").map_err(|e| Failure::output(&e))
    }

    /// Write one JSON object as a line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Done {
        serde_json::to_writer(&mut self.0, value).map_err(|e| Failure::output(&e.into()))?;
        self.bytes(b"\n")
    }

    /// The end of the output: hand everything to the reader.
    pub(crate) fn finish(mut self) -> Done {
        self.0.flush().map_err(|e| Failure::output(&e))
    }
}

/// For what prints itself; its errors go through [`Failure::output`].
impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
