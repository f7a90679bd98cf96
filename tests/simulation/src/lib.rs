//! The whole fleet on virtual time, with everything that happens decided by one number.
//!
//! Several processes of the fleet (ingest's router, every worker with its runtime, the directory sync) share ports in
//! memory, and a Slack that is played beside them sends events, answers calls and hands out files. The runtime is
//! tokio's on one thread with paused time; every random choice is drawn from one generator, whose seed is the number:
//! what Slack sends, how calls overlap, what fails, when a process dies. So a seed that finds a bug finds it again.
//!
//! * [`world`] holds the generator, the clock, the trace and what was violated; [`faults`] injects the faults that no call triggers.
//! * [`workload`] is what Slack sends, [`sender`] sends it as Slack does, [`api`] answers.
//! * [`schedule`] delays and breaks the calls of one process; [`fleet`] composes a process, [`supervisor`] kills, drains
//!   and restarts it.
//! * [`ledger`], [`checked_archive`] and [`checked_worker`] check each step of the queue, the archive and the workers
//!   against the invariants.
//! * [`verdict`] is the end: nothing waits, and the archive is what [`model`] and a fleet without faults make of the same
//!   events.
//! * [`gap_filling`] waits until the historian has filled every gap: in some seeds while events come, in the others after the
//!   verdict. What it may have brought beyond the accepted events is in [`unaccepted`].
//! * [`erasing`] is a person who wants something forgotten, at any time: in the end nothing of it is there.
//! * [`questions`] are asked in some seeds, of a model that never says the same thing twice, and the app hears its own messages;
//!   [`answers`] says what has to become of them.
//! * [`history`] reads what Slack shows in the end, and fills the archive from it; [`reconciling`] then finds no difference.
//! * [`mutation`] breaks the fleet on purpose, to show that this would be found.

mod answers;
mod api;
mod checked_archive;
mod checked_worker;
mod erasing;
mod faults;
mod figures;
mod fleet;
mod gap_filling;
mod history;
mod ledger;
mod model;
pub mod mutation;
mod operator;
mod questions;
mod reconciling;
mod run;
mod schedule;
mod sender;
mod supervisor;
mod unaccepted;
mod verdict;
mod workload;
mod world;

pub use mutation::Mutation;
pub use run::{Finding, SeedOutcome, run};
pub use world::{FaultCounts, FaultKind, Invariant};
