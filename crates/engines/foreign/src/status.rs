//! The status messages of LevelDB's family as errors: what kind, which file, which offset.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use biombo_base::{Error, ErrorKind};

/// The error behind a status message of LevelDB or RocksDB while `doing` something in `dir`.
pub(crate) fn status_error(message: &str, doing: &str, dir: &Path) -> Error {
    let line = message.replace('\n', " ");
    let text = format!("cannot {doing} in {}: {line}", dir.display());
    if line.contains("No space left on device") || line.contains("Disk quota exceeded") {
        return Error::new(ErrorKind::Full, format!("{text}; free room and open the store again"));
    }
    if line.starts_with("Corruption") {
        let (file, offset) = place(&line).unwrap_or_else(|| (dir.to_owned(), 0));
        return Error::corruption(file, offset, line);
    }
    if line.starts_with("Invalid argument") {
        return Error::invalid(text);
    }
    if line.starts_with("Not implemented") {
        return Error::unsupported(text);
    }
    if line.contains("lock") && (line.contains("already held") || line.contains("temporarily unavailable")) {
        return Error::new(ErrorKind::Busy, format!("{text}; another process has it open"));
    }
    Error::new(ErrorKind::Io, text)
}

/// The file that a message names, and the offset if it says one: `... in /dir/000009.sst offset 12 size 4096`.
fn place(message: &str) -> Option<(PathBuf, u64)> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let is_file = |word: &str| {
        let name = Path::new(word).file_name().map(OsStr::to_string_lossy);
        name.is_some_and(|name| {
            name.starts_with("MANIFEST-")
                || name == "CURRENT"
                || [".sst", ".ldb", ".log"].iter().any(|suffix| name.ends_with(suffix))
        })
    };
    let trim = |word: &str| word.trim_end_matches([':', ',', ';', '.', ')']).trim_start_matches('(').to_owned();
    let at = words.iter().position(|word| word.contains('/') && is_file(&trim(word)))?;
    let offset = words[at..].windows(2).find(|pair| pair[0] == "offset").and_then(|pair| trim(pair[1]).parse().ok());
    Some((PathBuf::from(trim(words[at])), offset.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corruption_names_the_file_and_the_offset_of_the_message() {
        let message = "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /d/000009.sst offset 12 size 40";
        let error = status_error(message, "read", Path::new("/d"));
        assert_eq!(error.place(), Some((Path::new("/d/000009.sst"), 12)));
    }

    #[test]
    fn a_full_disk_and_a_held_lock_have_their_kinds() {
        let full = status_error("IO error: /d/000003.log: No space left on device", "write", Path::new("/d"));
        assert_eq!(full.kind(), ErrorKind::Full);
        let busy = status_error("IO error: lock /d/LOCK: already held by process", "open", Path::new("/d"));
        assert_eq!(busy.kind(), ErrorKind::Busy);
    }
}
