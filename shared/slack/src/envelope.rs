//! The outer object of a request from Slack, peeked at without copying or parsing what is inside.
//!
//! <https://docs.slack.dev/apis/events-api/#events-JSON>

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What ingest and the workers need of the envelope. Absent, null and unknown fields are all fine.
#[derive(Debug, Default, Deserialize)]
pub struct Envelope<'a> {
    /// `event_callback`, `url_verification`, `app_rate_limited`, `ssl_check` or something new.
    #[serde(rename = "type", borrow, default, deserialize_with = "text_or_none")]
    pub kind: Option<Cow<'a, str>>,
    /// The workspace the event belongs to.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub team_id: Option<Cow<'a, str>>,
    /// Identifies this event among the app's deliveries; the same on Slack's retries.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub event_id: Option<Cow<'a, str>>,
    /// Seconds since the Unix epoch at which Slack dispatched the event.
    #[serde(borrow, default)]
    pub event_time: Option<&'a RawValue>,
    /// Whether the event says that its channel is shared with another workspace.
    #[serde(default, deserialize_with = "is_true")]
    pub is_ext_shared_channel: bool,
    /// What to echo for `url_verification`.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub challenge: Option<Cow<'a, str>>,
    /// The event itself.
    #[serde(borrow, default)]
    pub event: Option<&'a RawValue>,
    /// For whom Slack delivers: kept unread, since hardly any event needs it.
    #[serde(borrow, default)]
    authorizations: Option<&'a RawValue>,
}

/// For whom Slack delivers an event; it names one of those who may see it.
/// <https://docs.slack.dev/apis/events-api/#authorizations>
#[derive(Default, Deserialize)]
struct Authorization<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user_id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_true")]
    is_bot: bool,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a body. The whole body is checked to be one JSON object in UTF-8.
    ///
    /// # Errors
    /// The JSON error, which names a position and never the content.
    pub fn peek(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        // Fields that are skipped are not checked for UTF-8 by the parser, and a queue takes nothing else.
        let text =
            std::str::from_utf8(body).map_err(|_| serde::de::Error::custom("the body is not UTF-8"))?;
        // A derived reader would take an array for a struct, field by field.
        if !text.trim_ascii_start().starts_with('{') {
            return Err(serde::de::Error::custom("the body is not a JSON object"));
        }
        serde_json::from_str(text)
    }

    /// Whether this is the user of the app itself, as the envelope names it.
    pub fn is_own_user(&self, user: &str) -> bool {
        let listed: Vec<&RawValue> =
            self.authorizations.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        listed
            .into_iter()
            .map(object::<Authorization<'_>>)
            .any(|authorization| authorization.is_bot && authorization.user_id.as_deref() == Some(user))
    }

    /// `event_time`, where it is a plain number of seconds.
    pub fn event_time_s(&self) -> Option<i64> {
        self.event_time?.get().parse().ok()
    }
}

/// Reads a string as it is in the input if it has no escapes; anything that is not a string becomes `None`.
///
/// # Errors
/// If the input is not JSON at all.
pub fn text_or_none<'de, D>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(text(raw))
}

/// Whether a flag is set: by `true` alone. One that is odd takes no other field with it.
///
/// # Errors
/// If the input is not JSON at all.
pub fn is_true<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(<&'de RawValue>::deserialize(deserializer)?.get() == "true")
}

/// The object in a raw value; what is no object, or has a field of another type, has no fields.
pub fn object<'a, T: Default + Deserialize<'a>>(raw: &'a RawValue) -> T {
    if raw.get().starts_with('{') {
        serde_json::from_str(raw.get()).unwrap_or_default()
    } else {
        T::default()
    }
}

/// Something that should be read and cannot: a key stands twice in it, or it is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object in the event cannot be read: a key occurs in it twice, or it is nested too deeply")]
pub struct UnreadableJson;

/// The object in a raw value, if it can be read; what is no object has no fields. For what decides what is stored, or
/// whether it is: that it cannot be read must not mean that it says nothing.
///
/// # Errors
/// [`UnreadableJson`] for an object that says a thing twice.
pub fn read<'a, T: Default + Deserialize<'a>>(raw: &'a RawValue) -> Result<T, UnreadableJson> {
    if raw.get().starts_with('{') {
        serde_json::from_str(raw.get()).map_err(|_| UnreadableJson)
    } else {
        Ok(T::default())
    }
}

/// The string in a raw value, borrowed where it has no escapes.
pub fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        let mended = || serde_json::from_str(&whole_characters(json)).ok();
        serde_json::from_str(json).ok().or_else(mended).map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Any JSON as a value; in its strings, half a character is U+FFFD.
///
/// # Errors
/// [`UnreadableJson`] for what is nested too deeply.
pub fn value(json: &str) -> Result<Value, UnreadableJson> {
    serde_json::from_str(json)
        .or_else(|_| serde_json::from_str(&whole_characters(json)))
        .map_err(|_| UnreadableJson)
}

/// JSON in which each escape of half a character, such as a text has that was cut between two UTF-16 units, is that of
/// U+FFFD.
fn whole_characters(json: &str) -> String {
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        // A backslash escapes the next character; of `\uXXXX`, the digits are plain text to what follows.
        let escaped = escape.chars().nth(1).map_or(1, |next| 1 + next.len_utf8());
        let taken = match (unit(escape), unit(escape.get(6..).unwrap_or_default())) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => &escape[..12],
            (Some(0xD800..=0xDFFF), _) => {
                whole.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            _ => &escape[..escaped],
        };
        whole.push_str(taken);
        rest = &escape[taken.len()..];
    }
    whole.push_str(rest);
    whole
}

/// The UTF-16 unit that a text begins with as an escape.
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
    fn escapes_are_decoded_and_plain_text_is_borrowed() {
        let envelope = Envelope::peek(br#"{"type":"a\u0062","team_id":"T1"}"#).unwrap();
        assert_eq!(envelope.kind.as_deref(), Some("ab"));
        assert!(matches!(envelope.team_id, Some(Cow::Borrowed("T1"))));
    }

    #[test]
    fn what_is_no_json_object_is_an_error() {
        for body in [&b""[..], b"[]", b"\"x\"", b"{", b"{} {}", b"{\"a\":\"\xff\"}", b"null"] {
            assert!(Envelope::peek(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn half_a_character_is_a_replacement_character_and_nothing_else_changes() {
        for (json, expected) in [
            (r#""plan \ud83d""#, "plan \u{fffd}"),
            (r#""\uDE00\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83dx\n""#, "\u{fffd}x\n"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
            (r#""\ude00é\ud83d\u00e9""#, "\u{fffd}é\u{fffd}é"),
        ] {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(text(raw).as_deref(), Some(expected), "{json}");
            assert_eq!(value(json), Ok(Value::from(expected)), "{json}");
        }
        assert_eq!(value(&format!("{}{}", "[".repeat(200), "]".repeat(200))), Err(UnreadableJson));
    }

    #[test]
    fn an_object_with_a_repeated_key_is_not_read_as_an_empty_one() {
        #[derive(Debug, Default, PartialEq, Deserialize)]
        struct NamedObject<'a> {
            #[serde(borrow, default, deserialize_with = "text_or_none")]
            name: Option<Cow<'a, str>>,
        }
        let named =
            |json| read::<NamedObject<'_>>(serde_json::from_str(json).unwrap()).map(|named| named.name);
        assert_eq!(named(r#"{"name":"a","other":1,"other":2}"#), Ok(Some("a".into())));
        assert_eq!(named(r#"{"name":"a","name":"a"}"#), Err(UnreadableJson));
        assert_eq!(named("[]"), Ok(None));
    }
}
