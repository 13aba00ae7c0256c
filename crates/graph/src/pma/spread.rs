//! The memory of a snapshot on NUMA nodes.
//!
//! Sections are blocks of whole pages, so that each lies on one node. A section that is rewritten later gets pages of the pool that have been
//! somewhere before: who wants them at home places a later snapshot anew.

use std::ops::Range;

use biombo_base::Result;

use super::Snapshot;
use super::layout::{Layout, VERTICES};
use crate::numa::{Memory, Spreading};

impl<L: Layout> Spreading for Snapshot<L> {
    fn memory_of(&self, vertices: Range<usize>, visit: &mut dyn FnMut(Memory<'_>) -> Result<()>) -> Result<()> {
        // Stretches begin at units, which are whole sections; the last one ends with the vertices.
        let sections = vertices.start / VERTICES..vertices.end.div_ceil(VERTICES);
        for images in self.sides() {
            for section in &images[sections.start.min(images.len())..sections.end.min(images.len())] {
                visit(Memory::Numbers(section.memory()))?;
            }
        }
        Ok(())
    }
}
