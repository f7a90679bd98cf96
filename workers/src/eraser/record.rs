//! The stored record of an erasure: that it happened, by whom, and the counts. It contains no content and no
//! name.

use ports::archive::{ItemKey, Update, text_attributes};
use rules::message::rfc3339;
use serde_json::Value;
use slack::ids::{TeamId, Ts};

use super::EraserCounts;

/// A completed erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureRecord {
    pub team: TeamId,
    /// The time of the request, by the clock of the machine.
    pub at: Ts,
    /// What was erased: `user#…`, `channel#…`, `message#…`, or `replay`.
    pub scope: String,
    /// The user who requested it, by their account name on the machine.
    pub by: Option<String>,
    pub counts: EraserCounts,
    /// Jobs that were removed from queues.
    pub jobs: u64,
}

impl ErasureRecord {
    /// The update that writes the row.
    #[must_use]
    pub fn update(&self) -> Update {
        let Self { team, at, scope, by, counts, jobs } = self;
        let texts = [("type", "erasure"), ("team_id", team.as_str()), ("scope", scope), ("at", &rfc3339(at))];
        let mut set_if_absent = text_attributes(texts);
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
        let key = ItemKey::erasure_record(team, at, scope);
        Update { set_if_absent, ..Update::new(key) }
    }
}
