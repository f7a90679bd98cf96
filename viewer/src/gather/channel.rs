//! Finds channels and their titles.

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};
use reader::bookmarks;
use reader::directory;
use reader::find;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::{DisplayNames, is_visible};
use reader::pins;
use reader::proof;
use rules::channel::index::bare_name;
use rules::project;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};

use super::timeline::page_message;
use crate::pages::message::PageMessage;
use crate::pages::timeline::{ChannelBookmark, ChannelTitle};

/// Slack permits 100 pins in a channel.
const MAX_PINS: usize = 100;

/// Returns the channel with this id in this workspace, with all its locations. `None` if it is not in the
/// archive.
pub async fn channel_in_team<'a>(
    archive: &'a dyn Archive,
    team: &str,
    channel: &str,
) -> Result<Option<JoinedChannel<'a>>, ArchiveError> {
    let (Ok(team), Ok(channel)) = (TeamId::parse(team), ChannelId::parse(channel)) else { return Ok(None) };
    let teams = find::teams(archive).await?;
    let location = ChannelOfTeam { team, channel };
    if !teams.contains(&location.team) || !location.exists(archive).await? {
        return Ok(None);
    }
    find::joined_channel(archive, &location, &teams).await.map(Some)
}

/// Returns the channel with this id in any workspace.
pub async fn channel_in_any_team<'a>(
    archive: &'a dyn Archive,
    channel: &ChannelId,
) -> Result<Option<JoinedChannel<'a>>, ArchiveError> {
    let teams = find::teams(archive).await?;
    for team in &teams {
        let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
        if location.exists(archive).await? {
            return find::joined_channel(archive, &location, &teams).await.map(Some);
        }
    }
    Ok(None)
}

/// Returns the day up to which a channel was compared with Slack.
pub async fn proven_to(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
) -> Result<Option<String>, ArchiveError> {
    let known = proof::of_channel(archive, &location.team, &location.channel).await?;
    Ok(known.proven.map(|proven| proof::last_day(&proven.through)))
}

/// Returns a channel's name, topic, marks and bookmarks.
pub async fn title(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    names: &mut DisplayNames<'_>,
) -> Result<ChannelTitle, ArchiveError> {
    let snapshot = location.newest(archive).await?.unwrap_or_default();
    let listed = directory::read(archive, &location.team).await?;
    let listed = listed.name(&location.channel).map(|name| bare_name(name, snapshot.is_deleted()));
    let mut stored = [listed, snapshot.name()].into_iter().flatten();
    let name = stored.find(|name| is_visible(name)).unwrap_or(location.channel.as_str());
    let topic = match snapshot.topic() {
        Some(topic) => names.description_text(topic).await?,
        None => String::new(),
    };
    let bookmarks = bookmarks::bookmarks(archive, location).await?;
    let text = |bookmark: &Value, name: &str| bookmark[name].as_str().unwrap_or_default().to_owned();
    let bookmarks = bookmarks.iter().map(|bookmark| ChannelBookmark {
        title: text(bookmark, "title"),
        address: text(bookmark, "link"),
        is_removed: bookmark["removed"] == true,
    });
    Ok(ChannelTitle {
        name: name.to_owned(),
        topic,
        marks: snapshot.marks().collect(),
        pins: Vec::new(),
        feed: None,
        bookmarks: bookmarks.collect(),
    })
}

/// Returns the newest pinned messages of a channel, oldest first, with the dates in their texts in this zone.
pub async fn pins(channel: &JoinedChannel<'_>, zone: &TimeZone) -> Result<Vec<PageMessage>, ArchiveError> {
    let pinned = pins::pinned(channel).await?;
    let newest: Vec<&Ts> = pinned.iter().rev().take(MAX_PINS).rev().collect();
    let rows = channel.messages(&newest).await?.into_iter().flatten();
    Ok(rows.filter_map(|row| page_message(project::message(&row)?, zone)).collect())
}
