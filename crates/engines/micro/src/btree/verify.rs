//! Verification: the head, every page and value from the file, the order of keys, the map of used pages, the journal.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Damage;

use super::engine::MicroBtree;
use super::meta::{META_PAGES, Meta};
use super::open::{PAGES_FILE, is_own};
use super::page::{PAGE_BYTES, Page, Stored};
use super::pages::run_pages;
use super::tree::Tree;
use crate::journaled;

/// What was found so far.
struct Found<'a> {
    path: &'a Path,
    report: &'a mut dyn FnMut(Damage),
    keys: u64,
    /// Pages that something leads to.
    reached: HashSet<u32>,
    sound: bool,
}

impl Found<'_> {
    fn damaged(&mut self, page: u32, what: &str) {
        self.sound = false;
        let offset = u64::from(page) * PAGE_BYTES as u64;
        (self.report)(Damage { file: self.path.to_owned(), offset, what: what.to_owned() });
    }

    /// Note a damage that an error tells of; other errors end the verification.
    fn note(&mut self, error: Error) -> Result<()> {
        let ErrorKind::Corruption = error.kind() else { return Err(error) };
        self.sound = false;
        let (file, offset) = error.place().unwrap_or((self.path, 0));
        (self.report)(Damage { file: file.to_owned(), offset, what: error.message().to_owned() });
        Ok(())
    }

    /// Something leads to these pages; false where that was so already.
    fn reach(&mut self, first: u32, count: u32) -> bool {
        let is_new = (first..first.saturating_add(count)).all(|page| self.reached.insert(page));
        if !is_new {
            self.damaged(first, "two places of the tree lead to the page");
        }
        is_new
    }
}

impl MicroBtree {
    /// See [`Engine::verify`](biombo_engine::Engine::verify). Nobody writes meanwhile.
    pub(super) fn verify_all(&self, meta: &Meta, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let path = self.home.dir().join(PAGES_FILE);
        let tree = self.read();
        let mut found = Found { path: &path, report, keys: 0, reached: HashSet::new(), sound: true };
        match self.pages.head() {
            Ok(head) if head == *meta => {}
            Ok(_) => found.damaged(meta.place(), "the head of the last checkpoint is not there"),
            Err(error) => found.note(error)?,
        }
        if let Err(error) = self.home.verify() {
            found.note(error)?;
        }
        found.reach(0, META_PAGES);
        found.reach(meta.space.page, run_pages(meta.space.value_bytes as usize));
        let mut image = Vec::new();
        if let Err(error) = self.pages.read_run(meta.space, &mut image) {
            found.note(error)?;
        }
        self.verify_below(&tree, tree.root, (None, None), 0, &mut found)?;
        if found.sound {
            if found.keys != tree.keys {
                let what = format!("the head counts {} keys, the leaves hold {}", tree.keys, found.keys);
                found.damaged(0, &what);
            }
            let (reached, used) = (found.reached.len() as u64, tree.space.used_pages());
            if reached != used || !found.reached.iter().all(|page| tree.space.is_used(*page)) {
                found.damaged(meta.space.page, &format!("the map has {used} pages in use, the tree {reached}"));
            }
        }
        if self.journal.is_some()
            && let Err(error) = journaled::verify(&**self.home.io(), self.home.dir(), is_own)
        {
            found.note(error)?;
        }
        Ok(found.keys)
    }

    fn verify_below(
        &self,
        tree: &Tree,
        number: u32,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        depth: usize,
        found: &mut Found<'_>,
    ) -> Result<()> {
        if depth > 40 || !found.reach(number, 1) {
            return Ok(());
        }
        let page: Arc<Page> = match tree.dirty(number) {
            Some(page) => page,
            None => match self.pages.read_uncached(number) {
                Ok(page) => Arc::new(page),
                Err(error) => return found.note(error),
            },
        };
        let count = page.count();
        let outside = |key: &[u8]| from.is_some_and(|from| key < from) || to.is_some_and(|to| key >= to);
        if count > 0 && (outside(page.key(0)) || outside(page.key(count - 1))) {
            found.damaged(number, "it holds keys that belong to another page");
        }
        if !page.is_leaf() {
            for child in 0..=count {
                let from = if child == 0 { from } else { Some(page.key(child - 1)) };
                let to = if child == count { to } else { Some(page.key(child)) };
                self.verify_below(tree, page.child(child), (from, to), depth + 1, found)?;
            }
            return Ok(());
        }
        let mut value = Vec::new();
        for at in 0..count {
            if let Stored::Run(run) = page.value(at) {
                found.reach(run.page, run_pages(run.value_bytes as usize));
                if let Err(error) = self.pages.read_run(run, &mut value) {
                    found.note(error)?;
                    continue;
                }
            }
            found.keys += 1;
        }
        Ok(())
    }
}
