//! Converts rich text, Slack's blocks for text that people type, to lines.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks/rich-text-block>

use serde_json::Value;

use super::blocks::{list, text};
use super::formatting;
use super::kinds::{ELEMENT_KINDS, ElementReading};
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan, TextStyle, split_lines};
use super::{dates, mentions, unknown};

/// The deepest nesting of lists that Slack allows.
const MAX_LEVEL: usize = 8;

/// Adds the elements of rich text: sections, lists, quotations and preformatted text.
pub(super) fn elements(elements: &Value, lines: &mut LineBuffer<'_>) {
    for element in list(elements) {
        if lines.is_full() {
            return;
        }
        let kind = match element["type"].as_str() {
            Some("rich_text_list") => {
                items(element, lines);
                continue;
            }
            Some("rich_text_quote") => LineKind::Quote,
            Some("rich_text_preformatted") => LineKind::Preformatted,
            Some("rich_text_section") => LineKind::Plain,
            Some(_) if element["elements"].is_null() => {
                lines.spans(span(element, lines));
                continue;
            }
            Some(_) | None => LineKind::Plain,
        };
        let mut parts = split_lines(inline(&element["elements"], lines));
        // A section before another element ends with its own line break.
        if parts.len() > 1 && parts.last().is_some_and(Vec::is_empty) {
            parts.pop();
        }
        for spans in parts {
            lines.line(TextLine { kind, spans, ..TextLine::default() });
        }
    }
}

fn items(element: &Value, lines: &mut LineBuffer<'_>) {
    let number = |name: &str| element[name].as_u64();
    let level = usize::try_from(number("indent").unwrap_or_default())
        .map_or(MAX_LEVEL, |indent| indent.min(MAX_LEVEL));
    let first = number("offset").unwrap_or_default().saturating_add(1);
    let is_numbered = element["style"] == "ordered";
    let kind =
        if number("border").is_some_and(|border| border > 0) { LineKind::Quote } else { LineKind::Plain };
    for (index, item) in list(&element["elements"]).iter().enumerate() {
        if lines.is_full() {
            return;
        }
        let number = is_numbered.then(|| first.saturating_add(index as u64));
        let sign = number.map_or_else(|| "•".to_owned(), |number| format!("{}.", numeral(number, level)));
        let blank = " ".repeat(sign.chars().count());
        let elements = &item["elements"];
        let spans = if elements.is_null() { span(item, lines) } else { inline(elements, lines) };
        for (index, spans) in split_lines(spans).into_iter().enumerate() {
            let marker = if index == 0 { sign.clone() } else { blank.clone() };
            lines.line(TextLine { level, kind, marker, number, spans, frame: None });
        }
    }
}

/// Returns a number as Slack writes it on a level: as digits, as a letter, or as a Roman numeral.
fn numeral(number: u64, level: usize) -> String {
    // Longer ones are no easier to read than digits, and no list is that long.
    const MAX_NUMERAL: u64 = 3_999;
    match level % 3 {
        1 if (1..=MAX_NUMERAL).contains(&number) => letters(number),
        2 if (1..=MAX_NUMERAL).contains(&number) => roman(number),
        _ => number.to_string(),
    }
}

/// Returns a number in letters: `a` to `z`, then `aa`, `ab`.
fn letters(mut number: u64) -> String {
    let mut letters = Vec::new();
    while number > 0 {
        number -= 1;
        letters.extend(char::from_digit(10 + u32::try_from(number % 26).unwrap_or_default(), 36));
        number /= 26;
    }
    letters.iter().rev().collect()
}

fn roman(mut number: u64) -> String {
    let numerals = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let mut roman = String::new();
    for (value, numeral) in numerals {
        while number >= value {
            roman += numeral;
            number -= value;
        }
    }
    roman
}

fn inline(elements: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    list(elements).iter().flat_map(|element| span(element, lines)).collect()
}

fn span(element: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    let kind = element["type"].as_str().unwrap_or_default();
    let known = ELEMENT_KINDS.iter().find(|row| row.kind == kind);
    let spans = match known {
        Some(row) => read(row.reading, element, lines),
        None if element["elements"].is_array() => inline_within(element, lines),
        None => Vec::new(),
    };
    // Also an element of a known kind whose fields have other names or types than today.
    if spans.is_empty() && element.is_object() && element["text"].as_str() != Some("") {
        return unknown::spans(element, lines);
    }
    spans
}

/// Returns the content of an element that contains others, as sections do.
fn inline_within(element: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    lines.nested().map(|nested| inline(&element["elements"], &nested)).unwrap_or_default()
}

fn read(reading: ElementReading, element: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    let owned = |name: &str| text(element, name).map(str::to_owned);
    let one = |span: Option<TextSpan>| span.into_iter().collect();
    let labelled = |name: &str| owned(name).map(|id| (lines.parts.label(&id), id));
    match reading {
        // Whitespace counts as text here, and nothing is escaped.
        ElementReading::Text => one(element["text"]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(|text| TextSpan::Text(text.to_owned(), style(&element["style"])))),
        ElementReading::Link => {
            one(owned("url").map(|address| TextSpan::Link { address, label: owned("text") }))
        }
        ElementReading::User => one(labelled("user_id").map(|(label, id)| TextSpan::User { id, label })),
        ElementReading::Channel => {
            one(labelled("channel_id").map(|(label, id)| TextSpan::Channel { id, label }))
        }
        ElementReading::UserGroup => {
            one(labelled("usergroup_id").map(|(label, id)| TextSpan::UserGroup { id, label }))
        }
        ElementReading::Broadcast => one(owned("range").map(TextSpan::Broadcast)),
        ElementReading::Emoji => one(owned("name").map(|name| emoji(&name, &element["skin_tone"]))),
        ElementReading::Color => one(owned("value").map(TextSpan::text)),
        ElementReading::Date => {
            let timestamp = &element["timestamp"];
            let timestamp = match timestamp.as_str() {
                Some(timestamp) => timestamp.to_owned(),
                None => timestamp.as_number().map(ToString::to_string).unwrap_or_default(),
            };
            let format = element["format"].as_str().unwrap_or_default();
            let (address, fallback) = (text(element, "url"), text(element, "fallback"));
            one(dates::span(&timestamp, format, address, fallback, lines.parts.zone))
        }
        ElementReading::Mention => mentions::object(element, lines.parts),
        ElementReading::Message => mentions::message(element),
    }
}

fn style(style: &Value) -> TextStyle {
    let has = |name: &str| style[name] == true;
    TextStyle { bold: has("bold"), italic: has("italic"), strike: has("strike"), code: has("code") }
}

/// Reads an emoji, whose skin tones are a number of their own or part of the name.
fn emoji(name: &str, skin_tone: &Value) -> TextSpan {
    let split = name.split_once("::skin-tone-");
    let toned = split.and_then(|(name, tones)| Some((name, formatting::skin_tones(tones)?)));
    let (name, mut skin_tones) = toned.unwrap_or((name, Vec::new()));
    let own = skin_tone.as_u64().and_then(|tone| u8::try_from(tone).ok());
    if skin_tones.is_empty() {
        skin_tones.extend(own.filter(|tone| (2..=6).contains(tone)));
    }
    TextSpan::Emoji { name: name.to_owned(), skin_tones }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbered_as_slack_numbers_their_level() {
        for (number, expected) in [
            (1, ["1", "a", "i", "1", "a", "i"]),
            (4, ["4", "d", "iv", "4", "d", "iv"]),
            (26, ["26", "z", "xxvi", "26", "z", "xxvi"]),
            (27, ["27", "aa", "xxvii", "27", "aa", "xxvii"]),
            (703, ["703", "aaa", "dcciii", "703", "aaa", "dcciii"]),
            (4_000, ["4000"; 6]),
            (u64::MAX, ["18446744073709551615"; 6]),
        ] {
            assert_eq!([0, 1, 2, 3, 4, 5].map(|level| numeral(number, level)), expected);
        }
    }
}
