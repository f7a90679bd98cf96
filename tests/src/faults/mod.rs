//! Ports that fail on purpose, around any other port.
//!
//! * [`FaultyQueue`] and [`FaultyArchive`] follow a [`Plan`]: which calls fail, before or after they were done.
//! * [`CrashingQueue`] and [`CrashingArchive`] share a [`CrashPoint`]: from there on nothing works any more, as if the
//!   process had died between two steps.
//!
//! With an empty plan, or a crash that never comes, each is the port it wraps: the conformance suites hold them to it.

mod archive;
mod crash;
mod plan;
mod queue;

pub use archive::FaultyArchive;
pub use crash::{CrashPoint, CrashingArchive, CrashingQueue};
pub use plan::{Fault, Method, Plan};
pub use queue::FaultyQueue;
