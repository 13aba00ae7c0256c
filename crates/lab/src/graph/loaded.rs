//! Layouts with a graph in them, side by side: what kernels take their turns on.
//!
//! The static layout is in memory, and where the plan has persistent memory among its media there too ([`on_pmem`]): kernels read it where it is.
//!
//! Where updates come in, each turn is on a snapshot of its own, and placements are kept from one to the next ([`Standings`]): a node that has too
//! much more than its share of the edges gives units of vertices away, and only memory that is elsewhere is brought home. Invariant: when a graph
//! lay otherwise in between, all of its memory is taken to be elsewhere.

use std::sync::Arc;
use std::time::Instant;

use biombo_base::io::{Io, RealIo};
use biombo_base::{Error, Result};
use biombo_graph::csr::{Csr, file};
use biombo_graph::ids::Ids;
use biombo_graph::numa::{Kept, Load, Placed, Placement, Spreading, Standing};
use biombo_graph::pma::{self, Changing, Snapshot};
use biombo_graph::team::Team;
use biombo_graph::view::View;
use biombo_graph::{adjacency, buffered};

use super::nodes::{Laid, Nodes};
use super::stream::behind;
use super::{Kernel, Layout, Media, Plan};

/// What is behind the medium `pmem`, and whether it is played.
pub(super) type Behind = (String, bool);

/// A layout with a graph in it.
pub(super) enum Loaded {
    /// In memory, or on persistent memory, with what is behind that.
    Csr(Csr, Option<Behind>),
    Pma(Live<pma::Image>),
    Adjacency(Live<adjacency::Section>),
    Buffered(Live<buffered::Section>),
}

impl Loaded {
    pub(super) fn layout(&self) -> Layout {
        match self {
            Self::Csr(..) => Layout::Csr,
            Self::Pma(_) => Layout::Pma,
            Self::Adjacency(_) => Layout::Adjacency,
            Self::Buffered(_) => Layout::Buffered,
        }
    }

    /// Where the lists are that kernels read, and what is behind that.
    pub(super) fn media(&self) -> (Media, Option<Behind>) {
        match self {
            Self::Csr(csr, Some(behind)) if csr.backing().is_some() => (Media::Pmem, Some(behind.clone())),
            _ => (Media::Dram, None),
        }
    }
}

/// A graph that may change, as it was at a moment.
pub(super) struct Live<L: pma::Layout> {
    pub(super) graph: Changing<L>,
    pub(super) snapshot: Snapshot<L>,
    pub(super) standings: Standings,
}

/// A kernel's turn over a layout.
pub(super) struct Of<'t> {
    pub(super) kernel: Kernel,
    pub(super) source: u32,
    pub(super) layout: Layout,
    /// How the graph lies.
    pub(super) laid: Laid,
    /// It lay otherwise in the turn before, or nowhere.
    pub(super) is_moved: bool,
    pub(super) load: &'t Load,
}

/// What a turn of a kernel came to.
pub(super) struct Turn {
    pub(super) seconds: f64,
    /// A hash of it.
    pub(super) answer: String,
    /// Updates a second that came in meanwhile.
    pub(super) stream_per_s: Option<f64>,
    /// What it took to keep the placement, since the turn before.
    pub(super) kept: Option<Kept>,
}

/// The placements of a graph that takes updates in, each kept from snapshot to snapshot.
#[derive(Default)]
pub(super) struct Standings {
    each: Vec<(Placement, Standing)>,
}

impl Standings {
    /// A snapshot with its vertices dealt to the nodes, and what that took; not kept, and `None`, where they are not dealt to several.
    pub(super) fn placed<'v, V: View + Spreading>(
        &mut self,
        snapshot: &'v V,
        of: &Of<'_>,
        nodes: &Nodes,
        team: &mut Team,
    ) -> (Placed<'v, V>, Option<Kept>) {
        let standing = match of.laid {
            Laid::Dealt(placement) if nodes.count() > 1 => self.of(placement, nodes),
            _ => {
                nodes.lay(snapshot, of.layout.name(), of.laid, of.load);
                return (nodes.placed(snapshot, of.laid, of.load), None);
            }
        };
        if of.is_moved {
            standing.memory_has_moved();
        }
        nodes.note_first_touch(of.layout.name());
        let before = standing.kept();
        let placed = standing.place(snapshot, team);
        if let Some(error) = standing.refusal() {
            nodes.note_unplaced(error);
        }
        let kept = standing.kept().since(before);
        (placed, Some(kept))
    }

    fn of(&mut self, placement: Placement, nodes: &Nodes) -> &mut Standing {
        let known = self.each.iter().position(|(of, _)| *of == placement);
        let at = known.unwrap_or_else(|| {
            let home = nodes.home(Laid::Dealt(placement)).clone();
            self.each.push((placement, Standing::new(placement, nodes.count(), Some(home))));
            self.each.len() - 1
        });
        &mut self.each[at].1
    }
}

/// The graph of `csr` on persistent memory in a directory of its own, what is behind that, and how many seconds it took to save and to open it. Its
/// name goes at once; the memory goes with the graph.
pub(super) fn on_pmem(plan: &Plan, csr: &Csr, ids: &Ids) -> Result<(Csr, Behind, f64)> {
    let io: Arc<dyn Io> = RealIo::shared();
    let dir = plan.dir.join(format!("biombo-bench-graph-csr-{}", std::process::id()));
    let begun = Instant::now();
    let made = file::pmem::save(&io, &dir, csr, ids).and_then(|_| {
        let (graph, _, backing) = file::pmem::open(&io, &dir)?;
        Ok((graph, (behind(backing, &dir), backing.is_played()), begun.elapsed().as_secs_f64()))
    });
    let is_there = io.exists(&dir).unwrap_or(true);
    let removed = if is_there { io.remove_dir_all(&dir) } else { Ok(()) };
    let removed = removed.map_err(|e| Error::io(format_args!("remove {}", dir.display()), e));
    made.and_then(|made| removed.map(|()| made))
}
