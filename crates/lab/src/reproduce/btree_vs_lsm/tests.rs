//! Both parts beside one another, and each without what the other needs.

use biombo_engine::registry::NOT_INSTALLED;
use biombo_engine::{EngineKind, memory};

use super::*;
use crate::record::tests::record;

fn kind(name: &'static str) -> EngineKind {
    EngineKind { name, ..memory::kind() }
}

const MICRO: [&str; 4] = ["micro-btree-published", "micro-lsm-published", "micro-btree", "micro-lsm"];

fn with(kinds: impl IntoIterator<Item = EngineKind>) -> Registry {
    let mut registry = Registry::new();
    kinds.into_iter().for_each(|kind| {
        registry.add(kind);
    });
    registry
}

/// Engines and lengths of values of the plans.
fn asked(registry: &Registry) -> Vec<(Vec<String>, u32)> {
    plans(registry, &[], 1.0).unwrap().into_iter().map(|plan| (plan.engines, plan.value_bytes[0])).collect()
}

#[test]
fn each_part_is_done_without_what_the_other_needs_and_what_is_missing_is_said() {
    let whole = with(["postgres", "rocksdb"].into_iter().chain(MICRO).map(kind));
    assert_eq!(lacks(&whole), []);
    assert_eq!(asked(&whole).iter().filter(|(_, bytes)| *bytes == 8).count(), 2);
    assert_eq!(asked(&whole).iter().filter(|(engines, _)| engines.contains(&"postgres".to_owned())).count(), 6);

    let absent = EngineKind { version: || NOT_INSTALLED.to_owned(), ..kind("postgres") };
    let without = with(MICRO.map(kind).into_iter().chain([absent, kind("rocksdb")]));
    assert!(asked(&without).iter().all(|(engines, _)| !engines.contains(&"postgres".to_owned())));
    assert_eq!(asked(&without).len(), asked(&whole).len(), "RocksDB and the micro-benchmark are measured all the same");
    let said: Vec<String> = lacks(&without).iter().map(Lack::to_string).collect();
    assert!(said.len() == 1 && said[0].contains("install the package postgresql"), "{said:?}");

    let micro = with(MICRO.map(kind));
    assert_eq!(asked(&micro).iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [8, 8]);
    let ycsb = with([kind("rocksdb")]);
    assert!(asked(&ycsb).iter().all(|(_, bytes)| *bytes == 1_000));
    assert!(lacks(&ycsb).iter().any(|lack| lack.why.contains("feature micro")));

    let none = plans(&with([kind("log")]), &[], 1.0).unwrap_err().to_string();
    assert!(["postgres", "rocksdb", "micro"].iter().all(|name| none.contains(name)), "{none}");
}

#[test]
fn an_engine_of_both_parts_has_the_figures_of_each_apart() {
    let mut records = Vec::new();
    for (value_bytes, operations, ops_per_s) in [(1_000, 40_000, 7.0), (8, 5_000, 100.0), (8, 100_000, 300.0)] {
        for engine in ["micro-btree", "micro-lsm", "rocksdb"] {
            records.extend((1..=3).map(|repetition| {
                let mut record = record(engine, "none", repetition, ops_per_s);
                (record.value_bytes, record.operations) = (value_bytes, operations);
                record.seed = if operations == 100_000 { 1_001 } else { 1 };
                record
            }));
        }
    }
    let outcome = Outcome { records, failures: Vec::new(), interrupted: 0 };
    let found = findings(&outcome).unwrap();
    let throughput: Vec<(String, f64)> = found
        .figures
        .iter()
        .filter(|figure| figure.of == "throughput" && figure.engine.as_deref() == Some("micro-lsm"))
        .map(|figure| (figure.load.clone(), figure.measured.unwrap()))
        .collect();
    assert_eq!(throughput.len(), 3, "{throughput:?}");
    assert_eq!(throughput.iter().map(|(_, measured)| *measured).collect::<Vec<_>>(), [7.0, 100.0, 300.0]);
    assert!(throughput[0].0.starts_with("A, ") && throughput[1].0.starts_with("micro-benchmark"), "{throughput:?}");
    assert!(found.findings.iter().any(|finding| finding.published.starts_with("workload A:")));
    assert!(found.findings.iter().any(|finding| finding.published.starts_with("micro-benchmark:")));
}
