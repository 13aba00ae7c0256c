//! The conformance suite for the log engine.

use biombo_engine::conformance::Subject;

biombo_engine::conformance_tests!(log, Subject::from_kind(&biombo_log::kind()));
