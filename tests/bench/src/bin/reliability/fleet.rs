//! Separate processes on one installation, one of which is killed at times.

use std::net::SocketAddr;

use ::tests::harness::environment::ProgramEnvironment;
use ::tests::harness::process::{self, Process, ServerProcess};

/// Ingest, a number of message-writers, and the channel-indexer, to which they report refused events.
pub(crate) struct RealFleet<'p, P: ProgramEnvironment + ?Sized> {
    installation: &'p P,
    ingest: ServerProcess,
    writers: Vec<Process>,
    indexer: Process,
}

impl<'p, P: ProgramEnvironment + ?Sized> RealFleet<'p, P> {
    pub(crate) async fn start(installation: &'p P, writers: usize) -> Self {
        let ingest = process::ingest(installation).await;
        let indexer = process::channel_indexer(installation).await;
        let mut fleet = Self { installation, ingest, writers: Vec::new(), indexer };
        for _ in 0..writers {
            fleet.writers.push(process::message_writer(installation).await);
        }
        fleet
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ingest.address
    }

    /// Kills a random process and starts a replacement.
    pub(crate) async fn kill_one(&mut self, random: &mut fastrand::Rng) {
        let victim = random.usize(..self.writers.len() + 2);
        if victim < self.writers.len() {
            self.writers.swap_remove(victim).sigkill().await;
            self.writers.push(process::message_writer(self.installation).await);
        } else if victim == self.writers.len() {
            let next = process::channel_indexer(self.installation).await;
            std::mem::replace(&mut self.indexer, next).sigkill().await;
        } else {
            let next = process::ingest(self.installation).await;
            std::mem::replace(&mut self.ingest, next).process.sigkill().await;
        }
    }
}
