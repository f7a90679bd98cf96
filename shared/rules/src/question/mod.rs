//! Questions to the responder: how they are recognized, their states, and their rows.
//!
//! * [`recognition`]: whether a message is a question. [`asker`]: whether its author may ask.
//! * [`state`]: the states of a question, of its answer, and of each part of the answer.
//! * [`rows`]: the rows of questions and answers. [`job`]: the jobs about them.
//! * [`budget`]: the limits of questions per hour and per thread.

pub mod asker;
pub mod budget;
pub mod job;
pub mod recognition;
pub mod rows;
pub mod state;

use serde::{Deserialize, Serialize};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

/// The message that asks a question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuestionId {
    pub team: TeamId,
    pub channel: ChannelId,
    pub ts: Ts,
    /// The thread that it is in or starts.
    pub thread_ts: Ts,
}

/// The content of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionText {
    /// The user who asks.
    pub user: UserId,
    /// The text as Slack sent it.
    pub text: String,
    /// The app's own user, if the text mentions it; otherwise the message is in a thread in which the app has
    /// posted.
    pub mentioned: Option<UserId>,
    /// The files in the message.
    pub files: Vec<FileId>,
}

/// A question in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The message.
    pub id: QuestionId,
    pub content: QuestionText,
}

impl QuestionId {
    /// Its name in requests to a processor and to Slack.
    pub fn name(&self) -> String {
        let Self { team, channel, ts, .. } = self;
        format!("{team}.{channel}.{ts}")
    }
}
