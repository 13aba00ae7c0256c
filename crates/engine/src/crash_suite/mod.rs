//! The crash suite of the Engine contract, for any engine whose files are behind [`Io`]: random histories on a
//! simulated disk, cut at every event, several images each; recoveries cut, refused, and worked on after.
//!
//! What is found must be a state of the history, and of these one that keeps what was promised: everything acknowledged at `Sync`; after a
//! mere kill, everything acknowledged. Every way of reading must agree on it, and the engine must go on from there.
//!
//! - [`Subject`]: an engine with the options of one history; what it does beside the contract (cleaning, checkpoints), what must hold of it
//!   beyond it (its accounts), what else can be cut (its repair);
//! - [`Model`]: the states of a history, and what was promised of them when;
//! - [`work`], [`random_batch`]: histories;
//! - [`check`], [`agree`], [`contents`], [`write_on`]: what must hold of an instance that was opened on what is left;
//! - [`run`], [`old_disks_are_found_out`]: the campaign, and the proof that it can fail.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives a campaign more time, `BIOMBO_CAMPAIGN_SEED` another beginning, `BIOMBO_CAMPAIGN_IMAGES` so many
//! different images however long that takes; `--nocapture` shows what it reached.

mod cuts;
mod found;
mod history;
mod model;

use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Random, SimIo};

use crate::Engine;
pub use cuts::{old_disks_are_found_out, run};
pub use found::{agree, check, contents, write_on};
pub use history::{key, random_batch, work};
pub use model::{Model, State};

/// The directory of the instance on the simulated disk.
pub const DIR: &str = "db";

/// An engine under test, with the options that one history has.
pub trait Subject: Clone + Send + Sync {
    /// The engine: a type of its own where the test asks it things beyond the contract, else `dyn Engine`.
    type Engine: Engine + ?Sized;

    /// Open, or create, the instance in [`DIR`] of `disk`.
    fn open(&self, disk: &SimIo) -> Result<Arc<Self::Engine>>;

    /// The options with which work goes on after a crash.
    fn reopened(&self, random: &mut Random) -> Self {
        let _ = random;
        self.clone()
    }

    /// Let the engine do some of what it does beside the contract, and tell `model` the step and what is durable since; `false` when
    /// it is not the time for any.
    fn maintain(&self, engine: &Arc<Self::Engine>, disk: &SimIo, model: &mut Model, random: &mut Random) -> bool {
        let _ = (engine, disk, model, random);
        false
    }

    /// Come to an end of what is under way, before a history's last closing.
    fn settle(&self, engine: &Arc<Self::Engine>, disk: &SimIo, model: &mut Model) {
        let _ = (engine, disk, model);
    }

    /// Panic unless what the engine says of itself beyond the contract is so, directly after opening or a write.
    fn audit(&self, engine: &Arc<Self::Engine>, disk: &SimIo, what: &str) {
        let _ = (engine, disk, what);
    }

    /// The step that shows in the order of events alone: `before` and `label` are the labels of two that follow each other, within `step`.
    fn step_between(&self, step: Option<&str>, before: &str, label: &str) -> Option<&'static str> {
        let _ = (step, before, label);
        None
    }

    /// Cut what else there is to cut on the image that `points` leave by `crash`, from time to time.
    fn cut_more(&self, points: &CrashPoints, crash: Crash, campaign: &Campaign, random: &mut Random, what: &str) {
        let _ = (points, crash, campaign, random, what);
    }
}

/// An empty disk with the instance's directory.
pub fn disk(seed: u64) -> SimIo {
    let disk = SimIo::new(seed);
    make_home(&disk);
    disk
}

/// Make the instance's directory, as a store does before it opens an engine in it.
pub fn make_home(disk: &SimIo) {
    disk.create_dir_all(Path::new(DIR)).expect("no fault yet");
    disk.sync_dir(Path::new("")).expect("no fault yet");
}
