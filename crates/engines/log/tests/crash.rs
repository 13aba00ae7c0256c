//! The crash campaign of the log engine: random histories of puts, deletions, ranges and batches at both levels, through small
//! segments and reopenings, cut at every event, several images each; recoveries cut, refused, and worked on after.
//!
//! What is found must be a state of the history, and of these one that keeps what was promised: everything acknowledged at
//! `Sync`; after a mere kill, everything acknowledged.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives it more time, `BIOMBO_CAMPAIGN_SEED` another beginning; `--nocapture` shows what it
//! reached.

mod crash_model;

use std::time::Duration;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Fault, FaultKind, Random, SimIo, When};
use biombo_journal::LogOptions;
use crash_model::{Model, check, disk, make_home, open, random_options, work, write_on};

/// Random images at each cut, beside the three extreme ones.
const RANDOM_IMAGES_MAX: usize = 8;
const IMAGES_MIN: usize = 3000;

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
    fn cut_everywhere(
        mut self,
        campaign: &mut Campaign,
        random: &mut Random,
        images_max: usize,
        again: bool,
        seed: u64,
    ) {
        loop {
            let mut repeated = 0;
            let mut crashes = vec![Crash::Kill, Crash::Nothing, Crash::Everything];
            crashes.extend((0..images_max).map(|_| Crash::Random(random.next())));
            for crash in crashes {
                let image = self.points.image(crash);
                let is_new = campaign.count(self.points.label(), &image);
                // A killed process leaves what is not durable, which the hash does not show.
                if is_new || crash == Crash::Kill {
                    self.look_at(campaign, random, crash, again, seed);
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

    fn look_at(&self, campaign: &mut Campaign, random: &mut Random, crash: Crash, again: bool, seed: u64) {
        let Self { points, model, options } = self;
        let (cut, killed) = (points.cut(), crash == Crash::Kill);
        let what = format!("seed {seed}, cut {cut} ({}), {crash:?}", points.label());
        let image = points.image(crash);
        let found = check(&image, model, cut, killed, options, &what);
        if random.below(4) == 0 {
            // Closing has made durable what was found.
            write_on(&image, model, found, options, random, &what);
        }
        if random.below(6) == 0 {
            self.cut_recovery(campaign, random, crash, &what);
        }
        if random.below(6) == 0 {
            self.refuse_recovery(random, crash, &what);
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
    fn cut_recovery(&self, campaign: &mut Campaign, random: &mut Random, crash: Crash, what: &str) {
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

    /// The disk refuses something while it recovers; then it does not, and the process or the machine has gone on.
    fn refuse_recovery(&self, random: &mut Random, crash: Crash, what: &str) {
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
        check(&image, &self.model, self.points.cut(), killed, &self.options, &what);
    }
}

fn campaign(campaign: &mut Campaign) {
    while let Some(seed) = campaign.next_seed() {
        let mut random = Random(seed);
        let options = random_options(&mut random);
        let sim = disk(seed);
        let mut model = Model::new();
        work(&sim, &options, &mut model, 24, &mut random);
        History::new(&sim, model, options).cut_everywhere(campaign, &mut random, RANDOM_IMAGES_MAX, true, seed);
    }
}

/// What the engine does to its disk: each must have been cut.
const STEPS: [&str; 25] = [
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
    "recovery",
    "end",
];

#[test]
fn whatever_a_crash_cuts_a_state_of_the_history_is_left_with_all_that_was_promised() {
    let mut reached = Campaign::from_env("log engine");
    loop {
        campaign(&mut reached);
        // On a busy machine the first slice of time may not come to every step.
        let missing: Vec<_> = STEPS.iter().filter(|step| !reached.labels().contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= IMAGES_MIN {
            break;
        }
        let extended = reached.extend(Duration::from_secs(5));
        assert!(extended < Duration::from_secs(90), "never cut at {missing:?}: {reached}");
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
