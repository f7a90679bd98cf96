//! What channelstats keeps of a channel, under its names.

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::members;
use serde_json::{Value, json};
use slack::envelope;

use crate::history;
use crate::joined::ChannelOfTeam;

/// Adds to what readers see of a channel what channelstats keeps of it; `name` is what it is called now, and `state` the channel as
/// it is now.
///
/// # Errors
/// As [`Archive::query`].
pub async fn add(
    archive: &dyn Archive,
    place: &ChannelOfTeam,
    name: Option<&str>,
    state: &Value,
    seen: &mut Value,
) -> Result<(), ArchiveError> {
    let ChannelOfTeam { team, channel } = place;
    let created = history::created(archive, team, channel).await?;
    let is_private = state["visibility"] == "private";
    let members = match state["archived"] == true {
        true => Some(0),
        false => newest_count(archive, place).await?.or_else(|| told(state)),
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

/// How many members a channel had, by day, oldest first.
///
/// # Errors
/// As [`Archive::query`].
pub async fn members_by_day(
    archive: &dyn Archive,
    place: &ChannelOfTeam,
) -> Result<Vec<(String, u64)>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::members(&place.team, &place.channel))).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.key.timestamp.clone(), members::count(&row)?))).collect())
}

async fn newest_count(archive: &dyn Archive, place: &ChannelOfTeam) -> Result<Option<u64>, ArchiveError> {
    let partition = key::members(&place.team, &place.channel);
    let newest = Query { descending: true, limit: 1, ..Query::partition(partition) };
    Ok(archive.query(&newest).await?.items.iter().find_map(members::count))
}

/// How many members the last event that changed the channel told of.
fn told(state: &Value) -> Option<u64> {
    let raw = envelope::value(state["raw_event"].as_str()?).ok()?;
    ["/channel/num_members", "/num_members"].into_iter().find_map(|path| raw.pointer(path)?.as_u64())
}
