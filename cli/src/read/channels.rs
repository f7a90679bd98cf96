//! `annalist channels`: every channel that has a name.

use std::io::Write;
use std::num::NonZeroUsize;

use serde_json::{Value, json};
use shared::archive::{Archive, ArchiveError, Query, key, query_all};
use shared::directory::{self, Channels};
use shared::rules::channel::fold::DELETED_PREFIX;
use shared::slack::ids::{ChannelId, TeamId};

use super::channel::{self, Place};
use super::{ReadArgs, ReadError, snapshots};
use crate::plain;

/// How much of a name and of a topic is shown.
const NAME: usize = 80;
const TOPIC: usize = 60;

/// Prints the channels of every workspace, or of one.
pub(crate) async fn channels(
    archive: &dyn Archive,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = channel::teams_asked_for(archive, args.team.as_ref()).await?;
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let mut printed = 0;
    for team in &teams {
        let named = directory::read(archive, team).await?;
        if args.json {
            for (id, name) in named.iter().take(limit - printed) {
                plain::json_line(out, &json!({ "channel_id": id, "name": name, "team_id": team }))?;
                printed += 1;
            }
            continue;
        }
        let mut rows: Vec<Row> =
            named.iter().map(|(id, name)| Row { id, name: Some(name.to_owned()) }).collect();
        rows.sort_by_cached_key(Row::order);
        rows.extend(nameless(archive, team, &named).await?);
        rows.truncate(limit - printed);
        if teams.len() > 1 && !rows.is_empty() {
            writeln!(out, "Workspace {team}")?;
        }
        printed += rows.len();
        for row in rows {
            print(archive, team, row, out).await?;
        }
    }
    if printed == 0 && !args.json {
        writeln!(
            out,
            "No channels yet: Slack tells of them as things happen, and `annalist sync` asks for them all."
        )?;
    }
    Ok(())
}

/// A channel of the list.
struct Row {
    id: ChannelId,
    name: Option<String>,
}

impl Row {
    /// By name, deleted ones last.
    fn order(&self) -> (bool, String) {
        let name = self.name.as_deref().unwrap_or_default();
        (name.starts_with(DELETED_PREFIX), name.to_lowercase())
    }
}

/// Channels whose messages are stored but whose names nobody told.
async fn nameless(archive: &dyn Archive, team: &TeamId, named: &Channels) -> Result<Vec<Row>, ArchiveError> {
    let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let ids = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
    Ok(ids.filter(|id| named.name(id).is_none()).map(|id| Row { id, name: None }).collect())
}

async fn print(archive: &dyn Archive, team: &TeamId, row: Row, out: &mut dyn Write) -> Result<(), ReadError> {
    let Row { id, name } = row;
    let place = Place { team: team.clone(), channel: id };
    let snapshot = snapshots::newest(archive, &place).await?.unwrap_or(Value::Null);
    let name =
        name.map_or_else(|| "(no name yet)".to_owned(), |name| format!("#{}", plain::excerpt(&name, NAME)));
    let name = name + &snapshots::marks(&snapshot);
    let topic = plain::excerpt(snapshot["topic"].as_str().unwrap_or_default(), TOPIC);
    Ok(writeln!(out, "{}", format!("{:<12}  {name:<28}  {topic}", place.channel.as_str()).trim_end())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, message_args};

    async fn printed(fixture: &Fixture, args: &ReadArgs) -> Result<String, ReadError> {
        let mut out = Vec::new();
        channels(fixture.archive(), args, &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    async fn workspace() -> Fixture {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "release").await;
        fixture.channel("T1", "C2", "1.000000", "general").await;
        fixture.told("T1", "C2", "2.000000", "channel_topic", ("topic", "a\u{1b}[2J\ntopic")).await;
        fixture.channel("T1", "C3", "1.000000", "archived-one").await;
        fixture.channel_event("T1", "channel_archive", "C3", "2.000000").await;
        fixture.channel("T1", "C4", "1.000000", "a-trial").await;
        fixture.channel_event("T1", "channel_deleted", "C4", "2.000000").await;
        fixture.post("T1", "C5", "1.000000", "text").await;
        fixture
    }

    #[tokio::test]
    async fn people_see_them_by_name_with_their_state_and_topic_the_deleted_and_the_nameless_last() {
        let args = ReadArgs { json: false, ..message_args("C1", "1.000000").read };
        let text = printed(&workspace().await, &args).await.unwrap();
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "C3 #archived-one (archived)",
                "C2 #general a␛[2J topic",
                "C1 #release",
                "C4 #deleted_a-trial (deleted)",
                "C5 (no name yet)",
            ]
        );
    }

    #[tokio::test]
    async fn json_is_a_line_per_entry_of_the_index() {
        let fixture = workspace().await;
        let mut args = message_args("C1", "1.000000").read;
        let text = printed(&fixture, &args).await.unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let row = |id, name| json!({ "channel_id": id, "name": name, "team_id": "T1" });
        let expected = [
            row("C1", "release"),
            row("C2", "general"),
            row("C3", "archived-one"),
            row("C4", "deleted_a-trial"),
        ];
        assert_eq!(rows, expected);
        args.limit = NonZeroUsize::new(2);
        assert_eq!(printed(&fixture, &args).await.unwrap().lines().count(), 2);
    }

    #[tokio::test]
    async fn several_workspaces_are_told_apart_and_an_unknown_one_is_an_error() {
        let fixture = workspace().await;
        fixture.channel("T2", "C1", "1.000000", "general").await;
        let mut args = ReadArgs { json: false, ..message_args("C1", "1.000000").read };
        let text = printed(&fixture, &args).await.unwrap();
        assert!(text.contains("Workspace T1\n") && text.contains("Workspace T2\n"), "{text}");
        args.team = Some(TeamId::parse("T2").unwrap());
        assert_eq!(printed(&fixture, &args).await.unwrap().lines().count(), 1);
        args.team = Some(TeamId::parse("T3").unwrap());
        assert!(matches!(printed(&fixture, &args).await, Err(ReadError::UnknownTeam(_))));
    }

    #[tokio::test]
    async fn without_any_channel_people_are_told_how_they_come() {
        let mut args = message_args("C1", "1.000000").read;
        assert_eq!(printed(&Fixture::open().await, &args).await.unwrap(), "");
        args.json = false;
        assert!(printed(&Fixture::open().await, &args).await.unwrap().contains("annalist sync"));
    }
}
