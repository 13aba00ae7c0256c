//! The beginning of a trace as a trace of its own.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use biombo_base::{Error, Result};

use super::Reader;
use crate::workload::OpKind;

/// Write the first `operations` of the trace `from` into the new file `to`; fewer where it has fewer. A broken line among them is an
/// error that names it.
pub fn head(from: &Path, to: &Path, operations: u64) -> Result<()> {
    let failed = |e| Error::io(format!("write {}", to.display()), e);
    let mut output = BufWriter::new(File::create_new(to).map_err(failed)?);
    let mut reader = Reader::open(from)?;
    for _ in 0..operations {
        let Some(line) = reader.line()? else { break };
        let number: &[u8] = match line.kind {
            OpKind::Read => b"0,",
            OpKind::Scan => b"2,",
            _ => b"1,",
        };
        output.write_all(number).and_then(|()| output.write_all(line.key)).map_err(failed)?;
        if line.kind == OpKind::Scan {
            write!(output, ",{}", line.limit).map_err(failed)?;
        }
        output.write_all(b"\n").map_err(failed)?;
    }
    output.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_as_it_was_and_not_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("all"), b"0,a\r\n1,\xff b\n2,c,17\n0,d\nbroken\n").unwrap();
        let read = |name: &str| std::fs::read(path(name)).unwrap();
        head(&path("all"), &path("three"), 3).unwrap();
        assert_eq!(read("three"), b"0,a\n1,\xff b\n2,c,17\n");
        assert!(head(&path("all"), &path("more"), 5).unwrap_err().to_string().contains("all:5"));
        head(&path("three"), &path("whole"), 1_000).unwrap();
        assert_eq!(read("whole"), read("three"));
        assert!(head(&path("three"), &path("whole"), 1).unwrap_err().to_string().contains("whole"));
    }
}
