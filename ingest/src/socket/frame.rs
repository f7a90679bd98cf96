//! The frames of Slack: a pure function of their text.
//! <https://docs.slack.dev/apis/events-api/using-socket-mode>

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use slack::envelope::text_or_none;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SocketFrame<'a> {
    /// The connection is ready.
    Hello(SocketHello),
    /// An event. The payload has the bytes that Slack sent.
    Event {
        envelope_id: String,
        payload: &'a str,
        retry_attempt: u32,
        retry_reason: String,
    },
    /// Anything else that waits for an ack.
    Ignored {
        envelope_id: String,
    },
    Disconnect(DisconnectReason),
    /// Not a frame of Slack.
    Unreadable,
}

/// What Slack says about a connection that is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketHello {
    /// The app of the token.
    pub app_id: Option<String>,
    /// The connections of the app, this one included.
    pub num_connections: Option<u64>,
}

/// Why Slack wants to end a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// Slack ends the connection soon: `warning`, `refresh_requested`, and any reason that Slack adds later.
    Refresh(&'static str),
    /// Socket Mode is turned off for the app.
    LinkDisabled,
    /// The app has ten connections already.
    TooManyWebsockets,
}

impl DisconnectReason {
    /// A label for metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Refresh(label) => label,
            Self::LinkDisabled => "link_disabled",
            Self::TooManyWebsockets => "too_many_websockets",
        }
    }
}

/// The maximum length of an envelope id: Slack's are UUIDs. The ack repeats it.
const MAX_ENVELOPE_ID_BYTES: usize = 256;

/// The maximum length of an app's id: Slack's have 11 characters. People read it.
const MAX_APP_ID_BYTES: usize = 32;

#[derive(Default, Deserialize)]
struct FrameFields<'a> {
    #[serde(borrow, rename = "type", default, deserialize_with = "text_or_none")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    envelope_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    retry_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    retry_attempt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    num_connections: Option<&'a RawValue>,
    #[serde(borrow, default)]
    connection_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ConnectionInfo<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    app_id: Option<Cow<'a, str>>,
}

/// Reads a frame.
pub(super) fn read(text: &str) -> SocketFrame<'_> {
    // A list would also be read as the fields of a frame.
    if !text.trim_ascii_start().starts_with('{') {
        return SocketFrame::Unreadable;
    }
    let Ok(fields) = serde_json::from_str::<FrameFields<'_>>(text) else { return SocketFrame::Unreadable };
    let number = |raw: Option<&RawValue>| raw.and_then(|raw| raw.get().parse::<u64>().ok());
    match fields.kind.as_deref() {
        Some("hello") => {
            return SocketFrame::Hello(SocketHello {
                app_id: fields.connection_info.and_then(app_id),
                num_connections: number(fields.num_connections),
            });
        }
        Some("disconnect") => {
            return SocketFrame::Disconnect(match fields.reason.as_deref() {
                Some("warning") => DisconnectReason::Refresh("warning"),
                Some("refresh_requested") => DisconnectReason::Refresh("refresh_requested"),
                Some("link_disabled") => DisconnectReason::LinkDisabled,
                Some("too_many_websockets") => DisconnectReason::TooManyWebsockets,
                Some(_) | None => DisconnectReason::Refresh("other"),
            });
        }
        Some(_) | None => {}
    }
    let envelope_id = fields.envelope_id.filter(|id| (1..=MAX_ENVELOPE_ID_BYTES).contains(&id.len()));
    let Some(envelope_id) = envelope_id.map(Cow::into_owned) else { return SocketFrame::Unreadable };
    match (fields.kind.as_deref(), fields.payload) {
        (Some("events_api"), Some(payload)) => SocketFrame::Event {
            envelope_id,
            payload: payload.get(),
            retry_attempt: number(fields.retry_attempt).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            retry_reason: fields.retry_reason.unwrap_or_default().into_owned(),
        },
        (_, _) => SocketFrame::Ignored { envelope_id },
    }
}

fn app_id(connection_info: &RawValue) -> Option<String> {
    // A list would also be read as the fields.
    let text = Some(connection_info.get()).filter(|text| text.starts_with('{'))?;
    let info: ConnectionInfo<'_> = serde_json::from_str(text).ok()?;
    let is_id = |id: &str| {
        id.len() <= MAX_APP_ID_BYTES
            && id.starts_with('A')
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    info.app_id.filter(|id| is_id(id)).map(Cow::into_owned)
}

/// The frame that acknowledges an envelope.
pub(super) fn ack(envelope_id: &str) -> String {
    json!({ "envelope_id": envelope_id }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_the_bytes_of_its_payload() {
        let payload = "{ \"z\" : 1.0e2,\"a\":\"\\u00e9\",  \"event\":{}}";
        let text = format!(
            r#"{{"envelope_id":"e-1","payload":{payload},"type":"events_api","retry_attempt":3,"retry_reason":"timeout"}}"#
        );
        let expected = SocketFrame::Event {
            envelope_id: "e-1".to_owned(),
            payload,
            retry_attempt: 3,
            retry_reason: "timeout".to_owned(),
        };
        assert_eq!(read(&text), expected);
        assert_eq!(ack("e\"1"), r#"{"envelope_id":"e\"1"}"#);
    }

    #[test]
    fn each_frame_is_read_as_what_it_is() {
        use DisconnectReason::{LinkDisabled, Refresh, TooManyWebsockets};
        let ignored = || SocketFrame::Ignored { envelope_id: "e".to_owned() };
        let hello = |app_id: Option<&str>, num_connections| {
            SocketFrame::Hello(SocketHello { app_id: app_id.map(str::to_owned), num_connections })
        };
        for (text, expected) in [
            (
                r#"{"type":"hello","num_connections":2,"connection_info":{"app_id":"A0ANNALIST"}}"#,
                hello(Some("A0ANNALIST"), Some(2)),
            ),
            (r#"{"type":"hello","num_connections":"2","connection_info":["A0ANNALIST"]}"#, hello(None, None)),
            (r#"{"type":"hello","num_connections":-1,"connection_info":{"app_id":7}}"#, hello(None, None)),
            (r#"{"type":"hello","connection_info":{"app_id":"A\n0"}}"#, hello(None, None)),
            (r#"{"type":"hello","num_connections":null,"connection_info":null}"#, hello(None, None)),
            (r#"{"type":"disconnect","reason":"warning"}"#, SocketFrame::Disconnect(Refresh("warning"))),
            (
                r#"{"type":"disconnect","reason":"refresh_requested","debug_info":{}}"#,
                SocketFrame::Disconnect(Refresh("refresh_requested")),
            ),
            (r#"{"type":"disconnect","reason":"link_disabled"}"#, SocketFrame::Disconnect(LinkDisabled)),
            (
                r#"{"type":"disconnect","reason":"too_many_websockets"}"#,
                SocketFrame::Disconnect(TooManyWebsockets),
            ),
            (r#"{"type":"disconnect","reason":7}"#, SocketFrame::Disconnect(Refresh("other"))),
            (r#"{"type":"disconnect"}"#, SocketFrame::Disconnect(Refresh("other"))),
            (r#"{"type":"interactive","envelope_id":"e","payload":{}}"#, ignored()),
            (r#"{"type":"slash_commands","envelope_id":"e"}"#, ignored()),
            (r#"{"type":7,"envelope_id":"e"}"#, ignored()),
            (r#"{"type":"events_api","envelope_id":"e","payload":null}"#, ignored()),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_hostile_frame_is_unreadable() {
        let nested = format!(r#"{{"type":"x","a":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        let long = format!(r#"{{"type":"events_api","envelope_id":"{}","payload":{{}}}}"#, "e".repeat(257));
        for text in [
            "",
            "null",
            "7",
            "{",
            r#"["events_api","e"]"#,
            r#"{"type":"events_api","payload":{}}"#,
            r#"{"type":"events_api","envelope_id":7,"payload":{}}"#,
            r#"{"type":"events_api","envelope_id":"","payload":{}}"#,
            &nested,
            &long,
        ] {
            assert_eq!(read(text), SocketFrame::Unreadable, "{text:.80}");
        }
    }
}
