//! The members of channels, as Slack listed them.

use ports::archive::{Archive, ArchiveError, Item};
use rules::membership::{self, ChannelMembers};
use slack::ids::Ts;

use crate::joined::ChannelOfTeam;

/// How long a list says who may see a channel: directory syncs list the members of a private channel every hour, so
/// an older list means that the app is no longer in the channel.
pub const MAX_AGE_S: i64 = 24 * 3_600;

/// Reads the newest list of the members of a channel.
pub async fn read(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
) -> Result<Option<ChannelMembers>, ArchiveError> {
    match archive.get(&membership::head_key(&location.team, &location.channel)).await? {
        Some(head) => list_of(archive, &head).await,
        None => Ok(None),
    }
}

/// Reads the list of this head, with its other rows.
pub async fn list_of(archive: &dyn Archive, head: &Item) -> Result<Option<ChannelMembers>, ArchiveError> {
    let keys = membership::chunk_keys(head);
    let chunks = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    Ok(ChannelMembers::read(head, &chunks))
}

/// Whether a list of this time says at `now` who may see its channel.
pub fn is_fresh(as_of: &Ts, now_s: i64) -> bool {
    as_of.micros().div_euclid(1_000_000).saturating_add(MAX_AGE_S) >= now_s
}
