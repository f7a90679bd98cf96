//! `annalist channels`: lists every channel that has any stored row.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;

use reader::channels::{ChannelList, ChannelOrder, ListedChannel};
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::{figures, find};
use rules::channel::index::bare_name;
use rules::view::ChannelView;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};

use super::{ChannelsArgs, ReadError, snapshots};
use crate::plain;
use crate::search::{IndexedActivity, SearchableArchive, print_remark};
use crate::zone::Zone;

/// The fields of a channel's state that are listed if present.
const STATE: [&str; 6] = ["archived", "deleted", "ext_shared", "purpose", "topic", "visibility"];

/// The widest column of names: a longer name moves the rest of its line.
const WIDEST: usize = 40;

/// Maximum lengths of a name and of a topic.
const NAME: usize = 80;
const TOPIC: usize = 60;

/// Prints the channels of every workspace, or of one. The messages are counted by the search index, because the
/// archive would have to read all of them.
pub(crate) async fn channels(
    searchable: &SearchableArchive,
    args: &ChannelsArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let archive = &*searchable.archive;
    let ChannelsArgs { read, count, figures, .. } = args;
    let teams = find::requested_teams(archive, read.team.as_ref()).await?;
    let limit = read.limit.map_or(usize::MAX, NonZeroUsize::get);
    let zone = Zone::from_args(&read.zone);
    let activity = if read.json && !count { None } else { Some(searchable.activity(*count).await) };
    let order = if read.json { ChannelOrder::Id } else { ChannelOrder::Name };
    let list = ChannelList::read(archive, &teams, order).await?;
    let (mut shown_team, mut names) = (None, DisplayNames::for_teams(archive, Vec::new()));
    let mut printed = 0;
    let mut lines: Vec<ChannelLine> = Vec::new();
    for row in list.channels() {
        if printed == limit {
            break;
        }
        let team = &row.location.team;
        let snapshot = row.location.newest(archive).await?.unwrap_or_default();
        if list.successor(&row.location, &snapshot).is_some() {
            continue;
        }
        printed += 1;
        let in_teams = list.teams_of(&row.location.channel);
        if read.json {
            let mut line = json!({ "channel_id": row.location.channel, "name": row.name, "team_id": team });
            for attribute in STATE {
                if let Some(value) = snapshot.as_json().get(attribute) {
                    line[attribute] = value.clone();
                }
            }
            if in_teams.len() > 1 {
                line["team_ids"] = json!(in_teams);
            }
            if let Some(Ok(counted)) = &activity {
                let channel = find::joined_channel(archive, &row.location, &teams).await?;
                let Activity { messages, last, .. } = Activity::of(&channel, counted);
                line["messages"] = messages.into();
                line["last_ts"] = json!(last);
            }
            if *figures {
                figures::channel::add_channel_figures(
                    archive,
                    &row.location,
                    row.name.as_deref(),
                    &snapshot,
                    &mut line,
                )
                .await?;
            }
            plain::json_line(out, &line)?;
            continue;
        }
        if shown_team != Some(team) {
            shown_team = Some(team);
            names = DisplayNames::new(archive, team.clone());
        }
        let channel = find::joined_channel(archive, &row.location, &teams).await?;
        let activity =
            activity.as_ref().and_then(|counted| Some(Activity::of(&channel, counted.as_ref().ok()?)));
        let snapshot = snapshots::with_plain_text(&mut names, snapshot).await?;
        let others: String = in_teams[1..].iter().map(|team| format!(" (also in {team})")).collect();
        let marks = snapshots::marks(&snapshot) + &others;
        lines.push(ChannelLine::new(row, &marks, &snapshot, activity.as_ref(), &zone));
    }
    print(&lines, teams.len() > 1, &zone, out)?;
    if printed == 0 && !read.json {
        writeln!(
            out,
            "No channels yet: Slack sends them as events happen, and `annalist sync` reads them all."
        )?;
    }
    match activity {
        Some(Ok(IndexedActivity { remark: Some(remark), .. })) => print_remark(&remark),
        Some(Err(error)) => print_remark(&format!("the messages are not counted: {error:#}")),
        Some(Ok(_)) | None => {}
    }
    Ok(())
}

/// The number of messages in a channel, and the last one.
struct Activity {
    messages: u64,
    /// Whether there may be more messages than were counted.
    is_more: bool,
    last: Option<Ts>,
}

impl Activity {
    /// Adds up the ids that the channel had. Several workspaces have the same messages of one id.
    fn of(channel: &JoinedChannel<'_>, counted: &IndexedActivity) -> Self {
        let known = || channel.locations().iter().filter_map(|at| Some((at, counted.by_location.get(at)?)));
        let mut by_id: BTreeMap<&ChannelId, u64> = BTreeMap::new();
        for (location, activity) in known() {
            let messages = by_id.entry(&location.channel).or_default();
            *messages = activity.messages.max(*messages);
        }
        let last = known().filter_map(|(_, activity)| activity.newest.clone()).max_by_key(Ts::micros);
        Self { messages: by_id.into_values().sum(), is_more: counted.remark.is_some(), last }
    }
}

/// What is printed of a channel.
struct ChannelLine {
    team: TeamId,
    id: ChannelId,
    name: String,
    messages: String,
    last: String,
    topic: String,
}

impl ChannelLine {
    fn new(
        row: &ListedChannel,
        marks: &str,
        snapshot: &ChannelView,
        activity: Option<&Activity>,
        zone: &Zone,
    ) -> Self {
        let name = row.name.as_deref().map(|name| bare_name(name, snapshot.is_deleted()));
        let name = name
            .map_or_else(|| "(no name yet)".to_owned(), |name| format!("#{}", plain::excerpt(name, NAME)));
        let count =
            |activity: &Activity| format!("{}{}", activity.messages, if activity.is_more { "+" } else { "" });
        let last = activity.and_then(|activity| activity.last.as_ref());
        Self {
            team: row.location.team.clone(),
            id: row.location.channel.clone(),
            name: name + marks,
            messages: activity.map_or_else(|| "?".to_owned(), count),
            last: last.map(|ts| zone.day(ts.as_str())).unwrap_or_default(),
            topic: plain::excerpt(snapshot.topic().unwrap_or_default(), TOPIC),
        }
    }
}

fn print(lines: &[ChannelLine], has_teams: bool, zone: &Zone, out: &mut dyn Write) -> Result<(), ReadError> {
    if lines.is_empty() {
        return Ok(());
    }
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or_default().clamp(4, WIDEST);
    let last = format!("last ({})", zone.name());
    writeln!(out, "{:<12}  {:<width$}  {:>8}  {last:<10}  topic", "id", "name", "messages")?;
    let mut shown_team = None;
    for line in lines {
        let ChannelLine { team, id, name, messages, last, topic } = line;
        if has_teams && shown_team.replace(team) != Some(team) {
            writeln!(out, "Workspace {team}")?;
        }
        let id = id.as_str();
        let line = format!("{id:<12}  {name:<width$}  {messages:>8}  {last:<10}  {topic}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ports::archive::{ArchiveExt, ItemKey, Update};
    use process::config::IndexArgs;
    use search::follower::BATCH_SIZE;
    use serde_json::Value;
    use testkit::memory::watched::WatchedArchive;

    use super::*;
    use crate::fixture::{CliFixture, message_args, output, squeezed};
    use crate::read::ReadArgs;

    fn args(json: bool) -> ChannelsArgs {
        ChannelsArgs {
            count: false,
            figures: false,
            index: IndexArgs { folder: None },
            read: ReadArgs { json, ..message_args("C1", "1700000001.000000").read },
        }
    }

    async fn printed(fixture: &CliFixture, args: &ChannelsArgs) -> Result<String, ReadError> {
        let index = fixture.data().data.data.join("index.db");
        let zone = Zone::from_args(&args.read.zone);
        let searchable = SearchableArchive::new(&fixture.backend, index, args.read.team.clone(), &zone);
        output(async |out| channels(&searchable, args, out).await).await
    }

    async fn workspace() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "release").await;
        fixture.channel("T1", "C2", "1700000001.000000", "general").await;
        fixture
            .channel_notice("T1", "C2", "1700000002.000000", "channel_topic", ("topic", "a\u{1b}[2J\ntopic"))
            .await;
        fixture.channel("T1", "C3", "1700000001.000000", "archived-one").await;
        fixture.channel_event("T1", "channel_archive", "C3", "1700000002.000000").await;
        fixture.channel("T1", "C4", "1700000001.000000", "a-trial").await;
        fixture.channel_event("T1", "channel_deleted", "C4", "1700000002.000000").await;
        fixture.post("T1", "C5", "1700000001.000000", "text").await;
        fixture.post("T1", "C5", "1700200000.000000", "text").await;
        fixture
    }

    #[tokio::test]
    async fn channels_are_listed_by_name_with_deleted_and_nameless_ones_last() {
        let text = printed(&workspace().await, &args(false)).await.unwrap();
        assert_eq!(
            squeezed(&text),
            [
                "id name messages last (UTC) topic",
                "C3 #archived-one (archived) 0",
                "C2 #general 0 a␛[2J topic",
                "C1 #release 0",
                "C4 #a-trial (deleted) 0",
                "C5 (no name yet) 2 2023-11-17",
            ]
        );
    }

    #[tokio::test]
    async fn json_with_count_has_the_number_of_messages_and_the_last_one() {
        let fixture = workspace().await;
        let counted = ChannelsArgs { count: true, ..args(true) };
        let text = printed(&fixture, &counted).await.unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |id: &str| {
            let row = rows.iter().find(|row| row["channel_id"] == id).unwrap();
            (row["messages"].clone(), row["last_ts"].clone())
        };
        assert_eq!(of("C5"), (json!(2), json!("1700200000.000000")));
        assert_eq!(of("C1"), (json!(0), json!(null)));
    }

    #[tokio::test]
    async fn json_is_a_line_per_channel_even_if_it_has_no_name() {
        let fixture = workspace().await;
        let mut args = args(true);
        let text = printed(&fixture, &args).await.unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let row =
            |id, name| json!({ "channel_id": id, "name": name, "team_id": "T1", "visibility": "public" });
        let mut expected = [
            row("C1", "release"),
            row("C2", "general"),
            row("C3", "archived-one"),
            row("C4", "deleted_a-trial"),
            json!({ "channel_id": "C5", "name": null, "team_id": "T1" }),
        ];
        expected[1]["topic"] = "a\u{1b}[2J\ntopic".into();
        expected[2]["archived"] = true.into();
        expected[3]["deleted"] = true.into();
        assert_eq!(rows, expected);
        args.read.limit = NonZeroUsize::new(2);
        assert_eq!(printed(&fixture, &args).await.unwrap().lines().count(), 2);
    }

    #[tokio::test]
    async fn figures_match_channelstats() {
        let fixture = workspace().await;
        fixture.rename("T1", "C1", "1700000003.000000", "release").await;
        let (team, id) = (TeamId::parse("T1").unwrap(), "C1".parse().unwrap());
        for (day, members) in [("2026-11-19", 4), ("2026-11-20", 5)] {
            let mut update = Update::new(ItemKey::members(&team, &id, day));
            update.set.insert("members".into(), members.into());
            fixture.archive().write(&update).await.unwrap();
        }
        let text = printed(&fixture, &ChannelsArgs { figures: true, ..args(true) }).await.unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let figures = json!({ "slack_cid": "C1", "friendly_name": "release", "members": 5, "is_channel": true,
            "is_group": false, "is_im": false, "is_mpim": false, "created": 1_360_782_804 });
        for (name, value) in figures.as_object().unwrap() {
            assert_eq!(rows[0][name], *value, "{name}");
        }
        assert_eq!(
            (&rows[1]["members"], &rows[2]["members"]),
            (&Value::Null, &json!(0)),
            "unknown, and archived"
        );
    }

    #[tokio::test]
    async fn counts_are_exact_or_marked_and_read_no_messages() {
        let fixture = CliFixture::open().await;
        for second in 1..=BATCH_SIZE + 1 {
            fixture.post("T1", "C1", &format!("{}.000000", 1_700_000_000 + second), "text").await;
        }
        fixture.delete("T1", "C1", "1700000007.000000", "1700090000.000000").await;
        let mut args = args(false);
        args.count = true;
        let counted = printed(&fixture, &args).await.unwrap();
        assert!(counted.contains(" 1001  2023-11-14"), "{counted}");
        let index = fixture.data().data.data.join("index.db");
        let zone = Zone::from_args(&args.read.zone);
        let watched = Arc::new(WatchedArchive::new(fixture.backend.archive()));
        let mut searchable = SearchableArchive::new(&fixture.backend, index.clone(), None, &zone);
        searchable.archive = watched.clone();
        for count in [false, true] {
            args.count = count;
            let again = output(async |out| channels(&searchable, &args, out).await).await.unwrap();
            assert_eq!(again, counted);
        }
        let read = watched.read();
        assert!(!read.is_empty() && !read.iter().any(|row| row.starts_with("message#")), "{read:?}");
        drop(searchable);
        std::fs::remove_file(&index).unwrap();
        std::fs::create_dir(&index).unwrap();
        let uncounted = printed(&fixture, &args).await.unwrap();
        assert!(squeezed(&uncounted).contains(&"C1 (no name yet) ?".to_owned()), "{uncounted}");
    }

    #[tokio::test]
    async fn a_channel_that_changed_its_id_or_is_shared_by_workspaces_is_one_line() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.post("T1", "C1", "1700000001.000000", "under the old id").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000002.000000").await;
        fixture.post("T1", "C2", "1700000003.000000", "under the new one").await;
        fixture.channel("T1", "C3", "1700000001.000000", "shared").await;
        fixture.post("T1", "C3", "1700000004.000000", "here").await;
        fixture.post("T2", "C3", "1700000004.000000", "here").await;
        fixture.post("T2", "C3", "1700000005.000000", "and there").await;
        let text = printed(&fixture, &args(false)).await.unwrap();
        assert_eq!(
            squeezed(&text)[2..],
            ["C2 #partners 2 2023-11-14", "C3 #shared (also in T2) 2 2023-11-14"]
        );
        let json = printed(&fixture, &args(true)).await.unwrap();
        let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            rows,
            [
                json!({ "channel_id": "C2", "name": "partners", "team_id": "T1", "visibility": "public" }),
                json!({ "channel_id": "C3", "name": "shared", "team_id": "T1", "team_ids": ["T1", "T2"],
                    "visibility": "public" }),
            ]
        );
    }

    #[tokio::test]
    async fn several_workspaces_have_headings_and_an_unknown_one_is_an_error() {
        let fixture = workspace().await;
        fixture.channel("T2", "C9", "1700000001.000000", "general").await;
        let mut args = args(false);
        let text = printed(&fixture, &args).await.unwrap();
        assert!(text.contains("Workspace T1\n") && text.contains("Workspace T2\n"), "{text}");
        args.read.team = Some(TeamId::parse("T2").unwrap());
        assert_eq!(printed(&fixture, &args).await.unwrap().lines().count(), 2);
        args.read.team = Some(TeamId::parse("T3").unwrap());
        assert!(matches!(printed(&fixture, &args).await, Err(ReadError::UnknownTeam(_))));
    }

    #[tokio::test]
    async fn an_archive_without_channels_prints_advice() {
        assert_eq!(printed(&CliFixture::open().await, &args(true)).await.unwrap(), "");
        assert!(printed(&CliFixture::open().await, &args(false)).await.unwrap().contains("annalist sync"));
    }
}
