//! The fields that channelstats stores for a channel, under its names.

use ports::archive::{Archive, ArchiveError, Query, key, newest, query_all};
use rules::figures::members;
use rules::view::ChannelView;
use serde_json::{Value, json};

use crate::history;
use crate::joined::ChannelOfTeam;

/// Adds the fields of channelstats to a channel as readers see it. `name` is its current name, `state` its
/// current snapshot.
pub async fn add_channel_figures(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    name: Option<&str>,
    state: &ChannelView,
    seen: &mut Value,
) -> Result<(), ArchiveError> {
    let ChannelOfTeam { team, channel } = location;
    let created = history::created(archive, team, channel).await?;
    let is_private = state.is_private();
    let members = match state.is_archived() {
        true => Some(0),
        false => newest_count(archive, location).await?.or_else(|| count_in_event(state)),
    };
    let figures = json!({
        "slack_cid": channel, "friendly_name": name, "members": members,
        "is_channel": !is_private, "is_group": is_private,
        // Direct messages are never stored.
        "is_im": false, "is_mpim": false,
        "created": created.map(|created| created.micros() / 1_000_000),
    });
    if let (Value::Object(seen), Value::Object(figures)) = (seen, figures) {
        seen.extend(figures);
    }
    Ok(())
}

/// Returns the number of members of a channel by day, oldest first.
pub async fn members_by_day(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
) -> Result<Vec<(String, u64)>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::members(&location.team, &location.channel))).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.key.timestamp.clone(), members::count(&row)?))).collect())
}

async fn newest_count(archive: &dyn Archive, location: &ChannelOfTeam) -> Result<Option<u64>, ArchiveError> {
    let newest = newest(archive, key::members(&location.team, &location.channel)).await?;
    Ok(newest.as_ref().and_then(members::count))
}

/// Returns the number of members in the last event that changed the channel.
fn count_in_event(state: &ChannelView) -> Option<u64> {
    let raw = state.raw()?;
    ["/channel/num_members", "/num_members"].into_iter().find_map(|path| raw.pointer(path)?.as_u64())
}
