//! A graph's edges, gathered from files: what layouts are built from.

use std::ops::Range;
use std::path::Path;

use biombo_base::{Error, Result};

use crate::Edge;
use crate::ids::{Ids, Interner};
use crate::input::{EdgeReader, Item};

/// All edges of some files, by dense numbers of their vertices.
#[derive(Debug, Default)]
pub struct EdgeList {
    /// The vertices.
    pub ids: Ids,
    /// The edges, in the order of the files; repeated ones are still there.
    pub edges: Vec<Edge>,
    /// Whether the graph is directed, where a file says so.
    pub is_directed: Option<bool>,
    /// Which of the edges are out of symmetric matrices, and stand for their mirror images too.
    pub symmetric: Vec<Range<usize>>,
}

impl EdgeList {
    /// Read all of `files`, one after the other: 8 bytes an edge, and some 20 a vertex meanwhile.
    ///
    /// # Errors
    /// Those of [`EdgeReader`]; `Invalid` for too many vertices, and for files that contradict each other about direction.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self> {
        let readers = files.iter().map(|file| EdgeReader::open(file.as_ref()));
        Self::read_from(readers)
    }

    /// Read all of `readers`, one after the other; each is opened when it is its turn.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_from(readers: impl Iterator<Item = Result<EdgeReader>>) -> Result<Self> {
        let mut interner = Interner::new();
        let mut list = Self::default();
        for reader in readers {
            let mut reader = reader?;
            let begin = list.edges.len();
            while let Some(item) = reader.next_item()? {
                match item {
                    Item::Edge(source, destination) => {
                        list.edges.push([interner.number(source)?, interner.number(destination)?]);
                    }
                    Item::Vertices { first, last } => {
                        (first..=last).try_for_each(|id| interner.number(id).map(drop))?;
                    }
                }
            }
            if reader.is_symmetric() {
                list.symmetric.push(begin..list.edges.len());
            }
            match (list.is_directed, reader.is_directed()) {
                (Some(before), Some(now)) if before != now => {
                    return Err(Error::invalid("one file says that its graph is directed, another one that it is not"));
                }
                (before, now) => list.is_directed = now.or(before),
            }
        }
        list.ids = interner.finish(&mut list.edges);
        Ok(list)
    }

    /// Add the mirror images of symmetric edges, behind all others: for a directed graph, which has none by itself.
    pub fn mirror(&mut self) {
        for range in std::mem::take(&mut self.symmetric) {
            let mirrored: Vec<Edge> = self.edges[range].iter().filter(|[a, b]| a != b).map(|[a, b]| [*b, *a]).collect();
            self.edges.extend(mirrored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&'static str]) -> Result<EdgeList> {
        EdgeList::read_from(texts.iter().map(|text| EdgeReader::new(Box::new(text.as_bytes()), "x")))
    }

    #[test]
    fn several_files_make_one_graph() {
        let list = read(&["# Directed graph\n9 5\n", "5 1\n9 5\n"]).unwrap();
        assert_eq!((list.edges.as_slice(), list.is_directed), (&[[2, 1], [1, 0], [2, 1]][..], Some(true)));
        assert_eq!((0..3).map(|v| list.ids.id(v).unwrap()).collect::<Vec<_>>(), [1, 5, 9]);
        assert!(read(&[]).unwrap().ids.is_empty());
    }

    #[test]
    fn isolated_vertices_that_a_file_names_are_there() {
        let list = read(&["%%MatrixMarket matrix coordinate pattern symmetric\n5 5 1\n4 2\n"]).unwrap();
        assert_eq!((list.ids.len(), list.ids.id(0), list.edges.as_slice()), (5, Some(1), &[[3, 1]][..]));
    }

    /// Fails when a directed graph of a symmetric matrix lacks half of its edges, or has a loop twice.
    #[test]
    fn symmetric_entries_have_mirror_images_in_a_directed_graph() {
        let matrix = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n";
        let mut list = read(&["3 1\n", matrix]).unwrap();
        list.mirror();
        assert_eq!(list.edges, [[2, 0], [1, 0], [2, 1], [2, 2], [0, 1], [1, 2]]);
        list.mirror();
        assert_eq!(list.edges.len(), 6, "once");
    }

    #[test]
    fn contradictions_and_too_many_vertices_are_refused() {
        let error = read(&["# Directed graph\n", "# Undirected graph\n"]).unwrap_err();
        assert!(error.to_string().contains("another one that it is not"), "{error}");
        let huge = "%%MatrixMarket matrix coordinate pattern general\n2147483649 2147483649 0\n";
        assert!(read(&[huge]).unwrap_err().to_string().contains("is of 2147483649 vertices"));
        assert!(read(&["1 2\n3 x\n"]).unwrap_err().to_string().starts_with("x, line 2"));
    }
}
