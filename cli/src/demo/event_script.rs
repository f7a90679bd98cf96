//! The actions of people and of Slack in the made-up workspace. Each action adds events and updates the
//! expected contents of the archive.

use fake_slack::event;
use fastrand::Rng;
use serde_json::{Value, json};

use super::definitions::{ChannelStep, DELETED_FILE, DemoChannel, DemoFile, FileLocation, PEOPLE};
use super::messages::{CHANNELS, REACTIONS};
use super::slack;
use super::tally::ArchiveCounts;

/// The interval between two actions.
const PAUSE_S: std::ops::Range<i64> = 20..2_200;

/// A message that was posted.
struct ScriptedPost {
    /// The index of the channel, and the id it had.
    channel: usize,
    id: &'static str,
    message: Value,
}

/// The state of a channel at some point in the week.
struct ScriptedChannel {
    id: &'static str,
    channel_type: &'static str,
    /// Newest last.
    names: Vec<&'static str>,
    topic: &'static str,
    purpose: &'static str,
    archived: bool,
    deleted: bool,
}

impl ScriptedChannel {
    fn at_the_beginning(channel: &DemoChannel) -> Self {
        Self {
            id: channel.id,
            channel_type: "channel",
            names: channel.initial_name.into_iter().collect(),
            topic: "",
            purpose: "",
            archived: channel.steps.iter().any(|(_, step)| *step == ChannelStep::WasArchived),
            deleted: false,
        }
    }

    fn name(&self) -> &'static str {
        self.names.last().copied().unwrap_or_default()
    }

    /// The channel as `conversations.list` returns it. Private and deleted channels are not listed.
    fn listed(&self) -> Option<Value> {
        let shown = !self.names.is_empty() && !self.deleted && self.channel_type == "channel";
        shown.then(|| {
            json!({
                "id": self.id, "name": self.name(), "is_channel": true, "is_private": false, "is_member": false,
                "is_archived": self.archived, "creator": "U0ANA", "num_members": PEOPLE.len(),
                "topic": { "value": self.topic }, "purpose": { "value": self.purpose },
            })
        })
    }
}

/// The workspace during the week.
pub(super) struct EventScript {
    pub(super) random: Rng,
    pub(super) events: Vec<Value>,
    pub(super) expected: ArchiveCounts,
    /// The address at which the made-up Slack serves its files.
    origin: String,
    now_s: i64,
    channels: Vec<ScriptedChannel>,
    posted: Vec<ScriptedPost>,
}

impl EventScript {
    /// Returns an empty script. The same seed produces the same week.
    pub(super) fn new(seed: u64, now_s: i64, origin: &str) -> Self {
        let channels: Vec<ScriptedChannel> = CHANNELS.iter().map(ScriptedChannel::at_the_beginning).collect();
        Self {
            random: Rng::with_seed(seed),
            events: Vec::new(),
            expected: ArchiveCounts { channels: channels.len(), ..ArchiveCounts::default() },
            origin: origin.to_owned(),
            now_s,
            channels,
            posted: Vec::new(),
        }
    }

    /// Advances the clock by some minutes and returns a timestamp.
    pub(super) fn tick(&mut self) -> String {
        self.now_s += self.random.i64(PAUSE_S);
        format!("{}.{:06}", self.now_s, self.random.u32(100..999_000))
    }

    pub(super) fn now_s(&self) -> i64 {
        self.now_s
    }

    /// Returns the channels as Slack's directory lists them now.
    pub(super) fn listed(&self) -> Vec<Value> {
        self.channels.iter().filter_map(ScriptedChannel::listed).collect()
    }

    /// Updates the expected numbers of channels by their current state.
    pub(super) fn count_channels(&mut self) {
        let count = |matches: fn(&ScriptedChannel) -> bool| {
            self.channels.iter().filter(|channel| matches(channel)).count()
        };
        self.expected.archived = count(|channel| channel.archived);
        self.expected.deleted_channels = count(|channel| channel.deleted);
        self.expected.private = count(|channel| channel.channel_type == "group");
        self.expected.former_names =
            self.channels.iter().map(|channel| channel.names.len().saturating_sub(1)).sum();
    }

    fn person(&mut self) -> &'static str {
        PEOPLE[self.random.usize(..PEOPLE.len())].id
    }

    /// A person posts a message, or a reply if `thread_ts` is given. Returns the message's index.
    pub(super) fn post(&mut self, channel: usize, text: &str, thread_ts: Option<&str>) -> usize {
        let (ts, user) = (self.tick(), self.person());
        let message = slack::message(&ts, user, &with_mentions(text), thread_ts);
        self.expected.replies += usize::from(thread_ts.is_some());
        self.announce(channel, message)
    }

    fn announce(&mut self, channel: usize, message: Value) -> usize {
        let ScriptedChannel { id, channel_type, .. } = self.channels[channel];
        self.events.push(slack::with_channel_type(channel_type, event::posted(id, &message)));
        self.posted.push(ScriptedPost { channel, id, message });
        self.expected.messages += 1;
        self.posted.len() - 1
    }

    /// Slack posts a message about an action of a person to the channel.
    fn post_notice(&mut self, channel: usize, subtype: &str, text: &str, more: (&str, &str)) {
        let (ts, user) = (self.tick(), self.person());
        let mut message = slack::message(&ts, user, &format!("<@{user}> {text}"), None);
        message["subtype"] = subtype.into();
        message[more.0] = more.1.into();
        self.announce(channel, message);
    }

    /// A person shares a file.
    pub(super) fn share(&mut self, channel: usize, text: &str, file: &DemoFile) {
        let (ts, user) = (self.tick(), self.person());
        let mut message = slack::message(&ts, user, text, None);
        message["subtype"] = "file_share".into();
        message["upload"] = true.into();
        message["files"] = json!([slack::file(file, &self.origin)]);
        self.announce(channel, message);
        match file.location {
            FileLocation::Hosted(_) | FileLocation::AskFirst(_) => self.expected.files_shared += 1,
            FileLocation::Elsewhere(_) | FileLocation::Hidden => self.expected.files_skipped += 1,
            FileLocation::BehindLogin => self.expected.files_failed += 1,
        }
    }

    /// A person deletes a file in Slack.
    pub(super) fn delete_file(&mut self) {
        let event_ts = self.tick();
        let carries = |posted: &&ScriptedPost| posted.message["files"][0]["id"] == DELETED_FILE;
        if let Some(posted) = self.posted.iter().find(carries) {
            self.events.push(slack::file_deleted(DELETED_FILE, posted.id, &event_ts));
            self.expected.files_deleted += 1;
        }
    }

    /// Returns the current type of a message's channel.
    fn channel_type(&self, index: usize) -> &'static str {
        self.channels[self.posted[index].channel].channel_type
    }

    /// The author changes a message.
    pub(super) fn edit(&mut self, index: usize, text: &str) {
        let (edited_ts, channel_type) = (self.tick(), self.channel_type(index));
        let ScriptedPost { id, message, .. } = &mut self.posted[index];
        let before = message.clone();
        self.expected.edited += usize::from(before["edited"].is_null());
        self.expected.revisions += 1;
        message["text"] = with_mentions(text).into();
        message["edited"] = json!({ "user": message["user"], "ts": edited_ts });
        self.events
            .push(slack::with_channel_type(channel_type, event::changed(id, &before, message, &edited_ts)));
    }

    /// Slack adds a preview to a link: a change without an edit.
    pub(super) fn unfurl(&mut self, index: usize, url: &str) {
        let (event_ts, channel_type) = (self.tick(), self.channel_type(index));
        let ScriptedPost { id, message, .. } = &mut self.posted[index];
        let before = message.clone();
        message["attachments"] = json!([{ "id": 1, "from_url": url, "fallback": url }]);
        self.events
            .push(slack::with_channel_type(channel_type, event::changed(id, &before, message, &event_ts)));
    }

    /// The author deletes a message.
    pub(super) fn delete(&mut self, index: usize) {
        let (event_ts, channel_type) = (self.tick(), self.channel_type(index));
        let ScriptedPost { id, message, .. } = &self.posted[index];
        self.events.push(slack::with_channel_type(channel_type, event::deleted(id, message, &event_ts)));
        self.expected.deleted += 1;
    }

    /// Whether the message was posted under its channel's first id. A reaction does not contain the channel's
    /// type: if it overtook the first message under a new id, the archive would not know that the channel is
    /// public and would drop it.
    fn is_under_first_channel_id(&self, index: usize) -> bool {
        let posted = &self.posted[index];
        posted.id == CHANNELS[posted.channel].id
    }

    /// `people` people react to a message, each once, with the same random emoji.
    pub(super) fn react(&mut self, index: usize, people: usize) {
        if !self.is_under_first_channel_id(index) {
            return;
        }
        let name = REACTIONS[self.random.usize(..REACTIONS.len())];
        let (ts, id) = (self.ts(index), self.posted[index].id);
        for person in PEOPLE.iter().take(people) {
            let event_ts = self.tick();
            self.events.push(event::reaction_added(id, &ts, person.id, name, &event_ts));
            self.expected.reactions += 1;
        }
    }

    /// A person adds a reaction and removes it.
    pub(super) fn unreact(&mut self, index: usize) {
        if !self.is_under_first_channel_id(index) {
            return;
        }
        let (ts, id, user) = (self.ts(index), self.posted[index].id, PEOPLE[0].id);
        for react in [event::reaction_added, event::reaction_removed] {
            let event_ts = self.tick();
            self.events.push(react(id, &ts, user, "wave", &event_ts));
        }
    }

    /// Starts a thread. Slack sends the `message_replied` event for only some of them.
    pub(super) fn start_thread(&mut self, index: usize) -> String {
        self.expected.threads += 1;
        if self.random.u32(..100) < 70 {
            let (event_ts, channel_type) = (self.tick(), self.channel_type(index));
            let ScriptedPost { id, message, .. } = &self.posted[index];
            let replied = event::replied(id, message, &event_ts, &event_ts);
            self.events.push(slack::with_channel_type(channel_type, replied));
        }
        self.ts(index)
    }

    pub(super) fn ts(&self, index: usize) -> String {
        self.posted[index].message["ts"].as_str().unwrap_or_default().to_owned()
    }

    /// Applies a step to a channel.
    pub(super) fn step(&mut self, channel: usize, step: ChannelStep) {
        let (event_ts, user) = (self.tick(), self.person());
        let state = &mut self.channels[channel];
        let id = state.id;
        let channel_event = |kind| slack::channel_event(kind, id, user, &event_ts);
        match step {
            ChannelStep::Created(name) => {
                state.names.push(name);
                self.events.push(slack::channel_created(id, name, &event_ts));
            }
            ChannelStep::Renamed(name) => {
                state.names.push(name);
                self.events.push(slack::channel_rename(id, state.channel_type, name, &event_ts));
                self.post_notice(channel, "channel_name", "has renamed the channel", ("name", name));
            }
            ChannelStep::RenamedUnseen(name) => state.names.push(name),
            ChannelStep::Topic(topic) => {
                state.topic = topic;
                self.post_notice(
                    channel,
                    "channel_topic",
                    &format!("set the topic: {topic}"),
                    ("topic", topic),
                );
            }
            ChannelStep::Purpose(purpose) => {
                state.purpose = purpose;
                let text = format!("set the purpose: {purpose}");
                self.post_notice(channel, "channel_purpose", &text, ("purpose", purpose));
            }
            ChannelStep::Archived => {
                state.archived = true;
                self.events.push(channel_event("channel_archive"));
            }
            ChannelStep::Unarchived => {
                state.archived = false;
                self.events.push(channel_event("channel_unarchive"));
            }
            ChannelStep::MadePrivate => {
                state.channel_type = "group";
                let text = "made this channel private";
                self.post_notice(channel, "channel_convert_to_private", text, ("team", slack::TEAM));
            }
            ChannelStep::Deleted => {
                state.deleted = true;
                self.events.push(channel_event("channel_deleted"));
            }
            ChannelStep::IdChanged(new) => {
                state.id = new;
                self.events.push(slack::channel_id_changed(id, new, &event_ts));
                self.expected.channels += 1;
            }
            ChannelStep::WasArchived => {}
        }
    }
}

/// Replaces `@ana` with Slack's markup for a mention.
fn with_mentions(text: &str) -> String {
    let escaped = text.replace('&', "&amp;");
    let mention = |text: String, name: &str, id: &str| text.replace(&format!("@{name}"), &format!("<@{id}>"));
    PEOPLE.iter().fold(escaped, |text, person| mention(text, person.name, person.id))
}
