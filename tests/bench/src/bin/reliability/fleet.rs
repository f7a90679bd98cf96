//! Separate processes on one installation, one of which is killed now and then.

use std::net::SocketAddr;

use ::tests::harness::place::ProgramEnvironment;
use ::tests::harness::process::{self, Process, ServerProcess};

/// Ingest, and the given number of message-writers.
pub(crate) struct RealFleet<'p, P: ProgramEnvironment + ?Sized> {
    place: &'p P,
    ingest: ServerProcess,
    writers: Vec<Process>,
}

impl<'p, P: ProgramEnvironment + ?Sized> RealFleet<'p, P> {
    pub(crate) async fn start(place: &'p P, writers: usize) -> Self {
        let ingest = process::ingest(place).await;
        let mut fleet = Self { place, ingest, writers: Vec::new() };
        for _ in 0..writers {
            fleet.writers.push(process::message_writer(place).await);
        }
        fleet
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ingest.address
    }

    /// Kills one part and starts another in its place.
    pub(crate) async fn kill_one(&mut self, random: &mut fastrand::Rng) {
        let victim = random.usize(..=self.writers.len());
        if victim < self.writers.len() {
            self.writers.swap_remove(victim).sigkill().await;
            self.writers.push(process::message_writer(self.place).await);
        } else {
            let next = process::ingest(self.place).await;
            std::mem::replace(&mut self.ingest, next).process.sigkill().await;
        }
    }
}
