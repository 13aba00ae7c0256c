//! How fast to clean, and when writers have to wait: arithmetic, and one number that the cleaner tells the writers.
//!
//! Cleaning begins at [`BEGIN`] of what may be dead, at a rate in proportion to that of appending or dying, so that it is spread over
//! time instead of coming in bursts; the rate rises with the pressure until, from [`FREE`] on, it has no limit.
//!
//! **Why the bound is kept.** A byte that is appended makes at most one byte dead, but where a range is deleted, of which the writer tells at once
//! ([`Felt::has_died`]). So when the cleaner has counted `dead` bytes and
//! `allowed` ones, no writer can break the bound before it has appended `allowed - dead` more, however busy the machine is and
//! however late the cleaner comes round again. That many is the *allowance*, a position in the stream of appended bytes. In
//! its last part ([`SPAN`] of `allowed`) each write waits a little, outside of all locks: longer, the less is left, and with
//! nothing left [`STEP_NS_MAX`] for each [`STEP_BYTES`] or write, whichever is more. At that rate (half a megabyte a second of
//! small writes) any cleaner is faster than the writers, so the excess is bounded by what they append in one round of the cleaner
//! at that rate. No write of up to [`STEP_BYTES`] waits longer than [`STEP_NS_MAX`]. Where nothing can be cleaned and nothing
//! waits to become cleanable (damaged segments, versions that snapshots need), or the index is being saved, waiting would not help:
//! the allowance is extended by two segments each time the cleaner finds it so, never lifted, since the cleaner may come late.

use std::sync::atomic::{AtomicU64, Ordering};

/// The pressure from which on segments are cleaned.
pub(crate) const BEGIN: f64 = 0.75;
/// The pressure from which on cleaning is as fast as it can be.
const FREE: f64 = 0.92;
/// The last part of the allowance, in which writers wait: a share of what may be dead.
const SPAN: f64 = 0.08;
/// The least rate, in bytes per second.
const BYTES_PER_SECOND_MIN: f64 = 32e6;
/// What a KiB waits half way through the span: some 250 MB/s are left to the writers there.
const KIB_NS: f64 = 4_000.0;
/// The longest wait of a write of up to [`STEP_BYTES`].
const STEP_NS_MAX: u64 = 2_000_000;
const STEP_BYTES: u64 = 64 << 10;
/// So many bytes that die beyond those that are appended are worth a look of the cleaner.
const LUMP_BYTES: i64 = 1 << 20;
/// Shorter waits are gathered: the kernel takes some tens of microseconds to end the shortest sleep.
const SLEEP_NS_MIN: u64 = 100_000;

/// Bytes per second to copy at; `None` without a limit.
/// `died_per_second`: bytes that die, or are appended, whichever are more.
pub(crate) fn bytes_per_second(pressure: f64, died_per_second: f64) -> Option<f64> {
    if pressure >= FREE {
        return None;
    }
    let shortage = ((pressure - BEGIN) / (FREE - BEGIN)).clamp(0.0, 1.0);
    Some(BYTES_PER_SECOND_MIN.max(died_per_second * (0.5 + 4.0 * shortage)))
}

/// How far writers may go: the cleaner says it, they look at every write.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// A position in the stream of appended bytes.
    end_bytes: AtomicU64,
    /// Where before it waiting begins.
    span_bytes: AtomicU64,
}

impl Allowance {
    /// Without an end.
    pub fn unlimited() -> Self {
        Self { end_bytes: AtomicU64::new(u64::MAX), span_bytes: AtomicU64::new(0) }
    }

    /// `dead` of `allowed` bytes were dead when `written_bytes` had been appended.
    pub fn set(&self, written_bytes: u64, dead: u64, allowed: u64) {
        // Both are read one by one, which mixes two surveys at worst.
        self.span_bytes.store((allowed as f64 * SPAN) as u64, Ordering::Relaxed);
        self.end_bytes.store((written_bytes + allowed).saturating_sub(dead), Ordering::Relaxed);
    }

    /// Nobody waits before `bytes` more were appended, whatever is dead.
    pub fn extend(&self, written_bytes: u64, bytes: u64) {
        let end_bytes = written_bytes.saturating_add(bytes).saturating_add(self.span_bytes.load(Ordering::Relaxed));
        self.end_bytes.fetch_max(end_bytes, Ordering::Relaxed);
    }

    /// How long the caller waits who appended up to `written_bytes`; `felt` is the writer's.
    #[inline]
    pub fn wait_ns(&self, written_bytes: u64, felt: &mut Felt) -> u64 {
        let end_bytes = self.end_bytes.load(Ordering::Relaxed);
        let span_bytes = self.span_bytes.load(Ordering::Relaxed);
        let bytes = written_bytes - felt.written_bytes;
        felt.written_bytes = written_bytes;
        if end_bytes >= written_bytes.saturating_add(span_bytes) {
            felt.owed_ns = 0;
            return 0;
        }
        felt.owed_ns += step_ns(bytes, end_bytes.saturating_sub(written_bytes) as f64 / span_bytes.max(1) as f64);
        if felt.owed_ns < SLEEP_NS_MIN { 0 } else { std::mem::take(&mut felt.owed_ns) }
    }
}

/// What the writer remembers.
#[derive(Debug, Default)]
pub(crate) struct Felt {
    /// Bytes for which it has waited, or had not to.
    written_bytes: u64,
    /// Waits that were too short to sleep.
    owed_ns: u64,
    /// Bytes of records that it has superseded or deleted.
    died_bytes: u64,
    /// By how much these were ahead of the appended ones when they were so least, since the cleaner was told last.
    least_ahead: Option<i64>,
}

impl Felt {
    /// A record of so many bytes is live no more.
    #[inline]
    pub fn died(&mut self, bytes: u64) {
        self.died_bytes += bytes;
    }

    /// All that died so far.
    pub fn died_bytes(&self) -> u64 {
        self.died_bytes
    }

    /// Whether so much more has died than was appended that the cleaner is to be told: a range was deleted, or a partition gave units away.
    /// It has counted on no more than a byte for each that is appended, and looks by itself when a segment is full: by then there may be
    /// nothing left of the allowance, and every writer would wait for what one of them deleted.
    #[inline]
    pub fn has_died(&mut self, written_bytes: u64) -> bool {
        let ahead = self.died_bytes as i64 - written_bytes as i64;
        let least = self.least_ahead.map_or(ahead, |least| least.min(ahead));
        let is_lump = ahead - least >= LUMP_BYTES;
        self.least_ahead = Some(if is_lump { ahead } else { least });
        is_lump
    }
}

/// What a write waits with `left` of the span.
fn step_ns(bytes: u64, left: f64) -> u64 {
    let most = STEP_NS_MAX * bytes.div_ceil(STEP_BYTES).max(1);
    let each_kib_ns = KIB_NS * (1.0 / left.max(1e-9) - 1.0).max(0.0);
    ((each_kib_ns * bytes as f64 / 1024.0) as u64).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_with_the_pressure_until_it_is_free() {
        let rates: Vec<_> = [0.75, 0.8, 0.85, 0.919].iter().map(|p| bytes_per_second(*p, 1e9).unwrap()).collect();
        assert!(rates.is_sorted() && rates[0] == 5e8 && rates[3] > 4e9, "{rates:?}");
        assert_eq!(bytes_per_second(0.92, 1e9), None);
        assert_eq!(bytes_per_second(0.8, 0.0), Some(BYTES_PER_SECOND_MIN));
    }

    #[test]
    fn writers_run_free_until_the_last_part_and_then_wait_in_small_steps() {
        let allowance = Allowance::unlimited();
        let mut felt = Felt::default();
        assert_eq!(allowance.wait_ns(1 << 40, &mut felt), 0);
        let start = 1 << 40;
        allowance.set(start, 0, 100 << 20);
        assert_eq!(allowance.wait_ns(start + (91 << 20), &mut felt), 0);
        let mut written = start + (91 << 20);
        let (mut waited, mut longest) = (0, 0);
        while written < start + (101 << 20) {
            written += 1024;
            let wait = allowance.wait_ns(written, &mut felt);
            assert!(wait == 0 || wait >= SLEEP_NS_MIN);
            waited += wait;
            longest = longest.max(wait);
        }
        assert!(longest <= STEP_NS_MAX + SLEEP_NS_MIN, "{longest}");
        // The last mebibyte, beyond the end, takes two seconds alone.
        assert!((2_000_000_000..8_000_000_000).contains(&waited), "{waited}");
        assert_eq!(step_ns(1 << 20, 0.0), 16 * STEP_NS_MAX);
        allowance.extend(written, 1 << 20);
        assert_eq!(allowance.wait_ns(written + (1 << 20), &mut felt), 0);
        // Beyond that they wait again: nobody may have looked meanwhile.
        assert!(allowance.wait_ns(written + (10 << 20), &mut felt) > 0);
    }

    #[test]
    fn what_dies_beyond_what_is_appended_is_told_once_for_each_lump() {
        let mut felt = Felt::default();
        let mut written = 1 << 30;
        assert!(!felt.has_died(written));
        // As much dies as is appended, for a gigabyte; and much was appended that is live.
        for _ in 0..1_000_000 {
            written += 1_000;
            felt.died(1_000);
            assert!(!felt.has_died(written));
        }
        written += 1 << 30;
        assert!(!felt.has_died(written));
        let told = (0..4_000).filter(|_| {
            (written, felt.died_bytes) = (written + 50, felt.died_bytes + 1_050);
            felt.has_died(written)
        });
        assert_eq!(told.count(), 3, "four megabytes less one that is not whole");
    }

    /// A model of writers and a cleaner that is slow, or away for long: what is dead stays within the bound.
    #[test]
    fn a_slow_cleaner_slows_the_writers_and_the_bound_holds() {
        for (cleaned_per_ms, away_ms) in [(200_000u64, 20u64), (50_000, 100), (5_000, 300)] {
            let allowed = 64u64 << 20;
            let allowance = Allowance::unlimited();
            let (mut felt, mut written, mut dead, mut worst) = (Felt::default(), 0u64, 0u64, 0u64);
            let (mut now_ns, mut next_ns) = (0u64, 0u64);
            while now_ns < 20_000_000_000 {
                if now_ns >= next_ns {
                    // It was away, and did then all that it can do in that time.
                    dead = dead.saturating_sub(cleaned_per_ms * away_ms);
                    allowance.set(written, dead, allowed);
                    next_ns = now_ns + away_ms * 1_000_000;
                }
                written += 1000;
                dead += 1000;
                worst = worst.max(dead);
                now_ns += 1_500 + allowance.wait_ns(written, &mut felt);
            }
            assert!(worst < allowed + allowed / 50, "{cleaned_per_ms} a ms: {worst} of {allowed}");
        }
    }
}
