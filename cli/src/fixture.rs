//! For unit tests: an archive in a temporary folder, which the real writer fills.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::changes::Changes;
use ports::clock::{Clock, ManualClock, SharedClock, TimestampMs};
use ports::queue::Delivery;
use process::config::backend::{Backend, BackendArgs};
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiUrl, Tokens, WebApi};
use testkit::corpus::event;
use testkit::deliveries;
use workers::channel_indexer::ChannelIndexer;
use workers::claims::Claimant;
use workers::file_downloader::{DownloadSettings, FileDownloader};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Ports, Worker};

use crate::operate::erase;
use crate::read::MessageArgs;

/// An open archive, which is removed on drop.
pub(crate) struct CliFixture {
    pub(crate) backend: Backend,
    pub(crate) ports: Ports,
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl CliFixture {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(TimestampMs(1_795_178_096_000));
        let backend = Backend::open(&BackendArgs::embedded(folder.path()), clock.clone()).await.unwrap();
        let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock: clock.clone() };
        Self { backend, ports, folder, clock }
    }

    pub(crate) fn data(&self) -> BackendArgs {
        BackendArgs::embedded(self.folder.path())
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn shared_clock(&self) -> SharedClock {
        self.clock.clone()
    }

    pub(crate) fn archive(&self) -> &dyn Archive {
        &*self.ports.archive
    }

    /// Advances the clock.
    pub(crate) fn advance_by(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) fn changes(&self) -> Arc<dyn Changes> {
        self.backend.changes()
    }

    pub(crate) async fn post(&self, team: &str, channel: &str, ts: &str, text: &str) {
        self.write(team, &message(channel, ts, text)).await;
    }

    /// Posts messages at once.
    pub(crate) async fn post_all(&self, team: &str, channel: &str, timestamps: &[String]) {
        let words = timestamps.iter().map(|ts| (ts.clone(), "words".to_owned()));
        self.post_texts(team, channel, words).await;
    }

    /// Posts messages with these timestamps and texts at once.
    pub(crate) async fn post_texts(
        &self,
        team: &str,
        channel: &str,
        messages: impl Iterator<Item = (String, String)>,
    ) {
        self.deliver(team, messages.map(|(ts, text)| message(channel, &ts, &text))).await;
    }

    /// Replies to messages at once: each reply has its own time, that of its root, and a text.
    pub(crate) async fn reply_all(
        &self,
        team: &str,
        channel: &str,
        replies: impl Iterator<Item = [String; 3]>,
    ) {
        let replies = replies.map(|[ts, root, text]| {
            let mut reply = message(channel, &ts, &text);
            reply["thread_ts"] = root.into();
            reply
        });
        self.deliver(team, replies).await;
    }

    async fn deliver(&self, team: &str, messages: impl Iterator<Item = Value>) {
        let events = messages.map(|message| delivery(team, &message));
        let writer = MessageWriter::new(self.backend.archive(), self.backend.queue());
        let outcomes = writer.handle(&events.collect::<Vec<_>>()).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done));
    }

    /// Posts a message with a file, then runs the file downloader without a token.
    pub(crate) async fn share(&self, team: &str, channel: &str, ts: &str, file: &Value) {
        let mut message = message(channel, ts, "look");
        message["files"] = json!([file]);
        self.write(team, &message).await;
        let object = FileObject::read(file).unwrap();
        let share = Share { channel: ChannelId::parse(channel).unwrap(), ts: Ts::parse(ts).unwrap() };
        let job = FileJob {
            team: TeamId::parse(team).unwrap(),
            share,
            user: None,
            object,
            refresh: false,
            version: None,
        }
        .outgoing();
        let job = Delivery { sent_at: TimestampMs(i64::MAX), ..deliveries::delivery_of(job) };
        let web = Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty()));
        let (archive, files) = (self.backend.archive(), self.backend.files());
        let settings = DownloadSettings::default();
        let claims = settings.claims.clone();
        let claimant = Claimant::new(self.backend.claims(), self.clock.clone(), "fixture", claims);
        let downloader = FileDownloader::new(archive, files, web, claimant, settings);
        assert_eq!(downloader.handle(&[job]).await, [JobOutcome::Done]);
    }

    /// Advances the clock by a millisecond.
    pub(crate) fn advance(&self) {
        self.clock.advance(Duration::from_millis(1));
    }

    pub(crate) async fn reply(&self, team: &str, channel: &str, ts: &str, thread_ts: &str, text: &str) {
        let mut reply = message(channel, ts, text);
        reply["thread_ts"] = thread_ts.into();
        self.write(team, &reply).await;
    }

    pub(crate) async fn edit(&self, team: &str, channel: &str, ts: &str, edited_ts: &str, text: &str) {
        let fields = json!({ "text": text, "edited": { "user": "U1", "ts": edited_ts } });
        self.change(team, channel, ts, edited_ts, fields).await;
    }

    /// Changes a message without an `edited` mark.
    pub(crate) async fn change(&self, team: &str, channel: &str, ts: &str, clock: &str, fields: Value) {
        let mut after = message(channel, ts, "");
        if let (Some(after), Value::Object(fields)) = (after.as_object_mut(), fields) {
            after.extend(fields);
        }
        let event = json!({ "type": "message", "subtype": "message_changed", "channel": channel,
            "channel_type": "channel", "ts": clock, "event_ts": clock, "message": after });
        self.write(team, &event).await;
    }

    /// Deletes a message. The event does not contain its text.
    pub(crate) async fn delete(&self, team: &str, channel: &str, ts: &str, clock: &str) {
        let event = json!({ "type": "message", "subtype": "message_deleted", "channel": channel,
            "channel_type": "channel", "ts": clock, "event_ts": clock, "deleted_ts": ts });
        self.write(team, &event).await;
    }

    /// Adds a reaction at the given time.
    pub(crate) async fn react(
        &self,
        team: &str,
        channel: &str,
        ts: &str,
        user: &str,
        name: &str,
        clock: &str,
    ) {
        let item = json!({ "type": "message", "channel": channel, "ts": ts });
        let event = json!({ "type": "reaction_added", "user": user, "reaction": name, "item": item, "event_ts": clock });
        self.write(team, &event).await;
    }

    /// Erases a message, if there is one.
    pub(crate) async fn erase(&self, channel: &str, ts: &str) {
        let data = self.folder.path().to_str().unwrap();
        let args = parsed(&["--message", channel, ts, "--yes", "--data", data]).unwrap();
        match erase::run(&self.backend, &*self.clock, &args, &mut Vec::new()).await {
            Ok(()) => {}
            Err(error) => assert!(error.to_string().contains("no message"), "{error}"),
        }
    }

    pub(crate) async fn person(&self, team: &str, user: &str, display_name: &str) {
        self.profile(team, user, display_name, "1.000000").await;
    }

    /// Changes a person's profile at the given time.
    pub(crate) async fn profile(&self, team: &str, user: &str, display_name: &str, clock: &str) {
        let event = json!({ "type": "user_change", "event_ts": clock,
            "user": { "id": user, "name": user, "profile": { "display_name": display_name } } });
        self.write(team, &event).await;
    }

    /// Creates or changes a user group.
    pub(crate) async fn user_group(&self, team: &str, clock: &str, group: &Value) {
        self.write(team, &event::user_group_updated(group, clock)).await;
    }

    /// Creates a channel.
    pub(crate) async fn channel(&self, team: &str, channel: &str, clock: &str, name: &str) {
        let event = event::channel_created(channel, name, clock);
        self.index(team, &event).await;
    }

    /// Renames a channel.
    pub(crate) async fn rename(&self, team: &str, channel: &str, clock: &str, name: &str) {
        let channel = json!({ "id": channel, "name": name, "created": 1_360_782_804 });
        let event = json!({ "type": "channel_rename", "event_ts": clock, "channel": channel });
        self.index(team, &event).await;
    }

    /// Sends an event of another type about a channel.
    pub(crate) async fn channel_event(&self, team: &str, kind: &str, channel: &str, clock: &str) {
        self.index(team, &json!({ "type": kind, "channel": channel, "event_ts": clock })).await;
    }

    pub(crate) async fn channel_id_changed(&self, team: &str, old: &str, new: &str, clock: &str) {
        let event = json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new,
            "event_ts": clock });
        self.index(team, &event).await;
    }

    /// Sends Slack's notice about a change of a channel: a topic, a purpose, a conversion.
    pub(crate) async fn channel_notice(
        &self,
        team: &str,
        channel: &str,
        clock: &str,
        subtype: &str,
        field: (&str, &str),
    ) {
        let mut event = message(channel, clock, "text");
        event["subtype"] = subtype.into();
        event[field.0] = field.1.into();
        self.index(team, &event).await;
    }

    async fn index(&self, team: &str, event: &Value) {
        let indexer = ChannelIndexer::new(self.backend.archive(), None);
        assert_eq!(indexer.handle(&[delivery(team, event)]).await, [JobOutcome::Done]);
    }

    pub(crate) async fn write(&self, team: &str, event: &Value) {
        let writer = MessageWriter::new(self.backend.archive(), self.backend.queue());
        assert_eq!(writer.handle(&[delivery(team, event)]).await, [JobOutcome::Done]);
    }
}

/// A delivery with a later time than any event.
fn delivery(team: &str, event: &Value) -> Delivery {
    let delivery = deliveries::delivery(&event::envelope(team, "Ev1", event));
    Delivery { sent_at: TimestampMs(i64::MAX), ..delivery }
}

fn message(channel: &str, ts: &str, text: &str) -> Value {
    json!({ "type": "message", "channel": channel, "channel_type": "channel", "user": "U1", "text": text, "ts": ts,
        "event_ts": ts })
}

/// Runs a command and returns its output.
pub(crate) async fn output<E>(run: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<String, E> {
    let mut out = Vec::new();
    run(&mut out).await?;
    Ok(String::from_utf8(out).unwrap())
}

/// Splits an output into lines, with one space between words.
pub(crate) fn squeezed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Parses the arguments of a command, without the command's name.
pub(crate) fn parsed<A: clap::Args>(arguments: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("annalist").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// Returns arguments that read one message as JSON.
pub(crate) fn message_args(channel: &str, ts: &str) -> MessageArgs {
    parsed(&[channel, ts, "--json", "--tz", "UTC", "--data", "unused"]).unwrap()
}
