//! The tree: where keys are, and how puts and deletions change it.
//!
//! Invariants:
//!
//! 1. No page but the root is a leaf without cells. All leaves have the same depth.
//! 2. A changed page lies in `dirty` until it is written back. Under [`Behaviour::Honest`] only fresh pages (`space`) are dirty: before a
//!    page of the last checkpoint is changed it moves to a fresh number, and so does everything above it. A fresh page's parent is
//!    fresh.
//! 3. Values of runs are written at once, into pages that no checkpoint uses.
//!
//! Pages are not merged when they run empty; one without cells goes (Graefe 2011, "Modern B-tree techniques", 3.2).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use biombo_base::{Error, Result};

use super::page::{Page, Run, Stored, inline_cell, inner_cell, run_cell};
use super::pages::{Pages, run_pages};
use super::space::Space;
use crate::Behaviour;

/// More levels than a sound tree can have.
const DEPTH_MAX: usize = 40;

/// See the module. Whoever changes it has it alone.
pub(crate) struct Tree {
    pub root: u32,
    pub keys: u64,
    pub logical_bytes: u64,
    pub space: Space,
    dirty: HashMap<u32, Dirty>,
    /// Dirty pages in the order in which they became so, each with its `since`; some may have gone, or have become dirty once more.
    order: VecDeque<(u32, u64)>,
    /// Counts pages that became dirty.
    became_dirty: u64,
    behaviour: Behaviour,
}

/// A page that is in memory alone.
struct Dirty {
    page: Arc<Page>,
    since: u64,
}

/// The way to a leaf: pages, each with the child that was taken.
type Way = Vec<(u32, usize)>;

impl Tree {
    pub fn new(root: u32, keys: u64, logical_bytes: u64, space: Space, behaviour: Behaviour) -> Self {
        Self {
            root,
            keys,
            logical_bytes,
            space,
            dirty: HashMap::new(),
            order: VecDeque::new(),
            became_dirty: 0,
            behaviour,
        }
    }

    /// Begin with a leaf without cells.
    pub fn plant(&mut self) -> Result<()> {
        self.root = self.add(Page::leaf())?;
        Ok(())
    }

    /// A page as it is now.
    pub fn page(&self, pages: &Pages, number: u32) -> Result<Arc<Page>> {
        match self.dirty.get(&number) {
            Some(dirty) => Ok(Arc::clone(&dirty.page)),
            None => pages.read(number),
        }
    }

    /// A page that is in memory alone.
    pub fn dirty(&self, number: u32) -> Option<Arc<Page>> {
        self.dirty.get(&number).map(|dirty| Arc::clone(&dirty.page))
    }

    /// The leaf that `choose` leads to, and the way there.
    fn descend(&self, pages: &Pages, choose: impl Fn(&Page) -> usize) -> Result<(Way, u32, Arc<Page>)> {
        let (mut way, mut number) = (Way::new(), self.root);
        while way.len() < DEPTH_MAX {
            let page = self.page(pages, number)?;
            if page.is_leaf() {
                return Ok((way, number, page));
            }
            let child = choose(&page);
            way.push((number, child));
            number = page.child(child);
        }
        Err(Error::new(biombo_base::ErrorKind::Corruption, "the tree has no end: its pages lead in a circle"))
    }

    /// The leaf with `key`, and where in it.
    pub fn find(&self, pages: &Pages, key: &[u8]) -> Result<Option<(Arc<Page>, usize)>> {
        let (_, _, leaf) = self.descend(pages, |page| page.child_of(key))?;
        Ok(leaf.search(key).ok().map(|at| (leaf, at)))
    }

    /// The leaf with the first key at or after `key` (`None` for `key`: the last key of all), or with the last one before it.
    pub fn neighbour(&self, pages: &Pages, key: Option<&[u8]>, after: bool) -> Result<Option<(Arc<Page>, usize)>> {
        let choose = |page: &Page| key.map_or(page.count(), |key| page.child_of(key));
        let (mut way, _, leaf) = self.descend(pages, choose)?;
        let at = key.map_or(leaf.count(), |key| leaf.search(key).unwrap_or_else(|before| before));
        if after && at < leaf.count() {
            return Ok(Some((leaf, at)));
        }
        if !after && at > 0 {
            return Ok(Some((leaf, at - 1)));
        }
        // The neighbouring leaf: up to where there is one, and down again.
        while let Some((number, child)) = way.pop() {
            let page = self.page(pages, number)?;
            let next = if after { Some(child + 1).filter(|next| *next <= page.count()) } else { child.checked_sub(1) };
            let Some(next) = next else { continue };
            let mut page = self.page(pages, page.child(next))?;
            for _ in 0..DEPTH_MAX {
                if page.is_leaf() {
                    let at = if after { 0 } else { page.count().saturating_sub(1) };
                    return Ok((page.count() > 0).then_some((page, at)));
                }
                page = self.page(pages, page.child(if after { 0 } else { page.count() }))?;
            }
        }
        Ok(None)
    }

    fn take(&mut self, count: u32) -> Result<u32> {
        let taken = self.space.take(count);
        taken.ok_or_else(|| Error::new(biombo_base::ErrorKind::Full, "the file of pages cannot have more than 16 TiB"))
    }

    fn add(&mut self, page: Page) -> Result<u32> {
        let number = self.take(1)?;
        self.soil(number, Arc::new(page));
        Ok(number)
    }

    /// The page is in memory alone from now on.
    fn soil(&mut self, number: u32, page: Arc<Page>) {
        self.became_dirty += 1;
        let since = self.became_dirty;
        self.dirty.insert(number, Dirty { page, since });
        self.order.push_back((number, since));
    }

    fn drop_page(&mut self, pages: &Pages, number: u32) {
        self.dirty.remove(&number);
        pages.forget(number);
        self.space.free(number, 1);
    }

    /// The page, to be changed: it is dirty from now on, and fresh already.
    fn change(&mut self, pages: &Pages, number: u32) -> Result<&mut Page> {
        if !self.dirty.contains_key(&number) {
            let page = pages.read(number)?;
            pages.forget(number);
            self.soil(number, page);
        }
        let dirty = self.dirty.get_mut(&number).expect("invariant: it was put there just now");
        Ok(Arc::make_mut(&mut dirty.page))
    }

    /// See that the way and the leaf at its end are fresh; returns the leaf's number.
    fn own(&mut self, pages: &Pages, way: &mut Way, leaf: u32) -> Result<u32> {
        if self.behaviour == Behaviour::Published {
            return Ok(leaf);
        }
        let mut above: Option<(u32, usize)> = None;
        for level in 0..=way.len() {
            let number = way.get(level).map_or(leaf, |(number, _)| *number);
            let fresh = if self.space.is_fresh(number) { number } else { self.relocate(pages, number)? };
            if fresh != number {
                match above {
                    None => self.root = fresh,
                    Some((parent, child)) => self.change(pages, parent)?.set_child(child, fresh),
                }
            }
            match way.get_mut(level) {
                Some(step) => {
                    step.0 = fresh;
                    above = Some(*step);
                }
                None => return Ok(fresh),
            }
        }
        unreachable!("invariant: the leaf is the last level")
    }

    fn relocate(&mut self, pages: &Pages, number: u32) -> Result<u32> {
        let page = self.page(pages, number)?;
        let fresh = self.take(1)?;
        self.drop_page(pages, number);
        pages.forget(fresh);
        self.soil(fresh, page);
        Ok(fresh)
    }

    /// Set `key` to `value`.
    pub fn put(&mut self, pages: &Pages, key: &[u8], value: &[u8]) -> Result<()> {
        let cell = match inline_cell(key, value) {
            Some(cell) => cell,
            None => {
                let page = self.take(run_pages(value.len()))?;
                pages.write_run(page, value)?;
                run_cell(key, Run { page, value_bytes: value.len() as u32 })
            }
        };
        let (mut way, leaf, _) = self.descend(pages, |page| page.child_of(key))?;
        let leaf = self.own(pages, &mut way, leaf)?;
        let at = match self.change(pages, leaf)?.search(key) {
            Ok(at) => {
                self.take_out(pages, leaf, at)?;
                at
            }
            Err(at) => at,
        };
        self.keys += 1;
        self.logical_bytes += (key.len() + value.len()) as u64;
        let page = self.change(pages, leaf)?;
        if !page.insert(at, &cell) {
            let (right, parting) = page.split(at, &cell);
            self.raise(pages, way, right, parting)?;
        }
        Ok(())
    }

    /// Put a page that was split off below the ones above, splitting those that have no room for it.
    fn raise(&mut self, pages: &Pages, mut way: Way, right: Page, parting: Vec<u8>) -> Result<()> {
        let (mut right, mut parting) = (self.add(right)?, parting);
        while let Some((parent, child)) = way.pop() {
            let cell = inner_cell(&parting, right);
            let page = self.change(pages, parent)?;
            if page.insert(child, &cell) {
                return Ok(());
            }
            let (split, up) = page.split(child, &cell);
            right = self.add(split)?;
            parting = up;
        }
        let mut root = Page::inner(self.root);
        assert!(root.insert(0, &inner_cell(&parting, right)), "invariant: an empty page has room for a cell");
        self.root = self.add(root)?;
        Ok(())
    }

    /// Take a cell out of a leaf that may be changed, with its value's run.
    fn take_out(&mut self, pages: &Pages, leaf: u32, at: usize) -> Result<()> {
        let page = self.change(pages, leaf)?;
        let (value, key_bytes) = (page.value(at), page.key(at).len());
        let bytes = (key_bytes + value.len()) as u64;
        let run = match value {
            Stored::Run(run) => Some(run),
            Stored::Inline(_) => None,
        };
        page.remove(at);
        if let Some(run) = run {
            self.space.free(run.page, run_pages(run.value_bytes as usize));
        }
        self.keys = self.keys.saturating_sub(1);
        self.logical_bytes = self.logical_bytes.saturating_sub(bytes);
        Ok(())
    }

    /// Remove `key`, if it is there.
    pub fn delete(&mut self, pages: &Pages, key: &[u8]) -> Result<()> {
        let (mut way, leaf, page) = self.descend(pages, |page| page.child_of(key))?;
        let Ok(at) = page.search(key) else { return Ok(()) };
        drop(page);
        let leaf = self.own(pages, &mut way, leaf)?;
        self.take_out(pages, leaf, at)?;
        if self.change(pages, leaf)?.count() > 0 || way.is_empty() {
            return Ok(());
        }
        // The leaf goes, and every page above that led nowhere else.
        self.drop_page(pages, leaf);
        while let Some((parent, child)) = way.pop() {
            let page = self.change(pages, parent)?;
            if page.count() == 0 {
                self.drop_page(pages, parent);
                continue;
            }
            if child == 0 {
                let first = page.child(1);
                page.set_child(0, first);
            }
            page.remove(child.saturating_sub(1));
            return self.lower(pages);
        }
        self.plant()
    }

    /// A root that leads to one page alone goes.
    fn lower(&mut self, pages: &Pages) -> Result<()> {
        loop {
            let page = self.page(pages, self.root)?;
            if page.is_leaf() || page.count() > 0 {
                return Ok(());
            }
            self.drop_page(pages, self.root);
            self.root = page.child(0);
        }
    }

    /// Remove all keys from `from` up to `to`.
    pub fn delete_range(&mut self, pages: &Pages, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        while let Some((leaf, at)) = self.neighbour(pages, Some(from), true)? {
            let key = leaf.key(at).to_vec();
            if to.is_some_and(|to| &key[..] >= to) {
                break;
            }
            drop(leaf);
            self.delete(pages, &key)?;
        }
        Ok(())
    }

    /// Dirty pages.
    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// The `count` pages that have been dirty for longest, by their numbers.
    pub fn oldest_dirty(&self, count: usize) -> Vec<(u32, Arc<Page>)> {
        let still = |(number, since): &(u32, u64)| {
            let dirty = self.dirty.get(number).filter(|dirty| dirty.since == *since)?;
            Some((*number, Arc::clone(&dirty.page)))
        };
        let mut oldest: Vec<_> = self.order.iter().filter_map(still).take(count).collect();
        oldest.sort_unstable_by_key(|(number, _)| *number);
        oldest
    }

    /// These were written as they are.
    pub fn cleaned(&mut self, pages: &Pages, written: Vec<(u32, Arc<Page>)>) {
        for (number, page) in written {
            self.dirty.remove(&number);
            pages.keep(number, page);
        }
        self.order.retain(|(number, since)| self.dirty.get(number).is_some_and(|dirty| dirty.since == *since));
    }
}
