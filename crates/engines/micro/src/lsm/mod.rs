//! The engine `micro-lsm`: an LSM-tree. A memtable in memory; sorted tables of 4 KiB blocks, with the first key of each block and a Bloom filter
//! in memory; levelled compaction.
//!
//! Honest behaviour. An operation is appended to the journal, then put into the memtable. A put that finds the memtable full writes it as a
//! table first, and does the compactions that are due: it is measured with them. Nothing works in the background.
//!
//! Crash argument. A flush is: the journal synced; the table written and synced, then its name; the manifest, which names the table and the first
//! record of the journal that is in none, replaced by a rename and synced; the journal trimmed. A compaction is the same without a journal, and then
//! removes the tables that it has replaced. Tables are never written to again. After a crash at any step the manifest that is found names whole tables,
//! and the journal has every record from its `lsn` on: those go into the memtable again. Files that it does not name count for nothing and are
//! removed. The journal is synced before the manifest that names its end, so a journal never ends before the tables do. A process that was killed
//! may have renamed a manifest and not synced the directory, and where that sync failed no later one makes the name durable: opening replaces the
//! manifest by the same one before it removes anything.
//!
//! Closing writes the memtable and leaves what is to be compacted then to the next one's first write.
//!
//! Published behaviour. A memtable of 1,000 records and no journal: what is in memory when the process dies is lost; a sync writes it as a table.
//!
//! Snapshots hold the memtable and the tables as they were: a table that was replaced is removed, and stays readable to who has it open.

mod block;
mod bloom;
mod compact;
mod engine;
mod levels;
mod memtable;
mod merge;
mod open;
mod table;
#[cfg(test)]
mod tests;
mod verify;
mod view;

pub use engine::MicroLsm;
pub use open::{LsmOptions, kind, open_with};
