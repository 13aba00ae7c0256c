//! How a graph's vertices are dealt to NUMA nodes when a kernel runs: said when it is loaded, or when it is run.
//!
//! What was said when it was loaded stands in the graph's directory, in [`FILE`]: a line of JSON that is replaced as a whole and says nothing that any
//! answer depends on.

use std::path::Path;
use std::sync::Arc;

use biombo::graph::numa::{Allocation, Choice, Home, Load, Owners, Placed, Placement, Spreading, Work, choose};
use biombo::graph::team::{Bind, Team};
use biombo::graph::view::View;
use biombo_base::io::{Io, OpenMode};
use biombo_base::topology::{Spread, Topology};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::failure::{Done, Failure};

const FILE: &str = "NODES";

/// A placement by its name, or the one that suits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands) enum PlacementArg {
    Block,
    RoundRobin,
    BlockCyclic,
    Degree,
    Auto,
}

impl PlacementArg {
    /// `None`: the one that suits kernel and graph.
    pub(in crate::commands) fn fixed(self) -> Option<Placement> {
        match self {
            Self::Block => Some(Placement::Block),
            Self::RoundRobin => Some(Placement::RoundRobin),
            Self::BlockCyclic => Some(Placement::BlockCyclic),
            Self::Degree => Some(Placement::Degree),
            Self::Auto => None,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(super) struct NodesArgs {
    /// How vertices are dealt to NUMA nodes: block, round-robin, block-cyclic, degree, auto
    #[arg(long, value_name = "P", hide_possible_values = true)]
    placement: Option<PlacementArg>,
    /// NUMA nodes; with another number than the machine's they are virtual [default: the machine's]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
}

/// What is known of the nodes of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    placement: Option<PlacementArg>,
    nodes: Option<usize>,
}

impl NodesArgs {
    /// What the command line says.
    pub(super) fn said(&self) -> Done<Said> {
        match self.nodes.filter(|nodes| !(1..=Spread::NODES_MAX).contains(nodes)) {
            Some(nodes) => Err(Failure::usage(format!("--nodes are 1 to {}, not {nodes}", Spread::NODES_MAX))),
            None => Ok(Said { placement: self.placement, nodes: self.nodes }),
        }
    }
}

impl Said {
    /// Keep it for the graph that is made in `dir`. Where nothing was said, what an earlier attempt left is no more.
    pub(super) fn keep(self, io: &dyn Io, dir: &Path) -> Done {
        let refused = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", dir.join(FILE).display()));
        if self == Self::default() {
            let path = dir.join(FILE);
            return match io.exists(&path).map_err(refused)? {
                true => io.remove_file(&path).and_then(|()| io.sync_dir(dir)).map_err(refused),
                false => Ok(()),
            };
        }
        let text = serde_json::to_string(&self).map_err(|e| refused(e.into()))?;
        let aside = dir.join(format!("{FILE}.tmp"));
        let write = || -> std::io::Result<()> {
            if io.exists(&aside)? {
                io.remove_file(&aside)?;
            }
            let file = io.open(&aside, OpenMode::CREATE_NEW)?;
            file.write_at(text.as_bytes(), 0)?;
            file.sync()?;
            io.rename(&aside, &dir.join(FILE))?;
            io.sync_dir(dir)
        };
        write().map_err(refused)
    }

    /// There is no graph in `dir` after all. What cannot be removed the next one replaces.
    pub(super) fn forget(io: &dyn Io, dir: &Path) {
        let _ = io.remove_file(&dir.join(FILE));
        let _ = io.remove_file(&dir.join(format!("{FILE}.tmp")));
    }

    /// What was said, and where nothing was, what is kept in `dir`.
    pub(super) fn or_kept(self, dir: &Path) -> Done<Self> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(e) => return Err(Failure::failed(format!("cannot read {}: {e}", path.display()))),
        };
        let wrong =
            |_| Failure::failed(format!("{} is damaged: remove it, nothing but a placement is lost", path.display()));
        let kept: Self = serde_json::from_str(&text).map_err(wrong)?;
        Ok(Self { placement: self.placement.or(kept.placement), nodes: self.nodes.or(kept.nodes) })
    }

    /// The nodes to run on; `None`: there is one, and nothing to deal.
    pub(super) fn spread(self) -> Done<Option<Spread>> {
        let topology = Topology::detect();
        let own = || topology.nodes.iter().filter(|node| !node.cpus.is_empty()).count().clamp(1, Spread::NODES_MAX);
        let count = self.nodes.unwrap_or_else(own);
        Ok(if count > 1 { Some(topology.spread(count)?) } else { None })
    }

    /// Threads on those nodes.
    pub(super) fn team(spread: Option<&Spread>, threads: usize) -> Done<Team> {
        let team = spread.map_or_else(|| Team::new(threads), |spread| Team::on(spread, Bind::RoundRobin, threads));
        team.map_err(|e| Failure::usage(e.to_string()))
    }

    /// The view with its vertices dealt to the nodes and their lists brought there, and the placement.
    pub(super) fn placed<'v, V: View + Spreading>(
        self,
        view: &'v V,
        spread: &Spread,
        work: Work,
        team: &mut Team,
    ) -> Done<(Placed<'v, V>, Placement)> {
        let (nodes, load) = (spread.nodes.len(), Load::of(view, team));
        let fixed = self.placement.unwrap_or(PlacementArg::BlockCyclic).fixed();
        let placement = fixed.unwrap_or_else(|| {
            let Choice { placement, .. } = choose(work, nodes, &load);
            placement
        });
        let home = Arc::new(Home::new(spread, Bind::RoundRobin, Allocation::Bind)?);
        let placed = Placed::new(view, placement, nodes, &load).at_home(Arc::clone(&home));
        if let Some(why) = view.stays().filter(|_| home.why_not().is_none()) {
            crate::note(why);
        }
        // Memory that cannot be placed is as usable where it lies.
        let owners = Owners::new(placement, nodes, &load);
        if let Some(why) = home.place_lists(view, view.vertices(), &owners).err() {
            crate::note(format!("memory lies where the system puts it: {why}"));
        }
        Ok((placed, placement))
    }
}
