//! The header of a graph's file, and where its sections are.

use std::path::Path;

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::{Error, Result};

use crate::VERTICES_MAX;

pub(super) const VERSION: u32 = 1;

/// The header, and what sections are padded to.
pub(super) const HEADER_BYTES: usize = 4096;

pub(super) const FLAG_DIRECTED: u32 = 1;
pub(super) const FLAG_IDS: u32 = 2;
/// Of a changing graph: loops are kept.
pub(super) const FLAG_LOOPS: u32 = 4;

/// The sections, in their order in the file: ids, offsets and targets outward, offsets and targets inward.
pub(super) const SECTIONS: usize = 5;

/// What files of graphs differ in.
#[derive(Debug)]
pub(crate) struct Kind {
    magic: &'static [u8; 8],
    /// The name in the graph's directory.
    pub(super) name: &'static str,
    /// The name while it is written.
    pub(super) name_new: &'static str,
    /// The flags that there are.
    flags: u32,
    /// Ids ascend.
    pub(super) is_ordered: bool,
}

impl Kind {
    /// A graph that does not change.
    pub(crate) const STATIC: Self = Self {
        magic: b"BIOMBOGR",
        name: "graph.csr",
        name_new: "graph.csr.new",
        flags: FLAG_DIRECTED | FLAG_IDS,
        is_ordered: true,
    };
    /// One that does, at some point in its history; the journal beside it knows what came then.
    pub(crate) const CHANGING: Self = Self {
        magic: b"BIOMBOGP",
        name: "graph.pma",
        name_new: "graph.pma.new",
        flags: FLAG_DIRECTED | FLAG_IDS | FLAG_LOOPS,
        is_ordered: false,
    };
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) flags: u32,
    pub(super) vertices: u64,
    pub(super) edges: u64,
    pub(super) checksums: [u32; SECTIONS],
    /// Of a changing graph, how far its journal is in it.
    pub(super) applied: u64,
}

impl Header {
    /// How many elements a section has and how many bytes one has.
    pub(super) fn section(&self, section: usize) -> (u64, u64) {
        let (is_directed, has_ids) = (self.flags & FLAG_DIRECTED != 0, self.flags & FLAG_IDS != 0);
        match section {
            0 => (if has_ids { self.vertices } else { 0 }, 8),
            1 => (self.vertices + 1, 8),
            2 => (self.edges, 4),
            3 => (if is_directed { self.vertices + 1 } else { 0 }, 8),
            _ => (if is_directed { self.edges } else { 0 }, 4),
        }
    }

    /// Where a section begins, in bytes; past the last one, the length of the file.
    pub(super) fn offset(&self, section: usize) -> u64 {
        (0..section).fold(HEADER_BYTES as u64, |offset, section| {
            let (count, bytes) = self.section(section);
            (offset + count * bytes).next_multiple_of(HEADER_BYTES as u64)
        })
    }

    pub(super) fn encode(&self, kind: &Kind) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(kind.magic);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, self.flags);
        put_u64(&mut bytes, 16, self.vertices);
        put_u64(&mut bytes, 24, self.edges);
        self.checksums.iter().zip(0..).for_each(|(checksum, at)| put_u32(&mut bytes, 32 + 4 * at, *checksum));
        put_u64(&mut bytes, 56, self.applied);
        let checksum = crc32c(&bytes[..HEADER_BYTES - 4]);
        put_u32(&mut bytes, HEADER_BYTES - 4, checksum);
        bytes
    }

    pub(super) fn decode(kind: &Kind, path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |at: u64, what: &str| Error::corruption(path, at, what);
        if bytes.len() < HEADER_BYTES {
            return Err(damaged(bytes.len() as u64, "the file is shorter than its header"));
        }
        if !bytes.starts_with(kind.magic) {
            return Err(damaged(0, "this is no graph of biombo"));
        }
        let version = get_u32(bytes, 8).unwrap_or_default();
        if version != VERSION {
            let path = path.display();
            let message =
                format!("{path} has version {version} of its format, this program knows {VERSION}: use a newer one");
            return Err(Error::unsupported(message));
        }
        if get_u32(bytes, HEADER_BYTES - 4) != Some(crc32c(&bytes[..HEADER_BYTES - 4])) {
            return Err(damaged(0, "the header's checksum does not fit"));
        }
        let mut checksums = [0; SECTIONS];
        checksums.iter_mut().zip(0..).for_each(|(sum, at)| *sum = get_u32(bytes, 32 + 4 * at).unwrap_or_default());
        let number = |at| get_u64(bytes, at).unwrap_or_default();
        let flags = get_u32(bytes, 12).unwrap_or_default();
        let header = Self { flags, vertices: number(16), edges: number(24), checksums, applied: number(56) };
        // Small enough that no sum of sections overflows.
        if header.vertices > VERTICES_MAX as u64 || header.edges > 1 << 56 || flags & !kind.flags != 0 {
            return Err(damaged(12, "the header's counts are impossible"));
        }
        Ok(header)
    }
}
