//! Connected components by hooking and compressing: Shiloach-Vishkin, as the GAP benchmark has it.
//!
//! Every edge between two trees hangs the larger root below the smaller one, then all trees are made flat; until no edge finds anything.
//!
//! Sources: Shiloach, Vishkin, "An O(log n) parallel connectivity algorithm", Journal of Algorithms 3, 1982; Bader, Cong, Feo,
//! "On the Architectural Requirements for Efficient Execution of Graph Algorithms", ICPP 2005.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use biombo_base::Result;

use super::components::Components;
use crate::team::Team;
use crate::view::View;

/// The connected components (of a directed graph: weakly connected). O((vertices + edges) log vertices); 4 bytes a vertex.
///
/// # Errors
/// `Io` when there is no memory.
pub fn shiloach_vishkin<V: View>(view: &V, team: &mut Team) -> Result<Components> {
    let components = Components::alone(view, team)?;
    let blocks = view.blocks();
    let mut goes_on = true;
    while goes_on {
        let changed = AtomicBool::new(false);
        team.blocks(blocks.len(), 1, |_, range| {
            let mut has_hooked = false;
            for vertex in range.flat_map(|block| blocks.range(block)) {
                for &neighbor in view.out_neighbors(vertex) {
                    let (one, other) = (components.label(vertex), components.label(neighbor));
                    if one == other {
                        continue;
                    }
                    let (low, high) = (one.min(other), one.max(other));
                    if components.label(high) == high {
                        components.hook(high, low);
                        has_hooked = true;
                    }
                }
            }
            if has_hooked {
                changed.store(true, Relaxed);
            }
        });
        components.compress(view, team);
        goes_on = changed.into_inner();
    }
    Ok(components)
}
