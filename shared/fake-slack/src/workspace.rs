//! The workspace behind one token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::history::ChannelHistory;

/// Number of users that Slack lists for each reaction. Its `count` includes all users.
const LISTED_REACTION_USERS: usize = 50;

/// A workspace, made by [`Self::new`]. It knows every object that it lists; with [`Self::knows_every_id`] it
/// knows all other ids too.
#[derive(Debug, Clone, Default)]
pub struct FakeWorkspace {
    /// The id.
    pub team: String,
    pub name: String,
    pub url: String,
    /// The app's own user.
    pub bot_user: String,
    /// The channels of `conversations.list`.
    pub channels: Vec<Value>,
    /// Channels that `conversations.info` knows but no list shows: private channels, and channels that are
    /// listed later.
    pub unlisted_channels: Vec<Value>,
    /// The members of `users.list`.
    pub members: Vec<Value>,
    /// People that `users.info` knows but no list shows yet.
    pub unlisted_members: Vec<Value>,
    /// Other organisations that `team.info` shows: their team objects, by id.
    pub organisations: BTreeMap<String, Value>,
    /// The ids of bots that `bots.info` knows.
    pub bots: BTreeSet<String>,
    /// The emoji of `emoji.list`.
    pub emoji: Value,
    /// The groups of `usergroups.list`.
    pub user_groups: Vec<Value>,
    /// The bookmarks of `bookmarks.list`, by channel id.
    pub bookmarks: BTreeMap<String, Vec<Value>>,
    /// The members of `conversations.members`, by channel id.
    pub channel_members: BTreeMap<String, Vec<Value>>,
    /// The file objects of `files.info`, by file id.
    pub files: BTreeMap<String, Value>,
    /// Every person, bot and channel id exists, except those in [`Self::unknown`].
    pub knows_every_id: bool,
    /// Ids that do not exist.
    pub unknown: BTreeSet<String>,
    /// Channels that were joined.
    pub joined: BTreeSet<String>,
    /// The scopes of the token. If empty, answers have no scopes header and no call is refused for a missing
    /// scope.
    pub scopes: Vec<String>,
    /// The messages, by channel id.
    pub history: BTreeMap<String, ChannelHistory>,
    /// The current id of each channel whose id changed, by the old id.
    pub moved: BTreeMap<String, String>,
    /// Channels whose history is refused, with the error.
    pub unreadable: BTreeMap<String, String>,
    /// The plan hides messages before this time, in seconds since the Unix epoch.
    pub visible_from_s: Option<i64>,
    /// The app is restricted to one call of 15 messages a minute.
    /// <https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps/>
    pub restricted: bool,
    /// Message fields that do not belong to the content differ from call to call.
    pub volatile: bool,
    /// One history call in this number returns an empty page that is not the last, unless the call has a
    /// cursor; 0 for never.
    pub empty_page_every: usize,
    /// Maximum number of users listed for each reaction.
    pub listed_reaction_users: usize,
    /// How long each answer takes.
    pub answer_delay: Option<Duration>,
}

impl FakeWorkspace {
    /// Creates an empty workspace.
    pub fn new(team: &str) -> Self {
        Self {
            team: team.to_owned(),
            name: format!("Workspace {team}"),
            url: "https://example.slack.com/".to_owned(),
            bot_user: "U0BOT".to_owned(),
            emoji: json!({}),
            listed_reaction_users: LISTED_REACTION_USERS,
            ..Self::default()
        }
    }

    /// Creates a workspace with `channels` channels and `people` people.
    pub fn with_size(team: &str, channels: usize, people: usize) -> Self {
        let channels = (0..channels).map(|n| channel(&format!("C{n:05}"), &format!("channel-{n}"))).collect();
        let members = (0..people).map(|n| person(&format!("U{n:05}"), &format!("person-{n}"))).collect();
        Self { channels, members, ..Self::new(team) }
    }

    /// Creates a workspace with six channels: the app is in two, could join three, and one is archived.
    pub fn half_joined(team: &str) -> Self {
        let mut workspace = Self::with_size(team, 6, 0);
        for channel in &mut workspace.channels[2..] {
            channel["is_member"] = false.into();
        }
        workspace.channels[5]["is_archived"] = true.into();
        workspace
    }

    /// Returns the history of a channel, which is created if it does not exist.
    pub fn channel_history(&mut self, channel: &str) -> &mut ChannelHistory {
        self.history.entry(channel.to_owned()).or_default()
    }

    /// Applies an event: a message, an edit, a deletion, a reaction, a pin, a file, the conversion of a channel,
    /// or another id of it. A private message shows a conversion whose event was lost. Other events are
    /// ignored.
    pub fn apply_event(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let (Some(old), Some(new)) = (text(&event["old_channel_id"]), text(&event["new_channel_id"])) {
            self.unknown.insert(old.clone());
            if let Some(history) = self.history.remove(&old) {
                self.channel_history(&new).merge(history);
            }
            self.moved.insert(old, new);
        }
        let files = [&event["files"], &event["message"]["files"]];
        for file in files.into_iter().filter_map(Value::as_array).flatten() {
            if let Some(id) = text(&file["id"]) {
                self.files.entry(id).or_insert_with(|| file.clone());
            }
        }
        // A canvas has the time of its last edit.
        if let (Some(id), Some(clock)) = (text(&event["file_id"]), text(&event["event_ts"]))
            && event["type"] == "file_change"
            && let Some(file) = self.files.get_mut(&id)
        {
            let edited_s = clock.split('.').next().and_then(|seconds| seconds.parse().ok());
            let edited_s = edited_s.max(file["updated"].as_u64());
            file["updated"] = edited_s.into();
        }
        let channel = text(&event["channel"]).or_else(|| text(&event["item"]["channel"]));
        if let Some(channel) = channel {
            let channel = self.moved.get(&channel).cloned().unwrap_or(channel);
            match (event["subtype"].as_str(), event["channel_type"].as_str()) {
                (Some("channel_convert_to_public"), _) => self.convert(&channel, false),
                (Some("channel_convert_to_private"), _) | (_, Some("group")) => self.convert(&channel, true),
                _ => {}
            }
            self.channel_history(&channel).apply_event(event);
        }
    }

    /// Makes a channel private, so that it is not listed any more, or public.
    pub fn convert(&mut self, id: &str, is_private: bool) {
        let Some(mut channel) = self.channel(id).filter(|channel| channel["is_private"] != is_private) else {
            return;
        };
        channel["is_private"] = is_private.into();
        self.channels.retain(|listed| listed["id"] != id);
        self.unlisted_channels.retain(|unlisted| unlisted["id"] != id);
        // An object without a name is not one that a list has.
        let is_listed = !is_private && channel["name"].is_string();
        if is_listed { &mut self.channels } else { &mut self.unlisted_channels }.push(channel);
    }

    /// Returns a channel, listed or not.
    pub(crate) fn channel(&self, id: &str) -> Option<Value> {
        let listed = self.channels.iter().chain(&self.unlisted_channels);
        let minimal = || json!({ "id": id, "is_private": false, "is_ext_shared": false });
        self.known(listed, id, minimal)
    }

    /// Returns a person, listed or not.
    pub(crate) fn member(&self, id: &str) -> Option<Value> {
        self.known(self.members.iter().chain(&self.unlisted_members), id, || json!({ "id": id }))
    }

    /// Whether an id exists although the workspace has no object for it.
    pub(crate) fn exists(&self, id: &str) -> bool {
        self.knows_every_id && !self.unknown.contains(id)
    }

    fn known<'a>(
        &self,
        mut listed: impl Iterator<Item = &'a Value>,
        id: &str,
        minimal: impl Fn() -> Value,
    ) -> Option<Value> {
        if self.unknown.contains(id) {
            return None;
        }
        listed.find(|listed| listed["id"] == id).cloned().or_else(|| self.exists(id).then(minimal))
    }

    /// Refuses a call whose token lacks a scope.
    pub(crate) fn check_scope(&self, scope: &str) -> Result<(), Value> {
        if self.scopes.is_empty() || self.scopes.iter().any(|known| known == scope) {
            return Ok(());
        }
        let provided = self.scopes.join(",");
        Err(json!({ "ok": false, "error": "missing_scope", "needed": scope, "provided": provided }))
    }

    /// Returns the lowered limit of a restricted workspace, if any.
    pub(crate) fn calls_per_minute(&self, method: &str) -> Option<usize> {
        let lowered = matches!(method, "conversations.history" | "conversations.replies");
        (self.restricted && lowered).then_some(1)
    }
}

/// Returns a public channel as Slack lists it. The app is a member.
pub fn channel(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "is_channel": true, "is_group": false, "is_im": false, "is_mpim": false,
        "is_private": false, "created": 1_600_000_000, "is_archived": false, "is_general": false, "unlinked": 0,
        "name_normalized": name, "is_shared": false, "is_org_shared": false, "is_pending_ext_shared": false,
        "pending_shared": [], "context_team_id": "T1", "updated": 1_600_000_000_000_u64, "parent_conversation": null,
        "creator": "U00000", "is_ext_shared": false, "shared_team_ids": ["T1"], "is_member": true,
        "topic": { "value": "", "creator": "", "last_set": 0 },
        "purpose": { "value": format!("for {name}"), "creator": "U00000", "last_set": 1_600_000_000 },
        "previous_names": [], "num_members": 3,
    })
}

/// Returns a bookmark as Slack lists it.
pub fn bookmark(id: &str, title: &str, link: &str) -> Value {
    json!({
        "id": id, "channel_id": "C00000", "title": title, "link": link, "emoji": "", "icon_url": "", "type": "link",
        "entity_id": null, "date_created": 1_600_000_000, "date_updated": 0, "rank": "i",
        "last_updated_by_user_id": "U00000", "last_updated_by_team_id": "T1", "shortcut_id": null, "app_id": null,
    })
}

/// Returns a user group as Slack lists it.
pub fn user_group(id: &str, handle: &str, users: &[&str], date_update_s: i64) -> Value {
    json!({
        "id": id, "team_id": "T1", "is_usergroup": true, "is_subteam": true, "name": format!("Group {handle}"),
        "description": "", "handle": handle, "is_external": false, "date_create": 1_600_000_000,
        "date_update": date_update_s, "date_delete": 0, "auto_type": null, "auto_provision": false,
        "enterprise_subteam_id": "", "created_by": "U00000", "updated_by": "U00000", "deleted_by": null,
        "prefs": { "channels": [], "groups": [] }, "users": users, "user_count": users.len(), "channel_count": 0,
    })
}

/// Returns a person as Slack lists them, but without their workspace.
pub fn person(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "deleted": false, "color": "9f69e7", "real_name": format!("Real {name}"),
        "tz": "Europe/Berlin", "tz_label": "Central European Time", "tz_offset": 3600, "is_admin": false,
        "is_owner": false, "is_bot": false, "is_app_user": false, "updated": 1_600_000_000, "is_email_confirmed": true,
        "profile": {
            "title": "", "phone": "", "skype": "", "real_name": format!("Real {name}"), "display_name": name,
            "status_text": "", "status_emoji": "", "avatar_hash": "0123", "team": "T1",
            "image_24": format!("https://avatars.slack-edge.com/2024-01-01/{id}_24.png"),
            "image_192": format!("https://avatars.slack-edge.com/2024-01-01/{id}_192.png"),
        },
    })
}
