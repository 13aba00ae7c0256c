//! The crash campaign: random workloads, cut at every event, several images each, and crashes during recovery.
//!
//! `BIOMBO_CAMPAIGN_SECONDS` gives it more time, `BIOMBO_CAMPAIGN_SEED` another beginning; `--nocapture` shows what it
//! reached.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Random, SimIo};
use biombo_base::io::{File, Io, Lock, Mapping, OpenMode};
use biombo_journal::JournalOptions;
use common::{Bench, Check, Model, Seen, check_image, random_options, run};

/// Random images at each cut, beside the three extreme ones: at most so many, fewer when they repeat.
const RANDOM_IMAGES_MAX: u64 = 40;

fn campaign(campaign: &mut Campaign, bench: impl Fn(SimIo) -> Bench) -> Check {
    while let Some(seed) = campaign.next_seed() {
        let named = |what: String| format!("seed {seed}: {what}");
        let mut random = Random(seed);
        let options = random_options(&mut random);
        let bench = bench(SimIo::new(seed));
        let mut model = Model::new();
        run(&bench, &mut model, &options, 30, &mut random).map_err(named)?;
        let history = History { points: bench.sim.crash_points(), model, options };
        history.cut_everywhere(campaign, &mut random, RANDOM_IMAGES_MAX, true).map_err(named)?;
    }
    Ok(())
}

/// What happened, and what was promised while it did.
struct History {
    points: CrashPoints,
    model: Model,
    options: JournalOptions,
}

impl History {
    /// Crash at every event. With `again`, some of the images are recovered, appended to, and crashed at every event of
    /// that, recovery's own included.
    fn cut_everywhere(mut self, campaign: &mut Campaign, random: &mut Random, images_max: u64, again: bool) -> Check {
        // What an image showed when it was opened; it must satisfy the promises of every cut that leaves it.
        let mut known: HashMap<u64, Seen> = HashMap::new();
        loop {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Everything] {
                self.cut(campaign, random, crash, &mut known, again)?;
            }
            let mut repeated = 0;
            for _ in 0..images_max {
                let is_new = self.cut(campaign, random, Crash::Random(random.clone().next()), &mut known, again)?;
                random.next();
                repeated = if is_new { 0 } else { repeated + 1 };
                if repeated == 3 {
                    break;
                }
            }
            if !self.points.advance() || (again && campaign.is_over()) {
                return Ok(());
            }
        }
    }

    fn cut(
        &self,
        campaign: &mut Campaign,
        random: &mut Random,
        crash: Crash,
        known: &mut HashMap<u64, Seen>,
        again: bool,
    ) -> Result<bool, String> {
        let Self { points, model, options } = self;
        let image = points.image(crash);
        let is_new = campaign.count(points.label(), &image);
        let place = format!("cut at event {} ({}), {crash:?}", points.cut(), points.label());
        if crash != Crash::Kill
            && let Some(seen) = known.get(&image.image_hash())
        {
            model.check(points.cut(), false, seen).map_err(|what| format!("{place}: {what}"))?;
            return Ok(false);
        }
        let hash = image.image_hash();
        let append = random.below(4) == 0;
        let seen = check_image(points, crash, &image, append, model, options)?;
        if again && random.below(60) == 0 {
            let mut model = model.after(points.cut(), crash == Crash::Kill, &seen);
            let options = random_options(random);
            let bench = Bench::new(points.image(crash));
            run(&bench, &mut model, &options, 4, random).map_err(|what| format!("{place}, then {what}"))?;
            let second = History { points: bench.sim.crash_points(), model, options };
            second.cut_everywhere(campaign, random, 6, false).map_err(|what| format!("{place}, then {what}"))?;
        }
        if crash != Crash::Kill {
            known.insert(hash, seen);
        }
        Ok(is_new)
    }
}

/// What the journal does to its disk: each must have been cut.
const STEPS: [&str; 16] = [
    "mkdir journal",
    "create #.new",
    "allocate #.new",
    "write #.new",
    "sync #.new",
    "rename #.new -> #.seg",
    "sync_dir journal",
    "write #.seg",
    "sync #.seg",
    "rename #.seg -> #.free",
    "write #.free",
    "sync #.free",
    "rename #.free -> #.seg",
    "remove #.seg",
    "set_len #.seg",
    "end",
];

#[test]
fn nothing_acknowledged_is_lost_and_no_batch_is_halved_by_a_crash_at_any_event() {
    let mut reached = Campaign::from_env("journal");
    loop {
        let result = campaign(&mut reached, Bench::new);
        if let Err(broken) = result {
            panic!("{broken}\n{reached}");
        }
        // On a busy machine the first slice of time may not come to every step.
        let missing: Vec<_> = STEPS.iter().filter(|step| !reached.labels().contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= 5000 {
            break;
        }
        assert!(
            reached.extend(Duration::from_secs(5)) < Duration::from_secs(60),
            "never cut at {missing:?}: {reached}"
        );
    }
    reached.report();
}

/// A disk that says yes to syncs and does nothing.
struct Liar {
    io: SimIo,
    files: bool,
    dirs: bool,
}

struct LyingFile(Arc<dyn File>, bool);

impl File for LyingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> std::io::Result<()> {
        if self.1 { Ok(()) } else { self.0.sync() }
    }
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.0.set_len(bytes)
    }
    fn allocate(&self, bytes: u64) -> std::io::Result<()> {
        self.0.allocate(bytes)
    }
    fn fill(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        self.0.fill(offset, bytes)
    }
    fn map(&self, bytes: u64, committed: u64, writable: bool) -> std::io::Result<Arc<Mapping>> {
        self.0.map(bytes, committed, writable)
    }
}

impl Io for Liar {
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn File>> {
        let mode = OpenMode { direct_sync: mode.direct_sync && !self.files, ..mode };
        Ok(Arc::new(LyingFile(self.io.open(path, mode)?, self.files)))
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.io.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> std::io::Result<()> {
        self.io.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.io.remove_dir_all(path)
    }
    fn create_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.io.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        self.io.read_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        if self.dirs { Ok(()) } else { self.io.sync_dir(path) }
    }
    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        self.io.exists(path)
    }
    fn try_lock(&self, path: &Path) -> std::io::Result<Option<Box<dyn Lock>>> {
        self.io.try_lock(path)
    }
    fn random_u64(&self) -> u64 {
        self.io.random_u64()
    }
}

fn caught(files: bool, dirs: bool) -> String {
    let mut reached = Campaign::new("liar", Duration::from_secs(20), 1);
    let bench = |sim: SimIo| Bench { io: Arc::new(Liar { io: sim.clone(), files, dirs }), sim };
    campaign(&mut reached, bench).expect_err("the campaign did not notice a disk that ignores syncs")
}

#[test]
fn the_campaign_catches_a_journal_whose_disk_ignores_syncs_of_files() {
    println!("{}", caught(true, false));
}

#[test]
fn the_campaign_catches_a_journal_whose_disk_ignores_syncs_of_names() {
    println!("{}", caught(false, true));
}
