//! The crash campaign of both engines: random histories, cut at every event, several images each; recoveries cut, refused, and worked on
//! after.
//!
//! What is found must be a state of the history, and of these one that keeps what was promised: everything acknowledged at `Sync`; after a
//! mere kill, everything acknowledged.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives it more time, `BIOMBO_CAMPAIGN_SEED` another beginning, `BIOMBO_CAMPAIGN_IMAGES` so many different
//! images however long that takes; `--nocapture` shows what it reached.

use std::time::Duration;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Fault, FaultKind, Random, SimIo, When};
use biombo_engine::Durability;

use crate::model::{Model, Opener, check, disk, make_home, random_batch, work};

/// Random images at each cut, beside the three extreme ones.
const RANDOM_IMAGES_MAX: usize = 6;

struct History {
    points: CrashPoints,
    model: Model,
    open: Opener,
}

impl History {
    /// Crash at every event. With `again`, some of the images are worked on and crashed at every event of that.
    fn cut_everywhere(mut self, campaign: &Campaign, random: &mut Random, images_max: usize, again: bool, seed: u64) {
        let mut before = String::new();
        loop {
            let mut repeated = 0;
            let mut crashes = vec![Crash::Kill, Crash::Nothing, Crash::Everything];
            crashes.extend((0..images_max).map(|_| Crash::Random(random.next())));
            if let Some(step) = self.model.step(self.points.cut()) {
                campaign.count_step(step);
            }
            let label = self.points.label();
            // What follows the sync of a tree's pages is the write of its head.
            if before == "sync tree.pages" && label == "write tree.pages" {
                campaign.count_step("head");
            }
            before = label.to_owned();
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
        let Self { points, model, open } = self;
        let (cut, killed) = (points.cut(), crash == Crash::Kill);
        let what = format!("seed {seed}, cut {cut} ({}), {crash:?}", points.label());
        let found = check(image, model, cut, killed, open, &what);
        // Who was killed leaves things that are there and not durable.
        if random.below(if killed { 2 } else { 6 }) == 0 {
            self.write_on(campaign, random, image, found, &what);
        }
        if random.below(6) == 0 {
            self.cut_recovery(campaign, random, crash, &what);
        }
        if random.below(6) == 0 {
            self.refuse_recovery(campaign, random, crash, &what);
        }
        if again && random.below(200) == 0 {
            let sim = points.image(crash);
            make_home(&sim);
            let mut model = model.after(cut, killed, found);
            work(&sim, open, &mut model, 8, random);
            let next = History { points: sim.crash_points(), model, open: open.clone() };
            next.cut_everywhere(campaign, random, 4, false, seed);
        }
    }

    /// Write to what a crash left, at `Sync`, and lose the power: a recovery that leaves something half done shows.
    fn write_on(&self, campaign: &Campaign, random: &mut Random, image: &SimIo, found: usize, what: &str) {
        let mut after = self.model.after(0, false, found);
        let engine = (self.open)(image).unwrap_or_else(|e| panic!("{what}: does not open again: {e}"));
        for number in 0..1 + random.below(6) as usize {
            let batch = random_batch(random, number);
            after.begin(&batch.to_ops());
            engine.apply(&batch.to_ops(), Durability::Sync).unwrap_or_else(|e| panic!("{what}: not writable: {e}"));
            after.acked(0);
            after.synced(0);
        }
        // The process dies here: no destructor has closed anything.
        let crash = if random.below(2) == 0 { Crash::Nothing } else { Crash::Random(random.next()) };
        let cut = image.crash(image.event_count(), crash);
        campaign.count("written to after a crash", &cut);
        check(&cut, &after, 0, true, &self.open, &format!("{what}, written to, {crash:?}"));
    }

    /// The machine stops while it recovers.
    fn cut_recovery(&self, campaign: &Campaign, random: &mut Random, crash: Crash, what: &str) {
        let killed = crash == Crash::Kill;
        let image = self.points.image(crash);
        make_home(&image);
        let begun = image.event_count();
        drop((self.open)(&image).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
        let cut = begun + random.below((image.event_count() - begun) as u64 + 1) as usize;
        let crash = [Crash::Kill, Crash::Nothing, Crash::Random(random.next())][random.below(3) as usize];
        let again = image.crash(cut, crash);
        campaign.count("recovery cut", &again);
        let what = format!("{what}, cut again at {cut} of its recovery, {crash:?}");
        check(&again, &self.model, self.points.cut(), killed && crash == Crash::Kill, &self.open, &what);
    }

    /// The disk refuses something while it recovers; then it does not, and the process or the machine has gone on.
    fn refuse_recovery(&self, campaign: &Campaign, random: &mut Random, crash: Crash, what: &str) {
        let image = self.points.image(crash);
        make_home(&image);
        let kind = [FaultKind::Eio, FaultKind::Enospc][random.below(2) as usize];
        let when = match random.below(2) {
            0 => When::Event(image.event_count() + random.below(12) as usize),
            _ => When::Read(random.below(12)),
        };
        image.inject(Fault { when, kind, times: 1 });
        match (self.open)(&image) {
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
        check(&image, &self.model, self.points.cut(), killed, &self.open, &what);
    }
}

/// Run the campaign `name` until its time is over, it has cut at all of `steps` and has seen `images_min` different images.
pub fn run(name: &str, random_open: impl Fn(&mut Random) -> Opener + Sync, steps: &[&str], images_min: usize) {
    let reached = Campaign::from_env(name);
    loop {
        reached.run_on_all_processors(|seed| {
            let mut random = Random(seed);
            let open = random_open(&mut random);
            let sim = disk(seed);
            let mut model = Model::new();
            work(&sim, &open, &mut model, 40, &mut random);
            let history = History { points: sim.crash_points(), model, open };
            history.cut_everywhere(&reached, &mut random, RANDOM_IMAGES_MAX, true, seed);
        });
        // On a busy machine the first slice of time may not come to every step.
        let labels = reached.labels();
        let missing: Vec<_> = steps.iter().filter(|step| !labels.contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= images_min {
            break;
        }
        let extended = reached.extend(Duration::from_secs(5));
        assert!(extended < Duration::from_secs(150), "never cut at {missing:?}: {reached}");
    }
    reached.report();
}

/// The checker must be able to fail: a disk that has lost the last acknowledged writes is found out.
pub fn old_disks_are_found_out(random_open: impl Fn(&mut Random) -> Opener) {
    let mut random = Random(3);
    let open = random_open(&mut random);
    let sim = disk(3);
    let mut model = Model::new();
    work(&sim, &open, &mut model, 24, &mut random);
    let end = sim.event_count();
    check(&sim.crash(end, Crash::Nothing), &model, end, true, &open, "whole");
    for part in 1..8 {
        let image = sim.crash(end * part / 8, Crash::Kill);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&image, &model, end, false, &open, "an old disk");
        }));
        assert!(caught.is_err(), "the disk as it was at {part} of 8 passed");
    }
}
