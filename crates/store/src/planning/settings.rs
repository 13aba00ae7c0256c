//! How a store repartitions itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use biombo_engine::{Error, Result};
use biombo_planner::Rules;
use biombo_tracker::{Limits, Rates};

/// Whether the partitions of a store move by themselves to where the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repartition {
    /// They stay where they are until somebody moves them.
    #[default]
    Off,
    /// What is accessed is watched, and whenever so much time has passed it is asked whether a move would pay.
    Every(Duration),
}

/// The shortest and the longest time between two plans.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

impl Repartition {
    /// Every `interval`; `Invalid` unless it is from 100 ms to an hour.
    pub fn every(interval: Duration) -> Result<Self> {
        if interval < INTERVAL.0 || interval > INTERVAL.1 {
            return Err(Error::invalid(format!(
                "repartitioning every {interval:?} cannot be: give `off`, or 0.1s to 3600s, such as `1s`"
            )));
        }
        Ok(Self::Every(interval))
    }
}

impl fmt::Display for Repartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(interval) => write!(f, "{}s", interval.as_secs_f64()),
        }
    }
}

impl FromStr for Repartition {
    type Err = Error;

    /// `off`, or a time in seconds: `1s`, `0.5s`, `2`.
    ///
    /// ```
    /// # use biombo_store::Repartition;
    /// # use std::time::Duration;
    /// assert_eq!("0.5s".parse::<Repartition>()?, Repartition::Every(Duration::from_millis(500)));
    /// assert_eq!("off".parse::<Repartition>()?.to_string(), "off");
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
        let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let strange = || Error::invalid(format!("repartition `{text}` is neither `off` nor a time such as `1s`"));
        Self::every(interval.ok_or_else(strange)?)
    }
}

/// The planner of stores that name none.
pub(crate) const DEFAULT_PLANNER: &str = "ldg";

/// What a loop of planning goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) interval_ns: u64,
    pub(crate) rates: Rates,
    pub(crate) limits: Limits,
    pub(crate) rules: Rules,
    /// How long a plan is expected to serve.
    pub(crate) horizon_ns: f64,
    /// Bytes that one plan may move, however little that takes.
    pub(crate) budget_bytes: u64,
    /// How long a plan may move, by the rate that moves had lately: it is made of what was accessed before it began.
    pub(crate) plan_ns: u64,
    /// Bytes a second that a move copies, and cleans.
    pub(crate) bytes_per_second: u64,
    /// Keys that may be pinned at a time; once others have no room, those that nobody uses go home.
    pub(crate) pins_max: usize,
}

impl Settings {
    pub(crate) fn every(interval: Duration) -> Self {
        Self {
            interval_ns: interval.as_nanos() as u64,
            // Groups are sampled often: a pair counts once it was seen more than once, and each has many.
            rates: Rates { singles: 64, groups: 2, ring_bytes: 128 << 10, thinned_max: 256 },
            limits: Limits { half_life_ns: 3_000_000_000, keys_max: 1 << 16, ..Limits::default() },
            rules: Rules { saving_share_min: 0.01, ..Rules::default() },
            horizon_ns: 10e9,
            budget_bytes: 64 << 20,
            plan_ns: 2_000_000_000,
            bytes_per_second: 64 << 20,
            pins_max: 100_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_nonsense_is_refused_with_a_hint() {
        for text in ["off", "1s", "0.25s", "3600s"] {
            assert_eq!(text.parse::<Repartition>().expect(text).to_string(), text);
        }
        assert_eq!("2".parse::<Repartition>().expect("seconds").to_string(), "2s");
        for text in ["", "on", "s", "-1s", "0", "0.01s", "1e9s", "NaN", "inf", "1e300"] {
            let error = text.parse::<Repartition>().expect_err(text).to_string();
            assert!(error.contains("such as `1s`"), "{text}: {error}");
        }
    }
}
