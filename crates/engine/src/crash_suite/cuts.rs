//! The campaign: histories cut at every event, and what is left looked at.

use std::time::Duration;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Fault, FaultKind, Random, SimIo, When};

use super::{Model, Subject, check, disk, make_home, work, write_on};

/// Random images at each cut, beside the three extreme ones.
const RANDOM_IMAGES_MAX: usize = 8;

struct History<'a, S> {
    points: CrashPoints,
    model: Model,
    subject: S,
    campaign: &'a Campaign,
    seed: u64,
}

impl<S: Subject> History<'_, S> {
    /// Crash at every event. With `again`, some of the images are worked on and crashed at every event of that.
    fn cut_everywhere(mut self, random: &mut Random, images_max: usize, again: bool) {
        let mut before = String::new();
        loop {
            self.count_steps(&before);
            self.points.label().clone_into(&mut before);
            let mut repeated = 0;
            let mut crashes = vec![Crash::Kill, Crash::Nothing, Crash::Everything];
            crashes.extend((0..images_max).map(|_| Crash::Random(random.next())));
            for crash in crashes {
                let image = self.points.image(crash);
                let is_new = self.campaign.count(self.points.label(), &image);
                // A killed process leaves what is not durable, which the hash does not show.
                if is_new || crash == Crash::Kill && random.below(4) == 0 {
                    self.look_at(random, &image, crash, again);
                }
                repeated = if is_new { 0 } else { repeated + 1 };
                if repeated == 4 {
                    break;
                }
            }
            if !self.points.advance() || (again && self.campaign.is_over()) {
                return;
            }
        }
    }

    fn count_steps(&self, before: &str) {
        let step = self.model.step(self.points.cut());
        let between = self.subject.step_between(step, before, self.points.label());
        step.into_iter().chain(between).for_each(|step| self.campaign.count_step(step));
    }

    fn look_at(&self, random: &mut Random, image: &SimIo, crash: Crash, again: bool) {
        let Self { points, model, subject, campaign, seed } = self;
        let (cut, killed) = (points.cut(), crash == Crash::Kill);
        let what = format!("seed {seed}, cut {cut} ({}), {crash:?}", points.label());
        let found = check(subject, image, model, cut, killed, &what);
        // Who was killed leaves things that are there and not durable.
        if random.below(if killed { 2 } else { 6 }) == 0 {
            campaign.count("written to after a crash", &write_on(subject, image, model, found, random, &what));
        }
        if random.below(6) == 0 {
            self.cut_recovery(random, crash, &what);
        }
        if random.below(6) == 0 {
            self.refuse_recovery(random, crash, &what);
        }
        if random.below(100) == 0 {
            subject.cut_more(points, crash, campaign, random, &what);
        }
        if again && random.below(200) == 0 {
            let disk = points.image(crash);
            make_home(&disk);
            let mut model = model.after(cut, killed, found);
            let subject = subject.reopened(random);
            work(&subject, &disk, &mut model, 8, random);
            let next = History { points: disk.crash_points(), model, subject, campaign, seed: *seed };
            next.cut_everywhere(random, 4, false);
        }
    }

    /// The machine stops while it recovers.
    fn cut_recovery(&self, random: &mut Random, crash: Crash, what: &str) {
        let killed = crash == Crash::Kill;
        let image = self.points.image(crash);
        make_home(&image);
        let begun = image.event_count();
        drop(self.subject.open(&image).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
        let cut = begun + random.below((image.event_count() - begun) as u64 + 1) as usize;
        let crash = [Crash::Kill, Crash::Nothing, Crash::Random(random.next())][random.below(3) as usize];
        let again = image.crash(cut, crash);
        self.campaign.count("recovery cut", &again);
        let what = format!("{what}, cut again at {cut} of its recovery, {crash:?}");
        check(&self.subject, &again, &self.model, self.points.cut(), killed && crash == Crash::Kill, &what);
    }

    /// The disk refuses something while it recovers; then it does not, and the process or the machine has gone on.
    fn refuse_recovery(&self, random: &mut Random, crash: Crash, what: &str) {
        let image = self.points.image(crash);
        make_home(&image);
        let kind = [FaultKind::Eio, FaultKind::Enospc][random.below(2) as usize];
        let when = match random.below(2) {
            0 => When::Event(image.event_count() + random.below(12) as usize),
            _ => When::Read(random.below(12)),
        };
        image.inject(Fault { when, kind, times: 1 });
        match self.subject.open(&image) {
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
        self.campaign.count("refused while it recovered", &image);
        check(&self.subject, &image, &self.model, self.points.cut(), killed, &what);
    }
}

/// Run the campaign `name` over subjects that `random_subject` makes, until its time is over, it has cut at each of `steps` (names of the
/// [`Model`]'s steps and labels of the disk's events) and has seen `images_min` different images. Prints what it reached.
pub fn run<S: Subject>(
    name: &str,
    random_subject: impl Fn(&mut Random) -> S + Sync,
    steps: &[&str],
    images_min: usize,
) {
    let reached = Campaign::from_env(name);
    loop {
        reached.run_on_all_processors(|seed| {
            let mut random = Random(seed);
            let subject = random_subject(&mut random);
            let disk = disk(seed);
            let mut model = Model::new();
            work(&subject, &disk, &mut model, 40, &mut random);
            let history = History { points: disk.crash_points(), model, subject, campaign: &reached, seed };
            history.cut_everywhere(&mut random, RANDOM_IMAGES_MAX, true);
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
pub fn old_disks_are_found_out<S: Subject>(random_subject: impl Fn(&mut Random) -> S) {
    let mut random = Random(3);
    let subject = random_subject(&mut random);
    let disk = disk(3);
    let mut model = Model::new();
    work(&subject, &disk, &mut model, 24, &mut random);
    let end = disk.event_count();
    check(&subject, &disk.crash(end, Crash::Nothing), &model, end, true, "whole");
    let mut tried = 0;
    for part in 1..8 {
        let cut = end * part / 8;
        // What was written since may change nothing that is read.
        if model.allowed(cut, true).any(|old| model.find(model.allowed(end, false), &model.states[old]).is_some()) {
            continue;
        }
        tried += 1;
        let image = disk.crash(cut, Crash::Kill);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&subject, &image, &model, end, false, "an old disk");
        }));
        assert!(caught.is_err(), "the disk as it was at {part} of 8 passed");
    }
    assert!(tried >= 4, "only {tried} of 7 disks are old");
}
