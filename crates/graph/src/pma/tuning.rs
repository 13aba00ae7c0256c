//! When the changes that wait for a section are merged into it.

/// How long logs become; tests have shorter ones, so that small graphs do what large ones do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    /// A log is worth merging from this share of its section's edges on, so that rewriting it costs a few moves for each change.
    log_share: u64,
    /// And from so many changes on.
    log_min: u64,
}

impl Tuning {
    pub(super) const DEFAULT: Self = Self { log_share: 16, log_min: 256 };
    #[cfg(test)]
    pub(super) const EAGER: Self = Self { log_share: 1000, log_min: 4 };

    /// A log so many times as long as it needs to be worth merging is waited for: writers are not faster than merging.
    pub(super) const BEHIND: usize = 4;

    /// So many changes of section `number` with `edges` edges are worth merging. Sections differ by up to half, so that even streams of
    /// changes do not make all of them due at once.
    pub(super) fn due(self, edges: u64, number: usize) -> usize {
        let base = (edges / self.log_share).max(self.log_min);
        (base + base * (number as u64 * 7 % 16) / 32) as usize
    }
}
