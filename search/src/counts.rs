//! The numbers of messages per channel and of replies per message. The archive does not store them, and
//! counting them there would read all rows.

use std::collections::BTreeMap;

use reader::joined::ChannelOfTeam;
use rusqlite::{Connection, OptionalExtension};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::index::SearchIndex;
use crate::schema::IndexError;
use crate::write::{known_place_id, place_query, ts_text};

/// The replies to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSize {
    /// The number of replies, including those that were also sent to the channel.
    pub replies: u64,
    /// The newest reply.
    pub last: Ts,
}

/// The messages at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelActivity {
    pub messages: u64,
    /// The newest of them.
    pub newest: Option<Ts>,
}

impl SearchIndex {
    /// Returns the number of messages at each location, and the newest of them.
    pub async fn activity(&self) -> Result<BTreeMap<ChannelOfTeam, ChannelActivity>, IndexError> {
        self.read(activity).await
    }

    /// Returns the replies to each of these messages of a channel with these locations. Messages without
    /// replies are missing.
    pub async fn thread_sizes(
        &self,
        locations: &[ChannelOfTeam],
        roots: &[Ts],
    ) -> Result<BTreeMap<Ts, ThreadSize>, IndexError> {
        let (locations, roots) = (locations.to_vec(), roots.to_vec());
        self.read(move |connection| thread_sizes(connection, &locations, &roots)).await
    }

    /// Returns the number of messages at each location.
    pub async fn message_counts(&self) -> Result<BTreeMap<ChannelOfTeam, u64>, IndexError> {
        self.read(message_counts).await
    }
}

fn thread_sizes(
    connection: &Connection,
    locations: &[ChannelOfTeam],
    roots: &[Ts],
) -> rusqlite::Result<BTreeMap<Ts, ThreadSize>> {
    let mut ids = Vec::new();
    for ChannelOfTeam { team, channel } in locations {
        ids.extend(known_place_id(connection, [team.as_str(), channel.as_str()])?);
    }
    let mut sizes = BTreeMap::new();
    if ids.is_empty() {
        return Ok(sizes);
    }
    let parameters: Vec<String> = (0..ids.len()).map(|index| format!("?{}", index + 2)).collect();
    // A channel that several workspaces share has each message once per workspace.
    let mut statement = connection.prepare_cached(&format!(
        "SELECT count(DISTINCT ts), max(ts) FROM messages WHERE place IN ({}) AND thread = ?1 AND ts <> ?1",
        parameters.join(", ")
    ))?;
    for root in roots {
        let values = std::iter::once(root.micros()).chain(ids.iter().copied());
        let (replies, last): (i64, Option<i64>) =
            statement.query_row(rusqlite::params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(last) = last.and_then(|last| Ts::parse(&ts_text(last)).ok()) {
            sizes.insert(root.clone(), ThreadSize { replies: replies.cast_unsigned(), last });
        }
    }
    Ok(sizes)
}

fn message_counts(connection: &Connection) -> rusqlite::Result<BTreeMap<ChannelOfTeam, u64>> {
    let mut statement =
        connection.prepare_cached("SELECT team, channel, messages FROM places WHERE messages > 0")?;
    let rows = statement.query_map([], |row| {
        let (team, channel): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((team, channel, row.get::<_, i64>(2)?.cast_unsigned()))
    })?;
    let mut counts = BTreeMap::new();
    for row in rows {
        let (team, channel, messages) = row?;
        if let (Ok(team), Ok(channel)) = (TeamId::parse(&team), ChannelId::parse(&channel)) {
            counts.insert(ChannelOfTeam { team, channel }, messages);
        }
    }
    Ok(counts)
}

fn activity(connection: &Connection) -> rusqlite::Result<BTreeMap<ChannelOfTeam, ChannelActivity>> {
    // The ids of messages are in the order of their seconds.
    let mut newest = connection.prepare_cached(
        "SELECT messages.ts FROM words CROSS JOIN messages ON messages.id = words.rowid \
         WHERE words MATCH ?1 AND messages.counted = 1 ORDER BY words.rowid DESC LIMIT 1",
    )?;
    let mut activity = BTreeMap::new();
    for (location, messages) in message_counts(connection)? {
        let place = known_place_id(connection, [location.team.as_str(), location.channel.as_str()])?;
        let ts = match place {
            Some(place) => newest.query_row([place_query(place)], |row| row.get(0)).optional()?,
            None => None,
        };
        let newest = ts.and_then(|ts| Ts::parse(&ts_text(ts)).ok());
        activity.insert(location, ChannelActivity { messages, newest });
    }
    Ok(activity)
}
