//! Converts Slack's blocks to lines.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks>

use serde_json::Value;

use super::mrkdwn;
use super::rich_text;
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan};

/// Adds the content of blocks. Of an unknown block, only its `text` is added, if it has one.
pub(super) fn blocks(blocks: &Value, lines: &mut LineBuffer) {
    for block in list(blocks) {
        if lines.is_full() {
            return;
        }
        match block["type"].as_str().unwrap_or_default() {
            "rich_text" => rich_text::elements(&block["elements"], lines),
            "section" => {
                add_text(&block["text"], lines);
                for field in list(&block["fields"]) {
                    add_text(field, lines);
                }
                add_row(std::slice::from_ref(&block["accessory"]), LineKind::Plain, lines);
            }
            "header" => lines.spans_as(LineKind::Heading, composed(&block["text"])),
            "context" => add_row(list(&block["elements"]), LineKind::Context, lines),
            "actions" | "context_actions" => add_row(list(&block["elements"]), LineKind::Plain, lines),
            "image" => add_row(std::slice::from_ref(block), LineKind::Plain, lines),
            "divider" if lines.has_formatting() => {
                lines.line(TextLine { kind: LineKind::Divider, ..TextLine::default() });
            }
            "video" => {
                lines.spans(title_link(&block["title"], &block["title_url"]));
                add_text(&block["description"], lines);
            }
            "input" => {
                add_text(&block["label"], lines);
                add_row(std::slice::from_ref(&block["element"]), LineKind::Plain, lines);
            }
            // Markdown is readable unchanged.
            "markdown" => {
                lines.spans(block["text"].as_str().map(TextSpan::text).into_iter().collect());
            }
            "table" => table(&block["rows"], lines),
            _ => add_text(&block["text"], lines),
        }
    }
}

/// Returns the elements of a JSON array; an empty slice for any other value.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a field's text, if it is not blank.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value[name].as_str().filter(|text| !text.trim().is_empty())
}

/// Returns a title, as a link if it has an address.
pub(super) fn title_link(title: &Value, address: &Value) -> Vec<TextSpan> {
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

fn add_text(object: &Value, lines: &mut LineBuffer) {
    let spans = composed(object);
    if !spans.is_empty() {
        lines.spans(spans);
    }
}

/// Returns the content of a text object, or of a string as in attachments.
fn composed(object: &Value) -> Vec<TextSpan> {
    match (object.as_str().or_else(|| object["text"].as_str()), object["type"].as_str()) {
        (Some(text), Some("plain_text")) if !text.is_empty() => vec![TextSpan::text(mrkdwn::unescaped(text))],
        (Some(text), _) => mrkdwn::parse(text),
        (None, _) => Vec::new(),
    }
}

/// Adds elements on one line.
fn add_row(elements: &[Value], kind: LineKind, lines: &mut LineBuffer) {
    let mut spans = Vec::new();
    for element in elements {
        let element_spans = element_spans(element);
        if !element_spans.is_empty() && !spans.is_empty() {
            spans.push(TextSpan::text("  "));
        }
        spans.extend(element_spans);
    }
    if !spans.is_empty() {
        lines.spans_as(kind, spans);
    }
}

fn element_spans(element: &Value) -> Vec<TextSpan> {
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
        // A button has a text; a menu has a placeholder.
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
