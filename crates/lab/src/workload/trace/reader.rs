//! A trace file, a line at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use biombo_base::{Error, Result};
use biombo_engine::capabilities::KEY_BYTES_MAX;

use super::line::{Line, parse};

/// A line that is longer than any right one is not read to its end.
const LINE_BYTES_MAX: u64 = KEY_BYTES_MAX as u64 + 64;
const BUFFER_BYTES: usize = 256 << 10;

/// Reads one file; holds one line and one buffer of it.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Reader {
    /// Of the file `path`, before its first line.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::io(format!("read the trace {}", path.display()), e);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(Error::invalid(format!("{} is a directory: name the files of the trace", path.display())));
        }
        Ok(Self {
            path: path.to_owned(),
            input: BufReader::with_capacity(BUFFER_BYTES, file),
            line: Vec::new(),
            number: 0,
        })
    }

    /// The next operation; `None` at the end. `Invalid` names the file, the line and what is wrong with it.
    #[inline]
    pub fn line(&mut self) -> Result<Option<Line<'_>>> {
        self.line.clear();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        if read.map_err(|e| Error::io(format!("read the trace {}", self.path.display()), e))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        }
        match parse(&self.line) {
            Ok(line) => Ok(Some(line)),
            Err(what) => Err(Error::invalid(format!("{}:{}: {what}", self.path.display(), self.number))),
        }
    }

    /// Begin anew with the first line.
    pub fn rewind(&mut self) -> Result<()> {
        self.input.rewind().map_err(|e| Error::io(format!("read the trace {} again", self.path.display()), e))?;
        self.number = 0;
        Ok(())
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.txt");
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn keys(reader: &mut Reader) -> Vec<String> {
        let mut keys = Vec::new();
        while let Some(line) = reader.line().unwrap() {
            keys.push(String::from_utf8(line.key.to_vec()).unwrap());
        }
        keys
    }

    #[test]
    fn lines_end_in_either_way_and_the_last_one_may_not_end() {
        let (_dir, path) = file(b"0,a\r\n1,b\n2,c,3");
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(keys(&mut reader), ["a", "b", "c"]);
        assert_eq!(reader.number(), 3);
        reader.rewind().unwrap();
        assert_eq!((keys(&mut reader), reader.number()), (vec!["a".into(), "b".into(), "c".into()], 3));
    }

    #[test]
    fn a_broken_line_is_named_by_file_and_line_and_costs_no_memory() {
        let mut bytes = b"0,a\n0,b\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'k', 3 << 20));
        let (_dir, path) = file(&bytes);
        let mut reader = Reader::open(&path).unwrap();
        assert!(reader.line().unwrap().is_some() && reader.line().unwrap().is_some());
        let error = reader.line().unwrap_err().to_string();
        assert!(error.contains("trace.txt:3: the operation `kkk"), "{error}");
        assert!(reader.line.capacity() <= 2 * LINE_BYTES_MAX as usize, "{} bytes are held", reader.line.capacity());
    }

    #[test]
    fn what_is_no_file_is_said() {
        let error = Reader::open(Path::new("/no/such/trace")).unwrap_err().to_string();
        assert!(error.contains("/no/such/trace"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        assert!(Reader::open(dir.path()).unwrap_err().to_string().contains("is a directory"));
    }
}
