//! The coverage of each channel, and its holes.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::coverage::{ChannelCoverage, hole_in_words};
use reader::files::MissingFiles;
use reader::joined::ChannelOfTeam;
use reader::plain;
use reader::proof::last_day;
use rules::gap::closing::GapState;
use rules::gap::coverage::{CoverageSource, CoveredSpan, Hole, HoleReason};
use rules::version::zero;
use slack::ids::{TeamId, Ts};

use super::{MAX_NAME_CHARS, scrolling};
use crate::links::LinkScheme;
use crate::times;

/// Maximum number of holes that are shown per channel, the newest ones.
const MAX_HOLES: usize = 50;

/// The coverage of a channel.
#[derive(Debug)]
pub struct CoveredRow {
    pub location: ChannelOfTeam,
    /// The channel's name.
    pub name: Option<String>,
    pub coverage: ChannelCoverage,
}

/// Renders the coverage of every channel, and what is missing of files.
pub fn coverage_page(
    rows: &[CoveredRow],
    files: MissingFiles,
    waiting: &[(TeamId, Ts)],
    zone: &TimeZone,
    links: &dyn LinkScheme,
) -> Markup {
    html! {
        h1 { "Coverage" }
        p class="quiet" { "The intervals of each channel that the archive covers, their sources, and intervals in which messages may be missing." }
        @for (team, since) in waiting {
            p class="note" {
                "Events of " (team) " have waited since " (times::short(since, zone)) ": "
                code { "annalist status" } " says for what. They are stored once that has ended."
            }
        }
        @if files.failed > 0 {
            p class="note" {
                (reader::numbers::counted(files.failed, "file", "files")) @if files.is_partial { " or more" }
                " could not be fetched: " code { "annalist files retry" } " asks Slack again."
            }
        }
        @if rows.is_empty() { p { "No channel is kept yet." } }
        @for row in rows {
            @let is_alone = rows.iter().filter(|other| other.name == row.name).count() == 1;
            (channel(row, is_alone, zone, links))
        }
    }
}

/// Renders the coverage of a channel; with its id, unless it is alone with its name.
fn channel(row: &CoveredRow, is_alone: bool, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let ChannelCoverage { held, holes, last_message, limited_before, verified, expired_before } =
        &row.coverage;
    let mut times: Vec<(&Ts, Option<&Ts>, Markup)> =
        held.iter().map(|span| (&span.from, Some(&span.to), held_row(span, zone))).collect();
    let shown = holes.iter().skip(holes.len().saturating_sub(MAX_HOLES));
    times.extend(shown.map(|hole| (&hole.from, hole.to.as_ref(), missing(hole, zone))));
    times.sort_by_key(|(from, to, _)| (*from, *to));
    let id = row.location.channel.as_str();
    let name = plain::excerpt(row.name.as_deref().unwrap_or(id), MAX_NAME_CHARS);
    let name = if is_alone { name } else { format!("{name} ({id})") };
    html! {
        section class="covered" data-channel=(row.location.channel) {
            h2 { a href=(links.channel(&row.location)) { bdi { "#" (name) } } }
            @if let Some(last) = last_message { p class="quiet" { "Newest message: " (times::short(last, zone)) "." } }
            @if let Some(limit) = limited_before { p class="note" { "Slack's plan shows nothing before " (times::short(limit, zone)) "." } }
            @if let Some(verified) = verified { p class="quiet" { "Complete up to " (last_day(&verified.through)) ", compared with Slack." } }
            @if let Some(until) = expired_before { p class="note" { "What is older than " (times::short(until, zone)) " was removed by the retention rule." } }
            @if held.is_empty() && holes.is_empty() {
                p { "Nothing is known of it yet." }
            } @else {
                (scrolling(&format!("Times of #{name}"), &html! {
                    table class="wide" {
                        thead { tr { th scope="col" { "from" } th scope="col" { "to" } th scope="col" { "state" } th scope="col" { "how, or why" } } }
                        tbody {
                            @for (_, _, row) in times { (row) }
                        }
                    }
                }))
                @if holes.len() > MAX_HOLES { p class="quiet" { "and " (holes.len() - MAX_HOLES) " older holes" } }
            }
        }
    }
}

fn held_row(CoveredSpan { from, to, source: held_by }: &CoveredSpan, zone: &TimeZone) -> Markup {
    html! { tr { td { (moment(from, zone)) } td { (moment(to, zone)) } td { "held" } td { (how(*held_by)) } } }
}

fn missing(Hole { from, to, reason, state }: &Hole, zone: &TimeZone) -> Markup {
    // What was said before the app joined was never asked for.
    let is_lost = matches!(state, GapState::Open | GapState::Missing)
        && (*reason != HoleReason::BeforeJoining || to.is_none());
    let why = hole_in_words(*reason, to.is_none());
    html! {
        tr class=[is_lost.then_some("missing")] {
            td { (moment(from, zone)) }
            td { @match to { Some(to) => (moment(to, zone)), None => "still going on" } }
            td { (state.as_str()) }
            td { (why.split_once(": ").map_or(why, |(_, why)| why)) }
        }
    }
}

fn moment(ts: &Ts, zone: &TimeZone) -> String {
    if *ts == zero() { "the beginning".to_owned() } else { times::short(ts, zone) }
}

fn how(held_by: CoverageSource) -> String {
    held_by.as_str().replace('_', " ")
}
