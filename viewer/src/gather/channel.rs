//! Which channel is meant, and what it is called.

use ports::archive::{Archive, ArchiveError};
use reader::directory;
use reader::find;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use rules::channel::fold::DELETED_PREFIX;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};

use crate::pages::timeline::ChannelTitle;

/// The channel that has this id in this workspace, in all its places. `None` if nothing of it is stored.
///
/// # Errors
/// As [`Archive::query`].
pub async fn in_team<'a>(
    archive: &'a dyn Archive,
    team: &str,
    channel: &str,
) -> Result<Option<JoinedChannel<'a>>, ArchiveError> {
    let (Ok(team), Ok(channel)) = (TeamId::parse(team), ChannelId::parse(channel)) else { return Ok(None) };
    let teams = find::teams(archive).await?;
    let place = ChannelOfTeam { team, channel };
    if !teams.contains(&place.team) || !place.exists(archive).await? {
        return Ok(None);
    }
    find::joined(archive, &place, &teams).await.map(Some)
}

/// The channel that has this id, in whatever workspace.
///
/// # Errors
/// As [`Archive::query`].
pub async fn anywhere<'a>(
    archive: &'a dyn Archive,
    channel: &ChannelId,
) -> Result<Option<JoinedChannel<'a>>, ArchiveError> {
    let teams = find::teams(archive).await?;
    for team in &teams {
        let place = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
        if place.exists(archive).await? {
            return find::joined(archive, &place, &teams).await.map(Some);
        }
    }
    Ok(None)
}

/// What a channel is called, and what it is about.
///
/// # Errors
/// As [`Archive::query`].
pub async fn title(
    archive: &dyn Archive,
    place: &ChannelOfTeam,
    names: &mut DisplayNames<'_>,
) -> Result<ChannelTitle, ArchiveError> {
    let snapshot = place.newest(archive).await?.unwrap_or(Value::Null);
    let listed = directory::read(archive, &place.team).await?;
    let name = listed.name(&place.channel).or(snapshot["name"].as_str()).unwrap_or(place.channel.as_str());
    let topic = match snapshot["topic"].as_str() {
        Some(topic) => names.described(topic).await?,
        None => String::new(),
    };
    Ok(ChannelTitle { name: bare_name(name).to_owned(), topic, marks: marks(&snapshot) })
}

/// A channel's name without what stands before that of a deleted one: its mark says it.
#[must_use]
pub fn bare_name(name: &str) -> &str {
    name.strip_prefix(DELETED_PREFIX).unwrap_or(name)
}

/// What else a channel is, if it is not simply public.
#[must_use]
pub fn marks(snapshot: &Value) -> Vec<&'static str> {
    let marks = [
        ("archived", snapshot["archived"] == true),
        ("deleted", snapshot["deleted"] == true),
        ("private", snapshot["visibility"] == "private"),
        ("shared", snapshot["ext_shared"] == true),
    ];
    marks.into_iter().filter(|(_, is_set)| *is_set).map(|(mark, _)| mark).collect()
}
