//! What an instance is opened with beside what all engines are.

use biombo_base::io::IoMode;
use biombo_base::{Error, Result};
use biombo_engine::OpenOptions;
use biombo_journal::LogOptions;

/// One segment of each instance of a store together, as far as segments do not become too small.
const SEGMENTS_BYTES: u64 = 256 << 20;

/// The first segment of an instance; each further one has twice that.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// Segments of an instance grow no further until it holds [`SEGMENTS_MIN`] of the next size: what may be dead beside the user's bound is
/// counted in segments.
const SMALL_SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS_MIN: u64 = 32;

/// Segments that an instance keeps for reuse: those that cleaning frees at once, and that are written until it does the next time. Their
/// room is in the page cache already.
const RECYCLE_SEGMENTS_MAX: usize = 4;

/// Segments that are read directly have at least so many bytes: each keeps its file open.
const DIRECT_SEGMENT_BYTES_MIN: u64 = 4 << 20;

/// Records that all instances of a store together take up on opening, beside a share of the keys.
const CHECKPOINT_RECORDS: u64 = 2 << 20;

/// Options of this engine alone.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEngineOptions {
    /// Its log's: size of a segment, how segments are written.
    pub log: LogOptions,
    /// Bytes of data segments by bytes of live records that cleaning keeps to, four segments aside: above 1.
    pub space_amplification: f64,
    /// Records after which the index is saved once more, at least (a quarter of its keys is another bound): what opening has
    /// to take up. `u64::MAX`: never but when asked.
    pub checkpoint_records: u64,
    /// Whether segments are cleaned while writes go on; otherwise only by `compact`.
    pub cleaning: bool,
}

impl Default for LogEngineOptions {
    /// Segments of 64 MiB, half as much again as what is live, some seconds' records to take up.
    fn default() -> Self {
        Self {
            log: LogOptions::default(),
            space_amplification: 1.5,
            checkpoint_records: CHECKPOINT_RECORDS,
            cleaning: true,
        }
    }
}

impl LogEngineOptions {
    /// What follows from the options of all engines. The room of a segment is reserved when it is begun: many instances together
    /// reserve no more than a few large ones, and a store of few records little.
    pub(crate) fn of(options: &OpenOptions) -> Self {
        let segment_bytes = (SEGMENTS_BYTES / u64::from(options.instances.max(1))).clamp(4 << 20, 64 << 20) & !0xfff;
        let own = Self::default();
        let io = options.io.unwrap_or_default();
        // What is written is in memory too, one segment of each instance, and counts where memory is given to the byte.
        let (segment_bytes, cache_bytes) = match io {
            IoMode::Mmap => (segment_bytes, 0),
            IoMode::Direct => {
                let segment_bytes = ((options.cache_bytes / 4) & !0xfff).clamp(DIRECT_SEGMENT_BYTES_MIN, segment_bytes);
                (segment_bytes, options.cache_bytes.saturating_sub(segment_bytes))
            }
        };
        Self {
            log: LogOptions {
                segment_bytes,
                first_segment_bytes: FIRST_SEGMENT_BYTES,
                small_segment_bytes: SMALL_SEGMENT_BYTES,
                segments_min: SEGMENTS_MIN,
                recycle_segments_max: RECYCLE_SEGMENTS_MAX,
                io,
                cache_bytes,
                ..LogOptions::default()
            },
            checkpoint_records: CHECKPOINT_RECORDS / u64::from(options.instances.max(1)),
            space_amplification: options.space_amplification.unwrap_or(own.space_amplification),
            ..own
        }
    }

    /// `Invalid` for a bound that no cleaning can keep; the log checks its own.
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.space_amplification >= 1.05 && self.space_amplification.is_finite()) {
            let given = self.space_amplification;
            return Err(Error::invalid(format!("space_amplification is {given}, but must be at least 1.05")));
        }
        Ok(())
    }
}
