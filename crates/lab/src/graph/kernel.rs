//! Kernels by name, and whether their answers are right.

use std::collections::HashMap;

use biombo_base::Result;
use biombo_graph::kernels::pagerank::Stop;
use biombo_graph::kernels::{Components, afforest, bfs, brandes, components, pagerank, shiloach_vishkin};
use biombo_graph::media::Array;
use biombo_graph::numa::Work;
use biombo_graph::team::Team;
use biombo_graph::view::View;
use xxhash_rust::xxh3::Xxh3;

/// A kernel that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Breadth-first search from the vertex with the most out-edges.
    Bfs,
    /// 20 iterations.
    Pagerank,
    /// Afforest.
    Cc,
    /// Shiloach-Vishkin.
    CcSv,
    /// Betweenness from the same one source.
    Bc,
}

/// Iterations of PageRank that are measured, as published comparisons have them.
const ITERATIONS: u32 = 20;

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bfs, Self::Pagerank, Self::Cc, Self::CcSv, Self::Bc];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfs => "bfs",
            Self::Pagerank => "pagerank",
            Self::Cc => "cc",
            Self::CcSv => "cc-sv",
            Self::Bc => "bc",
        }
    }

    /// What it mostly does, for the choice of a placement.
    pub(super) fn work(self) -> Work {
        match self {
            Self::Bfs => Work::Search,
            Self::Pagerank | Self::Cc | Self::CcSv | Self::Bc => Work::Sweep,
        }
    }
}

/// What a kernel found.
pub(super) enum Answer {
    Tree(bfs::Tree),
    Scores(Array<f64>),
    Components(Components),
}

impl Answer {
    pub(super) fn of<V: View>(kernel: Kernel, view: &V, source: u32, team: &mut Team) -> Result<Self> {
        let stop = Stop { iterations: ITERATIONS, tolerance: 0.0 };
        Ok(match kernel {
            Kernel::Bfs => Self::Tree(bfs(view, source, team)?),
            Kernel::Pagerank => Self::Scores(pagerank(view, stop, team)?.scores),
            Kernel::Cc => Self::Components(afforest(view, team)?),
            Kernel::CcSv => Self::Components(shiloach_vishkin(view, team)?),
            Kernel::Bc => Self::Scores(brandes(view, &[source], team)?),
        })
    }

    /// The same for the same answer: of a search, the depths, since any parent of the right depth will do.
    fn hash(&self, vertices: usize) -> u64 {
        let mut hash = Xxh3::new();
        match self {
            Self::Tree(tree) => tree.depths().iter().for_each(|depth| hash.update(&depth.to_le_bytes())),
            Self::Scores(scores) => scores.iter().for_each(|score| hash.update(&score.to_bits().to_le_bytes())),
            Self::Components(components) => {
                (0..vertices as u32).for_each(|vertex| hash.update(&components.label(vertex).to_le_bytes()));
            }
        }
        hash.digest()
    }
}

/// The answers that were found right.
#[derive(Default)]
pub(super) struct Answers {
    right: HashMap<Kernel, u64>,
}

impl Answers {
    /// The answer's hash, if it is the one that was found right before, or is found right now.
    pub(super) fn check<V: View>(
        &mut self,
        kernel: Kernel,
        view: &V,
        source: u32,
        answer: &Answer,
    ) -> Result<String, String> {
        let hash = answer.hash(view.vertices());
        match (self.right.get(&kernel), answer) {
            (Some(right), _) if *right == hash => {}
            (Some(_), _) => return Err("the answer is another one than before".to_owned()),
            (None, Answer::Tree(tree)) => bfs::verify(view, source, tree)?,
            (None, Answer::Components(found)) => components::verify(view, found)?,
            // What is left to change after so many iterations is below the damping's power of them, twice.
            (None, Answer::Scores(scores)) if kernel == Kernel::Pagerank => {
                pagerank::verify(view, scores, 2.0 * pagerank::DAMPING.powi(ITERATIONS as i32))?;
            }
            (None, Answer::Scores(scores)) => brandes::verify(view, &[source], scores, 1e-9)?,
        }
        self.right.insert(kernel, hash);
        Ok(format!("xxh3:{hash:016x}"))
    }
}
