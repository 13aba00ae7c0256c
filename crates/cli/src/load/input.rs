//! Records out of a file or a pipe, line by line, each with its number; a broken line ends them with its place and reason.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use biombo::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::failure::{Done, Failure};
use crate::format::InputFormat;

/// Longer than any line that a record may need (four characters for each byte and some room): such a line is no record, and
/// must not fill the memory.
const LINE_BYTES_MAX: usize = 4 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 1024;

/// How much is read at once.
const READ_BYTES: usize = 256 << 10;

/// A file or standard input, cut into lines.
pub(crate) struct Input {
    reader: Box<dyn Read>,
    name: String,
    format: InputFormat,
    buffer: Vec<u8>,
    /// What of `buffer` is read and not yet handed out.
    begin: usize,
    end: usize,
    ended: bool,
    number: u64,
    consumed_bytes: u64,
    total_bytes: Option<u64>,
}

/// What the next look at the input gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// `key` and `value` hold a record.
    Record,
    /// No whole line is at hand, and the next read may take long: hand on what there is.
    Pause,
    /// The input is at its end.
    End,
}

impl Input {
    /// Open `file`; `-` and none mean standard input.
    pub(crate) fn open(file: Option<&Path>, format: InputFormat) -> Done<Self> {
        let file = file.filter(|file| *file != Path::new("-"));
        let (reader, name, total_bytes): (Box<dyn Read>, _, _) = match file {
            Some(path) => {
                let open = |path: &Path| {
                    let file = File::open(path)?;
                    let meta = file.metadata()?;
                    if meta.is_dir() {
                        return Err(std::io::Error::other("it is a directory, not a file of records"));
                    }
                    Ok((file, meta))
                };
                let (file, meta) = open(path).map_err(|e| Failure::input(path.display(), &e))?;
                (Box::new(file), path.display().to_string(), meta.is_file().then_some(meta.len()))
            }
            None => {
                let stdin = std::io::stdin();
                if stdin.is_terminal() {
                    crate::note("reading records from the terminal; end them with Ctrl-D");
                }
                (Box::new(stdin), "standard input".to_owned(), None)
            }
        };
        Ok(Self::new(reader, name, format, total_bytes))
    }

    fn new(reader: Box<dyn Read>, name: String, format: InputFormat, total_bytes: Option<u64>) -> Self {
        let buffer = vec![0; READ_BYTES];
        Self { reader, name, format, buffer, begin: 0, end: 0, ended: false, number: 0, consumed_bytes: 0, total_bytes }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the last line handed out, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of the lines handed out.
    pub(crate) fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }

    /// Its length, where it has one.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The place and reason of a fault in the last line.
    pub(crate) fn fault(&self, reason: impl std::fmt::Display) -> String {
        format!("{}:{}: {reason}", self.name, self.number)
    }

    /// The next record into `key` and `value`. With `may_wait`, never [`Next::Pause`].
    pub(crate) fn next(&mut self, may_wait: bool, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Next, String> {
        let Some(line_end) = self.find_line(may_wait)? else {
            return Ok(if self.ended && self.begin == self.end { Next::End } else { Next::Pause });
        };
        self.number += 1;
        let line = &self.buffer[self.begin..line_end];
        let read = self.format.read(line, self.number, key, value);
        let after = (line_end + 1).min(self.end);
        self.consumed_bytes += (after - self.begin) as u64;
        self.begin = after;
        read.map_err(|reason| self.fault(reason))?;
        Ok(Next::Record)
    }

    /// Where the next line ends (its newline, or the end of the input).
    fn find_line(&mut self, may_wait: bool) -> Result<Option<usize>, String> {
        let mut looked = self.begin;
        loop {
            if let Some(at) = self.buffer[looked..self.end].iter().position(|byte| *byte == b'\n') {
                return Ok(Some(looked + at));
            }
            if self.ended {
                return Ok((self.begin < self.end).then_some(self.end));
            }
            if !may_wait {
                return Ok(None);
            }
            looked = self.end - self.begin;
            self.fill()?;
            looked += self.begin;
        }
    }

    /// Read more behind what is held; afterwards `begin` is 0.
    fn fill(&mut self) -> Result<(), String> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if self.end == self.buffer.len() {
            if self.end >= LINE_BYTES_MAX {
                self.number += 1;
                return Err(self.fault("the line is longer than any record can be"));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.end += bytes,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(format!("cannot read {} after line {}: {e}", self.name, self.number)),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives `step` bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let bytes = self.1.min(self.0.len()).min(into.len());
            into[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0.drain(..bytes);
            Ok(bytes)
        }
    }

    type Records = Vec<(Vec<u8>, Vec<u8>)>;

    /// The records of `text`, the fault that ended them, and the bytes consumed.
    fn all(text: &[u8], step: usize) -> (Records, Option<String>, u64) {
        let mut input = Input::new(Box::new(Slow(text.to_vec(), step)), "t".into(), InputFormat::Tsv, None);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut records = Vec::new();
        loop {
            match input.next(true, &mut key, &mut value) {
                Ok(Next::Record) => records.push((key.clone(), value.clone())),
                Ok(Next::End) => return (records, None, input.consumed_bytes()),
                Ok(Next::Pause) => panic!("a pause although it may wait"),
                Err(reason) => return (records, Some(reason), input.consumed_bytes()),
            }
        }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"a\t1\nbb\t\n\nccc\t3";
        for step in 1..=text.len() {
            let (records, reason, consumed) = all(text, step);
            assert_eq!(records.len(), 2);
            assert_eq!(consumed, 9);
            assert!(reason.is_some_and(|reason| reason.starts_with("t:3: no tab")));
        }
        let (records, reason, consumed) = all(b"a\t1\nb\t2", 3);
        assert_eq!((records.len(), reason, consumed), (2, None, 7));
        assert_eq!(all(b"", 3).0.len(), 0);
    }

    #[test]
    fn lines_longer_than_the_buffer_are_read_whole() {
        let mut text = b"k\t".to_vec();
        text.extend(std::iter::repeat_n(b'v', READ_BYTES * 3));
        text.extend(b"\nl\tw\n");
        let (records, reason, consumed) = all(&text, 70_001);
        assert_eq!(reason, None);
        assert_eq!(records[0].1.len(), READ_BYTES * 3);
        assert_eq!(records[1], (b"l".to_vec(), b"w".to_vec()));
        assert_eq!(consumed, text.len() as u64);
    }
}
