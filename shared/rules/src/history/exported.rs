//! Elements of a day of an export. In addition to messages, exports with logs of edits and deletions contain
//! log entries: the current and the earlier versions of a message, under the names that events use or under
//! older ones. Each is a version of that message, never a separate message.
//!
//! <https://slack.com/help/articles/220556107-How-to-read-Slack-data-exports>

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{HistoryMessage, normal, read_object, text};
use crate::Malformed;
use slack::envelope;
use slack::ids::{ChannelId, TeamId};

/// The members of a log entry that contain the earlier version of the message.
const BEFORE: [&str; 3] = ["previous_message", "previous", "original"];

/// An element of a day.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportedElement {
    Message(Box<HistoryMessage>),
    /// The versions of one message in a log entry, a deletion included. The message may be of any other day.
    Log(Vec<HistoryMessage>),
}

/// Reads an element of a day of an export.
///
/// # Errors
/// As [`super::read`]; also [`Malformed::Missing`] if a log entry does not identify its message.
pub fn exported(team: &TeamId, channel: &ChannelId, raw: &RawValue) -> Result<ExportedElement, Malformed> {
    let missing = |event, field| Malformed::Missing { event, field };
    let Value::Object(mut entry) = envelope::parse_value(raw.get())? else {
        return Err(missing("history", "message"));
    };
    let objects = match text(&entry, "subtype") {
        Some("message_changed") => {
            let earlier = earlier_versions(&mut entry);
            let current =
                current_version(entry, earlier.first()).ok_or(missing("message_changed", "message"))?;
            all_versions(current, earlier)
        }
        Some("message_deleted") => {
            let earlier = earlier_versions(&mut entry);
            let ts = entry.remove("deleted_ts").or_else(|| earlier.first()?.get("ts").cloned());
            let ts = ts.ok_or(missing("message_deleted", "deleted_ts"))?;
            let tombstone = [("ts".to_owned(), ts), ("subtype".to_owned(), "tombstone".into())];
            all_versions(tombstone.into_iter().collect(), earlier)
        }
        Some(_) | None => {
            return read_object(team, channel, entry).map(Box::new).map(ExportedElement::Message);
        }
    };
    let read = objects.into_iter().map(|object| read_object(team, channel, object));
    read.collect::<Result<_, _>>().map(ExportedElement::Log)
}

/// Takes the earlier versions of the message out of a log entry.
fn earlier_versions(entry: &mut Map<String, Value>) -> Vec<Map<String, Value>> {
    let objects = BEFORE.into_iter().filter_map(|name| entry.remove(name));
    objects
        .filter_map(|object| if let Value::Object(object) = object { Some(object) } else { None })
        .collect()
}

/// The current version of the message: an object in the entry, or the entry itself, whose `ts` is the time of
/// the edit if it differs from the message's.
fn current_version(
    mut entry: Map<String, Value>,
    earlier: Option<&Map<String, Value>>,
) -> Option<Map<String, Value>> {
    if let Some(Value::Object(message)) = entry.remove("message") {
        return Some(message);
    }
    let earlier = earlier?;
    if !entry.contains_key("text") {
        return None;
    }
    match earlier.get("subtype") {
        Some(subtype) => entry.insert("subtype".into(), subtype.clone()),
        None => entry.remove("subtype"),
    };
    if let Some(ts) = earlier.get("ts").filter(|ts| Some(*ts) != entry.get("ts"))
        && let Some(edited_ts) = entry.insert("ts".into(), ts.clone())
    {
        entry.entry("edited").or_insert_with(|| serde_json::json!({ "ts": edited_ts }));
    }
    Some(entry)
}

/// The earlier versions and then the current one. An earlier version without a `ts` gets the current one's.
fn all_versions(
    mut current: Map<String, Value>,
    mut versions: Vec<Map<String, Value>>,
) -> Vec<Map<String, Value>> {
    normal::timestamps(&mut current);
    for object in &mut versions {
        if let Some(ts) = current.get("ts") {
            object.entry("ts").or_insert_with(|| ts.clone());
        }
    }
    versions.push(current);
    versions
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::Change;

    fn read(element: &Value) -> Result<ExportedElement, Malformed> {
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        exported(&team, &channel, &to_raw_value(element).unwrap())
    }

    /// The `ts`, the edit time and the text of each version; a deletion has no text.
    fn versions(entry: &Value) -> Vec<(String, Option<String>, Option<String>)> {
        let ExportedElement::Log(versions) = read(entry).unwrap() else { panic!("{entry}") };
        let text = |message: &HistoryMessage| match &message.change {
            Change::Content(content) => content.if_absent().set["text"].as_str().map(str::to_owned),
            Change::Register(deletion) => {
                assert_eq!(deletion.set_if_absent["deleted"], true);
                None
            }
        };
        let version = |message: &HistoryMessage| {
            let edited = message.edited.as_ref().map(ToString::to_string);
            (message.ts.to_string(), edited, text(message))
        };
        versions.iter().map(version).collect()
    }

    fn version(edited: Option<&str>, text: Option<&str>) -> (String, Option<String>, Option<String>) {
        ("1700000001.000000".to_owned(), edited.map(str::to_owned), text.map(str::to_owned))
    }

    #[test]
    fn an_edit_entry_has_the_earlier_and_the_current_version_under_any_of_its_names() {
        let after = json!({ "type": "message", "ts": "1700000001.000000", "user": "U1", "text": "new",
            "edited": { "user": "U1", "ts": "1700000009.000000" } });
        let expected = [version(None, Some("old")), version(Some("1700000009.000000"), Some("new"))];
        for name in BEFORE {
            let old = json!({ "type": "message", "ts": "1700000001.000000", "user": "U1", "text": "old" });
            let entry = json!({ "type": "message", "subtype": "message_changed", "hidden": true, "ts": "1700000009.000100",
                "message": after, name: old });
            assert_eq!(versions(&entry), expected, "{name}");
        }
        let nameless = json!({ "subtype": "message_changed", "ts": "1700000009.000100", "message": after,
            "original": { "user": "U1", "text": "old" } });
        assert_eq!(versions(&nameless), expected);
        let alone = json!({ "subtype": "message_changed", "ts": "1700000009.000100", "message": after, "original": null });
        assert_eq!(versions(&alone), expected[1..]);
    }

    #[test]
    fn an_edit_entry_may_be_the_current_version_itself_with_the_earlier_one_in_it() {
        let entry = |ts: &str| {
            json!({ "type": "message", "subtype": "message_changed", "ts": ts, "user": "U1", "text": "new",
                "original": { "ts": "1700000001.000000", "user": "U1", "text": "old" } })
        };
        let expected = [version(None, Some("old")), version(Some("1700000009.000000"), Some("new"))];
        assert_eq!(versions(&entry("1700000009.000000")), expected);
        let mut marked = entry("1700000001.000000");
        marked["edited"] = json!({ "ts": "1700000009.000000" });
        assert_eq!(versions(&marked), expected);
        let ExportedElement::Log(read) = read(&marked).unwrap() else { panic!() };
        assert!(!read[1].content().unwrap().if_absent().set.contains_key("subtype"));
    }

    #[test]
    fn a_deletion_entry_deletes_the_message_and_carries_its_text() {
        let old = json!({ "ts": "1700000001.000000", "user": "U1", "text": "old" });
        let whole = json!({ "subtype": "message_deleted", "ts": "1700000009.000100", "deleted_ts": "1700000001.000000",
            "previous_message": old });
        assert_eq!(versions(&whole), [version(None, Some("old")), version(None, None)]);
        let without_deleted_ts =
            json!({ "subtype": "message_deleted", "ts": "1700000009.000100", "original": old });
        assert_eq!(versions(&without_deleted_ts), [version(None, Some("old")), version(None, None)]);
        let alone =
            json!({ "subtype": "message_deleted", "ts": "1700000009.000100", "deleted_ts": 1_700_000_001 });
        assert_eq!(versions(&alone), [version(None, None)]);
    }

    #[test]
    fn an_entry_without_a_message_is_malformed_and_other_elements_are_messages() {
        for entry in [
            json!({ "subtype": "message_changed", "ts": "1700000009.000100" }),
            json!({ "subtype": "message_changed", "ts": "1700000009.000100", "text": "about which?" }),
            json!({ "subtype": "message_changed", "ts": "1700000009.000100", "message": { "text": "when?" } }),
            json!({ "subtype": "message_deleted", "ts": "1700000009.000100", "previous_message": [] }),
            json!([]),
        ] {
            assert!(matches!(read(&entry), Err(Malformed::Missing { .. })), "{entry}");
        }
        for subtype in [json!(null), json!("tombstone"), json!("bot_message")] {
            let message = json!({ "ts": "1700000001.000000", "subtype": subtype, "text": "hi" });
            let ExportedElement::Message(element) = read(&message).unwrap() else { panic!("{message}") };
            assert_eq!(element.ts.as_str(), "1700000001.000000");
        }
    }
}
