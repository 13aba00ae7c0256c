//! The memory of a static graph on NUMA nodes.

use std::ops::Range;

use biombo_base::Result;

use super::{Adjacency, Csr};
use crate::media::Array;
use crate::numa::{Memory, Spreading};
use crate::team::Team;
use crate::view::{Blocks, View};

impl Spreading for Csr {
    fn memory_of(&self, vertices: Range<usize>, visit: &mut dyn FnMut(Memory<'_>) -> Result<()>) -> Result<()> {
        for lists in std::iter::once(&self.out).chain(&self.inward) {
            visit(Memory::Offsets(&lists.offsets[vertices.clone()]))?;
            let (begin, end) = (lists.offsets[vertices.start], lists.offsets[vertices.end]);
            visit(Memory::Numbers(&lists.targets[begin as usize..end as usize]))?;
        }
        Ok(())
    }

    fn stays(&self) -> Option<&'static str> {
        self.backing().map(|_| "the lists of a static graph on persistent memory stay where its device is")
    }
}

impl Csr {
    /// The same graph in memory of its own, each block of vertices touched first by a thread of the node that `blocks` deal it to: where
    /// memory lies where it is touched first, it lies there. O(edges).
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn touched_first(&self, blocks: &Blocks, team: &mut Team) -> Result<Self> {
        let out = self.out.touched_first(blocks, team)?;
        let inward = self.inward.as_ref().map(|inward| inward.touched_first(blocks, team)).transpose()?;
        Ok(Self { out, inward, blocks: self.blocks().clone() })
    }
}

impl Adjacency {
    fn touched_first(&self, blocks: &Blocks, team: &mut Team) -> Result<Self> {
        let mut offsets = Array::<u64>::zeroed(self.offsets.len())?;
        let mut targets = Array::<u32>::zeroed(self.targets.len())?;
        let mut rest = &mut targets[..];
        let mut tasks = Vec::with_capacity(blocks.len());
        // The last offset belongs to no vertex.
        let vertices = offsets.len() - 1;
        for (block, part) in blocks.split(&mut offsets[..vertices]).into_iter().enumerate() {
            let vertices = blocks.indexes(block);
            let edges = self.offsets[vertices.start] as usize..self.offsets[vertices.end] as usize;
            let (lists, after) = std::mem::take(&mut rest).split_at_mut(edges.len());
            rest = after;
            tasks.push((vertices, part, edges, lists));
        }
        let tasks = blocks.in_places(tasks);
        team.tasks_at_home(blocks.whole(), tasks, |_, (vertices, part, edges, lists)| {
            part.copy_from_slice(&self.offsets[vertices]);
            lists.copy_from_slice(&self.targets[edges]);
        });
        if let (Some(last), Some(sum)) = (offsets.last_mut(), self.offsets.last()) {
            *last = *sum;
        }
        Ok(Self { offsets: offsets.into(), targets: targets.into() })
    }
}
