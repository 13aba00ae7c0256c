//! Matrix Market files: a banner, comments, one line of sizes, then so many entries `row column [values]`, counted from 1.
//!
//! The matrix is the adjacency matrix: square; a stored entry is an edge, whatever its value. The sizes say which vertices there
//! are, so that isolated ones are kept, and how many entries, so that a file that is cut off is found.
//! Source: Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats", NISTIR 5935 (1996).

use super::text::{BadLine, Fields, id, is_comment, numbers};

/// What the banner starts with; no text of edges does.
pub(super) const BANNER: &[u8] = b"%%MatrixMarket";

/// Reads the lines behind the banner.
#[derive(Debug)]
pub(super) struct MatrixMarket {
    /// Whether each entry stands for its mirror image too.
    pub(super) is_symmetric: bool,
    /// How many numbers an entry has behind its place.
    values: usize,
    sizes: Option<Sizes>,
    entries: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    vertices: u64,
    entries: u64,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing (a comment, an empty line).
    Empty,
    /// The sizes: the vertices are 1 to this number.
    Vertices(u64),
    /// An edge.
    Edge(u64, u64),
}

impl MatrixMarket {
    /// From the file's first line.
    pub(super) fn new(banner: &[u8]) -> Result<Self, BadLine> {
        let words: Vec<String> = Fields(banner).map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
        let [_, object, format, values, symmetry] = words.as_slice() else {
            return Err(BadLine("the banner of Matrix Market has five words".to_owned()));
        };
        if object != "matrix" || format != "coordinate" {
            return Err(BadLine(format!("a graph is a `matrix coordinate`, this is a `{object} {format}`")));
        }
        let values = match values.as_str() {
            "pattern" => 0,
            "real" | "integer" => 1,
            "complex" => 2,
            _ => return Err(BadLine(format!("`{values}` is no kind of values of Matrix Market"))),
        };
        let is_symmetric = match symmetry.as_str() {
            "general" => false,
            "symmetric" | "skew-symmetric" | "hermitian" => true,
            _ => return Err(BadLine(format!("`{symmetry}` is no symmetry of Matrix Market"))),
        };
        Ok(Self { is_symmetric, values, sizes: None, entries: 0 })
    }

    /// The next line.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Line, BadLine> {
        let mut fields = Fields(line);
        let Some(first) = fields.next() else { return Ok(Line::Empty) };
        if is_comment(first) {
            return Ok(Line::Empty);
        }
        let number = |field: Option<&[u8]>, what: &str| match field {
            Some(field) => id(field),
            None => Err(BadLine(format!("the {what} is missing"))),
        };
        let row = number(Some(first), "row")?;
        let column = number(fields.next(), "column")?;
        let Some(sizes) = self.sizes else {
            let entries = number(fields.next(), "number of entries")?;
            if row != column {
                return Err(BadLine(format!(
                    "the matrix of a graph is square, this one has {row} rows and {column} columns"
                )));
            }
            self.sizes = Some(Sizes { vertices: row, entries });
            return Ok(Line::Vertices(row));
        };
        for (at, what) in [(row, "row"), (column, "column")] {
            if !(1..=sizes.vertices).contains(&at) {
                return Err(BadLine(format!(
                    "{what} {at} is outside of the matrix, which has {} of them",
                    sizes.vertices
                )));
            }
        }
        // A file that is cut within its last line is found by them.
        let found = numbers(fields)?;
        if found < self.values {
            let needed = self.values;
            return Err(BadLine(format!("the entry has {found} values, and those of this matrix have {needed}")));
        }
        self.entries += 1;
        if self.entries > sizes.entries {
            return Err(BadLine(format!("there are more entries than the {} that the file says", sizes.entries)));
        }
        Ok(Line::Edge(row, column))
    }

    /// The file is at its end: is everything there?
    pub(super) fn end(&self) -> Result<(), BadLine> {
        match self.sizes {
            None => Err(BadLine("the file ends before the line of sizes".to_owned())),
            Some(sizes) if sizes.entries > self.entries => Err(BadLine(format!(
                "the file ends after {} of {} entries: it was cut off",
                self.entries, sizes.entries
            ))),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> MatrixMarket {
        let mut file = MatrixMarket::new(b"%%MatrixMarket matrix coordinate pattern symmetric").unwrap();
        assert_eq!(file.line(b"% a comment"), Ok(Line::Empty));
        assert_eq!(file.line(b"3 3 2"), Ok(Line::Vertices(3)));
        file
    }

    #[test]
    fn entries_are_edges_between_the_vertices_that_the_sizes_name() {
        let mut file = opened();
        assert!(file.is_symmetric);
        assert_eq!(file.line(b"2 1"), Ok(Line::Edge(2, 1)));
        assert_eq!(file.line(b"3 3 0.5"), Ok(Line::Edge(3, 3)));
        assert_eq!(file.end(), Ok(()));
        assert!(!MatrixMarket::new(b"%%MatrixMarket Matrix Coordinate Real General").unwrap().is_symmetric);
    }

    #[test]
    fn what_contradicts_the_sizes_is_refused() {
        for (line, said) in
            [("4 1", "row 4 is outside"), ("1 0", "column 0 is outside"), ("1", "the column is missing")]
        {
            let error = opened().line(line.as_bytes()).expect_err(line);
            assert!(error.0.contains(said), "{}", error.0);
        }
        let mut file = opened();
        assert!(file.end().expect_err("too few").0.contains("after 0 of 2 entries"));
        assert!(file.line(b"1 1 x").expect_err("no number").0.contains("`x` behind the two ids is no number"));
        let mut real = MatrixMarket::new(b"%%MatrixMarket matrix coordinate real general").unwrap();
        real.line(b"30 30 2").unwrap();
        real.line(b"1 2 0.5D+00").unwrap();
        assert!(real.line(b"3 2").expect_err("cut off").0.contains("the entry has 0 values"));
        file.line(b"1 1").unwrap();
        file.line(b"1 2").unwrap();
        assert!(file.line(b"1 3").expect_err("too many").0.contains("more entries than the 2"));
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for banner in [
            "%%MatrixMarket",
            "%%MatrixMarket matrix array real general",
            "%%MatrixMarket matrix coordinate text general",
            "%%MatrixMarket matrix coordinate real upper",
        ] {
            assert!(MatrixMarket::new(banner.as_bytes()).is_err(), "{banner}");
        }
        let mut file = MatrixMarket::new(b"%%MatrixMarket matrix coordinate real general").unwrap();
        assert!(file.line(b"3 4 2").expect_err("not square").0.contains("square"));
        assert!(file.end().expect_err("no sizes").0.contains("before the line of sizes"));
    }
}
