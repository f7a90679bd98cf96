//! What the tests share: the harness that drives real processes, made-up events, in-memory and faulty ports, and the
//! conformance suites every backend runs.

pub mod bill;
pub mod conformance;
pub mod corpus;
pub mod fake_files;
pub mod fake_slack;
pub mod faults;
pub mod fuzzed;
pub mod harness;
pub mod memory;
pub mod simulation;
