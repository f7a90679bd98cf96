//! Reads the elements of blocks: texts, pictures, buttons and menus.
//!
//! <https://docs.slack.dev/reference/block-kit/block-elements>

use serde_json::Value;

use super::blocks::{self, list, one_or_many, text};
use super::formatting;
use super::mrkdwn;
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan};
use super::unknown;

/// Elements that people press or fill in. One without a label or value shows no words in Slack either.
const CONTROLS: [&str; 27] = [
    "button",
    "channels_select",
    "checkboxes",
    "conversations_select",
    "datepicker",
    "datetimepicker",
    "email_text_input",
    "external_select",
    "feedback_buttons",
    "file_input",
    "icon_button",
    "multi_channels_select",
    "multi_conversations_select",
    "multi_external_select",
    "multi_static_select",
    "multi_users_select",
    "number_input",
    "overflow",
    "plain_text_input",
    "radio_buttons",
    "rich_text_input",
    "select",
    "static_select",
    "timepicker",
    "url_text_input",
    "users_select",
    "workflow_button",
];

/// Maximum number of options of a list that are shown. Slack shows at most ten checkboxes or radio buttons.
const MAX_OPTIONS: usize = 100;

/// Whether an element is pressed or filled in.
pub(super) fn is_control(kind: &str) -> bool {
    CONTROLS.contains(&kind)
}

/// Returns the content of a text object, or of a string. Only `mrkdwn` is markup.
pub(super) fn object_lines(object: &Value, lines: &LineBuffer<'_>) -> Vec<TextLine> {
    let Some(text) = object.as_str().or_else(|| object["text"].as_str()) else { return Vec::new() };
    if text.trim().is_empty() {
        return Vec::new();
    }
    if object["type"] == "mrkdwn" {
        formatting::lines(mrkdwn::parse(text, lines.parts.zone))
    } else {
        formatting::unstyled(vec![TextSpan::text(mrkdwn::unescaped(text))])
    }
}

/// Adds elements on one line. An element with several lines ends it.
pub(super) fn add_row(elements: &[Value], kind: LineKind, lines: &mut LineBuffer<'_>) {
    let mut row: Vec<TextLine> = Vec::new();
    for element in elements {
        let mut element_lines = element_lines(element, lines).into_iter();
        let Some(first) = element_lines.next() else { continue };
        match row.last_mut() {
            Some(last) if last.kind == LineKind::Plain && first.kind == LineKind::Plain => {
                last.spans.push(TextSpan::text("  "));
                last.spans.extend(first.spans);
            }
            Some(_) | None => row.push(first),
        }
        row.extend(element_lines);
    }
    lines.lines(kind, row);
}

fn element_lines(element: &Value, lines: &LineBuffer<'_>) -> Vec<TextLine> {
    let kind = element["type"].as_str().unwrap_or_default();
    let spans = match kind {
        "mrkdwn" | "plain_text" => return object_lines(element, lines),
        "image" => image(element),
        "url" => blocks::title_link(&element["text"], &element["url"], lines),
        kind if is_control(kind) => control(element),
        _ if !element.is_object() => Vec::new(),
        _ => unknown::spans(element, lines),
    };
    if spans.is_empty() { Vec::new() } else { vec![TextLine::plain(spans)] }
}

fn image(element: &Value) -> Vec<TextSpan> {
    let title = label(&element["title"]).or_else(|| label(&element["alt_text"]));
    vec![TextSpan::Control(title.map_or_else(|| "image".to_owned(), |title| format!("image: {title}")))]
}

/// Returns what a button or a menu shows: its label, the options to choose from, or its value.
pub(super) fn control(element: &Value) -> Vec<TextSpan> {
    let kind = element["type"].as_str().unwrap_or_default();
    let labels: Vec<String> = match kind {
        "checkboxes" | "radio_buttons" => {
            list(&element["options"]).iter().take(MAX_OPTIONS).filter_map(option).collect()
        }
        "feedback_buttons" => ["positive_button", "negative_button"]
            .iter()
            .filter_map(|name| label(&element[*name]["text"]))
            .collect(),
        _ => {
            let chosen = ["initial_option", "initial_options"].iter().flat_map(|name| {
                let options = one_or_many(&element[*name]);
                options.iter().take(MAX_OPTIONS).filter_map(option)
            });
            let chosen: Vec<String> = label(&element["text"]).into_iter().chain(chosen).collect();
            let values = ["initial_value", "initial_date", "initial_time", "placeholder", "alt_text"];
            let value = || values.iter().find_map(|name| label(&element[*name]));
            if chosen.is_empty() { value().into_iter().collect() } else { chosen }
        }
    };
    let mut spans = Vec::new();
    for label in labels {
        if !spans.is_empty() {
            spans.push(TextSpan::text("  "));
        }
        spans.push(TextSpan::Control(label));
    }
    spans
}

fn option(option: &Value) -> Option<String> {
    let name = label(&option["text"])?;
    Some(match label(&option["description"]) {
        Some(description) => format!("{name}: {description}"),
        None => name,
    })
}

/// Returns a text object or a string as a label.
fn label(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| text(value, "text"))?;
    (!text.trim().is_empty()).then(|| mrkdwn::unescaped(text))
}
