//! Edges out of files, as people download them: see [`EdgeReader`].

mod decompress;
mod matrix_market;
mod room;
mod text;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use biombo_base::{Error, ErrorKind, Result};

use matrix_market::{BANNER, Line, MatrixMarket};
use text::BadLine;

/// How much is read at once, and the longest line, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// What a reader meets, in the order of the file. Ids are as the file has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// An edge from the first to the second.
    Edge(u64, u64),
    /// All vertices from the first to the last exist, whether they have edges or not.
    Vertices {
        /// The first one.
        first: u64,
        /// The last one, included.
        last: u64,
    },
}

/// Reads edges from text, compressed with gzip or Zstandard or not at all (told by its first bytes, not by its name).
///
/// SNAP's format, `.el`, `.wel` and `.tel` (weights and times are left out; the order stays), and Matrix Market, told by its banner.
///
/// ```
/// use biombo_graph::input::{EdgeReader, Item};
/// let text = "# Directed graph: Wiki-Vote.txt\n30\t1412\n30\t3352\n";
/// let mut reader = EdgeReader::new(Box::new(text.as_bytes()), "text")?;
/// assert_eq!(reader.next_item()?, Some(Item::Edge(30, 1412)));
/// assert_eq!(reader.next_item()?, Some(Item::Edge(30, 3352)));
/// assert_eq!(reader.next_item()?, None);
/// assert_eq!(reader.is_directed(), Some(true));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub struct EdgeReader {
    source: Box<dyn Read>,
    name: String,
    buffer: Vec<u8>,
    /// What of `buffer` is read and not yet handed out.
    begin: usize,
    end: usize,
    is_at_end: bool,
    line: u64,
    matrix: Option<MatrixMarket>,
    is_directed: Option<bool>,
}

impl EdgeReader {
    /// Reads the file `path`; `-` means standard input.
    ///
    /// # Errors
    /// `NotFound`, `Io`; `Invalid` for a directory.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            return Self::new(Box::new(std::io::stdin()), "standard input");
        }
        let file = File::open(path).map_err(|e| Error::io(format_args!("open {name}"), e))?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::invalid(format!("{name} is a directory, not a file of edges")));
        }
        Self::new(Box::new(file), name)
    }

    /// Reads `source`, which messages call `name`.
    ///
    /// # Errors
    /// `Io` when its first bytes cannot be read.
    pub fn new(source: Box<dyn Read>, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let source = decompress::decompressed(source).map_err(|e| Error::io(format_args!("read {name}"), e))?;
        let buffer = vec![0; BUFFER_BYTES];
        let (begin, end, line) = (0, 0, 0);
        Ok(Self { source, name, buffer, begin, end, is_at_end: false, line, matrix: None, is_directed: None })
    }

    /// Whether the graph is directed, as far as the part of the file that has been read says: the comments of SNAP and the banner of
    /// Matrix Market do.
    pub fn is_directed(&self) -> Option<bool> {
        self.is_directed
    }

    /// Whether each edge stands for its mirror image too, as the entries of a symmetric matrix do: a directed graph has both.
    pub fn is_symmetric(&self) -> bool {
        self.matrix.as_ref().is_some_and(|matrix| matrix.is_symmetric)
    }

    /// The number of the line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next edge, or vertices that the file names otherwise; `None` at its end.
    ///
    /// # Errors
    /// `Invalid` for a line that is no edge, with its number and what is wrong, and for more vertices at once than a graph can have or than
    /// there is memory for; `Corruption` for damaged or cut-off compressed data;
    /// `Io`. The reader is of no use afterwards.
    pub fn next_item(&mut self) -> Result<Option<Item>> {
        while let Some((begin, end)) = self.next_line()? {
            let line = &self.buffer[begin..end];
            if self.line == 1 && line.starts_with(BANNER) {
                let matrix = MatrixMarket::new(line).map_err(|bad| self.bad(&bad))?;
                self.is_directed = Some(!matrix.is_symmetric);
                self.matrix = Some(matrix);
                continue;
            }
            let found = match &mut self.matrix {
                Some(matrix) => matrix.line(line).map(|line| match line {
                    Line::Empty | Line::Vertices(0) => None,
                    Line::Vertices(last) => Some(Item::Vertices { first: 1, last }),
                    Line::Edge(row, column) => Some(Item::Edge(row, column)),
                }),
                None => text::edge(line).map(|edge| edge.map(|(source, destination)| Item::Edge(source, destination))),
            };
            match found {
                Ok(Some(item)) => {
                    if let Item::Vertices { first, last } = item {
                        room::check(&self.name, (first, last))?;
                    }
                    return Ok(Some(item));
                }
                Ok(None) => self.heed_comment(begin, end),
                Err(bad) => return Err(self.bad(&bad)),
            }
        }
        if let Some(matrix) = &self.matrix {
            matrix.end().map_err(|bad| self.bad(&bad))?;
        }
        Ok(None)
    }

    /// SNAP says in a comment what kind of graph a file holds.
    fn heed_comment(&mut self, begin: usize, end: usize) {
        let line = &self.buffer[begin..end];
        if self.is_directed.is_none() && self.line <= 16 {
            let says =
                |word: &str| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
            if says("# directed graph") {
                self.is_directed = Some(true);
            } else if says("# undirected graph") {
                self.is_directed = Some(false);
            }
        }
    }

    fn bad(&self, bad: &BadLine) -> Error {
        Error::invalid(format!("{}, line {}: {}", self.name, self.line, bad.0))
    }

    /// Where in the buffer the next line stands, without its end.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>> {
        let mut searched = self.begin;
        loop {
            if let Some(length) = self.buffer[searched..self.end].iter().position(|byte| *byte == b'\n') {
                let line = (self.begin, searched + length);
                self.begin = line.1 + 1;
                self.line += 1;
                return Ok(Some(line));
            }
            if self.is_at_end {
                let line = (self.begin, self.end);
                self.begin = self.end;
                self.line += u64::from(line.0 < line.1);
                return Ok((line.0 < line.1).then_some(line));
            }
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            searched = self.end;
            if self.end == self.buffer.len() {
                self.line += 1;
                return Err(
                    self.bad(&BadLine(format!("it is longer than {BUFFER_BYTES} bytes: this is no file of edges")))
                );
            }
            let read = loop {
                match self.source.read(&mut self.buffer[self.end..]) {
                    Ok(read) => break read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.failed(error)),
                }
            };
            self.end += read;
            self.is_at_end = read == 0;
        }
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let name = &self.name;
        let behind = format!("after line {}", self.line);
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::new(
                ErrorKind::Corruption,
                format!("{name} ends in the middle of its compressed data ({behind}): it was cut off; fetch it again"),
            ),
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                Error::new(ErrorKind::Corruption, format!("{name} is damaged ({behind}): {error}"))
            }
            std::io::ErrorKind::Unsupported => Error::unsupported(format!("cannot read {name}: {error}")),
            _ => Error::io(format_args!("read {name}"), error),
        }
    }
}

#[cfg(test)]
mod tests;
