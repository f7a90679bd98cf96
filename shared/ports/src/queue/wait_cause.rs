//! What a job waits for.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Live work: it is part of a bulk of work, such as an import, which comes after it.
    Bulk,
}

impl WaitCause {
    /// All causes.
    pub const ALL: [Self; 7] =
        [Self::Token, Self::NoToken, Self::Scope, Self::Slack, Self::Order, Self::Redelivered, Self::Bulk];

    /// Its name in rows, outputs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::NoToken => "no_token",
            Self::Scope => "scope",
            Self::Slack => "slack",
            Self::Order => "order",
            Self::Redelivered => "redelivered",
            Self::Bulk => "bulk",
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
