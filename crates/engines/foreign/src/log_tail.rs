//! Torn tails of the log files of LevelDB's family.
//!
//! Both libraries can either refuse every damaged record or forgive all of them: neither tells a record that a power cut
//! tore while it was written (never acknowledged, nothing follows it) from a damaged record that was acknowledged. The
//! adapters open strictly, and ask here when that fails.
//!
//! The format (LevelDB, `doc/log_format.md`; RocksDB's is the same without recycling): blocks of 32 KiB, records of
//! `{masked crc32c: 4, length: 2, type: 1, payload}`, the crc over type and payload; a block's last bytes that cannot hold a
//! header are zero.

use std::fs;
use std::path::{Path, PathBuf};

use biombo_base::{Error, Result};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// Full, first, middle, last; RocksDB has more above them (recycled records, settings).
const TYPE_MAX: u8 = 13;

/// Whether no log file in `dir` holds a valid record behind a damaged one, so that what is damaged was being written last.
///
/// # Errors
/// `Corruption` with the file and offset of the first damage that has a valid record behind it; what the file system says.
/// `Ok(false)`: the logs are not damaged at all; the fault lies elsewhere.
pub(crate) fn only_tails_are_torn(dir: &Path) -> Result<bool> {
    let mut torn = false;
    for path in log_files(dir)? {
        let bytes = fs::read(&path).map_err(|e| Error::io(format_args!("read {}", path.display()), e))?;
        match scan(&bytes) {
            Tail::Whole => {}
            Tail::TornAt(_) => torn = true,
            Tail::DamagedAt(offset) => {
                return Err(Error::corruption(
                    path,
                    offset,
                    "a record of the log is damaged and valid ones follow it; restore the directory from a copy",
                ));
            }
        }
    }
    Ok(torn)
}

/// The first damage in a log file (also a MANIFEST) that has a valid record behind it: its offset.
#[cfg(feature = "leveldb")]
pub(crate) fn damage_in(log: &[u8]) -> Option<u64> {
    match scan(log) {
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

#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Whole,
    TornAt(u64),
    DamagedAt(u64),
}

/// Walk the records. After a damaged one its length cannot be trusted, so what follows is looked for at the beginning of the
/// next blocks, and, where the damaged record's header leaves it in its block, right behind it.
fn scan(log: &[u8]) -> Tail {
    let mut damage = None;
    let mut at = 0;
    while at < log.len() {
        let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        if block_end - at < HEADER_BYTES {
            at = block_end;
            continue;
        }
        match record(log, at, block_end) {
            Record::Valid(end) => {
                if let Some(offset) = damage {
                    return Tail::DamagedAt(offset);
                }
                at = end;
            }
            // Preallocated or padded space: nothing more in this block.
            Record::Zero => at = block_end,
            Record::Bad(end) => {
                damage.get_or_insert(at as u64);
                at = end.unwrap_or(block_end);
            }
        }
    }
    damage.map_or(Tail::Whole, Tail::TornAt)
}

enum Record {
    Valid(usize),
    Zero,
    /// Damaged; where the next one would be if its length is right.
    Bad(Option<usize>),
}

fn record(log: &[u8], at: usize, block_end: usize) -> Record {
    let Some(header) = log.get(at..at + HEADER_BYTES) else { return Record::Bad(None) };
    let crc = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
    if header.iter().all(|byte| *byte == 0) {
        return Record::Zero;
    }
    let end = at + HEADER_BYTES + len;
    if end > block_end || header[6] > TYPE_MAX {
        return Record::Bad(None);
    }
    match log.get(at + HEADER_BYTES - 1..end) {
        Some(covered) if mask(crc32c::crc32c(covered)) == crc => Record::Valid(end),
        Some(_) => Record::Bad(Some(end)),
        None => Record::Bad(None),
    }
}

/// The mask that both libraries put over a stored crc.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(payloads: &[&[u8]]) -> Vec<u8> {
        let mut log = Vec::new();
        for payload in payloads {
            let mut covered = vec![1u8];
            covered.extend_from_slice(payload);
            log.extend_from_slice(&mask(crc32c::crc32c(&covered)).to_le_bytes());
            log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
            log.extend_from_slice(&covered);
        }
        log
    }

    #[test]
    fn damage_in_the_last_record_is_a_torn_tail_and_before_another_it_is_damage() {
        let whole = log(&[b"first", b"second", b"third"]);
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
        let mut damaged = log(&[b"first"]);
        damaged[5] = 0xff;
        damaged.resize(BLOCK_BYTES, 0);
        assert_eq!(scan(&damaged), Tail::TornAt(0));
        damaged.extend(log(&[b"later"]));
        assert_eq!(scan(&damaged), Tail::DamagedAt(0));
    }
}
