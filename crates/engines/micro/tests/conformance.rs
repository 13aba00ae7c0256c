//! The conformance suite for each engine of this crate, in both behaviours, and with caches so small that most is read from the
//! device and written back early.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use biombo_base::io::RealIo;
use biombo_engine::conformance::Subject;
use biombo_engine::{Engine, OpenOptions, Result};
use biombo_micro::Behaviour::{Honest, Published};
use biombo_micro::{btree, lsm};

biombo_engine::conformance_tests!(btree_honest, Subject::from_kind(&btree::kind(Honest)).with_budget(USUAL));
biombo_engine::conformance_tests!(btree_published, Subject::from_kind(&btree::kind(Published)).with_budget(SHORT));
biombo_engine::conformance_tests!(btree_small, small_btree());
biombo_engine::conformance_tests!(lsm_honest, Subject::from_kind(&lsm::kind(Honest)).with_budget(USUAL));
biombo_engine::conformance_tests!(lsm_published, Subject::from_kind(&lsm::kind(Published)).with_budget(SHORT));
biombo_engine::conformance_tests!(lsm_small, small_lsm());

const USUAL: Duration = Duration::from_millis(700);
const SHORT: Duration = Duration::from_millis(150);

/// 64 pages of memory, a checkpoint every 64 KiB.
fn small_btree() -> Subject {
    let open = |dir: &Path| -> Result<Arc<dyn Engine>> {
        let options = OpenOptions { cache_bytes: 256 << 10, ..OpenOptions::new(dir) };
        let mut own = btree::BtreeOptions { checkpoint_bytes: 64 << 10, ..btree::BtreeOptions::of(&options) };
        own.journal.segment_bytes = 32 << 10;
        Ok(btree::open_with(RealIo::shared(), &options, &own, Honest)?)
    };
    Subject::new("micro-btree-small", (btree::kind(Honest).capabilities)(), open).with_budget(SHORT)
}

/// A memtable of 32 KiB of memory, tables of 16 KiB, four levels in use.
fn small_lsm() -> Subject {
    let open = |dir: &Path| -> Result<Arc<dyn Engine>> {
        let options = OpenOptions::new(dir);
        let mut own = lsm::LsmOptions {
            cache_bytes: 64 << 10,
            memtable_bytes_max: 32 << 10,
            table_bytes: 16 << 10,
            level0_tables_max: 2,
            level1_bytes_max: 64 << 10,
            level_factor: 4,
            ..lsm::LsmOptions::of(&options, Honest)
        };
        own.journal.segment_bytes = 32 << 10;
        Ok(lsm::open_with(RealIo::shared(), &options, &own, Honest)?)
    };
    Subject::new("micro-lsm-small", (lsm::kind(Honest).capabilities)(), open).with_budget(SHORT)
}
