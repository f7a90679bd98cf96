//! Messages as Slack's history and its exports list them: normalized, then stored as content of clock 0.
//!
//! * [`normal`] removes the fields of a message object that change by themselves or are in some sources only.
//! * [`links`] removes tokens from addresses.
//! * [`exported`] reads a day of an export, which may contain logs of edits and deletions.
//! * [`compare`] compares a list of Slack's with the archive.
//! * [`job`] has the historian's jobs; [`unread`] says what they read, and [`progress`] how far they are.
//! * [`proof`] says which interval of a channel was compared with Slack, every night.
//!
//! History is Slack's own answer about a channel, so its messages need no existence check. Its content has
//! clock 0, like a `previous_message`, so an event about the same version wins. Its reactions are added at
//! clock 0, and so is its pin; a missing reaction or pin removes nothing.
//!
//! <https://docs.slack.dev/reference/methods/conversations.history>

pub mod compare;
mod exported;
pub mod job;
mod links;
mod normal;
pub mod progress;
pub mod proof;
#[cfg(test)]
mod tests;
pub mod unread;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

pub use exported::{ExportedElement, exported};

use crate::author::AuthorFacts;
use crate::message::{self, Content};
use crate::visibility::{VisibilityEvidence, converted};
use crate::{Change, Malformed, file, pin, reaction, workspace};
use ports::archive::{Item, Update};
use slack::envelope::{self, UnreadableJson};
use slack::ids::{ChannelId, FileId, SLACKBOT, TeamId, Ts, UserId};

/// The text that Slack substitutes for that of a deleted message with replies, also in old exports.
pub const DELETED_TEXT: &str = "This message was deleted.";

/// A message as history lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryMessage {
    /// The timestamp that identifies it in its channel.
    pub ts: Ts,
    /// Its author, if a person or an app's user wrote it.
    pub author: Option<UserId>,
    /// When it was last edited, if it was.
    pub edited: Option<Ts>,
    /// The root of its thread; for a root with replies, the message itself.
    pub thread_ts: Option<Ts>,
    /// The change that it makes: content of clock 0, or a deletion; with its reactions.
    pub change: Change,
    /// The facts about its thread, if it is a root with replies.
    pub thread: Option<ThreadHead>,
    /// The listed reactions: the name of each, and the user.
    pub reactions: Vec<(String, UserId)>,
    /// Whether Slack counts more reactions than it lists.
    pub reactions_cut: bool,
    /// What it says about its author, which is not stored with it.
    pub author_facts: AuthorFacts,
    /// The writes that store its pin, if Slack lists it as pinned.
    pub pin: Vec<Update>,
    /// What it shows about whether its channel is public, if it says that the channel was converted.
    pub visibility: Option<VisibilityEvidence>,
}

/// The facts about a thread in its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadHead {
    /// The number of replies.
    pub reply_count: u64,
    /// The newest reply, if the root names it.
    pub latest_reply: Option<Ts>,
}

impl HistoryMessage {
    /// Its content; `None` for a tombstone.
    pub fn content(&self) -> Option<&Content> {
        match &self.change {
            Change::Content(content) => Some(content),
            Change::Register(_) => None,
        }
    }

    /// The updates of the rows of its author and of their bot and organisation.
    pub fn author_updates(&self, team: &TeamId) -> Vec<Update> {
        let bot = self.content().and_then(|content| content.if_absent().set.get("bot_id")?.as_str());
        self.author_facts.updates(team, self.author.as_ref(), bot, &self.ts)
    }

    /// The update of its workspace's address, if one of its files shows it.
    pub fn workspace_update(&self, team: &TeamId) -> Option<Update> {
        let files = self.content()?.if_absent().set.get("files")?.as_array()?;
        files.iter().find_map(|file| workspace::address_from_file(team, file, &self.ts))
    }

    pub fn files(&self) -> file::Jobs {
        self.content().map(file::jobs).unwrap_or_default()
    }

    /// The jobs of its files whose state is not in its row; an erased message has none.
    pub fn files_to_fetch(&self, row: Option<&Item>) -> file::Jobs {
        if row.is_some_and(Item::is_erased) {
            return file::Jobs::default();
        }
        let is_settled = |id: &FileId| row.is_some_and(|row| file::row::state(row, id).is_some());
        self.content().map(|content| file::job::jobs_unless(content, is_settled)).unwrap_or_default()
    }

    /// Whether it shares files.
    pub fn has_files(&self) -> bool {
        self.content().is_some_and(|content| content.if_absent().set.contains_key("files"))
    }

    /// Whether it is a reply to another message.
    pub fn is_reply(&self) -> bool {
        self.thread_ts.as_ref().is_some_and(|thread_ts| *thread_ts != self.ts)
    }

    /// The later of the two times that decide what wins: of its post and of its edit.
    pub fn newest_time(&self) -> &Ts {
        self.edited.as_ref().map_or(&self.ts, |edited| edited.max(&self.ts))
    }
}

/// Reads a message object of a page of history.
///
/// # Errors
/// [`Malformed`] if it is not an object or has no usable `ts`; [`Malformed::Id`] if a timestamp in it does
/// not have Slack's shape.
pub fn read(team: &TeamId, channel: &ChannelId, raw: &RawValue) -> Result<HistoryMessage, Malformed> {
    match envelope::parse_value(raw.get())? {
        Value::Object(object) => read_object(team, channel, object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Malformed::Missing { event: "history", field: "message" })
        }
    }
}

fn read_object(
    team: &TeamId,
    channel: &ChannelId,
    mut object: Map<String, Value>,
) -> Result<HistoryMessage, Malformed> {
    normal::timestamps(&mut object);
    let listed = object.get("reactions").map(to_raw_value).transpose().map_err(|_| UnreadableJson)?;
    let reactions = listed.as_deref().map(reaction::listed).unwrap_or_default();
    let reactions_cut = is_cut(&object) || reactions.len() >= reaction::MAX_LISTED;
    let missing = Malformed::Missing { event: "history", field: "ts" };
    let ts = Ts::of_message(text(&object, "ts").ok_or(missing)?)?;
    let thread = thread_head(&object);
    let pin = pin::listed(channel, &object).map(|pin| pin.updates(team, channel, &ts).into());
    let pin = pin.unwrap_or_default();
    let thread_ts = text(&object, "thread_ts").map(Ts::of_message).transpose()?;
    let thread_ts = thread_ts.or_else(|| thread.is_some().then(|| ts.clone()));
    if text(&object, "user") == Some(SLACKBOT) && text(&object, "text") == Some(DELETED_TEXT) {
        object.insert("subtype".into(), "tombstone".into());
    }
    let is_private = text(&object, "subtype").and_then(converted);
    let visibility = is_private.map(|is_private| VisibilityEvidence::change(team, channel, is_private, &ts));
    let author_facts = AuthorFacts::take(&mut object);
    normal::reduce(&mut object);
    let raw = to_raw_value(&object).map_err(|_| UnreadableJson)?;
    let (change, edited) = message::listed_change(team, channel, &raw, thread_ts.as_ref(), &reactions)?;
    let author = match &change {
        Change::Content(content) => content.author().and_then(|user| UserId::parse(user).ok()),
        Change::Register(_) => None,
    };
    Ok(HistoryMessage {
        ts,
        author,
        edited,
        thread_ts,
        change,
        thread,
        reactions,
        reactions_cut,
        author_facts,
        pin,
        visibility,
    })
}

/// Removes the credentials from every address in an export's data other than messages.
pub fn without_tokens(value: &mut Value) {
    normal::clean(value);
}

fn text<'o>(object: &'o Map<String, Value>, name: &str) -> Option<&'o str> {
    object.get(name).and_then(Value::as_str)
}

/// The facts about a thread in its root. Old exports list the replies and do not count them.
fn thread_head(object: &Map<String, Value>) -> Option<ThreadHead> {
    let is_reply = text(object, "thread_ts").is_some_and(|thread_ts| Some(thread_ts) != text(object, "ts"));
    let listed = || object.get("replies").and_then(Value::as_array).map(|replies| replies.len() as u64);
    let reply_count = object.get("reply_count").and_then(Value::as_u64).or_else(listed)?;
    let latest_reply = text(object, "latest_reply").and_then(|ts| Ts::parse(ts).ok());
    (!is_reply && reply_count > 0).then_some(ThreadHead { reply_count, latest_reply })
}

/// Whether a reaction counts more users than it lists: Slack lists about fifty.
fn is_cut(object: &Map<String, Value>) -> bool {
    let reactions = object.get("reactions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    reactions.iter().any(|reaction| {
        let listed = reaction["users"].as_array().map_or(0, Vec::len) as u64;
        reaction["count"].as_u64().is_some_and(|count| count > listed)
    })
}
