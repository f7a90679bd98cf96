//! Questions to the responder: what is one, how far it has come, and its rows.
//!
//! * [`asked`]: whether a message asks something. [`asker`]: whether its author may.
//! * [`state`]: how far a question and its answer have come, and each part of it.
//! * [`rows`]: the rows of questions and answers. [`job`]: the jobs about them.
//! * [`budget`]: how many questions an hour and a thread may have.

pub mod asked;
pub mod asker;
pub mod budget;
pub mod job;
pub mod rows;
pub mod state;

use serde::{Deserialize, Serialize};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

/// Which message asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuestionId {
    /// The workspace.
    pub team: TeamId,
    /// The channel.
    pub channel: ChannelId,
    /// The message.
    pub ts: Ts,
    /// The thread that it is in, or begins.
    pub thread_ts: Ts,
}

/// What a message asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionText {
    /// Who asks.
    pub user: UserId,
    /// The text as Slack sent it.
    pub text: String,
    /// The app's own user, if the text mentions it; otherwise it stands in a thread where the app has spoken.
    pub mentioned: Option<UserId>,
    /// The files with it.
    pub files: Vec<FileId>,
}

/// A message that asks something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which message.
    pub id: QuestionId,
    /// What it asks.
    pub asked: QuestionText,
}

impl QuestionId {
    /// Its name in what is sent to a processor and to Slack.
    pub fn name(&self) -> String {
        let Self { team, channel, ts, .. } = self;
        format!("{team}.{channel}.{ts}")
    }
}
