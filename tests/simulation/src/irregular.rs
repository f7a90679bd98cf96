//! Messages that are less regular than the documentation of Slack: their words are in blocks, their author is
//! not in the directory, or their fields are null. At the end a reader must find every word of them.

use std::collections::{BTreeMap, BTreeSet};

use reader::names::DisplayNames;
use reader::search::document::index_words_and_facets;
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::shapes::{self, Markers, MessageShape};

use super::erasing::ErasedJobs;
use super::fleet::SimulationState;
use super::model::{MessageLocation, ModelledMessage};
use super::unaccepted::Unaccepted;
use super::workload::START_MICROS;
use super::world::{Invariant, World};
use ports::archive::ItemKey;
use testkit::corpus::TEAM;

/// How the words begin that a reader must find.
const WORD: &str = "zq";

/// An id as long as Slack allows.
const LONG_ID: &str = "U0123456789ABCDEFGHIJKLMNOPQRS";

/// Returns an irregular message. `number` differs for each message of a run.
pub(super) fn message(world: &World, clock: &str, user: &str, text: &str, number: u64) -> Value {
    let mut markers = Markers::new(&format!("{WORD}{}", letters(number)));
    let regular = || event::message(clock, user, text);
    let null = || Value::Null;
    match world.random_below(12) {
        // An app's words are in its blocks; its text is for notifications.
        0..4 => {
            let blocks: Vec<Value> =
                (0..=world.random_below(2)).map(|_| block(world, &mut markers)).collect();
            let message = event::bot_message(clock, "B0SHAPES", "shapes", text);
            let message = event::with_fields(message, [("blocks", blocks.into())]);
            if world.chance_percent(50) { without(message, &["username", "subtype"]) } else { message }
        }
        4 => {
            let attachment = shape(world, &[shapes::ATTACHMENTS], &mut markers);
            let message = event::bot_message(clock, "B0SHAPES", "shapes", text);
            event::with_fields(without(message, &["username"]), [("attachments", json!([attachment]))])
        }
        5 => json!({
            "type": "message", "subtype": "file_comment", "text": text, "ts": clock, "is_intro": false,
            "comment": { "id": format!("Fc0{number}"), "created": 1, "timestamp": 1, "user": user, "comment": text },
        }),
        // A person of another organisation, whose name is nowhere else.
        6 => event::with_fields(
            event::message(clock, &format!("U8{:05}", number % 3), text),
            [
                ("team", "T0PARTNER01".into()),
                ("user_team", "T0PARTNER01".into()),
                ("source_team", "T0PARTNER01".into()),
                ("user_profile", json!({ "display_name": "pat", "real_name": null, "team": "T0PARTNER01" })),
            ],
        ),
        7 => event::with_fields(
            regular(),
            [
                ("subtype", null()),
                ("thread_ts", null()),
                ("edited", null()),
                ("files", null()),
                ("attachments", null()),
                ("reactions", null()),
                ("bot_id", null()),
                ("user_profile", null()),
                ("metadata", null()),
            ],
        ),
        // PHP writes an empty object as an empty array.
        8 => event::with_fields(
            regular(),
            [
                ("edited", json!([])),
                ("bot_profile", json!([])),
                ("user_profile", json!([])),
                ("metadata", json!([])),
                ("files", json!({})),
                ("attachments", json!({})),
                ("icons", json!([])),
            ],
        ),
        9 => event::message(clock, LONG_ID, text),
        10 => event::reply(clock, &missing_root(number), user, text),
        _ => event::with_fields(
            without(event::bot_message(clock, "B0SHAPES", "", text), &["username"]),
            [("user", null()), ("blocks", json!([null, 17, block(world, &mut markers)]))],
        ),
    }
}

/// Returns the time of a root that was posted before the app was installed.
fn missing_root(number: u64) -> String {
    testkit::corpus::ts(START_MICROS - 1_000_000_000 + i64::try_from(number % 5).unwrap_or_default())
}

/// Whether this is the root of replies, but no event has announced it.
pub(super) fn is_missing_root(ts: &str) -> bool {
    ts < testkit::corpus::ts(START_MICROS).as_str()
}

fn block(world: &World, markers: &mut Markers) -> Value {
    if world.chance_percent(40) {
        let element = shape(world, &[shapes::ELEMENTS, shapes::INVENTED_ELEMENTS], markers);
        return shapes::rich_text(&[element]);
    }
    shape(world, &[shapes::BLOCKS, shapes::INVENTED_BLOCKS], markers)
}

fn shape(world: &World, tables: &[&[MessageShape]], markers: &mut Markers) -> Value {
    let shapes: Vec<&MessageShape> = tables.iter().copied().flatten().collect();
    let index = usize::try_from(world.random_below(shapes.len() as u64)).unwrap_or_default();
    shapes[index].1(markers)
}

fn without(mut message: Value, names: &[&str]) -> Value {
    if let Value::Object(members) = &mut message {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
    message
}

fn letters(number: u64) -> String {
    [number / 26, number].iter().map(|digit| char::from(b'a' + (digit % 26) as u8)).collect()
}

/// Returns the words in a message that a reader must find.
pub(super) fn words(message: &Value) -> BTreeSet<String> {
    let text = message.to_string();
    let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.starts_with(WORD));
    words.map(str::to_owned).collect()
}

/// Checks that every word of the newest version of each message is read from its row.
pub(super) fn check_readable(
    all: &SimulationState,
    messages: &BTreeMap<MessageLocation, ModelledMessage>,
    unaccepted: &Unaccepted,
    erased: &ErasedJobs,
) {
    let names = DisplayNames::for_teams(&*all.archive, Vec::new());
    for ((channel, ts), expected) in messages {
        if expected.deleted || unaccepted.concerns(channel, ts) || erased.concerns(channel, ts) {
            continue;
        }
        let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
        let Some(row) = row.filter(|row| !row.is_erased() && !row.has_flag("deleted")) else { continue };
        let Some(message) = rules::project::message(&row) else { continue };
        // The text for notifications has none of the words.
        let message = event::with_fields(all.mutants.readable(message.into_json()), [("text", Value::Null)]);
        let (read, _) = index_words_and_facets(&message.into(), &names);
        if let Some(word) = expected.words().find(|word| !read.contains(word.as_str())) {
            let what = format!("{ts} in {channel} is read as {read:?}, which lacks {word}");
            all.world.report_violation(Invariant::Lost, what);
        }
    }
}

/// Checks that each person of another organisation has a name: only their messages say it.
pub(super) fn check_authors(all: &SimulationState, requests: &[Value]) {
    for event in requests.iter().map(|request| &request["event"]) {
        let is_described = event["user_profile"]["display_name"].is_string();
        let [channel, ts, user] = ["channel", "ts", "user"].map(|name| event[name].as_str());
        let (true, Some(channel), Some(ts), Some(user)) = (is_described, channel, ts, user) else { continue };
        let message = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts));
        if message.is_none_or(|message| message.is_erased()) {
            continue;
        }
        let person = all.archive.item(&ItemKey::new(format!("user#{TEAM}"), user));
        let names = ["display_name", "real_name", "name"];
        if !person.is_some_and(|person| names.iter().any(|name| person.text(name).is_some())) {
            let what = format!("{user}, who wrote {ts} in {channel}, has no name");
            all.world.report_violation(Invariant::Lost, what);
        }
    }
}
