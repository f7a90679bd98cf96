//! The consumer runtime and the workers.
//!
//! A worker is one folder: what it consumes, a function over ports, its tests. The runtime owns everything else:
//! leases, order, backoff, poison, quarantine, draining.

mod audience;
pub mod channel_indexer;
pub mod claims;
mod clearance;
pub mod directory;
pub mod existence;
mod failure;
pub mod file_downloader;
#[cfg(feature = "aws")]
pub mod lambda;
mod marks;
pub mod message_writer;
pub mod quarantine;
mod runs;
pub mod runtime;
pub mod standalone;

use std::sync::Arc;

use claims::Claimant;
use directory::Joiner;
use ports::files::Files;
use runtime::{Ports, Worker};
use slack_api::WebApi;

/// What the fleet is made of.
pub struct Equipment {
    /// Where jobs and rows are.
    pub ports: Ports,
    /// Where bytes are.
    pub files: Arc<dyn Files>,
    /// Slack.
    pub web: Arc<WebApi>,
    /// Asks Slack whether what events claim exists.
    pub existence: existence::Check,
    /// Joins new channels; none where joining is refused.
    pub joiner: Option<Joiner>,
    /// Who claims what is dear.
    pub claimant: Claimant,
    /// The downloader's limits.
    pub downloads: file_downloader::Settings,
}

/// Every worker of the fleet, in the order of the flow. `annalist up` runs them all; each also has a binary.
#[must_use]
pub fn registry(equipment: Equipment) -> Vec<Arc<dyn Worker>> {
    let Equipment {
        ports: Ports { queue, archive, clock },
        files,
        web,
        existence,
        joiner,
        claimant,
        downloads,
    } = equipment;
    vec![
        Arc::new(
            message_writer::MessageWriter::new(Arc::clone(&archive), queue)
                .checked_by(existence.clone())
                .timed_by(clock),
        ),
        Arc::new(channel_indexer::ChannelIndexer::new(Arc::clone(&archive), joiner).checked_by(existence)),
        Arc::new(file_downloader::FileDownloader::new(archive, files, web, claimant, downloads)),
    ]
}
