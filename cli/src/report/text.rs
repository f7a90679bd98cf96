//! Prints a report for a terminal of 80 columns.

use std::io::{self, Write};

use reader::figures::report::{FigureName, FiguresReport, Scope, TopMessage};
use reader::figures::wording::{
    FIRST_TIME, FigureChange, WEEKDAYS, author_and_channel, change, headline, is_of_scope, number_text,
    report_notes, title, trend_title,
};
use rules::figures::partners::CountByPerson;

use super::bars;
use crate::plain::{self, grouped};

/// The width of the terminal.
const COLUMNS: usize = 80;

/// The width of names in tables, and the maximum number of rows.
const NAME: usize = 24;
const ROWS: usize = 10;

/// The width of bars in tables.
const BAR: usize = 10;

pub(super) fn print(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", heading(report))?;
    figures(report, out)?;
    trend(report, out)?;
    if !matches!(report.scope, Scope::Channel(_)) {
        let rows = report.channels.iter().map(|row| TableRow {
            rank: row.rank,
            name: row.name.as_ref().map_or_else(|| row.channel.to_string(), |name| format!("#{name}")),
            messages: row.messages,
            previous: row.previous,
            share: row.share,
            cumulative_share: row.cumulative_share,
        });
        table("Channels", &rows.collect::<Vec<_>>(), out)?;
    }
    let rows = report.users.iter().map(|row| TableRow {
        rank: row.rank,
        name: row.name.clone().unwrap_or_else(|| row.user.clone()),
        messages: row.messages,
        previous: row.previous,
        share: row.share,
        cumulative_share: row.cumulative_share,
    });
    table("People", &rows.collect::<Vec<_>>(), out)?;
    times(report, out)?;
    emoji(report, out)?;
    messages("Most reactions", &report.most_reacted, out)?;
    messages("Most replies", &report.most_replied, out)?;
    if let Some(partners) = &report.partners {
        for (exchange, given, received) in [
            (&partners.mentions, "Mentioned", "Mentioned by"),
            (&partners.reactions, "Reacted to", "Reactions from"),
            (&partners.replies, "Replied to", "Replies from"),
        ] {
            people(report, given, &exchange.given, out)?;
            people(report, received, &exchange.received, out)?;
        }
    }
    notes(report, out)
}

fn heading(report: &FiguresReport) -> String {
    let (period, previous) = (report.period.in_words(), report.period.previous().in_words());
    let (title, _) = fitted(&title(report), COLUMNS);
    format!("{title}\n{period}, compared with {previous}\n{}\n", headline(report).replace("; ", ";\n"))
}

fn figures(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<28}{:>13}{:>13}{:>13}{:>10}", "", "now", "before", "change", "")?;
    for name in FigureName::ALL.into_iter().filter(|name| is_of_scope(report, *name)) {
        let figure = report.figure(name);
        let FigureChange { delta, percent } = change(name, &figure);
        let [value, previous] = [figure.value, figure.previous].map(|number| number_text(name, number));
        let line = format!("{:<28}{value:>13}{previous:>13}{delta:>13}{percent:>10}", name.label());
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn trend(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    let trend = report.shown_trend();
    let Some(greatest) = trend.iter().map(|counted| counted.messages).max() else { return Ok(()) };
    writeln!(out, "\n{:<29}{:>10}", trend_title(report), "messages")?;
    for counted in trend {
        let bar = bars::horizontal(counted.messages, greatest, 38);
        let line =
            format!("     {:<24}{:>10}  {bar}", counted.period.short_name(), grouped(counted.messages));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

struct TableRow {
    rank: usize,
    name: String,
    messages: u64,
    previous: u64,
    share: f64,
    cumulative_share: f64,
}

fn table(title: &str, rows: &[TableRow], out: &mut dyn Write) -> io::Result<()> {
    let Some(greatest) = rows.iter().map(|row| row.messages).max() else { return Ok(()) };
    let head = format!("\n{title:<29}{:>10}{:>10}{:>9}{:>9}", "messages", "before", "share", "added up");
    writeln!(out, "{head}")?;
    for row in rows.iter().take(ROWS) {
        let bar = bars::horizontal(row.messages, greatest, BAR);
        let (messages, previous) = (grouped(row.messages), grouped(row.previous));
        let name = padded(&row.name, NAME);
        writeln!(
            out,
            "{:>4} {name}{messages:>10}{previous:>10}{:>7.1} %{:>7.1} %  {bar}",
            row.rank,
            row.share * 100.0,
            row.cumulative_share * 100.0
        )?;
    }
    more(rows.len(), out)
}

fn more(length: usize, out: &mut dyn Write) -> io::Result<()> {
    if length > ROWS {
        writeln!(out, "     and {} more; --json has them all", grouped((length - ROWS) as u64))?;
    }
    Ok(())
}

/// Returns the width of a character. Counts two columns for all that may be wide.
fn columns(c: char) -> usize {
    if c >= '\u{1100}' { 2 } else { 1 }
}

/// Returns as much of a text as fits the width, and the columns that it takes.
fn fitted(text: &str, width: usize) -> (String, usize) {
    let excerpt = plain::excerpt(text, width - 1);
    let mut fitted = String::new();
    let mut taken = 0;
    for c in excerpt.chars() {
        if taken + columns(c) > width {
            break;
        }
        taken += columns(c);
        fitted.push(c);
    }
    (fitted, taken)
}

/// Returns a name in exactly this number of columns.
fn padded(name: &str, width: usize) -> String {
    let (fitted, taken) = fitted(name, width);
    fitted + &" ".repeat(width - taken)
}

fn times(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    let by_hour = report.by_hour();
    if by_hour.iter().all(|messages| *messages == 0) {
        return Ok(());
    }
    writeln!(out, "\nHours, by each author's own clock; the most are {}", most(&by_hour))?;
    for line in bars::vertical(&by_hour, 4, 2) {
        writeln!(out, "     {line}")?;
    }
    let hours: String = (0..24).map(|hour| format!("{hour:<3}")).collect();
    writeln!(out, "     {}\n", hours.trim_end())?;
    let by_weekday = report.by_weekday();
    let greatest = by_weekday.iter().copied().max().unwrap_or_default();
    for (weekday, messages) in WEEKDAYS.iter().zip(by_weekday) {
        writeln!(
            out,
            "     {weekday} {:>9}  {}",
            grouped(messages),
            bars::horizontal(messages, greatest, 50)
        )?;
    }
    writeln!(out, "\n{:<29}{:>10}{:>10}", "Time zones", "messages", "people")?;
    for row in report.timezones.iter().take(ROWS) {
        let name = padded(&row.zone, NAME);
        writeln!(out, "     {name}{:>10}{:>10}", grouped(row.messages), grouped(row.people))?;
    }
    more(report.timezones.len(), out)
}

fn most(counts: &[u64]) -> String {
    grouped(counts.iter().copied().max().unwrap_or_default())
}

fn emoji(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    if report.emoji.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nReactions")?;
    let greatest = report.emoji[0].1;
    for (name, count) in report.emoji.iter().take(ROWS) {
        let name = padded(&format!(":{name}:"), NAME);
        writeln!(out, "     {name}{:>10}  {}", grouped(*count), bars::horizontal(*count, greatest, 36))?;
    }
    more(report.emoji.len(), out)
}

fn messages(title: &str, messages: &[TopMessage], out: &mut dyn Write) -> io::Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for message in messages {
        let (whose, _) = fitted(&author_and_channel(message), COLUMNS - 8);
        writeln!(out, "{:>6}  {whose}", grouped(message.count))?;
        if let Some(excerpt) = &message.excerpt {
            writeln!(out, "        {}", fitted(excerpt, COLUMNS - 8).0)?;
        }
        writeln!(out, "        {}", message.permalink)?;
    }
    Ok(())
}

fn people(
    report: &FiguresReport,
    title: &str,
    counts: &CountByPerson,
    out: &mut dyn Write,
) -> io::Result<()> {
    let partners = FiguresReport::most_frequent(counts);
    if partners.is_empty() {
        return Ok(());
    }
    let greatest = partners[0].1;
    writeln!(out, "\n{title}")?;
    for (id, count) in partners {
        let name = padded(report.names.get(id).map_or(id, String::as_str), NAME);
        writeln!(out, "     {name}{:>10}  {}", grouped(count), bars::horizontal(count, greatest, 36))?;
    }
    Ok(())
}

fn notes(report: &FiguresReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{FIRST_TIME}")?;
    for note in report_notes(report) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}
