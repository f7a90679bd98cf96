//! The ports: what the rest of Annalist asks of a backend, and the keys, jobs and names that go through them. A contract
//! is on each method, and in the conformance suites that every backend and every test double runs.
//!
//! * [`archive`]: items, and updates that are one register each.
//! * [`changes`]: what was written to messages, for those that follow.
//! * [`queue`]: jobs, the topology, routing, and FIFO queues with message groups.
//! * [`files`]: bytes, written once under their key.
//! * [`existence`]: what Slack confirmed to exist. [`claims`]: which process works on what.
//! * [`workers`]: the table of workers.
//! * [`clock`]: the only door to time. [`metrics`]: the table of all metrics.

pub mod archive;
pub mod changes;
pub mod claims;
pub mod clock;
pub mod existence;
pub mod files;
pub mod metrics;
pub mod queue;
pub mod workers;
