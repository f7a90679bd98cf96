//! The claims port: leases on work that is too expensive to do twice, or must not be done twice.
//!
//! Claim with a lease, do the work, complete the claim, ack. Never mark work as done before it is done: a
//! mark on receipt would turn every later crash and error into a loss, because the next attempt would treat
//! the work as done. So a claim in progress ends with its lease, and only finished work completes a claim.
//!
//! * [`key`]: keys and owners of claims. [`state`]: the rule that decides who may claim.

pub mod key;
pub mod state;

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::TimestampMs;
use slack::ids::{ChannelId, FileId, UserId};

pub use key::{ClaimKey, ClaimOwner};
pub use state::{ClaimState, ClaimStatus};

/// The default time for which a completed claim is remembered. After that, the work itself must detect that
/// it was done; messages rarely stay on the queue for longer.
pub const DEFAULT_TTL: Duration = Duration::from_secs(6 * 3600);

/// The subject of the work, only for people who read the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimContext {
    pub file_id: Option<FileId>,
    /// The channel where it was shared.
    pub channel_id: Option<ChannelId>,
    /// The user who shared it.
    pub user_id: Option<UserId>,
}

/// A claim. The caller passes the same value in every call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The key of the claimed work.
    pub key: ClaimKey,
    /// The owner. Each claim has its own owner, so that two tasks of one process have different owners.
    pub owner: ClaimOwner,
    /// The subject of the work.
    pub about: ClaimContext,
    /// How long the claim excludes other owners after each claim and renewal. Rounded up to whole seconds; at most
    /// [`MAX_LEASE`](crate::lease::MAX_LEASE).
    pub lease: Duration,
    /// How long the row is remembered after each claim, renewal and completion. At least as long as the
    /// lease.
    pub ttl: Duration,
}

/// Which claims a caller may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Only a claim that has no other owner and is not completed.
    IfFree,
    /// Even a completed claim: the caller has found that the work is not done after all.
    EvenCompleted,
}

/// The result of an attempt to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The caller owns the claim until the lease ends.
    Claimed,
    /// The claim was completed before.
    Completed,
    /// Another owner has the claim at least until this time.
    HeldUntil(TimestampMs),
}

/// A failed operation on the table of claims.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// The backend did not answer in time or failed. The outcome of the call is unknown; retrying it is safe.
    #[error("the table of claims is unavailable: {0}")]
    Unavailable(String),
    /// The claim ended, and another owner has or had it: work done under it since then does not count.
    #[error("the claim is not its owner's any more")]
    NotOwner,
}

/// A table of claims. Every call is atomic and can be retried safely: an owner that lost the response to its
/// claim gets the claim again.
///
/// Every condition includes expiry: a row whose `ttl` or lease has ended is ignored, even if it is not
/// deleted yet.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Takes the claim if no other owner has it and, with [`ClaimMode::IfFree`], it was not completed.
    /// [`ClaimState::answer_to`] defines the rule. Never returns [`ClaimsError::NotOwner`].
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError>;

    /// Restarts the lease. A lease that has ended can be renewed as long as no other owner took the claim.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if the claim is not in progress for this owner.
    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Marks the work as done.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if the claim has another owner: a zombie process cannot complete it.
    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Releases the claim: another owner can take it immediately. Does nothing if the claim is gone.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if another owner has it, or it was completed.
    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Checks whether the table can accept a claim now.
    async fn ready(&self) -> Result<(), ClaimsError>;
}
