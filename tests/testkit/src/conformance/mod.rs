//! One suite per port. Every backend and every test double runs all of it.
//!
//! A permitted difference between backends is a named argument of the suite ([`queue::QueueTraits`],
//! [`archive::ArchiveTraits`]); no case knows which backend it runs on.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a case that fails")]

pub mod archive;
pub mod changes;
pub mod claims;
pub mod existence;
pub mod files;
pub mod queue;
mod run;
pub mod two_handles;

pub use run::SuitePace;

/// A resource that must live as long as a fixture, such as a folder or a handle.
pub type Keep = Box<dyn std::any::Any + Send + Sync>;
