//! Events about channels, pins, and the app's access to the workspace.

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};

use super::{Maker, WorkloadMessage, is_later_id};

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

    /// A change of a channel.
    pub(super) fn happen_to_a_channel(&mut self, n: usize, clock: &str) -> Value {
        let id = self.ids[n].clone();
        let name = format!("name-{}", self.made);
        let simple = |kind: &str| json!({ "type": kind, "channel": id, "event_ts": clock });
        let message = |subtype: &str| {
            json!({
                "type": "message", "subtype": subtype, "channel": id, "channel_type": "channel", "user": "U0",
                "text": name, "topic": name, "purpose": name, "ts": clock, "event_ts": clock,
            })
        };
        let object = json!({ "id": id, "name": name });
        let kinds = if is_later_id(&id) { 8 } else { 9 };
        match self.world.random_below(kinds) {
            0 => json!({ "type": "channel_created", "channel": object, "event_ts": clock }),
            1 | 2 => json!({ "type": "channel_rename", "channel": object, "event_ts": clock }),
            3 => simple("channel_archive"),
            4 => simple("channel_unarchive"),
            5 => simple("channel_left"),
            6 => message("channel_topic"),
            7 => message("channel_purpose"),
            _ => {
                self.converted[n] = true;
                // Slack sends its event once: if it is lost, only what follows shows that the channel is private.
                if self.world.chance_percent(50) {
                    return self
                        .post(n, event::message(clock, "U0", &format!("text {} in private", self.made)));
                }
                event::with_fields(message("channel_convert_to_private"), [("channel_type", "group".into())])
            }
        }
    }
}
