//! Plots as SVG, in the colours of the page.

use maud::{Markup, html};

use reader::numbers::grouped;

/// Renders a column chart with labels below. Hovering over a column shows its number.
pub(super) fn columns(title: &str, values: &[u64], labels: &[String]) -> Markup {
    const HEIGHT: f64 = 110.0;
    const WIDTH: f64 = 440.0;
    let greatest = values.iter().copied().max().unwrap_or_default();
    let step = WIDTH / values.len().max(1) as f64;
    html! {
        svg viewBox="0 0 440 140" role="img" aria-label=(title) {
            @for (index, (value, label)) in values.iter().zip(labels).enumerate() {
                @let height = part(*value, greatest) * HEIGHT;
                @let left = index as f64 * step;
                rect class="mark" x=(number(left + step * 0.1)) y=(number(HEIGHT + 5.0 - height)) width=(number(step * 0.8))
                    height=(number(height)) rx="2" { title { (label) ": " (grouped(*value)) } }
                text x=(number(left + step / 2.0)) y="132" text-anchor="middle" { (label) }
            }
            line class="base" x1="0" y1="115" x2="440" y2="115" {}
        }
    }
}

/// Renders a column for each period, with its number above it and its label below. The last period has a stronger colour.
pub(super) fn trend(description: &str, periods: &[(String, u64)]) -> Markup {
    const TOP: f64 = 18.0;
    const HEIGHT: f64 = 100.0;
    const STEP: f64 = 36.0;
    let greatest = periods.iter().map(|(_, value)| *value).max().unwrap_or_default();
    html! {
        svg class="trend" viewBox="0 0 432 142" role="img" aria-label=(description) {
            @for (index, (label, value)) in periods.iter().enumerate() {
                @let height = part(*value, greatest) * HEIGHT;
                @let middle = number((index as f64 + 0.5) * STEP);
                rect class="mark" x=(number(index as f64 * STEP + 4.0)) y=(number(TOP + HEIGHT - height)) width=(number(STEP - 8.0))
                    height=(number(height)) rx="2" opacity=(if index + 1 == periods.len() { "1" } else { "0.55" }) {}
                text x=(middle) y=(number(TOP + HEIGHT - height - 4.0)) text-anchor="middle" { (short(*value)) }
                text x=(middle) y="134" text-anchor="middle" { (label) }
            }
            line class="base" x1="0" y1="118" x2=(number(STEP * periods.len() as f64)) y2="118" {}
        }
    }
}

/// A number in at most six characters, such as `99,999`, `123k` or `12M`.
fn short(value: u64) -> String {
    match value {
        0..100_000 => grouped(value),
        100_000..10_000_000 => format!("{}k", grouped(value / 1_000)),
        10_000_000.. => format!("{}M", grouped(value / 1_000_000)),
    }
}

/// Renders a heat map with weekdays as rows and hours as columns. More messages have a stronger colour.
pub(super) fn week(hours: &[[u64; 24]; 7], weekdays: &[&str; 7]) -> Markup {
    const SIDE: f64 = 28.0;
    const LEFT: f64 = 40.0;
    let greatest = hours.iter().flatten().copied().max().unwrap_or_default();
    html! {
        svg viewBox="0 0 720 226" role="img" aria-label="Messages by weekday and hour" {
            @for (line, (day, weekday)) in hours.iter().zip(weekdays).enumerate() {
                @let top = line as f64 * SIDE;
                text x="0" y=(number(top + SIDE * 0.62)) { (weekday) }
                @for (hour, value) in day.iter().enumerate() {
                    @let strength = 0.15 + 0.85 * part(*value, greatest).sqrt();
                    rect class=(if *value == 0 { "empty" } else { "mark" }) x=(number(LEFT + hour as f64 * SIDE)) y=(number(top))
                        width=(number(SIDE - 3.0)) height=(number(SIDE - 3.0)) rx="3"
                        opacity=(number(if *value == 0 { 0.45 } else { strength })) {
                        title { (weekday) " " (hour) ":00 to " (hour + 1) ":00: " (grouped(*value)) }
                    }
                }
            }
            @for hour in (0..24).step_by(3) {
                text x=(number(LEFT + f64::from(hour) * SIDE)) y="212" { (hour) ":00" }
            }
        }
    }
}

/// Renders a bar in a table.
pub(super) fn bar(value: u64, greatest: u64) -> Markup {
    html! {
        svg viewBox="0 0 100 8" preserveAspectRatio="none" class="thin" aria-hidden="true" {
            rect class="mark" x="0" y="0" width=(number(100.0 * part(value, greatest))) height="8" {}
        }
    }
}

fn part(value: u64, greatest: u64) -> f64 {
    if greatest == 0 { 0.0 } else { value as f64 / greatest as f64 }
}

/// Formats a length without trailing zeros.
fn number(length: f64) -> String {
    let text = format!("{length:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
