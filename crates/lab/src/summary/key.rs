//! What tells a row from others: the settings that its runs have in common, beside those of their table.
//!
//! 1. Runs of two keys are never in one row, whatever they are called.
//! 2. A row is called by engine and layout; of its other settings those are said in which another row of that name differs, and no others.
//!    So no two rows of a table are called the same.
//! 3. The bound on space is what the engine says that it was opened with ([`Record::engine_options`]): the option where it was given, the
//!    engine's own where it was not. Of an engine that has no such bound there is nothing to be told apart.

use crate::record::Record;
use crate::units::plural;

/// The option by which an engine tells its bound on space.
const SPACE: &str = "space_amplification";

/// The settings of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Engine and layout, such as `log hard-8 moving 1s`.
    pub(crate) label: String,
    placement: String,
    executor: String,
    /// Who plans the moves, where there are any.
    planner: Option<String>,
    space: Option<String>,
    /// Directories that partitions are dealt to; 0 in lines of before they were kept.
    places: usize,
}

impl Key {
    pub(crate) fn of(record: &Record) -> Self {
        let space = record.engine_options.iter().find(|(name, _)| name == SPACE);
        Self {
            label: record.label(),
            placement: record.placement.clone(),
            executor: record.executor.clone(),
            planner: record.planner.clone().filter(|_| record.repartition != "off"),
            space: space.map(|(_, bound)| bound.clone()),
            places: record.places.len(),
        }
    }

    /// With the placement, such as `log hard-8 hash`.
    pub(crate) fn placed(&self) -> String {
        format!("{} {}", self.label, self.placement)
    }

    /// The bound on space: who is no measure under another one.
    pub(crate) fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }

    /// How many directories its partitions are dealt to.
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Whether both are one row, as far as both tell it: lines of earlier versions tell neither places nor a bound on space.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |key: &Self| Self { space: None, places: 0, ..key.clone() };
        let is_one_space = self.space == other.space || self.space.is_none() || other.space.is_none();
        let is_as_many = self.places == other.places || self.places == 0 || other.places == 0;
        of(self) == of(other) && is_one_space && is_as_many
    }

    /// What it is called among `all`.
    pub(super) fn label_among<'a>(&self, all: impl Iterator<Item = &'a Self>) -> String {
        self.called(self.apart_from(all))
    }

    /// What it is called among `all`, with its placement.
    pub(super) fn name_among<'a>(&self, all: impl Iterator<Item = &'a Self>) -> String {
        let [_, executor, planner, space, places] = self.apart_from(all);
        self.called([true, executor, planner, space, places])
    }

    /// What it is called among `all` where keys are taken to be placed by their hash unless it is said otherwise.
    pub(crate) fn name_if_not_hashed<'a>(&self, all: impl Iterator<Item = &'a Self>) -> String {
        let [_, executor, planner, space, places] = self.apart_from(all);
        self.called([self.placement != "hash", executor, planner, space, places])
    }

    /// In which settings others of its label differ: placement, executor, planner, space, places. What an earlier version does not tell
    /// of places makes no difference.
    fn apart_from<'a>(&self, all: impl Iterator<Item = &'a Self>) -> [bool; 5] {
        let mut apart = [false; 5];
        for other in all.filter(|other| other.label == self.label) {
            let differs = [
                self.placement != other.placement,
                self.executor != other.executor,
                self.planner != other.planner,
                self.space != other.space,
                self.places != other.places && self.places > 0 && other.places > 0,
            ];
            apart.iter_mut().zip(differs).for_each(|(apart, differs)| *apart |= differs);
        }
        apart
    }

    fn called(&self, said: [bool; 5]) -> String {
        let words = [
            self.placement.clone(),
            self.executor.clone(),
            self.planner.clone().unwrap_or_else(|| "planner not told".to_owned()),
            self.space.as_ref().map_or_else(|| "space not told".to_owned(), |bound| format!("space {bound}")),
            plural(self.places as u64, "place"),
        ];
        let words = words.into_iter().zip(said).filter(|(_, is_said)| *is_said);
        words.fold(self.label.clone(), |name, (word, _)| format!("{name} {word}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::record::Record;
    use crate::record::tests::record;
    use crate::summary::{Row, tables};

    /// A store that `planner` moves, if there is one, under a bound on space and in so many directories.
    fn of(planner: Option<&str>, space: &str, places: usize, repetition: u32, ops_per_s: f64) -> Record {
        let mut record = record("log", "hard", repetition, ops_per_s);
        record.planner = planner.map(str::to_owned);
        record.repartition = if planner.is_some() { "1s" } else { "off" }.to_owned();
        record.engine_options = vec![("space_amplification".to_owned(), space.to_owned())];
        record.places = vec![record.places[0].clone(); places];
        record
    }

    /// What each row is called, and how many runs it has.
    fn rows(records: &[Record]) -> Vec<(String, usize)> {
        let all = tables(records);
        assert_eq!(all.len(), 1, "one table");
        all[0].rows.iter().map(|row| (row.label.clone(), row.records.len())).collect()
    }

    /// Fails if runs of two planners, of two bounds on space, or in other numbers of directories fall into one row, as those of two files
    /// did.
    #[test]
    fn runs_of_another_planner_bound_or_number_of_places_are_other_rows_and_say_so() {
        let moving = |planner| [1, 2].map(|n| of(Some(planner), "1.5", 1, n, 100.0));
        let shown = rows(&[moving("greedy"), moving("ldg")].concat());
        let expected = [("log hard-8 moving 1s greedy", 2), ("log hard-8 moving 1s ldg", 2)];
        assert_eq!(shown, expected.map(|(name, runs)| (name.to_owned(), runs)));
        let bounded = |bound| [1, 2, 3].map(|n| of(None, bound, 1, n, 100.0));
        let shown = rows(&[bounded("1.1"), bounded("3")].concat());
        assert_eq!(shown, [("log hard-8 space 1.1".to_owned(), 3), ("log hard-8 space 3".to_owned(), 3)]);
        let dealt = |places| of(None, "1.5", places, 1, 100.0);
        let shown = rows(&[dealt(1), dealt(2)]);
        assert_eq!(shown, [("log hard-8 1 place".to_owned(), 1), ("log hard-8 2 places".to_owned(), 1)]);
    }

    /// Fails if what all rows have in common is said of each, or if two rows are called the same.
    #[test]
    fn what_no_other_row_of_the_name_differs_in_is_not_said() {
        assert_eq!(rows(&[of(Some("ldg"), "1.1", 2, 1, 1.0)]), [("log hard-8 moving 1s".to_owned(), 1)]);
        // Who stays is called otherwise anyway; who planned what never moved is nobody.
        let mut still = of(None, "1.1", 2, 1, 1.0);
        still.planner = Some("greedy".into());
        let mut again = still.clone();
        again.planner = None;
        let shown = rows(&[of(Some("ldg"), "1.1", 2, 1, 1.0), still.clone(), again.clone()]);
        assert_eq!(shown, [("log hard-8 moving 1s".to_owned(), 1), ("log hard-8".to_owned(), 2)]);
        // Of three that differ in two settings each says both.
        again.placement = "range".into();
        let shown = rows(&[still, again, of(None, "3", 2, 1, 1.0)]);
        let names: Vec<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["log hard-8 hash space 1.1", "log hard-8 range space 1.1", "log hard-8 hash space 3"]);
    }

    /// The engine used directly under a bound of 3 is no measure of a store under one of 1.1; nor is a store that stays under that. Fails
    /// if ratios are taken of runs of other settings.
    #[test]
    fn ratios_are_taken_under_one_bound_on_space_and_over_as_many_places() {
        let direct = |space, ops| Record { partitioning: "none".into(), partitions: 1, ..of(None, space, 1, 1, ops) };
        let records =
            [direct("3", 100.0), direct("1.1", 50.0), of(None, "1.1", 2, 1, 200.0), of(None, "9", 1, 1, 200.0)];
        let all = tables(&records);
        let ratios: Vec<Option<f64>> = all[0].rows.iter().map(|row| row.ratio.map(|ratio| ratio.median)).collect();
        assert_eq!(ratios, [None, None, Some(4.0), None]);
        let records = [
            of(None, "3", 2, 1, 900.0),
            of(None, "1.1", 1, 1, 800.0),
            of(None, "1.1", 2, 1, 100.0),
            of(Some("ldg"), "1.1", 2, 1, 150.0),
        ];
        let moving = |row: &Row| row.moving.clone();
        let moving = tables(&records)[0].rows.iter().find_map(moving).expect("a row that moves");
        assert_eq!(moving.ratio.map(|ratio| ratio.median), Some(1.5), "{moving:?}");
        assert_eq!(moving.still.as_deref(), Some("log hard-8 hash space 1.1 2 places"));
    }

    /// Lines of before places were kept have their own table; a key of theirs is like any.
    #[test]
    fn what_earlier_versions_do_not_tell_makes_no_other_row_of_a_comparison() {
        let [told, other] = [1, 2].map(|places| super::Key::of(&of(None, "1.5", places, 1, 1.0)));
        let mut earlier = of(None, "1.5", 1, 1, 1.0);
        earlier.places.clear();
        earlier.engine_options.clear();
        let earlier = super::Key::of(&earlier);
        assert!(earlier.is_like(&told) && other.is_like(&earlier) && !told.is_like(&other));
        let bounded = super::Key::of(&of(None, "3", 1, 1, 1.0));
        assert!(!told.is_like(&bounded) && earlier.is_like(&bounded));
    }
}
