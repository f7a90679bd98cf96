//! What one token sees.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::history::ChannelHistory;

/// Users that Slack lists of each reaction; its `count` is of all.
const LISTED_REACTION_USERS: usize = 50;

/// One workspace. What it lists, it also knows; [`Self::knows_every_id`] makes it know the rest.
#[derive(Debug, Clone)]
pub struct FakeWorkspace {
    /// Its id.
    pub team: String,
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// The app's own user.
    pub bot_user: String,
    /// What `conversations.list` lists.
    pub channels: Vec<Value>,
    /// Channels that `conversations.info` knows and no list shows: private ones, and those that are listed later.
    pub unlisted_channels: Vec<Value>,
    /// What `users.list` lists.
    pub members: Vec<Value>,
    /// People that `users.info` knows and no list shows yet.
    pub unlisted_members: Vec<Value>,
    /// Bots that `bots.info` knows, by their ids.
    pub bots: BTreeSet<String>,
    /// What `emoji.list` lists.
    pub emoji: Value,
    /// What `files.info` shows, by the ids of the files.
    pub files: BTreeMap<String, Value>,
    /// Every person, bot and channel that is asked about exists, apart from [`Self::unknown`].
    pub knows_every_id: bool,
    /// Ids that do not exist.
    pub unknown: BTreeSet<String>,
    /// Channels that were joined.
    pub joined: BTreeSet<String>,
    /// What its token may do; if it is empty, no answer says so and nothing is refused for it.
    pub scopes: Vec<String>,
    /// What was said, by the ids of channels.
    pub history: BTreeMap<String, ChannelHistory>,
    /// Ids that channels had, and those that they go on under.
    pub moved: BTreeMap<String, String>,
    /// Channels whose history is refused, and with which error.
    pub unreadable: BTreeMap<String, String>,
    /// The plan hides what is older than this time, in seconds since the Unix epoch.
    pub visible_from_s: Option<i64>,
    /// The app is one that Slack gives 15 messages a minute.
    /// <https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps/>
    pub restricted: bool,
    /// Members of messages that have nothing to do with their content differ from call to call.
    pub volatile: bool,
    /// One call in this number answers an empty page of history that is not the last, if it carries no cursor; 0 for
    /// never.
    pub empty_page_every: usize,
    /// Users that are listed of each reaction.
    pub listed_reaction_users: usize,
}

impl FakeWorkspace {
    /// An empty workspace.
    pub fn new(team: &str) -> Self {
        Self {
            team: team.to_owned(),
            name: format!("Workspace {team}"),
            url: "https://example.slack.com/".to_owned(),
            bot_user: "U0BOT".to_owned(),
            channels: Vec::new(),
            unlisted_channels: Vec::new(),
            members: Vec::new(),
            unlisted_members: Vec::new(),
            bots: BTreeSet::new(),
            emoji: json!({}),
            files: BTreeMap::new(),
            knows_every_id: false,
            unknown: BTreeSet::new(),
            joined: BTreeSet::new(),
            scopes: Vec::new(),
            history: BTreeMap::new(),
            moved: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            visible_from_s: None,
            restricted: false,
            volatile: false,
            empty_page_every: 0,
            listed_reaction_users: LISTED_REACTION_USERS,
        }
    }

    /// With `channels` channels and `people` people.
    pub fn of(team: &str, channels: usize, people: usize) -> Self {
        let channels = (0..channels).map(|n| channel(&format!("C{n:05}"), &format!("channel-{n}"))).collect();
        let members = (0..people).map(|n| person(&format!("U{n:05}"), &format!("person-{n}"))).collect();
        Self { channels, members, ..Self::new(team) }
    }

    /// With six channels: the app is in two, could join three, and one is archived.
    pub fn half_joined(team: &str) -> Self {
        let mut workspace = Self::of(team, 6, 0);
        for channel in &mut workspace.channels[2..] {
            channel["is_member"] = false.into();
        }
        workspace.channels[5]["is_archived"] = true.into();
        workspace
    }

    /// What was said in a channel, to be added to.
    pub fn said_in(&mut self, channel: &str) -> &mut ChannelHistory {
        self.history.entry(channel.to_owned()).or_default()
    }

    /// Does what an event reports: a message, an edit, a deletion, a reaction, a file, another id of a channel. Other
    /// events change nothing here.
    pub fn happen(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let (Some(old), Some(new)) = (text(&event["old_channel_id"]), text(&event["new_channel_id"])) {
            self.unknown.insert(old.clone());
            if let Some(history) = self.history.remove(&old) {
                self.said_in(&new).take_over(history);
            }
            self.moved.insert(old, new);
        }
        let files = [&event["files"], &event["message"]["files"]];
        for file in files.into_iter().filter_map(Value::as_array).flatten() {
            if let Some(id) = text(&file["id"]) {
                self.files.entry(id).or_insert_with(|| file.clone());
            }
        }
        let channel = text(&event["channel"]).or_else(|| text(&event["item"]["channel"]));
        if let Some(channel) = channel {
            let channel = self.moved.get(&channel).cloned().unwrap_or(channel);
            self.said_in(&channel).happen(event);
        }
    }

    /// A channel, listed or not.
    pub(crate) fn channel(&self, id: &str) -> Option<Value> {
        let listed = self.channels.iter().chain(&self.unlisted_channels);
        let minimal = || json!({ "id": id, "is_private": false, "is_ext_shared": false });
        self.known(listed, id, minimal)
    }

    /// A person, listed or not.
    pub(crate) fn member(&self, id: &str) -> Option<Value> {
        self.known(self.members.iter().chain(&self.unlisted_members), id, || json!({ "id": id }))
    }

    /// Whether an id exists of which nothing else is known.
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

    /// A limit of this workspace's own.
    pub(crate) fn calls_per_minute(&self, method: &str) -> Option<usize> {
        let lowered = matches!(method, "conversations.history" | "conversations.replies");
        (self.restricted && lowered).then_some(1)
    }
}

/// A public channel as Slack lists it; the app is in it.
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

/// A person as Slack lists them.
pub fn person(id: &str, name: &str) -> Value {
    json!({
        "id": id, "team_id": "T1", "name": name, "deleted": false, "color": "9f69e7", "real_name": format!("Real {name}"),
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
