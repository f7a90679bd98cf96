//! How many messages a channel has, and how many replies a message: rows of the archive do not say it, and to count them there
//! is to read them.

use std::collections::BTreeMap;

use reader::joined::ChannelOfTeam;
use rusqlite::Connection;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::index::SearchIndex;
use crate::put::{known_place, spelled};
use crate::schema::IndexError;

/// The replies to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSize {
    /// How many there are, those that were also sent to the channel included.
    pub replies: u64,
    /// The newest of them.
    pub last: Ts,
}

impl SearchIndex {
    /// The replies to each of these messages of a channel, which lies in these places. Messages without replies are missing.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn thread_sizes(
        &self,
        places: &[ChannelOfTeam],
        roots: &[Ts],
    ) -> Result<BTreeMap<Ts, ThreadSize>, IndexError> {
        let (places, roots) = (places.to_vec(), roots.to_vec());
        self.run(move |connection| thread_sizes(connection, &places, &roots)).await
    }

    /// How many messages each place has.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn message_counts(&self) -> Result<BTreeMap<ChannelOfTeam, u64>, IndexError> {
        self.run(|connection| message_counts(connection)).await
    }
}

fn thread_sizes(
    connection: &Connection,
    places: &[ChannelOfTeam],
    roots: &[Ts],
) -> rusqlite::Result<BTreeMap<Ts, ThreadSize>> {
    let mut ids = Vec::new();
    for ChannelOfTeam { team, channel } in places {
        ids.extend(known_place(connection, [team.as_str(), channel.as_str()])?);
    }
    let mut sizes = BTreeMap::new();
    if ids.is_empty() {
        return Ok(sizes);
    }
    let places: Vec<String> = (0..ids.len()).map(|place| format!("?{}", place + 2)).collect();
    // A channel that several workspaces share has each message in each of them.
    let mut counting = connection.prepare_cached(&format!(
        "SELECT count(DISTINCT ts), max(ts) FROM messages WHERE place IN ({}) AND thread = ?1 AND ts <> ?1",
        places.join(", ")
    ))?;
    for root in roots {
        let values = std::iter::once(root.micros()).chain(ids.iter().copied());
        let (replies, last): (i64, Option<i64>) =
            counting.query_row(rusqlite::params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(last) = last.and_then(|last| Ts::parse(&spelled(last)).ok()) {
            sizes.insert(root.clone(), ThreadSize { replies: replies.cast_unsigned(), last });
        }
    }
    Ok(sizes)
}

fn message_counts(connection: &Connection) -> rusqlite::Result<BTreeMap<ChannelOfTeam, u64>> {
    let mut counting =
        connection.prepare_cached("SELECT team, channel, messages FROM places WHERE messages > 0")?;
    let rows = counting.query_map([], |row| {
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
