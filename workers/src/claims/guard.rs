//! A claim that this process owns.

use std::time::Duration;

use ports::claims::{Claim, ClaimsError};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Claimant, GrantedBy, Sink};

/// A claim that the caller owns until it is completed or released. If the guard is dropped (the job's lease
/// was lost, the process is drained, the work panicked), the claim stays in progress until its lease expires.
pub struct ClaimGuard<'c> {
    pub(super) claimant: &'c Claimant,
    pub(super) claim: Claim,
    pub(super) sink: Sink,
    pub(super) granted_by: GrantedBy,
    /// Until then the lease is certain not to have expired.
    pub(super) until: Instant,
}

/// The claim was lost during the work: another owner may work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another process took over the claim")]
pub struct Lost;

/// The part of a lease that is safe to use: it is treated as expired a little early, to allow for the round
/// trip to the table.
pub(super) fn safe(lease: Duration) -> Duration {
    lease - lease / 6
}

impl ClaimGuard<'_> {
    /// Does the work and renews the claim meanwhile. If the claim is lost, the work is dropped at its current
    /// await point.
    pub async fn keep<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            lost = self.renew_until_lost() => Err(lost),
        }
    }

    /// Records that the work is done and its result is durable.
    ///
    /// # Errors
    /// If the completion could not be recorded. A caller with an idempotent sink may ignore it: the next
    /// claimant finds the work done.
    pub async fn complete(self) -> Result<(), ClaimsError> {
        let Self { claimant, claim, sink, granted_by, .. } = self;
        claimant.memory.complete(&claim, claimant.clock.now());
        if granted_by == GrantedBy::Memory || claimant.is_in_fallback(sink) {
            return Ok(());
        }
        let completed = claimant.table.complete(&claim).await;
        claimant.note_end("complete", &claim, sink, completed)
    }

    /// Releases the claim: the work is not done, and another process may try.
    pub async fn release(self) {
        let Self { claimant, claim, sink, granted_by, .. } = self;
        claimant.memory.release(&claim);
        if granted_by == GrantedBy::Memory || claimant.is_in_fallback(sink) {
            return;
        }
        let released = claimant.table.release(&claim).await;
        if let Err(error) = claimant.note_end("release", &claim, sink, released) {
            tracing::debug!(event_key = %claim.key, %error, "a claim was not released; its lease ends by itself");
        }
    }

    /// Returns only when the claim is lost.
    async fn renew_until_lost(&mut self) -> Lost {
        let lease = self.claim.lease;
        let mut wait = lease / 3;
        loop {
            sleep_until(self.until.min(Instant::now() + wait)).await;
            let asked_at = Instant::now();
            // After a failure, retry sooner: ownership is at stake.
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
        if self.granted_by == GrantedBy::Memory || self.claimant.is_in_fallback(self.sink) {
            memory.record_claim(&self.claim, clock.now());
            return Renewed::Yes;
        }
        match table.renew(&self.claim).await {
            Ok(()) => {
                self.claimant.note_table_answer();
                memory.record_claim(&self.claim, clock.now());
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
        match self.claimant.note_table_failure("renew", error, self.sink) {
            GrantedBy::Memory => {
                self.claimant.memory.record_claim(&self.claim, self.claimant.clock.now());
                Renewed::Yes
            }
            GrantedBy::Table => Renewed::NotYet,
        }
    }
}

enum Renewed {
    Yes,
    /// It is unknown whether the claim was renewed.
    NotYet,
    /// Another owner has the claim.
    No,
}

impl Claimant {
    /// Handles the table's answer to the end of a claim.
    fn note_end(
        &self,
        operation: &'static str,
        claim: &Claim,
        sink: Sink,
        ended: Result<(), ClaimsError>,
    ) -> Result<(), ClaimsError> {
        match &ended {
            Ok(()) => self.note_table_answer(),
            Err(ClaimsError::NotOwner) => {}
            Err(error @ ClaimsError::Unavailable(_)) => {
                if self.note_table_failure(operation, error, sink) == GrantedBy::Memory
                    && operation == "complete"
                {
                    // From now on, claims are kept in memory.
                    self.memory.complete(claim, self.clock.now());
                }
            }
        }
        ended
    }
}
