//! Figures in words, for people.

use std::cmp::Reverse;

use super::report::{Figure, FigureName, FiguresReport, Number, Scope, TopMessage};
use crate::numbers::{counted, grouped};
use crate::plain;

/// Maximum number of characters of a name in a line.
const NAME: usize = 24;

/// The abbreviated days of the week.
pub const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

const WEEKDAYS_IN_FULL: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What the figure of first-time posters counts.
pub const FIRST_TIME: &str = "Posted for the first time: people without an earlier message in the archive.";

/// Returns the title of a report.
pub fn title(report: &FiguresReport) -> String {
    let team = report.team_name.as_deref().unwrap_or(report.team.as_str());
    let name = report.scope_name.as_deref();
    match &report.scope {
        Scope::Team => plain::excerpt(team, 60),
        Scope::Channel(channel) => format!("#{}", plain::excerpt(name.unwrap_or(channel.as_str()), 60)),
        Scope::User(user) => plain::excerpt(name.unwrap_or(user.as_str()), 60),
    }
}

/// Returns the report in a sentence, such as `311 messages of 42 people in 9 channels, 12 % more than before; the
/// busiest day was Sunday.`
pub fn headline(report: &FiguresReport) -> String {
    let count = |name: FigureName| report.figure(name).value.map_or(0, |number| number.as_f64() as u64);
    let messages = count(FigureName::Messages);
    if messages == 0 {
        return match report.scope {
            Scope::Team | Scope::Channel(_) => "No person posted a message in this period.".to_owned(),
            Scope::User(_) => format!("{} wrote nothing in this period.", title(report)),
        };
    }
    let mut sentence = counted(messages, "message", "messages");
    if !matches!(report.scope, Scope::User(_)) {
        sentence += &format!(" of {}", counted(count(FigureName::Posters), "person", "people"));
    }
    if !matches!(report.scope, Scope::Channel(_)) {
        sentence += &format!(" in {}", counted(count(FigureName::ChannelsUsed), "channel", "channels"));
    }
    let percent = report.figure(FigureName::Messages).percent().map(f64::round);
    match percent {
        Some(percent) if percent > 0.0 => sentence += &format!(", {percent:.0} % more than before"),
        Some(percent) if percent < 0.0 => sentence += &format!(", {:.0} % less than before", -percent),
        Some(_) => sentence += ", as many as before",
        None => {}
    }
    let busiest =
        report.by_weekday().into_iter().enumerate().max_by_key(|(day, count)| (*count, Reverse(*day)));
    if let Some((day, _)) = busiest.filter(|(_, count)| *count > 0) {
        sentence += &format!("; the busiest day was {}", WEEKDAYS_IN_FULL[day]);
    }
    sentence + "."
}

/// How a figure changed, for people.
pub struct FigureChange {
    /// The difference, with its sign.
    pub delta: String,
    /// The difference in percent of the previous value.
    pub percent: String,
}

/// Returns how a figure changed.
pub fn change(name: FigureName, figure: &Figure) -> FigureChange {
    if name == FigureName::TopTenShare {
        return FigureChange { delta: points(figure).unwrap_or_default(), percent: String::new() };
    }
    let delta = figure.delta().map(|delta| {
        let sign = if delta.as_f64() < 0.0 { "-" } else { "+" };
        let size = match delta {
            Number::Count(count) => Number::Count(count),
            Number::Real(real) => Number::Real(real.abs()),
        };
        if delta.as_f64() == 0.0 {
            "0".to_owned()
        } else {
            format!("{sign}{}", number_text(name, Some(size)))
        }
    });
    let percent = figure.percent().filter(|percent| *percent != 0.0);
    FigureChange {
        delta: delta.unwrap_or_default(),
        percent: percent.map_or_else(String::new, |percent| format!("{percent:+.1} %")),
    }
}

/// How a share changed, in percentage points: the difference of the numbers that are shown.
fn points(figure: &Figure) -> Option<String> {
    let shown = |number: Number| (number.as_f64() * 1_000.0).round() as i64;
    match shown(figure.value?) - shown(figure.previous?) {
        0 => Some("0".to_owned()),
        tenths => Some(format!("{:+.1} points", tenths as f64 / 10.0)),
    }
}

/// Returns a figure's number as text; a dash if it is unknown.
pub fn number_text(name: FigureName, number: Option<Number>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if name == FigureName::TopTenShare => format!("{:.1} %", number.as_f64() * 100.0),
        Some(Number::Count(count)) => grouped(count),
        Some(Number::Real(real)) if real.fract() == 0.0 => grouped(real as u64),
        Some(Number::Real(real)) => format!("{}.{}", grouped(real as u64), (real.fract() * 10.0) as u64),
    }
}

/// Returns the author and channel of a message, such as `ana in #general`.
pub fn author_and_channel(message: &TopMessage) -> String {
    let author = message.user_name.as_deref().or(message.user.as_deref()).unwrap_or("unknown");
    let channel = match &message.channel_name {
        Some(name) => format!("#{}", plain::excerpt(name, NAME)),
        None => message.channel.to_string(),
    };
    format!("{} in {channel}", plain::excerpt(author, NAME))
}

/// Returns the title of a trend, such as `The last 12 weeks`.
pub fn trend_title(report: &FiguresReport) -> String {
    let periods = if report.period.week_name().is_some() {
        "weeks"
    } else if report.period.month_name().is_some() {
        "months"
    } else {
        "periods of this length"
    };
    format!("The last {} {periods}", report.shown_trend().len())
}

/// Whether the figure says something about the report's subject: the size of the workspace says nothing about a person or
/// a channel.
pub fn is_of_scope(report: &FiguresReport, name: FigureName) -> bool {
    match name {
        FigureName::AllUsers | FigureName::ActiveUsers => report.scope == Scope::Team,
        FigureName::Posters
        | FigureName::MedianMessages
        | FigureName::MedianWords
        | FigureName::TopTenShare
        | FigureName::HalfOfWords => !matches!(report.scope, Scope::User(_)),
        FigureName::Messages
        | FigureName::Words
        | FigureName::FirstTimePosters
        | FigureName::ChannelsUsed
        | FigureName::Reactions
        | FigureName::Replies
        | FigureName::Threads
        | FigureName::BotMessages => true,
    }
}

/// Returns the notes on a report's limitations.
pub fn report_notes(report: &FiguresReport) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.is_over {
        notes.push("This period is not over yet.".to_owned());
    }
    if report.figure(FigureName::FirstTimePosters).value.is_none() {
        notes.push(
            "First-time posters are unknown: the archive has too many earlier messages to check.".to_owned(),
        );
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
    if let (Some(first), Some(last)) = (report.expired_days.first(), report.expired_days.last()) {
        notes.push(format!(
            "The retention rule has removed messages of {first} to {last}: they are not counted."
        ));
    }
    notes
}
