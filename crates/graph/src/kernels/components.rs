//! Connected components as the kernels find them: each vertex has the smallest vertex of its component as label.
//!
//! Of a directed graph these are the weakly connected components: edges count in both directions.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use biombo_base::Result;

use crate::media::Array;
use crate::team::Team;
use crate::view::View;

/// The label of each vertex.
pub struct Components {
    pub(super) labels: Array<AtomicU32>,
}

impl Components {
    /// Each vertex for itself.
    pub(super) fn alone<V: View>(view: &V, team: &mut Team) -> Result<Self> {
        let blocks = view.blocks();
        let labels: Array<AtomicU32> = blocks.any(team)?;
        let of = &labels[..];
        team.walk(blocks.shares(), 1, |_, places| blocks.each_member(places, |v| of[v as usize].store(v, Relaxed)));
        Ok(Self { labels })
    }

    /// The smallest vertex that is connected with `vertex`.
    #[inline]
    pub fn label(&self, vertex: u32) -> u32 {
        self.labels[vertex as usize].load(Relaxed)
    }

    /// How many components there are. O(vertices).
    pub fn count(&self) -> usize {
        self.labels.iter().zip(0..).filter(|(label, vertex)| label.load(Relaxed) == *vertex).count()
    }

    /// Join the trees that two vertices are in: the larger root hangs below the smaller one. Several threads may do it at once.
    #[inline]
    pub(super) fn link(&self, one: u32, other: u32) {
        let (mut one, mut other) = (self.label(one), self.label(other));
        while one != other {
            let (low, high) = (one.min(other), one.max(other));
            let above = self.label(high);
            let is_root = above == high;
            if above == low
                || (is_root && self.labels[high as usize].compare_exchange(high, low, Relaxed, Relaxed).is_ok())
            {
                return;
            }
            one = self.label(self.label(high));
            other = self.label(low);
        }
    }

    /// Hang every vertex right below its root.
    pub(super) fn compress<V: View>(&self, view: &V, team: &mut Team) {
        let blocks = view.blocks();
        team.walk(blocks.shares(), 1, |_, places| {
            blocks.each_member(places, |vertex| {
                let mut label = self.label(vertex);
                let mut above = self.label(label);
                if label == above {
                    return;
                }
                while label != above {
                    label = above;
                    above = self.label(label);
                }
                self.labels[vertex as usize].store(label, Relaxed);
            });
        });
    }
}

/// Checks labels: those of an edge's ends are the same, and each is the smallest vertex that a search finds from it.
///
/// # Errors
/// What is wrong.
pub fn verify<V: View>(view: &V, components: &Components) -> Result<(), String> {
    let mut is_seen = vec![false; view.vertices()];
    let mut open = Vec::new();
    for root in 0..view.vertices() as u32 {
        if is_seen[root as usize] {
            continue;
        }
        // The smallest unseen vertex is the smallest of its component.
        is_seen[root as usize] = true;
        open.push(root);
        while let Some(vertex) = open.pop() {
            let label = components.label(vertex);
            if label != root {
                return Err(format!("vertex {vertex} has the label {label}, and is connected with {root}"));
            }
            for &neighbor in view.out_neighbors(vertex).iter().chain(view.in_neighbors(vertex)) {
                if !std::mem::replace(&mut is_seen[neighbor as usize], true) {
                    open.push(neighbor);
                }
            }
        }
    }
    Ok(())
}
