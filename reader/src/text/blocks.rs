//! Converts Slack's blocks to lines.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks>

use serde_json::Value;

use super::elements::{add_row, object_lines};
use super::kinds::BLOCK_KINDS;
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan};
use super::{mrkdwn, rich_text, unknown};

/// Adds the content of blocks.
pub(super) fn blocks(blocks: &Value, lines: &mut LineBuffer<'_>) {
    for block in list(blocks) {
        if lines.is_full() {
            return;
        }
        one(block, lines);
    }
}

/// Adds the content of a block.
pub(super) fn one(block: &Value, lines: &mut LineBuffer<'_>) {
    let kind = block["type"].as_str().unwrap_or_default();
    match BLOCK_KINDS.iter().find(|row| row.kind == kind) {
        Some(row) => (row.read)(block, lines),
        None if block.is_object() => unknown::block(block, lines),
        None => {}
    }
}

/// Whether blocks of this kind are known.
pub(super) fn is_known(kind: &str) -> bool {
    BLOCK_KINDS.iter().any(|row| row.kind == kind)
}

/// Returns the elements of a JSON array; an empty slice for any other value.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the elements of a JSON array; any other value as the only element.
pub(super) fn one_or_many(value: &Value) -> &[Value] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

/// Returns a field's text, if it is not blank.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value[name].as_str().filter(|text| !text.trim().is_empty())
}

/// Returns a title, as a link if it has an address.
pub(super) fn title_link(title: &Value, address: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    let mut spans: Vec<TextSpan> = Vec::new();
    for line in object_lines(title, lines) {
        if !spans.is_empty() {
            spans.push(TextSpan::text(" "));
        }
        spans.extend(line.spans);
    }
    linked(spans, address.as_str().unwrap_or_default())
}

/// Returns spans as a link to an address, if there is one.
pub(super) fn linked(mut spans: Vec<TextSpan>, address: &str) -> Vec<TextSpan> {
    if address.trim().is_empty() {
        return spans;
    }
    let address = mrkdwn::unescaped(address);
    match spans.as_mut_slice() {
        [] => vec![TextSpan::Link { address, label: None }],
        [TextSpan::Text(label, _)] => {
            let label = Some(std::mem::take(label));
            vec![TextSpan::Link { address, label }]
        }
        [..] => {
            spans.extend([TextSpan::text(" "), TextSpan::Link { address, label: None }]);
            spans
        }
    }
}

/// Adds a text object, or rich text.
pub(super) fn add_object(object: &Value, kind: LineKind, lines: &mut LineBuffer<'_>) {
    if object["type"] == "rich_text" {
        rich_text(object, lines);
    } else {
        let object_lines = object_lines(object, lines);
        lines.lines(kind, object_lines);
    }
}

fn add_text(object: &Value, lines: &mut LineBuffer<'_>) {
    add_object(object, LineKind::Plain, lines);
}

fn add_spans(kind: LineKind, spans: Vec<TextSpan>, lines: &mut LineBuffer<'_>) {
    if !spans.is_empty() {
        lines.line(TextLine { kind, ..TextLine::plain(spans) });
    }
}

pub(super) fn rich_text(block: &Value, lines: &mut LineBuffer<'_>) {
    rich_text::elements(&block["elements"], lines);
}

pub(super) fn section(block: &Value, lines: &mut LineBuffer<'_>) {
    add_text(&block["text"], lines);
    list(&block["fields"]).iter().for_each(|field| add_text(field, lines));
    add_row(std::slice::from_ref(&block["accessory"]), LineKind::Plain, lines);
}

pub(super) fn header(block: &Value, lines: &mut LineBuffer<'_>) {
    add_object(&block["text"], LineKind::Heading, lines);
}

pub(super) fn context(block: &Value, lines: &mut LineBuffer<'_>) {
    add_row(list(&block["elements"]), LineKind::Context, lines);
}

pub(super) fn actions(block: &Value, lines: &mut LineBuffer<'_>) {
    add_row(list(&block["elements"]), LineKind::Plain, lines);
}

pub(super) fn image(block: &Value, lines: &mut LineBuffer<'_>) {
    add_row(std::slice::from_ref(block), LineKind::Plain, lines);
}

pub(super) fn divider(_: &Value, lines: &mut LineBuffer<'_>) {
    lines.line(TextLine { kind: LineKind::Divider, ..TextLine::default() });
}

pub(super) fn video(block: &Value, lines: &mut LineBuffer<'_>) {
    add_spans(LineKind::Plain, title_link(&block["title"], &block["title_url"], lines), lines);
    add_object(&block["author_name"], LineKind::Context, lines);
    add_object(&block["provider_name"], LineKind::Context, lines);
    add_text(&block["description"], lines);
}

pub(super) fn input(block: &Value, lines: &mut LineBuffer<'_>) {
    add_text(&block["label"], lines);
    add_row(std::slice::from_ref(&block["element"]), LineKind::Plain, lines);
    add_object(&block["hint"], LineKind::Context, lines);
}

pub(super) fn markdown(block: &Value, lines: &mut LineBuffer<'_>) {
    let Some(text) = text(block, "text") else { return };
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        lines.line(TextLine { kind: LineKind::Markdown, ..TextLine::plain(vec![TextSpan::text(line)]) });
    }
}

pub(super) fn alert(block: &Value, lines: &mut LineBuffer<'_>) {
    let level = text(block, "level").filter(|level| *level != "default");
    let mut content = object_lines(&block["text"], lines);
    if let Some(level) = level {
        match content.first_mut() {
            Some(first) => first.spans.insert(0, TextSpan::text(format!("{level}: "))),
            None => content.push(TextLine::plain(vec![TextSpan::text(level)])),
        }
    }
    lines.lines(LineKind::Plain, content);
}

pub(super) fn card(block: &Value, lines: &mut LineBuffer<'_>) {
    for (name, kind) in [
        ("title", LineKind::Heading),
        ("subtitle", LineKind::Plain),
        ("body", LineKind::Plain),
        ("subtext", LineKind::Context),
    ] {
        add_object(&block[name], kind, lines);
    }
    if block["hero_image"].is_object() {
        add_row(std::slice::from_ref(&block["hero_image"]), LineKind::Plain, lines);
    }
    add_row(list(&block["actions"]), LineKind::Plain, lines);
}

pub(super) fn carousel(block: &Value, lines: &mut LineBuffer<'_>) {
    nested(&block["elements"], lines);
}

pub(super) fn container(block: &Value, lines: &mut LineBuffer<'_>) {
    let has_title = block["rich_text_title"].is_object();
    add_object(&block[if has_title { "rich_text_title" } else { "title" }], LineKind::Heading, lines);
    add_text(&block["subtitle"], lines);
    nested(&block["child_blocks"], lines);
}

/// Adds the blocks in a block. Below the deepest level, only their kinds.
fn nested(inside: &Value, lines: &mut LineBuffer<'_>) {
    let Some(mut nested) = lines.nested() else {
        for block in list(inside) {
            unknown::trace(block).into_iter().for_each(|trace| lines.trace(trace));
        }
        return;
    };
    blocks(inside, &mut nested);
    lines.append(nested);
}

pub(super) fn plan(block: &Value, lines: &mut LineBuffer<'_>) {
    add_object(&block["title"], LineKind::Heading, lines);
    for task in list(&block["tasks"]) {
        if lines.is_full() {
            return;
        }
        self::task(task, lines);
    }
}

/// Adds a task as an item of a list, with its details below.
pub(super) fn task(block: &Value, lines: &mut LineBuffer<'_>) {
    let mut title = title_link(&block["title"], &Value::Null, lines);
    let status = text(block, "status").map(|status| status.replace('_', " "));
    if let Some(status) = status {
        let status = if title.is_empty() { status } else { format!(" ({status})") };
        title.push(TextSpan::text(status));
    }
    if !title.is_empty() {
        lines.line(TextLine { marker: "•".to_owned(), ..TextLine::plain(title) });
    }
    add_text(&block["details"], lines);
    add_text(&block["output"], lines);
    for source in list(&block["sources"]) {
        add_spans(LineKind::Context, title_link(&source["text"], &source["url"], lines), lines);
    }
}

/// Adds a call. A call without a name is described by the message's text.
pub(super) fn call(block: &Value, lines: &mut LineBuffer<'_>) {
    let call = &block["call"]["v1"];
    let named = title_link(&call["name"], &Value::Null, lines);
    let named = if named.is_empty() { lines.parts.text.to_vec() } else { named };
    let mut spans = linked(named, text(call, "join_url").unwrap_or_default());
    let has_ended = call["has_ended"] == true || call["date_end"].as_i64().is_some_and(|end| end > 0);
    if has_ended {
        spans.push(TextSpan::text(if spans.is_empty() { "call (ended)" } else { " (ended)" }));
    }
    if spans.is_empty() {
        unknown::block(block, lines);
    } else {
        lines.spans(spans);
    }
}

pub(super) fn file(block: &Value, lines: &mut LineBuffer<'_>) {
    let file = &block["file"];
    let title = if text(file, "title").is_some() { "title" } else { "name" };
    let spans = title_link(&file[title], &file["external_url"], lines);
    if spans.is_empty() {
        unknown::trace(block).into_iter().for_each(|trace| lines.trace(trace));
    }
    add_spans(LineKind::Plain, spans, lines);
}

pub(super) fn shortcut(block: &Value, lines: &mut LineBuffer<'_>) {
    let address = if block["share_url"].is_string() { &block["share_url"] } else { &block["url"] };
    add_spans(LineKind::Plain, title_link(&block["title"], address, lines), lines);
    add_text(&block["description"], lines);
}
