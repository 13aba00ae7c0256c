//! Counting what a crash campaign reached, within a slice of time.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SimIo;

/// A crash campaign: how long it may run, and what it has reached. Several threads may share it.
///
/// `BIOMBO_CAMPAIGN_SECONDS` sets its time (10 without it), `BIOMBO_CAMPAIGN_SEED` where it begins (1 without it).
/// `BIOMBO_CAMPAIGN_IMAGES` lets it run until it has seen so many different images, however long that takes.
#[derive(Debug)]
pub struct Campaign {
    name: String,
    begun: Instant,
    first_seed: u64,
    reached: Mutex<Reached>,
}

#[derive(Debug)]
struct Reached {
    end: Instant,
    extended: Duration,
    images_wanted: Option<u64>,
    seeds: u64,
    states: u64,
    images: HashSet<u64>,
    labels: BTreeMap<String, u64>,
}

impl Reached {
    fn is_over(&self) -> bool {
        match self.images_wanted {
            Some(wanted) => self.images.len() as u64 >= wanted,
            None => Instant::now() >= self.end,
        }
    }

    fn count(&mut self, label: &str) {
        match self.labels.get_mut(label) {
            Some(count) => *count += 1,
            None => drop(self.labels.insert(label.to_owned(), 1)),
        }
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

impl Campaign {
    /// One that gets its time and seed from the environment.
    pub fn from_env(name: &str) -> Self {
        let seconds = number_from("BIOMBO_CAMPAIGN_SECONDS").unwrap_or(10);
        let seed = number_from("BIOMBO_CAMPAIGN_SEED").unwrap_or(1);
        let campaign = Self::new(name, Duration::from_secs(seconds), seed);
        campaign.lock().images_wanted = number_from("BIOMBO_CAMPAIGN_IMAGES");
        campaign
    }

    /// One that runs for `time` from now on, beginning with `seed`.
    pub fn new(name: &str, time: Duration, seed: u64) -> Self {
        let begun = Instant::now();
        let reached = Reached {
            end: begun + time,
            extended: Duration::ZERO,
            images_wanted: None,
            seeds: 0,
            states: 0,
            images: HashSet::new(),
            labels: BTreeMap::new(),
        };
        Self { name: name.to_owned(), begun, first_seed: seed, reached: Mutex::new(reached) }
    }

    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seed of the next scenario, or `None` when the time is over. The first is always given.
    pub fn next_seed(&self) -> Option<u64> {
        let mut reached = self.lock();
        if reached.seeds > 0 && reached.is_over() {
            return None;
        }
        reached.seeds += 1;
        Some(self.first_seed + reached.seeds - 1)
    }

    /// Run `scenario` for one seed after the other until the time is over, on as many threads as there are processors. A panic
    /// of one of them is that of the caller, after the others have come to the end of their scenario.
    pub fn run_on_all_processors(&self, scenario: impl Fn(u64) + Sync) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(seed) = self.next_seed() {
                        scenario(seed);
                    }
                });
            }
        });
    }

    /// Give it `more` time from now on, because it has not come to something yet. Returns how often that was done, as the
    /// time together.
    pub fn extend(&self, more: Duration) -> Duration {
        let mut reached = self.lock();
        reached.end = Instant::now() + more;
        let images = reached.images.len() as u64;
        if let Some(wanted) = &mut reached.images_wanted {
            *wanted = (*wanted).max(images + 1000);
        }
        reached.extended += more;
        reached.extended
    }

    /// Whether the time is over, or as many images were seen as were asked for.
    pub fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Count a crash state: the label of the event that was cut and the image that is left. True when the image is new.
    pub fn count(&self, label: &str, image: &SimIo) -> bool {
        self.count_image(label, image.image_hash())
    }

    /// The same of an image that is no simulated disk's, by its hash.
    pub fn count_image(&self, label: &str, hash: u64) -> bool {
        let mut reached = self.lock();
        reached.states += 1;
        reached.count(label);
        reached.images.insert(hash)
    }

    /// Count that a step of the program was cut too, by the name that its test has for it.
    pub fn count_step(&self, name: &str) {
        self.lock().count(name);
    }

    /// Different images so far.
    pub fn distinct_images(&self) -> usize {
        self.lock().images.len()
    }

    /// Print what was reached; and where `BIOMBO_CAMPAIGN_REPORTS` names a directory, write it there too, because a test that
    /// passes is not heard.
    pub fn report(&self) {
        println!("{self}");
        let Some(dir) = std::env::var_os("BIOMBO_CAMPAIGN_REPORTS") else { return };
        let file = std::path::Path::new(&dir).join(format!("{}.txt", self.name.replace([' ', ',', '/'], "-")));
        if let Err(error) = std::fs::write(&file, format!("{self}\n")) {
            println!("cannot write {}: {error}", file.display());
        }
    }

    /// How often an event of each label was cut, and each step.
    pub fn labels(&self) -> BTreeMap<String, u64> {
        self.lock().labels.clone()
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, first_seed, .. } = self;
        let reached = self.lock();
        let Reached { states, seeds, images, labels, .. } = &*reached;
        let seconds = self.begun.elapsed().as_secs_f64();
        write!(f, "campaign {name}: {states} crash states, {} distinct images in {seconds:.1} s ", images.len())?;
        write!(f, "(images differ in a name or in a byte of a file), ")?;
        write!(f, "seeds {first_seed} to {}, cut at:", first_seed + seeds.saturating_sub(1))?;
        for (label, count) in labels {
            write!(f, "\n  {count:7}  {label}")?;
        }
        Ok(())
    }
}
