//! Breadth-first search, direction-optimising.
//!
//! From a small frontier, its vertices look for new ones (top down). From a large one, the vertices that are still unreached look for
//! any neighbour in the frontier, and stop at the first (bottom up): most edges are never looked at. The steps change sides as in the
//! paper: down to up when the frontier's edges outnumber a share of the unexplored ones, up to down when the frontier shrinks.
//!
//! Source: Beamer, Asanović, Patterson, "Direction-Optimizing Breadth-First Search", SC 2012. Bottom up, this keeps which vertices are
//! still to be reached as bits, so that 64 that are done cost one look.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use biombo_base::Result;

use super::check_source;
use crate::bitmap::{Bitmap, bits};
use crate::media::Array;
use crate::numa::Owners;
use crate::team::Team;
use crate::view::{Blocks, Lists, View, WORD_VERTICES};

/// Bottom up from this share of the unexplored edges on (the paper's alpha).
const ALPHA: u64 = 15;
/// Top down again when the frontier is below this share of the vertices (beta).
const BETA: u64 = 18;
/// Vertices of the frontier that a thread takes at once, going down.
const FRONTIER_GRAIN: usize = 64;

/// Vertices of a frontier that a thread puts into a set, or takes out, at once.
const SET_GRAIN: usize = 4096;
/// How many vertices of a frontier tell how many edges leave it.
const SAMPLES: usize = 4096;

/// A tree of shortest paths from a source.
pub struct Tree {
    /// Parent + 1; 0 where unreached.
    pub(super) parents: Array<AtomicU32>,
}

impl Tree {
    /// The vertex before `vertex` on a shortest path; itself for the source, `None` where no path leads.
    pub fn parent(&self, vertex: u32) -> Option<u32> {
        self.parents.get(vertex as usize)?.load(Relaxed).checked_sub(1)
    }

    /// The number of edges from the source, -1 where no path leads, for every vertex. O(vertices).
    pub fn depths(&self) -> Vec<i64> {
        const UNKNOWN: i64 = -2;
        let mut depths = vec![UNKNOWN; self.parents.len()];
        let mut path = Vec::new();
        for vertex in 0..depths.len() as u32 {
            // Up to the first ancestor whose depth is known, and back.
            let mut at = vertex;
            let mut depth = loop {
                match (depths[at as usize], self.parent(at)) {
                    (UNKNOWN, None) => break -1,
                    (UNKNOWN, Some(parent)) if parent == at => break 0,
                    (UNKNOWN, Some(parent)) => {
                        path.push(at);
                        at = parent;
                    }
                    (known, _) => break known,
                }
            };
            depths[at as usize] = depth;
            while let Some(below) = path.pop() {
                depth += 1;
                depths[below as usize] = depth;
            }
        }
        depths
    }

    fn reach(&self, vertex: u32, parent: u32) {
        self.parents[vertex as usize].store(parent + 1, Relaxed);
    }
}

/// Shortest paths by number of edges from `source` to all vertices. O(vertices + edges); 4 bytes and 3 bits a vertex.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::{kernels::bfs, team::Team};
/// let mut team = Team::new(1)?;
/// let path = Csr::build(4, &[[0, 1], [1, 2]], Shape::UNDIRECTED, &mut team)?;
/// assert_eq!(bfs(&path, 0, &mut team)?.depths(), [0, 1, 2, -1]);
/// # Ok::<(), biombo_base::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for a source that is no vertex; `Io` when there is no memory.
pub fn bfs<V: View>(view: &V, source: u32, team: &mut Team) -> Result<Tree> {
    search(view, source, team, None)
}

/// The vertices that are reached from `source`, by their depths; within a depth those of a node together, in any order.
///
/// # Errors
/// As [`bfs`].
pub(super) fn levels<V: View>(view: &V, source: u32, team: &mut Team) -> Result<Vec<Frontier>> {
    let mut levels = Vec::new();
    search(view, source, team, Some(&mut levels))?;
    Ok(levels)
}

/// The tree; and every frontier into `levels`, if they are asked for.
fn search<V: View>(view: &V, source: u32, team: &mut Team, mut levels: Option<&mut Vec<Frontier>>) -> Result<Tree> {
    let vertices = view.vertices();
    check_source(source, vertices)?;
    let tree = Tree { parents: view.blocks().zeroed(team)? };
    tree.reach(source, source);
    let owners = view.blocks().owners();
    let mut frontier = Frontier::of(source, owners);
    let mut unexplored = view.edges();
    let mut ahead = view.out_degree(source) as u64;
    let mut sets: Option<[Bitmap; 3]> = None;
    while !frontier.vertices.is_empty() {
        if ahead <= unexplored / ALPHA {
            unexplored = unexplored.saturating_sub(ahead);
            let next = down(view, &tree, &frontier, team);
            ahead = edges_ahead(view, &next.vertices);
            let passed = std::mem::replace(&mut frontier, next);
            if let Some(levels) = &mut levels {
                levels.push(passed);
            }
            continue;
        }
        let [done, front, next] = match &mut sets {
            Some(sets) => sets,
            None => {
                sets.insert([Bitmap::new(vertices, team)?, Bitmap::new(vertices, team)?, Bitmap::new(vertices, team)?])
            }
        };
        mark(view, &tree, done, team);
        // What an earlier turn left in `front` does no harm: all neighbours of that frontier were reached since.
        frontier.insert_into(front, team);
        let mut awake = frontier.vertices.len() as u64;
        if let Some(levels) = &mut levels {
            levels.push(std::mem::take(&mut frontier));
        }
        loop {
            let before = awake;
            awake = up(view, &tree, done, front, next, team);
            std::mem::swap(front, next);
            if awake < before && awake <= vertices as u64 / BETA {
                break;
            }
            if let Some(levels) = &mut levels {
                levels.push(listed(view, front, team));
            }
        }
        frontier = listed(view, front, team);
        // One more step down before the sides are weighed again.
        ahead = 1;
    }
    Ok(tree)
}

/// Vertices that are reached at once, those of each node one after the other.
#[derive(Default)]
pub(super) struct Frontier {
    pub(super) vertices: Vec<u32>,
    pub(super) shares: Vec<Range<usize>>,
}

impl Frontier {
    fn of(source: u32, owners: &Owners) -> Self {
        Self::joined(vec![vec![source]], owners)
    }

    /// Put its vertices into `set`.
    pub(super) fn insert_into(&self, set: &Bitmap, team: &mut Team) {
        team.walk(&self.shares, SET_GRAIN, |_, range| {
            self.vertices[range].iter().for_each(|vertex| set.insert(*vertex));
        });
    }

    /// Take everything out of the words of `set` that its vertices are in.
    pub(super) fn clear_from(&self, set: &Bitmap, team: &mut Team) {
        team.walk(&self.shares, SET_GRAIN, |_, range| set.clear_words_of(&self.vertices[range]));
    }

    /// Of what threads found.
    fn joined(found: Vec<Vec<u32>>, owners: &Owners) -> Self {
        let vertices = found.concat();
        let nodes = owners.nodes();
        if nodes == 1 {
            let all = 0..vertices.len();
            return Self { vertices, shares: vec![all] };
        }
        let mut ends = vec![0; nodes];
        vertices.iter().for_each(|vertex| ends[owners.node(*vertex)] += 1);
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let mut sorted = vec![0; sum];
        for vertex in vertices {
            let end = &mut ends[owners.node(vertex)];
            sorted[*end] = vertex;
            *end += 1;
        }
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let shares = begins.zip(&ends).map(|(begin, end)| begin..*end).collect();
        Self { vertices: sorted, shares }
    }
}

/// The frontier's vertices reach their neighbours: the next frontier.
fn down<V: View>(view: &V, tree: &Tree, frontier: &Frontier, team: &mut Team) -> Frontier {
    let (lists, parents) = (view.out_lists(), &tree.parents[..]);
    let found = team.gather(&frontier.shares, FRONTIER_GRAIN, |range, found: &mut Vec<u32>| {
        for &vertex in &frontier.vertices[range] {
            for &neighbor in lists.list(vertex) {
                let parent = &parents[neighbor as usize];
                if parent.load(Relaxed) == 0 && parent.compare_exchange(0, vertex + 1, Relaxed, Relaxed).is_ok() {
                    found.push(neighbor);
                }
            }
        }
    });
    Frontier::joined(found, view.blocks().owners())
}

/// About how many edges leave the frontier: of a large one, by a sample, for each look at a degree is a miss of the cache.
fn edges_ahead<V: View>(view: &V, frontier: &[u32]) -> u64 {
    let step = (frontier.len() / SAMPLES).max(1);
    let sample = frontier.iter().step_by(step).map(|vertex| view.out_degree(*vertex) as u64);
    sample.sum::<u64>() * step as u64
}

/// Which vertices are reached, as bits.
fn mark<V: View>(view: &V, tree: &Tree, done: &Bitmap, team: &mut Team) {
    let blocks = view.blocks();
    team.walk(blocks.whole(), 1, |_, places| {
        for place in places {
            let vertices = blocks.indexes(blocks.block(place));
            for (word, parents) in (vertices.start / WORD_VERTICES..).zip(tree.parents[vertices].chunks(WORD_VERTICES))
            {
                let mut reached = 0;
                for (bit, parent) in parents.iter().enumerate() {
                    reached |= u64::from(parent.load(Relaxed) != 0) << bit;
                }
                // Bits past the last vertex count as reached.
                let past = (!0u64).checked_shl(parents.len() as u32).unwrap_or(0);
                done.set_word(word, reached | past);
            }
        }
    });
}

/// Vertices that are not reached look for a neighbour in the frontier: how many found one; they are `next`.
fn up<V: View>(view: &V, tree: &Tree, done: &Bitmap, front: &Bitmap, next: &Bitmap, team: &mut Team) -> u64 {
    let blocks = view.blocks();
    // Then a word has vertices of several nodes, and none of them may write all of it.
    let is_striped = blocks.owners().is_striped();
    if is_striped {
        team.walk(blocks.whole(), 1, |_, places| {
            places.flat_map(|place| words(blocks, blocks.block(place))).for_each(|word| next.set_word(word, 0));
        });
    }
    let found = team.gather(blocks.shares(), 1, |places, awake: &mut u64| {
        let lists = view.in_lists();
        for place in places {
            for word in words(blocks, blocks.block_of_share(place)) {
                let (mut found, mut hopeless) = (0, 0);
                for bit in bits(!done.word(word) & blocks.mask(place, word)) {
                    let vertex = (word * WORD_VERTICES) as u32 + bit;
                    let neighbors = lists.list(vertex);
                    match neighbors.iter().find(|neighbor| front.contains(**neighbor)) {
                        Some(&parent) => {
                            tree.reach(vertex, parent);
                            found |= 1 << bit;
                        }
                        None if neighbors.is_empty() => hopeless |= 1 << bit,
                        None => {}
                    }
                }
                if is_striped {
                    next.insert_word(word, found);
                    done.insert_word(word, found | hopeless);
                } else {
                    next.set_word(word, found);
                    done.set_word(word, done.word(word) | found | hopeless);
                }
                *awake += u64::from(found.count_ones());
            }
        }
    });
    found.into_iter().sum()
}

/// The members of `set`.
fn listed<V: View>(view: &V, set: &Bitmap, team: &mut Team) -> Frontier {
    let blocks = view.blocks();
    let found = team.gather(blocks.whole(), 1, |places, list: &mut Vec<u32>| {
        for word in places.flat_map(|place| words(blocks, blocks.block(place))) {
            list.extend(bits(set.word(word)).map(|bit| (word * WORD_VERTICES) as u32 + bit));
        }
    });
    Frontier::joined(found, blocks.owners())
}

/// The words of a block's vertices.
fn words(blocks: &Blocks, block: usize) -> Range<usize> {
    let vertices = blocks.indexes(block);
    vertices.start / WORD_VERTICES..vertices.end.div_ceil(WORD_VERTICES)
}

/// Checks a tree: every reachable vertex is reached, by an edge of the graph, from a parent one step nearer to the source.
///
/// # Errors
/// What is wrong.
pub fn verify<V: View>(view: &V, source: u32, tree: &Tree) -> Result<(), String> {
    let expected = depths_plainly(view, source);
    for (vertex, &depth) in (0u32..).zip(&expected) {
        match tree.parent(vertex) {
            None if depth >= 0 => return Err(format!("vertex {vertex} at depth {depth} was not reached")),
            None => {}
            Some(parent) if vertex == source && parent != source => {
                return Err(format!("the source's parent is {parent}"));
            }
            Some(_) if vertex == source => {}
            Some(_) if depth < 0 => return Err(format!("vertex {vertex} was reached, and no path leads there")),
            Some(parent) => {
                if expected.get(parent as usize) != Some(&(depth - 1)) {
                    return Err(format!(
                        "vertex {vertex} at depth {depth} has the parent {parent}, which is not one nearer"
                    ));
                }
                if !view.out_neighbors(parent).contains(&vertex) {
                    return Err(format!("no edge leads from {parent} to {vertex}"));
                }
            }
        }
    }
    Ok(())
}

/// Depths by the textbook's queue.
fn depths_plainly<V: View>(view: &V, source: u32) -> Vec<i64> {
    let mut depths = vec![-1; view.vertices()];
    depths[source as usize] = 0;
    let mut queue = std::collections::VecDeque::from([source]);
    while let Some(vertex) = queue.pop_front() {
        for &neighbor in view.out_neighbors(vertex) {
            if depths[neighbor as usize] < 0 {
                depths[neighbor as usize] = depths[vertex as usize] + 1;
                queue.push_back(neighbor);
            }
        }
    }
    depths
}
