//! What the existence check waits for, as its rows say it.

use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use ports::clock::TimestampMs;
use serde_json::Value;

/// A workspace whose events wait because Slack cannot be asked about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The workspace.
    pub team: String,
    /// The only method of which that is so.
    pub method: Option<String>,
    /// Since when, in seconds since the Unix epoch.
    pub since_s: i64,
    /// Until when at least.
    pub until_s: i64,
    /// Why.
    pub reason: String,
}

/// What is waited for now. A row whose time has passed is of a process that ended, and does not count.
///
/// # Errors
/// As [`Archive::query`].
pub async fn waiting(archive: &dyn Archive, now: TimestampMs) -> Result<Vec<Waiting>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::EXISTENCE_BREAKERS)).await?;
    let waiting = rows.iter().filter_map(read);
    Ok(waiting.filter(|waiting| waiting.until_s > now.seconds()).collect())
}

fn read(row: &Item) -> Option<Waiting> {
    let number = |name: &str| row.attributes.get(name).and_then(Value::as_i64);
    Some(Waiting {
        team: row.text("team_id")?.to_owned(),
        method: row.text("method").map(str::to_owned),
        since_s: number("since")?,
        until_s: number("until")?,
        reason: row.text("reason")?.to_owned(),
    })
}
