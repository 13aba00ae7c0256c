//! The crash campaign of the log below the journal: mapped and direct segments, changes of mode, footers, cold segments,
//! dropping in any order; cut at every event, several images each, and crashes during recovery.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives it more time, `BIOMBO_CAMPAIGN_SEED` another beginning; `--nocapture` shows what it
//! reached.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod log_model;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use biombo_base::io::Io;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Random, SimIo};
use biombo_journal::{Durability, LogOptions};
use log_model::{Check, Model, Run, Taking, open, random_options};

/// Random images at each cut, beside the three extreme ones.
const RANDOM_IMAGES_MAX: u64 = 8;

struct History {
    points: CrashPoints,
    model: Model,
    options: LogOptions,
}

impl History {
    /// Crash at every event. With `again`, some of the images are recovered, worked on, and crashed at every event of that,
    /// recovery's own included.
    fn cut_everywhere(mut self, campaign: &mut Campaign, random: &mut Random, images_max: u64, again: bool) -> Check {
        loop {
            let mut crashes = vec![Crash::Kill, Crash::Nothing, Crash::Everything];
            crashes.extend((0..images_max).map(|_| Crash::Random(random.next())));
            let mut repeated = 0;
            for crash in crashes {
                let image = self.points.image(crash);
                let is_new = campaign.count(self.points.label(), &image);
                // A killed process leaves what is not durable, which the hash does not show.
                if is_new || crash == Crash::Kill {
                    self.check(campaign, random, crash, again)?;
                }
                repeated = if is_new { 0 } else { repeated + 1 };
                if repeated == 4 {
                    break;
                }
            }
            if !self.points.advance() || (again && campaign.is_over()) {
                return Ok(());
            }
        }
    }

    fn check(&self, campaign: &mut Campaign, random: &mut Random, crash: Crash, again: bool) -> Check {
        let Self { points, model, options } = self;
        let place = format!("cut at event {} ({}), {crash:?}", points.cut(), points.label());
        let text = |e: biombo_base::Error| format!("{place}: {:?}: {e}", e.kind());
        let killed = crash == Crash::Kill;
        let image = points.image(crash);
        image.create_dir_all(Path::new("store")).unwrap();
        image.sync_dir(Path::new("")).unwrap();
        let taking = [Taking::Frames, Taking::Footers, Taking::Half][random.below(3) as usize];
        let (mut log, reader, seen) = open(Arc::new(image.clone()), options, taking).map_err(text)?;
        model.check(points.cut(), killed, &seen, &reader).map_err(|what| format!("{place}, {taking:?}: {what}"))?;
        if random.below(3) == 0 {
            let mut after = model.after(points.cut(), killed, &seen);
            let record = vec![0xee; 37];
            let mut at = Vec::new();
            log.append(&[&[&record]], Durability::Sync, &mut at).map_err(text)?;
            after.push(&at, std::slice::from_ref(&record));
            after.durable_now(0);
            // The process dies without closing: no last frame, no destructor.
            let cut = image.crash(image.event_count(), Crash::Nothing);
            let (_log, reader, seen) = open(Arc::new(cut), options, Taking::Frames).map_err(text)?;
            let checked = after.check(0, false, &seen, &reader);
            checked.map_err(|what| format!("{place}, after appending once more: {what}"))?;
        }
        drop((log, reader));
        if again && random.below(250) == 0 {
            let mut model = model.after(points.cut(), killed, &seen);
            let options = random_options(random);
            let sim = points.image(crash);
            let went = Run::new(&sim, Arc::new(sim.clone()), &options, &mut model).go(6, random);
            went.map_err(|what| format!("{place}, then {what}"))?;
            let second = History { points: sim.crash_points(), model, options };
            second.cut_everywhere(campaign, random, 4, false).map_err(|what| format!("{place}, then {what}"))?;
        }
        Ok(())
    }
}

fn campaign(campaign: &mut Campaign, io: impl Fn(&SimIo) -> Arc<dyn Io>) -> Check {
    while let Some(seed) = campaign.next_seed() {
        let named = |what: String| format!("seed {seed}: {what}");
        let mut random = Random(seed);
        let options = random_options(&mut random);
        let sim = SimIo::new(seed);
        let mut model = Model::new();
        Run::new(&sim, io(&sim), &options, &mut model).go(16, &mut random).map_err(named)?;
        let history = History { points: sim.crash_points(), model, options };
        history.cut_everywhere(campaign, &mut random, RANDOM_IMAGES_MAX, true).map_err(named)?;
    }
    Ok(())
}

/// What the log does to its disk: each must have been cut.
const STEPS: [&str; 25] = [
    "mkdir log",
    "create LOCK",
    "create MANIFEST.new",
    "allocate MANIFEST.new",
    "write MANIFEST.new",
    "sync MANIFEST.new",
    "rename MANIFEST.new -> MANIFEST",
    "write MANIFEST",
    "create #.new",
    "allocate #.new",
    "write #.new",
    "sync #.new",
    "rename #.new -> #.seg",
    "sync_dir log",
    "store #.seg",
    "write #.seg",
    "sync #.seg",
    "set_len #.seg",
    "rename #.seg -> #.free",
    "write #.free",
    "sync #.free",
    "rename #.free -> #.seg",
    "remove #.seg",
    "remove #.new",
    "end",
];

#[test]
fn nothing_promised_is_lost_by_a_crash_at_any_event_of_a_log() {
    let mut reached = Campaign::from_env("log");
    loop {
        if let Err(broken) = campaign(&mut reached, |sim| Arc::new(sim.clone())) {
            panic!("{broken}\n{reached}");
        }
        // On a busy machine the first slice of time may not come to every step.
        let missing: Vec<_> = STEPS.iter().filter(|step| !reached.labels().contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= 3000 {
            break;
        }
        assert!(
            reached.extend(Duration::from_secs(5)) < Duration::from_secs(60),
            "never cut at {missing:?}: {reached}"
        );
    }
    reached.report();
}
