//! Redacts a job for display, so that no secret is shown. The stored job is unchanged, so that it can be
//! replayed.

use serde_json::Value;
use slack::envelope;

/// Replaces a secret.
const REMOVED: &str = "[removed]";

/// Suffixes of fields whose values are secrets: `token`, `bot_access_token`, `client_secret`.
const SECRET_ENDINGS: [&str; 6] = ["token", "secret", "password", "authorization", "cookie", "signature"];

/// Fields with a URL that is itself a secret: its holder may post, or read the file.
const SECRET_ADDRESSES: [&str; 3] = ["response_url", "permalink_public", "webhook_url"];

/// Prefixes of Slack's tokens, wherever they appear, including in a URL (`?t=xoxe-…`).
/// <https://docs.slack.dev/authentication/tokens>
const TOKENS: [&str; 3] = ["xox", "xapp-", "xwfp-"];

/// The word that follows one of these is a secret.
const BEFORE_SECRETS: [&str; 4] = ["hooks.slack.com/", "pub_secret=", "Bearer ", "token="];

/// Shorter than any token: a normal word with the same prefix is left unchanged.
const SHORTEST_TOKEN: usize = 12;

/// Redacts a job for display.
pub fn without_secrets(payload: &str) -> String {
    match envelope::parse_value(payload) {
        Ok(mut value) => {
            redact(&mut value);
            value.to_string()
        }
        Err(_) => text_without_secrets(payload),
    }
}

/// Redacts a text for display.
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

/// The start of the next secret, and its length.
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

/// The length of the leading characters that tokens and URLs consist of.
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
            // A JSON object within a text, such as the raw form of a message.
            let inner = if text.starts_with(['{', '[']) { envelope::parse_value(text).ok() } else { None };
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

/// Whether a field is a secret, by its name: not `tokens` of a revocation, which lists people, nor
/// `authorizations`, which lists IDs.
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
    fn no_secret_is_shown_wherever_it_appears() {
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
    fn no_secret_is_shown_next_to_half_a_character() {
        for job in [
            r#"{"v":1,"event":{"token":"verify-me","text":"\ud83d"}}"#,
            r#"{"raw":"{\"token\":\"verify-me\",\"text\":\"\\ud83d\"}"}"#,
        ] {
            let shown = without_secrets(job);
            assert!(!shown.contains("verify-me") && shown.contains('\u{fffd}'), "{shown}");
        }
    }

    #[test]
    fn other_values_stay_unchanged() {
        let job = json!({ "v": 1, "event": { "event_id": "Ev1", "event": {
            "type": "tokens_revoked", "tokens": { "oauth": ["U1"], "bot": ["U2"] },
            "text": "xoxo to all, 100% xox- and naïve 日本語", "client_msg_id": "a-b", "token": null, "n": 1.5,
        } } });
        assert_eq!(serde_json::from_str::<Value>(&without_secrets(&job.to_string())).unwrap(), job);
        assert_eq!(without_secrets("[not json"), "[not json");
    }

    #[test]
    fn tokens_are_removed_from_invalid_json_too() {
        assert_eq!(without_secrets("{\"a\":xoxb-1234-56789-abc}"), "{\"a\":[removed]}");
        assert_eq!(
            text_without_secrets("é xoxb-1234-56789-abc xoxb-1234-56789-def é"),
            "é [removed] [removed] é"
        );
    }
}
