//! The two first pages: which tree the file holds.
//!
//! A checkpoint writes the one that is older, so that a write that is cut leaves the other. The sound one with the greater generation
//! counts.

use std::path::Path;

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{AlignedBuf, File};
use biombo_base::{Error, Result};
use biombo_journal::Lsn;

use super::page::{PAGE_BYTES, Run};
use crate::home::FORMAT_VERSION;

const MAGIC: [u8; 8] = *b"BIOMBOBT";
/// Pages that are no part of the tree, at the beginning of the file.
pub(crate) const META_PAGES: u32 = 2;
/// Where the checksum lies: of all before it.
const CRC_AT: usize = 64;

/// A checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Random, of the file: the seed of its checksums.
    pub id: u64,
    /// Counts checkpoints.
    pub generation: u32,
    /// The root of the tree.
    pub root: u32,
    /// Where the map of used pages is.
    pub space: Run,
    pub keys: u64,
    pub logical_bytes: u64,
    /// The first record of the journal that is not in the tree.
    pub lsn: Lsn,
    /// Pages were changed in place since, and nothing says which: no checkpoint any more.
    pub is_open: bool,
}

impl Meta {
    /// What checksums of pages begin with.
    pub fn seed(&self) -> u32 {
        crc32c(&self.id.to_le_bytes())
    }

    /// As a page.
    pub fn encode(&self) -> AlignedBuf {
        let mut page = AlignedBuf::zeroed(PAGE_BYTES);
        page[..8].copy_from_slice(&MAGIC);
        put_u32(&mut page, 8, FORMAT_VERSION);
        put_u32(&mut page, 12, self.is_open.into());
        put_u64(&mut page, 16, self.id);
        put_u32(&mut page, 24, self.generation);
        put_u32(&mut page, 28, self.root);
        put_u32(&mut page, 32, self.space.page);
        put_u32(&mut page, 36, self.space.value_bytes);
        put_u64(&mut page, 40, self.keys);
        put_u64(&mut page, 48, self.logical_bytes);
        put_u64(&mut page, 56, self.lsn.0);
        let crc = crc32c(&page[..CRC_AT]);
        put_u32(&mut page, CRC_AT, crc);
        page
    }

    /// What a page says, if it is a sound one; `Unsupported` when a newer version wrote it.
    fn decode(path: &Path, page: &[u8]) -> Result<Option<Self>> {
        if page[..8] != MAGIC || get_u32(page, CRC_AT) != Some(crc32c(&page[..CRC_AT])) {
            return Ok(None);
        }
        let u32_at = |at| get_u32(page, at).expect("invariant: a page is there");
        let u64_at = |at| get_u64(page, at).expect("invariant: a page is there");
        if u32_at(8) != FORMAT_VERSION {
            return Err(Error::unsupported(format!(
                "{} has version {} of the format of micro-btree; this build reads {FORMAT_VERSION}: open it with the version that wrote it",
                path.display(),
                u32_at(8)
            )));
        }
        Ok(Some(Self {
            is_open: u32_at(12) != 0,
            id: u64_at(16),
            generation: u32_at(24),
            root: u32_at(28),
            space: Run { page: u32_at(32), value_bytes: u32_at(36) },
            keys: u64_at(40),
            logical_bytes: u64_at(48),
            lsn: Lsn(u64_at(56)),
        }))
    }

    /// The page that this one belongs in.
    pub fn place(&self) -> u32 {
        self.generation % META_PAGES
    }

    /// The last checkpoint of a file.
    pub fn read(file: &dyn File, path: &Path) -> Result<Self> {
        let mut both = AlignedBuf::zeroed(META_PAGES as usize * PAGE_BYTES);
        let read = file.read_at(&mut both, 0);
        read.map_err(|e| Error::io(format_args!("read {}", path.display()), e))?;
        let mut newest: Option<Self> = None;
        for page in both.chunks(PAGE_BYTES) {
            if let Some(found) = Self::decode(path, page)?
                && newest.is_none_or(|newest| newest.generation < found.generation)
            {
                newest = Some(found);
            }
        }
        newest.ok_or_else(|| {
            Error::corruption(path, 0, "neither of its two heads is sound; restore the directory from a copy")
        })
    }
}
