//! A shifting workload with its parameters.

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::ShiftKind;
use crate::workload::{KeyFormat, OpKind};

/// A shifting workload with all that defines it but the sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// What shifts.
    pub kind: ShiftKind,
    /// Seconds from one shift to the next; 0: never.
    pub period_seconds: f64,
    /// How many records are hot; `None`: a hundredth of all, of the adversary's 100.
    pub hot_records: Option<u64>,
    /// The share of the operations that go to them.
    pub share: f64,
    /// Records of a group; of `worker` those of one partition that are written or read at once, 1: each for itself.
    pub group: u32,
    /// The share of the operations that read.
    pub reads: f64,
    /// Of how many partitions the kind `partition` fills one, and the kind `worker` every second.
    pub partitions: u32,
}

/// The most records of a group.
const GROUP_MAX: u32 = 1_000;
/// The shortest period.
const PERIOD_SECONDS_MIN: f64 = 0.01;
/// The adversary's hot records, where nobody says it: few enough that asking for them is done between two operations.
const ADVERSARY_RECORDS: u64 = 100;

impl From<ShiftKind> for Shift {
    /// With the defaults of its kind.
    fn from(kind: ShiftKind) -> Self {
        let share = match kind {
            ShiftKind::Crowd => 0.5,
            ShiftKind::Slot | ShiftKind::Partition | ShiftKind::Worker | ShiftKind::Monotonic => 1.0,
            _ => 0.9,
        };
        let reads = if kind == ShiftKind::Monotonic { 0.0 } else { 0.5 };
        let group = if kind == ShiftKind::Worker { 1 } else { 10 };
        Self { kind, period_seconds: 5.0, hot_records: None, share, group, reads, partitions: 8 }
    }
}

impl Shift {
    /// How many of `records` are hot.
    pub fn hot(&self, records: u64) -> u64 {
        let default = if self.kind == ShiftKind::Adversary { ADVERSARY_RECORDS } else { records / 100 };
        let least = self.records_per_write();
        match self.kind {
            ShiftKind::Crowd => 1,
            _ => self.hot_records.unwrap_or(default).max(least).min(records.max(1)),
        }
    }

    /// The period in nanoseconds; 0: never.
    pub fn period_ns(&self) -> u64 {
        if self.kind.has_periods() { (self.period_seconds * 1e9) as u64 } else { 0 }
    }

    /// Itself without what its kind has no use for: two that do the same are equal.
    #[must_use]
    pub fn effective(self) -> Self {
        let Self { kind, period_seconds, hot_records, share, group, reads, partitions } = self;
        Self {
            kind,
            period_seconds: if kind.has_periods() { period_seconds } else { 0.0 },
            hot_records: hot_records.filter(|_| kind.has_hot_records()),
            share: if kind.has_hot_share() { share } else { 1.0 },
            group: if kind.has_groups() { group } else { 0 },
            reads,
            partitions: if kind.has_partitions() { partitions } else { 0 },
        }
    }

    /// How it reads, and how it writes.
    pub fn kinds(&self) -> (OpKind, OpKind) {
        match self.kind {
            _ if self.is_grouped() => (OpKind::MultiGet, OpKind::Batch),
            ShiftKind::Monotonic => (OpKind::Read, OpKind::Insert),
            _ => (OpKind::Read, OpKind::Update),
        }
    }

    /// The share of `kind` in what the clients do.
    pub fn share_of(&self, kind: OpKind) -> f64 {
        let (read, write) = self.kinds();
        match kind {
            kind if kind == read => self.reads,
            kind if kind == write => 1.0 - self.reads,
            _ => 0.0,
        }
    }

    /// Records that one write puts.
    pub fn records_per_write(&self) -> u64 {
        if self.is_grouped() { u64::from(self.group) } else { 1 }
    }

    /// Whether an operation is for a group of records.
    pub fn is_grouped(&self) -> bool {
        self.kind == ShiftKind::Groups || self.kind == ShiftKind::Worker && self.group > 1
    }

    /// How keys are written: in the order of the numbers where neighbours matter.
    pub fn key_format(&self) -> KeyFormat {
        match self.kind {
            ShiftKind::Rotate | ShiftKind::Monotonic => KeyFormat::Decimal,
            _ => KeyFormat::Hashed,
        }
    }

    /// Refuse what means nothing over `records` records: `Invalid`, naming the option.
    pub fn check(&self, records: u64) -> Result<()> {
        let require = |ok: bool, what: String| if ok { Ok(()) } else { Err(Error::invalid(what)) };
        let period = self.period_seconds;
        require(
            period == 0.0 || (PERIOD_SECONDS_MIN..=1e6).contains(&period),
            format!("--period must be 0 (never) or {PERIOD_SECONDS_MIN} to 1000000 seconds"),
        )?;
        require((0.0..=1.0).contains(&self.share), "--hot-share must be 0 to 1".to_owned())?;
        require((0.0..=1.0).contains(&self.reads), "--reads must be 0 to 1".to_owned())?;
        require(
            self.hot_records.is_none_or(|hot| (1..=records).contains(&hot)),
            format!("--hot-records must be 1 to the {records} of --records"),
        )?;
        if self.kind == ShiftKind::Groups {
            require((2..=GROUP_MAX).contains(&self.group), format!("--group must be 2 to {GROUP_MAX}"))?;
            let least = self.hot_records.unwrap_or(records).min(records);
            require(
                u64::from(self.group) <= least,
                format!("--group {} is more than the {least} records that there are to group", self.group),
            )?;
        }
        require(self.partitions >= 1, "--partitions must be at least 1".to_owned())?;
        if self.kind == ShiftKind::Worker {
            let (group, hot) = (self.group, self.hot(records));
            require((1..=GROUP_MAX).contains(&group), format!("--group must be 1 to {GROUP_MAX}"))?;
            // Some partition then has a whole group.
            let least = u64::from(group) * u64::from(self.partitions);
            require(
                group == 1 || least <= hot,
                format!(
                    "--group {group} in each of {} partitions takes {least} --hot-records; there are {hot}",
                    self.partitions
                ),
            )?;
            require(
                group == 1 || self.share == 1.0,
                "--group of worker is for hot records alone: leave out --hot-share, or --group".to_owned(),
            )?;
        }
        Ok(())
    }

    /// What it does over `records` records, in a sentence for people.
    pub fn describe(&self, records: u64) -> String {
        let hot = self.hot(records);
        let percent = |share: f64| format!("{} %", (share * 1_000.0).round() / 10.0);
        let (share, reads, period) = (percent(self.share), percent(self.reads), self.period_seconds);
        let every = if period == 0.0 { ", for ever".to_owned() } else { format!(", others every {period} s") };
        let rest = if self.share < 1.0 { ", the rest to all others" } else { "" };
        let read = format!("{reads} of the operations read");
        // Of whole groups.
        let both = if self.reads == 0.0 {
            "atomic batches".to_owned()
        } else if self.reads == 1.0 {
            "multi-gets".to_owned()
        } else {
            format!("multi-gets ({reads}) and atomic batches")
        };
        match self.kind {
            ShiftKind::Jump => format!("{share} of the operations go to {hot} hot records{every}{rest}; {read}"),
            ShiftKind::Rotate if period == 0.0 => {
                format!("{share} of the operations go to a range of {hot} neighbouring keys{rest}; {read}")
            }
            ShiftKind::Rotate => format!(
                "{share} of the operations go to a range of {hot} neighbouring keys, which moves on by its length every \
                 {period} s{rest}; {read}"
            ),
            ShiftKind::Groups => format!(
                "{both} of whole groups of {} records; {share} of the operations go to {} hot \
                 groups{every}{rest}",
                self.group,
                hot / u64::from(self.group)
            ),
            ShiftKind::Crowd if period == 0.0 => {
                format!("{share} of the operations go to one record, the rest to all; {read}")
            }
            ShiftKind::Crowd => format!(
                "all records equally likely, but in the second half of every {period} s {share} of the operations go to one \
                 record, another one each time; {read}"
            ),
            ShiftKind::Monotonic => {
                format!("inserts in the order of keys; {reads} of the operations read, the latest records most")
            }
            ShiftKind::Slot => {
                format!("{share} of the operations go to the records of one hash slot (at most {hot}){rest}; {read}")
            }
            ShiftKind::Partition => format!(
                "{share} of the operations go to records of one of {} partitions (at most {hot}){rest}; {read}",
                self.partitions
            ),
            ShiftKind::Worker if self.is_grouped() => format!(
                "{both} of {} records that lie together, in every second of {} partitions (at most {hot} records)",
                self.group, self.partitions
            ),
            ShiftKind::Worker => format!(
                "{share} of the operations go to records of every second of {} partitions (at most {hot}){rest}; {read}",
                self.partitions
            ),
            ShiftKind::Adversary if period == 0.0 => {
                format!("{share} of the operations go to {hot} records of one partition, for ever{rest}; {read}")
            }
            ShiftKind::Adversary => format!(
                "{share} of the operations go to {hot} records of one partition, every {period} s of the one that is calm \
                 then{rest}; {read}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_names_are_their_own() {
        for kind in ShiftKind::ALL {
            let shift = Shift { reads: 0.3, ..kind.into() };
            let sum: f64 = OpKind::ALL.iter().map(|op| shift.share_of(*op)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{kind}");
            assert_eq!(kind.name().parse::<ShiftKind>().unwrap(), kind);
            assert!(Shift::from(kind).check(1_000).is_ok(), "{kind}");
            assert!(!Shift::from(kind).describe(1_000).is_empty());
        }
        for (reads, said) in
            [(0.0, "atomic batches"), (1.0, "multi-gets"), (0.25, "multi-gets (25 %) and atomic batches")]
        {
            let grouped = Shift { reads, ..ShiftKind::Groups.into() }.describe(1_000);
            assert!(grouped.starts_with(&format!("{said} of whole groups of ")), "{grouped}");
        }
        assert!("jmp".parse::<ShiftKind>().is_err_and(|e| e.to_string().contains("adversary")));
    }

    #[test]
    fn what_means_nothing_is_refused_by_its_option() {
        let refuse = |shift: Shift, word: &str| {
            let error = shift.check(1_000).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        };
        let (jump, groups) = (Shift::from(ShiftKind::Jump), Shift::from(ShiftKind::Groups));
        refuse(Shift { period_seconds: -1.0, ..jump }, "--period");
        refuse(Shift { period_seconds: f64::NAN, ..jump }, "--period");
        refuse(Shift { period_seconds: 0.001, ..jump }, "--period");
        refuse(Shift { share: 1.1, ..jump }, "--hot-share");
        refuse(Shift { reads: -0.1, ..jump }, "--reads");
        refuse(Shift { hot_records: Some(1_001), ..jump }, "--hot-records");
        refuse(Shift { hot_records: Some(0), ..jump }, "--hot-records");
        refuse(Shift { group: 1, ..groups }, "--group");
        refuse(Shift { hot_records: Some(9), ..groups }, "--group");
        let worker = Shift::from(ShiftKind::Worker);
        refuse(Shift { group: 0, ..worker }, "--group");
        refuse(Shift { group: 10, hot_records: Some(79), ..worker }, "--hot-records");
        refuse(Shift { group: 10, hot_records: Some(80), share: 0.9, ..worker }, "--hot-share");
        assert!(Shift { group: 10, hot_records: Some(80), ..worker }.check(1_000).is_ok());
        assert!(groups.check(9).is_err_and(|e| e.to_string().contains("--group")));
    }

    /// Fails if what a kind has no use for makes two of it that do the same differ, or if what it is made of is left out.
    #[test]
    fn what_a_kind_has_no_use_for_makes_no_other_load() {
        for kind in ShiftKind::ALL {
            let usual = Shift::from(kind);
            let others = [
                (kind.has_periods(), Shift { period_seconds: 7.0, ..usual }),
                (kind.has_groups(), Shift { group: 50, ..usual }),
                (kind.has_partitions(), Shift { partitions: 4, ..usual }),
                (kind.has_hot_records(), Shift { hot_records: Some(70), ..usual }),
                (kind.has_hot_share(), Shift { share: 0.25, ..usual }),
                (true, Shift { reads: 0.75, ..usual }),
            ];
            for (is_used, other) in others {
                assert_eq!(other.effective() != usual.effective(), is_used, "{other:?}");
                assert_eq!(other.describe(1_000), other.effective().describe(1_000), "{other:?}");
            }
        }
    }

    #[test]
    fn defaults_follow_the_kind() {
        let hot = |kind: ShiftKind, records| Shift::from(kind).hot(records);
        assert_eq!((hot(ShiftKind::Jump, 50_000), hot(ShiftKind::Jump, 7)), (500, 1));
        assert_eq!((hot(ShiftKind::Adversary, 50_000), hot(ShiftKind::Adversary, 7)), (100, 7));
        assert_eq!((hot(ShiftKind::Groups, 100), hot(ShiftKind::Crowd, 1_000_000)), (10, 1));
        assert_eq!(Shift::from(ShiftKind::Slot).period_ns(), 0, "nothing in it changes");
        assert_eq!(Shift::from(ShiftKind::Jump).period_ns(), 5_000_000_000);
    }
}
