//! Counting what a crash campaign reached, within a slice of time.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use super::SimIo;

/// A crash campaign: how long it may run, and what it has reached.
///
/// `BIOMBO_CAMPAIGN_SECONDS` sets its time (10 without it), `BIOMBO_CAMPAIGN_SEED` where it begins (1 without it).
/// `BIOMBO_CAMPAIGN_IMAGES` lets it run until it has seen so many different images, however long that takes.
#[derive(Debug)]
pub struct Campaign {
    name: String,
    end: Instant,
    extended: Duration,
    first_seed: u64,
    images_wanted: Option<u64>,
    seeds: u64,
    states: u64,
    images: HashSet<u64>,
    labels: BTreeMap<String, u64>,
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

impl Campaign {
    /// One that gets its time and seed from the environment.
    pub fn from_env(name: &str) -> Self {
        let seconds = number_from("BIOMBO_CAMPAIGN_SECONDS").unwrap_or(10);
        let seed = number_from("BIOMBO_CAMPAIGN_SEED").unwrap_or(1);
        let images_wanted = number_from("BIOMBO_CAMPAIGN_IMAGES");
        Self { images_wanted, ..Self::new(name, Duration::from_secs(seconds), seed) }
    }

    /// One that runs for `time` from now on, beginning with `seed`.
    pub fn new(name: &str, time: Duration, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            end: Instant::now() + time,
            extended: Duration::ZERO,
            first_seed: seed,
            images_wanted: None,
            seeds: 0,
            states: 0,
            images: HashSet::new(),
            labels: BTreeMap::new(),
        }
    }

    /// The seed of the next scenario, or `None` when the time is over. The first is always given.
    pub fn next_seed(&mut self) -> Option<u64> {
        if self.seeds > 0 && self.is_over() {
            return None;
        }
        self.seeds += 1;
        Some(self.first_seed + self.seeds - 1)
    }

    /// Give it `more` time from now on, because it has not come to something yet. Returns how often that was done, as the
    /// time together.
    pub fn extend(&mut self, more: Duration) -> Duration {
        self.end = Instant::now() + more;
        if let Some(wanted) = &mut self.images_wanted {
            *wanted = (*wanted).max(self.images.len() as u64 + 1000);
        }
        self.extended += more;
        self.extended
    }

    /// Whether the time is over, or as many images were seen as were asked for.
    pub fn is_over(&self) -> bool {
        match self.images_wanted {
            Some(wanted) => self.images.len() as u64 >= wanted,
            None => Instant::now() >= self.end,
        }
    }

    /// Count a crash state: the label of the event that was cut and the image that is left. True when the image is new.
    pub fn count(&mut self, label: &str, image: &SimIo) -> bool {
        self.states += 1;
        match self.labels.get_mut(label) {
            Some(count) => *count += 1,
            None => drop(self.labels.insert(label.to_owned(), 1)),
        }
        self.images.insert(image.image_hash())
    }

    /// Different images so far.
    pub fn distinct_images(&self) -> usize {
        self.images.len()
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

    /// How often an event of each label was cut.
    pub fn labels(&self) -> &BTreeMap<String, u64> {
        &self.labels
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, seeds, first_seed, .. } = self;
        write!(f, "campaign {name}: {states} crash states, {} distinct images, ", self.images.len())?;
        write!(f, "seeds {first_seed} to {}, cut at:", first_seed + seeds.saturating_sub(1))?;
        for (label, count) in &self.labels {
            write!(f, "\n  {count:7}  {label}")?;
        }
        Ok(())
    }
}
