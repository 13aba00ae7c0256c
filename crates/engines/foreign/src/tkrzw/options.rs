//! The three ways of opening Tkrzw, and their tuning.
//!
//! - `tkrzw-tree`: TreeDBM, default tuning. `max_cached_pages` follows `cache_bytes` (the default of 10,000 pages is some
//!   80 MB): a page of 8,130 bytes at most takes about as much in memory, more where values are larger than a page.
//! - `tkrzw-tree-zlib`: the same with each page compressed by zlib, as the published prototype opened it.
//! - `tkrzw-hash`: HashDBM, default tuning: 1,048,583 buckets, divided among the instances of a store (each holds its share
//!   of the keys); more keys than twice the buckets make chains longer, and `compact` sizes the buckets anew. It has no cache
//!   of its own: the file is mapped.
//!
//! The file is a memory map, the library's default. Offsets have 4 bytes in units of 8: a file ends at 32 GiB, past which writes
//! are `Full`.

use biombo_engine::OpenOptions;

const PAGE_BYTES: u64 = 8 << 10;
const CACHED_PAGES_MIN: u64 = 256;
const BUCKETS: u64 = 1_048_583;
const BUCKETS_MIN: u64 = 65_537;

/// One of the three engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// `tkrzw-tree`
    Tree,
    /// `tkrzw-tree-zlib`
    TreeZlib,
    /// `tkrzw-hash`
    Hash,
}

impl Flavor {
    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "tkrzw-tree",
            Self::TreeZlib => "tkrzw-tree-zlib",
            Self::Hash => "tkrzw-hash",
        }
    }

    /// One line for people.
    pub(super) fn summary(self) -> &'static str {
        match self {
            Self::Tree => "Tkrzw's TreeDBM: a B+ tree over a file hash; dirty pages stay in memory until a sync",
            Self::TreeZlib => "Tkrzw's TreeDBM with pages compressed by zlib, as the published prototype used it",
            Self::Hash => "Tkrzw's HashDBM: a file hash without order",
        }
    }

    pub(super) fn is_ordered(self) -> bool {
        self != Self::Hash
    }

    pub(super) fn file_name(self) -> &'static str {
        if self.is_ordered() { "data.tkt" } else { "data.tkh" }
    }

    /// The tuning parameters, as Tkrzw takes and the report shows them.
    pub(super) fn params(self, options: &OpenOptions) -> Vec<(String, String)> {
        // A larger value makes a page of its own.
        let page = PAGE_BYTES.max(u64::from(options.value_bytes.unwrap_or(0)) * 2);
        let pages = (options.cache_bytes / page).clamp(CACHED_PAGES_MIN, i32::MAX as u64);
        let buckets = (BUCKETS / u64::from(options.instances.max(1))).max(BUCKETS_MIN);
        let params: &[(&str, String)] = match self {
            Self::Tree => &[("dbm", "TreeDBM".into()), ("max_cached_pages", pages.to_string())],
            Self::TreeZlib => &[
                ("dbm", "TreeDBM".into()),
                ("record_comp_mode", "RECORD_COMP_ZLIB".into()),
                ("max_cached_pages", pages.to_string()),
            ],
            Self::Hash => &[("dbm", "HashDBM".into()), ("num_buckets", buckets.to_string())],
        };
        params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_instances_have_the_buckets_and_pages_of_one() {
        let one = OpenOptions::new("x");
        let eighth = OpenOptions { instances: 8, cache_bytes: one.cache_bytes / 8, ..one.clone() };
        let value =
            |flavor: Flavor, options: &OpenOptions| flavor.params(options).pop().unwrap().1.parse::<u64>().unwrap();
        assert!(value(Flavor::Hash, &eighth) * 8 <= BUCKETS && value(Flavor::Hash, &one) == BUCKETS);
        assert_eq!(value(Flavor::Tree, &eighth) * 8, value(Flavor::Tree, &one));
    }
}
