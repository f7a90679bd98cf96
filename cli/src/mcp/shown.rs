//! The format of messages in an answer, and the limits of its size.

use ports::archive::{Archive, ArchiveError};
use reader::joined::ChannelOfTeam;
use reader::{directory, permalink};
use rules::view::MessageView;
use serde_json::{Map, Value, json};
use slack::ids::Ts;

use crate::plain;
use crate::zone::Zone;

/// Maximum size of a result. With everything around it, it is below 64 KB, which leaves an assistant space
/// for a conversation.
const MAX_RESULT: usize = 60_000;

/// Maximum number of bytes of a message's text. Even a text of quotation marks only, which take six times the
/// space, fits.
pub(super) const WHOLE_TEXT: usize = 9_000;
/// The same for a search hit, which also has a snippet around the match.
pub(super) const HIT_TEXT: usize = 2_000;

/// Limits for names and lists. Slack's own are not longer; forged ones are cut.
pub(super) const MAX_NAME_CHARS: usize = 80;
const MAX_LISTED: usize = 20;

/// The fields that identify an item. They are short, and never cut.
const IDENTIFYING: [&str; 3] = ["team_id", "channel_id", "ts"];

/// The facts about a channel in an answer with its messages.
pub(super) struct ShownChannel {
    pub(super) location: ChannelOfTeam,
    pub(super) name: Option<String>,
    base_url: Option<String>,
}

impl ShownChannel {
    pub(super) async fn read(archive: &dyn Archive, location: &ChannelOfTeam) -> Result<Self, ArchiveError> {
        let channels = directory::read(archive, &location.team).await?;
        let base_url = directory::read_workspace_facts(archive, &location.team).await?.base_url;
        Ok(Self {
            location: location.clone(),
            name: channels.name(&location.channel).map(str::to_owned),
            base_url,
        })
    }

    pub(super) fn permalink(&self, ts: &Ts, thread_ts: Option<&Ts>) -> String {
        permalink::message_permalink(self.base_url.as_deref(), &self.location.channel, ts, thread_ts)
    }
}

/// Returns the fields that identify a channel in every answer.
pub(super) fn channel(location: &ChannelOfTeam, name: Option<&str>) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("team_id".to_owned(), location.team.as_str().into());
    shown.insert("channel_id".to_owned(), location.channel.as_str().into());
    set_if_some(&mut shown, "channel_name", name.map(|name| plain::excerpt(name, MAX_NAME_CHARS)));
    shown
}

/// Sets a field if it has a value. An answer omits missing fields.
pub(super) fn set_if_some(shown: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        shown.insert(name.to_owned(), value.into());
    }
}

/// Formats a row of [`rules::project::message`] for an assistant. `cut` names the fields that are not whole.
pub(super) fn message(
    message: &MessageView,
    author: &str,
    text: &str,
    permalink: String,
    zone: &Zone,
    max_text: usize,
) -> Map<String, Value> {
    let mut shown = Map::new();
    let short = |text: &str| plain::excerpt(text, MAX_NAME_CHARS);
    let ts = message.ts().unwrap_or_default();
    shown.insert("ts".to_owned(), ts.into());
    set_if_some(&mut shown, "time", zone.stamp(ts));
    set_if_some(&mut shown, "thread_ts", message.thread_ts().map(short));
    set_if_some(&mut shown, "user", message.user().map(short));
    shown.insert("author".to_owned(), plain::excerpt(author, MAX_NAME_CHARS).into());
    let end = text.floor_char_boundary(max_text);
    shown.insert("text".to_owned(), text[..end].into());
    if end < text.len() {
        mark_cut(&mut shown, "text");
    }
    for (name, all, kept) in
        [("files", message.files(), ["id", "name"]), ("reactions", message.reactions(), ["name", "count"])]
    {
        let listed: Vec<Value> = all.iter().take(MAX_LISTED).map(|item| short_fields(item, kept)).collect();
        set_if_some(&mut shown, name, (!listed.is_empty()).then_some(listed));
        if all.len() > MAX_LISTED {
            mark_cut(&mut shown, name);
        }
    }
    set_if_some(&mut shown, "edited", message.updated_ts().map(short));
    set_if_some(&mut shown, "pinned", message.is_pinned().then_some(true));
    set_if_some(&mut shown, "deleted", message.is_deleted().then_some(true));
    shown.insert("permalink".to_owned(), permalink.into());
    shown
}

/// Returns these fields of a file or reaction, each with a bounded size.
fn short_fields(item: &Value, names: [&str; 2]) -> Value {
    let short = |value: &Value| match value {
        Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => plain::excerpt(text, MAX_NAME_CHARS).into(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            plain::excerpt(&value.to_string(), MAX_NAME_CHARS).into()
        }
    };
    let present = names.into_iter().filter(|name| !item[*name].is_null());
    present.map(|name| (name.to_owned(), short(&item[name]))).collect::<Map<String, Value>>().into()
}

/// Records that a field of an item is shown cut.
fn mark_cut(item: &mut Map<String, Value>, name: &str) {
    if let Value::Array(names) = item.entry("cut").or_insert_with(|| json!([]))
        && !names.iter().any(|known| known == name)
    {
        names.push(name.into());
    }
}

/// Cuts the longest fields of an item until it fits a result alone.
fn cut_to_fit(item: &mut Value) {
    while size(item) > MAX_RESULT
        && let Value::Object(fields) = item
    {
        let is_cuttable = |name: &str| name != "cut" && !IDENTIFYING.contains(&name);
        let cuttable = fields.iter_mut().filter(|(name, _)| is_cuttable(name));
        let Some((name, value)) = cuttable.max_by_key(|(_, value)| size(value)) else { return };
        if let Value::String(text) = value {
            text.truncate(text.floor_char_boundary(text.len() / 2));
        } else if let Value::Array(items) = value {
            items.truncate(items.len() / 2);
        } else {
            *value = Value::Null;
        }
        let name = name.clone();
        mark_cut(fields, &name);
    }
}

/// The end of a list that is kept if the list does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Beginning,
    End,
}

/// Returns as many of the items as fit a result, and whether any are left out. The first one is always there,
/// cut if it does not fit, so that the next result begins after it.
pub(super) fn fit_result(mut items: Vec<Value>, kept: Kept) -> (Vec<Value>, bool) {
    if kept == Kept::End {
        items.reverse();
    }
    if let Some(first) = items.first_mut() {
        cut_to_fit(first);
    }
    let mut available = MAX_RESULT;
    let count = items.iter().take_while(|item| match available.checked_sub(size(item)) {
        Some(remaining) => {
            available = remaining;
            true
        }
        None => false,
    });
    let count = count.count();
    let is_cut = count < items.len();
    items.truncate(count);
    if kept == Kept::End {
        items.reverse();
    }
    (items, is_cut)
}

/// Returns the size of a value in a result, which contains it twice: as JSON, and as a JSON text in a string.
fn size(value: &Value) -> usize {
    let json = value.to_string();
    let escaped = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    2 * json.len() + escaped + 2
}

/// Builds an answer from its common fields and its list.
pub(super) fn answer(mut head: Map<String, Value>, name: &str, items: Vec<Value>) -> Value {
    head.insert(name.to_owned(), json!(items));
    head.into()
}

#[cfg(test)]
mod tests {
    use process::config::zone::{NamedZone, ZoneArgs};

    use super::*;

    #[test]
    fn items_that_do_not_fit_are_dropped_from_the_other_end() {
        let items: Vec<Value> =
            (0..100).map(|number| json!({ "number": number, "text": "x".repeat(1_000) })).collect();
        let numbers = |items: &[Value]| -> Vec<u64> {
            items.iter().map(|item| item["number"].as_u64().unwrap()).collect()
        };
        let (first, is_cut) = fit_result(items.clone(), Kept::Beginning);
        assert!(is_cut && first.len() > 20 && numbers(&first)[0] == 0, "{}", first.len());
        let (last, is_cut) = fit_result(items.clone(), Kept::End);
        assert!(is_cut && last.len() == first.len() && numbers(&last).last() == Some(&99));
        assert!(numbers(&last).is_sorted());
        assert_eq!(fit_result(items[..20].to_vec(), Kept::End), (items[..20].to_vec(), false));
        let whole = answer(Map::new(), "messages", last);
        assert!(whole.to_string().len() + json!(whole.to_string()).to_string().len() < 65_536);
    }

    #[test]
    fn the_longest_message_fits_alone() {
        let zone = Zone::from_args(&ZoneArgs { tz: Some(NamedZone::parse("UTC").unwrap()) });
        for text in ["\"", "\\", "\n", "🎉", "会", "x"] {
            let named = json!({ "id": "F".repeat(500), "name": text.repeat(500), "count": 1 });
            let row = json!({ "ts": "1700000000.000100", "user": "U1", "updated_ts": "x", "deleted": true,
                "thread_ts": "1700000000.000100", "files": vec![named.clone(); 2], "reactions": vec![named; 2] });
            let long = text.repeat(40_000);
            let link = format!("https://{}.slack.com/archives/C1/p1700000000000100", "x".repeat(100));
            let shown = message(&row.clone().into(), &long, &long, link, &zone, WHOLE_TEXT);
            let (fitting, is_cut) = fit_result(vec![shown.into()], Kept::Beginning);
            assert!(!is_cut && fitting[0]["cut"] == json!(["text"]), "{text}");
        }
    }

    #[test]
    fn a_list_of_any_items_begins_with_one_that_fits() {
        let zone = Zone::from_args(&ZoneArgs { tz: Some(NamedZone::parse("UTC").unwrap()) });
        let emoji =
            vec![json!({ "id": "F1", "name": "🎉".repeat(80), "count": { "x": "y".repeat(90_000) } }); 30];
        let row = json!({ "ts": "1700000000.000100", "user": "U".repeat(90_000), "thread_ts": "\"".repeat(90_000),
            "updated_ts": "x".repeat(90_000), "files": emoji, "reactions": emoji });
        let long = "\"".repeat(9_000);
        let shown = message(&row.clone().into(), &long, &long, "x".repeat(90_000), &zone, WHOLE_TEXT);
        for kept in [Kept::Beginning, Kept::End] {
            let (fitting, is_cut) = fit_result(vec![shown.clone().into(); 3], kept);
            assert!(is_cut && fitting.len() == 1 && size(&fitting[0]) <= MAX_RESULT);
            assert_eq!(fitting[0]["ts"], "1700000000.000100");
            for name in ["files", "reactions", "permalink"] {
                assert!(
                    fitting[0]["cut"].as_array().unwrap().contains(&name.into()),
                    "{}",
                    fitting[0]["cut"]
                );
            }
        }
    }
}
