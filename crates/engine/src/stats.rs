//! What an engine says of itself.

/// Figures of one engine instance. `None`: the engine does not know it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Keys held.
    pub keys: Option<u64>,
    /// Whether `keys` is an estimate.
    pub keys_estimated: bool,
    /// Bytes of live keys and values.
    pub logical_bytes: Option<u64>,
    /// Bytes on the device, as allocated to the instance's files.
    pub physical_bytes: Option<u64>,
    /// Bytes that the engine itself says it wrote to files (logs, tables, pages) since it was opened.
    pub written_bytes: Option<u64>,
    /// Bytes of cache in use.
    pub cache_bytes: Option<u64>,
    /// Cache hits and misses since it was opened.
    pub cache_hits_misses: Option<(u64, u64)>,
    /// Work in the background since it was opened.
    pub compaction: Option<Compaction>,
    /// Every option that the instance was opened with, name and value, for the report.
    pub options: Vec<(String, String)>,
}

/// Compactions, checkpoints or cleanings since the instance was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compaction {
    /// How many.
    pub count: u64,
    /// Their time together, in seconds.
    pub seconds: f64,
    /// Bytes that they wrote.
    pub bytes: u64,
}
