//! Ports that fail on purpose, around any other port.
//!
//! * [`FaultyQueue`], [`FaultyArchive`] and [`FaultyFiles`] follow a [`Plan`]: which calls fail, before or after they were done.
//! * [`CrashingQueue`], [`CrashingArchive`] and [`FaultyFiles::until`] share a [`CrashPoint`]: from there on nothing works
//!   any more, as if the process had died between two steps.
//!
//! [`proxy`] stands between a client and AWS and breaks requests on their way.
//!
//! With an empty plan, or a crash that never comes, each is the port it wraps: the conformance suites hold them to it.

mod archive;
mod crash;
mod files;
mod plan;
pub mod proxy;
mod queue;

pub use archive::FaultyArchive;
pub use crash::{CrashPoint, CrashingArchive, CrashingQueue};
pub use files::FaultyFiles;
pub use plan::{Fault, Method, Plan};
pub use queue::FaultyQueue;
