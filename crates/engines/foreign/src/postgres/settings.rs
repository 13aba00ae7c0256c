//! How the lab's own server is set: what an experienced administrator would change for a load of keys and values, and nothing else.

use biombo_engine::OpenOptions;

/// Connections that may be open at once: one for each thread in a call, one for each snapshot and each cursor.
pub(super) const CONNECTIONS_MAX: u32 = 1_000;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Names and values, as they stand on the server's command line and in the report.
pub(super) fn server(options: &OpenOptions) -> Vec<(String, String)> {
    let instances = u64::from(options.instances.max(1));
    // By volume, as the other engines' checkpoints are; PostgreSQL ships 1 GB and tells who writes much to raise it.
    let wal_bytes = (2_048 * MIB / instances).max(128 * MIB);
    let all = [
        // The lab counts every cache: the server's own gets all of it. What the kernel caches beside is counted for nobody.
        ("shared_buffers", format!("{}kB", options.cache_bytes.max(16 * MIB) / KIB)),
        ("max_connections", CONNECTIONS_MAX.to_string()),
        ("superuser_reserved_connections", "0".to_owned()),
        ("max_wal_size", format!("{}MB", wal_bytes / MIB)),
        // Nobody follows this server: its log need hold no more than recovery reads.
        ("wal_level", "minimal".to_owned()),
        ("max_wal_senders", "0".to_owned()),
        // Each transaction says itself whether its commit waits for the device.
        ("synchronous_commit", "on".to_owned()),
        ("fsync", "on".to_owned()),
        ("full_page_writes", "on".to_owned()),
        ("autovacuum", "on".to_owned()),
        ("jit", "off".to_owned()),
        // A server process that dies must be seen, not made up for.
        ("restart_after_crash", "off".to_owned()),
        ("listen_addresses", String::new()),
        ("port", PORT.to_string()),
        ("unix_socket_permissions", "0700".to_owned()),
        ("logging_collector", "off".to_owned()),
        ("log_min_messages", "warning".to_owned()),
        ("log_min_error_statement", "panic".to_owned()),
    ];
    all.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The number in the socket's name.
pub(super) const PORT: u16 = 5432;

/// What each connection asks for: rows are found by the index, and a statement is planned once.
pub(super) const SESSION: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c plan_cache_mode=force_generic_plan \
                                  -c max_parallel_workers_per_gather=0 -c client_min_messages=error -c lock_timeout=0 \
                                  -c statement_timeout=0";
