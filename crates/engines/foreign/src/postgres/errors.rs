//! What PostgreSQL answers, as errors that say what to do.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use biombo_base::{Error, ErrorKind};

/// Whether the server refused a statement and goes on; otherwise nobody knows what became of it.
pub(super) fn is_refusal(error: &postgres::Error) -> bool {
    // A server that ends says so to each of its connections (class 57P).
    error.as_db_error().is_some_and(|said| !said.code().code().starts_with("57P")) && !error.is_closed()
}

/// Whether the same transaction may go through when it is tried again: a deadlock, or a conflict of transactions.
pub(super) fn is_conflict(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| ["40P01", "40001"].contains(&said.code().code()))
}

/// Whether the server found its own files damaged.
pub(super) fn is_damage(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| said.code().code().starts_with("XX"))
}

/// The error behind a statement that was refused while `doing` something with the table in `dir`.
pub(super) fn refused(error: &postgres::Error, doing: &str, dir: &Path) -> Error {
    let (code, message) = match error.as_db_error() {
        Some(said) => (said.code().code().to_owned(), one_line(said.message())),
        None => (String::new(), one_line(&error.to_string())),
    };
    let text = format!("cannot {doing} the PostgreSQL table of {}: {message}", dir.display());
    match code.as_str() {
        "53100" => Error::new(ErrorKind::Full, format!("{text}; free room and try again")),
        "53300" => Error::new(ErrorKind::Busy, format!("{text}: drop snapshots or cursors, or use fewer threads")),
        "40P01" | "40001" => Error::new(ErrorKind::Conflict, text),
        "54000" => Error::invalid(text),
        code if code.starts_with("XX") => Error::corruption(dir, 0, message),
        _ => Error::new(ErrorKind::Io, text),
    }
}

/// What a server said last of its own end, on one line: by its log the last words of the highest weight.
pub(super) fn last_words(log: &Path) -> String {
    const READ: u64 = 16 << 10;
    let mut text = Vec::new();
    if let Ok(mut file) = fs::File::open(log) {
        let length = file.metadata().map_or(0, |meta| meta.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(READ)));
        let _ = file.take(READ).read_to_end(&mut text);
    }
    weightiest(&String::from_utf8_lossy(&text))
}

fn weightiest(log: &str) -> String {
    let last = |weight: &str| log.lines().rfind(|line| line.contains(weight));
    let line =
        ["PANIC:", "FATAL:", "ERROR:"].iter().find_map(|weight| last(weight)).or_else(|| log.lines().next_back());
    let line = line.unwrap_or("it left no word");
    // Without the time and the process before it.
    let from = ["PANIC:", "FATAL:", "ERROR:", "LOG:", "initdb:"].iter().filter_map(|word| line.find(word)).min();
    one_line(&line[from.unwrap_or(0)..])
}

/// `message` without newlines and runs of blanks.
pub(super) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Full` where `words` speak of a full disk, `otherwise` else.
pub(super) fn kind_of(words: &str, otherwise: ErrorKind) -> ErrorKind {
    let full = words.contains("No space left on device") || words.contains("Disk quota exceeded");
    if full { ErrorKind::Full } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_those_that_say_why() {
        let log = "2026-01-01 10:00:00 UTC [1] LOG:  starting\n\
                   2026-01-01 10:00:01 UTC [7] PANIC:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device\n\
                   2026-01-01 10:00:02 UTC [1] LOG:  terminating any other active server processes\n";
        let words = weightiest(log);
        assert_eq!(words, "PANIC: could not write to file \"pg_wal/xlogtemp.7\": No space left on device");
        assert_eq!(kind_of(&words, ErrorKind::Io), ErrorKind::Full);
        assert_eq!(weightiest("x [1] LOG:  shut  down"), "LOG: shut down");
        assert_eq!(kind_of("LOG: shut down", ErrorKind::Io), ErrorKind::Io);
        assert_eq!(weightiest(""), "it left no word");
    }
}
