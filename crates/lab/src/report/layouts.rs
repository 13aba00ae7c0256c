//! How the layouts of an engine are told apart where several are drawn in its colour: by the dashes of their lines.

use super::context::distinct;
use crate::summary::Row;

/// The page's kinds of dashes (`l0` to `l7`): none, those of engines used directly, and others.
const DASHES: usize = 8;

/// The partitioned layouts of some rows, in the order in which they come.
pub(super) struct Layouts<'a> {
    names: Vec<&'a str>,
    /// As they are called beside the figures.
    labels: Vec<&'a str>,
}

impl<'a> Layouts<'a> {
    pub(super) fn of(rows: impl Iterator<Item = &'a Row>) -> Self {
        let partitioned: Vec<&Row> = rows.filter(|row| row.partitioning != "none").collect();
        let names = distinct(partitioned.iter().map(|row| name(row)));
        let label = |name: &&str| partitioned.iter().find(|row| self::name(row) == *name).map_or("", |row| label(row));
        Self { labels: names.iter().map(label).collect(), names }
    }

    /// The number of the dashes of `row`. Beside partitioned layouts engines used directly are dashed all over the page.
    pub(super) fn dashes(&self, row: &Row) -> usize {
        match self.names.iter().position(|other| *other == name(row)) {
            None => usize::from(!self.names.is_empty()),
            Some(layout) => dashes_of(layout),
        }
    }

    /// A piece of a line and a name for each, where there are several.
    pub(super) fn key(&self) -> Vec<(String, &'a str)> {
        if self.names.len() < 2 {
            return Vec::new();
        }
        let piece = |layout| {
            format!(
                "<svg class=\"swatch\" width=\"30\" height=\"12\" aria-hidden=\"true\"><line class=\"line c7 l{}\" x1=\"0\" x2=\"30\" y1=\"6\" \
                 y2=\"6\"/></svg>",
                dashes_of(layout)
            )
        };
        self.labels.iter().enumerate().map(|(layout, label)| (piece(layout), *label)).collect()
    }
}

fn dashes_of(layout: usize) -> usize {
    match layout {
        0 => 0,
        more => 2 + (more - 1) % (DASHES - 2),
    }
}

fn name(row: &Row) -> &str {
    without_engine(&row.name, row)
}

fn label(row: &Row) -> &str {
    without_engine(&row.label, row)
}

fn without_engine<'a>(text: &'a str, row: &Row) -> &'a str {
    text.strip_prefix(row.engine.as_str()).unwrap_or(text).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::summary::tables;

    /// Fails if two layouts of an engine have the same dashes, or if a layout has others over another engine.
    #[test]
    fn layouts_of_one_engine_differ_in_their_dashes_and_those_of_several_do_not() {
        let mut records = Vec::new();
        for engine in ["log", "lmdb"] {
            records.push(record(engine, "none", 1, 1.0));
            for partitions in [1, 4, 8] {
                records.push(crate::record::Record { partitions, ..record(engine, "hard", 1, 1.0) });
            }
        }
        let tables = tables(&records);
        let rows = &tables[0].rows;
        let layouts = Layouts::of(rows.iter());
        let dashes: Vec<usize> = rows.iter().map(|row| layouts.dashes(row)).collect();
        assert_eq!(dashes, [1, 0, 2, 3, 1, 0, 2, 3]);
        let key = layouts.key();
        assert_eq!(key.iter().map(|(_, label)| *label).collect::<Vec<_>>(), ["hard-1", "hard-4", "hard-8"]);
        assert!(key[2].0.contains("c7 l3"), "{key:?}");
        let alone = Layouts::of(rows[..2].iter());
        assert_eq!((alone.key().len(), alone.dashes(&rows[1])), (0, 0), "one layout needs no key");
        assert_eq!(Layouts::of(rows[..1].iter()).dashes(&rows[0]), 0, "nothing to be told apart from");
    }
}
