//! Runs the whole fleet on virtual time; one number determines everything that happens.
//!
//! Several processes of the fleet (ingest's router, every worker with its runtime, the directory sync) share
//! in-memory ports. A simulated Slack sends events, answers calls and serves files. The runtime is tokio's on
//! one thread with paused time. Every random choice comes from one generator, seeded with the number: the
//! events that Slack sends, how calls overlap, which calls fail, when a process dies. So a seed that finds a
//! bug finds it again.
//!
//! * [`world`] contains the generator, the clock, the trace and the first violation; [`faults`] injects the
//!   faults that no call triggers.
//! * [`workload`] is the list of requests that Slack sends ([`hostile`]: events that must not be stored), [`sender`] sends them as Slack does, [`api`]
//!   answers calls; [`refusals`] chooses the codes with which it refuses some.
//! * [`socket`]: in some seeds events arrive over connections of Socket Mode, which are refreshed, break or die.
//! * [`irregular`] creates the messages that are less regular than Slack documents, and checks at the end that
//!   a reader finds their words.
//! * [`schedule`] delays and breaks the calls of one process; [`fleet`] composes a process, [`supervisor`] kills, drains
//!   and restarts it.
//! * [`ledger`], [`checked_archive`] and [`checked_worker`] check each step of the queue, the archive and the workers
//!   against the invariants.
//! * [`verdict`] compares the final archive with [`model`] and with a fleet without faults that handles the
//!   same events.
//! * [`gap_filling`] waits until the historian has filled every gap: in some seeds while events arrive, in
//!   the others after the verdict. [`unaccepted`] lists the messages that history may add to those of the
//!   accepted events.
//! * [`erasing`] is a person who erases data at any time; at the end none of it may be left.
//! * [`late_channel`] is a channel that begins during an outage of Slack.
//! * [`questions`] are asked in some seeds. The model never gives the same answer twice, and the app receives
//!   events for its own messages; [`answers`] checks the result.
//! * [`bookmarks`] change whenever their list is read; a day later the archive has those of the last list.
//! * [`history`] reads Slack's final state and fills the archive from it; [`reconciling`] then finds no
//!   difference.
//! * [`workspaces`] plays many workspaces for days, some of which fail, and compares the others with a run
//!   without those.
//! * [`mutation`] plants bugs in the fleet, to show that the simulation finds them. [`seeds`] runs many seeds,
//!   each on one thread.

mod answers;
mod api;
mod bookmarks;
mod checked_archive;
mod checked_worker;
mod erasing;
mod faults;
mod figures;
mod fleet;
mod gap_filling;
mod history;
mod hostile;
mod irregular;
mod late_channel;
mod ledger;
mod model;
pub mod mutation;
mod nights;
mod operator;
mod questions;
mod reconciling;
mod refusals;
mod run;
mod schedule;
mod seeds;
mod sender;
mod slack_files;
mod socket;
mod supervisor;
mod unaccepted;
mod user_groups;
mod verdict;
mod workload;
mod workspaces;
mod world;

pub use mutation::Mutation;
pub use run::{Finding, SeedOutcome, run};
pub use seeds::for_each_seed;
pub use workspaces::{Lateness, WorkspacesOutcome, WorkspacesSize, run_workspaces, run_workspaces_alone};
pub use world::{FaultCounts, FaultKind, Invariant};
