//! `chat.postMessage`. <https://docs.slack.dev/reference/methods/chat.postMessage>

use serde_json::{Value, json};
use slack::ids::Ts;

use crate::answer::refused;
use crate::workspace::FakeWorkspace;

/// Slack truncates longer texts. The fake refuses them, so that a test fails.
const MAX_TEXT_CHARS: usize = 40_000;

/// Posts a message as the app.
pub(crate) fn post<'a>(
    workspace: &mut FakeWorkspace,
    parameter: &impl Fn(&str) -> &'a str,
    now_ms: i64,
) -> Value {
    let (channel, text) = (parameter("channel"), parameter("text"));
    if let Err(refused) = workspace.check_scope("chat:write") {
        return refused;
    }
    let Some(known) = workspace.channel(channel) else { return refused("channel_not_found") };
    if known["is_archived"] == true {
        return refused("is_archived");
    }
    if known["is_member"] == false {
        return refused("not_in_channel");
    }
    if text.is_empty() {
        return refused("no_text");
    }
    if text.chars().count() > MAX_TEXT_CHARS {
        return refused("msg_too_long");
    }
    let metadata = match parameter("metadata") {
        "" => Value::Null,
        metadata => match serde_json::from_str(metadata) {
            Ok(metadata) => metadata,
            Err(_) => return refused("invalid_metadata_format"),
        },
    };
    let ts = workspace.next_ts(channel, now_ms);
    let mut message = json!({ "type": "message", "user": workspace.bot_user, "bot_id": "B0BOT", "app_id": "A0ANNALIST",
        "team": workspace.team, "text": text, "ts": ts.as_str() });
    if !metadata.is_null() {
        message["metadata"] = metadata;
    }
    if !parameter("thread_ts").is_empty() {
        message["thread_ts"] = parameter("thread_ts").into();
    }
    workspace.channel_history(channel).post(&message);
    json!({ "ok": true, "channel": channel, "ts": ts.as_str(), "message": message })
}

impl FakeWorkspace {
    /// Returns the first timestamp from `now_ms` on that no message of the channel has.
    fn next_ts(&mut self, channel: &str, now_ms: i64) -> Ts {
        let history = self.channel_history(channel);
        let mut micros = now_ms.saturating_mul(1_000);
        loop {
            let text = format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            match Ts::parse(&text) {
                Ok(ts) if !history.contains(&ts) => return ts,
                Ok(_) | Err(_) => micros += 1,
            }
        }
    }

    /// Returns the messages that the app has posted to a channel, oldest first.
    pub fn posted_in(&self, channel: &str) -> Vec<Value> {
        let own = |message: &Value| message["user"] == self.bot_user.as_str();
        self.history.get(channel).map(|history| history.all().filter(own).collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::state::SlackState;
    use crate::workspace::channel;

    const TOKEN: &str = "xoxb-1";

    fn ask(slack: &mut SlackState, method: &str, parameters: &[(&str, &str)]) -> Value {
        let parameters: BTreeMap<String, String> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        slack.answer(method, TOKEN, parameters, 1_700_000_000_000).value()
    }

    #[test]
    fn a_posted_message_is_in_its_thread_with_its_metadata() {
        let mut slack = SlackState::default();
        let mut workspace =
            FakeWorkspace { channels: vec![channel("C1", "one")], ..FakeWorkspace::new("T1") };
        let root = json!({ "type": "message", "user": "U1", "text": "why?", "ts": "1600000000.000100" });
        workspace.channel_history("C1").post(&root);
        slack.set_workspace(TOKEN, workspace);
        let parameters = [
            ("channel", "C1"),
            ("thread_ts", "1600000000.000100"),
            ("text", "so"),
            ("metadata", r#"{"event_type":"x","event_payload":{"id":"1"}}"#),
        ];
        let (one, other) = (
            ask(&mut slack, "chat.postMessage", &parameters),
            ask(&mut slack, "chat.postMessage", &parameters),
        );
        assert!(one["ok"] == true && one["ts"] != other["ts"], "{one} {other}");
        let thread = [("channel", "C1"), ("ts", "1600000000.000100"), ("include_all_metadata", "true")];
        let found = ask(&mut slack, "conversations.replies", &thread);
        assert_eq!(found["messages"][1]["metadata"]["event_payload"]["id"], "1");
        assert_eq!(found["messages"].as_array().map(Vec::len), Some(3));
        slack.lose_answers("chat.postMessage", 1);
        assert_eq!(ask(&mut slack, "chat.postMessage", &parameters), Value::Null, "there is no answer");
        assert_eq!(slack.workspace(TOKEN).unwrap().posted_in("C1").len(), 3, "the message is stored");
    }

    #[test]
    fn a_post_that_slack_would_reject_is_refused() {
        let mut slack = SlackState::default();
        let mut archived = channel("C2", "two");
        archived["is_archived"] = true.into();
        let mut left = channel("C3", "three");
        left["is_member"] = false.into();
        let channels = vec![channel("C1", "one"), archived, left];
        slack.set_workspace(TOKEN, FakeWorkspace { channels, ..FakeWorkspace::new("T1") });
        let mut error = |channel: &str, text: &str| {
            ask(&mut slack, "chat.postMessage", &[("channel", channel), ("text", text)])["error"].take()
        };
        assert_eq!(error("C1", ""), "no_text");
        assert_eq!(error("C2", "x"), "is_archived");
        assert_eq!(error("C3", "x"), "not_in_channel");
        assert_eq!(error("C4", "x"), "channel_not_found");
        assert_eq!(error("C1", &"x".repeat(40_001)), "msg_too_long");
        slack.workspace(TOKEN).unwrap().scopes = vec!["channels:history".into()];
        let refused = ask(&mut slack, "chat.postMessage", &[("channel", "C1"), ("text", "x")]);
        assert_eq!(refused["needed"], "chat:write");
    }
}
