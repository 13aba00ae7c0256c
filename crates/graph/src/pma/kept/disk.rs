//! A graph on `disk`: `graph.pma` and the journal beside it. Format: `docs/format/graph-pma.md`.
//!
//! Invariants:
//! 1. `graph.pma` is replaced by one rename, once everything before its `applied` is durable in the journal; the journal is trimmed only
//!    after that rename is durable.
//!
//! Crash argument: at any time the directory has one `graph.pma`, and a journal whose durable records reach from its `applied`, or from
//! before, without a gap to the last batch that was acknowledged as `Sync`. A crash between the rename and the trimming leaves records that
//! are in the graph already; they are passed over by their numbers. The journal never forgets which number comes next, since the
//! segment that is written is never dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::{Error, Result};
use biombo_journal::{Durability, Journal, JournalOptions, Lsn};

use super::Visit;
use crate::csr::file::{self, Contents, Kind};
use crate::ids::Ids;
use crate::pma::{Layout, Snapshot};
use crate::view::View;

/// The journal's directory.
const JOURNAL: &str = "journal";

/// See the module.
pub(in crate::pma) struct Disk {
    io: Arc<dyn Io>,
    dir: PathBuf,
    journal: Journal,
}

impl Disk {
    pub(in crate::pma) fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
        file::exists_as(&Kind::CHANGING, io, dir)
    }

    /// Make a graph. It is durable when this returns.
    pub(in crate::pma) fn create<V: View>(
        io: &Arc<dyn Io>,
        dir: &Path,
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
    ) -> Result<()> {
        let mut table = ids.table().iter().copied();
        let ids: Option<&mut dyn Iterator<Item = u64>> = if ids.are_dense() { None } else { Some(&mut table) };
        // The journal first: a graph without one is damaged.
        let journal = Journal::open(io.clone(), &dir.join(JOURNAL), JournalOptions::default(), &mut |_, _| Ok(()))?;
        file::save_as(&Kind::CHANGING, &**io, dir, view, ids, keeps_loops, journal.next_lsn().0)
    }

    /// The image, and where it is.
    pub(in crate::pma) fn read(io: &dyn Io, dir: &Path) -> Result<(Contents, PathBuf)> {
        // Who made the graph may have died before its name was durable.
        io.sync_dir(dir).map_err(|e| Error::io(format_args!("open {}", dir.display()), e))?;
        Ok((file::read(&Kind::CHANGING, io, dir)?, dir.join("graph.pma")))
    }

    /// The journal's directory.
    pub(in crate::pma) fn journal(dir: &Path) -> PathBuf {
        dir.join(JOURNAL)
    }

    /// Go through the records that there are, and be ready for more.
    pub(in crate::pma) fn open(
        io: Arc<dyn Io>,
        dir: &Path,
        options: JournalOptions,
        visit: &mut Visit<'_>,
    ) -> Result<Self> {
        let at = Self::journal(dir);
        if !io.exists(&at).map_err(|e| Error::io(format_args!("open {}", at.display()), e))? {
            return Err(Error::corruption(&at, 0, "the graph's journal is missing"));
        }
        let journal = Journal::open(io.clone(), &at, options, &mut |lsn, record| visit(lsn.0, record))?;
        Ok(Self { io, dir: dir.to_owned(), journal })
    }

    pub(super) fn append(&self, record: &[u8], durability: Durability) -> Result<u64> {
        Ok(self.journal.append(record, durability)?.0)
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.journal.sync()
    }

    pub(super) fn save<L: Layout>(&self, snapshot: &Snapshot<L>, keeps_loops: bool, applied: u64) -> Result<()> {
        let mut table = snapshot.names.table();
        let table = table.as_mut().map(|table| table as &mut dyn Iterator<Item = u64>);
        file::save_as(&Kind::CHANGING, &*self.io, &self.dir, snapshot, table, keeps_loops, applied)?;
        self.journal.trim(Lsn(applied))
    }

    pub(super) fn next(&self) -> u64 {
        self.journal.next_lsn().0
    }
}
