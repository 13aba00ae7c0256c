//! What was published: seconds of four kernels over six systems on two graphs, by 2, 12, 24 and 48 threads.

/// Threads of the figures.
pub(super) const THREADS: [u32; 4] = [2, 12, 24, 48];

/// A system of the published comparison, in the order of its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Csr,
    Dgap,
    /// DGAP with halves of the vertices on two nodes.
    DgapDm,
    /// DGAP with vertices on two nodes in turn, and pinned threads.
    DgapRr,
    GraphOne,
    XpGraph,
}

impl System {
    pub(super) const ALL: [Self; 6] =
        [Self::Csr, Self::Dgap, Self::DgapDm, Self::DgapRr, Self::GraphOne, Self::XpGraph];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csr => "CSR",
            Self::Dgap => "DGAP",
            Self::DgapDm => "DGAP, halves",
            Self::DgapRr => "DGAP, round robin",
            Self::GraphOne => "GraphOne",
            Self::XpGraph => "XPGraph",
        }
    }
}

/// A kernel over a graph: seconds by system and number of threads.
pub(super) struct Row {
    pub(super) graph: &'static str,
    /// As the laboratory calls it.
    pub(super) kernel: &'static str,
    seconds: [[f64; 4]; 6],
}

impl Row {
    /// With so many threads; `None` where that was not published.
    pub(super) fn seconds(&self, system: System, threads: u32) -> Option<f64> {
        let at = THREADS.iter().position(|published| *published == threads)?;
        Some(self.seconds[system as usize][at])
    }

    /// By those of CSR.
    pub(super) fn by_csr(&self, system: System, threads: u32) -> Option<f64> {
        Some(self.seconds(system, threads)? / self.seconds(System::Csr, threads)?)
    }
}

/// The row of a kernel over a graph.
pub(super) fn row(graph: &str, kernel: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| (row.graph, row.kernel) == (graph, kernel))
}

#[expect(clippy::approx_constant, reason = "3.14 are seconds")]
#[rustfmt::skip]
pub(super) const ROWS: [Row; 8] = [
    Row { graph: "orkut", kernel: "pagerank", seconds: [
        [8.10, 1.59, 1.02, 0.89], [14.22, 2.84, 2.04, 1.59], [15.73, 3.12, 2.06, 1.62],
        [14.22, 2.91, 1.67, 1.26], [18.40, 3.26, 2.11, 1.37], [21.96, 3.87, 2.20, 1.66],
    ] },
    Row { graph: "orkut", kernel: "bc", seconds: [
        [2.82, 0.55, 0.34, 0.27], [2.57, 0.48, 0.35, 0.29], [3.17, 0.59, 0.36, 0.25],
        [3.14, 0.60, 0.33, 0.23], [3.24, 0.84, 0.62, 0.45], [3.96, 0.71, 0.40, 0.32],
    ] },
    Row { graph: "orkut", kernel: "bfs", seconds: [
        [0.18, 0.06, 0.05, 0.05], [0.30, 0.07, 0.05, 0.08], [0.32, 0.10, 0.09, 0.08],
        [0.30, 0.07, 0.05, 0.04], [0.12, 0.11, 0.12, 0.16], [0.07, 0.02, 0.01, 0.01],
    ] },
    Row { graph: "orkut", kernel: "cc-sv", seconds: [
        [1.15, 0.34, 0.24, 0.18], [2.06, 0.50, 0.36, 0.35], [2.06, 0.59, 0.39, 0.29],
        [1.60, 0.38, 0.24, 0.16], [1.75, 0.95, 0.67, 0.55], [2.82, 0.75, 0.47, 0.34],
    ] },
    Row { graph: "livejournal", kernel: "pagerank", seconds: [
        [4.33, 0.84, 0.52, 0.42], [7.34, 1.55, 1.07, 0.95], [7.41, 1.58, 1.09, 0.96],
        [6.34, 1.75, 1.13, 1.02], [10.37, 1.97, 1.36, 1.01], [16.80, 2.98, 1.64, 1.31],
    ] },
    Row { graph: "livejournal", kernel: "bc", seconds: [
        [2.26, 0.45, 0.28, 0.23], [2.23, 0.42, 0.29, 0.25], [2.25, 0.42, 0.27, 0.22],
        [2.27, 0.44, 0.26, 0.20], [3.13, 0.69, 0.52, 0.44], [3.29, 0.59, 0.32, 0.26],
    ] },
    Row { graph: "livejournal", kernel: "bfs", seconds: [
        [0.19, 0.05, 0.03, 0.04], [0.28, 0.06, 0.06, 0.07], [0.28, 0.08, 0.06, 0.07],
        [0.40, 0.11, 0.07, 0.15], [0.19, 0.17, 0.17, 0.21], [0.12, 0.03, 0.02, 0.02],
    ] },
    Row { graph: "livejournal", kernel: "cc-sv", seconds: [
        [0.92, 0.45, 0.35, 0.15], [1.75, 0.81, 0.43, 0.33], [1.71, 0.61, 0.42, 0.29],
        [1.13, 0.51, 0.40, 0.14], [2.67, 1.08, 0.80, 0.62], [2.84, 0.97, 0.64, 0.46],
    ] },
];

/// How many times as long PageRank takes at most when every access is remote.
pub(super) const REMOTE: f64 = 1.17;

/// Edges of Orkut on two nodes: halves of the vertices, and vertices in turn.
pub(super) const EDGES_BY_HALVES: [u64; 2] = [160_276_767, 77_239_127];
pub(super) const EDGES_ROUND_ROBIN: [u64; 2] = [118_729_840, 118_786_054];
