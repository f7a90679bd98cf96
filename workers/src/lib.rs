//! The consumer runtime and the workers.
//!
//! A worker is one folder: what it consumes, a function over ports, its tests. The runtime owns everything else:
//! leases, order, backoff, poison, quarantine, draining.

pub mod message_writer;
#[cfg(feature = "embedded")]
pub mod process;
pub mod quarantine;
pub mod runtime;

use std::sync::Arc;

use runtime::{Ports, Worker};

/// Every worker of the fleet, in the order of the flow. `annalist up` runs them all; each also has a binary.
#[must_use]
pub fn registry(ports: &Ports) -> Vec<Arc<dyn Worker>> {
    vec![Arc::new(message_writer::MessageWriter::new(Arc::clone(&ports.archive)))]
}
