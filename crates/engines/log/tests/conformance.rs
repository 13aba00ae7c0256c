//! The conformance suite for the log engine, reading through mappings and directly.

use std::path::Path;
use std::time::Duration;

use biombo_base::io::{IoMode, RealIo};
use biombo_engine::conformance::Subject;
use biombo_engine::{Engine, OpenOptions, Result};
use biombo_journal::LogOptions;
use biombo_log::{LogEngineOptions, open_with};
use std::sync::Arc;

biombo_engine::conformance_tests!(log, Subject::from_kind(&biombo_log::kind()));
biombo_engine::conformance_tests!(direct, direct());

/// Small segments, so that most is sealed, and a cache for a part of it.
fn direct() -> Subject {
    let open = |dir: &Path| -> Result<Arc<dyn Engine>> {
        let log =
            LogOptions { segment_bytes: 32 << 10, io: IoMode::Direct, cache_bytes: 64 << 10, ..LogOptions::default() };
        let own = LogEngineOptions { log, ..LogEngineOptions::default() };
        Ok(open_with(RealIo::shared(), &OpenOptions::new(dir), &own, true)?)
    };
    let capabilities = (biombo_log::kind().capabilities)();
    Subject::new("log-direct", capabilities, open).with_budget(Duration::from_millis(400))
}
