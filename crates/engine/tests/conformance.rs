//! The memory engine keeps the contract.

use biombo_engine::conformance::Subject;

biombo_engine::conformance_tests!(memory, Subject::from_kind(&biombo_engine::memory::kind()));
