//! One suite per port. Every backend and every test double runs all of it.
//!
//! What a backend may do differently is a named argument of the suite ([`queue::QueueTraits`],
//! [`archive::ArchiveTraits`]); no case knows which backend it runs on.
#![expect(clippy::unwrap_used, reason = "a suite is test code: what it unwraps is what it claims")]

pub mod archive;
pub mod changes;
pub mod claims;
pub mod existence;
pub mod files;
pub mod queue;
mod run;
pub mod two_handles;

pub use run::SuitePace;

/// Whatever has to live as long as a fixture: a folder, a handle.
pub type Keep = Box<dyn std::any::Any + Send + Sync>;
