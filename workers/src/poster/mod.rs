//! poster: posts answers to Slack, each exactly once as far as Slack makes that detectable.
//!
//! `chat.postMessage` has no idempotency key. So an intent is stored before each part is posted, and the part
//! is looked up before it is posted again. <https://docs.slack.dev/reference/methods/chat.postMessage>
//!
//! * [`posting`] posts an answer from its row to its last part, step by step.
//! * [`message`] makes the call, and interprets its response. [`lookup`] looks up a part that may have been
//!   posted.
//! * [`pace`] applies Slack's rate limit for a channel.

mod lookup;
mod message;
mod pace;
mod posting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::QueueName;
use slack::ids::TeamId;
use slack_api::WebApi;
use tokio::time::Instant;

use self::pace::ChannelPace;
use crate::claims::Claimant;
use crate::responder::ResponderLimits;
use crate::runtime::{Batch, DecodedPayload, Ports, Worker};

/// Answers posted concurrently: each mostly waits for its channel's pace or for Slack.
const SLOTS: usize = 16;

/// Posts answers.
pub struct Poster {
    ports: Ports,
    claimant: Claimant,
    web: Arc<WebApi>,
    pace: ChannelPace,
    /// The maximum age of an answer that is posted.
    max_age: Duration,
    /// Workspaces whose token may not post, and until when posting there is suspended.
    stopped: Mutex<HashMap<TeamId, Instant>>,
}

impl Poster {
    /// A poster to this Slack.
    pub fn new(ports: Ports, claimant: Claimant, web: Arc<WebApi>, limits: ResponderLimits) -> Self {
        let pace = ChannelPace::new(limits.post_interval);
        Self { ports, claimant, web, pace, max_age: limits.max_age, stopped: Mutex::default() }
    }

    fn now_s(&self) -> i64 {
        self.ports.clock.now().seconds()
    }
}

#[async_trait]
impl Worker for Poster {
    fn queue(&self) -> QueueName {
        QueueName::Replies
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn slots(&self) -> Option<usize> {
        Some(SLOTS)
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Reply(reply) = &job.payload {
                job.finish(self.post(reply).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
