//! What a public site shows: which channels, which people by which names, and a message without what must not be
//! there. A page that receives a message from [`PublicNames::shown`] cannot show what was removed. [`opt_out`] are the wishes of people, as rows.

pub mod opt_out;

use std::collections::{BTreeMap, HashSet};

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use sha2::Sha256;
use slack::ids::{SLACKBOT, Ts};

use crate::view::{ChannelView, MessageView};

/// The name of a person who is not named.
pub const MEMBER: &str = "a member";

/// The name of an app without a name.
pub const APP: &str = "an app";

/// The name of a channel that is not on the site.
pub const OTHER_CHANNEL: &str = "another-channel";

/// The text of a message of a person who opted out.
pub const NOT_SHOWN: &str = "This message is not shown.";

/// The text of a deleted message with replies.
pub const DELETED: &str = "This message was deleted.";

/// The text of an attachment that is a message of a channel that is not on the site.
pub const OTHER_MESSAGE: &str = "A message of another channel.";

/// The month of messages whose time is outside the calendar, or does not sort as text.
pub const UNDATED: &str = "undated";

/// Digits of the seconds of timestamps that sort as text: the years 2001 to 2286.
const SECONDS_DIGITS: usize = 10;

/// Letters of a pseudonym: enough to tell the people of a large workspace apart.
const PSEUDONYM_LETTERS: usize = 8;

/// The attributes of a message that stay if its content is not shown.
const IDENTITY: [&str; 9] =
    ["itemId", "timestamp", "type", "team_id", "channel_id", "ts", "thread_ts", "parent", "deleted"];

/// The members of a file that a site shows, and those that say how to show its bytes.
const FILE_NAMES: [&str; 3] = ["id", "title", "name"];
const FILE_SHAPE: [&str; 4] = ["mimetype", "size", "original_w", "original_h"];

/// The attribute with the keys of a message's stored files.
const STORED: &str = "files_s3";

/// Why a channel is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PublishRefusal {
    /// It is not public now.
    Private,
    /// It is shared with another organisation.
    Shared,
    Deleted,
    Erased,
    /// Nothing of it is stored any more.
    OptedOut,
}

impl PublishRefusal {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Shared => "shared",
            Self::Deleted => "deleted",
            Self::Erased => "erased",
            Self::OptedOut => "opted_out",
        }
    }
}

/// Returns why a channel may not be published, given its newest snapshot; `None` if it may be.
pub fn refusal(newest: Option<&ChannelView>, include_shared: bool) -> Option<PublishRefusal> {
    let Some(channel) = newest else { return Some(PublishRefusal::Erased) };
    if channel.is_deleted() {
        Some(PublishRefusal::Deleted)
    } else if channel.is_private() {
        Some(PublishRefusal::Private)
    } else if channel.is_shared() && !include_shared {
        Some(PublishRefusal::Shared)
    } else {
        None
    }
}

/// The month in UTC of a message, such as `2026-11`.
pub fn month(ts: &Ts) -> String {
    date(ts).map_or_else(|| UNDATED.to_owned(), |date| date.strftime("%Y-%m").to_string())
}

/// The day in UTC of a message, such as `2026-11-20`.
pub fn day(ts: &Ts) -> String {
    date(ts).map_or_else(|| UNDATED.to_owned(), |date| date.to_string())
}

fn date(ts: &Ts) -> Option<jiff::civil::Date> {
    let (seconds, _) = ts.as_str().split_once('.')?;
    let is_ordered = seconds.len() == SECONDS_DIGITS && !seconds.starts_with('0');
    let second = seconds.parse().ok().filter(|_| is_ordered)?;
    Some(Timestamp::from_second(second).ok()?.to_zoned(TimeZone::UTC).date())
}

/// Whether a message is on a public site at all: a notice that a person joined or left is not, nor is a deleted
/// message. A deleted message with replies is their root, so `has_replies` keeps it.
pub fn is_published(row: &MessageView, has_replies: bool) -> bool {
    let is_notice = matches!(
        row.subtype().unwrap_or_default(),
        "channel_join" | "channel_leave" | "group_join" | "group_leave"
    );
    !is_notice && (has_replies || !row.is_deleted())
}

/// The names of people and channels on a public site, and the wishes of people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicNames {
    /// The people who opted out, by id, and whether their texts are shown.
    pub hidden: BTreeMap<String, bool>,
    /// With pseudonyms: the key from which they are made.
    pub pseudonym_key: Option<Vec<u8>>,
    /// The names of the channels on the site, by id.
    pub channels: BTreeMap<String, String>,
    /// The reaction by which authors hide their own messages.
    pub opt_out_emoji: Option<String>,
    /// Whether the site has the bytes of files.
    pub has_files: bool,
}

impl PublicNames {
    /// Returns the name that the site has for a person, an app's user or an app's bot. `name` is that of the
    /// archive.
    pub fn person(&self, id: &str, name: Option<&str>) -> String {
        if self.hidden.contains_key(id) {
            return MEMBER.to_owned();
        }
        if id.starts_with('B') {
            return name.unwrap_or(APP).to_owned();
        }
        match &self.pseudonym_key {
            Some(key) if id != SLACKBOT => pseudonym(key, id),
            Some(_) | None => name.unwrap_or(MEMBER).to_owned(),
        }
    }

    /// Returns the name of a channel, if it is on the site.
    pub fn channel(&self, id: &str) -> Option<&str> {
        self.channels.get(id).map(String::as_str)
    }

    /// Whether a message is replaced: its author opted out, or has hidden it by a reaction.
    fn hides(&self, row: &MessageView, author: Option<&str>) -> bool {
        let Some(author) = author else { return false };
        if self.hidden.get(author) == Some(&false) {
            return true;
        }
        let Some(emoji) = &self.opt_out_emoji else { return false };
        row.reactions().iter().any(|reaction| {
            let name = reaction["name"].as_str().unwrap_or_default();
            let plain = name.split("::").next().unwrap_or_default();
            let users = reaction["users"].as_array().into_iter().flatten();
            plain == emoji && users.filter_map(Value::as_str).any(|user| user == author)
        })
    }

    /// Returns a message as the site shows it.
    pub fn shown(&self, mut row: MessageView) -> MessageView {
        let raw_text = row.raw_event().unwrap_or_default();
        let is_plain = !raw_text.contains("\"attachments\"");
        let is_hidden = row.user().is_none_or(|user| self.hidden.contains_key(user));
        if is_plain
            && !is_hidden
            && !row.is_deleted()
            && self.opt_out_emoji.is_none()
            && row.files().is_empty()
        {
            return row;
        }
        let mut raw = row.raw().filter(Value::is_object).unwrap_or_else(|| json!({}));
        let author = row.user().or(raw["user"].as_str()).map(str::to_owned);
        let replaced = if row.is_deleted() {
            Some(DELETED)
        } else if self.hides(&row, author.as_deref()) {
            Some(NOT_SHOWN)
        } else {
            None
        };
        if let Some(text) = replaced {
            return self.replaced(row, author, text);
        }
        let is_hidden = author.as_ref().is_some_and(|author| self.hidden.contains_key(author));
        let removed = self.mask_attachments(&mut raw["attachments"]);
        if is_hidden && let Some(raw) = raw.as_object_mut() {
            raw.remove("user_profile");
            raw.remove("username");
        }
        let Some(object) = row.json_mut().as_object_mut() else { return row };
        if is_hidden {
            object.remove("username");
        }
        // Indexing has inserted the member if it was missing.
        if let Some(raw) = raw.as_object_mut().filter(|raw| raw["attachments"].is_null()) {
            raw.remove("attachments");
        }
        if object.contains_key("raw_event") {
            object.insert("raw_event".into(), raw.to_string().into());
        }
        self.mask_files(object, &removed);
        row
    }

    /// Removes what files must not show: those of removed attachments and of people who opted out, and the bytes of
    /// those that were deleted in Slack.
    fn mask_files(&self, row: &mut Map<String, Value>, removed: &HashSet<String>) {
        let mut with_bytes = HashSet::new();
        if let Some(files) = row.get_mut("files").and_then(Value::as_array_mut) {
            files.retain(|file| {
                let is_removed = file["id"].as_str().is_some_and(|id| removed.contains(id));
                let owner = file["user"].as_str();
                !is_removed && owner.is_none_or(|owner| self.hidden.get(owner) != Some(&false))
            });
            for file in files.iter_mut().filter_map(Value::as_object_mut) {
                let has_bytes = self.has_files && file.get("deleted") != Some(&Value::Bool(true));
                file.retain(|name, _| {
                    FILE_NAMES.contains(&name.as_str()) || (has_bytes && FILE_SHAPE.contains(&name.as_str()))
                });
                let id = file.get("id").and_then(Value::as_str).filter(|_| has_bytes);
                with_bytes.extend(id.map(str::to_owned));
            }
        }
        if let Some(keys) = row.get_mut(STORED).and_then(Value::as_array_mut) {
            // The last part of a key is the file's id, followed by a suffix for another version.
            let id_of = |key: &Value| key.as_str()?.rsplit('/').next()?.split('.').next().map(str::to_owned);
            keys.retain(|key| id_of(key).is_some_and(|id| with_bytes.contains(&id)));
        }
    }

    /// Returns the message without anything but its time, its thread and, unless it is deleted, its author.
    fn replaced(&self, mut row: MessageView, author: Option<String>, text: &str) -> MessageView {
        let (is_broadcast, is_deleted) = (row.is_broadcast(), row.is_deleted());
        if let Some(object) = row.json_mut().as_object_mut() {
            object.retain(|name, _| IDENTITY.contains(&name.as_str()));
            object.insert("text".into(), text.into());
            if is_broadcast {
                object.insert("subtype".into(), "thread_broadcast".into());
            }
            if let Some(author) = author.filter(|_| !is_deleted) {
                object.insert("user".into(), author.into());
            }
        }
        row
    }

    /// Removes what attachments must not show. Returns the ids of the files of removed attachments.
    fn mask_attachments(&self, attachments: &mut Value) -> HashSet<String> {
        let mut removed = HashSet::new();
        let Some(attachments) = attachments.as_array_mut() else { return removed };
        attachments.retain(|attachment| {
            let author = attachment["author_id"].as_str();
            let is_hidden = author.is_some_and(|author| self.hidden.contains_key(author));
            if is_hidden {
                note_files(attachment, &mut removed);
            }
            !is_hidden
        });
        for attachment in attachments {
            if quoted_channel(attachment).is_some_and(|channel| self.channel(&channel).is_none()) {
                note_files(attachment, &mut removed);
                *attachment = json!({ "text": OTHER_MESSAGE, "fallback": OTHER_MESSAGE });
            }
            let author = attachment["author_id"].as_str().filter(|_| self.pseudonym_key.is_some());
            if let Some(name) = author.map(|author| self.person(author, None))
                && let Some(attachment) = attachment.as_object_mut()
            {
                attachment.insert("author_name".into(), name.into());
                // Slack repeats the name here.
                attachment.remove("fallback");
            }
        }
        removed
    }
}

/// The people, channels and other things that decide how a message is shown, besides those that it mentions.
pub fn quoted(row: &MessageView) -> (Vec<String>, Vec<String>) {
    let raw = row.raw().unwrap_or_default();
    let attachments = raw["attachments"].as_array().map_or(&[][..], Vec::as_slice);
    let author = |attachment: &Value| attachment["author_id"].as_str().map(str::to_owned);
    (attachments.iter().filter_map(author).collect(), attachments.iter().filter_map(quoted_channel).collect())
}

/// Returns the channel of an attachment that is a message; `None` for any other attachment.
fn quoted_channel(attachment: &Value) -> Option<String> {
    let is_set = |name: &str| attachment[name] == true;
    let own = attachment["channel_id"].as_str();
    let linked =
        ["from_url", "original_url"].iter().find_map(|name| linked_channel(attachment[*name].as_str()?));
    let is_message = is_set("is_share") || is_set("is_msg_unfurl") || linked.is_some();
    own.or(linked).filter(|_| is_message).map(str::to_owned)
}

/// Returns the channel that a link to a message of Slack contains.
fn linked_channel(address: &str) -> Option<&str> {
    let (host, path) = address.split_once("://")?.1.split_once('/')?;
    let channel = path.strip_prefix("archives/")?.split(['/', '?', '#']).next()?;
    host.ends_with(".slack.com").then_some(channel)
}

fn note_files(attachment: &Value, files: &mut HashSet<String>) {
    let listed = attachment["files"].as_array().into_iter().flatten();
    files.extend(listed.filter_map(|file| file["id"].as_str()).map(str::to_owned));
}

/// Returns a name that a person always has on the site, and that only the holder of the key can compute.
fn pseudonym(key: &[u8], id: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return MEMBER.to_owned() };
    mac.update(id.as_bytes());
    let letters = mac.finalize().into_bytes().into_iter().take(PSEUDONYM_LETTERS);
    let letters: String = letters.map(|byte| char::from(b'A' + byte % 26)).collect();
    format!("Member {letters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> PublicNames {
        PublicNames {
            hidden: [("U9".to_owned(), false), ("U8".to_owned(), true)].into(),
            channels: [("C1".to_owned(), "general".to_owned())].into(),
            opt_out_emoji: Some("no_entry".to_owned()),
            ..PublicNames::default()
        }
    }

    fn row(raw: &Value, more: &Value) -> MessageView {
        let mut row = json!({ "ts": "1700000000.000100", "raw_event": raw.to_string() });
        let is_stored = |name: &str| ["user", "text", "username", "subtype", "files"].contains(&name);
        let own = raw.as_object().into_iter().flatten().filter(|(name, _)| is_stored(name));
        let own = own.chain(more.as_object().unwrap());
        row.as_object_mut().unwrap().extend(own.map(|(name, value)| (name.clone(), value.clone())));
        row.into()
    }

    #[test]
    fn nothing_of_a_hidden_persons_message_is_left_but_its_place() {
        let raw = json!({ "user": "U9", "text": "secret", "username": "Ana", "user_profile": { "name": "Ana" },
            "subtype": "thread_broadcast", "files": [{ "id": "F1", "name": "secret.pdf" }] });
        let more = json!({ "thread_ts": "1600000000.000100", "updated_ts": "x",
            "reactions": [{ "name": "secret", "users": ["U1"] }] });
        let shown = names().shown(row(&raw, &more));
        let expected = json!({ "ts": "1700000000.000100", "thread_ts": "1600000000.000100", "user": "U9",
            "subtype": "thread_broadcast", "text": NOT_SHOWN });
        assert_eq!(shown.as_json(), &expected);
    }

    #[test]
    fn a_person_who_keeps_the_text_loses_only_the_name() {
        let raw =
            json!({ "user": "U8", "text": "words", "username": "Ana", "user_profile": { "name": "Ana" } });
        let shown = names().shown(row(&raw, &json!({}))).as_json().to_string();
        assert!(shown.contains("words") && !shown.contains("Ana"), "{shown}");
    }

    #[test]
    fn only_the_authors_own_reaction_hides_a_message() {
        let reacted = |user: &str, name: &str| {
            let more = json!({ "reactions": [{ "name": name, "users": [user], "count": 1 }] });
            names().shown(row(&json!({ "user": "U1", "text": "words" }), &more)).text() == Some(NOT_SHOWN)
        };
        assert!(reacted("U1", "no_entry") && reacted("U1", "no_entry::skin-tone-2"));
        assert!(!reacted("U2", "no_entry") && !reacted("U1", "no_entry_sign"));
    }

    #[test]
    fn a_message_of_another_channel_and_a_quote_of_a_hidden_person_are_not_shown() {
        let quote = |more: Value| {
            let mut quote = json!({ "text": "secret", "files": [{ "id": "F2" }] });
            quote.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let raw = json!({ "user": "U1", "text": "look", "attachments": [quote] });
            names()
                .shown(row(&raw, &json!({ "files": [{ "id": "F2", "name": "secret.pdf" }] })))
                .as_json()
                .to_string()
        };
        for hidden in [
            json!({ "is_share": true, "channel_id": "C2" }),
            json!({ "is_msg_unfurl": true, "channel_id": "C2", "author_id": "U1" }),
            json!({ "from_url": "https://acme.slack.com/archives/C2/p1700000000000100?thread_ts=1" }),
            json!({ "original_url": "https://acme.enterprise.slack.com/archives/C2/p1700000000000100" }),
            json!({ "is_share": true, "channel_id": "C1", "author_id": "U9" }),
            json!({ "author_id": "U8" }),
        ] {
            let shown = quote(hidden.clone());
            assert!(!shown.contains("secret"), "{hidden}: {shown}");
        }
        for shown in [
            json!({ "is_share": true, "channel_id": "C1" }),
            json!({ "channel_id": "C2" }),
            json!({ "from_url": "https://slack.com.evil.test/archives/C2/p1" }),
            json!({ "from_url": 7, "author_id": [null] }),
        ] {
            assert!(quote(shown.clone()).contains("secret"), "{shown}");
        }
    }

    #[test]
    fn only_files_that_may_be_shown_keep_their_keys() {
        let file = |id: &str, more: Value| {
            let mut file = json!({ "id": id, "name": "a.png", "mimetype": "image/png", "url_private": "x" });
            file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            file
        };
        let quote = json!([{ "is_share": true, "channel_id": "C2", "files": [{ "id": "F4" }] }]);
        let raw = json!({ "user": "U1", "text": "look", "attachments": quote });
        let files = [
            file("F1", json!({ "user": "U1" })),
            file("F2", json!({ "user": "U9" })),
            file("F3", json!({ "deleted": true })),
            file("F4", json!({})),
            file("F5", json!({ "user": "U8" })),
        ];
        let keys = ["F1.v2", "F2", "F3", "F4", "F5"].map(|name| format!("slack/T1/C1/1.000000/{name}"));
        let shown = |has_files: bool| {
            let more = json!({ "files": files, "files_s3": keys });
            PublicNames { has_files, ..names() }.shown(row(&raw, &more))
        };
        let with = shown(true);
        assert_eq!(with.stored_files().collect::<Vec<_>>(), [&keys[0], &keys[4]]);
        let named = |id: &str| json!({ "id": id, "name": "a.png" });
        let whole = |id: &str| json!({ "id": id, "name": "a.png", "mimetype": "image/png" });
        assert_eq!(with.files(), [whole("F1"), named("F3"), whole("F5")]);
        let without = shown(false);
        assert_eq!(
            (without.files(), without.stored_files().count()),
            (&["F1", "F3", "F5"].map(named)[..], 0)
        );
    }

    #[test]
    fn a_pseudonym_is_stable_and_depends_on_the_key() {
        let with = |key: &[u8]| PublicNames { pseudonym_key: Some(key.to_vec()), ..names() };
        let one = with(b"one").person("U1", Some("ana"));
        assert_eq!(one, with(b"one").person("U1", None));
        assert_ne!(one, with(b"two").person("U1", None));
        assert_ne!(one, with(b"one").person("U2", None));
        let letters = one.strip_prefix("Member ").unwrap();
        assert!(letters.len() == 8 && letters.bytes().all(|byte| byte.is_ascii_uppercase()), "{one}");
        assert_eq!(with(b"one").person("U9", Some("ana")), MEMBER);
        assert_eq!(with(b"one").person("B1", Some("Jira")), "Jira");
    }

    #[test]
    fn hostile_rows_are_shown_without_a_panic() {
        for odd in [json!(null), json!(7), json!([7, null]), json!({ "a": [1] }), json!("{")] {
            let row = json!({ "ts": odd, "user": odd, "reactions": odd, "files": odd, "raw_event": odd });
            names().shown(row.into());
            let raw = json!({ "user": odd, "attachments": odd });
            names().shown(json!({ "raw_event": raw.to_string() }).into());
            names().shown(json!({ "raw_event": json!({ "attachments": [odd] }).to_string() }).into());
        }
        names().shown(json!([null]).into());
    }

    #[test]
    fn a_month_is_that_of_the_calendar_in_utc() {
        for (ts, expected) in [
            ("1793491199.999999", "2026-10"),
            ("1793491200.000000", "2026-11"),
            ("0915145200.000000", UNDATED),
            ("915145200.000000", UNDATED),
            ("99999999999.000000", UNDATED),
        ] {
            assert_eq!(month(&Ts::parse(ts).unwrap()), expected, "{ts}");
        }
    }

    #[test]
    fn only_a_public_channel_is_published() {
        let refused = |channel: Value, shared| refusal(Some(&channel.into()), shared);
        assert_eq!(refused(json!({ "visibility": "public" }), false), None);
        assert_eq!(refused(json!({ "visibility": "private" }), true), Some(PublishRefusal::Private));
        assert_eq!(refused(json!({ "ext_shared": true }), false), Some(PublishRefusal::Shared));
        assert_eq!(refused(json!({ "ext_shared": true }), true), None);
        assert_eq!(refused(json!({ "deleted": true }), false), Some(PublishRefusal::Deleted));
        assert_eq!(refusal(None, true), Some(PublishRefusal::Erased));
    }
}
