//! Connected components by hooking and compressing: Shiloach-Vishkin, as the GAP benchmark has it.
//!
//! Every edge between two trees hangs the larger root below the smaller one, then all trees are made flat; until no edge finds anything.
//!
//! Sources: Shiloach, Vishkin, "An O(log n) parallel connectivity algorithm", Journal of Algorithms 3, 1982; Bader, Cong, Feo,
//! "On the Architectural Requirements for Efficient Execution of Graph Algorithms", ICPP 2005.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use biombo_base::Result;

use super::components::Components;
use crate::team::Team;
use crate::view::{Blocks, Lists, View};

/// The connected components (of a directed graph: weakly connected). O((vertices + edges) log vertices); 4 bytes a vertex.
///
/// # Errors
/// `Io` when there is no memory.
pub fn shiloach_vishkin<V: View>(view: &V, team: &mut Team) -> Result<Components> {
    let components = Components::alone(view, team)?;
    let blocks = view.blocks();
    // Of an undirected edge, one end is enough.
    let both_ends = view.is_directed();
    let mut goes_on = true;
    while goes_on {
        let changed = AtomicBool::new(false);
        team.walk(blocks.shares(), 1, |_, places| {
            if hook(view.out_lists(), blocks, places, &components.labels, both_ends) {
                changed.store(true, Relaxed);
            }
        });
        components.compress(view, team);
        goes_on = changed.into_inner();
    }
    Ok(components)
}

/// Hang roots below smaller ones along the edges of some vertices, or only those to smaller vertices; whether there was any. A hook may be
/// undone by another thread's: the next round looks again. All labels are roots when a round begins, so that a round without a hook has
/// seen both ends of every edge with the same one.
#[inline(never)]
fn hook(lists: impl Lists, blocks: &Blocks, places: Range<usize>, labels: &[AtomicU32], both_ends: bool) -> bool {
    let label = |vertex: u32| labels[vertex as usize].load(Relaxed);
    let mut has_hooked = false;
    blocks.each_list(places, lists, |vertex, list| {
        let mut one = label(vertex);
        for &neighbor in list {
            if neighbor >= vertex && !both_ends {
                break;
            }
            let other = label(neighbor);
            if one == other {
                continue;
            }
            let (low, high) = (one.min(other), one.max(other));
            if label(high) == high {
                labels[high as usize].store(low, Relaxed);
                has_hooked = true;
                one = label(vertex);
            }
        }
    });
    has_hooked
}
