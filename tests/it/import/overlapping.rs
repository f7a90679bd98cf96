//! Exports that overlap, in either order, with live events between them and after them: the rows of messages and of their
//! revisions are the same.

use std::io::{self, Read};
use std::sync::Arc;

use ports::archive::Item;
use ports::clock::TimestampMs;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::deliveries::delivery;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use workers::import::{
    ExportEntries, ExportEntry, FileTarget, ImportFiles, ImportOptions, ImportTarget, import,
};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::export::{TEAM, channel, person};
use crate::convergence::{check_property, only_in, queue};

const CHANNEL: &str = "C1";

/// A change of one of three messages.
#[derive(Debug, Clone)]
enum MessageChange {
    Edit { message: usize, text: u8 },
    React { message: usize, user: u8, added: bool },
    Reply { message: usize },
    Delete { message: usize },
    Share { message: usize, file: u8 },
}

/// The state of a message in Slack.
#[derive(Debug, Clone)]
struct SlackMessage {
    object: Value,
    reactions: Vec<u8>,
    replies: u64,
    is_deleted: bool,
}

fn ts(second: usize, micro: usize) -> String {
    format!("{}.{micro:06}", 1_600_000_000 + second)
}

/// The events of all changes, and the export that Slack would create after each of them.
fn events_and_exports(changes: &[MessageChange]) -> (Vec<Value>, Vec<Value>) {
    let mut known: Vec<SlackMessage> = (0..3)
        .map(|n| SlackMessage {
            object: event::message(&ts(n, 100), &format!("U{n}"), &format!("message {n}")),
            reactions: Vec::new(),
            replies: 0,
            is_deleted: false,
        })
        .collect();
    let mut events: Vec<Value> = known.iter().map(|known| event::posted(CHANNEL, &known.object)).collect();
    let mut days = vec![day(&known)];
    for (number, change) in changes.iter().enumerate() {
        let clock = ts(100 + number, 0);
        let (MessageChange::Edit { message, .. }
        | MessageChange::React { message, .. }
        | MessageChange::Reply { message }
        | MessageChange::Delete { message }
        | MessageChange::Share { message, .. }) = change;
        let before = known[*message].object.clone();
        if known[*message].is_deleted {
            continue;
        }
        match change {
            MessageChange::Edit { text, .. } => {
                let after = event::edited(&before, &clock, &format!("text {text}"));
                events.push(event::changed(CHANNEL, &before, &after, &clock));
                known[*message].object = after;
            }
            MessageChange::Share { file, .. } => {
                let files = json!([event::file(&format!("F{file}"), "U0")]);
                let after = event::edited(&before, &clock, "with a file");
                let after = event::with_fields(after, [("files", files)]);
                events.push(event::changed(CHANNEL, &before, &after, &clock));
                known[*message].object = after;
            }
            MessageChange::React { user, added, .. } => {
                let of = before["ts"].as_str().unwrap();
                let name = format!("U{user}");
                let reaction = if *added { event::reaction_added } else { event::reaction_removed };
                events.push(reaction(CHANNEL, of, &name, "tada", &clock));
                let reactions = &mut known[*message].reactions;
                reactions.retain(|known| known != user);
                if *added {
                    reactions.push(*user);
                }
            }
            MessageChange::Reply { .. } => {
                let of = before["ts"].as_str().unwrap().to_owned();
                let reply = event::reply(&ts(100 + number, 700), &of, "U1", "a reply");
                events.push(event::posted(CHANNEL, &reply));
                known[*message].replies += 1;
                known.push(SlackMessage {
                    object: reply,
                    reactions: Vec::new(),
                    replies: 0,
                    is_deleted: false,
                });
            }
            MessageChange::Delete { .. } => {
                events.push(event::deleted(CHANNEL, &before, &clock));
                known[*message].is_deleted = true;
            }
        }
        days.push(day(&known));
    }
    (events, days)
}

/// The messages as an export lists them.
fn day(known: &[SlackMessage]) -> Value {
    let listed = known.iter().filter(|known| !known.is_deleted).map(|known| {
        let mut object = known.object.clone();
        let fields = object.as_object_mut().unwrap();
        fields.insert("user_team".into(), TEAM.into());
        fields.insert("user_profile".into(), json!({ "name": "volatile" }));
        if known.replies > 0 {
            let ts = fields["ts"].clone();
            fields.insert("thread_ts".into(), ts);
            fields.insert("reply_count".into(), known.replies.into());
        }
        if !known.reactions.is_empty() {
            let users: Vec<String> = known.reactions.iter().map(|user| format!("U{user}")).collect();
            fields.insert(
                "reactions".into(),
                json!([{ "name": "tada", "count": users.len(), "users": users }]),
            );
        }
        object
    });
    listed.collect()
}

pub(crate) struct InMemoryExport {
    entries: Vec<ExportEntry>,
    bytes: Vec<Vec<u8>>,
}

impl InMemoryExport {
    /// An export with one day of a channel.
    pub(super) fn with_day(day: &Value) -> Box<Self> {
        Self::with_entries([
            ("users.json", json!([person("U0"), person("U1"), person("U2")])),
            ("channels.json", json!([channel(CHANNEL, "general")])),
            ("general/2020-09-13.json", day.clone()),
        ])
    }

    /// An export with these entries.
    pub(crate) fn with_entries(lists: [(&str, Value); 3]) -> Box<Self> {
        let (entries, bytes) = lists
            .into_iter()
            .map(|(name, list)| {
                let bytes = list.to_string().into_bytes();
                (ExportEntry { name: name.into(), packed_bytes: bytes.len() as u64, modified_s: None }, bytes)
            })
            .unzip();
        Box::new(Self { entries, bytes })
    }
}

impl ExportEntries for InMemoryExport {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self.bytes[entry][..]))
    }
}

/// A step of a test case: an event is handled, or an export is imported.
#[derive(Debug, Clone)]
enum OverlapStep {
    Event(usize),
    Export(usize),
}

async fn rows(steps: &[OverlapStep], events: &[Value], days: &[Value]) -> Vec<Item> {
    let archive = Arc::new(MemoryArchive::new());
    let writer = MessageWriter::new(archive.clone(), queue());
    let files = FileTarget { queue: queue(), files: Arc::new(MemoryFiles::new()) };
    let target = ImportTarget { archive: archive.clone(), files: ImportFiles::Imported(files) };
    // Events that do not state that a channel is public would wait if the channel was never seen as public.
    let opener = event::envelope(TEAM, "EvOpener", &events[0]);
    assert_eq!(writer.handle(&[delivery(&opener)]).await, [JobOutcome::Done]);
    let options = ImportOptions { team: None, tokens: None, now: TimestampMs(1_700_000_000_000) };
    for (number, step) in steps.iter().enumerate() {
        match step {
            OverlapStep::Event(event) => {
                let job = delivery(&event::envelope(TEAM, &format!("Ev{event}x{number}"), &events[*event]));
                assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done]);
            }
            OverlapStep::Export(export) => {
                let sum = import(InMemoryExport::with_day(&days[*export]), &target, &options, &mut |_| {})
                    .await
                    .unwrap();
                assert_eq!((sum.skipped, sum.problems), (0, 0));
            }
        }
    }
    let kept = |item: &Item| ["message#", "revision#"].iter().any(|kind| item.key.item_id.starts_with(kind));
    MemoryArchive::items(&archive).into_iter().filter(kept).collect()
}

fn changes() -> impl Strategy<Value = Vec<MessageChange>> {
    let change = prop_oneof![
        4 => (0..3usize, 0..4u8).prop_map(|(message, text)| MessageChange::Edit { message, text }),
        2 => (0..3usize, 0..3u8, any::<bool>())
            .prop_map(|(message, user, added)| MessageChange::React { message, user, added }),
        2 => (0..3usize).prop_map(|message| MessageChange::Reply { message }),
        1 => (0..3usize).prop_map(|message| MessageChange::Delete { message }),
        1 => (0..3usize, 0..2u8).prop_map(|(message, file)| MessageChange::Share { message, file }),
    ];
    prop::collection::vec(change, 0..8)
}

#[test]
fn overlapping_exports_and_live_events_in_any_order_leave_the_same_messages() {
    check_property(200, &(changes(), any::<u64>()), async |(changes, seed)| {
        let (events, days) = events_and_exports(&changes);
        let mut random = fastrand::Rng::with_seed(seed);
        // Some of the events are live; there are three exports, one of them twice.
        let mut steps: Vec<OverlapStep> =
            (0..events.len()).filter(|_| random.bool()).map(OverlapStep::Event).collect();
        let exports: Vec<usize> = (0..3).map(|_| random.usize(0..days.len())).collect();
        steps.extend(exports.iter().chain(exports.first()).map(|export| OverlapStep::Export(*export)));
        let expected = rows(&steps, &events, &days).await;
        for _ in 0..2 {
            random.shuffle(&mut steps);
            let found = rows(&steps, &events, &days).await;
            prop_assert_eq!(only_in(&expected, &found), only_in(&found, &expected));
        }
        Ok(())
    });
}
