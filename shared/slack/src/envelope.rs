//! The outer object of a request from Slack, read without copying or parsing the inner event.
//!
//! <https://docs.slack.dev/apis/events-api/#events-JSON>

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ids::{AppId, TeamId};

/// The fields of the envelope that ingest and the workers need. Absent, null and unknown fields are all
/// accepted.
#[derive(Debug, Default, Deserialize)]
pub struct Envelope<'a> {
    /// `event_callback`, `url_verification`, `app_rate_limited`, `ssl_check` or something new.
    #[serde(rename = "type", borrow, default, deserialize_with = "text_or_none")]
    pub kind: Option<Cow<'a, str>>,
    /// A workspace of the event. In a channel that is shared with another organisation, this may be the
    /// other one: use [`Envelope::workspace`].
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub team_id: Option<Cow<'a, str>>,
    /// The workspace from which the app sees the event.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    context_team_id: Option<Cow<'a, str>>,
    /// The app to which Slack sends the event.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    api_app_id: Option<Cow<'a, str>>,
    /// Identifies the event; Slack's retries have the same id.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub event_id: Option<Cow<'a, str>>,
    /// When Slack dispatched the event, in seconds since the Unix epoch.
    #[serde(borrow, default)]
    pub event_time: Option<&'a RawValue>,
    /// Whether the channel of the event is shared with another workspace.
    #[serde(default, deserialize_with = "is_true")]
    is_ext_shared_channel: bool,
    /// The text to echo for `url_verification`.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub challenge: Option<Cow<'a, str>>,
    /// The event itself.
    #[serde(borrow, default)]
    pub event: Option<&'a RawValue>,
    /// The authorizations of the delivery, unparsed, since few events need them.
    #[serde(borrow, default)]
    authorizations: Option<&'a RawValue>,
}

/// One of the users or bots that can see an event, on whose behalf Slack delivers it.
/// <https://docs.slack.dev/apis/events-api/#authorizations>
#[derive(Default, Deserialize)]
struct Authorization<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user_id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_true")]
    is_bot: bool,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a body. The whole body is checked to be one JSON object in UTF-8.
    ///
    /// # Errors
    /// The JSON error, which contains a position but none of the content.
    pub fn peek(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        // The parser does not check skipped fields for UTF-8, and a queue accepts only UTF-8.
        let text =
            std::str::from_utf8(body).map_err(|_| serde::de::Error::custom("the body is not UTF-8"))?;
        // A derived deserializer would accept an array as a struct, field by field.
        if !text.trim_ascii_start().starts_with('{') {
            return Err(serde::de::Error::custom("the body is not a JSON object"));
        }
        serde_json::from_str(text)
    }

    /// The workspace of the installation that receives the event: the workspace of the first authorization,
    /// else that of the context, else `team_id`. A missing or malformed id is skipped, and so is the id of an
    /// organisation (`E…`), which the authorization of an org-wide installation contains; it counts if there
    /// is no other. `None` if there is no valid id.
    ///
    /// In a channel that is shared with another organisation, `team_id` may be the other one's, for which
    /// there is no token. <https://docs.slack.dev/apis/events-api/#authorizations>
    pub fn workspace(&self) -> Option<TeamId> {
        let authorization = self.authorizations().next().unwrap_or_default();
        let candidates = [&authorization.team_id, &self.context_team_id, &self.team_id];
        let mut ids = candidates.into_iter().flatten().filter_map(|id| TeamId::parse(id).ok());
        let first = ids.next()?;
        let is_workspace = |id: &TeamId| !id.as_str().starts_with('E');
        if is_workspace(&first) { Some(first) } else { ids.find(is_workspace).or(Some(first)) }
    }

    /// The app to which Slack sends the event.
    pub fn app(&self) -> Option<AppId> {
        AppId::parse(self.api_app_id.as_deref()?).ok()
    }

    /// Whether people of other workspaces may take part in the channel of the event.
    pub fn is_shared(&self) -> bool {
        let names_another = |workspace: TeamId| self.team_id.as_deref() != Some(workspace.as_str());
        self.is_ext_shared_channel || self.workspace().is_some_and(names_another)
    }

    /// Whether this is the app's own bot user, according to the envelope.
    pub fn is_own_user(&self, user: &str) -> bool {
        self.authorizations()
            .any(|authorization| authorization.is_bot && authorization.user_id.as_deref() == Some(user))
    }

    fn authorizations(&self) -> impl Iterator<Item = Authorization<'a>> {
        let list: Vec<&RawValue> =
            self.authorizations.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        list.into_iter().map(object_or_default)
    }

    /// `event_time`, if it is a plain number of seconds.
    pub fn event_time_s(&self) -> Option<i64> {
        self.event_time?.get().parse().ok()
    }
}

/// Deserializes a string, borrowed from the input if it has no escapes; a value that is not a string becomes
/// `None`.
///
/// # Errors
/// If the input is not JSON at all.
pub fn text_or_none<'de, D>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(string_value(raw))
}

/// Deserializes a text that must not be lost: a value of another type becomes its JSON text. Only `null` and
/// `false` become `None`.
///
/// # Errors
/// If the input is not JSON at all.
pub fn text_or_json<'de, D>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(string_value(raw).or_else(|| json_text(raw)))
}

/// The JSON text of a value; `None` for `null` and `false`, which mean that there is no value.
pub(super) fn json_text(raw: &RawValue) -> Option<Cow<'_, str>> {
    (!matches!(raw.get(), "null" | "false")).then(|| Cow::Borrowed(raw.get()))
}

/// Deserializes a flag, which only `true` sets. An invalid value is false and does not invalidate other
/// fields.
///
/// # Errors
/// If the input is not JSON at all.
pub fn is_true<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(<&'de RawValue>::deserialize(deserializer)?.get() == "true")
}

/// Reads the object in a raw value. A value that is not an object, or has a field of a wrong type, yields the
/// default.
pub fn object_or_default<'a, T: Default + Deserialize<'a>>(raw: &'a RawValue) -> T {
    if raw.get().starts_with('{') {
        serde_json::from_str(raw.get()).unwrap_or_default()
    } else {
        T::default()
    }
}

/// A JSON value that cannot be read: it has a duplicate key, or it is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object in the event cannot be read: a key occurs in it twice, or it is nested too deeply")]
pub struct UnreadableJson;

/// Reads the object in a raw value, with an error if it cannot be read; a value that is not an object yields
/// the default. Use it for objects that decide what is stored: an unreadable object must not count as an
/// empty one.
///
/// # Errors
/// [`UnreadableJson`] for an object with a duplicate key.
pub fn read_object<'a, T: Default + Deserialize<'a>>(raw: &'a RawValue) -> Result<T, UnreadableJson> {
    if raw.get().starts_with('{') {
        serde_json::from_str(raw.get()).map_err(|_| UnreadableJson)
    } else {
        Ok(T::default())
    }
}

/// The string in a raw value, borrowed if it has no escapes.
pub fn string_value(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        let repaired = || serde_json::from_str(&whole_characters(json)).ok();
        serde_json::from_str(json).ok().or_else(repaired).map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Parses any JSON value; half a surrogate pair in a string becomes U+FFFD.
///
/// # Errors
/// [`UnreadableJson`] for a value that is nested too deeply.
pub fn parse_value(json: &str) -> Result<Value, UnreadableJson> {
    serde_json::from_str(json)
        .or_else(|_| serde_json::from_str(&whole_characters(json)))
        .map_err(|_| UnreadableJson)
}

/// Replaces each escape of an unpaired surrogate with that of U+FFFD. A text that was cut between two UTF-16
/// units contains such escapes.
fn whole_characters(json: &str) -> String {
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(position) = rest.find('\\') {
        let (before, escape) = rest.split_at(position);
        whole.push_str(before);
        // A backslash escapes the next character; the digits of `\uXXXX` are copied as plain text.
        let escaped = escape.chars().nth(1).map_or(1, |next| 1 + next.len_utf8());
        let copied = match (unit(escape), unit(escape.get(6..).unwrap_or_default())) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => &escape[..12],
            (Some(0xD800..=0xDFFF), _) => {
                whole.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            _ => &escape[..escaped],
        };
        whole.push_str(copied);
        rest = &escape[copied.len()..];
    }
    whole.push_str(rest);
    whole
}

/// The UTF-16 unit of the `\uXXXX` escape at the start of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_unexpected_type_are_absent_not_fatal() {
        let envelope =
            Envelope::peek(br#"{"type":7,"team_id":null,"event_id":{},"event_time":"x","event":[1]}"#)
                .unwrap();
        assert!(envelope.kind.is_none() && envelope.team_id.is_none() && envelope.event_id.is_none());
        assert_eq!(envelope.event_time_s(), None);
        assert_eq!(envelope.event.map(RawValue::get), Some("[1]"));
    }

    #[test]
    fn the_workspace_is_that_of_the_installation() {
        for (body, expected) in [
            (
                r#"{"team_id":"T0PARTNER","context_team_id":"T2","authorizations":[{"team_id":"T1"}]}"#,
                Some("T1"),
            ),
            (r#"{"team_id":"T0PARTNER","authorizations":[{"team_id":"T1"},{"team_id":"T2"}]}"#, Some("T1")),
            (r#"{"team_id":"T0PARTNER","context_team_id":"T1"}"#, Some("T1")),
            (r#"{"team_id":"T1"}"#, Some("T1")),
            (r#"{"context_team_id":"T1"}"#, Some("T1")),
            // An org-wide installation: the authorization names the organisation, or no workspace.
            (
                r#"{"team_id":"T1","authorizations":[{"team_id":"E1","is_enterprise_install":true}]}"#,
                Some("T1"),
            ),
            (
                r#"{"team_id":"T0PARTNER","context_team_id":"T1","authorizations":[{"enterprise_id":"E1"}]}"#,
                Some("T1"),
            ),
            (r#"{"team_id":"T1","context_team_id":"E1","authorizations":[{"team_id":null}]}"#, Some("T1")),
            (r#"{"team_id":"E2","authorizations":[{"team_id":"E1"}]}"#, Some("E1")),
            // Only ids of Slack's shape count, and only one in the first authorization.
            (r#"{"team_id":"t#","context_team_id":"../x","authorizations":[{"team_id":"T1"}]}"#, Some("T1")),
            (r#"{"team_id":"T1","context_team_id":"","authorizations":[{"team_id":"t#1"}]}"#, Some("T1")),
            (r#"{"team_id":"t#1"}"#, None),
            ("{}", None),
        ] {
            let workspace = Envelope::peek(body.as_bytes()).unwrap().workspace();
            assert_eq!(workspace.as_ref().map(TeamId::as_str), expected, "{body}");
        }
        let many = format!("[{}]", vec![r#"{"team_id":null}"#; 10_000].join(","));
        for odd in [
            "null",
            "7",
            "\"T2\"",
            "{}",
            r#"{"team_id":"T2"}"#,
            "[]",
            "[null,null]",
            "[7]",
            "[[]]",
            r#"[{"team_id":7}]"#,
            r#"[null,{"team_id":"T2"}]"#,
            r#"[{"team_id":"T2","team_id":"T3"}]"#,
            &many,
        ] {
            for (context, expected) in [("null", "T0OUTER"), ("[]", "T0OUTER"), ("\"T1\"", "T1")] {
                let body =
                    format!(r#"{{"team_id":"T0OUTER","context_team_id":{context},"authorizations":{odd}}}"#);
                let workspace = Envelope::peek(body.as_bytes()).unwrap().workspace().unwrap();
                assert_eq!(workspace.as_str(), expected, "{body:.200}");
            }
        }
    }

    #[test]
    fn a_channel_is_shared_if_the_envelope_says_so_or_names_two_workspaces() {
        for (body, expected) in [
            (r#"{"team_id":"T1"}"#, false),
            (r#"{"team_id":"T1","context_team_id":"T1","is_ext_shared_channel":false}"#, false),
            (r#"{"team_id":"T1","is_ext_shared_channel":true}"#, true),
            (r#"{"team_id":"T2","context_team_id":"T1"}"#, true),
            ("{}", false),
        ] {
            assert_eq!(Envelope::peek(body.as_bytes()).unwrap().is_shared(), expected, "{body}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_plain_text_is_borrowed() {
        let envelope = Envelope::peek(br#"{"type":"a\u0062","team_id":"T1"}"#).unwrap();
        assert_eq!(envelope.kind.as_deref(), Some("ab"));
        assert!(matches!(envelope.team_id, Some(Cow::Borrowed("T1"))));
    }

    #[test]
    fn a_body_that_is_not_a_json_object_is_an_error() {
        for body in [&b""[..], b"[]", b"\"x\"", b"{", b"{} {}", b"{\"a\":\"\xff\"}", b"null"] {
            assert!(Envelope::peek(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn an_unpaired_surrogate_becomes_a_replacement_character() {
        for (json, expected) in [
            (r#""plan \ud83d""#, "plan \u{fffd}"),
            (r#""\uDE00\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83dx\n""#, "\u{fffd}x\n"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
            (r#""\ude00é\ud83d\u00e9""#, "\u{fffd}é\u{fffd}é"),
        ] {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(string_value(raw).as_deref(), Some(expected), "{json}");
            assert_eq!(parse_value(json), Ok(Value::from(expected)), "{json}");
        }
        assert_eq!(parse_value(&format!("{}{}", "[".repeat(200), "]".repeat(200))), Err(UnreadableJson));
    }

    #[test]
    fn an_object_with_a_repeated_key_is_not_read_as_an_empty_one() {
        #[derive(Debug, Default, PartialEq, Deserialize)]
        struct NamedObject<'a> {
            #[serde(borrow, default, deserialize_with = "text_or_none")]
            name: Option<Cow<'a, str>>,
        }
        let named = |json| {
            read_object::<NamedObject<'_>>(serde_json::from_str(json).unwrap()).map(|named| named.name)
        };
        assert_eq!(named(r#"{"name":"a","other":1,"other":2}"#), Ok(Some("a".into())));
        assert_eq!(named(r#"{"name":"a","name":"a"}"#), Err(UnreadableJson));
        assert_eq!(named("[]"), Ok(None));
    }
}
