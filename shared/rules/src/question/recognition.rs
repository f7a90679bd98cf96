//! Whether a message is a question: this depends on the event alone, and on whether the app has posted in its
//! thread.

use ports::archive::ItemKey;
use ports::clock::TimestampMs;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::catalogue::EventRule;
use slack::envelope::{Envelope, object_or_default};
use slack::ids::{FileId, SLACKBOT, Ts, UserId};

use super::{Question, QuestionId, QuestionText};
use crate::{SlackEvent, message};

/// Subtypes of messages that people write.
const WRITTEN: [&str; 2] = ["file_share", "thread_broadcast"];

/// Slack's limit of files in a message.
const MAX_FILES: usize = 10;

/// A message that may be a question.
#[derive(Debug, PartialEq, Eq)]
pub struct PossibleQuestion {
    question: Question,
}

/// Fields that are not read elsewhere and show that an app wrote the message, or that the event contains
/// another message.
#[derive(Default, Deserialize)]
struct AppMarks<'a> {
    #[serde(borrow, default)]
    app_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    bot_profile: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

impl PossibleQuestion {
    /// Reads an event: a new message of a user of this workspace that is not older than `max_age_s`, and
    /// mentions the app or is a reply in a thread. `None` for everything else: an edit, a deletion, a message
    /// of a bot, of Slack or of the app itself.
    pub fn read(
        event: &SlackEvent<'_>,
        envelope: &Envelope<'_>,
        now: TimestampMs,
        max_age_s: i64,
    ) -> Option<Self> {
        if event.rule() != Some(EventRule::Message) {
            return None;
        }
        let is_written = event.header.subtype.as_deref().is_none_or(|subtype| WRITTEN.contains(&subtype));
        let updates = event.message_updates().ok()??;
        if !is_written || updates.deleted.is_some() {
            return None;
        }
        // If a reply contains its root, the root comes after the reply.
        let message = &updates.messages.first()?.object;
        if message.bot_id.is_some() || message.edited_ts().ok()?.is_some() {
            return None;
        }
        // Most messages are not questions and return here.
        let text = message.text.as_deref().unwrap_or_default();
        let mentioned = mentions(text).find(|user| envelope.is_own_user(user.as_str()));
        let is_reply = message.thread_ts.is_some() && message.thread_ts != message.ts;
        if mentioned.is_none() && !is_reply {
            return None;
        }
        let (channel, ts) = (event.channel().ok()?, Ts::parse(message.ts.as_deref()?).ok()?);
        if now.0 / 1_000 - ts.micros() / 1_000_000 > max_age_s {
            return None;
        }
        // The event is parsed a second time only here.
        let marks: AppMarks<'_> = object_or_default(event.raw);
        if marks.app_id.is_some() || marks.bot_profile.is_some() || marks.message.is_some() {
            return None;
        }
        let teams = [message.user_team.as_deref(), message.source_team.as_deref()];
        if teams.into_iter().flatten().any(|team| team != event.team.as_str()) {
            return None;
        }
        let user = UserId::parse(message.user.as_deref()?).ok()?;
        if user.as_str() == SLACKBOT || envelope.is_own_user(user.as_str()) {
            return None;
        }
        let thread_ts =
            message.thread_ts.as_deref().map_or_else(|| Some(ts.clone()), |ts| Ts::parse(ts).ok())?;
        let id = QuestionId { team: event.team.clone(), channel, ts, thread_ts };
        let listed = message::files::read_files(message).unwrap_or_default();
        let ids = listed.as_array().into_iter().flatten().filter_map(|file| file["id"].as_str());
        let files = ids.filter_map(|id| FileId::parse(id).ok()).take(MAX_FILES).collect();
        Some(Self {
            question: Question {
                id,
                content: QuestionText { user, text: text.to_owned(), mentioned, files },
            },
        })
    }

    /// The row of the thread that decides whether it is a question. `None` if the message mentions the app;
    /// otherwise it is a question only if the app has posted in the thread.
    pub fn thread(&self) -> Option<ItemKey> {
        let Question { id, content: asked } = &self.question;
        asked.mentioned.is_none().then(|| ItemKey::bot_thread(&id.team, &id.channel, &id.thread_ts))
    }

    /// The question, given whether the app has posted in its thread.
    #[must_use]
    pub fn into_question(self, is_own_thread: bool) -> Option<Question> {
        let is_mention = self.question.content.mentioned.is_some();
        (is_mention || is_own_thread).then_some(self.question)
    }
}

/// The users that a text mentions: `<@U1>` or `<@U1|name>`.
pub fn mentions(text: &str) -> impl Iterator<Item = UserId> {
    text.split("<@").skip(1).filter_map(|rest| {
        let end = rest.find(['>', '|'])?;
        UserId::parse(&rest[..end]).ok()
    })
}

/// A text without the mentions of this user.
pub fn without_mention(text: &str, user: &UserId) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    let mention = format!("<@{user}");
    while let Some(at) = rest.find(&mention) {
        let after = &rest[at + mention.len()..];
        let end = match after.as_bytes().first() {
            Some(b'>') => Some(1),
            // Markup ends before the next one, so that many that do not end are read once.
            Some(b'|') => {
                after.find(['<', '>']).filter(|end| after[*end..].starts_with('>')).map(|end| end + 1)
            }
            Some(_) | None => None,
        };
        match end {
            Some(end) => {
                kept.push_str(&rest[..at]);
                rest = &after[end..];
            }
            None => {
                kept.push_str(&rest[..at + mention.len()]);
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TS: &str = "1700000000.000100";
    const NOW: TimestampMs = TimestampMs(1_700_000_005_000);

    fn posted(more: Value) -> Value {
        let mut event = json!({ "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": TS,
            "text": "<@U0APP> why?", "event_ts": TS });
        for (name, value) in more.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn possible(event: &Value) -> Option<PossibleQuestion> {
        let body = json!({ "type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event,
            "authorizations": [{ "team_id": "T1", "user_id": "U0APP", "is_bot": true }] })
        .to_string();
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        PossibleQuestion::read(&SlackEvent::read(&envelope).unwrap(), &envelope, NOW, 3_600)
    }

    #[test]
    fn a_mention_or_a_reply_in_a_thread_of_the_app_is_a_question() {
        let question = possible(&posted(json!({}))).unwrap().into_question(false).unwrap();
        assert_eq!(question.id.thread_ts.as_str(), TS, "a question that is not a reply starts its thread");
        assert_eq!(question.content.mentioned.as_ref().map(UserId::as_str), Some("U0APP"));
        let shared = json!({ "subtype": "file_share", "files": [{ "id": "F1" }, { "id": 7 }] });
        let question = possible(&posted(shared)).unwrap().into_question(false).unwrap();
        assert_eq!(question.content.files.iter().map(FileId::as_str).collect::<Vec<_>>(), ["F1"]);
        let reply = posted(json!({ "text": "and then?", "thread_ts": "1699999999.000100" }));
        let in_thread = possible(&reply).unwrap();
        assert_eq!(in_thread.thread().unwrap().timestamp, "C1#1699999999.000100");
        assert_eq!(possible(&reply).unwrap().into_question(false), None);
        assert_eq!(in_thread.into_question(true).unwrap().content.mentioned, None);
    }

    #[test]
    fn other_messages_are_not_questions() {
        for more in [
            json!({ "text": "why?" }),
            json!({ "text": "<@U2> why?" }),
            json!({ "bot_id": "B1" }),
            json!({ "app_id": "A1" }),
            json!({ "bot_profile": { "id": "B1" } }),
            json!({ "user": "U0APP" }),
            json!({ "user": "USLACKBOT" }),
            json!({ "user": null }),
            json!({ "user_team": "T2" }),
            json!({ "source_team": "T2" }),
            json!({ "subtype": "bot_message" }),
            json!({ "subtype": "channel_topic" }),
            json!({ "edited": { "user": "U1", "ts": TS } }),
            json!({ "ts": "1699990000.000100" }),
            json!({ "type": "app_mention" }),
            json!({ "subtype": "message_changed", "message": posted(json!({})), "previous_message": posted(json!({})) }),
            json!({ "subtype": "message_deleted", "deleted_ts": TS, "previous_message": posted(json!({})) }),
            // Slack leaves the subtype of `message_replied` out.
            json!({ "message": posted(json!({})) }),
        ] {
            assert_eq!(possible(&posted(more.clone())), None, "{more}");
        }
    }

    #[test]
    fn the_mention_of_the_app_is_removed_from_the_question() {
        let app = UserId::parse("U0APP").unwrap();
        for (text, expected) in [
            ("<@U0APP> why <@U1>?", "why <@U1>?"),
            ("hey <@U0APP|annalist>: why", "hey : why"),
            ("<@U0APP", "<@U0APP"),
            ("<@U0APPLE> why", "<@U0APPLE> why"),
            ("<@U0APP><@U0APP>", ""),
        ] {
            assert_eq!(without_mention(text, &app), expected, "{text}");
        }
    }
}
