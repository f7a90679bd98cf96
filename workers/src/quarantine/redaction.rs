//! What a person sees of a job: no secret is among it. What is stored stays as it is, so that it can be replayed.

use serde_json::Value;
use slack::envelope;

/// Stands where a secret was.
const REMOVED: &str = "[removed]";

/// Names of fields whose values are secrets, whatever is in front of them: `token`, `bot_access_token`, `client_secret`.
const SECRET_ENDINGS: [&str; 6] = ["token", "secret", "password", "authorization", "cookie", "signature"];

/// Names of fields with an address that is a secret itself: its holder may post, or read the file.
const SECRET_ADDRESSES: [&str; 3] = ["response_url", "permalink_public", "webhook_url"];

/// Beginnings of Slack's tokens wherever they stand, in an address too (`?t=xoxe-…`).
/// <https://docs.slack.dev/authentication/tokens>
const TOKENS: [&str; 3] = ["xox", "xapp-", "xwfp-"];

/// Whatever follows these is a secret, as far as the word goes.
const BEFORE_SECRETS: [&str; 4] = ["hooks.slack.com/", "pub_secret=", "Bearer ", "token="];

/// Shorter than any token: a word of a person that begins like one is left alone.
const SHORTEST_TOKEN: usize = 12;

/// A job as it may be shown.
pub fn without_secrets(payload: &str) -> String {
    match envelope::value(payload) {
        Ok(mut value) => {
            redact(&mut value);
            value.to_string()
        }
        Err(_) => text_without_secrets(payload),
    }
}

/// A text as it may be shown.
pub fn text_without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, secret)) = next_secret(rest) {
        shown.push_str(&rest[..before]);
        shown.push_str(REMOVED);
        rest = &rest[before + secret..];
    }
    shown + rest
}

/// Where the next secret begins, and its length.
fn next_secret(text: &str) -> Option<(usize, usize)> {
    let token = |prefix: &&str| {
        text.match_indices(*prefix).find_map(|(at, _)| {
            let length = word(&text[at..]);
            (length >= SHORTEST_TOKEN && text[at..at + length].contains('-')).then_some((at, length))
        })
    };
    let following = |prefix: &&str| {
        text.match_indices(*prefix).find_map(|(at, _)| {
            let at = at + prefix.len();
            let length = word(&text[at..]);
            (length > 0).then_some((at, length))
        })
    };
    TOKENS.iter().filter_map(token).chain(BEFORE_SECRETS.iter().filter_map(following)).min()
}

/// How far what tokens and addresses are made of goes.
fn word(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '=' | '%')))
        .unwrap_or(text.len())
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_secret(name, value) { *value = REMOVED.into() } else { redact(value) }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::String(text) => {
            // An object within a text, as the raw form of a message is.
            let inner = if text.starts_with(['{', '[']) { envelope::value(text).ok() } else { None };
            *text = match inner {
                Some(mut inner) => {
                    redact(&mut inner);
                    inner.to_string()
                }
                None => text_without_secrets(text),
            };
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Only a value that stands alone is a secret: `tokens` of a revocation names people, and `authorizations` ids.
fn is_secret(name: &str, value: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    !value.is_null()
        && (SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
            || SECRET_ADDRESSES.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_is_shown_wherever_it_stands() {
        let raw = json!({ "token": "verify-me-1", "text": "use xoxb-12-34-hidden6" }).to_string();
        let job = json!({ "v": 1, "event": {
            "token": "verify-me-2",
            "authorizations": [{ "team_id": "T1", "user_id": "U1", "is_bot": true }],
            "headers": { "Authorization": "Bearer verify-me-3", "X-Slack-Signature": "v0=verify-me-4", "cookie": ["verify-me-5"] },
            "event": {
                "type": "message", "channel": "C1", "text": "my token is xoxp-1-2-hidden1, and <xapp-1-A1-hidden2>",
                "bot_access_token": 7, "response_url": "https://hooks.slack.com/actions/T1/hidden3",
                "files": [{ "url_private": "https://files.slack.com/files-pri/T1-F1/a.png?t=xoxe-1-2-hidden4&x=1",
                    "permalink_public": "https://slack-files.com/T1-F1-hidden5" }],
                "attachments": [{ "text": "post to https://hooks.slack.com/services/T1/B1/hidden7 now" }],
                "raw": raw,
            },
        } });
        let shown = without_secrets(&job.to_string());
        assert!(!shown.contains("hidden") && !shown.contains("verify-me"), "{shown}");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let event = &shown["event"]["event"];
        assert_eq!(event["text"], "my token is [removed], and <[removed]>");
        assert_eq!(
            event["files"][0]["url_private"],
            "https://files.slack.com/files-pri/T1-F1/a.png?t=[removed]&x=1"
        );
        assert_eq!(event["attachments"][0]["text"], "post to https://hooks.slack.com/[removed] now");
        assert_eq!(
            shown["event"]["authorizations"],
            json!([{ "team_id": "T1", "user_id": "U1", "is_bot": true }])
        );
    }

    #[test]
    fn no_secret_is_shown_beside_half_a_character() {
        for job in [
            r#"{"v":1,"event":{"token":"verify-me","text":"\ud83d"}}"#,
            r#"{"raw":"{\"token\":\"verify-me\",\"text\":\"\\ud83d\"}"}"#,
        ] {
            let shown = without_secrets(job);
            assert!(!shown.contains("verify-me") && shown.contains('\u{fffd}'), "{shown}");
        }
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        let job = json!({ "v": 1, "event": { "event_id": "Ev1", "event": {
            "type": "tokens_revoked", "tokens": { "oauth": ["U1"], "bot": ["U2"] },
            "text": "xoxo to all, 100% xox- and naïve 日本語", "client_msg_id": "a-b", "token": null, "n": 1.5,
        } } });
        assert_eq!(serde_json::from_str::<Value>(&without_secrets(&job.to_string())).unwrap(), job);
        assert_eq!(without_secrets("[not json"), "[not json");
    }

    #[test]
    fn what_is_no_json_has_its_tokens_removed_too() {
        assert_eq!(without_secrets("{\"a\":xoxb-1234-56789-abc}"), "{\"a\":[removed]}");
        assert_eq!(
            text_without_secrets("é xoxb-1234-56789-abc xoxb-1234-56789-def é"),
            "é [removed] [removed] é"
        );
    }
}
