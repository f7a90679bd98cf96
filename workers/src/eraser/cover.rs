//! Whether a job carries erased content, whichever queue or row it waits in.

use std::collections::BTreeSet;

use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::archive::{ItemKey, Update};

use crate::runtime::updates_of;

/// Which part of a job is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCover {
    /// Nothing.
    Free,
    /// Everything in it: the job can be removed without loss.
    All,
    /// Some of it; or the job cannot be decoded, and names an erased entity.
    Some,
}

/// Which part of a job these facts cover.
#[must_use]
pub fn cover_of(body: &str, facts: &[ErasureFact], covered: &ErasureFacts) -> JobCover {
    // Most jobs name nothing that is erased: they need no decoding.
    if !facts.iter().any(|fact| id_of(fact).is_none_or(|id| body.contains(id))) {
        return JobCover::Free;
    }
    match updates_of(body) {
        Some(updates) => cover_of_updates(&updates, covered),
        None if facts.iter().any(|fact| names(body, fact)) => JobCover::Some,
        None => JobCover::Free,
    }
}

/// Which part of a job any facts cover, by what it would write. A job that cannot be decoded is free.
#[must_use]
pub(crate) fn cover_of_content(body: &str, covered: &ErasureFacts) -> JobCover {
    updates_of(body).map_or(JobCover::Free, |updates| cover_of_updates(&updates, covered))
}

fn cover_of_updates(updates: &[Update], covered: &ErasureFacts) -> JobCover {
    let rows: BTreeSet<&ItemKey> = updates.iter().map(|update| &update.key).collect();
    let erased: BTreeSet<&ItemKey> =
        updates.iter().filter(|update| covered.covers(update)).map(|update| &update.key).collect();
    match erased.len() {
        0 => JobCover::Free,
        erased if erased == rows.len() => JobCover::All,
        _ => JobCover::Some,
    }
}

/// The ID that a body must contain if the fact can affect it.
fn id_of(fact: &ErasureFact) -> Option<&str> {
    match &fact.scope {
        ErasureScope::User(user) => Some(user.as_str()),
        ErasureScope::Channel(channel) | ErasureScope::Message(channel, _) => Some(channel.as_str()),
    }
}

/// Whether a body that cannot be decoded names a fact's entity, as a complete JSON string.
fn names(body: &str, fact: &ErasureFact) -> bool {
    let has = |text: &str| body.contains(&format!("\"{text}\""));
    match &fact.scope {
        ErasureScope::User(user) => has(user.as_str()),
        ErasureScope::Channel(channel) => has(channel.as_str()),
        ErasureScope::Message(channel, ts) => has(channel.as_str()) && has(ts.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{encode_event, encode_job};
    use rules::file::row::Share;
    use rules::file::{FileJob, FileObject};
    use serde_json::{Value, json};
    use slack::ids::{ChannelId, TeamId, Ts, UserId};

    use super::*;

    fn facts() -> [ErasureFact; 3] {
        let channel = |id| ChannelId::parse(id).unwrap();
        let (team, until) = (TeamId::parse("T1").unwrap(), Ts::parse("1800000000.000000").unwrap());
        [
            ErasureScope::User(UserId::parse("U1").unwrap()),
            ErasureScope::Channel(channel("C9")),
            ErasureScope::Message(channel("C2"), Ts::parse("1700000000.000100").unwrap()),
        ]
        .map(|scope| ErasureFact { team: team.clone(), scope, until: until.clone() })
    }

    fn cover(body: &str) -> JobCover {
        cover_of(body, &facts(), &facts().into_iter().collect())
    }

    fn event(event: &Value) -> JobCover {
        cover(&encode_event(
            &json!({ "type": "event_callback", "team_id": "T1", "event": event }).to_string(),
        ))
    }

    fn message(channel: &str, user: &str, ts: &str) -> Value {
        json!({ "type": "message", "channel": channel, "channel_type": "channel", "user": user, "text": "hi", "ts": ts })
    }

    #[test]
    fn an_event_is_covered_if_all_its_content_is_erased() {
        let ts = "1700000000.000100";
        for (event_value, expected) in [
            (message("C1", "U1", ts), JobCover::All),
            (message("C1", "U1", "1900000000.000100"), JobCover::Free),
            (message("C1", "U2", ts), JobCover::Free),
            (message("C9", "U2", ts), JobCover::All),
            (message("C2", "U2", ts), JobCover::All),
            (message("C2", "U2", "1700000000.000200"), JobCover::Free),
            (
                json!({ "type": "message", "subtype": "file_comment", "channel": "C1", "channel_type": "channel",
                "ts": ts, "comment": { "user": "U1", "comment": "secret" } }),
                JobCover::All,
            ),
            (json!({ "type": "user_change", "user": { "id": "U1", "name": "ana" } }), JobCover::All),
            (json!({ "type": "user_change", "user": { "id": "U2", "name": "U1" } }), JobCover::Free),
            (
                json!({ "type": "channel_rename", "channel": { "id": "C9", "name": "x" }, "event_ts": ts }),
                JobCover::All,
            ),
            (
                json!({ "type": "reaction_added", "user": "U1", "reaction": "x", "event_ts": ts,
                "item": { "type": "message", "channel": "C1", "ts": ts } }),
                JobCover::Free,
            ),
        ] {
            assert_eq!(event(&event_value), expected, "{event_value}");
        }
        let mut event_value = json!({ "type": "message", "subtype": "message_deleted", "channel": "C1", "channel_type": "channel",
            "ts": "1700000009.000100", "deleted_ts": ts, "previous_message": message("C1", "U1", ts) });
        assert_eq!(event(&event_value), JobCover::All, "its deletion mark is erased too");
        event_value["previous_message"]["user"] = "U2".into();
        assert_eq!(event(&event_value), JobCover::Free);
        let mut broadcast = message("C1", "U2", "1700000005.000100");
        broadcast["thread_ts"] = ts.into();
        broadcast["root"] = message("C1", "U1", ts);
        assert_eq!(event(&broadcast), JobCover::Some, "it contains another person's message");
        let left = json!({ "type": "channel_left", "channel": "C9", "event_ts": ts });
        assert_eq!(event(&left), JobCover::Some, "the fact that the app left is not content of the channel");
    }

    #[test]
    fn a_download_is_covered_by_its_message_or_its_person() {
        let job = |channel: &str, user: &str| FileJob {
            team: TeamId::parse("T1").unwrap(),
            share: Share {
                channel: ChannelId::parse(channel).unwrap(),
                ts: Ts::parse("1700000000.000100").unwrap(),
            },
            user: UserId::parse(user).ok(),
            object: FileObject::read(&json!({ "id": "F1" })).unwrap(),
            refresh: false,
            version: None,
        };
        let file = |channel, user| cover(&job(channel, user).outgoing().body);
        assert_eq!([file("C1", "U1"), file("C9", "U2"), file("C2", "U2")], [JobCover::All; 3]);
        assert_eq!(file("C1", "U2"), JobCover::Free);
        let image = |user: &str| {
            cover(&encode_job("image", &json!({ "team": "T1", "user": user, "url": "https://a" })))
        };
        assert_eq!([image("U1"), image("U2")], [JobCover::All, JobCover::Free]);
    }

    #[test]
    fn an_unreadable_job_is_covered_if_it_names_an_erased_entity() {
        for (body, expected) in [
            ("{\"user\":\"U1\"", JobCover::Some),
            ("{\"text\":\"<@U1>\"", JobCover::Free),
            ("\"C2\", \"1700000000.000100\"", JobCover::Some),
            ("\"C2\", \"1700000000.000200\"", JobCover::Free),
            ("", JobCover::Free),
        ] {
            assert_eq!(cover(body), expected, "{body}");
        }
        assert_eq!(event(&json!({ "type": "news_from_slack", "who": "U1" })), JobCover::Some);
        let refused = json!({ "team_id": "T1", "channel": "C9", "from": "5.000000", "to": "6.000000" });
        assert_eq!(cover(&encode_job("refused", &refused)), JobCover::Free, "it has no content");
    }
}
