//! `annalist gaps`: lists when, where and why events may be missing.

use std::collections::HashMap;
use std::io::Write;
use std::num::NonZeroUsize;

use ports::archive::Archive;
use reader::directory::{self, WorkspaceChannels};
use reader::find;
use reader::gaps::{self, GapProgress};
use rules::gap::closing::GapState;
use rules::gap::projection::Gap;
use rules::version::zero;
use serde_json::json;
use slack::ids::{TeamId, Ts};

use super::{ReadArgs, ReadError};
use crate::plain;
use crate::zone::Zone;

/// Maximum length of a channel's name in a row.
const NAME: usize = 24;

/// Prints the gaps of every workspace, or of one, oldest first.
pub(crate) async fn gaps(
    archive: &dyn Archive,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = find::requested_teams(archive, args.team.as_ref()).await?;
    let mut found: Vec<(TeamId, GapProgress)> = Vec::new();
    for team in &teams {
        found.extend(gaps::progress(archive, team).await?.into_iter().map(|gap| (team.clone(), gap)));
    }
    found.sort_by(|(_, one), (_, other)| one.gap.cmp(&other.gap));
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    found.drain(..found.len().saturating_sub(limit));
    if args.json {
        for (team, GapProgress { gap, state, channels_left }) in &found {
            let Gap { from, to, channel, reason, reported_at: _ } = gap;
            let mut row = json!({ "channel_id": channel, "reason": reason.as_str(), "from": from, "to": to,
                "state": state.as_str(), "team_id": team });
            if let Some(channels_left) = channels_left {
                row["channels_left"] = (*channels_left).into();
            }
            plain::json_line(out, &row)?;
        }
        return Ok(());
    }
    if found.is_empty() {
        writeln!(
            out,
            "No gaps: no event is known to be missing. Annalist cannot know whether Slack could reach this \
             machine while nothing happened."
        )?;
        return Ok(());
    }
    table(archive, &found, teams.len() > 1, &Zone::from_args(&args.zone), out).await
}

async fn table(
    archive: &dyn Archive,
    found: &[(TeamId, GapProgress)],
    several_teams: bool,
    zone: &Zone,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut named: HashMap<&TeamId, WorkspaceChannels> = HashMap::new();
    writeln!(out, "Times are in {}.", zone.name())?;
    writeln!(out, "{:<20} {:<20} {:>9}  {:<8} {:<26} why", "from", "to", "how long", "state", "where")?;
    for (team, GapProgress { gap, state, channels_left }) in found {
        if gap.channel.is_some() && !named.contains_key(team) {
            named.insert(team, directory::read(archive, team).await?);
        }
        let label = channel_label(gap, named.get(team));
        let label = if several_teams { format!("{team} {label}") } else { label };
        let (to, how_long) = match &gap.to {
            Some(to) if gap.from == zero() => (zone.time(to.as_str()), String::new()),
            Some(to) => (zone.time(to.as_str()), format_length(&gap.from, to)),
            None => ("still going on".to_owned(), String::new()),
        };
        let from = if gap.from == zero() { "the beginning".to_owned() } else { zone.time(gap.from.as_str()) };
        let label = match (state, channels_left) {
            (GapState::Missing | GapState::Lost, Some(left)) => format!("{label}, {left} left"),
            (GapState::Open | GapState::Filled, _) | (GapState::Missing | GapState::Lost, None) => label,
        };
        let (state, why) = (state.as_str(), gaps::reason_in_words(gap.reason));
        writeln!(out, "{from:<20} {to:<20} {how_long:>9}  {state:<8} {label:<26} {why}")?;
    }
    let any = |state: GapState| found.iter().any(|(_, gap)| gap.state == state);
    let advice = [
        (GapState::Open, "open: `annalist doctor` says how to end it."),
        (
            GapState::Missing,
            "missing: what was written is in Slack. `annalist up` with a token reads it by itself, and `annalist backfill` now.",
        ),
        (GapState::Filled, "filled: read from Slack's history, or from an export, since."),
        (GapState::Lost, "lost: Slack's plan no longer shows it; an export that holds it can be imported."),
    ];
    writeln!(out)?;
    for (_, says) in advice.iter().filter(|(state, _)| any(*state)) {
        writeln!(out, "{says}")?;
    }
    Ok(())
}

/// Returns `#general`, `C0123ABCD` if the name is unknown, or `all channels`.
fn channel_label(gap: &Gap, named: Option<&WorkspaceChannels>) -> String {
    let Some(channel) = &gap.channel else { return "all channels".to_owned() };
    plain::channel_label(named.and_then(|named| named.name(channel)), channel, NAME)
}

/// Formats the length of a gap with the precision that people need.
pub(super) fn format_length(from: &Ts, to: &Ts) -> String {
    match (to.micros() - from.micros()) / 1_000_000 {
        0 if from == to => "a moment".to_owned(),
        0 => "< 1 s".to_owned(),
        seconds => plain::age(seconds.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;
    use rules::filled::{self, SpanSource};
    use serde_json::Value;
    use slack::ids::ChannelId;

    use super::*;
    use crate::fixture::{CliFixture, message_args, output, squeezed};

    async fn printed(fixture: &CliFixture, args: &ReadArgs) -> String {
        output(async |out| gaps(fixture.archive(), args, out).await).await.unwrap()
    }

    fn args(json: bool) -> ReadArgs {
        ReadArgs { json, ..message_args("C1", "1.000000").read }
    }

    /// Returns an archive in which the app was out of one channel for two minutes and left another one for
    /// good.
    async fn left_twice() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1699999000.000000", "general").await;
        fixture.channel_event("T1", "channel_left", "C2", "1700000030.000000").await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000000.000000").await;
        fixture.post("T1", "C1", "1699999990.000000", "before").await;
        fixture.post("T1", "C1", "1700000125.000100", "back again").await;
        fixture.post("T1", "C1", "1700000126.000100", "later").await;
        fixture
    }

    #[tokio::test]
    async fn json_is_a_line_per_gap_with_its_state_oldest_first() {
        let fixture = left_twice().await;
        let text = printed(&fixture, &args(true)).await;
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = [
            json!({ "channel_id": "C1", "reason": "left", "from": "1700000000.000000", "to": "1700000125.000100",
                "state": "missing", "team_id": "T1" }),
            json!({ "channel_id": "C2", "reason": "left", "from": "1700000030.000000", "to": null,
                "state": "open", "team_id": "T1" }),
        ];
        assert_eq!(rows, expected);
        let newest = ReadArgs { limit: NonZeroUsize::new(1), ..args(true) };
        assert_eq!(
            printed(&fixture, &newest).await.lines().collect::<Vec<_>>(),
            [text.lines().last().unwrap()]
        );
    }

    #[tokio::test]
    async fn text_output_has_a_row_per_gap_and_advice() {
        let text = printed(&left_twice().await, &args(false)).await;
        let lines = squeezed(&text);
        assert_eq!(
            lines[2],
            "2023-11-14 22:13:20 2023-11-14 22:15:25 2 min missing #general left: the app was not in the channel"
        );
        assert_eq!(
            lines[3],
            "2023-11-14 22:13:50 still going on open C2 left: the app was not in the channel"
        );
        assert!(lines[5].contains("annalist doctor"), "{text}");
        assert!(printed(&CliFixture::open().await, &args(false)).await.starts_with("No gaps"));
        assert_eq!(printed(&CliFixture::open().await, &args(true)).await, "");
    }

    #[tokio::test]
    async fn an_edit_of_a_message_from_within_the_gap_does_not_end_it() {
        let fixture = CliFixture::open().await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000000.000000").await;
        fixture.edit("T1", "C1", "1700000050.000000", "1700000200.000000", "edited after the return").await;
        assert!(printed(&fixture, &args(true)).await.contains("\"open\""));
        fixture.post("T1", "C1", "1700000190.000000", "after the return").await;
        assert!(printed(&fixture, &args(true)).await.contains("1700000190.000000"));
    }

    #[tokio::test]
    async fn filled_gaps_need_no_advice_and_lost_ones_are_reported() {
        let fixture = left_twice().await;
        let (team, gone) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let ts = |text: &str| Ts::parse(text).unwrap();
        let write = async |update| fixture.archive().write(&update).await.unwrap();
        let reached = |from, to| filled::filled_update(&team, &gone, &ts(from), &ts(to), SpanSource::Import);
        write(reached("1700000060.000000", "1700000125.000100")).await;
        assert!(printed(&fixture, &args(true)).await.contains(r#""state":"missing""#));
        let limit = filled::plan_limit_update(&team, &gone, &ts("1700000060.000000"));
        write(limit).await;
        let lost = printed(&fixture, &args(false)).await;
        assert!(lost.contains("lost: Slack's plan no longer shows it"), "{lost}");
        assert!(!lost.contains("annalist backfill"), "{lost}");
        write(reached("1600000000.000000", "1700000060.000000")).await;
        let text = printed(&fixture, &args(true)).await;
        assert!(text.contains(r#""state":"filled""#) && !text.contains("channels_left"), "{text}");
    }

    #[test]
    fn a_length_is_as_precise_as_it_matters() {
        let length = |to: &str| format_length(&Ts::parse("100.000000").unwrap(), &Ts::parse(to).unwrap());
        for (to, expected) in [
            ("100.000000", "a moment"),
            ("100.900000", "< 1 s"),
            ("103.100000", "3 s"),
            ("219.000000", "119 s"),
            ("220.000000", "2 min"),
            ("7300.000000", "2 h"),
            ("172900.000000", "2 d"),
        ] {
            assert_eq!(length(to), expected);
        }
    }
}
