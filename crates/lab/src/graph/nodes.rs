//! NUMA nodes of a bench of graphs: which placements are compared, where threads and memory go, and what the machine could not do.
//!
//! Memory moves between trials when another placement has its turn, outside of what is timed. A placing that is [`Whole`] has threads of its own.

use std::cell::RefCell;
use std::sync::Arc;

use biombo_base::topology::{Spread, Topology};
use biombo_base::{Error, Result};
use biombo_graph::csr::Csr;
use biombo_graph::numa::{Allocation, Choice, Home, Load, Owners, Placed, Placement, Spreading, choose};
use biombo_graph::team::{Bind, Team};
use biombo_graph::view::View;

use super::{Kernel, Record};

/// How vertices are dealt to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// Always so.
    Fixed(Placement),
    /// As it suits each kernel and the graph.
    Auto,
    /// Not at all, in turns with those that are.
    Whole(Whole),
}

/// A graph whose vertices are not dealt: where its memory is, and who works on it. Whatever the plan says of threads and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// As without nodes: threads where the system lets them; lists on the first node, results where they are touched.
    NoNodes,
    /// All threads and all memory on the first node.
    Local,
    /// All threads on the first node, all memory on the last one.
    Remote,
}

impl Placing {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed(placement) => placement.name(),
            Self::Auto => "auto",
            Self::Whole(Whole::NoNodes) => "no-nodes",
            Self::Whole(Whole::Local) => "local",
            Self::Whole(Whole::Remote) => "remote",
        }
    }

    /// Whether a kernel's record is of its turn.
    pub fn has(self, record: &Record) -> bool {
        match self {
            Self::Auto => record.why.is_some(),
            Self::Fixed(_) | Self::Whole(_) => record.why.is_none() && record.placement == self.name(),
        }
    }
}

impl Whole {
    /// Where its threads run.
    fn bind(self) -> Bind {
        match self {
            Self::NoNodes => Bind::None,
            Self::Local => Bind::Local,
            Self::Remote => Bind::Remote,
        }
    }

    /// Where its memory is, in the words of a binding.
    fn memory(self) -> Bind {
        if self == Self::Remote { Bind::Remote } else { Bind::Local }
    }
}

/// How a graph lies for a turn of a kernel: what was chosen of a [`Placing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Laid {
    Dealt(Placement),
    Whole(Whole),
}

impl Laid {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dealt(placement) => placement.name(),
            Self::Whole(whole) => Placing::Whole(whole).name(),
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

/// The threads of a run.
pub(super) struct Teams {
    /// Those that build graphs, and work where vertices are dealt.
    pub(super) dealt: Team,
    whole: Vec<(Whole, Team)>,
}

impl Teams {
    /// Those that work on a graph that lies so.
    pub(super) fn of(&mut self, laid: Laid) -> &mut Team {
        let at = match laid {
            Laid::Whole(of) => self.whole.iter().position(|(whole, _)| *whole == of),
            Laid::Dealt(_) => None,
        };
        at.map_or(&mut self.dealt, |at| &mut self.whole[at].1)
    }
}

/// The nodes of a run.
pub(super) struct Nodes {
    spread: Spread,
    bind: Bind,
    home: Arc<Home>,
    /// Of those of the placings that are whole.
    whole: Vec<(Whole, Arc<Home>)>,
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
        let mut whole = Vec::new();
        for placing in &plan.placings {
            if let Placing::Whole(of) = placing {
                whole.push((*of, Arc::new(Home::new(&spread, of.memory(), Allocation::Bind)?)));
            }
        }
        let nodes =
            Self { spread, bind, home, whole, placings: plan.placings.clone(), not_done: RefCell::new(Vec::new()) };
        let homes = std::iter::once(&nodes.home).chain(nodes.whole.iter().map(|(_, home)| home));
        homes.filter_map(|home| home.why_not()).for_each(|why| nodes.note(why.to_owned()));
        Ok(nodes)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.spread.nodes.len()
    }

    /// How many a graph that lies so knows of, and where its threads run.
    pub(super) fn of_turn(&self, laid: Laid) -> (usize, Bind) {
        match laid {
            Laid::Dealt(_) => (self.count(), self.bind),
            Laid::Whole(whole @ Whole::NoNodes) => (1, whole.bind()),
            Laid::Whole(whole) => (self.count(), whole.bind()),
        }
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

    pub(super) fn note_unplaced(&self, error: &Error) {
        self.note(format!("memory lies where the system puts it: {error}"));
    }

    /// Where memory lies where it is touched first: the lists of a layout that changes do not lie at home.
    pub(super) fn note_first_touch(&self, layout: &str) {
        if self.allocation() == Allocation::FirstTouch {
            self.note(format!(
                "the lists of {layout} lie where they were made, and are not touched first by their nodes"
            ));
        }
    }

    fn note(&self, what: String) {
        let mut said = self.not_done.borrow_mut();
        if !said.contains(&what) {
            said.push(what);
        }
    }

    /// Threads on the nodes, as each placing needs them.
    ///
    /// # Errors
    /// Those of [`Team::on`].
    pub(super) fn teams(&self, threads: usize) -> Result<Teams> {
        let whole = self.whole.iter().map(|(whole, _)| Ok((*whole, self.team(whole.bind(), threads)?)));
        Ok(Teams { dealt: self.team(self.bind, threads)?, whole: whole.collect::<Result<_>>()? })
    }

    fn team(&self, bind: Bind, threads: usize) -> Result<Team> {
        let mut team = Team::on(&self.spread, bind, threads)?;
        let strays = team.unbound();
        if strays > 0 {
            self.note(format!("{strays} of {threads} threads are not bound: the system refused their processors"));
        }
        Ok(team)
    }

    /// How the graph lies for a kernel's turn, and why where that was chosen.
    pub(super) fn choose(&self, placing: Placing, kernel: Kernel, load: &Load) -> (Laid, Option<String>) {
        match placing {
            Placing::Fixed(placement) => (Laid::Dealt(placement), None),
            Placing::Whole(whole) => (Laid::Whole(whole), None),
            Placing::Auto => {
                let Choice { placement, why } = choose(kernel.work(), self.count(), load);
                (Laid::Dealt(placement), Some(why))
            }
        }
    }

    /// Where memory is of a graph that lies so.
    pub(super) fn home(&self, laid: Laid) -> &Arc<Home> {
        let Laid::Whole(of) = laid else { return &self.home };
        self.whole.iter().find(|(whole, _)| *whole == of).map_or(&self.home, |(_, home)| home)
    }

    /// A view with its vertices dealt to the nodes, or not.
    pub(super) fn placed<'v, V: View>(&self, view: &'v V, laid: Laid, load: &Load) -> Placed<'v, V> {
        let placed = match laid {
            Laid::Dealt(placement) => Placed::new(view, placement, self.count(), load),
            Laid::Whole(_) => Placed::new(view, Placement::Block, 1, load),
        };
        let is_at_home = self.count() > 1 && laid != Laid::Whole(Whole::NoNodes);
        if is_at_home { placed.at_home(self.home(laid).clone()) } else { placed }
    }

    /// Bring the lists of a layout to the nodes of their vertices.
    pub(super) fn lay<G: View + Spreading>(&self, graph: &G, layout: &str, laid: Laid, load: &Load) {
        if self.count() == 1 {
            return;
        }
        if let Some(why) = graph.stays() {
            self.note(why.to_owned());
            return;
        }
        let owners = match laid {
            Laid::Dealt(_) if self.allocation() == Allocation::FirstTouch => {
                self.note_first_touch(layout);
                return;
            }
            Laid::Dealt(placement) => Owners::new(placement, self.count(), load),
            Laid::Whole(_) => Owners::one(),
        };
        if let Err(error) = self.home(laid).place_lists(graph, graph.vertices(), &owners) {
            self.note_unplaced(&error);
        }
    }

    /// The same for a static graph, which is copied where memory lies where it is touched first, unless it stays where it is.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(super) fn lay_static(&self, csr: &mut Csr, laid: Laid, load: &Load, team: &mut Team) -> Result<()> {
        if let Laid::Dealt(placement) = laid
            && self.count() > 1
            && self.allocation() == Allocation::FirstTouch
            && csr.stays().is_none()
        {
            let blocks = csr.blocks().clone().dealt(Owners::new(placement, self.count(), load));
            *csr = csr.touched_first(&blocks, team)?;
            return Ok(());
        }
        self.lay(csr, "csr", laid, load);
        Ok(())
    }
}
