//! `btree-vs-lsm`: a published comparison of B-trees with LSM-trees, in its two parts.
//!
//! - `ycsb`: the workloads of YCSB over PostgreSQL, whose tables are B-trees, and over RocksDB, which merges sorted tables;
//! - `micro`: a micro-benchmark of two small engines, which counts the bytes that each writes.
//!
//! Each part is done with what this build and this machine have, and [`lacks`] says what is left out for want of something. The records
//! of the parts are told apart by their sizes: only the micro-benchmark has values of `micro::VALUE_BYTES`.

mod micro;
mod ycsb;

use biombo_base::{Error, Result};
use biombo_engine::Registry;

use super::{Lack, Reproduction, Seen};
use crate::bench::{Outcome, Plan};
use crate::record::Record;

/// What was published.
pub const TITLE: &str = "B-trees against LSM-trees on NVMe SSDs (2026)";
const SETUP: &str = "Kingston NV2 1 TB NVMe Gen4; YCSB 0.18.0, 10 M records planned, 1 M operations of each workload; the micro-benchmark by \
                     O_DIRECT, 5,000 operations, half of them reads, keys and values of 8 bytes";

/// The runs of both parts. `scale` multiplies the numbers of records and operations.
///
/// # Errors
/// `Unsupported`, with what to install, where neither part can be done.
pub fn plans(registry: &Registry, _asked: &[String], scale: f64) -> Result<Vec<Plan>> {
    let plans = [ycsb::plans(registry, scale), micro::plans(registry, scale)].concat();
    if plans.is_empty() {
        let all: Vec<String> = lacks(registry).into_iter().map(|lack| lack.why).collect();
        return Err(Error::unsupported(all.join("; ")));
    }
    Ok(plans)
}

/// What this build or this machine lacks.
pub fn lacks(registry: &Registry) -> Vec<Lack> {
    [ycsb::lacks(registry), micro::lacks(registry)].concat()
}

/// What came out of both, beside what was published.
pub fn findings(outcome: &Outcome) -> Result<Reproduction> {
    let (small, large): (Vec<&Record>, Vec<&Record>) =
        outcome.records.iter().partition(|record| record.value_bytes == micro::VALUE_BYTES);
    let seen = Seen::of(&outcome.records);
    let (ycsb, micro) = (ycsb::Runs { records: large, seen: &seen }, micro::Lengths::of(&small, &seen));
    let host = outcome.records.first().map_or("no run was done".to_owned(), |record| {
        format!("{} ({} cores), Linux {}", record.host.cpu, record.host.cores, record.host.kernel)
    });
    Ok(Reproduction {
        name: "btree-vs-lsm",
        title: TITLE,
        setup_then: SETUP,
        setup_now: format!("{}; {}; {host}", ycsb::setup(&ycsb), micro::setup(&micro)),
        differences: [ycsb::differences(), micro::differences()].concat(),
        figures: [ycsb::figures(&ycsb), micro::figures(&micro)].concat(),
        curves: Vec::new(),
        findings: [ycsb::findings(&ycsb), micro::findings(&micro)].concat(),
    })
}

#[cfg(test)]
mod tests;
