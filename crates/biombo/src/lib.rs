//! An embedded store for key-values whose partitions move to where the load is.
#![forbid(unsafe_code)]

pub use biombo_engine::{Batch, Durability, Engine, EngineKind, Error, ErrorKind, Registry, Result, Value, memory};

/// Every engine that this build has, by name.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    registry.add(memory::kind());
    registry
}
