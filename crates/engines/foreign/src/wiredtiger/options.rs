//! How a connection and its table are opened, as WiredTiger's own users would for a key-value load, and what is reported.

use biombo_engine::OpenOptions;

/// Sessions that may be open at once: idle ones of the pool, snapshots, cursors, WiredTiger's own threads.
pub const SESSIONS_MAX: u32 = 2048;

const MIB: u64 = 1 << 20;
/// The library takes no more (`wiredtiger_open`, `cache_size`).
const CACHE_BYTES_MAX: u64 = 10 << 40;

/// Option strings, and the same for the report.
pub struct Config {
    options: Vec<(String, String)>,
    leaf_kib: u32,
}

impl Config {
    /// For an instance among `options.instances`.
    pub fn choose(options: &OpenOptions) -> Self {
        let instances = options.instances.max(1);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        // Application threads evict too when these fall behind.
        let evictors = (cores / instances).clamp(1, 4);
        // Checkpoints by volume bound the log that recovery reads; 60 s is what MongoDB ships.
        let checkpoint_bytes = (2048 * MIB / u64::from(instances)).max(128 * MIB);
        // Each new file costs a sync of the directory, in the background; up to two are allocated ahead on the device.
        let log_bytes = (64 * MIB / u64::from(instances)).max(8 * MIB);
        // A leaf holds some tens of values of the usual size; the library's own 32 KiB serve up to about 1 KiB.
        let leaf_kib = if options.value_bytes.unwrap_or(0) > 4096 { 128 } else { 32 };
        let all = [
            ("cache_size", options.cache_bytes.clamp(MIB, CACHE_BYTES_MAX).to_string()),
            ("session_max", SESSIONS_MAX.to_string()),
            ("eviction", format!("(threads_min=1,threads_max={evictors})")),
            ("checkpoint", format!("(wait=60,log_size={checkpoint_bytes})")),
            ("log", format!("(enabled=true,archive=true,prealloc=true,recover=on,file_max={log_bytes})")),
            // A commit writes its log record to the kernel (`Os`); `Sync` adds a log flush with sync=on.
            ("transaction_sync", "(enabled=true,method=none)".to_owned()),
            ("statistics", "(fast)".to_owned()),
            // Reads through a mapping end the process with SIGBUS when a file was shortened.
            ("mmap", "false".to_owned()),
            // Nothing but this string configures the connection.
            ("config_base", "false".to_owned()),
            ("use_environment", "false".to_owned()),
        ];
        Self { options: all.map(|(name, value)| (name.to_owned(), value)).to_vec(), leaf_kib }
    }

    /// For `wiredtiger_open`.
    pub fn connection(&self, create: bool) -> String {
        let mut config = if create { "create".to_owned() } else { "create=false".to_owned() };
        for (name, value) in &self.options {
            config.push_str(&format!(",{name}={value}"));
        }
        config
    }

    /// For the table.
    pub fn table(&self) -> String {
        format!("key_format=u,value_format=u,checksum=on,leaf_page_max={}KB", self.leaf_kib)
    }

    /// For the report.
    pub fn describe(&self) -> Vec<(String, String)> {
        let mut all = self.options.clone();
        all.push(("table".to_owned(), self.table()));
        all
    }
}
