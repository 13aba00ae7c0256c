//! Periods, and the moments at which something happened in a run.

use serde::{Deserialize, Serialize};

use super::{Shift, ShiftKind};

/// The period that a moment lies in, from 0; a period of 0 ns never ends.
#[inline]
pub fn period_at(period_ns: u64, at_ns: u64) -> u64 {
    at_ns.checked_div(period_ns).unwrap_or(0)
}

/// Whether a crowd is there: in the second half of every period, and always where there are no periods.
#[inline]
pub fn is_crowded(period_ns: u64, at_ns: u64) -> bool {
    period_ns == 0 || at_ns % period_ns >= period_ns / 2
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// The workload shifted.
    Shift,
    /// A plan was made.
    Plan,
    /// Units began to move, or had moved.
    Move,
}

impl MarkKind {
    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shift => "shift",
            Self::Plan => "plan",
            Self::Move => "move",
        }
    }
}

/// Something that happened at a moment of a run phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Seconds since the phase began.
    pub at_seconds: f64,
    /// What.
    pub kind: MarkKind,
    /// More about it, for people.
    pub text: String,
}

/// Marks of one run, the most.
pub const MARKS_MAX: usize = 1_000;

impl Shift {
    /// The shifts of a run phase of `seconds` that are known before; the adversary's are not.
    pub fn marks(&self, seconds: f64) -> Vec<Mark> {
        let period = self.period_ns() as f64 / 1e9;
        if period == 0.0 || self.kind == ShiftKind::Adversary {
            return Vec::new();
        }
        let mark = |at_seconds: f64, text: &str| Mark { at_seconds, kind: MarkKind::Shift, text: text.to_owned() };
        let moments = |first: f64, text: &'static str| {
            (0..MARKS_MAX)
                .map(move |i| mark(first + i as f64 * period, text))
                .take_while(|mark| mark.at_seconds < seconds)
        };
        let mut marks: Vec<Mark> = match self.kind {
            ShiftKind::Crowd => {
                moments(period / 2.0, "a crowd comes").chain(moments(period, "the crowd leaves")).collect()
            }
            ShiftKind::Groups => moments(period, "the groups change").collect(),
            ShiftKind::Rotate => moments(period, "the hot range moves on").collect(),
            _ => moments(period, "the hot set jumps").collect(),
        };
        marks.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        marks.truncate(MARKS_MAX);
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_at_its_first_nanosecond() {
        let at: Vec<_> = [0, 99, 100, 199, 200, 1_000].into_iter().map(|ns| period_at(100, ns)).collect();
        assert_eq!(at, [0, 0, 1, 1, 2, 10]);
        assert_eq!(period_at(0, u64::MAX), 0, "no period ever ends");
        let crowded: Vec<_> = [0, 49, 50, 99, 100, 149, 150].into_iter().map(|ns| is_crowded(100, ns)).collect();
        assert_eq!(crowded, [false, false, true, true, false, false, true]);
        assert!(is_crowded(0, 0));
    }

    #[test]
    fn marks_stand_where_the_workload_shifts() {
        let of = |kind: ShiftKind, period_seconds, seconds| {
            let marks = Shift { period_seconds, ..kind.into() }.marks(seconds);
            marks.into_iter().map(|mark| (mark.at_seconds, mark.text)).collect::<Vec<_>>()
        };
        let times = |marks: Vec<(f64, String)>| marks.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(times(of(ShiftKind::Jump, 2.0, 7.0)), [2.0, 4.0, 6.0]);
        assert_eq!(times(of(ShiftKind::Groups, 2.0, 2.0)), [0.0; 0], "the run ends where the period does");
        let crowds = of(ShiftKind::Crowd, 2.0, 4.5);
        assert_eq!(times(crowds.clone()), [1.0, 2.0, 3.0, 4.0]);
        assert!(crowds[0].1.contains("comes") && crowds[1].1.contains("leaves"));
        for (kind, period) in [(ShiftKind::Jump, 0.0), (ShiftKind::Slot, 1.0), (ShiftKind::Adversary, 1.0)] {
            assert_eq!(of(kind, period, 100.0), [], "{kind}");
        }
        assert_eq!(of(ShiftKind::Jump, 0.01, 1e6).len(), MARKS_MAX);
    }
}
