//! What people and Slack do in the made-up workspace: each act becomes events, and changes what the archive should hold.

use fake_slack::event;
use fastrand::Rng;
use serde_json::{Value, json};

use super::definitions::{Channel, ChannelStep, DELETED_FILE, File, FileLocation, PEOPLE};
use super::messages::{CHANNELS, REACTIONS};
use super::slack;
use super::tally::ArchiveCounts;

/// The longest time that passes between two acts.
const PAUSE_S: std::ops::Range<i64> = 20..2_200;

/// A message that was posted.
struct ScriptedPost {
    /// Which of the channels, and the id it had.
    channel: usize,
    id: &'static str,
    message: Value,
}

/// A channel as it is at some time of the week.
struct Now {
    id: &'static str,
    channel_type: &'static str,
    /// The newest last.
    names: Vec<&'static str>,
    topic: &'static str,
    purpose: &'static str,
    archived: bool,
    deleted: bool,
}

impl Now {
    fn at_the_beginning(channel: &Channel) -> Self {
        Self {
            id: channel.id,
            channel_type: "channel",
            names: channel.before.into_iter().collect(),
            topic: "",
            purpose: "",
            archived: channel.steps.iter().any(|(_, step)| *step == ChannelStep::WasArchived),
            deleted: false,
        }
    }

    fn name(&self) -> &'static str {
        self.names.last().copied().unwrap_or_default()
    }

    /// What Slack's directory says of it. What is private or deleted is not in there.
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

/// The workspace while the week goes on.
pub(super) struct EventScript {
    pub(super) random: Rng,
    pub(super) events: Vec<Value>,
    pub(super) expected: ArchiveCounts,
    /// Where this Slack serves its files.
    origin: String,
    now_s: i64,
    channels: Vec<Now>,
    posted: Vec<ScriptedPost>,
}

impl EventScript {
    /// An empty script. The same seed makes the same week.
    pub(super) fn new(seed: u64, now_s: i64, origin: &str) -> Self {
        let channels: Vec<Now> = CHANNELS.iter().map(Now::at_the_beginning).collect();
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

    /// Some minutes pass.
    pub(super) fn tick(&mut self) -> String {
        self.now_s += self.random.i64(PAUSE_S);
        format!("{}.{:06}", self.now_s, self.random.u32(100..999_000))
    }

    /// The second it is.
    pub(super) fn now_s(&self) -> i64 {
        self.now_s
    }

    /// The channels as Slack's directory lists them now.
    pub(super) fn listed(&self) -> Vec<Value> {
        self.channels.iter().filter_map(Now::listed).collect()
    }

    /// The channels' state, counted.
    pub(super) fn count_channels(&mut self) {
        let count = |of: fn(&Now) -> bool| self.channels.iter().filter(|channel| of(channel)).count();
        self.expected.archived = count(|channel| channel.archived);
        self.expected.deleted_channels = count(|channel| channel.deleted);
        self.expected.private = count(|channel| channel.channel_type == "group");
        self.expected.former_names =
            self.channels.iter().map(|channel| channel.names.len().saturating_sub(1)).sum();
    }

    fn person(&mut self) -> &'static str {
        PEOPLE[self.random.usize(..PEOPLE.len())].id
    }

    /// A person writes a message; with `thread_ts` a reply.
    pub(super) fn post(&mut self, channel: usize, text: &str, thread_ts: Option<&str>) -> usize {
        let (ts, user) = (self.tick(), self.person());
        let message = slack::message(&ts, user, &with_mentions(text), thread_ts);
        self.expected.replies += usize::from(thread_ts.is_some());
        self.announce(channel, message)
    }

    fn announce(&mut self, channel: usize, message: Value) -> usize {
        let Now { id, channel_type, .. } = self.channels[channel];
        self.events.push(slack::of_type(channel_type, event::posted(id, &message)));
        self.posted.push(ScriptedPost { channel, id, message });
        self.expected.messages += 1;
        self.posted.len() - 1
    }

    /// Slack writes a message about an action of a person to the channel.
    fn tell(&mut self, channel: usize, subtype: &str, text: &str, more: (&str, &str)) {
        let (ts, user) = (self.tick(), self.person());
        let mut message = slack::message(&ts, user, &format!("<@{user}> {text}"), None);
        message["subtype"] = subtype.into();
        message[more.0] = more.1.into();
        self.announce(channel, message);
    }

    /// A person shares a file.
    pub(super) fn share(&mut self, channel: usize, text: &str, file: &File) {
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

    /// The type of a message's channel now.
    fn channel_type(&self, at: usize) -> &'static str {
        self.channels[self.posted[at].channel].channel_type
    }

    /// The author changes a message.
    pub(super) fn edit(&mut self, at: usize, text: &str) {
        let (edited_ts, channel_type) = (self.tick(), self.channel_type(at));
        let ScriptedPost { id, message, .. } = &mut self.posted[at];
        let before = message.clone();
        self.expected.edited += usize::from(before["edited"].is_null());
        self.expected.revisions += 1;
        message["text"] = with_mentions(text).into();
        message["edited"] = json!({ "user": message["user"], "ts": edited_ts });
        self.events.push(slack::of_type(channel_type, event::changed(id, &before, message, &edited_ts)));
    }

    /// Slack adds a preview to a link: a change without an edit.
    pub(super) fn unfurl(&mut self, at: usize, url: &str) {
        let (event_ts, channel_type) = (self.tick(), self.channel_type(at));
        let ScriptedPost { id, message, .. } = &mut self.posted[at];
        let before = message.clone();
        message["attachments"] = json!([{ "id": 1, "from_url": url, "fallback": url }]);
        self.events.push(slack::of_type(channel_type, event::changed(id, &before, message, &event_ts)));
    }

    /// The author deletes a message.
    pub(super) fn delete(&mut self, at: usize) {
        let (event_ts, channel_type) = (self.tick(), self.channel_type(at));
        let ScriptedPost { id, message, .. } = &self.posted[at];
        self.events.push(slack::of_type(channel_type, event::deleted(id, message, &event_ts)));
        self.expected.deleted += 1;
    }

    /// Whether the channel has had its id from the beginning. A reaction says nothing about its channel: one that
    /// overtook the first message under a new id would not be known to be public, and not be kept.
    fn has_its_first_id(&self, at: usize) -> bool {
        let posted = &self.posted[at];
        posted.id == CHANNELS[posted.channel].id
    }

    /// Each person reacts with each name at most once, so that the count is known.
    pub(super) fn react(&mut self, at: usize, people: usize) {
        if !self.has_its_first_id(at) {
            return;
        }
        let name = REACTIONS[self.random.usize(..REACTIONS.len())];
        let (ts, id) = (self.ts(at), self.posted[at].id);
        for person in PEOPLE.iter().take(people) {
            let event_ts = self.tick();
            self.events.push(event::reaction_added(id, &ts, person.id, name, &event_ts));
            self.expected.reactions += 1;
        }
    }

    /// A person reacts and takes the reaction back.
    pub(super) fn unreact(&mut self, at: usize) {
        if !self.has_its_first_id(at) {
            return;
        }
        let (ts, id, user) = (self.ts(at), self.posted[at].id, PEOPLE[0].id);
        for react in [event::reaction_added, event::reaction_removed] {
            let event_ts = self.tick();
            self.events.push(react(id, &ts, user, "wave", &event_ts));
        }
    }

    /// Some roots never learn that they have replies.
    pub(super) fn start_thread(&mut self, at: usize) -> String {
        self.expected.threads += 1;
        if self.random.u32(..100) < 70 {
            let (event_ts, channel_type) = (self.tick(), self.channel_type(at));
            let ScriptedPost { id, message, .. } = &self.posted[at];
            let replied = event::replied(id, message, &event_ts, &event_ts);
            self.events.push(slack::of_type(channel_type, replied));
        }
        self.ts(at)
    }

    /// The timestamp of a message.
    pub(super) fn ts(&self, at: usize) -> String {
        self.posted[at].message["ts"].as_str().unwrap_or_default().to_owned()
    }

    /// Something happens to a channel.
    pub(super) fn step(&mut self, channel: usize, step: ChannelStep) {
        let (event_ts, user) = (self.tick(), self.person());
        let now = &mut self.channels[channel];
        let id = now.id;
        let happened = |kind| slack::channel_turn(kind, id, user, &event_ts);
        match step {
            ChannelStep::Created(name) => {
                now.names.push(name);
                self.events.push(slack::channel_created(id, name, &event_ts));
            }
            ChannelStep::Renamed(name) => {
                now.names.push(name);
                self.events.push(slack::channel_rename(id, now.channel_type, name, &event_ts));
                self.tell(channel, "channel_name", "has renamed the channel", ("name", name));
            }
            ChannelStep::RenamedUnseen(name) => now.names.push(name),
            ChannelStep::Topic(topic) => {
                now.topic = topic;
                self.tell(channel, "channel_topic", &format!("set the topic: {topic}"), ("topic", topic));
            }
            ChannelStep::Purpose(purpose) => {
                now.purpose = purpose;
                let text = format!("set the purpose: {purpose}");
                self.tell(channel, "channel_purpose", &text, ("purpose", purpose));
            }
            ChannelStep::Archived => {
                now.archived = true;
                self.events.push(happened("channel_archive"));
            }
            ChannelStep::Unarchived => {
                now.archived = false;
                self.events.push(happened("channel_unarchive"));
            }
            ChannelStep::MadePrivate => {
                now.channel_type = "group";
                let text = "made this channel private";
                self.tell(channel, "channel_convert_to_private", text, ("team", slack::TEAM));
            }
            ChannelStep::Deleted => {
                now.deleted = true;
                self.events.push(happened("channel_deleted"));
            }
            ChannelStep::GoesOnAs(new) => {
                now.id = new;
                self.events.push(slack::channel_id_changed(id, new, &event_ts));
                self.expected.channels += 1;
            }
            ChannelStep::WasArchived => {}
        }
    }
}

/// `@ana` as Slack marks a mention up.
fn with_mentions(text: &str) -> String {
    let escaped = text.replace('&', "&amp;");
    let mention = |text: String, name: &str, id: &str| text.replace(&format!("@{name}"), &format!("<@{id}>"));
    PEOPLE.iter().fold(escaped, |text, person| mention(text, person.name, person.id))
}
