//! A report for a terminal of 80 columns.

use std::io::{self, Write};

use reader::figures::report::{Figure, FigureName, Number, Report, Scope, TopMessage};
use rules::figures::partners::CountByPerson;

use super::bars;
use crate::plain::{self, grouped};

/// Columns for names in tables, and lines of a table.
const NAME: usize = 24;
const ROWS: usize = 10;

/// Columns for bars.
const BAR: usize = 20;

pub(super) const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Prints a report.
pub(super) fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", heading(report))?;
    figures(report, out)?;
    if report.figure(FigureName::Messages).value.map(Number::real) == Some(0.0) {
        writeln!(out, "\nNo message of a person is of this period.")?;
    }
    if !matches!(report.scope, Scope::Channel(_)) {
        let rows = report.channels.iter().map(|row| TableRow {
            rank: row.rank,
            name: row.name.as_ref().map_or_else(|| row.channel.to_string(), |name| format!("#{name}")),
            messages: row.messages,
            previous: row.previous,
            share: row.share,
        });
        table("Channels", &rows.collect::<Vec<_>>(), out)?;
    }
    let rows = report.users.iter().map(|row| TableRow {
        rank: row.rank,
        name: row.name.clone().unwrap_or_else(|| row.user.clone()),
        messages: row.messages,
        previous: row.previous,
        share: row.share,
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

/// What a report is about and of when, in a line or two.
pub(super) fn title(report: &Report) -> String {
    let team = report.team_name.as_deref().unwrap_or(report.team.as_str());
    let name = report.scope_name.as_deref();
    match &report.scope {
        Scope::Team => plain::excerpt(team, 60),
        Scope::Channel(channel) => format!("#{}", plain::excerpt(name.unwrap_or(channel.as_str()), 60)),
        Scope::User(user) => plain::excerpt(name.unwrap_or(user.as_str()), 60),
    }
}

fn heading(report: &Report) -> String {
    let ([from, to], [before, before_to]) = (report.period.bounds(), report.period.previous().bounds());
    format!("{}\n{from} to {to}, beside {before} to {before_to}\n", title(report))
}

fn figures(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<28}{:>13}{:>13}{:>13}{:>10}", "", "now", "before", "change", "")?;
    for name in FigureName::ALL {
        let figure = report.figure(name);
        let Change { delta, percent } = change(name, &figure);
        let [value, previous] = [figure.value, figure.previous].map(|number| shown(name, number));
        let line = format!("{:<28}{value:>13}{previous:>13}{delta:>13}{percent:>10}", name.label());
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// How a figure changed, for people.
pub(super) struct Change {
    pub(super) delta: String,
    pub(super) percent: String,
}

pub(super) fn change(name: FigureName, figure: &Figure) -> Change {
    let delta = figure.delta().map(|delta| {
        let sign = if delta.real() < 0.0 { "-" } else { "+" };
        let size = match delta {
            Number::Count(count) => Number::Count(count),
            Number::Real(real) => Number::Real(real.abs()),
        };
        if delta.real() == 0.0 { "0".to_owned() } else { format!("{sign}{}", shown(name, Some(size))) }
    });
    // Of a share the difference says it: percent of percent would be read as that.
    let percent = figure.percent().filter(|percent| *percent != 0.0 && name != FigureName::TopTenShare);
    Change {
        delta: delta.unwrap_or_default(),
        percent: percent.map_or_else(String::new, |percent| format!("{percent:+.1} %")),
    }
}

/// A figure's number; a dash where it is unknown.
pub(super) fn shown(name: FigureName, number: Option<Number>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if name == FigureName::TopTenShare => format!("{:.1} %", number.real() * 100.0),
        Some(Number::Count(count)) => grouped(count),
        Some(Number::Real(real)) if real.fract() == 0.0 => grouped(real as u64),
        Some(Number::Real(real)) => format!("{}.{}", grouped(real as u64), (real.fract() * 10.0) as u64),
    }
}

struct TableRow {
    rank: usize,
    name: String,
    messages: u64,
    previous: u64,
    share: f64,
}

fn table(title: &str, rows: &[TableRow], out: &mut dyn Write) -> io::Result<()> {
    let Some(greatest) = rows.iter().map(|row| row.messages).max() else { return Ok(()) };
    let head = format!("\n{title:<29}{:>10}{:>10}{:>9}", "messages", "before", "share");
    writeln!(out, "{head}")?;
    for row in rows.iter().take(ROWS) {
        let bar = bars::horizontal(row.messages, greatest, BAR - 1);
        let (messages, previous) = (grouped(row.messages), grouped(row.previous));
        let name = padded(&row.name, NAME);
        writeln!(
            out,
            "{:>4} {name}{messages:>10}{previous:>10}{:>7.1} %  {bar}",
            row.rank,
            row.share * 100.0
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

/// What takes two cells on a terminal, or may.
fn columns(c: char) -> usize {
    if c >= '\u{1100}' { 2 } else { 1 }
}

/// A name in exactly this number of columns.
fn padded(name: &str, width: usize) -> String {
    let name = plain::excerpt(name, width - 1);
    let mut padded = String::new();
    let mut taken = 0;
    for c in name.chars() {
        if taken + columns(c) > width {
            break;
        }
        taken += columns(c);
        padded.push(c);
    }
    padded + &" ".repeat(width - taken)
}

fn times(report: &Report, out: &mut dyn Write) -> io::Result<()> {
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

fn emoji(report: &Report, out: &mut dyn Write) -> io::Result<()> {
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
        writeln!(out, "{:>6}  {}\n        {}", grouped(message.count), whose(message), message.permalink)?;
    }
    Ok(())
}

/// `ana in #general`
pub(super) fn whose(message: &TopMessage) -> String {
    let author = message.user_name.as_deref().or(message.user.as_deref()).unwrap_or("unknown");
    let channel = match &message.channel_name {
        Some(name) => format!("#{}", plain::excerpt(name, NAME)),
        None => message.channel.to_string(),
    };
    format!("{} in {channel}", plain::excerpt(author, NAME))
}

fn people(report: &Report, title: &str, counts: &CountByPerson, out: &mut dyn Write) -> io::Result<()> {
    let partners = Report::most_frequent(counts);
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

fn notes(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let notes = notes_of(report);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// What a reader of the figures has to know.
pub(super) fn notes_of(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.is_over {
        notes.push("This period is not over yet.".to_owned());
    }
    if report.figure(FigureName::FirstTimePosters).value.is_none() {
        notes.push("Who posted for the first time is unknown: more lies before than is read.".to_owned());
    }
    let days = &report.incomplete_days;
    if let [first, .., last] = days.as_slice() {
        notes.push(format!(
            "Messages may be missing on {} days between {first} and {last}:\n`annalist coverage` says where.",
            days.len()
        ));
    } else if let [day] = days.as_slice() {
        notes.push(format!("Messages may be missing on {day}: `annalist coverage` says where."));
    }
    notes
}
