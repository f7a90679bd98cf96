//! The consumer runtime and the workers.
//!
//! A worker is one folder: what it consumes, a function over ports, its tests. The runtime owns everything
//! else: leases, order, backoff, poison, quarantine, draining. The crate `fleet` builds each from a backend.

pub mod admission;
pub mod archive_version;
pub mod channel_indexer;
pub mod claims;
pub mod directory;
pub mod eraser;
mod failure;
pub mod file_downloader;
pub mod historian;
pub mod import;
pub mod keeper;
pub mod message_writer;
pub mod poster;
pub mod quarantine;
pub mod responder;
mod runs;
pub mod runtime;
pub mod statistician;
pub mod store;

pub use failure::PortError;
