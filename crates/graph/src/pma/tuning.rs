//! When the changes that wait for a section are merged into it, and edges in the log of a graph into its sections.

/// How long logs become; tests have shorter ones, so that small graphs do what large ones do.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// A section's log is worth merging from this share of its edges on, so that rewriting it costs a few moves for each change.
    pub(crate) log_share: u64,
    /// And from so many changes on.
    pub(crate) log_min: u64,
    /// Where a layout has a log of edges: it is worth archiving from this share of the stored edges on.
    pub(crate) edges_share: u64,
    /// And from so many edges on.
    pub(crate) edges_min: u64,
}

impl Tuning {
    #[cfg(test)]
    pub(crate) const EAGER: Self = Self { log_share: 1000, log_min: 4, edges_share: 1000, edges_min: 7 };

    /// A log so many times as long as it needs to be worth merging is waited for: writers are not faster than merging.
    pub(super) const BEHIND: usize = 4;

    /// So many changes of section `number` with `edges` edges are worth merging. Sections differ by up to half, so that even streams of
    /// changes do not make all of them due at once.
    pub(super) fn due(self, edges: u64, number: usize) -> usize {
        let base = (edges / self.log_share).max(self.log_min);
        (base + base * (number as u64 * 7 % 16) / 32) as usize
    }

    /// So many edges in the log of a graph with `edges` stored edges are worth archiving.
    pub(super) fn edges_due(self, edges: u64) -> usize {
        (edges / self.edges_share).max(self.edges_min) as usize
    }
}
