//! Checkpoints; the crash argument stands in the module above.

use std::sync::PoisonError;

use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::Journal;

use super::engine::{MicroBtree, Writer};
use super::meta::Meta;
use super::page::{PAGE_BYTES, Run};
use super::pages::{RUN_HEADER_BYTES, run_pages};
use super::space::Space;
use crate::Behaviour;

impl MicroBtree {
    /// Make a checkpoint of the tree as it is. An error leaves what is on the disk unknown.
    pub(super) fn checkpoint_with(&self, writer: &mut Writer) -> Result<()> {
        self.pages.figures.work(|| self.write_checkpoint(writer, false))
    }

    /// The steps of a checkpoint. With `is_open` its pages may change in place from then on.
    pub(super) fn write_checkpoint(&self, writer: &mut Writer, is_open: bool) -> Result<()> {
        if let Some(journal) = &self.journal {
            // A tree that is ahead of its journal would take new records for old ones.
            journal.sync()?;
        }
        // Nobody changes the tree meanwhile; readers go on.
        let dirty = {
            let tree = self.read();
            tree.oldest_dirty(tree.dirty_pages())
        };
        self.pages.write(&dirty)?;
        let (meta, used, image) = {
            let mut tree = self.change();
            tree.cleaned(&self.pages, dirty);
            let (space, image) = place_map(&mut tree.space, writer.meta.space)?;
            let meta = Meta {
                generation: writer.meta.generation + 1,
                root: tree.root,
                space,
                keys: tree.keys,
                logical_bytes: tree.logical_bytes,
                lsn: self.journal.as_ref().map_or(writer.meta.lsn, Journal::next_lsn),
                is_open,
                ..writer.meta
            };
            (meta, tree.space.used().to_vec(), image)
        };
        self.pages.write_run(meta.space.page, &image)?;
        self.pages.sync()?;
        self.pages.write_bytes(meta.place(), &meta.encode())?;
        self.pages.sync()?;
        writer.meta = meta;
        self.pages.begin_after(&meta);
        if let Some(journal) = &self.journal {
            self.change().space.checkpointed(used);
            writer.journaled_bytes = 0;
            journal.trim(meta.lsn)?;
        }
        Ok(())
    }

    /// Give back what lies behind the last page in use.
    pub(super) fn cut_off(&self) -> Result<()> {
        let end_bytes = u64::from(self.read().space.end()) * PAGE_BYTES as u64;
        if self.pages.file_bytes()? > end_bytes { self.pages.set_len(end_bytes) } else { Ok(()) }
    }

    /// Make a last checkpoint, unless there is nothing to put into it or something has failed.
    pub(super) fn close(&self) -> Result<()> {
        if self.poison.is_set() || self.writer.is_poisoned() {
            return Ok(());
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = match &self.journal {
            Some(journal) => journal.next_lsn() > writer.meta.lsn,
            None => writer.meta.is_open,
        };
        if changed { self.checkpoint_with(&mut writer).map_err(|e| self.poison.after(e)) } else { Ok(()) }
    }

    /// From now on pages are changed in place: until it is closed, the head says so.
    pub(super) fn mark_open(&self) -> Result<()> {
        if self.behaviour == Behaviour::Published {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.write_checkpoint(&mut writer, true)?;
        }
        Ok(())
    }
}

/// Find room for the map of used pages, which has itself in it and its predecessor no more.
fn place_map(space: &mut Space, old: Run) -> Result<(Run, Vec<u8>)> {
    // Room for the words that the map grows by when it takes its own place.
    let words = space.used().len();
    let count = run_pages((words + words / 1024 + 8) * 8);
    let page = space.take(count);
    let page = page.ok_or_else(|| Error::new(ErrorKind::Full, "the file of pages cannot have more than 16 TiB"))?;
    if old.value_bytes > 0 {
        space.free(old.page, run_pages(old.value_bytes as usize));
    }
    let mut image: Vec<u8> = space.used().iter().flat_map(|word| word.to_le_bytes()).collect();
    // All of its pages, so that they are freed by its length.
    image.resize(count as usize * PAGE_BYTES - RUN_HEADER_BYTES, 0);
    Ok((Run { page, value_bytes: image.len() as u32 }, image))
}
