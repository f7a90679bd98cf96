//! Wrappers that inject faults into any port.
//!
//! * A [`FaultyPort`] wraps a queue, an archive, files or claims. It follows a [`FaultPlan`]: which calls
//!   fail, before or after they take effect. It can follow any other [`FaultSchedule`]: that of the
//!   simulation is seeded.
//! * A [`CrashPoint`] is such a schedule: after it, every call on every port that follows it fails, as if the
//!   process had died between two steps. [`RecordedCalls`] is a schedule without faults.
//!
//! With an empty plan each wrapper behaves like the port it wraps: the conformance suites test this.

mod archive;
mod calls;
mod claims;
mod crash;
mod files;
mod plan;
mod port;
mod queue;

pub use archive::FaultyArchive;
pub use calls::RecordedCalls;
pub use claims::FaultyClaims;
pub use crash::CrashPoint;
pub use files::FaultyFiles;
pub use plan::{CallFault, FaultPlan, FaultSchedule, PortMethod};
pub use port::FaultyPort;
pub use queue::FaultyQueue;
