//! The consumer runtime and the workers.
//!
//! A worker is one folder: what it consumes, a function over ports, its tests. The runtime owns everything else:
//! leases, order, backoff, poison, quarantine, draining.

mod audience;
pub mod channel_indexer;
pub mod claims;
pub mod directory;
pub mod environment;
pub mod eraser;
pub mod existence;
mod failure;
pub mod file_downloader;
pub mod historian;
pub mod import;
#[cfg(feature = "aws")]
pub mod lambda;
mod marks;
pub mod message_writer;
pub mod poster;
pub mod quarantine;
pub mod registry;
pub mod responder;
mod runs;
pub mod runtime;
pub mod standalone;
pub mod statistician;
pub mod store;
