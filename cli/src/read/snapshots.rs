//! `annalist channel`: prints the current state of a channel, or its history.

use std::io::{self, Write};

use ports::archive::{Archive, ArchiveError, Query, key};
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use reader::rows::VisibleRows;
use reader::{bookmarks, figures, find, pins};
use rules::project;
use rules::view::ChannelView;
use serde_json::{Value, json};

use super::{ReadError, SnapshotArgs};
use crate::plain;
use crate::zone::Zone;

/// Maximum length of a topic or purpose. Slack limits them to 250 characters, but a forged one may be longer.
const SHOWN: usize = 400;

/// Prints the current state of a channel, or every state, oldest first.
pub(crate) async fn channel(
    archive: &dyn Archive,
    args: &SnapshotArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let read = &args.channel.read;
    let joined = find::find_channel(archive, &args.channel.channel, read.team.as_ref()).await?;
    let location = find::location_for_id(&joined, &args.channel.channel);
    if !args.history {
        return match (location.newest(archive).await?, read.json) {
            (Some(mut snapshot), true) => {
                add_bookmarks(archive, location, &mut snapshot).await?;
                add_pins(&joined, &mut snapshot).await?;
                if args.figures {
                    add_figures(archive, location, &mut snapshot).await?;
                }
                Ok(plain::json_line(out, &snapshot)?)
            }
            (Some(mut snapshot), false) => {
                add_bookmarks(archive, location, &mut snapshot).await?;
                add_pins(&joined, &mut snapshot).await?;
                let mut names = DisplayNames::new(archive, location.team.clone());
                Ok(state(out, location, &with_plain_text(&mut names, snapshot).await?)?)
            }
            (None, true) => Ok(()),
            (None, false) => Ok(print_only_messages_known(out, location)?),
        };
    }
    let mut rows = VisibleRows::all(archive, Query::partition(partition(location)), project::channel);
    if let Some(limit) = read.limit {
        rows.keep_newest(limit.get()).await?;
    }
    let zone = Zone::from_args(&read.zone);
    let mut names = DisplayNames::new(archive, location.team.clone());
    let mut before: Option<ChannelView> = None;
    while let Some(page) = rows.next().await? {
        for mut snapshot in page {
            if read.json {
                plain::json_line(out, &snapshot)?;
            } else {
                snapshot = with_plain_text(&mut names, snapshot).await?;
                if before.is_none() {
                    writeln!(out, "Times are in {}.", zone.name())?;
                }
                step(out, &zone, before.as_ref(), &snapshot)?;
            }
            before = Some(snapshot);
        }
    }
    if before.is_none() && !read.json {
        print_only_messages_known(out, location)?;
    }
    Ok(())
}

/// Adds the bookmarks of a channel that has or had some.
async fn add_bookmarks(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    snapshot: &mut ChannelView,
) -> Result<(), ArchiveError> {
    let bookmarks = bookmarks::bookmarks(archive, location).await?;
    if !bookmarks.is_empty() {
        snapshot.json_mut()["bookmarks"] = bookmarks.into();
    }
    Ok(())
}

async fn add_pins(channel: &JoinedChannel<'_>, snapshot: &mut ChannelView) -> Result<(), ArchiveError> {
    let pins: Vec<String> = pins::pinned(channel).await?.iter().map(ToString::to_string).collect();
    if !pins.is_empty() {
        snapshot.json_mut()["pins"] = json!(pins);
    }
    Ok(())
}

async fn add_figures(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    snapshot: &mut ChannelView,
) -> Result<(), ArchiveError> {
    let state = snapshot.clone();
    figures::channel::add_channel_figures(archive, location, state.name(), &state, snapshot.json_mut())
        .await?;
    let days = figures::channel::members_by_day(archive, location).await?;
    snapshot.json_mut()["members_by_day"] =
        days.iter().map(|(day, members)| json!({ "day": day, "members": members })).collect();
    Ok(())
}

/// Converts the topic and purpose of a snapshot from Slack's markup to plain text.
pub(crate) async fn with_plain_text(
    names: &mut DisplayNames<'_>,
    mut snapshot: ChannelView,
) -> Result<ChannelView, ArchiveError> {
    for name in ["topic", "purpose"] {
        if let Some(value) = snapshot.json_mut().get_mut(name)
            && let Some(text) = value.as_str()
        {
            *value = names.description_text(text).await?.into();
        }
    }
    Ok(snapshot)
}

fn partition(location: &ChannelOfTeam) -> String {
    key::channels(&location.team, &location.channel)
}

/// Returns the marks of a channel, such as `(archived)`.
pub(super) fn marks(snapshot: &ChannelView) -> String {
    let moved = snapshot.next_id().map(|_| "moved");
    snapshot.marks().chain(moved).map(|mark| format!(" ({mark})")).collect()
}

fn print_only_messages_known(out: &mut dyn Write, location: &ChannelOfTeam) -> io::Result<()> {
    writeln!(
        out,
        "{}: only its messages are known. With SLACK_BOT_TOKEN set, `annalist sync` asks Slack for names.",
        location.channel
    )
}

/// Prints the state of a channel in labelled lines.
fn state(out: &mut dyn Write, location: &ChannelOfTeam, snapshot: &ChannelView) -> io::Result<()> {
    let name = snapshot.name().map_or_else(|| "(no name)".to_owned(), |name| format!("#{name}"));
    writeln!(out, "{}  {}{}", location.channel, plain::excerpt(&name, SHOWN), marks(snapshot))?;
    let text = |text: Option<&str>| text.map(str::to_owned);
    let listed = |list: Vec<String>| (!list.is_empty()).then(|| list.join(", "));
    let added = |name: &str| snapshot.as_json()[name].as_array().into_iter().flatten();
    let former_names = snapshot.former_names().map(|name| format!("#{name}"));
    let pins = added("pins").filter_map(Value::as_str).map(str::to_owned);
    for (label, value) in [
        ("formerly", listed(former_names.collect())),
        ("topic", text(snapshot.topic())),
        ("purpose", text(snapshot.purpose())),
        ("canvas", text(snapshot.canvas())),
        ("visibility", text(snapshot.visibility())),
        ("shared with", listed(snapshot.shared_with().map(str::to_owned).collect())),
        ("pinned", listed(pins.collect())),
        ("came from", snapshot.previous_id().map(|id| id.to_string())),
        ("goes on as", snapshot.next_id().map(|id| id.to_string())),
    ] {
        if let Some(value) = value {
            writeln!(out, "    {label:<12} {}", plain::excerpt(&value, SHOWN))?;
        }
    }
    for bookmark in added("bookmarks") {
        let text = |name: &str| bookmark[name].as_str().unwrap_or_default();
        let removed = if bookmark["removed"] == true { " (removed)" } else { "" };
        let shown = format!("{}  {}{removed}", text("title"), text("link"));
        writeln!(out, "    {:<12} {}", "bookmark", plain::excerpt(&shown, SHOWN))?;
    }
    Ok(())
}

/// Prints an event of a channel with its time, and the fields that it changed.
fn step(
    out: &mut dyn Write,
    zone: &Zone,
    before: Option<&ChannelView>,
    after: &ChannelView,
) -> io::Result<()> {
    let time = zone.time(after.ts().unwrap_or_default());
    writeln!(out, "{time}  {}", plain::excerpt(&event_name(after), SHOWN))?;
    for (label, name) in [
        ("name", "name"),
        ("topic", "topic"),
        ("purpose", "purpose"),
        ("canvas", "canvas"),
        ("visibility", "visibility"),
        ("archived", "archived"),
        ("deleted", "deleted"),
        ("came from", "prev_channel_id"),
        ("goes on as", "next_channel_id"),
    ] {
        let (was, is) =
            (before.map_or(&Value::Null, |before| &before.as_json()[name]), &after.as_json()[name]);
        if was != is {
            writeln!(out, "    {label:<12} {}", plain::excerpt(&display_value(is), SHOWN))?;
        }
    }
    Ok(())
}

/// Returns Slack's name of the event that created a snapshot.
fn event_name(snapshot: &ChannelView) -> String {
    let raw = snapshot.raw().unwrap_or_default();
    let subtype = raw["subtype"].as_str();
    subtype.or_else(|| raw["type"].as_str()).unwrap_or("listed in Slack's directory").to_owned()
}

fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Null | Value::Bool(false) => "no longer".to_owned(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use rules::channel::{ChannelEvent, index};
    use slack::ids::{ChannelId, TeamId};

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};
    use crate::read::{ChannelArgs, ReadArgs};
    use testkit::fake_slack::bookmark;
    use workers::channel_indexer;

    fn args(name: &str, json: bool) -> SnapshotArgs {
        let read = ReadArgs { json, ..message_args("C1", "1700000001.000000").read };
        let channel = ChannelArgs { channel: name.into(), read };
        SnapshotArgs { channel, history: false, figures: false, forget_public: false }
    }

    async fn printed(fixture: &CliFixture, name: &str, history: bool, json: bool) -> String {
        let args = SnapshotArgs { history, ..args(name, json) };
        output(async |out| channel(fixture.archive(), &args, out).await).await.unwrap()
    }

    #[tokio::test]
    async fn a_topic_is_plain_text_and_in_json_slacks_markup() {
        let fixture = release().await;
        fixture.person("T1", "U1", "ana").await;
        let topic = "a &lt;b&gt; &amp; <https://example.com|there>, ask <@U1> in <#C1>";
        fixture.channel_notice("T1", "C1", "1795178101.000100", "channel_topic", ("topic", topic)).await;
        let expected = "topic        a <b> & there (https://example.com), ask @ana in #release\n";
        for history in [false, true] {
            let text = printed(&fixture, "C1", history, false).await;
            assert!(text.contains(expected), "{text}");
        }
        assert!(printed(&fixture, "C1", false, true).await.contains(topic));
    }

    #[tokio::test]
    async fn bookmarks_are_listed_and_removed_ones_are_marked() {
        let fixture = release().await;
        let listed = |id: &str| bookmark(id, "Wi\u{1b}ki", "https://example.com/");
        let (team, id, at) =
            ("T1".parse().unwrap(), "C1".parse().unwrap(), "1700000001.000000".parse().unwrap());
        let both = [listed("Bk1"), listed("Bk2")];
        let mut updates = rules::bookmark::compare(&team, &id, &both, &[], &at).updates;
        updates[1].set.insert("removed".into(), true.into());
        for update in &updates {
            fixture.archive().write(update).await.unwrap();
        }
        let text = printed(&fixture, "C1", false, false).await;
        assert!(
            text.ends_with(
                "    bookmark     Wi␛ki  https://example.com/\n    bookmark     Wi␛ki  https://example.com/ (removed)\n"
            ),
            "{text}"
        );
        let json: Value = serde_json::from_str(&printed(&fixture, "C1", false, true).await).unwrap();
        assert_eq!(
            json["bookmarks"],
            json!([
                { "id": "Bk1", "title": "Wi\u{1b}ki", "link": "https://example.com/" },
                { "id": "Bk2", "title": "Wi\u{1b}ki", "link": "https://example.com/", "removed": true },
            ])
        );
    }

    #[tokio::test]
    async fn the_canvas_of_a_channel_is_named_by_its_file_id() {
        let fixture = release().await;
        let json =
            async || -> Value { serde_json::from_str(&printed(&fixture, "C1", false, true).await).unwrap() };
        assert_eq!(json().await.get("canvas"), None);
        let listed = json!({ "id": "C1", "name": "release", "created": 1_600_000_000,
            "properties": { "canvas": { "file_id": "F0PLAN", "is_empty": false } } });
        let raw = serde_json::value::to_raw_value(&listed).unwrap();
        let clock = "1795178102.000100".parse().unwrap();
        let listed = ChannelEvent::listed(&"T1".parse().unwrap(), &raw, &clock).unwrap();
        for stored in channel_indexer::store(fixture.archive(), &[listed], index::SHARD_BYTES).await {
            stored.unwrap();
        }
        assert_eq!(json().await["canvas"], "F0PLAN");
        let text = printed(&fixture, "C1", false, false).await;
        assert!(text.contains("    canvas       F0PLAN\n"), "{text}");
    }

    async fn release() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1795178096.000100", "launch").await;
        fixture.rename("T1", "C1", "1795178097.000100", "release").await;
        fixture
            .channel_notice(
                "T1",
                "C1",
                "1795178098.000100",
                "channel_topic",
                ("topic", "Out on\u{1b}[2J\nThursday"),
            )
            .await;
        fixture.channel_event("T1", "channel_archive", "C1", "1795178099.000100").await;
        fixture.channel_event("T1", "channel_unarchive", "C1", "1795178100.000100").await;
        fixture
    }

    #[tokio::test]
    async fn pinned_messages_that_are_in_the_archive_are_listed() {
        let fixture = release().await;
        for ts in ["1795178101.000100", "1795178102.000100"] {
            fixture.post("T1", "C1", ts, "read this").await;
        }
        let json =
            async || -> Value { serde_json::from_str(&printed(&fixture, "C1", false, true).await).unwrap() };
        assert_eq!(json().await.get("pins"), None);
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        for ts in ["1795178102.000100", "1795178103.000100"] {
            let item = json!({ "created": 1_795_178_110, "created_by": "U1", "message": { "ts": ts } });
            let (ts, pin) = rules::pin::in_list(&item).unwrap();
            for update in pin.updates(&team, &channel, &ts) {
                fixture.archive().write(&update).await.unwrap();
            }
        }
        assert_eq!(json().await["pins"], json!(["1795178102.000100"]));
        let text = printed(&fixture, "C1", false, false).await;
        assert!(text.contains("    pinned       1795178102.000100\n"), "{text}");
    }

    #[tokio::test]
    async fn a_channel_is_shown_as_it_is_now() {
        let fixture = release().await;
        assert_eq!(
            printed(&fixture, "#release", false, false).await,
            "C1  #release\n    formerly     #launch\n    topic        Out on␛[2J Thursday\n    visibility   public\n"
        );
        fixture.channel_id_changed("T1", "C1", "C2", "1795178101.000100").await;
        fixture.channel_event("T1", "channel_deleted", "C2", "1795178102.000100").await;
        let now = printed(&fixture, "C2", false, false).await;
        assert!(now.starts_with("C2  #release (deleted)\n"), "{now}");
        assert!(now.contains("    formerly     #launch\n") && now.contains("    came from    C1\n"), "{now}");
        let before = printed(&fixture, "C1", false, false).await;
        assert!(before.contains("(moved)") && before.contains("    goes on as   C2\n"), "{before}");
    }

    #[tokio::test]
    async fn figures_match_channelstats_and_include_members_by_day() {
        let fixture = release().await;
        let (team, id) = ("T1".parse().unwrap(), "C1".parse().unwrap());
        for (day, members) in [("2026-11-19", 4), ("2026-11-20", 5)] {
            let mut update = Update::new(ItemKey::members(&team, &id, day));
            update.set.insert("members".into(), members.into());
            fixture.archive().write(&update).await.unwrap();
        }
        let args = SnapshotArgs { figures: true, ..args("#release", true) };
        let mut out = Vec::new();
        channel(fixture.archive(), &args, &mut out).await.unwrap();
        let found: Value = serde_json::from_slice(&out).unwrap();
        let figures = json!({ "slack_cid": "C1", "friendly_name": "release", "members": 5, "is_channel": true,
            "is_group": false, "is_im": false, "is_mpim": false, "created": 1_360_782_804,
            "members_by_day": [{ "day": "2026-11-19", "members": 4 }, { "day": "2026-11-20", "members": 5 }] });
        for (name, value) in figures.as_object().unwrap() {
            assert_eq!(found[name], *value, "{name}");
        }
    }

    #[tokio::test]
    async fn the_history_lists_events_and_changed_fields() {
        let history = printed(&release().await, "release", true, false).await;
        assert_eq!(
            history,
            "Times are in UTC.\n2026-11-20 12:34:56  channel_created\n    name         launch\n    visibility   public\n\
             2026-11-20 12:34:57  channel_rename\n    name         release\n\
             2026-11-20 12:34:58  channel_topic\n    topic        Out on␛[2J Thursday\n\
             2026-11-20 12:34:59  channel_archive\n    archived     yes\n\
             2026-11-20 12:35:00  channel_unarchive\n    archived     no longer\n"
        );
    }

    #[test]
    fn a_lone_surrogate_does_not_hide_the_event_name() {
        let renamed = r#"{"type":"channel_rename","channel":{"id":"C1","name":"plan-\ud83d"}}"#;
        assert_eq!(event_name(&json!({ "raw_event": renamed }).into()), "channel_rename");
    }

    #[tokio::test]
    async fn json_is_one_snapshot_per_line_oldest_first_without_bookkeeping() {
        let fixture = release().await;
        let history = printed(&fixture, "C1", true, true).await;
        let rows: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["launch", "release", "release", "release", "release"]);
        assert_eq!(rows[3]["archived"], true);
        assert_eq!(rows[4]["names_history"], serde_json::json!(["release", "launch"]));
        for row in &rows {
            let object = row.as_object().unwrap();
            assert!(object.keys().all(|name| !name.starts_with("raw#") && name != "folded"), "{row}");
            assert!(!object.values().any(|value| value == false), "{row}");
        }
        let now = printed(&fixture, "C1", false, true).await;
        assert_eq!(now.lines().collect::<Vec<_>>(), [history.lines().last().unwrap()]);
    }

    #[tokio::test]
    async fn a_channel_with_only_messages_prints_advice() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "text").await;
        for history in [false, true] {
            assert!(printed(&fixture, "C1", history, false).await.contains("annalist sync"));
            assert_eq!(printed(&fixture, "C1", history, true).await, "");
        }
    }
}
