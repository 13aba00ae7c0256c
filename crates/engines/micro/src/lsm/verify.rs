//! Verification: the manifest, every block of every table and what leads to it from their files, the order of keys, filters, levels, the journal.

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Damage;

use super::engine::MicroLsm;
use super::levels::{Head, Levels, manifest_path, read_manifest};
use super::open::is_own;
use super::table::Table;
use super::view::merge_of;
use crate::journaled;

impl MicroLsm {
    /// See [`Engine::verify`](biombo_engine::Engine::verify). Nobody writes meanwhile.
    pub(super) fn verify_all(&self, head: &Head, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let view = self.view();
        let mut is_sound = true;
        let mut note = |error: Error| -> Result<()> {
            let ErrorKind::Corruption = error.kind() else { return Err(error) };
            is_sound = false;
            let (file, offset) = error.place().unwrap_or((&self.shared.dir, 0));
            report(Damage { file: file.to_owned(), offset, what: error.message().to_owned() });
            Ok(())
        };
        if let Err(error) = self.home.verify() {
            note(error)?;
        }
        if let Err(error) = self.verify_manifest(head, &view.levels) {
            note(error)?;
        }
        for table in view.levels.all() {
            verify_table(table, &mut note)?;
        }
        for tables in &view.levels.0[1..] {
            for pair in tables.windows(2).filter(|pair| &pair[0].last[..] >= pair[1].first()) {
                note(Error::corruption(pair[1].path(), 0, "it overlaps another table of its level"))?;
            }
        }
        if self.journal.is_some()
            && let Err(error) = journaled::verify(&*self.shared.io, &self.shared.dir, is_own)
        {
            note(error)?;
        }
        // Of a damaged instance, the keys before the first damage.
        let (mut keys, mut merge) = (0, merge_of(&view, u64::MAX));
        let mut moved = merge.seek(b"");
        while moved.is_ok() && merge.key().is_some() {
            keys += 1;
            moved = merge.next();
        }
        if is_sound { moved.map(|()| keys) } else { Ok(keys) }
    }
}

impl MicroLsm {
    /// The manifest and what leads to the blocks of its tables, from their files: the next opening reads no other.
    fn verify_manifest(&self, head: &Head, levels: &Levels) -> Result<()> {
        let (found, tables) = read_manifest(&self.shared)?;
        let numbers = |levels: &Levels| -> Vec<Vec<u64>> {
            levels.0.iter().map(|tables| tables.iter().map(|table| table.number).collect()).collect()
        };
        if found.lsn != head.lsn || numbers(&tables) != numbers(levels) {
            return Err(Error::corruption(manifest_path(&self.shared), 0, "it names other tables than are open"));
        }
        Ok(())
    }
}

fn verify_table(table: &Table, note: &mut impl FnMut(Error) -> Result<()>) -> Result<()> {
    let (mut entries, mut tombstones, mut before, mut is_whole) = (0, 0, None::<Vec<u8>>, true);
    for index in 0..table.blocks() {
        let block = match table.read_block(index) {
            Ok(block) => block,
            Err(error) => {
                note(error)?;
                is_whole = false;
                continue;
            }
        };
        for at in 0..block.count() {
            let (key, value) = block.entry(at);
            if before.as_ref().is_some_and(|before| &before[..] >= key) || key > &table.last[..] {
                note(Error::corruption(table.path(), 0, format!("block {index} has keys out of order")))?;
            }
            if !table.admits(key) {
                note(Error::corruption(table.path(), 0, "the filter denies a key that is there"))?;
            }
            entries += 1;
            tombstones += u64::from(value.is_none());
            before = Some(key.to_vec());
        }
    }
    if is_whole && (entries, tombstones) != (table.entries, table.tombstones) {
        note(Error::corruption(table.path(), 0, "the footer counts other entries than there are"))?;
    }
    Ok(())
}
