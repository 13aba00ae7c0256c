//! Write amplification where there is room for one figure: by the kernel, which counts for all engines alike, with a star where the engine
//! says that it wrote more.
//!
//! The kernel takes back what was removed before it was written. At `os` the log of a merge tree goes when its memtable was flushed, and
//! the kernel may wait for half a minute before it writes a page: so a run of seconds shows an engine that logs every byte as one that
//! writes less than was put. Such a figure is true of that run and of no other, and never stands alone.

use crate::record::Record;
use crate::statistics::Spread;
use crate::summary::Row;
use crate::units::bytes;

/// A figure below so much of what the engine says has a star.
const STAR_BELOW: f64 = 0.95;

/// Write amplification, and what the engine says where that is more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waf {
    /// By the kernel; by the engine where the kernel does not tell.
    pub(crate) figure: f64,
    /// By the engine's own counters or its statistics, where the figure is more than 5 % below that.
    pub(crate) engine: Option<f64>,
}

/// A column of write amplification: what its phase is called behind a figure, and how it comes from a row.
pub(crate) type Column = (&'static str, fn(&Row) -> Option<Waf>);
/// Load and run, each paying for what was put in it.
pub(crate) const OF_PHASES: [Column; 2] = [(" in load", Waf::of_load), (" in run", Waf::of_run)];
/// Opening, load, run and closing together.
pub(crate) const OF_WHOLE: [Column; 1] = [("", Waf::of_whole)];

impl Waf {
    /// Of what the kernel and the engine say of the same run, or of the medians of the same runs.
    pub(crate) fn of(kernel: Option<f64>, engine: Option<f64>) -> Option<Self> {
        let figure = kernel.or(engine)?;
        Some(Self { figure, engine: engine.filter(|engine| figure < STAR_BELOW * engine) })
    }

    /// Of a row's runs from their beginning to their end.
    pub(crate) fn of_whole(row: &Row) -> Option<Self> {
        Self::of(row.waf, row.waf_by.engine)
    }

    /// Of a row's loading.
    pub(crate) fn of_load(row: &Row) -> Option<Self> {
        Self::median(row.told().filter_map(|record| {
            let told = record.amplification.as_ref()?;
            Some((told.waf_of_load(|ways| ways.process), told.load.as_ref()?.waf_by_engine()))
        }))
    }

    /// Of a row's run phase.
    pub(crate) fn of_run(row: &Row) -> Option<Self> {
        Self::of_runs(row.told())
    }

    /// Of the run phase of `records`.
    pub(crate) fn of_runs<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Self> {
        Self::median(records.filter_map(|record| {
            let told = record.amplification.as_ref()?;
            Some((record.waf_of_run(|ways| ways.process), told.run.waf_by_engine()))
        }))
    }

    /// Of runs, of each by the kernel and by the engine.
    fn median(runs: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<Self> {
        let (kernel, engine): (Vec<_>, Vec<_>) = runs.map(|(kernel, engine)| (kernel.or(engine), engine)).unzip();
        let median = |figures: Vec<Option<f64>>| Spread::of(figures.into_iter().flatten()).map(|spread| spread.median);
        Self::of(median(kernel), median(engine))
    }

    /// What stands behind the figure.
    pub(crate) fn star(self) -> &'static str {
        if self.engine.is_some() { "*" } else { "" }
    }

    /// `1.15`, or `0.16*`.
    pub(crate) fn text(self) -> String {
        format!("{:.2}{}", self.figure, self.star())
    }
}

/// What the stars in `columns` say, for people; `None` where there is no star.
pub(crate) fn note(rows: &[Row], columns: &[Column]) -> Option<String> {
    let said = |row: &Row| {
        let figures = columns.iter().filter_map(|(phase, of)| Some(format!("{:.2}{phase}", of(row)?.engine?)));
        let figures = figures.collect::<Vec<_>>().join(", ");
        let taken_back = taken_back(row).map_or(String::new(), |n| format!(", {} taken back", bytes(n)));
        (!figures.is_empty()).then(|| format!("{} {figures}{taken_back}", row.label))
    };
    let said: Vec<String> = rows.iter().filter_map(said).collect();
    (!said.is_empty()).then(|| star_says(&said))
}

/// What a star says where these have one, each with what the engine says.
pub(crate) fn star_says(figures: &[String]) -> String {
    format!(
        "* by its own word the engine wrote more: {}. The kernel takes back what is removed before it was written, as a log is after a \
         flush, and counts once what is written again before that.",
        figures.join("; ")
    )
}

/// Bytes that the kernel took back in load and run together (median).
fn taken_back(row: &Row) -> Option<f64> {
    let of = |record: &Record| {
        let told = record.amplification.as_ref()?;
        told.phases().map(|(_, phase)| phase.cancelled_write_bytes).sum::<Option<u64>>()
    };
    let median = Spread::of(row.told().filter_map(of).map(|n| n as f64))?.median;
    (median > 0.0).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amplification::{Amplification, PhaseFigures, Ways};
    use crate::record::tests::record;
    use crate::summary::tables;

    /// Fails if a figure that the kernel took bytes off stands alone, or if counters that agree to 5 % have a star.
    #[test]
    fn a_figure_well_below_what_the_engine_says_has_a_star() {
        let of = |kernel, engine| Waf::of(kernel, engine).map(Waf::text);
        assert_eq!(of(Some(0.16), Some(1.15)).as_deref(), Some("0.16*"));
        assert_eq!(of(Some(0.0), Some(1.15)).as_deref(), Some("0.00*"));
        assert_eq!(of(Some(0.96), Some(1.0)).as_deref(), Some("0.96"));
        assert_eq!(of(Some(3.0), Some(1.0)).as_deref(), Some("3.00"), "more is no matter of what was taken back");
        assert_eq!(of(None, Some(1.0)).as_deref(), Some("1.00"));
        assert_eq!((of(Some(0.5), None).as_deref(), of(None, None)), (Some("0.50"), None));
    }

    /// Fails if the engine's word is that of another phase than the figure, or if the note does not say what was taken back.
    #[test]
    fn the_note_has_what_the_engine_says_of_each_phase_and_what_was_taken_back() {
        let phase = |process, statistics, cancelled_write_bytes| PhaseFigures {
            write_bytes: Ways { process: Some(process), ..Ways::default() },
            waf: Ways { statistics: Some(statistics), ..Ways::default() },
            cancelled_write_bytes,
            logical_write_bytes: 1_000,
            ..PhaseFigures::default()
        };
        let with = |engine: &str, load, run| {
            let mut record = record(engine, "none", 1, 1_000.0);
            record.amplification = Some(Amplification { load: Some(load), run, ..Amplification::default() });
            record
        };
        let records = [
            with("rocksdb", phase(1_300, 1.31, Some(0)), phase(160, 1.15, Some(1_280_000))),
            with("leveldb", phase(500, 2.5, None), phase(2_000, 2.0, None)),
            with("log", phase(1_200, 1.19, Some(0)), phase(1_200, 1.19, Some(0))),
        ];
        let rows = &tables(&records)[0].rows;
        let figures = |of: fn(&Row) -> Option<Waf>| rows.iter().map(|row| of(row).unwrap().text()).collect::<Vec<_>>();
        assert_eq!(figures(Waf::of_load), ["1.30", "0.50*", "1.20"]);
        assert_eq!(figures(Waf::of_run), ["0.16*", "2.00", "1.20"]);
        let said = note(rows, &OF_PHASES).unwrap();
        assert!(said.contains(": rocksdb 1.15 in run, 1.28 MB taken back; leveldb 2.50 in load. The"), "{said}");
        assert_eq!(note(&rows[2..], &OF_PHASES), None);
    }
}
