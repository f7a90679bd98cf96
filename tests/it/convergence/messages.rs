//! Messages, people, user groups and emoji.

use std::sync::Arc;

use ports::archive::Item;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::corpus::event::EnvelopeShape;
use testkit::corpus::{TEAM, event};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::{DisorderedInputs, Interleaved, ListableArchive, check_property, disordered, only_in, queue};
use testkit::deliveries::{deliveries, delivery};
use testkit::fake_slack::user_group;

const CHANNEL: &str = "C01";

/// A change of one of a few messages, or of a user, a user group or an emoji.
#[derive(Debug, Clone)]
enum MessageStep {
    Edit,
    /// Another edit in the same second as the previous one, or as the post.
    EditAtOnce,
    /// An app changes its text, perhaps to an earlier one: Slack marks no edit.
    Update {
        text: u8,
    },
    Unfurl,
    /// A file is shared with the message, or deleted.
    File {
        deleted: bool,
    },
    /// The message lists its reactions.
    List {
        user: u8,
        name: u8,
    },
    /// The message says that it is pinned, which only history reads.
    Pinned {
        user: u8,
        second: u8,
    },
    Reply,
    Broadcast,
    Replied,
    Delete,
    Tombstone,
    React {
        user: u8,
        name: u8,
        added: bool,
    },
    Pin {
        user: u8,
        added: bool,
    },
    Profile {
        user: u8,
    },
    /// A user group changes: its name and all its members, or one of its members.
    Group {
        user: u8,
        added: bool,
        is_complete: bool,
    },
    Emoji {
        name: u8,
        added: bool,
    },
    /// A message of a public or of a private channel, or about its conversion, perhaps an hour later.
    Audience {
        is_private: bool,
        is_conversion: bool,
        is_later: bool,
    },
}

#[derive(Debug, Clone)]
pub(super) struct MessageEvent {
    message: usize,
    step: MessageStep,
    /// Whether Slack's clock has not advanced since the previous event.
    same_clock: bool,
}

pub(super) fn message_event() -> impl Strategy<Value = MessageEvent> {
    let step = prop_oneof![
        4 => Just(MessageStep::Edit),
        2 => Just(MessageStep::EditAtOnce),
        4 => (0..3u8).prop_map(|text| MessageStep::Update { text }),
        2 => Just(MessageStep::Unfurl),
        1 => any::<bool>().prop_map(|deleted| MessageStep::File { deleted }),
        1 => (0..2u8, 0..2u8).prop_map(|(user, name)| MessageStep::List { user, name }),
        1 => (0..2u8, 0..3u8).prop_map(|(user, second)| MessageStep::Pinned { user, second }),
        1 => Just(MessageStep::Reply),
        1 => Just(MessageStep::Broadcast),
        1 => Just(MessageStep::Replied),
        1 => Just(MessageStep::Delete),
        1 => Just(MessageStep::Tombstone),
        2 => (0..2u8, 0..2u8, any::<bool>()).prop_map(|(user, name, added)| MessageStep::React { user, name, added }),
        2 => (0..2u8, any::<bool>()).prop_map(|(user, added)| MessageStep::Pin { user, added }),
        1 => (0..2u8).prop_map(|user| MessageStep::Profile { user }),
        2 => (0..3u8, any::<bool>(), any::<bool>())
            .prop_map(|(user, added, is_complete)| MessageStep::Group { user, added, is_complete }),
        1 => (0..2u8, any::<bool>()).prop_map(|(name, added)| MessageStep::Emoji { name, added }),
        3 => any::<[bool; 3]>().prop_map(|[is_private, is_conversion, is_later]| MessageStep::Audience {
            is_private,
            is_conversion,
            is_later,
        }),
    ];
    (0..2usize, step, prop::bool::weighted(0.2)).prop_map(|(message, step, same_clock)| MessageEvent {
        message,
        step,
        same_clock,
    })
}

fn ts(second: i64, micro: i64) -> String {
    format!("{}.{micro:06}", 1_700_000_000 + second)
}

/// The events that Slack would send for these changes.
pub(super) fn events_of(message_events: &[MessageEvent]) -> Vec<Value> {
    let mut messages: Vec<Value> =
        (0..2).map(|n| event::message(&ts(n, 100), &format!("U0{n}"), &format!("message {n}"))).collect();
    let mut events: Vec<Value> = messages.iter().map(|message| event::posted(CHANNEL, message)).collect();
    let mut second = 10;
    for (number, MessageEvent { message, step, same_clock }) in message_events.iter().enumerate() {
        if !same_clock {
            second += 1;
        }
        if let MessageStep::Audience { is_later: true, .. } = step {
            second += 3_600;
        }
        let clock = ts(second, 0);
        // Two messages of a channel never share a timestamp.
        let new_ts = ts(second, 1000 + i64::try_from(number).unwrap());
        let before = messages[*message].clone();
        let of = before["ts"].as_str().unwrap().to_owned();
        let mut change = |after: Value| {
            messages[*message] = after.clone();
            event::changed(CHANNEL, &before, &after, &clock)
        };
        events.push(match step {
            MessageStep::Edit => change(event::edited(&before, &clock, &format!("edit {number}"))),
            MessageStep::EditAtOnce => {
                let second = |ts: &Value| Some(ts.as_str()?.split_once('.')?.0.to_owned());
                let second = second(&before["edited"]["ts"]).or_else(|| second(&before["ts"])).unwrap();
                change(event::edited(&before, &format!("{second}.000000"), &format!("edit {number}")))
            }
            MessageStep::Update { text } => {
                let text = format!("update {text}");
                change(event::with_fields(before.clone(), [("text", text.into()), ("blocks", json!([]))]))
            }
            MessageStep::File { deleted } => {
                let whole = event::file("F01", "U00");
                let file = if *deleted { json!({ "id": "F01", "mode": "tombstone" }) } else { whole };
                change(event::with_fields(before.clone(), [("files", json!([file]))]))
            }
            MessageStep::List { user, name } => {
                let listed = json!([{ "name": format!("emoji{name}"), "users": [format!("U1{user}")], "count": 1 }]);
                change(event::with_fields(before.clone(), [("reactions", listed)]))
            }
            MessageStep::Pinned { user, second } => {
                let info = json!({ "channel": CHANNEL, "pinned_by": format!("U1{user}"), "pinned_ts": second });
                let fields = [("pinned_to", json!([CHANNEL])), ("pinned_info", info)];
                change(event::with_fields(before.clone(), fields))
            }
            MessageStep::Unfurl => change(event::unfurled(&before, &format!("https://example.com/{number}"))),
            MessageStep::Reply => event::posted(CHANNEL, &event::reply(&new_ts, &of, "U03", "a reply")),
            MessageStep::Broadcast => {
                let reply = event::reply(&new_ts, &of, "U03", "to everyone");
                event::posted(CHANNEL, &event::subtyped(reply, "thread_broadcast", json!({ "root": before })))
            }
            MessageStep::Replied => event::replied(CHANNEL, &before, &clock, &clock),
            MessageStep::Delete => event::deleted(CHANNEL, &before, &clock),
            MessageStep::Tombstone => event::changed(CHANNEL, &before, &event::tombstone(&before), &clock),
            MessageStep::React { user, name, added: true } => {
                event::reaction_added(CHANNEL, &of, &format!("U1{user}"), &format!("emoji{name}"), &clock)
            }
            MessageStep::React { user, name, added: false } => {
                event::reaction_removed(CHANNEL, &of, &format!("U1{user}"), &format!("emoji{name}"), &clock)
            }
            MessageStep::Pin { user, added: true } => event::pin_added(CHANNEL, &of, &format!("U1{user}"), &clock),
            MessageStep::Pin { user, added: false } => {
                event::pin_removed(CHANNEL, &of, &format!("U1{user}"), &clock)
            }
            MessageStep::Profile { user } => event::user_change(&format!("U1{user}"), &format!("name {number}"), &clock),
            MessageStep::Group { user, added, is_complete: true } => {
                let users: Vec<String> = (0..3).filter(|n| (n == user) == *added).map(|n| format!("U1{n}")).collect();
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let group = user_group("S1", &format!("handle{user}"), &users, 1_700_000_000 + second);
                event::user_group_updated(&group, &clock)
            }
            MessageStep::Group { user, added, is_complete: false } => {
                let user = format!("U1{user}");
                let (in_group, out_of_it) = if *added { (vec![&*user], vec![]) } else { (vec![], vec![&*user]) };
                event::user_group_members_changed("S1", &in_group, &out_of_it, 1_700_000_000 + second, &clock)
            }
            MessageStep::Emoji { name, added: true } => {
                event::emoji_added(&format!("emoji{name}"), &format!("https://example.com/{number}"), &clock)
            }
            MessageStep::Audience { is_private, is_conversion, .. } => {
                let (audience, subtype) = match is_private {
                    true => ("group", "channel_convert_to_private"),
                    false => ("channel", "channel_convert_to_public"),
                };
                let mut message = event::message(&new_ts, "U03", &format!("in a {audience}"));
                if *is_conversion {
                    message = event::subtyped(message, subtype, json!({}));
                }
                event::with_fields(event::posted(CHANNEL, &message), [("channel_type", audience.into())])
            }
            MessageStep::Emoji { name, added: false } => {
                json!({ "type": "emoji_changed", "subtype": "remove", "names": [format!("emoji{name}")], "event_ts": clock })
            }
        });
    }
    events
}

fn delivered() -> impl Strategy<Value = DisorderedInputs<Value>> {
    let missed = prop::collection::vec(prop::bool::weighted(0.25), 11);
    let events = (prop::collection::vec(message_event(), 1..10), missed)
        .prop_map(|(message_events, missed)| received(events_of(&message_events), &missed));
    disordered(events)
}

/// Drops missed events: the writer only learns of these from later events. The first message marks the
/// channel as public.
fn received(events: Vec<Value>, missed: &[bool]) -> Vec<Value> {
    let missed = std::iter::once(&false).chain(missed).chain(std::iter::repeat(&false));
    events.into_iter().zip(missed).filter(|(_, missed)| !**missed).map(|(event, _)| event).collect()
}

async fn rows_in_order(events: &[Value]) -> Vec<Item> {
    let archive = Arc::new(MemoryArchive::new());
    let writer = MessageWriter::new(archive.clone(), queue());
    for job in deliveries(events) {
        assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done]);
    }
    MemoryArchive::items(&archive)
}

async fn rows_as_delivered(delivered: &DisorderedInputs<Value>, store: impl ListableArchive) -> Vec<Item> {
    // Events that do not state that a channel is public would be dropped if the channel was never seen as
    // public.
    let opener = event::posted(CHANNEL, &event::message(&ts(0, 100), "U00", "message 0"));
    let opener_writer = MessageWriter::new(store.archive(), queue());
    opener_writer.handle(&[delivery(&event::envelope(TEAM, "EvOpener", &opener))]).await;

    let archive = Interleaved::interleave(store.archive(), delivered.interleaving);
    let mut lives = delivered.lives.iter();
    for batch in delivered.order.chunks(delivered.batch) {
        let jobs: Vec<_> = batch
            .iter()
            .enumerate()
            // Slack also delivers one event under several ids, and in envelopes of several shapes.
            .map(|(index, number)| {
                let shape = EnvelopeShape::ALL[(number + index) % EnvelopeShape::ALL.len()];
                let event = &delivered.inputs[*number];
                delivery(&shape.apply(&event::envelope(TEAM, &format!("Ev{number}x{index}"), event)))
            })
            .collect();
        loop {
            let point = lives.next().map_or_else(CrashPoint::never, |steps| CrashPoint::after(*steps));
            let mortal = Arc::new(FaultyArchive::with_crash_point(Arc::clone(&archive), Arc::clone(&point)));
            let outcomes = MessageWriter::new(mortal, queue()).handle(&jobs).await;
            if !point.has_crashed() {
                assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
                break;
            }
        }
    }
    store.items().await
}

/// Compares `cases` cases with an in-memory archive that processes the same events in order.
pub(crate) fn converge<S: ListableArchive>(cases: u32, store: impl AsyncFn() -> S) {
    check_property(cases, &delivered(), async |delivered| {
        let expected = rows_in_order(&delivered.inputs).await;
        let found = rows_as_delivered(&delivered, store().await).await;
        prop_assert_eq!(only_in(&expected, &found), only_in(&found, &expected));
        Ok(())
    });
}

#[test]
fn any_order_duplication_and_crash_gives_the_same_rows() {
    converge(1500, async || Arc::new(MemoryArchive::new()));
}
