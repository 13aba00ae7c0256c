//! One row of a table beside the others of it, by what the table is compared by ([`Criterion`]).
//!
//! 1. Ratios are of runs of one table, which have all settings in common but for those that tell its rows apart (engine, layout, placement,
//!    planner, bound on space and number of places), and of pairs of them: of one repetition and seed
//!    ([`statistics::ratio`](crate::statistics::ratio)).
//! 2. For an engine, and for a name that several rows have but for what they differ in, stands the best of its rows by their medians. The
//!    best of several is flattered by noise, so it is said of how many it is.

use std::io::{self, Write};

use crate::columns;
use crate::statistics::Ratio;
use crate::summary::{Criterion, Row, Table, paired};
use crate::units::{count, duration_ns};

/// Whether a table has a row that `name` means: those of an engine; those of an engine in one layout, such as `log hard-8`, also with its
/// placement, such as `log hard-8 hash`; or one as it is called in the table.
pub fn is_in(tables: &[Table], name: &str) -> bool {
    tables.iter().flat_map(|table| &table.rows).any(|row| is_meant(row, name))
}

fn is_meant(row: &Row, name: &str) -> bool {
    let is_called = [&row.engine, &row.label, &row.name, &row.key.label].into_iter().any(|known| known == name);
    is_called || row.key.placed() == name
}

/// Print what the row that `name` means is to the others of `table`; nothing where either is missing.
pub fn print(table: &Table, name: &str, output: &mut impl Write) -> io::Result<()> {
    let criterion = table.criterion();
    let meant = table.rows.iter().filter(|row| is_meant(row, name) && row.sound().next().is_some());
    let meant: Vec<(&Row, f64)> = meant.filter_map(|row| Some((row, criterion.spread(row)?.median))).collect();
    let best = meant.iter().max_by(|(_, a), (_, b)| criterion.order(*a, *b));
    let Some((base, _)) = best else { return Ok(()) };
    let others: Vec<&Row> = table.rows.iter().filter(|row| row.key != base.key).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (what, note) = match &criterion {
        Criterion::Throughput => ("ops/s".to_owned(), ""),
        Criterion::Tail(kind) => (format!("{} p99", kind.replace('_', "-")), " (less is better)"),
    };
    let of = match meant.len() {
        1 => String::new(),
        rows => format!(", of {rows} rows of {name} the best one by its median"),
    };
    let label = &base.label;
    writeln!(output, "  {label} by the others in {what}{note}, in pairs of one repetition and seed{of}:")?;
    let by = format!("{label} by it");
    let header = ["engine", what.as_str(), by.as_str(), "least..greatest", "95 % interval", "pairs"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    lines.extend(others.iter().map(|other| line(other, &criterion, paired(base, other, |run| criterion.figure(run)))));
    columns::write(&lines, &[0], output)
}

fn line(other: &Row, criterion: &Criterion, ratio: Option<Ratio>) -> Vec<String> {
    let told = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let shown: fn(f64) -> String = if *criterion == Criterion::Throughput { count } else { duration_ns };
    vec![
        other.label.clone(),
        told(criterion.spread(other).map(|spread| shown(spread.median))),
        told(ratio.map(|ratio| format!("{:.2}", ratio.median))),
        told(ratio.map(|ratio| format!("{:.2}..{:.2}", ratio.min, ratio.max))),
        told(ratio.and_then(|ratio| ratio.interval).map(|(low, high)| format!("[{low:.2}, {high:.2}]"))),
        ratio.map_or(0, |ratio| ratio.pairs).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::tests::record;
    use crate::summary::tables;

    /// What is printed below each table, by its order.
    fn printed(records: &[Record], name: &str) -> Vec<String> {
        let text = |table: &Table| {
            let mut text = Vec::new();
            print(table, name, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        tables(records).iter().map(text).collect()
    }

    /// The cells of the row of an engine.
    fn cells<'a>(text: &'a str, engine: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(engine)).unwrap_or_else(|| panic!("{text}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    /// Fails if runs of other settings come into a ratio, or if the layout is not the better one and that is not said.
    #[test]
    fn an_engine_is_set_beside_the_others_by_its_better_layout_and_under_equal_settings_alone() {
        let mut records = Vec::new();
        for repetition in 1..=7 {
            let drift = 1_000.0 * f64::from(repetition);
            records.push(record("log", "none", repetition, 2.0 * drift));
            records.push(record("log", "hard", repetition, 3.0 * drift));
            records.push(record("lmdb", "none", repetition, drift));
            // As the n-th run of the same row it would be a pair of the n-th one above.
            let mut other = record("lmdb", "none", repetition, 9.0 * drift);
            other.distribution = "uniform".into();
            records.push(other);
        }
        let shown = printed(&records, "log");
        let [zipfian, uniform] = &shown[..] else { panic!("two tables: {shown:?}") };
        assert!(zipfian.contains("log hard-8 by the others in ops/s, "), "{zipfian}");
        assert!(zipfian.contains(", of 2 rows of log the best one by its median:"), "{zipfian}");
        assert_eq!(cells(zipfian, "lmdb"), ["lmdb", "4.00 k", "3.00", "3.00..3.00", "[3.00, 3.00]", "7"], "{zipfian}");
        assert_eq!(cells(zipfian, "log  "), ["log", "8.00 k", "1.50", "1.50..1.50", "[1.50, 1.50]", "7"], "{zipfian}");
        assert_eq!(uniform, "", "there is no row of log");
        // One row by its name.
        let named = printed(&records, "log hash");
        assert!(named[0].contains("log by the others in ops/s, in pairs of one repetition and seed:"), "{}", named[0]);
        assert_eq!(cells(&named[0], "lmdb")[2], "2.00", "{}", named[0]);
        assert!(is_in(&tables(&records), "log hard-8") && !is_in(&tables(&records), "rocksdb"));
    }

    /// Of rows by hash and by range the table says both, and is asked for the layout. Fails if the name that the layout has everywhere else
    /// means no row there.
    #[test]
    fn the_name_of_a_layout_means_the_better_of_its_rows_where_it_has_several() {
        let mut records: Vec<_> = (1..=6).map(|n| record("lmdb", "none", n, 100.0)).collect();
        for (placement, space, ops_per_s) in [("hash", "1.5", 200.0), ("range", "1.5", 300.0), ("range", "3", 250.0)] {
            records.extend((1..=6).map(|n| Record {
                placement: placement.into(),
                engine_options: vec![("space_amplification".into(), space.into())],
                ..record("log", "hard", n, ops_per_s)
            }));
        }
        let tables = tables(&records);
        assert_eq!(tables[0].rows[1].label, "log hard-8 hash space 1.5");
        for (name, best, rows) in [("log hard-8", 3.0, 3), ("log hard-8 hash", 2.0, 1), ("log hard-8 range", 3.0, 2)] {
            assert!(is_in(&tables, name), "{name} means no row");
            let shown = printed(&records, name);
            assert_eq!(cells(&shown[0], "lmdb")[2], format!("{best:.2}"), "{}", shown[0]);
            let said = format!(", of {rows} rows of {name} the best one by its median:");
            assert_eq!(shown[0].contains(&said), rows > 1, "{}", shown[0]);
        }
        assert!(is_in(&tables, "log hard-8 range space 3") && !is_in(&tables, "log hard-4"));
    }

    #[test]
    fn few_pairs_have_no_interval_runs_with_errors_make_none_and_those_of_other_seeds_neither() {
        let mut records: Vec<_> = (1..=3).map(|n| record("log", "none", n, 300.0)).collect();
        records.extend((1..=3).map(|n| record("lmdb", "none", n, 100.0 * f64::from(n))));
        records[2].errors = 1;
        records.push(record("rocksdb", "none", 1, 100.0));
        records[6].seed = 7;
        let shown = printed(&records, "log");
        assert_eq!(cells(&shown[0], "lmdb"), ["lmdb", "200", "2.25", "1.50..3.00", "-", "2"], "{}", shown[0]);
        assert_eq!(cells(&shown[0], "rocksdb"), ["rocksdb", "100", "-", "-", "-", "0"], "{}", shown[0]);
    }

    /// Fails if the ratio of rates that were asked for is printed as one of engines.
    #[test]
    fn in_an_open_loop_the_longest_tails_are_compared() {
        let mut records: Vec<_> = (1..=7).flat_map(|n| ["log", "lmdb"].map(|e| record(e, "none", n, 100.0))).collect();
        for record in &mut records {
            record.rate = Some(100.0);
            if record.engine == "lmdb" {
                record.latency_ns.entry("update".to_owned()).or_default().p99 = 2_800;
            }
        }
        let shown = printed(&records, "log");
        assert!(shown[0].contains("log by the others in update p99 (less is better), "), "{}", shown[0]);
        let expected = ["lmdb", "2.80 µs", "0.50", "0.50..0.50", "[0.50, 0.50]", "7"];
        assert_eq!(cells(&shown[0], "lmdb"), expected, "{}", shown[0]);
    }
}
