//! The format of messages in an answer, and the limits of its size.

use ports::archive::{Archive, ArchiveError};
use reader::joined::ChannelOfTeam;
use reader::{directory, permalink};
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

/// Formats a row of [`rules::project::message`] for an assistant.
pub(super) fn message(
    message: &Value,
    author: &str,
    text: &str,
    permalink: String,
    zone: &Zone,
    max_text: usize,
) -> Map<String, Value> {
    let mut shown = Map::new();
    let own = |name: &str| message[name].as_str().map(str::to_owned);
    let ts = message["ts"].as_str().unwrap_or_default();
    shown.insert("ts".to_owned(), ts.into());
    set_if_some(&mut shown, "time", zone.stamp(ts));
    set_if_some(&mut shown, "thread_ts", own("thread_ts"));
    set_if_some(&mut shown, "user", own("user"));
    shown.insert("author".to_owned(), plain::excerpt(author, MAX_NAME_CHARS).into());
    let cut = text.floor_char_boundary(max_text);
    shown.insert("text".to_owned(), text[..cut].into());
    set_if_some(&mut shown, "text_is_cut", (cut < text.len()).then_some(true));
    let listed = |name: &str, kept: [&str; 2]| -> Option<Vec<Value>> {
        let all = message[name].as_array().filter(|all| !all.is_empty())?;
        let item = |item: &Value| {
            let kept = kept.iter().filter(|name| !item[**name].is_null());
            let value = |name: &str| match item[name].as_str() {
                Some(text) => plain::excerpt(text, MAX_NAME_CHARS).into(),
                None => item[name].clone(),
            };
            kept.map(|name| ((*name).to_owned(), value(name))).collect::<Map<String, Value>>().into()
        };
        Some(all.iter().take(MAX_LISTED).map(item).collect())
    };
    set_if_some(&mut shown, "files", listed("files", ["id", "name"]));
    set_if_some(&mut shown, "reactions", listed("reactions", ["name", "count"]));
    set_if_some(&mut shown, "edited", own("updated_ts"));
    set_if_some(&mut shown, "pinned", message["pinned"].is_object().then_some(true));
    set_if_some(&mut shown, "deleted", (message["deleted"] == true).then_some(true));
    shown.insert("permalink".to_owned(), permalink.into());
    shown
}

/// The end of a list that is kept if the list does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Beginning,
    End,
}

/// Returns as many of the items as fit a result, and whether any are left out.
pub(super) fn fit_result(mut items: Vec<Value>, kept: Kept) -> (Vec<Value>, bool) {
    if kept == Kept::End {
        items.reverse();
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
            let shown = message(&row, &long, &long, link, &zone, WHOLE_TEXT);
            let (fitting, is_cut) = fit_result(vec![shown.into()], Kept::Beginning);
            assert!(!is_cut && fitting[0]["text_is_cut"] == true, "{text}");
        }
    }
}
