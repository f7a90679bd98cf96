//! The versions of a message.

use jiff::tz::TimeZone;
use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use rules::{message, project};
use serde_json::Value;
use slack::ids::Ts;

use super::timeline::page_message;
use crate::pages::versions::MessageVersion;

/// Maximum number of versions that are shown, the newest ones. A message may have any number of versions.
const MAX_VERSIONS: usize = 500;

/// Reads the versions, oldest first.
pub async fn read(
    channel: &JoinedChannel<'_>,
    ts: &Ts,
    zone: &TimeZone,
) -> Result<Vec<MessageVersion>, ArchiveError> {
    let current = channel.message(ts).await?;
    let rows = channel.revisions(ts).await?;
    let message::Versions { replaced, since } = message::versions(&rows, current.as_ref());
    let surplus = replaced.len().saturating_sub(MAX_VERSIONS);
    let replaced = replaced[surplus..].iter().map(|version| (version.row, &version.clock));
    let all = replaced.chain(current.as_ref().map(|current| (current, &since)));
    let version = |(row, clock): (&ports::archive::Item, &Ts)| {
        let row = project::message(row)?;
        // Only edits contain their time. For any other change, use the clock of its event.
        let edited = row.raw().and_then(|raw| edited_ts(&raw));
        let since = edited.or_else(|| (clock > ts).then(|| clock.clone()));
        Some(MessageVersion { since, message: page_message(row, zone)? })
    };
    Ok(all.filter_map(version).collect())
}

/// Returns the time of the edit in a message's event.
fn edited_ts(raw: &Value) -> Option<Ts> {
    Ts::parse(raw["edited"]["ts"].as_str()?).ok()
}
