//! Reads blocks and elements that Slack added after this code was written: their strings, or what they are.

use serde_json::Value;

use super::blocks;
use super::elements;
use super::mrkdwn;
use super::spans::{LineBuffer, LineKind, TextSpan};
use crate::plain;

/// The fields whose strings people read in Slack's blocks, in the order in which they are shown.
const FIELDS: [&str; 15] = [
    "title",
    "subtitle",
    "text",
    "body",
    "label",
    "caption",
    "description",
    "value",
    "fallback",
    "alt_text",
    "name",
    "url",
    "title_url",
    "external_url",
    "join_url",
];

/// Those of them that are addresses.
const ADDRESSES: [&str; 4] = ["url", "title_url", "external_url", "join_url"];

/// Maximum number of strings that are shown of one unknown block or element. Those that are known have fewer.
const MAX_STRINGS: usize = 50;

/// Maximum size of these strings, in bytes: more than twice that of Slack's longest text object.
const MAX_BYTES: usize = 8 * 1024;

/// Maximum number of values that are looked at, so that an object without strings is bounded too.
const MAX_VALUES: usize = 2_000;

/// Maximum depth of objects and lists in each other. An event's own nesting is limited to 128.
const MAX_DEPTH: usize = 32;

/// Maximum number of characters of a kind and of an id.
const MAX_NAME_CHARS: usize = 80;

/// Adds the strings of an unknown block, each on its own line, and the blocks in it.
pub(super) fn block(block: &Value, lines: &mut LineBuffer<'_>) {
    let mut strings = FoundStrings::default();
    let Some(mut found) = lines.nested() else {
        trace(block).into_iter().for_each(|trace| lines.trace(trace));
        return;
    };
    strings.of_fields(block, 0, &mut |part| match part {
        FoundPart::Spans(spans) => found.spans(spans),
        FoundPart::Text(object) => blocks::add_object(object, LineKind::Plain, &mut found),
        FoundPart::Block(block) => blocks::one(block, &mut found),
    });
    if !found.is_empty() {
        lines.append(found);
    } else if let Some(trace) = trace(block) {
        lines.trace(trace);
    }
}

/// Returns the strings of an unknown element on one line.
pub(super) fn spans(element: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    let mut strings = FoundStrings::default();
    let mut spans = Vec::new();
    let mut add = |more: Vec<TextSpan>| {
        if !spans.is_empty() && !more.is_empty() {
            spans.push(TextSpan::text(" "));
        }
        spans.extend(more);
    };
    strings.of_fields(element, 0, &mut |part| match part {
        FoundPart::Spans(more) => add(more),
        FoundPart::Text(object) => {
            let mut inside = lines.empty_like();
            blocks::add_object(object, LineKind::Plain, &mut inside);
            inside.into_lines().into_iter().for_each(|line| add(line.spans));
        }
        FoundPart::Block(block) => {
            let Some(mut inside) = lines.nested() else { return };
            blocks::one(block, &mut inside);
            inside.into_lines().into_iter().for_each(|line| add(line.spans));
        }
    });
    if spans.is_empty() { trace(element).into_iter().collect() } else { spans }
}

/// Returns the kind and the id of a block or element; `None` if it has no kind.
pub(super) fn trace(value: &Value) -> Option<TextSpan> {
    let kind = value["type"].as_str().filter(|kind| !kind.trim().is_empty())?;
    let own = ["block_id", "action_id"];
    let id = value.as_object()?.iter().find_map(|(name, value)| {
        let is_id = (name == "id" || name.ends_with("_id")) && !own.contains(&name.as_str());
        value.as_str().filter(|id| is_id && !id.is_empty())
    });
    let kind = plain::excerpt(kind, MAX_NAME_CHARS);
    Some(TextSpan::Control(match id {
        Some(id) => format!("{kind} {}", plain::excerpt(id, MAX_NAME_CHARS)),
        None => kind,
    }))
}

/// A part of an unknown block or element.
enum FoundPart<'v> {
    Spans(Vec<TextSpan>),
    /// A text object.
    Text(&'v Value),
    /// A block of a known kind.
    Block(&'v Value),
}

/// The number of strings, bytes and values that were found so far.
#[derive(Default)]
struct FoundStrings {
    strings: usize,
    bytes: usize,
    values: usize,
}

impl FoundStrings {
    fn is_full(&self) -> bool {
        self.strings >= MAX_STRINGS || self.bytes >= MAX_BYTES || self.values >= MAX_VALUES
    }

    fn take<'t>(&mut self, text: &'t str) -> &'t str {
        self.strings += 1;
        let taken = &text[..text.floor_char_boundary(MAX_BYTES.saturating_sub(self.bytes))];
        self.bytes += taken.len();
        taken
    }

    /// Finds the strings in the known fields of an object, and then those in its other objects and lists.
    fn of_fields<'v>(&mut self, value: &'v Value, depth: usize, add: &mut impl FnMut(FoundPart<'v>)) {
        let Some(object) = value.as_object() else { return };
        for name in FIELDS {
            let Some(value) = object.get(name) else { continue };
            if self.is_full() {
                return;
            }
            for value in blocks::one_or_many(value) {
                self.of_field(name, value, depth, add);
            }
        }
        for (_, value) in object.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str())) {
            self.of_value(value, depth + 1, add);
        }
    }

    fn of_field<'v>(
        &mut self,
        name: &str,
        value: &'v Value,
        depth: usize,
        add: &mut impl FnMut(FoundPart<'v>),
    ) {
        if self.is_full() {
            return;
        }
        let text = match (value.as_str(), value.as_number()) {
            (Some(text), _) => mrkdwn::unescaped(self.take(text)),
            (None, Some(number)) => self.take(&number.to_string()).to_owned(),
            (None, None) => return self.of_value(value, depth + 1, add),
        };
        if !text.trim().is_empty() {
            add(FoundPart::Spans(vec![if ADDRESSES.contains(&name) {
                TextSpan::Link { address: text, label: None }
            } else {
                TextSpan::text(text)
            }]));
        }
    }

    fn of_value<'v>(&mut self, value: &'v Value, depth: usize, add: &mut impl FnMut(FoundPart<'v>)) {
        self.values += 1;
        if self.is_full() || depth > MAX_DEPTH {
            return;
        }
        match value["type"].as_str() {
            Some("plain_text" | "mrkdwn") => {
                let text = value["text"].as_str().unwrap_or_default();
                // A text object is shown completely or not at all.
                if text.len() <= MAX_BYTES.saturating_sub(self.bytes) {
                    self.take(text);
                    add(FoundPart::Text(value));
                }
            }
            Some(kind) if blocks::is_known(kind) => {
                self.strings += 1;
                add(FoundPart::Block(value));
            }
            Some(kind) if elements::is_control(kind) => {
                self.strings += 1;
                add(FoundPart::Spans(elements::control(value)));
            }
            Some(_) | None => match value.as_array() {
                Some(values) => {
                    for value in values {
                        if self.is_full() {
                            return;
                        }
                        self.of_value(value, depth + 1, add);
                    }
                }
                None => self.of_fields(value, depth, add),
            },
        }
    }
}
