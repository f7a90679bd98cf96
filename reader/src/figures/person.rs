//! The fields that channelstats stores for a person, under its names.

use std::collections::HashMap;

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::rollup;
use rules::view::PersonView;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};

/// The first message of each person of a workspace in the days that were counted.
pub struct FirstPosts(HashMap<String, (ChannelId, Ts)>);

impl FirstPosts {
    /// Reads the first messages.
    pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(key::first_posts(team))).await?;
        let first = rows.iter().filter_map(|row| Some((row.key.timestamp.clone(), rollup::first_post(row)?)));
        Ok(Self(first.collect()))
    }

    /// Adds the fields of channelstats to a person as readers see them. `first_post` is null if no message of
    /// the person was counted.
    pub fn add(&self, person: &mut PersonView) {
        let Some(id) = person.id() else { return };
        let first_post = self.0.get(id).map(
            |(channel, ts)| json!({ "slack_cid": channel, "message_id": ts, "ts": ts.micros() / 1_000_000 }),
        );
        let figures = json!({
            "slack_uid": id, "user_name": person.name(), "user_key": id.chars().last().map(String::from), "first_post": first_post,
        });
        if let (Value::Object(person), Value::Object(figures)) = (person.json_mut(), figures) {
            person.extend(figures);
        }
    }
}
