//! Converts blocks with tables and charts to rows.

use serde_json::Value;

use super::blocks::{add_object, list, text};
use super::elements;
use super::rich_text;
use super::spans::{LineBuffer, LineKind, TextLine, TextSpan};
use super::unknown;

/// Maximum number of values that are shown of each series of a chart. Slack's charts have fewer.
const MAX_VALUES: usize = 100;

/// Maximum number of series of a chart. Slack allows 12.
const MAX_SERIES: usize = 50;

pub(super) fn table(block: &Value, lines: &mut LineBuffer<'_>) {
    rows(&block["rows"], lines);
}

pub(super) fn data_table(block: &Value, lines: &mut LineBuffer<'_>) {
    add_object(&block["caption"], LineKind::Heading, lines);
    rows(&block["rows"], lines);
}

fn rows(rows: &Value, lines: &mut LineBuffer<'_>) {
    for cells in list(rows) {
        if lines.is_full() {
            return;
        }
        let cells: Vec<Vec<TextSpan>> = list(cells).iter().map(|cell| self::cell(cell, lines)).collect();
        row(cells, lines);
    }
}

/// Adds a row of cells.
fn row(cells: Vec<Vec<TextSpan>>, lines: &mut LineBuffer<'_>) {
    let mut spans = Vec::new();
    for (column, cell) in cells.into_iter().enumerate() {
        if column > 0 {
            spans.push(TextSpan::Cell);
        }
        spans.extend(cell);
    }
    lines.line(TextLine { kind: LineKind::TableRow, ..TextLine::plain(spans) });
}

fn cell(cell: &Value, lines: &LineBuffer<'_>) -> Vec<TextSpan> {
    let mut inside = lines.empty_like();
    match cell["type"].as_str().unwrap_or_default() {
        "rich_text" => rich_text::elements(&cell["elements"], &mut inside),
        // The text of a cell is not escaped.
        "raw_text" | "raw_number" => {
            let value = text(cell, "text").map(str::to_owned).or_else(|| number(&cell["value"]));
            return value.map(TextSpan::text).into_iter().collect();
        }
        kind if elements::is_control(kind) => return elements::control(cell),
        "action" => return elements::control(&cell["element"]),
        _ => match cell.as_str().map(str::to_owned).or_else(|| number(cell)) {
            Some(value) => return vec![TextSpan::text(value)],
            None if cell.is_object() => return unknown::spans(cell, lines),
            None => {}
        },
    }
    let mut spans = Vec::new();
    for (number, line) in inside.into_lines().into_iter().enumerate() {
        if number > 0 {
            spans.push(TextSpan::text(" "));
        }
        spans.extend(line.spans);
    }
    spans
}

/// Adds the title of a chart, and its values as a table with a column per series.
pub(super) fn visualization(block: &Value, lines: &mut LineBuffer<'_>) {
    add_object(&block["title"], LineKind::Heading, lines);
    let chart = &block["chart"];
    let axes = &chart["axis_config"];
    let text_span = |value: &str| vec![TextSpan::text(value)];
    let axis = |name: &str| text(axes, name).map(text_span).unwrap_or_default();
    let is_pie = chart["segments"].is_array();
    let series = if is_pie { std::slice::from_ref(&chart["segments"]) } else { list(&chart["series"]) };
    let series = &series[..series.len().min(MAX_SERIES)];
    let points = |one: &Value| -> Vec<(String, String)> {
        let points = list(if is_pie { one } else { &one["data"] }).iter().take(MAX_VALUES);
        let categories = list(&axes["categories"]);
        points
            .enumerate()
            .map(|(index, point)| {
                let label = text(point, "label").or_else(|| categories.get(index)?.as_str());
                let value = number(&point["value"]).or_else(|| number(point));
                (label.unwrap_or_default().to_owned(), value.unwrap_or_default())
            })
            .collect()
    };
    let y_axis = axis("y_label");
    if !y_axis.is_empty() {
        lines.line(TextLine { kind: LineKind::Context, ..TextLine::plain(y_axis) });
    }
    let names: Vec<Vec<TextSpan>> =
        series.iter().map(|one| text(one, "name").map(text_span).unwrap_or_default()).collect();
    let columns: Vec<Vec<(String, String)>> = series.iter().map(points).collect();
    let head: Vec<Vec<TextSpan>> = std::iter::once(axis("x_label")).chain(names).collect();
    if head.iter().any(|cell| !cell.is_empty()) {
        row(head, lines);
    }
    // Each series names its points itself, so that a row begins with the label of the first one that has it.
    for index in 0..columns.iter().map(Vec::len).max().unwrap_or_default() {
        let label = columns.iter().find_map(|column| Some(column.get(index)?.0.as_str()));
        let mut cells = vec![vec![TextSpan::text(label.unwrap_or_default())]];
        for column in &columns {
            let value = column.get(index).map(|(own, value)| {
                let is_other = Some(own.as_str()) != label && !own.is_empty();
                if is_other { format!("{own}: {value}") } else { value.clone() }
            });
            cells.push(vec![TextSpan::text(value.unwrap_or_default())]);
        }
        row(cells, lines);
    }
    if series.is_empty() && chart.is_object() {
        unknown::block(chart, lines);
    }
}

/// Returns a number, or a text that is sent in place of one.
fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
