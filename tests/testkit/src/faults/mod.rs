//! Ports that fail on purpose, around any other port.
//!
//! * [`FaultyQueue`], [`FaultyArchive`], [`FaultyFiles`] and [`FaultyClaims`] follow a [`FaultPlan`]: which calls fail, before or after they were done.
//!   They may follow any other [`FaultSchedule`] too: the simulation has one that a seed decides.
//! * A [`CrashPoint`] is such a schedule: from there on nothing works any more on any port that follows it, as if the process had died between
//!   two steps. [`RecordedCalls`] is one on which nothing fails.
//!
//! With an empty plan, or a crash that never comes, each is the port it wraps: the conformance suites hold them to it.

mod archive;
mod calls;
mod claims;
mod crash;
mod files;
mod plan;
mod queue;

pub use archive::FaultyArchive;
pub use calls::RecordedCalls;
pub use claims::FaultyClaims;
pub use crash::CrashPoint;
pub use files::FaultyFiles;
pub use plan::{CallFault, FaultPlan, FaultSchedule, PortMethod};
pub use queue::FaultyQueue;
