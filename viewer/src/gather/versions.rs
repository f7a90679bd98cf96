//! The versions of a message.

use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use rules::{message, project};
use slack::envelope;
use slack::ids::Ts;

use super::timeline::of_row;
use crate::pages::versions::MessageVersion;

/// Versions that are shown, the newest of them: their number is unlimited.
const MAX_VERSIONS: usize = 500;

/// Reads them, oldest first.
///
/// # Errors
/// As [`ports::archive::Archive::query`].
pub async fn read(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<Vec<MessageVersion>, ArchiveError> {
    let current = channel.message(ts).await?;
    let rows = channel.revisions(ts).await?;
    let message::Versions { replaced, since } = message::versions(&rows, current.as_ref());
    let surplus = replaced.len().saturating_sub(MAX_VERSIONS);
    let replaced = replaced[surplus..].iter().map(|version| (version.row, &version.clock));
    let all = replaced.chain(current.as_ref().map(|current| (current, &since)));
    let version = |(row, clock): (&ports::archive::Item, &Ts)| {
        let row = project::message(row)?;
        // Slack marks only edits with their time: another change stands at the clock at which Slack told of it.
        let edited = row["raw_event"].as_str().and_then(edited_ts);
        let since = edited.or_else(|| (clock > ts).then(|| clock.clone()));
        Some(MessageVersion { since, message: of_row(row)? })
    };
    Ok(all.filter_map(version).collect())
}

/// When a message was edited, as its event says.
fn edited_ts(raw: &str) -> Option<Ts> {
    let raw = envelope::value(raw).ok()?;
    Ts::parse(raw["edited"]["ts"].as_str()?).ok()
}
