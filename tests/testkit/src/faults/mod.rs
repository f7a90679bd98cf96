//! Wrappers that inject faults into any port.
//!
//! * [`FaultyQueue`], [`FaultyArchive`], [`FaultyFiles`] and [`FaultyClaims`] follow a [`FaultPlan`]: which
//!   calls fail, before or after they take effect. They can follow any other [`FaultSchedule`]: that of the
//!   simulation is seeded.
//! * A [`CrashPoint`] is such a schedule: after it, every call on every port that follows it fails, as if the
//!   process had died between two steps. [`RecordedCalls`] is a schedule without faults.
//!
//! With an empty plan, or without a crash, each wrapper behaves like the port it wraps: the conformance
//! suites test this.

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
