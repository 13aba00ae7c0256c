//! The edges of a graph in one direction: sections, the changes that wait for them, and cuts.
//!
//! A change is appended to its section's log, under the graph's gate. When a log is long enough, it is merged into the section's image, as
//! the layout does that, by whoever appended to it, without the gate. A [`Cut`] is a point in the history of changes: how long each log was
//! then. Whoever merges a section while a cut of it is open merges up to the cut first and leaves the image there, so that writers go on
//! while a snapshot is collected.
//!
//! Invariants:
//! 1. Changes are appended under the gate, all those of a batch under the same hold of it; or out of the log of edges by who archives that, and
//!    who cuts is the only one that does. So a cut, made under the gate too, has all of a batch or nothing.
//! 2. A section's changes are numbered as they come. Those below `Body::merged` are in the image or what the layout lets wait beside it,
//!    the next ones in `Body::taken`, the last ones in the log. An image at a cut has nothing waiting beside it.
//! 3. A cut is in `cuts` from the hold of the gate under which it was made: who finds a later change in a log finds the cut too, if
//!    it looks at the log first.
//! 4. Locks are taken in this order: that of archiving, gate, names, sections, a body, its log or the cuts.
//! 5. What a merge that fails has taken from a log stays in `taken` and comes first the next time. Merging a change twice is the same
//!    as merging it once, so that it does no harm when some of it came in before.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use biombo_base::Result;

use super::changes::{Change, SORTED_MAX, merge_list, sort};
use super::layout::{Layout, SHIFT, Scratch, VERTICES};
use super::tuning::Tuning;
use crate::media::Pool;
use crate::team::Team;
use crate::view::View;

/// All edges in one direction.
#[derive(Debug)]
pub(super) struct Side<L: Layout> {
    sections: RwLock<Vec<Arc<Section<L>>>>,
    /// Those that are being collected, in their order.
    cuts: Mutex<Vec<Arc<Cut<L>>>>,
    pool: Pool,
    /// What new sections begin with.
    nothing: Arc<L>,
    tuning: Tuning,
}

/// The edges of some vertices.
#[derive(Debug)]
struct Section<L: Layout> {
    body: Mutex<Body<L>>,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Body<L: Layout> {
    image: Arc<L>,
    /// Out of the log and not in the image, where the layout says so.
    waiting: L::Waiting,
    /// Taken from the log, not brought in yet.
    taken: Vec<Change>,
    /// How many changes are in the image or waiting.
    merged: u64,
}

#[derive(Debug)]
struct Log {
    changes: Vec<Change>,
    /// How many changes were ever appended.
    appended: u64,
    /// So many are worth merging.
    due: usize,
    /// How many edges the image had when the log was last taken.
    edges: u64,
}

/// A point in the history of a side; see the module.
#[derive(Debug)]
pub(super) struct Cut<L> {
    /// How many changes each section had.
    appended: Vec<u64>,
    images: Vec<OnceLock<Arc<L>>>,
}

/// A change of the edge from one vertex to another.
pub(super) type Stored = (u32, u32, bool);

/// The changes of a batch by sections, in their order within each.
#[derive(Debug, Default)]
pub(super) struct Grouped {
    changes: Vec<Change>,
    /// Sections, ascending, and where the changes of each end.
    groups: Vec<(u32, usize)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic leaves is sound: invariant 5.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Layout> Side<L> {
    /// Without vertices.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(super) fn new(tuning: Tuning) -> Result<Self> {
        let pool = Pool::new();
        let nothing = Arc::new(L::empty(&pool)?);
        Ok(Self { sections: RwLock::default(), cuts: Mutex::default(), pool, nothing, tuning })
    }

    /// With the lists that `list` has for each vertex of `view`.
    ///
    /// # Errors
    /// Those of [`Layout::build`].
    pub(super) fn of<'v, V: View>(
        view: &'v V,
        list: impl Fn(&'v V, u32) -> &'v [u32] + Sync,
        tuning: Tuning,
        team: &mut Team,
    ) -> Result<Self> {
        let side = Self::new(tuning)?;
        let vertices = view.vertices();
        let images = team.map(vertices.div_ceil(VERTICES), |_, section| {
            let mut scratch = Vec::new();
            L::build(&side.pool, &mut scratch, |local, lists| {
                let vertex = section * VERTICES + local;
                if vertex < vertices {
                    lists.extend_from_slice(list(view, vertex as u32));
                }
            })
        });
        let mut sections = Vec::with_capacity(images.len());
        for image in images {
            sections.push(Arc::new(side.section(Arc::new(image?), sections.len())));
        }
        *side.sections.write().unwrap_or_else(PoisonError::into_inner) = sections;
        Ok(side)
    }

    fn section(&self, image: Arc<L>, number: usize) -> Section<L> {
        let edges = image.edges();
        let due = self.tuning.due(edges, number);
        Section {
            body: Mutex::new(Body { image, waiting: L::Waiting::default(), taken: Vec::new(), merged: 0 }),
            log: Mutex::new(Log { changes: Vec::new(), appended: 0, due, edges }),
        }
    }

    fn sections(&self) -> RwLockReadGuard<'_, Vec<Arc<Section<L>>>> {
        self.sections.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are `vertices` vertices now. Under the gate.
    pub(super) fn grow(&self, vertices: usize) {
        let count = vertices.div_ceil(VERTICES);
        if self.sections().len() >= count {
            return;
        }
        let mut sections = self.sections.write().unwrap_or_else(PoisonError::into_inner);
        while sections.len() < count {
            let section = self.section(self.nothing.clone(), sections.len());
            sections.push(Arc::new(section));
        }
    }

    /// Append changes to the logs of their sections, which are there; which of these are worth merging. Under the gate, or by whoever archives.
    pub(super) fn append(&self, grouped: &Grouped, due: &mut Vec<u32>) {
        let sections = self.sections();
        let mut begin = 0;
        for (section, end) in &grouped.groups {
            let mut log = locked(&sections[*section as usize].log);
            log.append(&grouped.changes[begin..*end]);
            if log.is_due() {
                due.push(*section);
            }
            begin = *end;
        }
    }

    /// The same of few changes, one after the other, without memory of its own. Under the gate.
    pub(super) fn append_few(&self, changes: impl Iterator<Item = Stored>, due: &mut Vec<u32>) {
        let sections = self.sections();
        for (vertex, neighbor, appears) in changes {
            let section = vertex >> SHIFT;
            let mut log = locked(&sections[section as usize].log);
            log.append(&[Change::new(vertex as usize % VERTICES, neighbor, appears)]);
            if log.is_due() && due.last() != Some(&section) {
                due.push(section);
            }
        }
    }

    /// Merge the logs of `due` sections, those that somebody else merges only if they are far too long. Without the gate.
    ///
    /// # Errors
    /// `Invalid`, `Io`: what could not be merged waits.
    pub(super) fn merge_due(&self, due: &[u32], scratch: &mut Scratch) -> Result<()> {
        for number in due {
            let section = self.sections()[*number as usize].clone();
            let body = match section.body.try_lock() {
                Ok(body) => Some(body),
                // Nobody is merging: whoever was has panicked.
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    let is_far_behind = {
                        let log = locked(&section.log);
                        log.changes.len() > log.due * Tuning::BEHIND
                    };
                    is_far_behind.then(|| locked(&section.body))
                }
            };
            if let Some(mut body) = body {
                let appended = locked(&section.log).appended;
                self.merge(*number as usize, &section, &mut body, appended, scratch)?;
            }
        }
        Ok(())
    }

    /// Bring the changes of a section up to number `end` into its image, leaving an image at each open cut on the way.
    fn merge(
        &self,
        number: usize,
        section: &Section<L>,
        body: &mut Body<L>,
        end: u64,
        scratch: &mut Scratch,
    ) -> Result<()> {
        {
            let mut log = locked(&section.log);
            let first = log.appended - log.changes.len() as u64;
            let count = end.saturating_sub(first) as usize;
            if count == log.changes.len() && body.taken.is_empty() {
                mem::swap(&mut log.changes, &mut body.taken);
            } else {
                body.taken.extend(log.changes.drain(..count));
            }
        }
        // After the look at the log: invariant 3.
        let cuts: Vec<Arc<Cut<L>>> = locked(&self.cuts).iter().filter(|cut| cut.is_open(number)).cloned().collect();
        let taken = body.merged + body.taken.len() as u64;
        for cut in cuts {
            // A cut after what was taken is made by whoever collects it.
            if cut.appended[number] <= taken {
                let count = cut.appended[number].saturating_sub(body.merged) as usize;
                self.bring_in(body, count, scratch)?;
                L::settle(&mut body.image, &mut body.waiting, &self.pool, scratch)?;
                _ = cut.images[number].set(body.image.clone());
            }
        }
        self.bring_in(body, body.taken.len(), scratch)?;
        let mut log = locked(&section.log);
        log.edges = body.image.edges();
        log.due = self.tuning.due(log.edges, number);
        if log.changes.capacity() == 0 && body.taken.capacity() <= 2 * log.due {
            mem::swap(&mut log.changes, &mut body.taken);
        }
        body.taken = Vec::new();
        Ok(())
    }

    /// Bring the first `count` of the changes taken in, as the layout does that.
    fn bring_in(&self, body: &mut Body<L>, count: usize, scratch: &mut Scratch) -> Result<()> {
        for changes in body.taken[..count].chunks(SORTED_MAX) {
            L::bring_in(&mut body.image, &mut body.waiting, changes, &self.pool, scratch)?;
        }
        body.taken.drain(..count);
        body.merged += count as u64;
        Ok(())
    }

    /// A cut here and now. Under the gate.
    pub(super) fn cut(&self) -> Arc<Cut<L>> {
        let appended: Vec<u64> = self.sections().iter().map(|section| locked(&section.log).appended).collect();
        let images = appended.iter().map(|_| OnceLock::new()).collect();
        let cut = Arc::new(Cut { appended, images });
        locked(&self.cuts).push(cut.clone());
        cut
    }

    /// The images at a cut that this side made. Without the gate, while writers go on.
    ///
    /// # Errors
    /// `Invalid`, `Io`: what could not be merged waits.
    pub(super) fn collect(&self, cut: &Arc<Cut<L>>, team: &mut Team) -> Result<Vec<Arc<L>>> {
        let sections: Vec<Arc<Section<L>>> = self.sections()[..cut.images.len()].to_vec();
        let count = sections.len().div_ceil(Self::GRAIN);
        let outcomes = team.map(count, |_, share| {
            let mut scratch = Scratch::default();
            let numbers = share * Self::GRAIN..((share + 1) * Self::GRAIN).min(sections.len());
            numbers.into_iter().try_for_each(|number| self.settle(number, &sections[number], cut, &mut scratch))
        });
        locked(&self.cuts).retain(|open| !Arc::ptr_eq(open, cut));
        outcomes.into_iter().collect::<Result<()>>()?;
        let image = |image: &OnceLock<Arc<L>>| image.get().cloned().expect("invariant: every section was settled");
        Ok(cut.images.iter().map(image).collect())
    }

    /// Sections that a thread settles at once.
    const GRAIN: usize = 16;

    fn settle(&self, number: usize, section: &Section<L>, cut: &Cut<L>, scratch: &mut Scratch) -> Result<()> {
        let mut body = locked(&section.body);
        if cut.is_open(number) {
            self.merge(number, section, &mut body, cut.appended[number], scratch)?;
        }
        Ok(())
    }

    /// The neighbours of a vertex after all changes that were appended.
    pub(super) fn current(&self, vertex: u32) -> Vec<u32> {
        let Some(section) = self.sections().get(vertex as usize >> SHIFT).cloned() else { return Vec::new() };
        let local = vertex as usize % VERTICES;
        let body = locked(&section.body);
        let log = locked(&section.log);
        let mine = body.taken.iter().chain(&log.changes).filter(|change| change.vertex() == local);
        let mut changes = L::waiting_of(&body.waiting, local);
        changes.extend(mine);
        drop(log);
        let (mut list, mut sorted, mut merged) = (body.image.list(local).to_vec(), Vec::new(), Vec::new());
        for changes in changes.chunks(SORTED_MAX) {
            sort(changes, &mut sorted);
            merged.clear();
            merge_list(&list, &sorted, &mut merged);
            mem::swap(&mut list, &mut merged);
        }
        list
    }

    /// How many edges there are, but for changes that were not merged yet.
    pub(super) fn edges(&self) -> u64 {
        self.sections().iter().map(|section| locked(&section.log).edges).sum()
    }

    /// How many vertices there are sections for.
    pub(super) fn room(&self) -> usize {
        self.sections().len() * VERTICES
    }

    /// How much memory it takes, in bytes: sections with their gaps, those that only snapshots have, and what waits.
    pub(super) fn memory_bytes(&self) -> usize {
        let sections = self.sections();
        let logs = sections.iter().map(|section| {
            let body = locked(&section.body);
            let changes = body.taken.capacity() + locked(&section.log).changes.capacity();
            changes * size_of::<Change>() + L::waiting_bytes(&body.waiting)
        });
        let each = size_of::<Section<L>>() + size_of::<L>() + 6 * size_of::<usize>();
        self.pool.memory_bytes() + logs.sum::<usize>() + sections.len() * each
    }
}

impl Log {
    #[inline]
    fn append(&mut self, changes: &[Change]) {
        let needed = self.changes.len() + changes.len();
        if needed > self.changes.capacity() {
            // No more than is going to be used: logs are a share of the graph's memory. One that is due already and grows on, as while
            // a log of edges is archived piece by piece, gets a quarter more, so that it is not moved for each piece.
            let wanted = if self.changes.len() < self.due { self.due.max(needed) } else { needed + needed / 4 };
            let more = wanted - self.changes.len();
            self.changes.reserve_exact(more);
        }
        self.changes.extend_from_slice(changes);
        self.appended += changes.len() as u64;
    }

    fn is_due(&self) -> bool {
        self.changes.len() >= self.due
    }
}

impl<L> Cut<L> {
    fn is_open(&self, section: usize) -> bool {
        self.images.get(section).is_some_and(|image| image.get().is_none())
    }
}

impl Grouped {
    /// `changes` by sections, of which there are `sections`.
    pub(super) fn of(changes: &[Stored], sections: usize) -> Self {
        let section = |change: &Stored| (change.0 >> SHIFT) as usize;
        let packed = |change: &Stored| Change::new(change.0 as usize % VERTICES, change.1, change.2);
        let mut grouped = Self::default();
        if changes.len() < sections {
            let mut order: Vec<&Stored> = changes.iter().collect();
            // Stable: the order of changes within a section is kept.
            order.sort_by_key(|change| section(change));
            for group in order.chunk_by(|a, b| section(a) == section(b)) {
                grouped.changes.extend(group.iter().map(|change| packed(change)));
                grouped.groups.push((section(group[0]) as u32, grouped.changes.len()));
            }
            return grouped;
        }
        let mut places = vec![0usize; sections];
        changes.iter().for_each(|change| places[section(change)] += 1);
        let mut sum = 0;
        for (number, place) in places.iter_mut().enumerate() {
            let count = *place;
            *place = sum;
            sum += count;
            if count > 0 {
                grouped.groups.push((number as u32, sum));
            }
        }
        grouped.changes.resize(sum, Change::new(0, 0, false));
        for change in changes {
            let place = &mut places[section(change)];
            grouped.changes[*place] = packed(change);
            *place += 1;
        }
        grouped
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pma::Image;

    /// Fails when a lock that a panic has left is taken for one that somebody holds, so that the section is merged only when it is far behind.
    #[test]
    fn a_section_whose_merge_panicked_is_merged_by_the_next_who_finds_it_due() {
        let side = Side::<Image>::new(Tuning::EAGER).expect("memory");
        side.grow(1);
        let section = side.sections()[0].clone();
        let panics = || {
            let _body = section.body.lock();
            panic!("this panic is meant");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err() && section.body.is_poisoned());
        let mut due = Vec::new();
        side.append_few((0..5).map(|neighbor| (0, neighbor, true)), &mut due);
        assert_eq!(due, [0]);
        side.merge_due(&due, &mut Scratch::default()).expect("merged");
        assert!(locked(&section.log).changes.is_empty(), "nobody merged them");
    }
}
