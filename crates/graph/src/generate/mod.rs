//! Synthetic graphs: the same bits as those of the GAP benchmark, `kron` (R-MAT with Graph500's parameters) and `uniform`, and graphs of the
//! size of published ones (`like`).
//!
//! Edges come in blocks of 2^18, each from a generator of its own seed, so that any number of threads gives the same graph. Vertices of
//! `kron` are renumbered at random afterwards. Where the C++ standard leaves a choice to the library (the shuffle), this follows
//! libstdc++ from GCC 11 on.
//!
//! Sources: Beamer, Asanović, Patterson, "The GAP Benchmark Suite", arXiv:1508.03619 (2015); Chakrabarti, Zhan, Faloutsos,
//! "R-MAT: A Recursive Model for Graph Mining", SDM 2004.

mod like;
mod mersenne;

use std::fmt;
use std::str::FromStr;

use biombo_base::{Error, Result};

use crate::Edge;
use crate::media::Array;
use crate::team::Team;
pub use like::Like;
use mersenne::Mersenne;

/// GAP's seed.
const SEED: u32 = 27_491_095;

/// Edges from one generator.
const BLOCK_EDGES: usize = 1 << 18;

/// The largest scale: vertices are numbered with 31 bits.
const SCALE_MAX: u32 = 31;

/// A graph that is drawn, by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drawn {
    /// One of the GAP benchmark's.
    Gap(Synthetic),
    /// One of the size of a published graph.
    Like(Like),
}

impl Drawn {
    /// The graph that `text` names; `None`: it names none, and may be a file.
    ///
    /// # Errors
    /// `Invalid` for the name of one with figures that cannot be.
    ///
    /// ```
    /// use biombo_graph::generate::Drawn;
    /// assert_eq!(Drawn::named("uniform:8:4")?.map(|graph| graph.vertices()), Some(256));
    /// assert_eq!(Drawn::named("edges.txt")?, None);
    /// assert!(Drawn::named("kron:8").is_err());
    /// # Ok::<(), biombo_base::Error>(())
    /// ```
    pub fn named(text: &str) -> Result<Option<Self>> {
        if Like::is_named(text) {
            return text.parse().map(|graph| Some(Self::Like(graph)));
        }
        let is_gap = ["kron:", "uniform:"].iter().any(|model| text.starts_with(model));
        is_gap.then(|| text.parse().map(Self::Gap)).transpose()
    }

    /// How many vertices it has.
    pub fn vertices(self) -> usize {
        match self {
            Self::Gap(graph) => graph.vertices(),
            Self::Like(graph) => graph.vertices(),
        }
    }

    /// Draw its edges.
    ///
    /// # Errors
    /// `Io` when there is no memory for them (8 bytes an edge).
    pub fn draw(self, team: &mut Team) -> Result<Array<Edge>> {
        match self {
            Self::Gap(graph) => graph.draw(team),
            Self::Like(graph) => graph.draw(team),
        }
    }
}

/// How the ends of edges are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// R-MAT with A, B, C = 0.57, 0.19, 0.19: few vertices have most of the edges.
    Kron,
    /// Each vertex as likely as any other.
    Uniform,
}

/// A synthetic graph: 2^`scale` vertices and `degree` times as many edges before repeated ones and loops go.
///
/// ```
/// use biombo_graph::generate::Synthetic;
/// let graph: Synthetic = "kron:10:16".parse()?;
/// assert_eq!((graph.vertices(), graph.edges()), (1024, 16384));
/// assert!("kron:40:16".parse::<Synthetic>().is_err());
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synthetic {
    model: Model,
    scale: u32,
    degree: u32,
}

impl Synthetic {
    /// `Invalid` for a scale above 31 or more than 2^40 edges.
    pub fn new(model: Model, scale: u32, degree: u32) -> Result<Self> {
        if scale > SCALE_MAX {
            return Err(Error::invalid(format!(
                "scale {scale} is too large: a graph has at most 2^{SCALE_MAX} vertices"
            )));
        }
        if (u64::from(degree) << scale) > 1 << 40 {
            return Err(Error::invalid(format!("scale {scale} with degree {degree} has more than 2^40 edges")));
        }
        Ok(Self { model, scale, degree })
    }

    /// How many vertices it has.
    pub fn vertices(self) -> usize {
        1 << self.scale
    }

    /// How many edges it draws.
    pub fn edges(self) -> usize {
        (self.degree as usize) << self.scale
    }

    /// Draw them. Time grows with edges times scale (`kron`), shared by the team.
    ///
    /// # Errors
    /// `Io` when there is no memory for them (8 bytes an edge).
    pub fn draw(self, team: &mut Team) -> Result<Array<Edge>> {
        let mut edges = Array::<Edge>::zeroed(self.edges())?;
        let numbers = match self.model {
            Model::Kron => Some(self.numbers()?),
            Model::Uniform => None,
        };
        let blocks: Vec<_> = edges.chunks_mut(BLOCK_EDGES).enumerate().collect();
        team.tasks(blocks, |_, (block, edges)| {
            let mut random = Mersenne::new(SEED.wrapping_add(block as u32));
            match &numbers {
                Some(numbers) => edges.iter_mut().for_each(|edge| {
                    let [source, destination] = self.kron_edge(&mut random);
                    *edge = [numbers[source as usize], numbers[destination as usize]];
                }),
                None => edges.iter_mut().for_each(|edge| *edge = self.uniform_edge(&mut random)),
            }
        });
        Ok(edges)
    }

    /// The numbers that the vertices of `kron` get.
    fn numbers(self) -> Result<Array<u32>> {
        let mut numbers = Array::<u32>::zeroed(self.vertices())?;
        numbers.iter_mut().zip(0..).for_each(|(number, vertex)| *number = vertex);
        Mersenne::new(SEED).shuffle(&mut numbers);
        Ok(numbers)
    }

    fn kron_edge(self, random: &mut Mersenne) -> Edge {
        const A: u32 = (0.57 * u32::MAX as f64) as u32;
        const B: u32 = (0.19 * u32::MAX as f64) as u32;
        let (mut source, mut destination) = (0, 0);
        for _ in 0..self.scale {
            let point = random.draw();
            source <<= 1;
            destination <<= 1;
            if point < A + B {
                destination += u32::from(point > A);
            } else {
                source += 1;
                destination += u32::from(point > A + B + B);
            }
        }
        [source, destination]
    }

    fn uniform_edge(self, random: &mut Mersenne) -> Edge {
        // The number of vertices divides 2^32, so the remainder is fair. GCC evaluates the destination first.
        let last = (self.vertices() - 1) as u32;
        let destination = random.draw() & last;
        [random.draw() & last, destination]
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match self.model {
            Model::Kron => "kron",
            Model::Uniform => "uniform",
        };
        write!(f, "{model}:{}:{}", self.scale, self.degree)
    }
}

impl FromStr for Synthetic {
    type Err = Error;

    /// `kron:SCALE:DEGREE` or `uniform:SCALE:DEGREE`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("`{text}` is no graph: kron:SCALE:DEGREE or uniform:SCALE:DEGREE"));
        let mut words = text.split(':');
        let model = match words.next() {
            Some("kron") => Model::Kron,
            Some("uniform") => Model::Uniform,
            _ => return Err(wrong()),
        };
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong);
        let (scale, degree) = (number()?, number()?);
        if words.next().is_some() {
            return Err(wrong());
        }
        Self::new(model, scale, degree)
    }
}
