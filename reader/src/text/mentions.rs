//! Reads the elements of rich text that stand for another object: a canvas, a workflow, a message.

use serde_json::Value;
use slack::ids::{ChannelId, Ts};

use super::blocks::text;
use super::reading::MessageParts;
use super::spans::TextSpan;
use crate::permalink::message_permalink;

/// The fields with the words for an object, best first.
const WORDS: [&str; 4] = ["text", "label", "salesforce_field_label", "title"];

/// Returns the words for an object, linked to its address: its text, or otherwise the title that the message
/// has for its file. Nothing if there is neither.
pub(super) fn object(element: &Value, parts: &MessageParts<'_>) -> Vec<TextSpan> {
    let words = WORDS.iter().find_map(|name| text(element, name)).map(str::to_owned);
    let words = words.or_else(|| parts.title(text(element, "file_id")?));
    let address = text(element, "url").map(str::to_owned);
    match (words, address) {
        (label, Some(address)) => vec![TextSpan::Link { address, label }],
        (Some(words), None) => vec![TextSpan::text(words)],
        (None, None) => Vec::new(),
    }
}

/// Returns a link to a message, as its own text or as "message from NAME".
pub(super) fn message(element: &Value) -> Vec<TextSpan> {
    let first = |names: [&str; 2]| names.into_iter().find_map(|name| text(element, name));
    let channel = first(["channel_id", "root_message_channel"]).and_then(|id| ChannelId::parse(id).ok());
    let ts = first(["message_ts", "root_message_ts"]).and_then(|ts| Ts::parse(ts).ok());
    let thread_ts = text(element, "thread_ts").and_then(|ts| Ts::parse(ts).ok());
    let permalink =
        channel.zip(ts).map(|(channel, ts)| message_permalink(None, &channel, &ts, thread_ts.as_ref()));
    let Some(address) = text(element, "url").map(str::to_owned).or(permalink) else { return Vec::new() };
    let words = text(element, "text").map(str::to_owned);
    let author = text(element, "author_id").filter(|_| words.is_none());
    let label = Some(words.unwrap_or_else(|| "message".to_owned()));
    let mut spans = vec![TextSpan::Link { address, label }];
    if let Some(author) = author {
        spans.push(TextSpan::text(" from "));
        spans.push(TextSpan::User { id: author.to_owned(), label: None });
    }
    spans
}
