//! The log files of LevelDB's family: their torn tails, and their bytes.
//!
//! Both libraries can either refuse every damaged record or forgive all of them: neither tells a record that a power cut
//! tore while it was written (never acknowledged, nothing follows it) from a damaged record that was acknowledged. The
//! adapters open strictly, and ask here when that fails.
//!
//! The format (LevelDB, `doc/log_format.md`; RocksDB's is the same without recycling): blocks of 32 KiB, records of
//! `{masked crc32c: 4, length: 2, type: 1, payload}`, the crc over type and payload; a block's last bytes that cannot hold a
//! header are zero. What does not fit into a block is a first fragment, middle ones and a last one: the pages of one write of that kind reach
//! the device in any order, so a power cut may leave a hole in it, and whole fragments behind the hole.
//!
//! What it cannot tell apart: damage, and a power cut that has kept a later record which nobody had asked to be durable. Then the files are
//! left as they are and the error says where.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use biombo_base::{Error, Result};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// Full, first, middle, last; RocksDB has the same four of recycled files above them, then settings, each in one record.
const FIRST: [u8; 2] = [2, 6];
const MIDDLE: [u8; 2] = [3, 7];
const LAST: [u8; 2] = [4, 8];
const TYPE_MAX: u8 = 13;

/// Whether nothing was written behind what is damaged in the log files in `dir`: no record begins there, in the same file or a later one.
///
/// # Errors
/// `Corruption` with the file and offset of the first damage that has a valid record behind it; what the file system says.
/// `Ok(false)`: the logs are not damaged at all; the fault lies elsewhere.
pub(crate) fn only_tails_are_torn(dir: &Path) -> Result<bool> {
    let mut torn: Option<(PathBuf, u64)> = None;
    let damaged = |path, offset, what: &str| {
        Err(Error::corruption(
            path,
            offset,
            format!("a record of the log is damaged and valid ones follow it{what}; restore the directory from a copy"),
        ))
    };
    for path in log_files(dir)? {
        let bytes = fs::read(&path).map_err(|e| Error::io(format_args!("read {}", path.display()), e))?;
        let found = scan(&bytes);
        if let Some((torn, offset)) = &torn
            && found.has_records
        {
            return damaged(torn.clone(), *offset, " in a later one");
        }
        match found.tail {
            Tail::Whole => {}
            Tail::TornAt(offset) => {
                torn.get_or_insert((path, offset));
            }
            Tail::DamagedAt(offset) => return damaged(path, offset, ""),
        }
    }
    Ok(torn.is_some())
}

/// The first damage in a log file (also a MANIFEST) that has a valid record behind it: its offset.
#[cfg(feature = "leveldb")]
pub(crate) fn damage_in(log: &[u8]) -> Option<u64> {
    match scan(log).tail {
        Tail::DamagedAt(offset) => Some(offset),
        Tail::Whole | Tail::TornAt(_) => None,
    }
}

/// The log files in `dir`, oldest first.
pub(crate) fn log_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter(|path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().bytes().all(|b| b.is_ascii_digit())))
        .collect();
    // Numbers have at least six digits and no fixed width: the longer one is the later.
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(found)
}

/// Bytes of the log files in `dir`. Each file goes when its memtable has become a table, and frames a record in about as many bytes as a
/// table does: so they are about what the tables of all memtables will have. A table is smaller where values compress, and where a key was
/// put more than once into one memtable.
pub(crate) fn log_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for log in log_files(dir)? {
        match fs::metadata(&log) {
            Ok(metadata) => bytes += metadata.len(),
            // Its memtable has become a table in between.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(format_args!("look at {}", log.display()), e)),
        }
    }
    Ok(bytes)
}

#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Whole,
    TornAt(u64),
    DamagedAt(u64),
}

struct Found {
    tail: Tail,
    /// Whether any record begins in it.
    has_records: bool,
}

/// Walk the records. After a damaged one its length cannot be trusted, so what follows is looked for at every offset of its block, and at the
/// beginning of the next ones. Only the beginning of a record proves that something was written later: fragments may be the rest of the
/// damaged one.
fn scan(log: &[u8]) -> Found {
    let mut damage = None;
    let mut has_records = false;
    // The beginning of a record of which the last fragment is still to come.
    let mut open = None;
    let mut at = 0;
    while at < log.len() {
        let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        if block_end - at < HEADER_BYTES {
            at = block_end;
            continue;
        }
        let begins_later = || {
            let mut later = at + 1..(block_end - HEADER_BYTES + 1).min(log.len());
            later.any(|at| matches!(record(log, at, block_end), Record::Valid(_, kind) if is_beginning(kind)))
        };
        match record(log, at, block_end) {
            Record::Valid(end, kind) if is_beginning(kind) => {
                has_records = true;
                if let Some(offset) = damage.or(open) {
                    return Found { tail: Tail::DamagedAt(offset), has_records };
                }
                open = FIRST.contains(&kind).then_some(at as u64);
                at = end;
            }
            Record::Valid(end, kind) => {
                if open.is_none() {
                    damage.get_or_insert(at as u64);
                }
                if LAST.contains(&kind) {
                    open = None;
                }
                at = end;
            }
            // Space that was made ahead, or what has never reached the device: nothing more in this block.
            Record::Zero if open.is_none() && damage.is_none() && !begins_later() => at = block_end,
            Record::Zero | Record::Bad => {
                let offset = *damage.get_or_insert(open.take().unwrap_or(at as u64));
                if begins_later() {
                    return Found { tail: Tail::DamagedAt(offset), has_records: true };
                }
                at = block_end;
            }
        }
    }
    Found { tail: damage.map_or(Tail::Whole, Tail::TornAt), has_records }
}

enum Record {
    /// Where the next one is, and its type.
    Valid(usize, u8),
    Zero,
    Bad,
}

/// Whether a record begins with a fragment of this type.
fn is_beginning(kind: u8) -> bool {
    kind > 0 && !MIDDLE.contains(&kind) && !LAST.contains(&kind)
}

fn record(log: &[u8], at: usize, block_end: usize) -> Record {
    let Some(header) = log.get(at..at + HEADER_BYTES) else { return Record::Bad };
    let crc = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
    if header.iter().all(|byte| *byte == 0) {
        return Record::Zero;
    }
    let end = at + HEADER_BYTES + len;
    if end > block_end || header[6] > TYPE_MAX {
        return Record::Bad;
    }
    match log.get(at + HEADER_BYTES - 1..end) {
        Some(covered) if mask(crc32c::crc32c(covered)) == crc => Record::Valid(end, header[6]),
        _ => Record::Bad,
    }
}

/// The mask that both libraries put over a stored crc.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut Vec<u8>, kind: u8, payload: &[u8]) {
        let mut covered = vec![kind];
        covered.extend_from_slice(payload);
        log.extend_from_slice(&mask(crc32c::crc32c(&covered)).to_le_bytes());
        log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        log.extend_from_slice(&covered);
    }

    fn log(payloads: &[&[u8]]) -> Vec<u8> {
        let mut log = Vec::new();
        payloads.iter().for_each(|payload| add(&mut log, 1, payload));
        log
    }

    /// A record, then one that begins behind it, fills two blocks more and ends in a fourth.
    fn of_four_blocks() -> (Vec<u8>, u64) {
        let mut log = log(&[b"first"]);
        let begins = log.len();
        add(&mut log, 2, &vec![7; BLOCK_BYTES - begins - HEADER_BYTES]);
        for (kind, bytes) in [(3, BLOCK_BYTES - HEADER_BYTES), (3, BLOCK_BYTES - HEADER_BYTES), (4, 99)] {
            add(&mut log, kind, &vec![7; bytes]);
        }
        (log, begins as u64)
    }

    /// Fails when a fragment behind a hole is taken for another record: a power cut within an unacknowledged write would keep the store
    /// from opening.
    #[test]
    fn a_hole_in_a_record_of_several_blocks_is_a_torn_tail_and_before_another_record_it_is_damage() {
        let (whole, begins) = of_four_blocks();
        assert_eq!(scan(&whole).tail, Tail::Whole);
        let cut: [fn(&mut [u8]); 4] = [
            |log| log[BLOCK_BYTES..2 * BLOCK_BYTES].fill(0),
            |log| log[BLOCK_BYTES + 4096..2 * BLOCK_BYTES].fill(0),
            |log| log[BLOCK_BYTES - 1] ^= 1,
            |log| log[BLOCK_BYTES..].fill(0),
        ];
        for (number, cut) in cut.into_iter().enumerate() {
            let mut log = whole.clone();
            cut(&mut log);
            assert_eq!(scan(&log).tail, Tail::TornAt(begins), "{number}");
            add(&mut log, 1, b"later");
            assert_eq!(scan(&log).tail, Tail::DamagedAt(begins), "{number}");
        }
        // The beginning itself is what is not there.
        let mut log = whole;
        log[..BLOCK_BYTES].fill(0);
        assert_eq!(scan(&log).tail, Tail::TornAt(BLOCK_BYTES as u64));
        // A record that never ends and is followed by another one.
        let (mut log, begins) = of_four_blocks();
        log.truncate(2 * BLOCK_BYTES);
        add(&mut log, 1, b"later");
        assert_eq!(scan(&log).tail, Tail::DamagedAt(begins));
    }

    /// Fails when the beginning of a record is not looked for in the block where another one is damaged: of what lies in later blocks nothing says
    /// that it is not the rest of that one.
    #[test]
    fn a_record_that_begins_behind_damage_in_its_block_is_found_whatever_the_damage_says() {
        let (whole, begins) = of_four_blocks();
        // The length of the first record, its type, all of its header.
        let damages: [fn(&mut [u8]); 4] =
            [|log| log[5] = 0xff, |log| log[4] += 2, |log| log[6] = 0xff, |log| log[..HEADER_BYTES].fill(0)];
        assert_eq!(begins, 12);
        for damage in damages {
            let mut log = whole.clone();
            damage(&mut log);
            assert_eq!(scan(&log).tail, Tail::DamagedAt(0));
        }
    }

    /// Fails when each file is judged alone: the libraries drop what they find behind the damage.
    #[test]
    fn damage_at_the_end_of_a_log_that_a_later_one_follows_is_no_torn_tail() {
        let dir = tempfile::tempdir().unwrap();
        let mut torn = log(&[b"first", b"second"]);
        *torn.last_mut().unwrap() ^= 1;
        fs::write(dir.path().join("000004.log"), &torn).unwrap();
        fs::write(dir.path().join("000005.log"), [0; 4096]).unwrap();
        assert!(only_tails_are_torn(dir.path()).unwrap(), "a later file without a record");
        fs::write(dir.path().join("000005.log"), log(&[b"later"])).unwrap();
        let refused = only_tails_are_torn(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("000004.log") && refused.contains("offset 12"), "{refused}");
    }

    #[test]
    fn damage_in_the_last_record_is_a_torn_tail_and_before_another_it_is_damage() {
        let whole = log(&[b"first", b"second", b"third"]);
        let scan = |log: &[u8]| scan(log).tail;
        assert_eq!(scan(&whole), Tail::Whole);
        let mut torn = whole.clone();
        *torn.last_mut().unwrap() ^= 1;
        assert_eq!(scan(&torn), Tail::TornAt(12 + 13));
        assert_eq!(scan(&whole[..whole.len() - 2]), Tail::TornAt(12 + 13));
        let mut damaged = whole.clone();
        damaged[12 + 9] ^= 1;
        assert_eq!(scan(&damaged), Tail::DamagedAt(12));
    }

    #[test]
    fn a_valid_record_in_a_later_block_is_found_behind_a_damaged_length() {
        let scan = |log: &[u8]| scan(log).tail;
        let mut damaged = log(&[b"first"]);
        damaged[5] = 0xff;
        damaged.resize(BLOCK_BYTES, 0);
        assert_eq!(scan(&damaged), Tail::TornAt(0));
        damaged.extend(log(&[b"later"]));
        assert_eq!(scan(&damaged), Tail::DamagedAt(0));
    }
}
