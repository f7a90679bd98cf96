//! What the existence check waits for, as its rows say it.

use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Query, Update, key, query_all};
use ports::clock::TimestampMs;
use serde_json::Value;
use slack_api::Method;

use super::failing::{Breaker, Failing};

/// A row stays valid this long after the next probe is due: the probe takes its time.
const ROW_GRACE: Duration = Duration::from_secs(30);

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

fn key_of(Breaker { team, method }: &Breaker) -> ItemKey {
    let what = method.map_or_else(|| team.to_string(), |method| format!("{team}#{}", method.name()));
    ItemKey::existence_breaker(&what)
}

/// Writes that a breaker is open.
pub(super) async fn write(
    archive: &dyn Archive,
    breaker: &Breaker,
    failing: &Failing,
) -> Result<(), ArchiveError> {
    let mut update = Update::new(key_of(breaker));
    update.set = [
        ("team_id", Some(Value::from(breaker.team.as_str()))),
        ("method", breaker.method.map(Method::name).map(Value::from)),
        ("since", failing.since.map(|since| since.seconds().into())),
        ("until", Some(failing.until.plus(ROW_GRACE).seconds().into())),
        ("reason", Some(failing.reason.as_str().into())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    archive.write(&update).await.map(drop)
}

/// Removes the row of a breaker that has closed.
pub(super) async fn remove(archive: &dyn Archive, breaker: &Breaker) -> Result<(), ArchiveError> {
    if let Some(row) = archive.get(&key_of(breaker)).await? {
        // Changed meanwhile, it is another process's, which waits itself.
        archive.delete_unchanged(&row).await?;
    }
    Ok(())
}
