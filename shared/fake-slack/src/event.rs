//! Single events, in the format that Slack documents and sends.
//!
//! Each function returns the inner `event`; [`envelope`] wraps it into a request body. A *message* is the
//! object in history and inside `message_changed`; [`posted`] turns it into the event that announces it.

use serde_json::{Value, json};

/// Another organisation, with which a channel is shared.
pub const PARTNER: &str = "T0PARTNER01";

/// How the envelope of an event names the app's workspace.
/// <https://docs.slack.dev/apis/events-api/#authorizations>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeShape {
    /// In each of its three fields.
    Regular,
    /// Only in `team_id`, as Slack did before there were authorizations.
    TeamIdOnly,
    /// `team_id` names the partner of a shared channel.
    Partner,
    /// The same without `context_team_id`.
    PartnerWithoutContext,
    /// The same without authorizations.
    PartnerWithoutAuthorizations,
    /// The app is installed in an organisation: the authorization names no workspace.
    OrgWide,
}

impl EnvelopeShape {
    pub const ALL: [Self; 6] = [
        Self::Regular,
        Self::TeamIdOnly,
        Self::Partner,
        Self::PartnerWithoutContext,
        Self::PartnerWithoutAuthorizations,
        Self::OrgWide,
    ];

    /// Changes the envelope of an event into this shape.
    pub fn apply(self, envelope: &str) -> String {
        let mut body: Value = serde_json::from_str(envelope).unwrap_or_default();
        let changes = match self {
            Self::Regular => return envelope.to_owned(),
            Self::TeamIdOnly => json!({ "context_team_id": null, "authorizations": null }),
            Self::Partner => json!({ "team_id": PARTNER, "is_ext_shared_channel": true }),
            Self::PartnerWithoutContext => {
                json!({ "team_id": PARTNER, "is_ext_shared_channel": true, "context_team_id": null })
            }
            Self::PartnerWithoutAuthorizations => {
                json!({ "team_id": PARTNER, "is_ext_shared_channel": true, "authorizations": [] })
            }
            Self::OrgWide => {
                let authorization = with_fields(
                    body["authorizations"][0].take(),
                    [
                        ("enterprise_id", "E0ORGANISATION".into()),
                        ("team_id", "E0ORGANISATION".into()),
                        ("is_enterprise_install", true.into()),
                    ],
                );
                json!({ "authorizations": [authorization] })
            }
        };
        if let (Value::Object(body), Value::Object(changes)) = (&mut body, changes) {
            body.extend(changes);
        }
        body.to_string()
    }
}

/// Returns the body of a request that delivers `event`. `event_id` distinguishes deliveries.
pub fn envelope(team: &str, event_id: &str, event: &Value) -> String {
    let event_time_s: i64 = event["event_ts"]
        .as_str()
        .and_then(|clock| clock.split('.').next())
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_default();
    let event_context = format!("4-{event_id}-{team}");
    json!({
        "token": "not-checked-any-more",
        "team_id": team,
        "context_team_id": team,
        "context_enterprise_id": null,
        "api_app_id": "A0ANNALIST",
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": event_time_s,
        "authorizations": [{
            "enterprise_id": null, "team_id": team, "user_id": "U0ANNALIST", "is_bot": true,
            "is_enterprise_install": false,
        }],
        "is_ext_shared_channel": false,
        "event_context": event_context,
    })
    .to_string()
}

/// Returns the event that announces a message in a public channel.
pub fn posted(channel: &str, message: &Value) -> Value {
    with_fields(
        message.clone(),
        [
            ("channel", channel.into()),
            ("channel_type", "channel".into()),
            ("event_ts", message["ts"].clone()),
        ],
    )
}

/// Returns the event of an edit, an unfurl or a tombstone: `after` replaced `before`.
pub fn changed(channel: &str, before: &Value, after: &Value, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "message": after,
        "previous_message": before,
    })
}

/// Returns the event of a deletion.
pub fn deleted(channel: &str, message: &Value, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "deleted_ts": message["ts"],
        "previous_message": message,
    })
}

/// Returns the `message_replied` event, which reports a reply on the root of its thread.
pub fn replied(channel: &str, root: &Value, reply_ts: &str, event_ts: &str) -> Value {
    let root = with_fields(
        root.clone(),
        [("thread_ts", root["ts"].clone()), ("reply_count", 1.into()), ("latest_reply", reply_ts.into())],
    );
    json!({
        "type": "message", "subtype": "message_replied", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "message": root,
    })
}

/// Returns the event of an added reaction.
pub fn reaction_added(channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    reaction("reaction_added", channel, ts, user, name, event_ts)
}

/// Returns the event of a removed reaction.
pub fn reaction_removed(channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    reaction("reaction_removed", channel, ts, user, name, event_ts)
}

fn reaction(kind: &str, channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": kind, "user": user, "reaction": name, "item_user": user, "event_ts": event_ts,
        "item": { "type": "message", "channel": channel, "ts": ts },
    })
}

/// Returns the event of a message that was pinned.
pub fn pin_added(channel: &str, ts: &str, user: &str, event_ts: &str) -> Value {
    pin("pin_added", channel, ts, user, event_ts)
}

/// Returns the event of a message whose pin was removed.
pub fn pin_removed(channel: &str, ts: &str, user: &str, event_ts: &str) -> Value {
    pin("pin_removed", channel, ts, user, event_ts)
}

fn pin(kind: &str, channel: &str, ts: &str, user: &str, event_ts: &str) -> Value {
    let seconds = seconds(event_ts);
    json!({
        "type": kind, "user": user, "channel_id": channel, "item_user": user, "event_ts": event_ts, "pin_count": 1,
        "item": { "type": "message", "created": seconds, "created_by": user, "channel": channel,
            "message": { "type": "message", "user": user, "text": "pinned", "ts": ts } },
        "pinned_info": { "channel": channel, "pinned_by": user, "pinned_ts": seconds },
    })
}

/// Returns the whole seconds of a timestamp.
pub(crate) fn seconds(ts: &str) -> i64 {
    ts.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default()
}

/// Returns the event of a new public channel.
pub fn channel_created(channel: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": "channel_created", "event_ts": event_ts,
        "channel": { "id": channel, "name": name, "is_private": false },
    })
}

/// Returns the event of a new custom emoji.
pub fn emoji_added(name: &str, url: &str, event_ts: &str) -> Value {
    json!({ "type": "emoji_changed", "subtype": "add", "name": name, "value": url, "event_ts": event_ts })
}

/// Returns the event of a created or changed user group.
pub fn user_group_updated(group: &Value, event_ts: &str) -> Value {
    json!({ "type": "subteam_updated", "subteam": group, "event_ts": event_ts })
}

/// Returns the event of people who were added to a user group and removed from it.
pub fn user_group_members_changed(
    group: &str,
    added: &[&str],
    removed: &[&str],
    date_update_s: i64,
    event_ts: &str,
) -> Value {
    json!({
        "type": "subteam_members_changed", "subteam_id": group, "team_id": "T1",
        "date_previous_update": date_update_s - 1, "date_update": date_update_s, "added_users": added,
        "added_users_count": added.len(), "removed_users": removed, "removed_users_count": removed.len(),
        "event_ts": event_ts,
    })
}

/// Returns `object` with these fields set.
pub fn with_fields<const N: usize>(mut object: Value, fields: [(&str, Value); N]) -> Value {
    if let Value::Object(object) = &mut object {
        object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}
