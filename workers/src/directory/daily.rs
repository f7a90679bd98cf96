//! What no event reports about a channel: read once a day, a part of the channels in each sync.

use ports::archive::{Archive, ArchiveError, Guard, ItemKey, Query, Update, key, query_all, text_attributes};
use rules::bookmark;
use serde::Deserialize;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiError, Method};

use super::listing::call_with_retries;
use super::sync::{MISSING_SCOPE, write};
use super::{DirectorySync, SyncError, SyncReport};

/// A channel is read again after a day.
pub(super) const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// Syncs per day.
const TURNS: usize = 24;

/// Minimum and maximum number of channels in one sync. A small workspace is read at once. 200 calls take four
/// minutes at Slack's rate limit, and an hourly sync must end long before the next one; so more than 4,800
/// channels are read less often than daily.
const MIN_CHANNELS: usize = 20;
const MAX_CHANNELS: usize = 200;

/// The register with the time of the last reading.
const READ_AT: &str = "read_at";

/// The register with the time of the newest list of bookmarks that is stored.
const LISTED_AT: &str = "bookmarks_listed_at";

#[derive(Deserialize)]
struct ListedBookmarks {
    bookmarks: Vec<Value>,
}

impl DirectorySync {
    /// Reads the channels that the app is in and that were not read for a day, the longest unread first. The
    /// times are Slack's and are stored, so a restart asks for nothing again.
    pub(super) async fn sync_daily(&self, clock: &mut Ts, report: &mut SyncReport) -> Result<(), SyncError> {
        let team = report.team.clone();
        let keys: Vec<ItemKey> =
            report.joined.iter().map(|channel| ItemKey::daily_reading(&team, channel)).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let read_at = rows.iter().map(|row| {
            row.as_ref().and_then(|row| Ts::unpadded(row.text(READ_AT)?)).map_or(i64::MIN, |at| at.micros())
        });
        let mut due: Vec<(i64, ChannelId)> = read_at
            .zip(report.joined.iter().cloned())
            .filter(|(read_at, _)| read_at.saturating_add(DAY_MICROS) <= clock.micros())
            .collect();
        due.sort_unstable();
        due.truncate(channels_per_sync(report.joined.len()));
        for (_, channel) in due {
            match self.sync_bookmarks(&team, &channel, clock, report).await {
                Ok(()) => {}
                // The rest is read in the next sync.
                Err(SyncError::Api(ApiError::RateLimited { .. })) => return Ok(()),
                Err(SyncError::Api(error)) if is_about_channel(&error) => {
                    tracing::debug!(%team, %channel, %error, "Slack does not show the bookmarks of a channel");
                }
                Err(error) => return Err(error),
            }
            write(&*self.archive, &[vec![reading(&team, &channel, READ_AT, clock)]]).await?;
        }
        Ok(())
    }

    async fn sync_bookmarks(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        let parameters = [("channel_id", channel.as_str())];
        let reply = call_with_retries(&self.api, team, Method::BookmarksList, &parameters).await?;
        let ListedBookmarks { bookmarks } = reply.read()?;
        let stored = store_bookmarks(&*self.archive, team, channel, &bookmarks, clock).await?;
        report.bookmarks.listed += bookmarks.len();
        report.bookmarks.changed += stored.changed;
        report.bookmarks.skipped += stored.skipped;
        if let Some(date) = reply.date() {
            *clock = date.clone();
        }
        Ok(())
    }
}

/// What storing a list of bookmarks did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StoredBookmarks {
    /// Bookmarks that are new, changed or removed.
    pub changed: usize,
    /// Entries that cannot be read, or are too large for the archive.
    pub skipped: usize,
}

/// Stores the list of a channel's bookmarks that was requested at a clock of Slack. A list that arrives after a later
/// one is stored changes nothing: a bookmark that the later list did not change shows only the time of its change.
pub async fn store_bookmarks(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    listed: &[Value],
    asked: &Ts,
) -> Result<StoredBookmarks, ArchiveError> {
    let row = archive.get(&ItemKey::daily_reading(team, channel)).await?;
    let newest = row.as_ref().and_then(|row| Ts::unpadded(row.text(LISTED_AT)?));
    if newest.is_some_and(|newest| newest.micros() > asked.micros()) {
        return Ok(StoredBookmarks::default());
    }
    let rows = query_all(archive, Query::partition(key::bookmarks(team, channel))).await?;
    let changes = bookmark::compare(team, channel, listed, &rows, asked);
    let updates: Vec<Vec<Update>> = changes.updates.into_iter().map(|update| vec![update]).collect();
    let written = write(archive, &updates).await?;
    // Only once the bookmarks are stored.
    write(archive, &[vec![reading(team, channel, LISTED_AT, asked)]]).await?;
    Ok(StoredBookmarks { changed: written.changed, skipped: changes.skipped + written.too_large })
}

/// The update that sets a register of a channel's row to this time, unless it has a later one.
fn reading(team: &TeamId, channel: &ChannelId, register: &str, at: &Ts) -> Update {
    Update {
        guard: Guard::Greater { register: register.into(), version: at.padded() },
        set_if_absent: text_attributes([("type", "daily_reading"), ("team_id", team.as_str())]),
        ..Update::new(ItemKey::daily_reading(team, channel))
    }
}

/// How many of a number of channels one sync reads.
pub(super) fn channels_per_sync(channels: usize) -> usize {
    channels.div_ceil(TURNS).clamp(MIN_CHANNELS, MAX_CHANNELS)
}

/// Whether another channel may be read after this error.
pub(super) fn is_about_channel(error: &ApiError) -> bool {
    let refused = error.refusal_code().is_some_and(|code| code != MISSING_SCOPE);
    (refused && !error.is_token_error()) || matches!(error, ApiError::Garbled { .. })
}
