//! poster: answers into Slack, each exactly once as far as Slack lets that be known.
//!
//! `chat.postMessage` has no idempotency key. So each part is written down before it is posted, and looked for before it is
//! posted again. <https://docs.slack.dev/reference/methods/chat.postMessage>
//!
//! * [`posting`] takes an answer from its row to the last of its parts, step by step.
//! * [`message`] is the call, and what an answer to it means. [`lookup`] looks for a part that may have been posted.
//! * [`pace`] is Slack's limit for a channel.

mod lookup;
mod message;
mod pace;
mod posting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::QueueName;
use process::config::responder::ResponderLimits;
use slack::ids::TeamId;
use slack_api::WebApi;
use tokio::time::Instant;

use self::pace::ChannelPace;
use crate::claims::Claimant;
use crate::runtime::{Batch, DecodedPayload, Ports, Worker};

/// Answers posted at once: most of the time each waits for its channel's pace or for Slack.
const SLOTS: usize = 16;

/// Posts answers.
pub struct Poster {
    ports: Ports,
    claimant: Claimant,
    web: Arc<WebApi>,
    pace: ChannelPace,
    /// How old an answer may be that is posted.
    max_age: Duration,
    /// Workspaces whose token may not post, and until when nothing is posted there.
    stopped: Mutex<HashMap<TeamId, Instant>>,
}

impl Poster {
    /// A poster to this Slack.
    pub fn new(ports: Ports, claimant: Claimant, web: Arc<WebApi>, limits: ResponderLimits) -> Self {
        let pace = ChannelPace::new(limits.between_posts);
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
