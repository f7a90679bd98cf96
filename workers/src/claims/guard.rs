//! A claim while it is one's own.

use std::time::Duration;

use ports::claims::{Claim, ClaimsError};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Claimant, GrantedBy, Sink};

/// A claim that is the caller's until it is completed or released. Dropped (the job's lease was lost, the process is
/// drained, the work panicked), it stays in progress, and its lease ends by itself.
pub struct ClaimGuard<'c> {
    claimant: &'c Claimant,
    claim: Claim,
    sink: Sink,
    place: GrantedBy,
    /// Until then it is safe to go on.
    until: Instant,
}

/// The claim was lost while the work went on: another owner may work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another process took over the claim")]
pub struct Lost;

/// A lease is taken for ended a little early, for the way to the table and back.
fn safe(lease: Duration) -> Duration {
    lease - lease / 6
}

impl<'c> ClaimGuard<'c> {
    pub(super) fn new(
        claimant: &'c Claimant,
        claim: Claim,
        sink: Sink,
        place: GrantedBy,
        asked_at: Instant,
    ) -> Self {
        let until = asked_at + safe(claim.lease);
        Self { claimant, claim, sink, place, until }
    }

    /// Does the work and keeps the claim meanwhile. Work whose claim is lost is dropped where it stands.
    ///
    /// # Errors
    /// [`Lost`].
    pub async fn keep<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            lost = self.renew_again_and_again() => Err(lost),
        }
    }

    /// The work is done, and what it left is durable.
    ///
    /// # Errors
    /// If that could not be recorded. A caller with an idempotent sink need not care: the next claimant finds the work done.
    pub async fn complete(self) -> Result<(), ClaimsError> {
        let Self { claimant, claim, sink, place, .. } = self;
        claimant.memory.complete(&claim, claimant.clock.now());
        if place == GrantedBy::Memory || claimant.carries_on(sink) {
            return Ok(());
        }
        let completed = claimant.table.complete(&claim).await;
        claimant.ended("complete", &claim, sink, completed)
    }

    /// The work is not done, and the next may try.
    pub async fn release(self) {
        let Self { claimant, claim, sink, place, .. } = self;
        claimant.memory.release(&claim);
        if place == GrantedBy::Memory || claimant.carries_on(sink) {
            return;
        }
        let released = claimant.table.release(&claim).await;
        if let Err(error) = claimant.ended("release", &claim, sink, released) {
            tracing::debug!(event_key = %claim.key, %error, "a claim was not released; its lease ends by itself");
        }
    }

    /// Never ends but by losing the claim.
    async fn renew_again_and_again(&mut self) -> Lost {
        let lease = self.claim.lease;
        let mut wait = lease / 3;
        loop {
            sleep_until(self.until.min(Instant::now() + wait)).await;
            let asked_at = Instant::now();
            // After a failure the next try comes sooner: ownership is at stake.
            wait = lease / 15;
            let renewed = match timeout_at(self.until, self.renew()).await {
                Ok(renewed) => renewed,
                Err(_) => self.unrenewed(&ClaimsError::Unavailable("it did not answer in time".into())),
            };
            match renewed {
                Renewed::Yes => {
                    self.until = asked_at + safe(lease);
                    wait = lease / 3;
                }
                Renewed::NotYet if Instant::now() < self.until => {}
                Renewed::NotYet | Renewed::No => {
                    tracing::warn!(event_key = %self.claim.key, "a claim was lost");
                    return Lost;
                }
            }
        }
    }

    async fn renew(&self) -> Renewed {
        let Claimant { table, memory, clock, .. } = self.claimant;
        if self.place == GrantedBy::Memory || self.claimant.carries_on(self.sink) {
            memory.note(&self.claim, clock.now());
            return Renewed::Yes;
        }
        match table.renew(&self.claim).await {
            Ok(()) => {
                self.claimant.answered();
                memory.note(&self.claim, clock.now());
                Renewed::Yes
            }
            Err(ClaimsError::NotOwner) => {
                memory.release(&self.claim);
                Renewed::No
            }
            Err(error @ ClaimsError::Unavailable(_)) => self.unrenewed(&error),
        }
    }

    fn unrenewed(&self, error: &ClaimsError) -> Renewed {
        match self.claimant.failed("renew", error, self.sink) {
            GrantedBy::Memory => {
                self.claimant.memory.note(&self.claim, self.claimant.clock.now());
                Renewed::Yes
            }
            GrantedBy::Table => Renewed::NotYet,
        }
    }
}

enum Renewed {
    Yes,
    /// It is unknown.
    NotYet,
    /// Another owner has it.
    No,
}

impl Claimant {
    /// What it means how a claim ended.
    fn ended(
        &self,
        operation: &'static str,
        claim: &Claim,
        sink: Sink,
        ended: Result<(), ClaimsError>,
    ) -> Result<(), ClaimsError> {
        match &ended {
            Ok(()) => self.answered(),
            Err(ClaimsError::NotOwner) => {}
            Err(error @ ClaimsError::Unavailable(_)) => {
                if self.failed(operation, error, sink) == GrantedBy::Memory && operation == "complete" {
                    // Now that memory has to.
                    self.memory.complete(claim, self.clock.now());
                }
            }
        }
        ended
    }
}
