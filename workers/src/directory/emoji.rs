//! The custom emoji of a workspace. <https://docs.slack.dev/reference/methods/emoji.list>

use std::collections::BTreeMap;

use ports::archive::{Item, Query, Update, key, query_all};
use rules::directory::{emoji_update, emoji_value};
use serde::Deserialize;
use serde_json::Value;
use slack::ids::Ts;
use slack_api::Method;

use super::listing::call_with_retries;
use super::sync::write;
use super::{DirectorySync, SyncError, SyncReport};

/// A value is a URL of Slack's, or the name of another emoji.
const MAX_VALUE_BYTES: usize = 4_096;

#[derive(Deserialize)]
struct ListedEmoji {
    emoji: BTreeMap<String, Value>,
}

impl DirectorySync {
    /// Syncs all custom emoji. Slack lists them all at once; an emoji that is no longer listed was removed.
    pub(super) async fn sync_emoji(&self, clock: &mut Ts, report: &mut SyncReport) -> Result<(), SyncError> {
        let team = report.team.clone();
        let reply = call_with_retries(&self.api, &team, Method::EmojiList, &[]).await?;
        let ListedEmoji { emoji: listed } = reply.read()?;
        report.emoji.listed = listed.len();
        let rows = query_all(&*self.archive, Query::partition(key::emoji(&team))).await?;
        let known: BTreeMap<&str, Option<&str>> =
            rows.iter().map(|row| (row.key.timestamp.as_str(), emoji_value(row))).collect();

        let mut updates = Vec::new();
        for (name, value) in &listed {
            let Some(value) = value.as_str().filter(|value| value.len() <= MAX_VALUE_BYTES) else {
                report.emoji.skipped += 1;
                continue;
            };
            if known.get(name.as_str()) == Some(&Some(value)) {
                continue;
            }
            match emoji_update(&team, name, Some(value), clock) {
                Ok(update) => updates.push(vec![update]),
                Err(malformed) => {
                    report.emoji.skipped += 1;
                    report.first_skipped.get_or_insert(malformed);
                }
            }
        }
        let gone = rows.iter().filter(|row| emoji_value(row).is_some() && !listed.contains_key(name_of(row)));
        let gone = gone.filter_map(|row| emoji_update(&team, name_of(row), None, clock).ok());
        updates.extend(gone.map(|update: Update| vec![update]));

        let written = write(&*self.archive, &updates).await?;
        report.emoji.changed = written.changed;
        report.emoji.skipped += written.too_large;
        if let Some(date) = reply.date() {
            *clock = date.clone();
        }
        let unchanged = rows.iter().filter(|row| {
            let value = listed.get(name_of(row)).and_then(Value::as_str);
            value.is_some() && value == emoji_value(row)
        });
        self.pictures.send(&*self.queue, &team, updates.iter().flatten(), unchanged).await
    }
}

fn name_of(row: &Item) -> &str {
    &row.key.timestamp
}
