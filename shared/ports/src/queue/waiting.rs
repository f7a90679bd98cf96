//! Jobs that wait for something outside themselves, such as a token: rows `waiting#{queue}#{team}` hold them
//! aside, so that they neither fill the queue nor are received again and again. A `wake` job, one for each
//! queue and workspace, sends them back: first one, then, as long as that succeeds, ten times as many.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::job::encode_job;
use super::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::TeamId;

/// What a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A token that Slack accepts.
    Token,
    /// A token for its workspace.
    NoToken,
    /// A scope that the app lacks.
    Scope,
    /// Slack, which fails.
    Slack,
    /// Older jobs of its workspace, which wait: what they write decides on this one.
    Order,
    /// Nothing known: it was received too often, and is tried once more.
    Redelivered,
}

impl WaitCause {
    /// All causes.
    pub const ALL: [Self; 6] =
        [Self::Token, Self::NoToken, Self::Scope, Self::Slack, Self::Order, Self::Redelivered];

    /// Its name in rows, outputs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::NoToken => "no_token",
            Self::Scope => "scope",
            Self::Slack => "slack",
            Self::Order => "order",
            Self::Redelivered => "redelivered",
        }
    }

    /// The cause of this name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.label() == label)
    }
}

impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A job of the runtime: send back jobs of this workspace that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub team: TeamId,
    /// Its number among the wakes of this queue and workspace: only the latest acts.
    pub number: u64,
}

impl Wake {
    /// The message for a queue, in a group of its own.
    pub fn message(&self, queue: QueueName) -> Outgoing {
        let number = self.number.to_be_bytes();
        Outgoing {
            queue,
            group: GroupId::from_parts(&[self.team.as_str(), "wake"]),
            dedup: DedupId::from_parts(&[
                b"wake",
                queue.spec().label.as_bytes(),
                self.team.as_str().as_bytes(),
                &number,
            ]),
            body: encode_job("wake", self),
        }
    }
}
