//! Slack's blocks as lines.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks>

use serde_json::Value;

use super::mrkdwn;
use super::rich_text;
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan};

/// Adds what blocks say. What is not known yet is passed over, unless it has a `text` as most have.
pub(super) fn blocks(blocks: &Value, lines: &mut LineBuffer) {
    for block in list(blocks) {
        if lines.is_full() {
            return;
        }
        match block["type"].as_str().unwrap_or_default() {
            "rich_text" => rich_text::elements(&block["elements"], lines),
            "section" => {
                say(&block["text"], lines);
                for field in list(&block["fields"]) {
                    say(field, lines);
                }
                row(std::slice::from_ref(&block["accessory"]), LineKind::Plain, lines);
            }
            "header" => lines.spans_as(LineKind::Heading, composed(&block["text"])),
            "context" => row(list(&block["elements"]), LineKind::Context, lines),
            "actions" | "context_actions" => row(list(&block["elements"]), LineKind::Plain, lines),
            "image" => row(std::slice::from_ref(block), LineKind::Plain, lines),
            "divider" if lines.has_looks() => {
                lines.line(TextLine { kind: LineKind::Divider, ..TextLine::default() });
            }
            "video" => {
                lines.spans(linked(&block["title"], &block["title_url"]));
                say(&block["description"], lines);
            }
            "input" => {
                say(&block["label"], lines);
                row(std::slice::from_ref(&block["element"]), LineKind::Plain, lines);
            }
            // Its text is Markdown, which reads as it is.
            "markdown" => {
                lines.spans(block["text"].as_str().map(TextSpan::text).into_iter().collect());
            }
            "table" => table(&block["rows"], lines),
            _ => say(&block["text"], lines),
        }
    }
}

/// The elements of a JSON array; none of anything else.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text that is not empty.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value[name].as_str().filter(|text| !text.trim().is_empty())
}

/// A title, and where it leads if that is said.
pub(super) fn linked(title: &Value, address: &Value) -> Vec<TextSpan> {
    let mut title = composed(title);
    let Some(address) = address.as_str().filter(|address| !address.is_empty()) else { return title };
    let address = mrkdwn::unescaped(address);
    match title.as_mut_slice() {
        [] => vec![TextSpan::Link { address, label: None }],
        [TextSpan::Text(label, _)] => {
            let label = Some(std::mem::take(label));
            vec![TextSpan::Link { address, label }]
        }
        [..] => {
            title.extend([TextSpan::text(" "), TextSpan::Link { address, label: None }]);
            title
        }
    }
}

fn say(object: &Value, lines: &mut LineBuffer) {
    let spans = composed(object);
    if !spans.is_empty() {
        lines.spans(spans);
    }
}

/// A text object, or a text as attachments have it.
fn composed(object: &Value) -> Vec<TextSpan> {
    match (object.as_str().or_else(|| object["text"].as_str()), object["type"].as_str()) {
        (Some(text), Some("plain_text")) if !text.is_empty() => vec![TextSpan::text(mrkdwn::unescaped(text))],
        (Some(text), _) => mrkdwn::parse(text),
        (None, _) => Vec::new(),
    }
}

/// Elements that stand beside each other.
fn row(elements: &[Value], kind: LineKind, lines: &mut LineBuffer) {
    let mut spans = Vec::new();
    for element in elements {
        let shown = element_shown(element);
        if !shown.is_empty() && !spans.is_empty() {
            spans.push(TextSpan::text("  "));
        }
        spans.extend(shown);
    }
    if !spans.is_empty() {
        lines.spans_as(kind, spans);
    }
}

fn element_shown(element: &Value) -> Vec<TextSpan> {
    let named = |name: &str| {
        let object = &element[name];
        let text = object["text"].as_str().or_else(|| object.as_str())?;
        (!text.trim().is_empty()).then(|| mrkdwn::unescaped(text))
    };
    match element["type"].as_str().unwrap_or_default() {
        "mrkdwn" | "plain_text" => composed(element),
        "image" => {
            let title = named("title").or_else(|| named("alt_text"));
            let title = title.map_or_else(|| "image".to_owned(), |title| format!("image: {title}"));
            vec![TextSpan::Control(title)]
        }
        // A button has its text; what is chosen from has a placeholder.
        _ => named("text").or_else(|| named("placeholder")).map(TextSpan::Control).into_iter().collect(),
    }
}

fn table(rows: &Value, lines: &mut LineBuffer) {
    for cells in list(rows) {
        let mut spans = Vec::new();
        for (column, cell) in list(cells).iter().enumerate() {
            if column > 0 {
                spans.push(TextSpan::Cell);
            }
            if cell["type"] == "rich_text" {
                let mut inside = LineBuffer::default();
                rich_text::elements(&cell["elements"], &mut inside);
                for (number, line) in inside.into_lines().into_iter().enumerate() {
                    if number > 0 {
                        spans.push(TextSpan::text(" "));
                    }
                    spans.extend(line.spans);
                }
            } else {
                spans.extend(cell["text"].as_str().map(TextSpan::text));
            }
        }
        lines.line(TextLine { kind: LineKind::TableRow, ..TextLine::plain(spans) });
    }
}
