//! Events about pins, and about the app's access to the workspace.

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};

use super::{Maker, WorkloadMessage};

impl Maker<'_> {
    /// Pins a message, or removes the last pin.
    pub(super) fn pin(&mut self, at: usize, user: &str, clock: &str) -> Value {
        if let Some((channel, ts)) = self.pinned.take() {
            return event::pin_removed(&channel, &ts, user, clock);
        }
        let WorkloadMessage { channel, message } = &self.messages[at];
        let (channel, ts) = (self.ids[*channel].clone(), message["ts"].as_str().unwrap_or_default());
        self.pinned = Some((channel.clone(), ts.to_owned()));
        event::pin_added(&channel, ts, user, clock)
    }

    /// The app loses or regains its access, or the workspace moves to Enterprise Grid.
    pub(super) fn lose_access(&self, clock: &str) -> Value {
        match self.world.random_below(5) {
            0 => json!({ "type": "tokens_revoked", "tokens": { "bot": ["U0BOT"] }, "event_ts": clock }),
            1 => json!({ "type": "team_access_revoked", "team_ids": [TEAM], "event_ts": clock }),
            2 => json!({ "type": "team_access_granted", "team_ids": [TEAM], "event_ts": clock }),
            3 => json!({ "type": "grid_migration_started", "enterprise_id": "E0GRID", "event_ts": clock }),
            _ => json!({ "type": "grid_migration_finished", "enterprise_id": "E0GRID", "event_ts": clock }),
        }
    }
}
