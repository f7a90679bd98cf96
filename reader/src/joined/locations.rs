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
        let former = newest.as_ref().and_then(ChannelView::previous_id);
        let is_private = self.visibility(archive, former.as_ref()).await?.is_private();
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

    /// What is known about whether the channel is public, under its id and under the one before.
    async fn visibility(
        &self,
        archive: &dyn Archive,
        former: Option<&ChannelId>,
    ) -> Result<VisibilityRegister, ArchiveError> {
        let ids = std::iter::once(&self.channel).chain(former);
        let keys: Vec<ItemKey> = ids.map(|channel| ItemKey::public_mark(&self.team, channel)).collect();
        let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let registers = rows.iter().map(|row| VisibilityRegister::from_row(row.as_ref()));
        Ok(registers.fold(VisibilityRegister::default(), VisibilityRegister::joined))
    }
}

/// Returns every location of the channel at this location in these workspaces: workspaces that share its id,
/// and its previous and next ids. The first one is the channel's current location.
pub async fn find_locations(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    teams: &[TeamId],
) -> Result<Vec<ChannelOfTeam>, ArchiveError> {
    let mut queue = VecDeque::from([location.clone()]);
    // Each with the id under which it continues.
    let mut found: Vec<(ChannelOfTeam, Option<ChannelId>)> = Vec::new();
    while let Some(location) = queue.pop_front() {
        // Cycles of ids end here.
        if found.len() >= MAX_LOCATIONS || found.iter().any(|(known, _)| *known == location) {
            continue;
        }
        let snapshot = location.newest(archive).await?;
        let (previous, next) =
            snapshot.map_or((None, None), |snapshot| (snapshot.previous_id(), snapshot.next_id()));
        let in_team =
            |channel: &ChannelId| ChannelOfTeam { team: location.team.clone(), channel: channel.clone() };
        queue.extend(previous.iter().chain(&next).map(in_team));
        for team in teams.iter().filter(|team| **team != location.team) {
            let shared = ChannelOfTeam { team: team.clone(), channel: location.channel.clone() };
            if shared.exists(archive).await? {
                queue.push_back(shared);
            }
        }
        found.push((location, next));
    }
    let ids: Vec<ChannelId> = found.iter().map(|(location, _)| location.channel.clone()).collect();
    let continues = |next: &Option<ChannelId>| next.as_ref().is_some_and(|next| ids.contains(next));
    // The sort is stable: among equals, the requested location stays first.
    found.sort_by_key(|(_, next)| continues(next));
    Ok(found.into_iter().map(|(location, _)| location).collect())
}
