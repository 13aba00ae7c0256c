//! Cutting a history: which images a crash may leave.
//!
//! A cut at event `c` means: the events before `c` have ended, `c` had begun and not ended, later ones never began. A power
//! cut keeps all that is durable and any subset of the rest, each write torn at 512 or 4,096 bytes; direct synchronous
//! writes tear only while in flight. The death of the process keeps all that was written, still not durable.

use std::sync::Arc;

use super::disk::{Disk, Pending, SECTOR_BYTES};
use super::{Logged, SimIo};
use crate::io::BLOCK_BYTES;

/// What a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process dies and the machine lives: everything before the cut is visible, and what was not synced still is not.
    Kill,
    /// Power cut: nothing survives that was not durable.
    Nothing,
    /// Power cut: everything survives, the event in flight too.
    Everything,
    /// Power cut: a subset chosen by the seed.
    Random(u64),
}

/// The points of a history in order, each one a place to crash.
///
/// ```
/// use std::path::Path;
/// use biombo_base::io::{Io, OpenMode, sim::{Crash, SimIo}};
/// let sim = SimIo::new(1);
/// let file = sim.open(Path::new("f"), OpenMode::CREATE_NEW)?;
/// file.write_at(b"x", 0)?;
/// file.sync()?;
/// sim.sync_dir(Path::new(""))?;
/// let mut points = sim.crash_points();
/// while points.advance() {}
/// assert!(points.image(Crash::Nothing).exists(Path::new("f"))?);
/// assert!(!sim.crash(3, Crash::Nothing).exists(Path::new("f"))?, "the name was not synced yet");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct CrashPoints {
    disk: Disk,
    log: Vec<Arc<Logged>>,
    cut: usize,
    seed: u64,
}

impl CrashPoints {
    pub(super) fn new(base: Disk, log: Vec<Arc<Logged>>, seed: u64) -> Self {
        Self { disk: base, log, cut: 0, seed }
    }

    /// The number of events that have ended.
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// The label of the event in flight; `end` behind the last one.
    pub fn label(&self) -> &str {
        self.log.get(self.cut).map_or("end", |logged| logged.label())
    }

    /// Let the event in flight end; false behind the last one.
    pub fn advance(&mut self) -> bool {
        let Some(logged) = self.log.get(self.cut) else { return false };
        self.disk.apply(&logged.event, false);
        self.cut += 1;
        true
    }

    /// A disk as a crash here may leave it. Its locks are free, its history is empty, it has no faults.
    pub fn image(&self, crash: Crash) -> SimIo {
        match crash {
            Crash::Kill => SimIo::over(self.disk.clone(), self.seed),
            Crash::Nothing => SimIo::over(self.disk.after_power_cut(SECTOR_BYTES, &mut |_| false), self.seed ^ 1),
            Crash::Everything => self.image_where(SECTOR_BYTES, &mut |_| true),
            Crash::Random(seed) => {
                let mut random = Random(seed ^ 0x0062_696f_6d62_6f00);
                let unit = if random.next() & 1 == 0 { SECTOR_BYTES } else { BLOCK_BYTES as u64 };
                let odds = [8, 64, 128, 192, 248][random.below(5) as usize];
                let ordered = random.next().is_multiple_of(3);
                // A device that mostly keeps its order: all up to somewhere, none behind.
                let mut alive = true;
                let chance = if ordered { 1 + random.below(64) } else { 0 };
                self.image_where(unit, &mut |_| {
                    if ordered {
                        alive &= random.below(chance + 1) != 0;
                        alive
                    } else {
                        random.below(256) < odds
                    }
                })
            }
        }
    }

    /// The image of a power cut in which `keep` decides, for each thing that was not durable, whether it survived. Writes
    /// tear at multiples of `unit_bytes` (512 or 4,096).
    pub fn image_where(&self, unit_bytes: u64, keep: &mut dyn FnMut(Pending<'_>) -> bool) -> SimIo {
        let mut disk = self.disk.clone();
        if let Some(logged) = self.log.get(self.cut) {
            disk.apply(&logged.event, true);
        }
        SimIo::over(disk.after_power_cut(unit_bytes, keep), self.seed ^ 2)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and an Option would be in the way of every caller"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
