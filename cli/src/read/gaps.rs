//! `annalist gaps`: when events may be missing, where and why.

use std::collections::HashMap;
use std::io::Write;
use std::num::NonZeroUsize;

use ports::archive::Archive;
use reader::directory::{self, Channels};
use reader::find;
use reader::gaps;
use rules::gap::Reason;
use rules::gap::projection::{Gap, State};
use rules::version::zero;
use serde_json::json;
use slack::ids::{TeamId, Ts};

use super::{ReadArgs, ReadError};
use crate::plain;
use crate::zone::Zone;

/// So much of a channel's name fits a row.
const NAME: usize = 24;

/// Prints the gaps of every workspace, or of one, oldest first.
pub(crate) async fn gaps(
    archive: &dyn Archive,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = find::teams_asked_for(archive, args.team.as_ref()).await?;
    let mut found: Vec<(TeamId, Gap)> = Vec::new();
    for team in &teams {
        found.extend(gaps::read(archive, team).await?.into_iter().map(|gap| (team.clone(), gap)));
    }
    found.sort_by(|(_, one), (_, other)| one.cmp(other));
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    found.drain(..found.len().saturating_sub(limit));
    if args.json {
        for (team, gap) in &found {
            let Gap { from, to, channel, reason } = gap;
            let row = json!({ "channel_id": channel, "reason": reason.as_str(), "from": from, "to": to,
                "state": gap.state().as_str(), "team_id": team });
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
    table(archive, &found, teams.len() > 1, &args.zone.zone(), out).await
}

async fn table(
    archive: &dyn Archive,
    found: &[(TeamId, Gap)],
    several_teams: bool,
    zone: &Zone,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut named: HashMap<&TeamId, Channels> = HashMap::new();
    writeln!(out, "Times are in {}.", zone.name())?;
    writeln!(out, "{:<20} {:<20} {:>9}  {:<8} {:<26} why", "from", "to", "how long", "state", "where")?;
    for (team, gap) in found {
        if gap.channel.is_some() && !named.contains_key(team) {
            named.insert(team, directory::read(archive, team).await?);
        }
        let place = place(gap, named.get(team));
        let place = if several_teams { format!("{team} {place}") } else { place };
        let (to, how_long) = match &gap.to {
            Some(to) if gap.from == zero() => (zone.time(to.as_str()), String::new()),
            Some(to) => (zone.time(to.as_str()), length(&gap.from, to)),
            None => ("still going on".to_owned(), String::new()),
        };
        let from = if gap.from == zero() { "the beginning".to_owned() } else { zone.time(gap.from.as_str()) };
        let (state, why) = (gap.state().as_str(), meaning(gap.reason));
        writeln!(out, "{from:<20} {to:<20} {how_long:>9}  {state:<8} {place:<26} {why}")?;
    }
    let open = found.iter().any(|(_, gap)| gap.state() == State::Open);
    writeln!(
        out,
        "\nWhat was written in these times is in Slack, for as long as its plan shows it, and not here: this version \
         does not fetch it.{}",
        if open { " `annalist doctor` says how to end an open gap." } else { "" }
    )?;
    Ok(())
}

/// `#general`, `C0123ABCD` if its name is unknown, or all of them.
fn place(gap: &Gap, named: Option<&Channels>) -> String {
    let Some(channel) = &gap.channel else { return "all channels".to_owned() };
    match named.and_then(|named| named.name(channel)) {
        Some(name) => format!("#{}", plain::excerpt(name, NAME)),
        None => channel.to_string(),
    }
}

/// As precise as people want to know it.
fn length(from: &Ts, to: &Ts) -> String {
    match (to.micros() - from.micros()) / 1_000_000 {
        0 if from == to => "a moment".to_owned(),
        0 => "< 1 s".to_owned(),
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Downtime => "downtime: Annalist was stopped, or started again",
        Reason::RateLimited => "rate_limited: too many events, Slack held them back",
        Reason::Left => "left: the app was not in the channel",
        Reason::Revoked => "revoked: the app was uninstalled, or its token revoked",
        Reason::Dropped => "dropped: a person removed an event from quarantine",
        Reason::Refused => "refused: Slack's requests came at another time by this machine's clock",
        Reason::HistoryChanged => "history_changed: Slack changed many messages at once",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixture::{Fixture, message_args};

    async fn printed(fixture: &Fixture, args: &ReadArgs) -> String {
        let mut out = Vec::new();
        gaps(fixture.archive(), args, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    fn args(json: bool) -> ReadArgs {
        ReadArgs { json, ..message_args("C1", "1.000000").read }
    }

    /// Out of one channel for two minutes, and out of another ever since.
    async fn left_twice() -> Fixture {
        let fixture = Fixture::open().await;
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
    async fn people_see_when_where_and_why_and_what_there_is_to_do() {
        let text = printed(&left_twice().await, &args(false)).await;
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[2],
            "2023-11-14 22:13:20 2023-11-14 22:15:25 2 min missing #general left: the app was not in the channel"
        );
        assert_eq!(
            lines[3],
            "2023-11-14 22:13:50 still going on open C2 left: the app was not in the channel"
        );
        assert!(lines[5].contains("annalist doctor"), "{text}");
        assert!(printed(&Fixture::open().await, &args(false)).await.starts_with("No gaps"));
        assert_eq!(printed(&Fixture::open().await, &args(true)).await, "");
    }

    #[tokio::test]
    async fn an_edit_of_what_was_written_meanwhile_does_not_end_a_gap() {
        let fixture = Fixture::open().await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000000.000000").await;
        fixture.edit("T1", "C1", "1700000050.000000", "1700000200.000000", "edited after the return").await;
        assert!(printed(&fixture, &args(true)).await.contains("\"open\""));
        fixture.post("T1", "C1", "1700000190.000000", "after the return").await;
        assert!(printed(&fixture, &args(true)).await.contains("1700000190.000000"));
    }

    #[test]
    fn a_length_is_as_precise_as_it_matters() {
        let length = |to: &str| length(&Ts::parse("100.000000").unwrap(), &Ts::parse(to).unwrap());
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
