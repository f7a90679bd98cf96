//! Messages and events of the made-up workspace, in addition to the common builders of `fake_slack`.

use serde_json::{Value, json};

pub use fake_slack::event::{
    EnvelopeShape, PARTNER, changed, channel_created, deleted, emoji_added, envelope, pin_added, pin_removed,
    posted, reaction_added, reaction_removed, replied, user_group_members_changed, user_group_updated,
    with_fields,
};

/// A plain message of a person.
pub fn message(ts: &str, user: &str, text: &str) -> Value {
    json!({
        "type": "message", "user": user, "text": text, "ts": ts, "team": super::TEAM,
        "client_msg_id": client_msg_id(ts), "blocks": blocks(ts, text),
    })
}

/// A message within a thread; with `thread_ts` equal to `ts` the thread's root.
pub fn reply(ts: &str, thread_ts: &str, user: &str, text: &str) -> Value {
    with_fields(message(ts, user, text), [("thread_ts", thread_ts.into())])
}

/// A message with a subtype such as `me_message`, `channel_join` or `thread_broadcast`, and the subtype's
/// fields.
pub fn subtyped(message: Value, subtype: &str, more: Value) -> Value {
    let mut message = with_fields(message, [("subtype", subtype.into())]);
    if let (Value::Object(fields), Value::Object(more)) = (&mut message, more) {
        fields.extend(more);
    }
    message
}

/// A bot's message, which has no user.
pub fn bot_message(ts: &str, bot_id: &str, username: &str, text: &str) -> Value {
    json!({
        "type": "message", "subtype": "bot_message", "bot_id": bot_id, "username": username, "text": text, "ts": ts,
    })
}

/// A message that shares files.
pub fn file_share(ts: &str, user: &str, text: &str, file_ids: &[&str]) -> Value {
    let files: Vec<Value> = file_ids.iter().map(|id| file(id, user)).collect();
    subtyped(message(ts, user, text), "file_share", json!({ "files": files, "upload": false }))
}

/// A file object.
pub fn file(id: &str, user: &str) -> Value {
    json!({
        "id": id, "name": format!("{id}.txt"), "title": id, "mimetype": "text/plain", "filetype": "text", "size": 12,
        "user": user, "mode": "hosted", "is_external": false, "is_public": true,
        "url_private": format!("https://files.slack.com/files-pri/{}-{id}/{id}.txt", super::TEAM),
        "url_private_download": format!("https://files.slack.com/files-pri/{}-{id}/download/{id}.txt", super::TEAM),
    })
}

/// The message after an edit at `edited_ts`.
pub fn edited(message: &Value, edited_ts: &str, text: &str) -> Value {
    let ts = message["ts"].as_str().unwrap_or_default();
    let editor = message["user"].clone();
    with_fields(
        message.clone(),
        [
            ("text", text.into()),
            ("blocks", blocks(ts, text)),
            ("edited", json!({ "user": editor, "ts": edited_ts })),
        ],
    )
}

/// The message after a link was unfurled: it has an attachment, but no edit.
pub fn unfurled(message: &Value, url: &str) -> Value {
    let mut attachments = message["attachments"].as_array().cloned().unwrap_or_default();
    attachments.push(json!({ "id": 1, "from_url": url, "original_url": url, "fallback": url }));
    with_fields(message.clone(), [("attachments", attachments.into())])
}

/// The entry in history for a deleted message that had replies.
pub fn tombstone(message: &Value) -> Value {
    json!({
        "type": "message", "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.",
        "hidden": true, "ts": message["ts"], "thread_ts": message.get("thread_ts").unwrap_or(&message["ts"]),
    })
}

/// A `user_change` event with the person's profile.
pub fn user_change(user: &str, name: &str, event_ts: &str) -> Value {
    let user = json!({
        "id": user, "team_id": super::TEAM, "name": name, "real_name": name, "deleted": false, "is_bot": false,
        "updated": event_ts.split('.').next().and_then(|seconds| seconds.parse::<i64>().ok()),
        "profile": { "real_name": name, "display_name": name },
    });
    json!({ "type": "user_change", "user": user, "event_ts": event_ts, "cache_ts": 0 })
}

/// A `team_join` event of a new person.
pub fn team_join(user: &str, name: &str, event_ts: &str) -> Value {
    with_fields(user_change(user, name, event_ts), [("type", "team_join".into())])
}

/// Slack's editor writes every text as a `rich_text` block too.
fn blocks(ts: &str, text: &str) -> Value {
    let block_id: String = ts.chars().rev().filter(char::is_ascii_digit).take(5).collect();
    json!([{
        "type": "rich_text", "block_id": block_id,
        "elements": [{ "type": "rich_text_section", "elements": [{ "type": "text", "text": text }] }],
    }])
}

fn client_msg_id(ts: &str) -> Value {
    let digits: String = ts.chars().filter(char::is_ascii_digit).collect();
    Value::String(format!("00000000-0000-4000-8000-{digits:0>16}"))
}

#[cfg(test)]
mod tests {
    use ports::queue::QueueName;
    use ports::queue::route::{Route, route};
    use slack::envelope::Envelope;

    use super::*;

    fn routed(event: &Value) -> Vec<(QueueName, String)> {
        let body = envelope(super::super::TEAM, "Ev1", event);
        match route(&Envelope::peek(body.as_bytes()).unwrap(), &body) {
            Route::Queues(sends) => {
                sends.iter().map(|send| (send.queue, send.group.as_str().to_owned())).collect()
            }
            Route::DirectMessage => Vec::new(),
        }
    }

    #[test]
    fn every_builder_makes_an_event_that_is_routed_to_its_group() {
        let first = message("1700000000.000100", "U01", "a");
        let second = edited(&first, "1700000001.000000", "b");
        for event in [
            posted("C01", &first),
            posted("C01", &bot_message("1700000000.000200", "B01", "deploys", "done")),
            posted("C01", &file_share("1700000000.000300", "U01", "here", &["F01"])),
            changed("C01", &first, &second, "1700000001.000000"),
            changed("C01", &first, &unfurled(&first, "https://example.com/"), "1700000001.000000"),
            changed("C01", &first, &tombstone(&first), "1700000001.000000"),
            deleted("C01", &first, "1700000002.000000"),
            replied("C01", &first, "1700000003.000000", "1700000003.000000"),
            reaction_added("C01", "1700000000.000100", "U01", "eyes", "1700000004.000000"),
            reaction_removed("C01", "1700000000.000100", "U01", "eyes", "1700000005.000000"),
            pin_added("C01", "1700000000.000100", "U01", "1700000004.000000"),
            pin_removed("C01", "1700000000.000100", "U01", "1700000005.000000"),
        ] {
            assert_eq!(routed(&event), [(QueueName::Events, "T0ANNALIST#C01".into())], "{event}");
        }
        for event in [
            user_change("U01", "somebody", "1700000000.000000"),
            team_join("U01", "somebody", "1700000000.000000"),
        ] {
            assert_eq!(routed(&event), [(QueueName::Events, "T0ANNALIST#U01".into())], "{event}");
        }
        let created = channel_created("C01", "general", "1700000000.000000");
        assert_eq!(routed(&created), [(QueueName::Channels, "T0ANNALIST".into())]);
        let emoji = emoji_added("party", "https://example.com/party.png", "1700000000.000000");
        assert_eq!(routed(&emoji), [(QueueName::Events, "T0ANNALIST".into())]);
    }
}
