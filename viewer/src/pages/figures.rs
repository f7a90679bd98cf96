//! Renders a report, as part of the site or as a self-contained page without scripts, fonts and pictures.

use maud::{DOCTYPE, Markup, html};
use reader::figures::report::{FigureName, FiguresReport, Number, Scope, TopMessage};
use reader::figures::wording::{
    FIRST_TIME, WEEKDAYS, author_and_channel, change, headline, is_of_scope, number_text, report_notes,
    title, trend_title,
};
use reader::joined::ChannelOfTeam;
use reader::numbers::grouped;
use reader::plain;
use rules::figures::partners::CountByPerson;

use super::{plots, with_code};
use crate::emoji;
use crate::links::{LinkScheme, SitePage};

/// Maximum number of rows per table, and of characters per name.
const MAX_ROWS: usize = 15;
const MAX_NAME_CHARS: usize = 60;

/// The policy of a self-contained page: nothing is loaded, and nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = concat!(
    include_str!("../../assets/tokens.css"),
    include_str!("../../assets/report.css"),
    include_str!("../../assets/figures.css")
);

/// Renders a self-contained page. Its messages link to Slack.
pub fn standalone_report(report: &FiguresReport) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title(report)) ", " (report.period.in_words()) }
                style { (STYLE) }
            }
            body { main { (report_figures(report, None)) } }
        }
    }
}

/// Renders the figures of a report. Messages link to the site of `links`, or otherwise to Slack.
pub fn report_figures(report: &FiguresReport, links: Option<&dyn LinkScheme>) -> Markup {
    let people: Vec<RankedRow> = report
        .users
        .iter()
        .map(|row| {
            let name = row.name.as_deref().unwrap_or(&row.user);
            let address =
                links.filter(|_| row.name.is_some()).and_then(|links| links.person(&report.team, &row.user));
            RankedRow::new(row.rank, name, [row.messages, row.previous], [row.share, row.cumulative_share])
                .linked(address)
        })
        .collect();
    html! {
        h1 { (title(report)) }
        p {
            (report.period.in_words())
            span class="quiet" { ", compared with " (report.period.previous().in_words()) }
        }
        p class="headline" { (headline(report)) }
        @let coverage = links.and_then(|links| links.site_page(SitePage::Coverage));
        @for note in report_notes(report) { p class="note" { (with_code(&note, coverage.as_deref())) } }
        (figures(report))
        (trend(report))
        @if report.figure(FigureName::Messages).value.map(Number::as_f64) != Some(0.0) { (times(report)) }
        @if !matches!(report.scope, Scope::Channel(_)) { (channels(report, links)) }
        (table("People", &people))
        div class="sides" {
            (counts("Reactions", report.emoji.iter().map(|(name, count)| (reaction(name), *count))))
            (counts("Time zones", report.timezones.iter().map(|row| (row.zone.clone(), row.messages))))
        }
        (messages("Most reactions", &report.most_reacted, links))
        (messages("Most replies", &report.most_replied, links))
        (partners(report))
        footer {
            p { "Counted by Annalist from the messages of its archive. Weekdays and hours are in each author's time zone, "
                "dates are in UTC. " (FIRST_TIME) }
        }
    }
}

/// Returns an emoji with its name, or only the name, because a self-contained page has no pictures.
fn reaction(name: &str) -> String {
    let (plain_name, tones) = emoji::split_skin_tones(name);
    let characters = emoji::unicode(plain_name, &tones);
    characters.map_or_else(|| format!(":{name}:"), |characters| format!("{characters} :{name}:"))
}

fn figures(report: &FiguresReport) -> Markup {
    html! {
        dl class="figures" {
            @for name in FigureName::ALL.into_iter().filter(|name| is_of_scope(report, *name)) {
                @let figure = report.figure(name);
                @let change = change(name, &figure);
                div class="figure" {
                    dt { (name.label()) }
                    dd class="value" { (number_text(name, figure.value)) }
                    dd class="change" {
                        @if figure.previous.is_some() {
                            @if figure.value == figure.previous { "no change" } @else {
                                (change.delta)
                                @if !change.percent.is_empty() { " (" (change.percent) ")" }
                                " from " (number_text(name, figure.previous))
                            }
                        } @else if figure.value.is_none() {
                            "unknown"
                        } @else if matches!(name, FigureName::AllUsers | FigureName::ActiveUsers) {
                            "as of now"
                        } @else {
                            "nothing before"
                        }
                    }
                }
            }
        }
    }
}

/// Renders a column for the messages of each period up to this one.
fn trend(report: &FiguresReport) -> Markup {
    let trend = report.shown_trend();
    let columns: Vec<(String, u64)> =
        trend.iter().map(|counted| (counted.period.label(), counted.messages)).collect();
    let in_words =
        trend.iter().map(|counted| format!("{}: {}", counted.period.short_name(), grouped(counted.messages)));
    let description = format!("Messages, {}", in_words.collect::<Vec<_>>().join("; "));
    html! {
        @if !trend.is_empty() {
            h2 { (trend_title(report)) }
            (plots::trend(&description, &columns))
        }
    }
}

fn times(report: &FiguresReport) -> Markup {
    let hours: Vec<String> = (0..24).map(|hour| hour.to_string()).collect();
    let weekdays: Vec<String> = WEEKDAYS.iter().map(|weekday| (*weekday).to_owned()).collect();
    html! {
        h2 { "When people write" }
        (plots::week(&report.hours, &WEEKDAYS))
        div class="sides" {
            div { h3 { "By hour" } (plots::columns("Messages by hour", &report.by_hour(), &hours)) }
            div { h3 { "By weekday" } (plots::columns("Messages by weekday", &report.by_weekday(), &weekdays)) }
        }
    }
}

fn channels(report: &FiguresReport, links: Option<&dyn LinkScheme>) -> Markup {
    let name = |name: Option<&str>, id: &str| name.map_or_else(|| id.to_owned(), |name| format!("#{name}"));
    let rows = report.channels.iter().map(|row| {
        let name = name(row.name.as_deref(), row.channel.as_str());
        let location = ChannelOfTeam { team: report.team.clone(), channel: row.channel.clone() };
        let address = links.map(|links| links.channel(&location));
        RankedRow::new(row.rank, &name, [row.messages, row.previous], [row.share, row.cumulative_share])
            .linked(address)
    });
    table("Channels", &rows.collect::<Vec<_>>())
}

/// A row of a table of channels or people.
struct RankedRow {
    rank: usize,
    name: String,
    messages: u64,
    previous: u64,
    share: f64,
    cumulative_share: f64,
    /// The page of the channel or person, if the site has one.
    address: Option<String>,
}

impl RankedRow {
    /// Creates a row from its messages and previous messages, and its share and cumulative share.
    fn new(
        rank: usize,
        name: &str,
        [messages, previous]: [u64; 2],
        [share, cumulative_share]: [f64; 2],
    ) -> Self {
        let name = plain::excerpt(name, MAX_NAME_CHARS);
        Self { rank, name, messages, previous, share, cumulative_share, address: None }
    }

    fn linked(self, address: Option<String>) -> Self {
        Self { address, ..self }
    }
}

fn table(title: &str, rows: &[RankedRow]) -> Markup {
    let greatest = rows.iter().map(|row| row.messages).max().unwrap_or_default();
    html! {
        @if !rows.is_empty() {
            h2 { (title) }
            table {
                thead { tr {
                    td {} td {} th scope="col" class="number" { "messages" } th scope="col" class="number" { "before" }
                    th scope="col" class="number" { "share" } th scope="col" class="number cumulative" { "added up" } td {}
                } }
                tbody {
                    @for row in rows.iter().take(MAX_ROWS) {
                        tr {
                            td class="number quiet" { (row.rank) }
                            td class="name" { @match &row.address { Some(address) => a href=(address) { (row.name) }, None => (row.name) } }
                            td class="number" { (grouped(row.messages)) }
                            td class="number quiet" { (grouped(row.previous)) }
                            td class="number" { (format!("{:.1} %", row.share * 100.0)) }
                            td class="number quiet cumulative" { (format!("{:.1} %", row.cumulative_share * 100.0)) }
                            td class="bar" { (plots::bar(row.messages, greatest)) }
                        }
                    }
                }
            }
            (more(rows.len()))
        }
    }
}

fn more(length: usize) -> Markup {
    html! { @if length > MAX_ROWS { p class="quiet" { "and " (grouped((length - MAX_ROWS) as u64)) " more" } } }
}

/// Renders names with a number and a bar.
fn counts(title: &str, rows: impl Iterator<Item = (String, u64)>) -> Markup {
    let rows: Vec<(String, u64)> = rows.collect();
    let greatest = rows.iter().map(|(_, count)| *count).max().unwrap_or_default();
    html! {
        @if !rows.is_empty() {
            div {
                h2 { (title) }
                table { tbody {
                    @for (name, count) in rows.iter().take(MAX_ROWS) {
                        tr {
                            td class="name" { (plain::excerpt(name, MAX_NAME_CHARS)) }
                            td class="number" { (grouped(*count)) }
                            td class="bar" { (plots::bar(*count, greatest)) }
                        }
                    }
                } }
                (more(rows.len()))
            }
        }
    }
}

fn messages(title: &str, messages: &[TopMessage], links: Option<&dyn LinkScheme>) -> Markup {
    let address = |message: &TopMessage| {
        let here = links.and_then(|links| links.permalink(&message.channel, &message.ts));
        here.unwrap_or_else(|| message.permalink.clone())
    };
    html! {
        @if !messages.is_empty() {
            h2 { (title) }
            ol class="messages" {
                @for message in messages {
                    li {
                        b { (grouped(message.count)) }
                        span {
                            a href=(address(message)) { (author_and_channel(message)) }
                            @if let Some(excerpt) = &message.excerpt { " " bdi class="quiet" { (excerpt) } }
                        }
                    }
                }
            }
        }
    }
}

fn partners(report: &FiguresReport) -> Markup {
    let named = |counts: &CountByPerson| {
        let each = FiguresReport::most_frequent(counts).into_iter();
        let name = |id: &str| report.names.get(id).cloned().unwrap_or_else(|| id.to_owned());
        each.map(|(id, count)| (name(id), count)).collect::<Vec<_>>()
    };
    html! {
        @if let Some(partners) = &report.partners {
            div class="sides" {
                (counts("Mentions", named(&partners.mentions.given).into_iter()))
                (counts("Mentioned by", named(&partners.mentions.received).into_iter()))
                (counts("Reacts to", named(&partners.reactions.given).into_iter()))
                (counts("Reactions from", named(&partners.reactions.received).into_iter()))
                (counts("Replies to", named(&partners.replies.given).into_iter()))
                (counts("Replies from", named(&partners.replies.received).into_iter()))
            }
        }
    }
}
