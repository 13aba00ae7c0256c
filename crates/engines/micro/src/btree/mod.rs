//! The engine `micro-btree`: a B+tree of 4 KiB pages in one file, updated through a cache of its own.
//!
//! Honest behaviour. An operation is appended to the journal, then done to the tree in memory. Changed pages are written back when
//! more than a quarter of the cache is dirty, and all of them at a checkpoint, which is due after so many bytes of journal. A page of the
//! last checkpoint is never written to: it moves when it is changed first (`tree`, `space`).
//!
//! Crash argument. A checkpoint is: the journal synced; dirty pages and the map of used pages written to places that the last checkpoint does
//! not use; the file synced; one of two heads written (`meta`) and synced; the journal trimmed. After a crash at any step the newest sound head
//! leads to a whole tree: until the new head is durable that is the last one, whose pages nobody has touched, and the journal still
//! has every record from that head's `lsn` on. Opening does these to the tree again. What was acknowledged as durable is in the journal, whole
//! batches or nothing. A process that was killed may have written a head and not synced it, and where the sync failed no later one writes it: opening
//! writes the head that it found once more and syncs the file before it gives away what that head does not use. The journal is synced before the head that names its end, so a journal never ends before the tree does.
//!
//! Published behaviour. No journal; each put writes the pages that it changed, in place, before it returns. While it is open the head says
//! so; an instance that was not closed is refused.
//!
//! What it does not do: snapshots (a cursor sees later writes), merging of pages that run empty, work in the background: a put that finds a
//! checkpoint due does it, and is measured with it.

mod checkpoint;
mod cursor;
mod engine;
mod meta;
mod open;
mod page;
mod pages;
mod space;
#[cfg(test)]
mod tests;
mod tree;
mod verify;

pub use engine::MicroBtree;
pub use open::{BtreeOptions, kind, open_with};
