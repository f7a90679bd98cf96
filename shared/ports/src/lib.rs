//! The ports: the interfaces between Annalist and its backends, with the keys, jobs and names that they
//! share. Each method documents its contract; the conformance suites, which every backend and every test
//! double runs, check it.
//!
//! * [`archive`]: items, and updates that are one register each.
//! * [`changes`]: changes to messages, for followers.
//! * [`queue`]: jobs, the topology, routing, and FIFO queues with message groups.
//! * [`files`]: bytes, written once under their key.
//! * [`existence`]: workspaces, users and channels that Slack confirmed to exist. [`claims`]: which process
//!   works on which file or question.
//! * [`workers`]: the table of workers.
//! * [`clock`]: the only access to wall-clock time. [`lease`]: how long a lease may last. [`metrics`]: the table of all metrics.
//! * [`requests`]: priority of requests over workers in one process. [`throttle`]: a limit for log lines.
//! * [`recent`]: values that are read again only after a while.
//! * [`blocking`]: reads that block their thread.
//! * [`reread`]: tokens and secrets that are read again while the process runs.

pub mod archive;
pub mod blocking;
pub mod changes;
pub mod claims;
pub mod clock;
pub mod existence;
pub mod files;
pub mod lease;
pub mod metrics;
pub mod queue;
pub mod recent;
pub mod requests;
pub mod reread;
pub mod throttle;
pub mod workers;
