//! Renders the days on which a channel has messages.

use jiff::ToSpan;
use jiff::civil::Date;
use maud::{Markup, html};

use super::PageContext;
use super::timeline::FIRST_TS;
use crate::links::AboutChannel;
use crate::times;
use slack::ids::Ts;

/// A month of a channel.
#[derive(Debug)]
pub struct ChannelCalendar {
    /// The first day.
    pub first: Date,
    /// Whether there are messages, for each day of the month.
    pub days: Vec<bool>,
    /// Whether there are messages before and after the month.
    pub has_earlier: bool,
    pub has_later: bool,
}

/// Renders the month, for the pane next to the channel; `None` for a channel without messages.
pub fn calendar_pane(calendar: Option<&ChannelCalendar>, shown: &PageContext<'_>) -> Markup {
    let channel = shown.links.channel(shown.location);
    let first = Ts::parse(FIRST_TS).ok().and_then(|first| shown.links.after(shown.location, &first));
    html! {
        header class="thread-head" {
            h2 { "Calendar" }
            a class="close" href=(channel) { "Close" span class="unseen" { " the calendar" } }
        }
        div class="timeline" tabindex="0" role="region" aria-label="Calendar" {
            div class="timeline-inner" {
                @match calendar {
                    Some(calendar) => (month(calendar, &channel, shown)),
                    None => p class="quiet" { "There are no messages here." },
                }
                form class="day-form" action=(channel) method="get" {
                    label for="day" { "Day" }
                    input id="day" name="day" type="date" required value=[calendar.map(|calendar| calendar.first.to_string())];
                    button type="submit" { "Go" }
                }
                p class="ways" { @if let Some(first) = first { a href=(first) { "First message" } } a href=(channel) { "Newest messages" } }
            }
        }
    }
}

fn month(calendar: &ChannelCalendar, channel: &str, shown: &PageContext<'_>) -> Markup {
    let ChannelCalendar { first, days, has_earlier, has_later } = calendar;
    let other = |months: i32| {
        let month = first.checked_add(months.months()).ok()?.strftime("%Y-%m").to_string();
        Some(format!("{}?month={month}", shown.links.about_channel(shown.location, AboutChannel::Calendar)?))
    };
    let offset = usize::try_from(first.weekday().to_monday_zero_offset()).unwrap_or_default();
    // The days of the first week that belong to the month before.
    let cells: Vec<Option<(Date, bool)>> = std::iter::repeat_n(None, offset)
        .chain(
            days.iter()
                .zip(0..)
                .map(|(is_used, day)| Some((first.checked_add(i32::days(day)).ok()?, *is_used))),
        )
        .collect();
    html! {
        table class="calendar" {
            caption { (first.strftime("%B %Y").to_string()) }
            thead { tr { @for day in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] { th scope="col" { (day) } } } }
            tbody {
                @for week in cells.chunks(7) {
                    tr {
                        @for cell in week {
                            td {
                                @match cell {
                                    Some((day, true)) => a href={ (channel) "?day=" (day) } aria-label=(times::day_in_words(*day)) { (day.day()) },
                                    Some((day, false)) => span class="quiet" { (day.day()) },
                                    None => {}
                                }
                            }
                        }
                    }
                }
            }
        }
        p class="ways" {
            @if let Some(address) = other(-1).filter(|_| *has_earlier) { a rel="prev" href=(address) { "Month before" } }
            @if let Some(address) = other(1).filter(|_| *has_later) { a rel="next" href=(address) { "Month after" } }
        }
    }
}
