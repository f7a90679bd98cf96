//! For the unit tests: an archive in a temporary folder, filled by the writer itself.

use serde_json::{Value, json};
use shared::archive::Archive;
use shared::clock::{ManualClock, TimestampMs};
use shared::config::DataArgs;
use shared::config::backend::Backend;
use shared::queue::job::encode_event;
use shared::queue::{Delivery, GroupId, MessageId, Receipt};
use shared::slack::ids::Ts;
use workers::message_writer::MessageWriter;
use workers::runtime::{Outcome, Ports, Worker};

use crate::read::{MessageArgs, ReadArgs};

/// An open archive, removed when this is dropped.
pub(crate) struct Fixture {
    pub(crate) backend: Backend,
    pub(crate) ports: Ports,
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(TimestampMs(1_795_178_096_000));
        let backend = Backend::open(&DataArgs { data: folder.path().to_owned() }, clock.clone()).unwrap();
        let ports = Ports { queue: backend.queue.clone(), archive: backend.archive.clone(), clock };
        Self { backend, ports, folder }
    }

    pub(crate) fn data(&self) -> DataArgs {
        DataArgs { data: self.folder.path().to_owned() }
    }

    pub(crate) fn archive(&self) -> &dyn Archive {
        &*self.backend.archive
    }

    pub(crate) async fn post(&self, team: &str, channel: &str, ts: &str, text: &str) {
        self.write(team, channel, &message(channel, ts, text)).await;
    }

    pub(crate) async fn reply(&self, team: &str, channel: &str, ts: &str, thread_ts: &str, text: &str) {
        let mut reply = message(channel, ts, text);
        reply["thread_ts"] = thread_ts.into();
        self.write(team, channel, &reply).await;
    }

    pub(crate) async fn edit(&self, team: &str, channel: &str, ts: &str, edited_ts: &str, text: &str) {
        let mut after = message(channel, ts, text);
        after["edited"] = json!({ "user": "U1", "ts": edited_ts });
        let event = json!({ "type": "message", "subtype": "message_changed", "channel": channel,
            "channel_type": "channel", "ts": edited_ts, "event_ts": edited_ts, "message": after });
        self.write(team, channel, &event).await;
    }

    pub(crate) async fn person(&self, team: &str, user: &str, display_name: &str) {
        let event = json!({ "type": "user_change", "event_ts": "1.000000",
            "user": { "id": user, "name": user, "profile": { "display_name": display_name } } });
        self.write(team, user, &event).await;
    }

    async fn write(&self, team: &str, group: &str, event: &Value) {
        let envelope = json!({ "type": "event_callback", "team_id": team, "event": event });
        let delivery = Delivery {
            message_id: MessageId("1".into()),
            group: GroupId::of(&[team, group]),
            body: encode_event(&envelope.to_string()),
            receive_count: 1,
            sent_at: TimestampMs(0),
            receipt: Receipt("1".into()),
        };
        let outcomes = MessageWriter::new(self.backend.archive.clone()).handle(&[delivery]).await;
        assert_eq!(outcomes, [Outcome::Done]);
    }
}

fn message(channel: &str, ts: &str, text: &str) -> Value {
    json!({ "type": "message", "channel": channel, "channel_type": "channel", "user": "U1", "text": text, "ts": ts,
        "event_ts": ts })
}

/// The arguments of a read of one message as JSON.
pub(crate) fn message_args(channel: &str, ts: &str) -> MessageArgs {
    let read = ReadArgs { data: DataArgs { data: "unused".into() }, json: true, limit: None, team: None };
    MessageArgs { channel: channel.into(), ts: Ts::parse(ts).unwrap(), read }
}
