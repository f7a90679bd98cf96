//! What is kept of an erasure: that there was one, by whom, and how much went. No content, and no name.

use ports::archive::{Attributes, ItemKey, Update, key};
use rules::message::rfc3339;
use serde_json::Value;
use slack::ids::{TeamId, Ts};

use super::EraserCounts;

/// An erasure that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureRecord {
    /// In which workspace.
    pub team: TeamId,
    /// When it was asked for, by the clock of the machine.
    pub at: Ts,
    /// What was erased: `user#…`, `channel#…`, `message#…`, or `replay`.
    pub scope: String,
    /// Who asked for it, as the machine calls them.
    pub by: Option<String>,
    /// How much went.
    pub counts: EraserCounts,
    /// Jobs that were removed from queues.
    pub jobs: u64,
}

impl ErasureRecord {
    /// The row.
    #[must_use]
    pub fn update(&self) -> Update {
        let Self { team, at, scope, by, counts, jobs } = self;
        let texts = [("type", "erasure"), ("team_id", team.as_str()), ("scope", scope), ("at", &rfc3339(at))];
        let mut set_if_absent: Attributes =
            texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        set_if_absent.extend(by.as_ref().map(|by| ("by".to_owned(), Value::from(by.as_str()))));
        let EraserCounts { messages, revisions, files, bytes, users, states, reports, quarantined, .. } =
            *counts;
        let numbers = [
            ("messages", messages),
            ("revisions", revisions),
            ("files", files),
            ("bytes", bytes),
            ("users", users),
            ("states", states),
            ("reports", reports),
            ("quarantined", quarantined),
            ("jobs", *jobs),
        ];
        set_if_absent.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        let key = ItemKey::new(key::erasure_records(team), format!("{}#{scope}", at.padded()));
        Update { set_if_absent, ..Update::new(key) }
    }
}
