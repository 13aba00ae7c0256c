//! NUMA nodes of a bench of graphs: which placements are compared, where threads and memory go, and what the machine could not do.
//!
//! Memory moves between trials when another placement has its turn, outside of what is timed.

use std::cell::RefCell;
use std::sync::Arc;

use biombo_base::topology::{Spread, Topology};
use biombo_base::{Error, Result};
use biombo_graph::csr::Csr;
use biombo_graph::numa::{Allocation, Choice, Home, Load, Owners, Placed, Placement, Spreading, choose};
use biombo_graph::team::{Bind, Team};
use biombo_graph::view::View;

use super::Kernel;

/// How vertices are dealt to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// Always so.
    Fixed(Placement),
    /// As it suits each kernel and the graph.
    Auto,
}

impl Placing {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed(placement) => placement.name(),
            Self::Auto => "auto",
        }
    }
}

/// What is measured of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesPlan {
    /// The placements whose kernels are run in turns.
    pub placings: Vec<Placing>,
    /// How many nodes; `None`: as many as the machine has. With another number they are virtual.
    pub nodes: Option<usize>,
    /// How memory comes to lie on nodes.
    pub allocation: Allocation,
    /// Where threads run; `None`: on all nodes in turn where there are several, and where the system lets them where there is one.
    pub bind: Option<Bind>,
}

impl Default for NodesPlan {
    fn default() -> Self {
        let placings = vec![Placing::Fixed(Placement::BlockCyclic)];
        Self { placings, nodes: None, allocation: Allocation::Bind, bind: None }
    }
}

/// The nodes of a run.
pub(super) struct Nodes {
    spread: Spread,
    bind: Bind,
    home: Arc<Home>,
    placings: Vec<Placing>,
    /// What the machine could not do, each once.
    not_done: RefCell<Vec<String>>,
}

impl Nodes {
    /// # Errors
    /// `Invalid` for no placement, no or too many nodes, and for threads and memory that contradict each other.
    pub(super) fn of(plan: &NodesPlan) -> Result<Self> {
        if plan.placings.is_empty() {
            return Err(Error::invalid("a bench of graphs has a placement"));
        }
        let topology = Topology::detect();
        let own = || topology.nodes.iter().filter(|node| !node.cpus.is_empty()).count().clamp(1, Spread::NODES_MAX);
        let spread = topology.spread(plan.nodes.unwrap_or_else(own))?;
        let default = if spread.nodes.len() > 1 { Bind::RoundRobin } else { Bind::None };
        let bind = plan.bind.unwrap_or(default);
        let home = Arc::new(Home::new(&spread, bind, plan.allocation)?);
        let not_done = home.why_not().map(str::to_owned).into_iter().collect();
        Ok(Self { spread, bind, home, placings: plan.placings.clone(), not_done: RefCell::new(not_done) })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.spread.nodes.len()
    }

    pub(super) fn bind(&self) -> Bind {
        self.bind
    }

    pub(super) fn allocation(&self) -> Allocation {
        self.home.allocation()
    }

    pub(super) fn placings(&self) -> &[Placing] {
        &self.placings
    }

    /// What could not be done so far; `None` where everything was.
    pub(super) fn not_done(&self) -> Option<String> {
        let said = self.not_done.borrow();
        (!said.is_empty()).then(|| said.join("; "))
    }

    fn note(&self, what: String) {
        let mut said = self.not_done.borrow_mut();
        if !said.contains(&what) {
            said.push(what);
        }
    }

    /// Threads on the nodes.
    ///
    /// # Errors
    /// Those of [`Team::on`].
    pub(super) fn team(&self, threads: usize) -> Result<Team> {
        let mut team = Team::on(&self.spread, self.bind, threads)?;
        let strays = team.unbound();
        if strays > 0 {
            self.note(format!("{strays} of {threads} threads are not bound: the system refused their processors"));
        }
        Ok(team)
    }

    /// The placement of a kernel's turn, and why where it was chosen.
    pub(super) fn choose(&self, placing: Placing, kernel: Kernel, load: &Load) -> (Placement, Option<String>) {
        match placing {
            Placing::Fixed(placement) => (placement, None),
            Placing::Auto => {
                let Choice { placement, why } = choose(kernel.work(), self.count(), load);
                (placement, Some(why))
            }
        }
    }

    /// A view with its vertices dealt to the nodes.
    pub(super) fn placed<'v, V: View>(&self, view: &'v V, placement: Placement, load: &Load) -> Placed<'v, V> {
        let placed = Placed::new(view, placement, self.count(), load);
        if self.count() > 1 { placed.at_home(self.home.clone()) } else { placed }
    }

    /// Bring the lists of a layout to the nodes of their vertices.
    pub(super) fn lay<G: View + Spreading>(&self, graph: &G, layout: &str, placement: Placement, load: &Load) {
        if self.count() == 1 {
            return;
        }
        if self.allocation() == Allocation::FirstTouch {
            self.note(format!(
                "the lists of {layout} lie where they were made, and are not touched first by their nodes"
            ));
            return;
        }
        let owners = Owners::new(placement, self.count(), load);
        if let Err(error) = self.home.place_lists(graph, graph.vertices(), &owners) {
            self.note(format!("memory lies where the system puts it: {error}"));
        }
    }

    /// The same for a static graph, which is copied where memory lies where it is touched first.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(super) fn lay_static(&self, csr: &mut Csr, placement: Placement, load: &Load, team: &mut Team) -> Result<()> {
        if self.count() > 1 && self.allocation() == Allocation::FirstTouch {
            let blocks = csr.blocks().clone().dealt(Owners::new(placement, self.count(), load));
            *csr = csr.touched_first(&blocks, team)?;
            return Ok(());
        }
        self.lay(csr, "csr", placement, load);
        Ok(())
    }
}
