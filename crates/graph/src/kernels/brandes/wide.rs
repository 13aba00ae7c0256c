//! Numbers of paths of any size, for sources from which those to vertices equally far lie further apart than one scale a level brings near.
//!
//! Each number has an exponent of its own, and what is kept of a vertex on the way back is its dependency, which is no larger than the graph:
//! only ratios of numbers of paths meet it, and those are at most 1. It takes some times as long as what it stands in for.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{PATHS_MAX, SCALE, Values, each, power_of_two};
use crate::bitmap::Bitmap;
use crate::kernels::bfs::Frontier;
use crate::media::Array;
use crate::team::Team;
use crate::view::{Lists, View};

/// By which power of two a mantissa is scaled at once.
const STEP: i64 = 500;

/// A number of any size: `mantissa` times 2 to the power of `exponent`, a multiple of [`STEP`]. The mantissa is 0, or from 1 on up to 2^500.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Large {
    mantissa: f64,
    exponent: i64,
}

impl Large {
    pub(super) const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    pub(super) fn plus(self, other: Self) -> Self {
        let exponent = self.exponent.max(other.exponent);
        let of = |number: Self| number.mantissa * power(number.exponent - exponent);
        let mantissa = of(self) + of(other);
        // So far from the limit that a sum of two never meets it.
        match mantissa > PATHS_MAX {
            true => Self { mantissa: mantissa * SCALE, exponent: exponent + STEP },
            false => Self { mantissa, exponent },
        }
    }

    /// The ratio to a number that is not smaller.
    pub(super) fn by(self, other: Self) -> f64 {
        self.mantissa / other.mantissa * power(self.exponent - other.exponent)
    }
}

/// 2 to the power of a difference of exponents, 0 where that is below what an `f64` holds: next to nothing beside what it is added to.
fn power(difference: i64) -> f64 {
    if difference < -1022 { 0.0 } else { power_of_two(difference as i32) }
}

/// What one source needs: of each vertex the score, the mantissa and the exponent of its number of paths, and its dependency.
pub(super) struct Wide<'w> {
    pub(super) scores: &'w Values,
    pub(super) mantissas: &'w Values,
    pub(super) exponents: &'w Array<AtomicU64>,
    pub(super) dependencies: &'w Values,
    /// Empty before and afterwards.
    pub(super) level: &'w Bitmap,
}

impl Wide<'_> {
    #[inline]
    fn paths(&self, vertex: u32) -> Large {
        let exponent = self.exponents[vertex as usize].load(Relaxed) as i64;
        Large { mantissa: self.mantissas.get(vertex), exponent }
    }

    #[inline]
    fn set_paths(&self, vertex: u32, paths: Large) {
        self.mantissas.set(vertex, paths.mantissa);
        self.exponents[vertex as usize].store(paths.exponent as u64, Relaxed);
    }

    /// Add the scores of a source with these levels.
    pub(super) fn add<V: View>(&self, view: &V, source: u32, levels: &[Frontier], team: &mut Team) {
        let (in_lists, out_lists) = (view.in_lists(), view.out_lists());
        self.set_paths(source, Large::ONE);
        for pair in levels.windows(2) {
            let (above, below) = (&pair[0], &pair[1]);
            above.insert_into(self.level, team);
            each(below, team, |vertex| {
                let neighbors = in_lists.list(vertex).iter().filter(|v| self.level.contains(**v));
                self.set_paths(vertex, neighbors.fold(Large::default(), |sum, v| sum.plus(self.paths(*v))));
            });
            above.clear_from(self.level, team);
        }
        let nothing = Frontier::default();
        for (at, here) in levels.iter().enumerate().rev() {
            let below = levels.get(at + 1).unwrap_or(&nothing);
            below.insert_into(self.level, team);
            each(here, team, |vertex| {
                let own = self.paths(vertex);
                let neighbors = out_lists.list(vertex).iter().filter(|v| self.level.contains(**v));
                let given = neighbors.map(|v| own.by(self.paths(*v)) * (1.0 + self.dependencies.get(*v)));
                let dependency = given.sum::<f64>();
                self.dependencies.set(vertex, dependency);
                if vertex != source {
                    self.scores.set(vertex, self.scores.get(vertex) + dependency);
                }
            });
            below.clear_from(self.level, team);
        }
    }
}
