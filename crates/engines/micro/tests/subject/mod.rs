//! The engines as the crash, fault and damage tests have them: on a simulated disk, as one history has them.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::sim::{Random, SimIo};
use biombo_engine::Engine;
use biombo_engine::crash_suite::{self, Model};

type Open = dyn Fn(&SimIo) -> Result<Arc<dyn Engine>> + Send + Sync;

/// Either engine, with options.
#[derive(Clone)]
pub struct Subject(Arc<Open>);

impl Subject {
    pub fn new<E: Engine + 'static>(open: impl Fn(&SimIo) -> Result<Arc<E>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |disk| {
            let engine: Arc<dyn Engine> = open(disk)?;
            Ok(engine)
        }))
    }

    pub fn open(&self, disk: &SimIo) -> Result<Arc<dyn Engine>> {
        (self.0)(disk)
    }
}

impl crash_suite::Subject for Subject {
    type Engine = dyn Engine;

    fn open(&self, disk: &SimIo) -> Result<Arc<dyn Engine>> {
        (self.0)(disk)
    }

    /// Checkpoints, or compaction to the end: both begin with what the journal has.
    fn maintain(&self, engine: &Arc<dyn Engine>, disk: &SimIo, model: &mut Model, random: &mut Random) -> bool {
        if random.below(6) > 0 {
            return false;
        }
        let begun = disk.event_count();
        engine.compact().expect("compact");
        model.synced(disk.event_count());
        model.stepped("compact", begun, disk.event_count());
        true
    }

    /// What follows the sync of a tree's pages is the write of its head.
    fn step_between(&self, _step: Option<&str>, before: &str, label: &str) -> Option<&'static str> {
        (before == "sync tree.pages" && label == "write tree.pages").then_some("head")
    }
}
