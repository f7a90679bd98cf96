//! The locations of a channel.

use std::collections::VecDeque;

use serde_json::json;

use crate::directory;
use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use rules::project;
use rules::view::ChannelView;
use rules::visibility::VisibilityRegister;
use slack::ids::{ChannelId, TeamId, Ts};

/// Maximum number of locations of one channel. Real channels have far fewer; forged events may link more.
const MAX_LOCATIONS: usize = 32;

/// A location of a channel: a workspace, and the channel's id there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelOfTeam {
    pub team: TeamId,
    /// The id that the channel has or had in the workspace.
    pub channel: ChannelId,
}

impl ChannelOfTeam {
    /// The partition of the channel's messages.
    pub fn messages(&self) -> String {
        key::messages(&self.team, &self.channel)
    }

    pub fn message(&self, ts: &Ts) -> ItemKey {
        ItemKey::message(&self.team, &self.channel, ts)
    }

    /// Whether the archive has a message, an event or a name of the channel.
    pub async fn exists(&self, archive: &dyn Archive) -> Result<bool, ArchiveError> {
        for partition in [self.messages(), key::channels(&self.team, &self.channel)] {
            let any = Query { limit: 1, ..Query::partition(partition) };
            if !archive.query(&any).await?.items.is_empty() {
                return Ok(true);
            }
        }
        Ok(directory::read(archive, &self.team).await?.name(&self.channel).is_some())
    }

    /// Returns the state of the channel: its newest snapshot, with what is known now about whether it is
    /// public. `None` if the archive has no event of it, unless it is known to be private.
    pub async fn newest(&self, archive: &dyn Archive) -> Result<Option<ChannelView>, ArchiveError> {
        let newest = self.snapshot(archive).await?;
        let known = visibilities(archive, &[(self, newest.as_ref())]).await?;
        let is_private = known.into_iter().next().unwrap_or_default().is_private();
        Ok(match (newest, is_private) {
            (Some(mut newest), Some(is_private)) => {
                newest.set_private(is_private);
                Some(newest)
            }
            (None, Some(true)) => Some(json!({
                "type": "channel", "team_id": self.team, "channel_id": self.channel, "visibility": "private",
            }).into()),
            (newest, _) => newest,
        })
    }

    /// Returns the newest snapshot of the channel, as its event left it.
    pub(crate) async fn snapshot(&self, archive: &dyn Archive) -> Result<Option<ChannelView>, ArchiveError> {
        let partition = key::channels(&self.team, &self.channel);
        let mut query = Query { descending: true, limit: 8, ..Query::partition(partition) };
        loop {
            let page = archive.query(&query).await?;
            match (page.items.iter().find_map(project::channel), page.next) {
                (None, Some(next)) => query.after = Some(next),
                (newest, _) => return Ok(newest),
            }
        }
    }
}

/// Whether each of these channels is private now, with its newest snapshot.
pub(crate) async fn are_private(
    archive: &dyn Archive,
    channels: &[(&ChannelOfTeam, Option<&ChannelView>)],
) -> Result<Vec<bool>, ArchiveError> {
    let known = visibilities(archive, channels).await?;
    let said = channels.iter().map(|(_, snapshot)| snapshot.is_some_and(ChannelView::is_private));
    Ok(known.iter().zip(said).map(|(known, said)| known.is_private().unwrap_or(said)).collect())
}

/// What is known about whether each of these channels is public, under its id and under the one before.
async fn visibilities(
    archive: &dyn Archive,
    channels: &[(&ChannelOfTeam, Option<&ChannelView>)],
) -> Result<Vec<VisibilityRegister>, ArchiveError> {
    let (mut keys, mut owners) = (Vec::new(), Vec::new());
    for (owner, (location, snapshot)) in channels.iter().enumerate() {
        let former = snapshot.and_then(ChannelView::previous_id);
        for channel in std::iter::once(&location.channel).chain(&former) {
            keys.push(ItemKey::public_mark(&location.team, channel));
            owners.push(owner);
        }
    }
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let mut registers = vec![VisibilityRegister::default(); channels.len()];
    for (owner, row) in owners.into_iter().zip(rows) {
        registers[owner] = registers[owner].clone().joined(VisibilityRegister::from_row(row.as_ref()));
    }
    Ok(registers)
}

/// Returns every location of the channel at this location in these workspaces: workspaces that share its id,
/// and its previous and next ids, each with its newest snapshot. The first one is the channel's current location.
pub(crate) async fn find_locations(
    archive: &dyn Archive,
    location: ChannelOfTeam,
    teams: &[TeamId],
) -> Result<Vec<(ChannelOfTeam, Option<ChannelView>)>, ArchiveError> {
    let mut queue = VecDeque::from([location]);
    let mut found: Vec<(ChannelOfTeam, Option<ChannelView>)> = Vec::new();
    while let Some(location) = queue.pop_front() {
        // Cycles of ids end here.
        if found.len() >= MAX_LOCATIONS || found.iter().any(|(known, _)| *known == location) {
            continue;
        }
        let snapshot = location.snapshot(archive).await?;
        let previous = snapshot.as_ref().and_then(ChannelView::previous_id);
        let in_team = |channel| ChannelOfTeam { team: location.team.clone(), channel };
        queue.extend(previous.into_iter().chain(next_id(&snapshot)).map(in_team));
        for team in teams.iter().filter(|team| **team != location.team) {
            let shared = ChannelOfTeam { team: team.clone(), channel: location.channel.clone() };
            if shared.exists(archive).await? {
                queue.push_back(shared);
            }
        }
        found.push((location, snapshot));
    }
    let ids: Vec<ChannelId> = found.iter().map(|(location, _)| location.channel.clone()).collect();
    // The sort is stable: among equals, the requested location stays first.
    found.sort_by_key(|(_, snapshot)| next_id(snapshot).is_some_and(|next| ids.contains(&next)));
    Ok(found)
}

/// The id under which the channel continues.
fn next_id(snapshot: &Option<ChannelView>) -> Option<ChannelId> {
    snapshot.as_ref().and_then(ChannelView::next_id)
}
