//! What the server counts of its own work, since it was made: every session of an existing server's is in it.

use biombo_engine::Durability;

use super::pool::Taken;

/// The counters that are of use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) page_bytes: u64,
    /// Bytes put into the log.
    pub(super) log_bytes: u64,
    /// Pages written by checkpoints, by the background writer and by sessions that needed room.
    pub(super) pages_written: u64,
    /// Those of checkpoints.
    pub(super) checkpoint_pages: u64,
    pub(super) checkpoints: u64,
    pub(super) checkpoint_seconds: f64,
    /// Pages asked for that were in the server's cache, and that were not.
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// The table with its index and its large values.
    pub(super) table_bytes: u64,
}

/// Up to version 16 one view has the pages; then three, of which the last has those by which sessions make a table longer apart, and other
/// processes' beside the sessions'.
const PAGES_TO_16: &str = "SELECT (buffers_checkpoint + buffers_clean + buffers_backend)::text, buffers_checkpoint::text, \
                           (checkpoints_timed + checkpoints_req)::text, (checkpoint_write_time + checkpoint_sync_time)::text \
                           FROM pg_stat_bgwriter";
const PAGES_FROM_17: &str = "SELECT (c.buffers_written + b.buffers_clean + (SELECT coalesce(sum(coalesce(writes, 0) + coalesce(extends, 0)), 0) \
                             FROM pg_stat_io WHERE object = 'relation' AND backend_type NOT IN ('checkpointer', 'background writer')) \
                             )::bigint::text, c.buffers_written::text, \
                             (c.num_timed + c.num_requested)::text, (c.write_time + c.sync_time)::text \
                             FROM pg_stat_checkpointer c, pg_stat_bgwriter b";

/// Has the server tell of its pages: an extension that comes with most installations of it.
pub(super) const WATCH_PAGES: &str = "CREATE EXTENSION IF NOT EXISTS pg_buffercache";

/// Pages of the server's cache that were changed and are not written yet, of every table.
pub(super) fn dirty_pages(link: &mut Taken<'_>) -> Result<u64, postgres::Error> {
    let told = link.figures("SELECT count(*)::text FROM pg_buffercache WHERE isdirty")?;
    Ok(told.first().and_then(|text| text.parse().ok()).unwrap_or(0))
}

impl Figures {
    /// As they are now.
    pub(super) fn read(link: &mut Taken<'_>, table: &str) -> Result<Self, postgres::Error> {
        let general = link.figures(&format!(
            "SELECT current_setting('server_version_num'), current_setting('block_size'), \
             trunc(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'))::text, blks_hit::text, blks_read::text, \
             pg_total_relation_size('{table}')::text FROM pg_stat_database WHERE datname = current_database()"
        ))?;
        let whole = |texts: &[String], at: usize| texts.get(at).and_then(|text| text.parse().ok()).unwrap_or(0u64);
        let pages = link.figures(if whole(&general, 0) >= 170_000 { PAGES_FROM_17 } else { PAGES_TO_16 })?;
        let milliseconds: f64 = pages.get(3).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        Ok(Self {
            page_bytes: whole(&general, 1),
            log_bytes: whole(&general, 2),
            pages_written: whole(&pages, 0),
            checkpoint_pages: whole(&pages, 1),
            checkpoints: whole(&pages, 2),
            checkpoint_seconds: milliseconds / 1e3,
            hits: whole(&general, 3),
            misses: whole(&general, 4),
            table_bytes: whole(&general, 5),
        })
    }
}

/// The settings of an existing server that decide what it costs.
pub(super) fn settings(link: &mut Taken<'_>) -> Result<Vec<(String, String)>, postgres::Error> {
    const NAMES: [&str; 7] =
        ["server_version", "shared_buffers", "fsync", "full_page_writes", "wal_level", "max_wal_size", "autovacuum"];
    let columns = NAMES.map(|name| format!("current_setting('{name}')")).join(", ");
    let values = link.figures(&format!("SELECT {columns}"))?;
    Ok(NAMES.iter().map(|name| (*name).to_owned()).zip(values).collect())
}

/// What a power cut leaves of such a server's commits. Without these two it may take anything: somebody else's choice.
pub(super) fn survives_power_cut(settings: &[(String, String)]) -> Option<Durability> {
    let is_off = |wanted: &str| settings.iter().any(|(name, value)| name == wanted && value == "off");
    (!is_off("fsync") && !is_off("full_page_writes")).then_some(Durability::Os)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_syncs_nothing_is_no_more_than_a_server_that_was_killed() {
        let with = |fsync: &str, pages: &str| {
            let all = [("server_version", "15"), ("fsync", fsync), ("full_page_writes", pages)];
            survives_power_cut(&all.map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        assert_eq!(with("on", "on"), Some(Durability::Os));
        assert_eq!([with("off", "on"), with("on", "off")], [None, None]);
    }
}
