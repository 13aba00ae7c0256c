//! The conformance suite over stores: what passes for the engine `memory` passes for every way of dividing it.
//!
//! The suites over the real engines are in `crates/biombo/tests/conformance.rs`, where all engines are known.

use std::sync::Arc;
use std::time::Duration;

use biombo_engine::conformance::Subject;
use biombo_engine::{Capabilities, Engine, Registry, conformance_tests, memory};
use biombo_store::{Executor, Options, Partitioning, PlacementKind, StoreEngine};

fn subject(partitioning: Partitioning, placement: PlacementKind, partitions: u32) -> Subject {
    subject_by(Executor::Direct, partitioning, placement, partitions)
}

fn subject_by(executor: Executor, partitioning: Partitioning, placement: PlacementKind, partitions: u32) -> Subject {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let options = Options::new()
        .engine("memory")
        .partitioning(partitioning)
        .placement(placement)
        .partitions(partitions)
        .executor(executor)
        // Boundaries among the keys that the suite uses.
        .range_sample((0..=u8::MAX).map(|byte| vec![byte]).collect());
    let engine = (memory::kind().capabilities)();
    let hard = partitioning == Partitioning::Hard;
    let capabilities = Capabilities { key_bytes_max: engine.key_bytes_max - usize::from(hard), ..engine };
    let name = format!("memory-{partitioning}-{placement}-{partitions}-{executor}");
    Subject::new(name, capabilities, move |dir| {
        let engine: Arc<dyn Engine> = Arc::new(StoreEngine::open(options.clone(), dir, &registry)?);
        Ok(engine)
    })
    .with_budget(Duration::from_millis(150))
}

conformance_tests!(none, subject(Partitioning::None, PlacementKind::Hash, 1));
conformance_tests!(soft_1, subject(Partitioning::Soft, PlacementKind::Hash, 1));
conformance_tests!(soft_3, subject(Partitioning::Soft, PlacementKind::Hash, 3));
conformance_tests!(soft_8, subject(Partitioning::Soft, PlacementKind::Hash, 8));
conformance_tests!(hard_1, subject(Partitioning::Hard, PlacementKind::Hash, 1));
conformance_tests!(hard_3, subject(Partitioning::Hard, PlacementKind::Hash, 3));
conformance_tests!(hard_8, subject(Partitioning::Hard, PlacementKind::Hash, 8));
conformance_tests!(hard_range_3, subject(Partitioning::Hard, PlacementKind::Range, 3));
conformance_tests!(hard_range_8, subject(Partitioning::Hard, PlacementKind::Range, 8));

const PINNED: Executor = Executor::Pinned { workers: 2 };
conformance_tests!(soft_3_pinned, subject_by(PINNED, Partitioning::Soft, PlacementKind::Hash, 3));
conformance_tests!(hard_1_pinned, subject_by(PINNED, Partitioning::Hard, PlacementKind::Hash, 1));
conformance_tests!(hard_8_pinned, subject_by(PINNED, Partitioning::Hard, PlacementKind::Hash, 8));
conformance_tests!(hard_range_3_pinned, subject_by(PINNED, Partitioning::Hard, PlacementKind::Range, 3));
