//! The responder's limits, some of which the poster shares.

use std::num::NonZeroU32;
use std::time::Duration;

/// Most of the time for an answer is spent waiting for a model.
pub const CONCURRENCY: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// A question that a user resets with SQL is answered within a minute and a half.
const RESET_POLL_INTERVAL: Duration = Duration::from_secs(45);

/// The limits on questions, answers and context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderLimits {
    /// Bytes of a thread that are sent with a question.
    pub context_bytes: usize,
    /// The maximum age of a question.
    pub max_age: Duration,
    /// Questions answered concurrently in this process.
    pub concurrency: usize,
    /// Questions per hour.
    pub per_hour: u32,
    /// Questions per hour from one user.
    pub per_user_hour: u32,
    /// Questions in a thread without another mention.
    pub per_thread: u32,
    /// The interval between two messages to one channel.
    pub post_interval: Duration,
    /// Messages per minute to one workspace; unlimited if `None`.
    pub posts_per_minute: Option<NonZeroU32>,
    /// The interval between two polls for questions that were reset with SQL. Each poll reads all rows.
    pub reset_poll_interval: Duration,
}

impl Default for ResponderLimits {
    fn default() -> Self {
        Self {
            context_bytes: 32 * 1024,
            max_age: Duration::from_secs(3_600),
            concurrency: CONCURRENCY.get() as usize,
            per_hour: 200,
            per_user_hour: 20,
            per_thread: 30,
            post_interval: Duration::from_secs(1),
            posts_per_minute: NonZeroU32::new(200),
            reset_poll_interval: RESET_POLL_INTERVAL,
        }
    }
}
