//! The open breakers of the existence check, as stored in rows.

use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, Update, key, query_all};
use ports::clock::TimestampMs;
use serde::{Deserialize, Serialize};

use super::failing::{Breaker, Failing};

/// A row stays valid this long after the next probe is due: the probe takes its time.
const ROW_GRACE: Duration = Duration::from_secs(30);

/// A workspace whose events wait because Slack cannot be asked about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The workspace.
    #[serde(rename = "team_id")]
    pub team: String,
    /// The method that waits, if only one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Since when, in seconds since the Unix epoch.
    #[serde(rename = "since")]
    pub since_s: i64,
    /// The earliest end of the wait, in seconds since the Unix epoch.
    #[serde(rename = "until")]
    pub until_s: i64,
    /// The reason of the wait.
    pub reason: String,
}

/// The workspaces that wait now. An expired row belongs to a process that ended, and does not count.
pub async fn read_waiting(archive: &dyn Archive, now: TimestampMs) -> Result<Vec<Waiting>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::existence_breakers())).await?;
    let waiting = rows.iter().filter_map(|row| Waiting::deserialize(&row.attributes).ok());
    Ok(waiting.filter(|waiting| waiting.until_s > now.seconds()).collect())
}

fn key_of(Breaker { team, method }: &Breaker) -> ItemKey {
    let name = method.map_or_else(|| team.to_string(), |method| format!("{team}#{}", method.name()));
    ItemKey::existence_breaker(&name)
}

/// Writes the row of an open breaker.
pub(super) async fn write(
    archive: &dyn Archive,
    breaker: &Breaker,
    failing: &Failing,
) -> Result<(), ArchiveError> {
    let waiting = Waiting {
        team: breaker.team.to_string(),
        method: breaker.method.map(|method| method.name().to_owned()),
        since_s: failing.since.unwrap_or(failing.until).seconds(),
        until_s: failing.until.plus(ROW_GRACE).seconds(),
        reason: failing.reason.clone(),
    };
    // Texts and numbers always serialise.
    let set = serde_json::to_value(waiting).ok().and_then(|waiting| serde_json::from_value(waiting).ok());
    let update = Update { set: set.unwrap_or_default(), ..Update::new(key_of(breaker)) };
    archive.write(&update).await.map(drop)
}

/// Removes the row of a breaker that has closed.
pub(super) async fn remove(archive: &dyn Archive, breaker: &Breaker) -> Result<(), ArchiveError> {
    if let Some(row) = archive.get(&key_of(breaker)).await? {
        // A row that changed meanwhile belongs to another waiting process.
        archive.delete_unchanged(&row).await?;
    }
    Ok(())
}
