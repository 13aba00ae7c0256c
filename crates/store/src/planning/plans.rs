//! What plans were made, and what became of them: kept in memory, and in the file `PLANS` of the store's directory for who asks later.
//!
//! Bounded: the last [`LAST`] plans that moved something, and counts of all others by the reason. The file is small, replaced as a whole, and
//! nobody depends on it: one that is damaged is told of and begun anew. Format: `docs/format/store.md`.

use std::path::Path;

use biombo_base::io::{Io, RealIo};
use biombo_engine::{Error, ErrorKind, Result};
use biombo_planner::Verdict;
use serde::{Deserialize, Serialize};

use crate::manifest::{self, MANIFEST};

pub(crate) const PLANS: &str = "PLANS";
const TITLE: &str = "# Plans of a Biombo store: why units moved, what was predicted, what came. For reading.\n";
const FORMAT: u32 = 1;
/// Plans that are kept.
pub(crate) const LAST: usize = 64;

/// What a plan moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Single keys, to where they are accessed with others, or away from where too much is done.
    Keys,
    /// Slots or ranges.
    Units,
    /// Keys that nobody accesses any more, back to their slots.
    Home,
}

impl Level {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Units => "units",
            Self::Home => "home",
        }
    }
}

/// A plan that was carried out, or begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanReport {
    /// From 1, for all plans that the store has carried out.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Nanoseconds of the process's own clock at that time; only means something while it runs.
    #[serde(skip)]
    pub at_ns: u64,
    /// Who made it.
    pub planner: String,
    /// What it moved.
    pub level: Level,
    /// Why, in words.
    pub why: String,
    /// Units, or single keys, that have another owner now.
    pub units: u64,
    /// Keys that were copied.
    pub keys: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Pairs of partitions that units moved between.
    pub ways: u64,
    /// The share of the weight of all ties that lay between partitions, before.
    pub cut_before: f64,
    /// And after, as predicted.
    pub cut_after: f64,
    /// The load of the heaviest partition over the average, before.
    pub balance_before: f64,
    /// And after, as predicted.
    pub balance_after: f64,
    /// Work of the foreground that was predicted to be saved, in nanoseconds a second.
    pub predicted_ns_per_s: f64,
    /// What was observed in the time after; `None`: not judged yet.
    pub obtained_ns_per_s: Option<f64>,
    /// How long it took to make it: to look at what is accessed, and for the planner.
    #[serde(default)]
    pub planning_ns: u64,
    /// How long it took to carry it out: rests included, and waits for somebody else who moved units meanwhile.
    #[serde(default)]
    pub took_ns: u64,
    /// What moving was predicted to cost.
    pub predicted_cost_ns: u64,
    /// What it cost: neither its rests nor those waits.
    pub cost_ns: u64,
    /// Whether it gave at least half of what was promised; `None`: not judged yet.
    pub kept: Option<bool>,
    /// Whether it moved a part of a plan to learn what the rest would be worth; such are not judged.
    #[serde(default)]
    pub probe: bool,
    /// Why it was given up, if it was.
    pub error: Option<String>,
}

/// Plans that were not carried out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The last of them, in milliseconds since 1970.
    pub last_unix_ms: u64,
}

/// What became of the plans of a store since it was created, and the last ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plans {
    /// Plans that were made.
    pub made: u64,
    /// Those of them that were carried out.
    pub carried_out: u64,
    /// Those that were begun and given up.
    pub given_up: u64,
    /// What looking for plans has cost, those included that were not begun: nanoseconds of the store's own thread.
    #[serde(default)]
    pub planning_ns: u64,
    /// What taking in cost that which operations leave behind, in nanoseconds of the same thread.
    #[serde(default)]
    pub watching_ns: u64,
    /// What went wrong last, in planning or in moving.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
    /// Those that were not begun, by reason.
    #[serde(rename = "refused", default)]
    pub refused: Vec<Refused>,
    /// The last ones that were begun, in order.
    #[serde(rename = "plans", default)]
    pub last: Vec<PlanReport>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    format: u32,
    #[serde(flatten)]
    plans: Plans,
}

/// A verdict in words; `None`: it goes.
pub(crate) fn reason(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Go => None,
        Verdict::NothingToMove => Some("nothing to move"),
        Verdict::OneAtATime => Some("another plan is on trial"),
        Verdict::Resting { .. } => Some("resting after plans that disappointed"),
        Verdict::TooLittle => Some("it would save too little to tell from noise"),
        Verdict::NotWorthIt => Some("it would not save what it costs"),
        Verdict::NoCredit => Some("it costs more than plans have earned"),
    }
}

impl Plans {
    pub(crate) fn refuse(&mut self, reason: &str, unix_ms: u64) {
        match self.refused.iter_mut().find(|refused| refused.reason == reason) {
            Some(refused) => {
                refused.count += 1;
                refused.last_unix_ms = unix_ms;
            }
            None => self.refused.push(Refused { reason: reason.to_owned(), count: 1, last_unix_ms: unix_ms }),
        }
    }

    pub(crate) fn push(&mut self, report: PlanReport) {
        match &report.error {
            None => self.carried_out += 1,
            Some(error) => {
                self.given_up += 1;
                self.last_error = Some(error.clone());
            }
        }
        self.last.push(report);
        self.last.drain(..self.last.len().saturating_sub(LAST));
    }

    /// What planning and watching cost together.
    pub(crate) fn spent_ns(&self) -> u64 {
        self.planning_ns + self.watching_ns
    }

    /// How many were not begun.
    pub(crate) fn refused_count(&self) -> u64 {
        self.refused.iter().map(|refused| refused.count).sum()
    }

    /// The number of the next plan.
    pub(crate) fn next_number(&self) -> u64 {
        self.carried_out + self.given_up + 1
    }

    fn encode(&self) -> Result<String> {
        let written = Written { format: FORMAT, plans: self.clone() };
        let fields = toml::to_string(&written).map_err(|e| Error::invalid(format!("cannot write the plans: {e}")))?;
        Ok(manifest::seal(format!("{TITLE}{fields}")))
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let body = manifest::unseal(path, bytes)?;
        let strange =
            |what: &str| Error::unsupported(format!("{}: {what} (written by another version?)", path.display()));
        let table: toml::Table = body.parse().map_err(|_| strange("it is not TOML"))?;
        if table.get("format").and_then(toml::Value::as_integer) != Some(i64::from(FORMAT)) {
            return Err(strange("its format is not known"));
        }
        let written: Written = table.try_into().map_err(|e: toml::de::Error| strange(e.message()))?;
        Ok(written.plans)
    }

    /// What `dir` has; nothing where no plan was ever written.
    pub(crate) fn load(io: &dyn Io, dir: &Path) -> Result<Self> {
        let path = dir.join(PLANS);
        let refused = |e| Error::io(format_args!("read {}", path.display()), e);
        if !io.exists(&path).map_err(refused)? {
            return Ok(Self::default());
        }
        Self::decode(&path, &manifest::read_file(io, &path)?)
    }

    pub(crate) fn save(&self, io: &dyn Io, dir: &Path) -> Result<()> {
        manifest::replace_file(io, dir, PLANS, self.encode()?.as_bytes())
    }

    /// The plans of the store in `dir`, which may be open in another process: what was written when its last plan ended. None where
    /// it never repartitioned itself.
    ///
    /// # Errors
    /// `NotFound` where there is no store, `Corruption` and `Unsupported` for a file that is damaged or of another version, `Io`.
    pub fn of(dir: impl AsRef<Path>) -> Result<Self> {
        let (io, dir) = (RealIo::new(), dir.as_ref());
        let has_store =
            io.exists(&dir.join(MANIFEST)).map_err(|e| Error::io(format_args!("open {}", dir.display()), e))?;
        if !has_store {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no store in {}", dir.display())));
        }
        Self::load(&io, dir)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use biombo_base::io::sim::{Crash, SimIo};

    use super::*;

    pub(crate) fn report(number: u64) -> PlanReport {
        PlanReport {
            number,
            at_unix_ms: 1_795_000_000_000 + number,
            at_ns: 0,
            planner: "ldg".into(),
            level: Level::Keys,
            why: "5 % of the time goes into batches that lie apart".into(),
            units: 10,
            keys: 9,
            bytes: 9_000,
            ways: 7,
            cut_before: 0.875,
            cut_after: 0.0,
            balance_before: 1.25,
            balance_after: 1.0,
            predicted_ns_per_s: 5e7,
            obtained_ns_per_s: Some(4e7),
            planning_ns: 3_000_000,
            took_ns: 80_000_000,
            predicted_cost_ns: 1_000_000,
            cost_ns: 2_000_000,
            kept: Some(true),
            probe: false,
            error: None,
        }
    }

    #[test]
    fn plans_come_back_from_their_file_and_the_oldest_go() {
        let io = SimIo::new(1);
        let dir = Path::new("db");
        io.create_dir_all(dir).expect("a directory");
        assert_eq!(Plans::load(&io, dir).expect("none"), Plans::default());
        let mut plans = Plans { planning_ns: 7, watching_ns: 8, ..Plans::default() };
        for _ in 0..LAST as u64 + 5 {
            plans.push(report(plans.next_number()));
        }
        plans.push(PlanReport { error: Some("no room".into()), obtained_ns_per_s: None, kept: None, ..report(70) });
        plans.refuse("noise", 5);
        plans.refuse("noise", 6);
        assert_eq!((plans.carried_out, plans.given_up, plans.last.len(), plans.last[0].number), (69, 1, LAST, 7));
        assert_eq!(plans.refused, [Refused { reason: "noise".into(), count: 2, last_unix_ms: 6 }]);
        plans.save(&io, dir).expect("save");
        assert_eq!(Plans::load(&io, dir).expect("load"), plans);
    }

    #[test]
    fn a_damaged_file_is_refused_wherever_it_is_damaged() {
        let mut plans = Plans::default();
        plans.push(report(1));
        let (path, text) = (Path::new(PLANS), plans.encode().expect("encodes").into_bytes());
        assert_eq!(Plans::decode(path, &text).expect("decodes"), plans);
        for at in 0..text.len() {
            assert!(Plans::decode(path, &text[..at]).is_err(), "cut at {at}");
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(Plans::decode(path, &changed).is_err(), "changed at {at}");
        }
        let newer = manifest::seal(format!("{TITLE}format = 2\nmade = 0\ncarried_out = 0\ngiven_up = 0\n"));
        assert_eq!(Plans::decode(path, newer.as_bytes()).expect_err("newer").kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_crash_leaves_the_file_before_or_the_one_after() {
        let io = SimIo::new(3);
        let dir = Path::new("db");
        crate::open::create_dir(&io, dir).expect("a directory");
        let mut states = vec![(0, Plans::default())];
        let mut plans = Plans::default();
        for number in 1..4 {
            plans.push(report(number));
            plans.save(&io, dir).expect("save");
            states.push((io.event_count(), plans.clone()));
        }
        let mut points = io.crash_points();
        loop {
            let done = states.partition_point(|(at, _)| *at <= points.cut());
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(points.cut() as u64)] {
                let image = points.image(crash);
                let what = format!("cut {} ({}), {crash:?}", points.cut(), points.label());
                let found = Plans::load(&image, dir).unwrap_or_else(|e| panic!("{what}: {e}"));
                let mut allowed = states[done.saturating_sub(1)..].iter().take(2);
                assert!(allowed.any(|(_, state)| *state == found), "{what}: {} plans", found.last.len());
            }
            if !points.advance() {
                return;
            }
        }
    }
}
