//! Converts rich text, Slack's blocks for text that people type, to lines.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks/rich-text-block>

use serde_json::Value;

use super::blocks::{list, text};
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan, TextStyle, split_lines};

/// The deepest nesting of lists that Slack allows.
const MAX_LEVEL: usize = 8;

/// Adds the elements of rich text: sections, lists, quotations and preformatted text.
pub(super) fn elements(elements: &Value, lines: &mut LineBuffer) {
    for element in list(elements) {
        let kind = match element["type"].as_str() {
            Some("rich_text_list") => {
                items(element, lines);
                continue;
            }
            Some("rich_text_quote") => LineKind::Quote,
            Some("rich_text_preformatted") => LineKind::Preformatted,
            Some(_) | None => LineKind::Plain,
        };
        let mut parts = split_lines(inline(&element["elements"]));
        // A section before another element ends with its own line break.
        if parts.len() > 1 && parts.last().is_some_and(Vec::is_empty) {
            parts.pop();
        }
        for spans in parts {
            lines.line(TextLine { kind, spans, ..TextLine::default() });
        }
    }
}

fn items(element: &Value, lines: &mut LineBuffer) {
    let number = |name: &str| element[name].as_u64().and_then(|number| usize::try_from(number).ok());
    let level = number("indent").unwrap_or_default().min(MAX_LEVEL);
    let first = number("offset").unwrap_or_default().saturating_add(1);
    let is_numbered = element["style"] == "ordered";
    let kind =
        if number("border").is_some_and(|border| border > 0) { LineKind::Quote } else { LineKind::Plain };
    for (index, item) in list(&element["elements"]).iter().enumerate() {
        let sign = if is_numbered { format!("{}.", first.saturating_add(index)) } else { "•".to_owned() };
        let blank = " ".repeat(sign.chars().count());
        for (number, spans) in split_lines(inline(&item["elements"])).into_iter().enumerate() {
            let sign = if number == 0 { sign.clone() } else { blank.clone() };
            lines.line(TextLine { level, kind, marker: sign, spans, frame: None });
        }
    }
}

fn inline(elements: &Value) -> Vec<TextSpan> {
    list(elements).iter().filter_map(span).collect()
}

fn span(element: &Value) -> Option<TextSpan> {
    let owned = |name: &str| text(element, name).map(str::to_owned);
    let style = || {
        let has = |name: &str| element["style"][name] == true;
        TextStyle { bold: has("bold"), italic: has("italic"), strike: has("strike"), code: has("code") }
    };
    match element["type"].as_str()? {
        "link" => Some(TextSpan::Link { address: owned("url")?, label: owned("text") }),
        "user" => Some(TextSpan::User { id: owned("user_id")?, label: None }),
        "channel" => Some(TextSpan::Channel { id: owned("channel_id")?, label: None }),
        "usergroup" => Some(TextSpan::UserGroup { id: owned("usergroup_id")?, label: None }),
        "broadcast" => Some(TextSpan::Broadcast(owned("range")?)),
        "emoji" => {
            let skin_tone = element["skin_tone"].as_u64().and_then(|tone| u8::try_from(tone).ok());
            Some(TextSpan::Emoji { name: owned("name")?, skin_tone })
        }
        "date" => owned("fallback").map(TextSpan::text),
        "color" => owned("value").map(TextSpan::text),
        // Whitespace counts as text here, and nothing is escaped.
        _ => Some(TextSpan::Text(element["text"].as_str()?.to_owned(), style())),
    }
}
