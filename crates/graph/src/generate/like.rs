//! Graphs of the size and the density of published ones, where those are not at hand: R-MAT with GAP's parameters over any number of vertices.
//!
//! Ends are drawn among the next power of two of vertices, renumbered at random, and edges that lead past the number wanted are drawn again: what
//! is left is R-MAT on a random subset of its vertices. As many edges are drawn as the published graph has without direction; repeated ones
//! are stored once, so a few are missing.

use std::fmt;
use std::str::FromStr;

use biombo_base::{Error, Result};

use super::mersenne::Mersenne;
use super::{BLOCK_EDGES, Model, SEED, Synthetic};
use crate::Edge;
use crate::media::Array;
use crate::team::Team;

/// The fewest vertices that a share of a graph has.
const VERTICES_MIN: usize = 64;

/// A graph like a published one, or a share of it: as many vertices by as many, of the same mean degree.
///
/// ```
/// use biombo_graph::generate::Like;
/// let graph: Like = "orkut-like:0.001".parse()?;
/// assert_eq!((graph.vertices(), graph.edges()), (3073, 117_199));
/// assert_eq!("livejournal-like".parse::<Like>()?.vertices(), 4_847_570);
/// assert!("orkut-like:2".parse::<Like>().is_err());
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Like {
    published: &'static Published,
    share: f64,
}

/// What is known of a published graph: vertices, and edges stored in both directions.
#[derive(Debug, PartialEq)]
struct Published {
    name: &'static str,
    vertices: usize,
    stored_edges: usize,
}

/// As the dissertation "Optimising graph structures in persistent memory for NUMA architectures" (2025) has them, of SNAP's collection.
const PUBLISHED: [Published; 2] = [
    Published { name: "orkut-like", vertices: 3_072_626, stored_edges: 234_370_166 },
    Published { name: "livejournal-like", vertices: 4_847_570, stored_edges: 85_702_474 },
];

impl Like {
    /// Whether `text` begins as the name of one.
    pub(super) fn is_named(text: &str) -> bool {
        PUBLISHED.iter().any(|known| text.split(':').next() == Some(known.name))
    }

    /// How many vertices it has.
    pub fn vertices(self) -> usize {
        ((self.published.vertices as f64 * self.share).round() as usize).max(VERTICES_MIN)
    }

    /// How many edges it draws: each is stored in both directions, unless it is repeated.
    pub fn edges(self) -> usize {
        let degree = self.published.stored_edges as f64 / self.published.vertices as f64;
        (degree * self.vertices() as f64 / 2.0) as usize
    }

    /// Draw them. Time grows with edges times the logarithm of vertices, shared by the team.
    ///
    /// # Errors
    /// `Io` when there is no memory for them (8 bytes an edge).
    pub fn draw(self, team: &mut Team) -> Result<Array<Edge>> {
        let vertices = self.vertices() as u32;
        let whole = Synthetic::new(Model::Kron, self.vertices().next_power_of_two().trailing_zeros(), 1)?;
        let numbers = whole.numbers()?;
        let mut edges = Array::<Edge>::zeroed(self.edges())?;
        let blocks: Vec<_> = edges.chunks_mut(BLOCK_EDGES).enumerate().collect();
        team.tasks(blocks, |_, (block, edges)| {
            let mut random = Mersenne::new(SEED.wrapping_add(block as u32));
            for edge in edges {
                *edge = loop {
                    let drawn = whole.kron_edge(&mut random).map(|end| numbers[end as usize]);
                    if drawn.iter().all(|end| *end < vertices) {
                        break drawn;
                    }
                };
            }
        });
        Ok(edges)
    }
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.published.name)?;
        if self.share < 1.0 { write!(f, ":{}", self.share) } else { Ok(()) }
    }
}

impl FromStr for Like {
    type Err = Error;

    /// `orkut-like` or `livejournal-like`, and `:F` for a share of it, above 0 and up to 1.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let names = PUBLISHED.each_ref().map(|known| known.name).join(", ");
            Error::invalid(format!("`{text}` is none of {names}, each with :F for a share of it, above 0 and up to 1"))
        };
        let (name, share) = text.split_once(':').unwrap_or((text, "1"));
        let published = PUBLISHED.iter().find(|known| known.name == name).ok_or_else(wrong)?;
        let share: f64 = share.parse().map_err(|_| wrong())?;
        if share > 0.0 && share <= 1.0 { Ok(Self { published, share }) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_published_density_is_skewed_and_is_the_same_with_any_number_of_threads() {
        let like: Like = "livejournal-like:0.01".parse().expect("a share");
        let edges = like.draw(&mut Team::new(1).expect("a team")).expect("memory");
        let again = like.draw(&mut Team::new(3).expect("a team")).expect("memory");
        assert_eq!(edges[..], again[..]);
        assert_eq!((like.vertices(), edges.len()), (48_476, 428_515));
        let mut degrees = vec![0u32; like.vertices()];
        edges.iter().flatten().for_each(|end| degrees[*end as usize] += 1);
        degrees.sort_unstable_by_key(|degree| std::cmp::Reverse(*degree));
        let top: u64 = degrees[..484].iter().map(|degree| u64::from(*degree)).sum();
        assert!(top > 2 * 428_515 / 10, "a hundredth of the vertices has {top} of {} ends", 2 * edges.len());
    }

    #[test]
    fn names_are_read_and_said_and_nonsense_is_refused() {
        for text in ["orkut-like", "orkut-like:0.25", "livejournal-like:0.001"] {
            assert_eq!(text.parse::<Like>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "orkut",
            "orkut-like:",
            "orkut-like:0",
            "orkut-like:-1",
            "orkut-like:1.5",
            "orkut-like:NaN",
            "orkut-like:1:2",
        ] {
            let error = text.parse::<Like>().expect_err(text).to_string();
            assert!(error.contains("livejournal-like"), "{error}");
        }
        let tiny: Like = "orkut-like:1e-9".parse().expect("a share");
        assert_eq!(tiny.vertices(), VERTICES_MIN);
        assert_eq!(tiny.draw(&mut Team::new(1).expect("a team")).expect("memory").len(), tiny.edges());
    }
}
