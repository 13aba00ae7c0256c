//! Flushes and compactions; the crash argument stands in the module above.
//!
//! Levelled compaction (O'Neil et al. 1996; as LevelDB has it): when level 0 has too many tables, all of them and what they overlap of level
//! 1 are merged into level 1. When another level has more bytes than it may, one of its tables, in turn, and what it overlaps of the level
//! below are merged into that. A deletion goes when no level below says anything of its key.

use std::sync::Arc;

use biombo_base::{Error, Result};
use biombo_journal::Journal;

use super::engine::{MicroLsm, View, Writer};
use super::levels::{Head, LEVELS, Levels, write_manifest};
use super::memtable::Memtable;
use super::merge::{Merge, Source};
use super::table::{Table, TableBuilder};

/// Tables that become others, one level down, or one that goes down as it is.
struct Job {
    inputs: Vec<Arc<Table>>,
    /// Sources of the merge, the newest first.
    sources: Vec<Vec<Arc<Table>>>,
    into: usize,
}

impl Job {
    /// Nothing to merge it with: it is as good a level down as it is here.
    fn is_move(&self) -> bool {
        self.inputs.len() == 1
    }
}

impl MicroLsm {
    /// Write the memtable as a table, and compact until every level is as it should be. An error leaves what is on the disk unknown.
    pub(super) fn flush(&self, writer: &mut Writer) -> Result<()> {
        self.write_memtable(writer)?;
        self.compact_due(writer)
    }

    /// Write the memtable as a table, if there is anything in it.
    pub(super) fn write_memtable(&self, writer: &mut Writer) -> Result<()> {
        let view = self.view();
        if view.memtable.len() == 0 {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            // A manifest that is ahead of its journal would take new records for old ones.
            journal.sync()?;
        }
        let lsn = self.journal.as_ref().map_or(writer.head.lsn, Journal::next_lsn);
        let source = Source::memtable(Arc::clone(&view.memtable), u64::MAX);
        let tables = self.write_tables(writer, vec![source], |_| false, u64::MAX)?;
        let levels = view.levels.replace(&[], 0, tables);
        let memtable = Arc::new(Memtable::default());
        self.install(writer, Head { lsn, ..writer.head }, levels, memtable)?;
        if let Some(journal) = &self.journal {
            journal.trim(lsn)?;
            writer.journaled_bytes = 0;
        }
        Ok(())
    }

    /// Compact until every level is as it should be.
    pub(super) fn compact_due(&self, writer: &mut Writer) -> Result<()> {
        while let Some(job) = self.due(writer) {
            match job.is_move() {
                true => self.move_down(writer, &job)?,
                false => self.shared.figures.work(|| self.run(writer, job))?,
            }
        }
        Ok(())
    }

    /// The compaction that is due, if any.
    fn due(&self, writer: &mut Writer) -> Option<Job> {
        let levels = &self.view().levels;
        if levels.0[0].len() >= self.own.level0_tables_max.max(1) {
            return Some(job(levels, 0, levels.0[0].clone()));
        }
        let mut room = self.own.level1_bytes_max;
        for level in 1..LEVELS - 1 {
            if levels.bytes(level) > room {
                let tables = &levels.0[level];
                let next = tables.iter().find(|table| table.first() > &writer.compacted_to[level][..]);
                let table = Arc::clone(next.unwrap_or(&tables[0]));
                writer.compacted_to[level] = table.last.clone();
                return Some(job(levels, level, vec![table]));
            }
            room = room.saturating_mul(self.own.level_factor);
        }
        None
    }

    /// A table that is alone goes down as it is. Only the manifest is written: that is no compaction, and not measured as one.
    fn move_down(&self, writer: &mut Writer, job: &Job) -> Result<()> {
        let view = self.view();
        let levels = view.levels.replace(&job.inputs, job.into, job.inputs.clone());
        self.install(writer, writer.head, levels, Arc::clone(&view.memtable))?;
        self.shared.figures.moved();
        Ok(())
    }

    fn run(&self, writer: &mut Writer, job: Job) -> Result<()> {
        let view = self.view();
        let sources = job.sources.into_iter().map(Source::tables).collect();
        let keeps_deleted = |key: &[u8]| view.levels.is_below(job.into, key);
        let tables = self.write_tables(writer, sources, |key| !keeps_deleted(key), self.own.table_bytes)?;
        let levels = view.levels.replace(&job.inputs, job.into, tables);
        self.install(writer, writer.head, levels, Arc::clone(&view.memtable))?;
        for table in &job.inputs {
            // Whoever reads it has it open; what cannot be removed is removed on opening.
            let _ = self.shared.io.remove_file(table.path());
        }
        Ok(())
    }

    /// Everything in one level, without anything that was deleted.
    pub(super) fn compact_all(&self, writer: &mut Writer) -> Result<()> {
        self.flush(writer)?;
        let levels = &self.view().levels;
        let Some(deepest) = levels.0.iter().rposition(|tables| !tables.is_empty()) else { return Ok(()) };
        let (into, inputs) = (deepest.max(1), levels.all().cloned().collect::<Vec<_>>());
        let sources = sources(levels);
        if deepest > 0 && levels.0[..deepest].iter().all(Vec::is_empty) && inputs.iter().all(|t| t.tombstones == 0) {
            return Ok(());
        }
        let work = || {
            let view = self.view();
            let merged = sources.into_iter().map(Source::tables).collect();
            let tables = self.write_tables(writer, merged, |_| true, self.own.table_bytes)?;
            let levels = view.levels.replace(&inputs, into, tables);
            self.install(writer, writer.head, levels, Arc::clone(&view.memtable))
        };
        self.shared.figures.work(work)?;
        inputs.iter().for_each(|table| drop(self.shared.io.remove_file(table.path())));
        Ok(())
    }

    /// Write what sources say together as tables of about `table_bytes`, and make their names durable. Deletions of keys for which `drops`
    /// says so go.
    fn write_tables(
        &self,
        writer: &mut Writer,
        sources: Vec<Source>,
        drops: impl Fn(&[u8]) -> bool,
        table_bytes: u64,
    ) -> Result<Vec<Arc<Table>>> {
        let (mut tables, mut builder) = (Vec::new(), None::<TableBuilder>);
        let mut merge = Merge::new(sources, true);
        merge.seek(b"")?;
        while let (Some(key), Some(value)) = (merge.key(), merge.value()) {
            if value.is_some() || !drops(key) {
                if let Some(full) = builder.take_if(|builder| builder.data_bytes() >= table_bytes) {
                    tables.push(Arc::new(full.finish()?));
                }
                let builder = match &mut builder {
                    Some(builder) => builder,
                    None => {
                        let number = writer.head.next_number;
                        writer.head.next_number += 1;
                        builder.insert(TableBuilder::new(&self.shared, number)?)
                    }
                };
                builder.add(key, value)?;
            }
            merge.next()?;
        }
        if let Some(builder) = builder {
            tables.push(Arc::new(builder.finish()?));
        }
        if !tables.is_empty() {
            let dir = &self.shared.dir;
            let synced = self.shared.io.sync_dir(dir);
            synced.map_err(|e| Error::io(format_args!("sync the directory {}", dir.display()), e))?;
        }
        Ok(tables)
    }

    /// Make levels those of the instance, on the disk and then for readers.
    fn install(&self, writer: &mut Writer, head: Head, levels: Levels, memtable: Arc<Memtable>) -> Result<()> {
        let head = Head { next_number: writer.head.next_number, ..head };
        write_manifest(&self.shared, head, &levels)?;
        writer.head = head;
        levels.leave_room(&self.shared, self.own.cache_bytes);
        self.show(View { memtable, levels: Arc::new(levels) });
        Ok(())
    }
}

/// Merge tables of a level into the next.
fn job(levels: &Levels, level: usize, upper: Vec<Arc<Table>>) -> Job {
    let first = upper.iter().map(|table| table.first()).min().unwrap_or_default();
    let last = upper.iter().map(|table| &table.last[..]).max().unwrap_or_default();
    let lower = levels.overlapping(level + 1, first, last);
    let inputs = upper.iter().chain(&lower).cloned().collect();
    // Tables of level 0 overlap: a source each.
    let mut sources: Vec<_> = upper.into_iter().map(|table| vec![table]).collect();
    sources.push(lower);
    Job { inputs, sources, into: level + 1 }
}

/// All tables as sources, the newest first.
pub(super) fn sources(levels: &Levels) -> Vec<Vec<Arc<Table>>> {
    let young = levels.0[0].iter().map(|table| vec![Arc::clone(table)]);
    young.chain(levels.0[1..].iter().filter(|tables| !tables.is_empty()).cloned()).collect()
}
