//! Where a changing graph is kept: its batches, one record each, and its image, which is replaced now and then.
//!
//! What is the same of both media: records have numbers in sequence; the image says from which record on (`applied`) it lacks them;
//! opening reads the image and then every record from there on.

mod disk;
mod pmem;

use std::fmt;

use biombo_base::Result;
use biombo_journal::Durability;

use super::record::Few;
use super::{Layout, Snapshot};
use crate::csr::file::{self, Target};
use crate::media::Backing;
use crate::view::View;
pub(super) use disk::Disk;
pub(super) use pmem::Pmem;

/// Called with each record and its number.
pub(super) type Visit<'v> = dyn FnMut(u64, &[u8]) -> Result<()> + 'v;

/// The medium of a graph that survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// An ordinary file system.
    Disk,
    /// Persistent memory, or what plays it.
    Pmem(Backing),
}

impl Media {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Pmem(_) => "pmem",
        }
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => f.write_str("disk"),
            Self::Pmem(backing) => write!(f, "pmem, {backing}"),
        }
    }
}

/// Where a graph is kept; see the module.
pub(super) enum Kept {
    Disk(Box<Disk>),
    Pmem(Box<Pmem>),
}

impl Kept {
    /// Keep a batch's record, as durably as asked. Its number.
    ///
    /// # Errors
    /// `Full`: nothing was kept. `Poisoned`, and others after which the record may or may not be there.
    pub(super) fn append(&self, record: Vec<u8>, durability: Durability) -> Result<u64> {
        match self {
            Self::Disk(disk) => disk.append(&record, durability),
            Self::Pmem(pmem) => pmem.append(record, durability),
        }
    }

    /// Whether a record is durable by some instructions, and not by a call that is worth sharing.
    pub(super) fn is_quick(&self) -> bool {
        matches!(self, Self::Pmem(pmem) if pmem.is_quick())
    }

    /// The same for few updates, where it [is quick](Self::is_quick); what `then` does with its number, before another record is kept.
    pub(super) fn append_few<T>(
        &self,
        record: &mut Few,
        durability: Durability,
        then: impl FnOnce(u64) -> Option<T>,
    ) -> Result<(u64, Option<T>)> {
        match self {
            Self::Disk(disk) => Ok((disk.append(record.batch(), durability)?, None)),
            Self::Pmem(pmem) => pmem.append_few(record, durability, then),
        }
    }

    /// Make every record durable.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Self::Disk(disk) => disk.sync(),
            Self::Pmem(pmem) => pmem.sync(),
        }
    }

    /// Replace the image by one that lacks the records from `applied` on, all before which are durable; and forget those. One at a time.
    pub(super) fn save<L: Layout>(&self, snapshot: &Snapshot<L>, keeps_loops: bool, applied: u64) -> Result<()> {
        match self {
            Self::Disk(disk) => disk.save(snapshot, keeps_loops, applied),
            Self::Pmem(pmem) => pmem.save(snapshot, keeps_loops, applied),
        }
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        match self {
            Self::Disk(disk) => disk.next(),
            Self::Pmem(pmem) => pmem.next(),
        }
    }

    pub(super) fn media(&self) -> Media {
        match self {
            Self::Disk(_) => Media::Disk,
            Self::Pmem(pmem) => Media::Pmem(pmem.backing()),
        }
    }
}

/// An image of a graph; `ids` in the order of numbers, where they are not dense.
struct Image<'v, 'i, V> {
    view: &'v V,
    ids: Option<&'i mut dyn Iterator<Item = u64>>,
    keeps_loops: bool,
    applied: u64,
}

impl<V: View> Image<'_, '_, V> {
    fn bytes(&self) -> u64 {
        file::length(self.view, self.ids.is_some())
    }

    fn write(self, target: &mut dyn Target) -> std::io::Result<()> {
        file::write(target, &file::Kind::CHANGING, self.view, self.ids, self.keeps_loops, self.applied)
    }
}
