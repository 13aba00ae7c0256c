//! What changes a graph.

/// One change of a graph, by the ids of its vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Update {
    /// An edge from the first vertex to the second, which are made where they are missing. Where edges have no direction, which of
    /// both is first means nothing.
    InsertEdge(u64, u64),
    /// The edge goes, if it is there; its vertices stay.
    DeleteEdge(u64, u64),
    /// A vertex, if it is missing.
    InsertVertex(u64),
    /// The vertex goes with all its edges, if it is there.
    DeleteVertex(u64),
}

impl Update {
    /// The edge that it is about, and whether that is there afterwards.
    pub(super) fn edge(&self) -> Option<(u64, u64, bool)> {
        match *self {
            Self::InsertEdge(source, target) => Some((source, target, true)),
            Self::DeleteEdge(source, target) => Some((source, target, false)),
            Self::InsertVertex(_) | Self::DeleteVertex(_) => None,
        }
    }

    /// The ids that there are vertices of afterwards, whatever was before.
    pub(super) fn brings(&self) -> impl Iterator<Item = u64> {
        let (first, second) = match *self {
            Self::InsertEdge(source, target) => (Some(source), Some(target)),
            Self::InsertVertex(id) => (Some(id), None),
            Self::DeleteEdge(..) | Self::DeleteVertex(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}
