//! The claims port: who works on what, and until when, for work that is too expensive to be done twice, or must not be.
//!
//! Claim with a lease, do the work, complete the claim, ack. Nothing is marked before it is done: a mark on receipt
//! turns every crash and every error after it into a loss, because the next attempt would find it done already. So a
//! claim in progress ends with its lease, and only work that is done completes one.
//!
//! * [`key`]: what is claimed, and by whom. [`state`]: the one rule of who may claim.

pub mod key;
pub mod state;

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::TimestampMs;
use slack::ids::{ChannelId, FileId, UserId};

pub use key::{ClaimKey, ClaimOwner};
pub use state::{ClaimState, ClaimStatus};

/// How long a completed claim is remembered by default. Later, the work itself has to know that it was done; what is on the
/// queue for longer is rare.
pub const DEFAULT_TTL: Duration = Duration::from_secs(6 * 3600);

/// What the work is about: for people who look at the table, and for nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// A file.
    pub file_id: Option<FileId>,
    /// Where it was shared.
    pub channel_id: Option<ChannelId>,
    /// By whom.
    pub user_id: Option<UserId>,
}

/// A claim: the same value in every call, from the first to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What is claimed.
    pub key: ClaimKey,
    /// Who claims it. Each claim has an owner of its own, so that two tasks of one process are two.
    pub owner: ClaimOwner,
    /// What it is about.
    pub about: About,
    /// From each claim and renewal on, no other owner may have it for this long. Whole seconds; a part counts as one.
    pub lease: Duration,
    /// From each claim, renewal and completion on, its row is remembered for so long. No less than the lease.
    pub ttl: Duration,
}

/// What may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// A claim that is not held and not completed.
    IfFree,
    /// Even a completed one: the caller has seen that the work is not done after all.
    EvenCompleted,
}

/// What became of an attempt to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// It is the owner's, until the lease ends.
    Claimed,
    /// It was completed before.
    Completed,
    /// Another owner has it, until then at least.
    HeldUntil(TimestampMs),
}

/// What the table of claims could not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// The backend did not answer in time or failed. Nothing is known about the call; doing it again is safe.
    #[error("the table of claims is unavailable: {0}")]
    Unavailable(String),
    /// The claim ended, and another owner has it or had it: work that was done for it since no longer counts.
    #[error("the claim is not its owner's any more")]
    NotOwner,
}

/// A table of claims. Every call is one atomic step, and every call may be repeated without harm: an owner that heard no
/// answer to its own claim finds itself.
///
/// Expiry is part of every condition: a row whose `ttl` or lease has ended counts for nothing, deleted or not.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Claims it if no other owner has it and, with [`Take::IfFree`], it was not completed. [`ClaimState::answer_to`] is the
    /// rule. Never answers [`ClaimsError::NotOwner`].
    async fn claim(&self, claim: &Claim, take: Take) -> Result<ClaimAnswer, ClaimsError>;

    /// Begins the lease anew. A lease that has ended can be renewed as long as no other owner took the claim.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if it is not in progress for this owner.
    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Remembers that the work is done.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if the claim is not this owner's: a zombie completes nothing.
    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Gives the claim up: the next may have it at once. Does nothing if the claim is gone.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if another owner has it, or it was completed.
    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError>;

    /// Whether a claim could be made now.
    async fn ready(&self) -> Result<(), ClaimsError>;
}
