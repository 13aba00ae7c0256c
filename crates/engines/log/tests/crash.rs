//! The crash campaign of the log engine: random histories of puts, deletions, ranges and batches at both levels, through small
//! segments, checkpoints, cleaning and reopenings, cut at every event, several images each; recoveries cut, refused, and worked on
//! after; repairs of damaged images cut.
//!
//! What is found must be a state of the history, and of these one that keeps what was promised: everything acknowledged at
//! `Sync`; after a mere kill, everything acknowledged.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives it more time, `BIOMBO_CAMPAIGN_SEED` another beginning, `BIOMBO_CAMPAIGN_IMAGES` so many
//! different images however long that takes; `--nocapture` shows what it reached.

mod crash_model;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Fault, FaultKind, Random, SimIo, When};
use biombo_engine::Engine;
use biombo_journal::LogOptions;
use biombo_log::LogEngine;
use crash_model::{DIR, Model, State, check, contents, disk, make_home, open, random_options, work, write_on};

/// Random images at each cut, beside the three extreme ones.
const RANDOM_IMAGES_MAX: usize = 8;
const IMAGES_MIN: usize = 20_000;

struct History {
    points: CrashPoints,
    model: Model,
    options: LogOptions,
}

impl History {
    fn new(sim: &SimIo, model: Model, options: LogOptions) -> Self {
        Self { points: sim.crash_points(), model, options }
    }

    /// Crash at every event. With `again`, some of the images are worked on and crashed at every event of that.
    fn cut_everywhere(mut self, campaign: &Campaign, random: &mut Random, images_max: usize, again: bool, seed: u64) {
        loop {
            let mut repeated = 0;
            let mut crashes = vec![Crash::Kill, Crash::Nothing, Crash::Everything];
            crashes.extend((0..images_max).map(|_| Crash::Random(random.next())));
            if let Some(step) = self.model.step(self.points.cut()) {
                campaign.count_step(step);
                // Whoever appends ends one segment and begins the next.
                if step != "recovery" && self.points.label() == "create #.new" {
                    campaign.count_step("segment switch");
                }
            }
            for crash in crashes {
                let image = self.points.image(crash);
                let is_new = campaign.count(self.points.label(), &image);
                // A killed process leaves what is not durable, which the hash does not show.
                if is_new || crash == Crash::Kill && random.below(4) == 0 {
                    self.look_at(campaign, random, &image, crash, again, seed);
                }
                repeated = if is_new { 0 } else { repeated + 1 };
                if repeated == 4 {
                    break;
                }
            }
            if !self.points.advance() || (again && campaign.is_over()) {
                return;
            }
        }
    }

    fn look_at(&self, campaign: &Campaign, random: &mut Random, image: &SimIo, crash: Crash, again: bool, seed: u64) {
        let Self { points, model, options } = self;
        let (cut, killed) = (points.cut(), crash == Crash::Kill);
        let what = format!("seed {seed}, cut {cut} ({}), {crash:?}", points.label());
        let found = check(image, model, cut, killed, options, &what);
        if random.below(4) == 0 {
            // Closing has made durable what was found.
            let left = |image: &SimIo| {
                campaign.count("written to after a crash", image);
            };
            write_on(image, model, found, options, random, left, &what);
        }
        if random.below(6) == 0 {
            self.cut_recovery(campaign, random, crash, &what);
        }
        if random.below(6) == 0 {
            self.refuse_recovery(campaign, random, crash, &what);
        }
        if !killed && random.below(100) == 0 {
            self.cut_repair(campaign, random, crash, &what);
        }
        if again && random.below(200) == 0 {
            let sim = points.image(crash);
            make_home(&sim);
            let mut model = model.after(cut, killed, found);
            let options = random_options(random);
            work(&sim, &options, &mut model, 8, random);
            History::new(&sim, model, options).cut_everywhere(campaign, random, 4, false, seed);
        }
    }

    /// The machine stops while it recovers.
    fn cut_recovery(&self, campaign: &Campaign, random: &mut Random, crash: Crash, what: &str) {
        let killed = crash == Crash::Kill;
        let image = self.points.image(crash);
        make_home(&image);
        let begun = image.event_count();
        drop(open(&image, &self.options).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
        let cut = begun + random.below((image.event_count() - begun) as u64 + 1) as usize;
        let crash = [Crash::Kill, Crash::Nothing, Crash::Random(random.next())][random.below(3) as usize];
        let again = image.crash(cut, crash);
        campaign.count("recovery", &again);
        let what = format!("{what}, cut again at {cut} of its recovery, {crash:?}");
        check(&again, &self.model, self.points.cut(), killed && crash == Crash::Kill, &self.options, &what);
    }

    /// The image is damaged, and the machine stops while it is repaired: repairing what that leaves keeps the same.
    fn cut_repair(&self, campaign: &Campaign, random: &mut Random, crash: Crash, what: &str) {
        let image = self.points.image(crash);
        let segments: Vec<_> = image
            .files()
            .into_iter()
            .filter(|(path, bytes)| *bytes > 0 && path.extension().is_some_and(|extension| extension == "seg"))
            .collect();
        let Some((path, bytes)) = segments.get(random.below(segments.len().max(1) as u64) as usize) else { return };
        let (offset, bit) = (random.below(*bytes), random.below(8) as u8);
        let what = format!("{what}, bit {bit} at {offset} of {}", path.display());
        let damaged = || {
            let image = self.points.image(crash);
            make_home(&image);
            image.flip_bit(path, offset, bit).expect("the file is there");
            // Whatever lies there is durable: what is cut is the repair.
            image.crash(image.event_count(), Crash::Everything)
        };
        let expected = repaired(&damaged(), &self.options, &what);
        let image = damaged();
        let shared: Arc<dyn Io> = Arc::new(image.clone());
        LogEngine::repair(&shared, Path::new(DIR), &mut |_| {}).expect("it was repaired just now");
        let mut points = image.crash_points();
        loop {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(random.next())] {
                let image = points.image(crash);
                if campaign.count("repair", &image) {
                    let what = format!("{what}, cut at {} ({}), {crash:?}", points.cut(), points.label());
                    assert_eq!(repaired(&image, &self.options, &what), expected, "{what}");
                }
            }
            if !points.advance() {
                return;
            }
        }
    }

    /// The disk refuses something while it recovers; then it does not, and the process or the machine has gone on.
    fn refuse_recovery(&self, campaign: &Campaign, random: &mut Random, crash: Crash, what: &str) {
        let image = self.points.image(crash);
        make_home(&image);
        let kind = [FaultKind::Eio, FaultKind::Enospc][random.below(2) as usize];
        let when = match random.below(2) {
            0 => When::Event(image.event_count() + random.below(8) as usize),
            _ => When::Read(random.below(12)),
        };
        image.inject(Fault { when, kind, times: 1 });
        match open(&image, &self.options) {
            Ok(engine) => drop(engine),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::Full), "{what}, refused: {:?}: {e}", e.kind())
            }
        }
        image.clear_faults();
        let what = format!("{what}, refused once on opening ({kind:?})");
        let (image, killed) = match random.below(2) {
            0 => (image, crash == Crash::Kill),
            _ => (image.crash(image.event_count(), Crash::Nothing), false),
        };
        campaign.count("refused while it recovered", &image);
        check(&image, &self.model, self.points.cut(), killed, &self.options, &what);
    }
}

fn scenario(campaign: &Campaign, seed: u64) {
    let mut random = Random(seed);
    let options = random_options(&mut random);
    let sim = disk(seed);
    let mut model = Model::new();
    work(&sim, &options, &mut model, 40, &mut random);
    History::new(&sim, model, options).cut_everywhere(campaign, &mut random, RANDOM_IMAGES_MAX, true, seed);
}

/// Repair an instance that nobody has open, and see what it has then.
fn repaired(io: &SimIo, options: &LogOptions, what: &str) -> State {
    let shared: Arc<dyn Io> = Arc::new(io.clone());
    LogEngine::repair(&shared, Path::new(DIR), &mut |_| {}).unwrap_or_else(|e| panic!("{what}: no repair: {e}"));
    let engine = open(io, options).unwrap_or_else(|e| panic!("{what}: repaired and does not open: {e}"));
    engine.verify(&mut |damage| panic!("{what}: repaired, and {damage:?}")).expect("verify");
    contents(&engine)
}

/// What the engine does, and what it does to its disk meanwhile: each must have been cut.
const STEPS: [&str; 39] = [
    "append",
    "group commit",
    "segment switch",
    "sync",
    "checkpoint",
    "cleaning: copy",
    "cleaning: finish",
    "cleaning: settle",
    "cleaning: install",
    "cleaning: release",
    "cleaning: all",
    "closing",
    "recovery",
    "repair",
    "written to after a crash",
    "refused while it recovered",
    "mkdir db",
    "mkdir log",
    "create LOCK",
    "create MANIFEST.new",
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
    "create #.index-new",
    "write #.index-new",
    "sync #.index-new",
    "rename #.index-new -> #.index",
    "sync_dir db",
    "remove #.index",
];

#[test]
fn whatever_a_crash_cuts_a_state_of_the_history_is_left_with_all_that_was_promised() {
    let reached = Campaign::from_env("log engine");
    loop {
        reached.run_on_all_processors(|seed| scenario(&reached, seed));
        // On a busy machine the first slice of time may not come to every step.
        let labels = reached.labels();
        let missing: Vec<_> = STEPS.iter().filter(|step| !labels.contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= IMAGES_MIN {
            break;
        }
        let extended = reached.extend(Duration::from_secs(5));
        assert!(extended < Duration::from_secs(150), "never cut at {missing:?}: {reached}");
    }
    reached.report();
}

/// The checker must be able to fail: a disk that has lost the last acknowledged writes is found out.
#[test]
fn a_disk_that_went_back_in_time_is_found_out() {
    let mut random = Random(3);
    let options = random_options(&mut random);
    let sim = disk(3);
    let mut model = Model::new();
    work(&sim, &options, &mut model, 24, &mut random);
    let end = sim.event_count();
    check(&sim.crash(end, Crash::Nothing), &model, end, true, &options, "whole");
    for part in 1..8 {
        let image = sim.crash(end * part / 8, Crash::Kill);
        let caught = std::panic::catch_unwind(|| check(&image, &model, end, false, &options, "an old disk"));
        assert!(caught.is_err(), "the disk as it was at {part} of 8 passed");
    }
}
