//! `annalist coverage`: prints the stored spans of each channel, their source, and the holes.

use std::collections::HashSet;
use std::io::{self, Write};
use std::num::NonZeroUsize;

use ports::archive::Archive;
use reader::channels::is_deleted;
use reader::coverage::{ChannelCoverage, TeamCoverage, hole_in_words};
use reader::directory;
use reader::find;
use reader::joined::ChannelOfTeam;
use reader::proof::last_day;
use rules::channel::index::bare_name;
use rules::gap::closing::GapState;
use rules::gap::coverage::{CoverageSource, CoveredSpan, Hole, HoleReason};
use rules::history::proof::ProvenSpan;
use rules::interval::{Cover, Interval};
use rules::version::zero;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};

use super::gaps::format_length;
use super::{ReadArgs, ReadError};
use crate::plain;
use crate::zone::Zone;

/// Maximum length of a channel's name in a row.
const NAME: usize = 24;

/// `annalist coverage`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CoverageArgs {
    /// Only this channel, with each of its times: its name or id, such as '#general' or C0123ABCD
    #[arg(value_name = "CHANNEL", value_parser = super::target::channel)]
    pub(crate) channel: Option<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// A channel with its coverage.
struct CoveredChannel<'a> {
    team: &'a TeamId,
    channel: &'a ChannelId,
    name: Option<&'a str>,
    /// Whether its name is listed for another id too, such as an earlier id of the same channel.
    is_ambiguous: bool,
    coverage: ChannelCoverage,
}

/// Prints a row for every channel, or the spans and holes of one.
pub(crate) async fn coverage(
    archive: &dyn Archive,
    args: &CoverageArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let read = &args.read;
    let requested = match &args.channel {
        Some(name) => {
            let channel = find::find_channel(archive, name, read.team.as_ref()).await?;
            Some(channel.locations().to_vec())
        }
        None => None,
    };
    let teams = match &requested {
        Some(locations) => {
            let mut teams: Vec<TeamId> = locations.iter().map(|location| location.team.clone()).collect();
            teams.sort();
            teams.dedup();
            teams
        }
        None => find::requested_teams(archive, read.team.as_ref()).await?,
    };
    let mut printer = CoveragePrinter {
        json: read.json,
        is_detailed: requested.is_some(),
        with_team: teams.len() > 1,
        zone: Zone::from_args(&read.zone),
        printed: 0,
        has_missing: false,
    };
    let limit = read.limit.map_or(usize::MAX, NonZeroUsize::get);
    for team in &teams {
        let known = TeamCoverage::read(archive, team).await?;
        let names = directory::read(archive, team).await?;
        let mut seen = HashSet::new();
        let ambiguous: HashSet<&str> =
            names.iter().filter_map(|(_, name)| (!seen.insert(name)).then_some(name)).collect();
        for channel in channels(&known, requested.as_deref()) {
            if printer.printed == limit {
                break;
            }
            let coverage = known.channel_coverage(channel).await?;
            let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
            let listed = names.name(channel);
            let is_deleted = is_deleted(archive, &location, listed).await?;
            let name = listed.map(|name| bare_name(name, is_deleted));
            let is_ambiguous = listed.is_some_and(|name| ambiguous.contains(name));
            printer.print(&CoveredChannel { team, channel, name, is_ambiguous, coverage }, out)?;
        }
    }
    Ok(printer.finish(out)?)
}

/// Returns the requested channels of a workspace, or all of them.
fn channels<'a>(known: &'a TeamCoverage<'_>, requested: Option<&'a [ChannelOfTeam]>) -> Vec<&'a ChannelId> {
    match requested {
        Some(locations) => locations
            .iter()
            .filter(|location| location.team == *known.team())
            .map(|location| &location.channel)
            .collect(),
        None => known.channels().into_iter().collect(),
    }
}

struct CoveragePrinter {
    json: bool,
    is_detailed: bool,
    with_team: bool,
    zone: Zone,
    printed: usize,
    has_missing: bool,
}

impl CoveragePrinter {
    fn print(&mut self, channel: &CoveredChannel<'_>, out: &mut dyn Write) -> io::Result<()> {
        if self.json {
            plain::json_line(out, &as_json(channel))?;
        } else {
            if self.printed == 0 {
                writeln!(out, "Times are in {}.", self.zone.name())?;
            }
            if self.is_detailed {
                self.times(channel, out)?;
            } else {
                self.row(channel, out)?;
            }
        }
        self.printed += 1;
        self.has_missing |= channel.coverage.holes.iter().any(|hole| hole.state == GapState::Missing);
        Ok(())
    }

    fn finish(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.printed == 0 {
            return writeln!(out, "No channel is kept yet: `annalist doctor` says what is missing.");
        }
        if !self.is_detailed {
            writeln!(out, "\n`annalist coverage CHANNEL` lists the times of one channel.")?;
        }
        if self.has_missing {
            writeln!(out, "`annalist backfill` reads what is missing from Slack's history.")?;
        }
        Ok(())
    }

    /// Returns `#general`, or `C0123ABCD` if the name is unknown.
    fn channel_label(&self, channel: &CoveredChannel<'_>) -> String {
        let mut label = plain::channel_label(channel.name, channel.channel, NAME);
        if channel.is_ambiguous && !self.is_detailed {
            label.push_str(&format!(" ({})", channel.channel));
        }
        if self.with_team { format!("{} {label}", channel.team) } else { label }
    }

    fn time(&self, ts: &Ts) -> String {
        if *ts == zero() { "the beginning".to_owned() } else { self.zone.time(ts.as_str()) }
    }

    /// Prints the row of a channel.
    fn row(&self, channel: &CoveredChannel<'_>, out: &mut dyn Write) -> io::Result<()> {
        if self.printed == 0 {
            writeln!(out, "{:<26} {:<20} {:<20} {:<21} missing", "channel", "held from", "to", "source")?;
        }
        let ChannelCoverage { held, holes, .. } = &channel.coverage;
        let from = held.iter().map(|span| &span.from).min().map_or("-".to_owned(), |from| self.time(from));
        let to = held.iter().map(|span| &span.to).max().map_or("-".to_owned(), |to| self.time(to));
        let mut sources: Vec<CoverageSource> = held.iter().map(|span| span.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let sources: Vec<&str> = sources.into_iter().map(CoverageSource::as_str).collect();
        let sources = if sources.is_empty() { "-".to_owned() } else { sources.join(", ") };
        let missing = self.missing(holes);
        writeln!(out, "{:<26} {from:<20} {to:<20} {sources:<21} {missing}", self.channel_label(channel))
    }

    /// Summarizes the holes of a channel.
    fn missing(&self, holes: &[Hole]) -> String {
        let before =
            holes.iter().filter(|hole| is_before(hole.reason)).max_by(|one, other| one.from.cmp(&other.from));
        let mut missing = Vec::new();
        match before.map(|hole| &hole.to) {
            Some(Some(to)) => missing.push(format!("before {}", self.time(to))),
            Some(None) => missing.push("the app is not in it".to_owned()),
            None => {}
        }
        let mut reasons: Vec<&str> = Vec::new();
        let mut between = Vec::new();
        let mut is_open = false;
        for hole in holes.iter().filter(|hole| !is_before(hole.reason)) {
            if !reasons.contains(&hole.reason.as_str()) {
                reasons.push(hole.reason.as_str());
            }
            is_open |= hole.to.is_none();
            let to = hole.to.as_ref().unwrap_or(&hole.from).micros();
            between.push(Interval { from: hole.from.micros(), to: to.max(hole.from.micros() + 1) });
        }
        if !between.is_empty() {
            let times = plain::counted(between.len(), "time", "times");
            let cover = Cover::from_intervals(between);
            let micros = cover.intervals().iter().map(|interval| interval.to - interval.from).sum();
            let whole = Interval { from: 0, to: micros };
            let total_length = format_length(&whole.from_ts(), &whole.to_ts());
            let open_suffix = if is_open { " and going on" } else { "" };
            missing.push(format!("{times}, {total_length}{open_suffix}: {}", reasons.join(", ")));
        }
        if missing.is_empty() { "nothing".to_owned() } else { missing.join("; ") }
    }

    /// Prints the spans and holes of one channel.
    fn times(&self, channel: &CoveredChannel<'_>, out: &mut dyn Write) -> io::Result<()> {
        let ChannelCoverage { held, holes, last_message, limited_before, verified, expired_before } =
            &channel.coverage;
        writeln!(out, "\n{} ({}, {})", self.channel_label(channel), channel.team, channel.channel)?;
        writeln!(out, "{:<20} {:<20} {:>9}  {:<8} how, or why", "from", "to", "how long", "state")?;
        let mut lines: Vec<(&Ts, Option<&Ts>, &str, &str)> = Vec::new();
        for CoveredSpan { from, to, source: held_by } in held {
            lines.push((from, Some(to), "held", how(*held_by)));
        }
        for Hole { from, to, reason, state } in holes {
            lines.push((from, to.as_ref(), state.as_str(), hole_in_words(*reason, to.is_none())));
        }
        lines.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        for (from, to, state, says) in lines {
            let how_long = match to {
                Some(to) if *from != zero() => format_length(from, to),
                Some(_) | None => String::new(),
            };
            let to = to.map_or("still going on".to_owned(), |to| self.time(to));
            writeln!(out, "{:<20} {to:<20} {how_long:>9}  {state:<8} {says}", self.time(from))?;
        }
        if let Some(last) = last_message {
            writeln!(out, "The newest message is from {}.", self.time(last))?;
        }
        if let Some(limit) = limited_before {
            writeln!(out, "Slack's plan shows nothing before {}.", self.time(limit))?;
        }
        if let Some(until) = expired_before {
            writeln!(out, "What is older than {} was removed by the retention rule.", self.time(until))?;
        }
        if let Some(ProvenSpan { from, through, .. }) = verified {
            let (from, day) = (self.time(from), last_day(through));
            writeln!(out, "It is complete up to {day}, compared with Slack from {from} on.")?;
        }
        Ok(())
    }
}

fn is_before(reason: HoleReason) -> bool {
    match reason {
        HoleReason::BeforeJoining | HoleReason::PlanLimit => true,
        HoleReason::Gap(_) | HoleReason::OptedOut => false,
    }
}

fn how(held_by: CoverageSource) -> &'static str {
    match held_by {
        CoverageSource::Live => "live: as it happened",
        CoverageSource::Read(rules::filled::SpanSource::History) => "history: read from Slack",
        CoverageSource::Read(rules::filled::SpanSource::Import) => "import: read from an export",
    }
}

fn as_json(channel: &CoveredChannel<'_>) -> serde_json::Value {
    let CoveredChannel { team, channel, name, coverage, .. } = channel;
    let span =
        |span: &CoveredSpan| json!({ "from": span.from, "to": span.to, "source": span.source.as_str() });
    let hole = |hole: &Hole| json!({ "from": hole.from, "to": hole.to, "reason": hole.reason.as_str(), "state": hole.state.as_str() });
    let verified =
        |proven: &ProvenSpan| json!({ "from": proven.from, "through": proven.through, "at": proven.at });
    json!({
        "team_id": team,
        "channel_id": channel,
        "name": name,
        "spans": coverage.held.iter().map(span).collect::<Vec<_>>(),
        "holes": coverage.holes.iter().map(hole).collect::<Vec<_>>(),
        "last_message_timestamp": coverage.last_message.as_ref().map(|ts| ts.micros() / 1_000_000),
        "limited_before": coverage.limited_before,
        "expired_before": coverage.expired_before,
        "verified": coverage.verified.as_ref().map(verified),
    })
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;
    use ports::archive::erasure::{ExpiryFact, OptOutFact, OptOutScope};
    use rules::filled::{self, SpanSource};
    use rules::history::proof::VerifiedChannel;
    use serde_json::Value;

    use super::*;
    use crate::fixture::{CliFixture, message_args, output, squeezed};

    async fn printed(fixture: &CliFixture, channel: Option<&str>, json: bool) -> String {
        let read = ReadArgs { json, ..message_args("C1", "1.000000").read };
        let args = CoverageArgs { channel: channel.map(str::to_owned), read };
        output(async |out| coverage(fixture.archive(), &args, out).await).await.unwrap()
    }

    /// Returns an archive in which the app was out of the channel for two minutes.
    async fn archive_with_gap() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1699990000.000000", "general").await;
        fixture.post("T1", "C1", "1699999990.000000", "before").await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000000.000000").await;
        fixture.post("T1", "C1", "1700000125.000100", "back again").await;
        fixture.post("T1", "C1", "1700000126.000100", "later").await;
        fixture
    }

    #[tokio::test]
    async fn a_name_of_two_ids_is_listed_with_each_id() {
        let fixture = archive_with_gap().await;
        assert!(printed(&fixture, None, false).await.contains("\n#general   "));
        fixture.channel_id_changed("T1", "C1", "C2", "1700000200.000000").await;
        fixture.post("T1", "C2", "1700000201.000100", "under the new id").await;
        let text = printed(&fixture, None, false).await;
        assert!(text.contains("\n#general (C1) ") && text.contains("\n#general (C2) "), "{text}");
    }

    #[tokio::test]
    async fn json_is_a_line_per_channel_of_the_documented_shape() {
        let text = printed(&archive_with_gap().await, None, true).await;
        let expected = json!({
            "team_id": "T1",
            "channel_id": "C1",
            "name": "general",
            "spans": [
                { "from": "1699999990.000000", "to": "1700000000.000000", "source": "live" },
                { "from": "1700000125.000100", "to": "1700000126.000100", "source": "live" },
            ],
            "holes": [
                { "from": "0.000000", "to": "1699999990.000000", "reason": "before_joining", "state": "missing" },
                { "from": "1700000000.000000", "to": "1700000125.000100", "reason": "left", "state": "missing" },
            ],
            "last_message_timestamp": 1_700_000_126,
            "limited_before": null,
            "expired_before": null,
            "verified": null,
        });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }

    #[tokio::test]
    async fn text_output_has_a_row_per_channel_or_the_spans_of_one() {
        let fixture = archive_with_gap().await;
        let all = squeezed(&printed(&fixture, None, false).await);
        assert_eq!(all[1], "channel held from to source missing");
        assert_eq!(
            all[2],
            "#general 2023-11-14 22:13:10 2023-11-14 22:15:26 live before 2023-11-14 22:13:10; 1 time, 2 min: left"
        );
        assert!(all.join(" ").contains("`annalist backfill` reads what is missing"), "{all:?}");
        let one = squeezed(&printed(&fixture, Some("#general"), false).await);
        let expected = [
            "#general (T1, C1)",
            "from to how long state how, or why",
            "the beginning 2023-11-14 22:13:10 missing before_joining: the app was not in the channel yet",
            "2023-11-14 22:13:10 2023-11-14 22:13:20 10 s held live: as it happened",
            "2023-11-14 22:13:20 2023-11-14 22:15:25 2 min missing left: the app was not in the channel",
            "2023-11-14 22:15:25 2023-11-14 22:15:26 1 s held live: as it happened",
            "The newest message is from 2023-11-14 22:15:26.",
        ];
        assert_eq!(one[2..9], expected);
    }

    #[tokio::test]
    async fn history_that_was_read_is_stored_and_the_plan_limit_is_reported() {
        let fixture = archive_with_gap().await;
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let ts = |text: &str| Ts::parse(text).unwrap();
        let limit = ts("1600000000.000000");
        let write = async |update| fixture.archive().write(&update).await.unwrap();
        write(filled::filled_update(&team, &channel, &limit, &ts("1700000200.000000"), SpanSource::History))
            .await;
        write(filled::plan_limit_update(&team, &channel, &limit)).await;
        let text = printed(&fixture, Some("C1"), true).await;
        let row: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(row["limited_before"], "1600000000.000000");
        let hole =
            json!({ "from": "0.000000", "to": "1600000000.000000", "reason": "plan_limit", "state": "lost" });
        assert_eq!(row["holes"], json!([hole]));
        let text = printed(&fixture, Some("C1"), false).await;
        assert!(text.contains("Slack's plan shows nothing before 2020-09-13 12:26:40."), "{text}");
        assert!(text.contains("history: read from Slack") && !text.contains("annalist backfill"), "{text}");
    }

    #[tokio::test]
    async fn a_proof_an_expiry_and_an_opt_out_are_shown() {
        let fixture = archive_with_gap().await;
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let ts = |text: &str| Ts::parse(text).unwrap();
        let span = ProvenSpan {
            from: ts("1699900000.000000"),
            through: ts("1699920000.000000"),
            at: ts("1699930000.000000"),
            is_whole: false,
            is_archived: false,
        };
        let out = OptOutFact {
            team: team.clone(),
            scope: OptOutScope::Channel(channel.clone()),
            at: ts("1700000126.000200"),
            is_out: true,
            by: None,
        };
        for update in [
            VerifiedChannel::new(team.clone(), channel.clone()).prove(&span),
            ExpiryFact::expire(&team, None, &ts("1700000010.000000")),
            out.update(),
        ] {
            fixture.archive().write(&update).await.unwrap();
        }
        let row: Value = serde_json::from_str(&printed(&fixture, Some("C1"), true).await).unwrap();
        let verified = json!({ "from": span.from, "through": span.through, "at": span.at });
        assert_eq!((&row["verified"], &row["expired_before"]), (&verified, &json!("1700000010.000000")));
        let holes = json!([
            { "from": "1700000010.000000", "to": "1700000125.000100", "reason": "left", "state": "missing" },
            { "from": "1700000126.000200", "to": null, "reason": "opted_out", "state": "open" },
        ]);
        assert_eq!(row["holes"], holes);
        let text = printed(&fixture, Some("C1"), false).await;
        for expected in [
            "It is complete up to 2023-11-13, compared with Slack from 2023-11-13 18:26:40 on.",
            "What is older than 2023-11-14 22:13:30 was removed by the retention rule.",
            "opted_out: nothing of the channel is stored",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[tokio::test]
    async fn an_empty_archive_prints_advice() {
        assert!(printed(&CliFixture::open().await, None, false).await.contains("annalist doctor"));
        assert_eq!(printed(&CliFixture::open().await, None, true).await, "");
    }
}
