//! Where a channel lies.

use std::collections::VecDeque;

use serde_json::Value;

use crate::directory;
use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use rules::project;
use slack::ids::{ChannelId, TeamId, Ts};

/// Ids and workspaces that are followed from one. Nothing in Slack has nearly as many; what is forged may.
const MAX_PLACES: usize = 32;

/// A channel of one workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelOfTeam {
    /// The workspace.
    pub team: TeamId,
    /// The id it has or had there.
    pub channel: ChannelId,
}

impl ChannelOfTeam {
    /// The partition of its messages.
    pub fn messages(&self) -> String {
        key::messages(&self.team, &self.channel)
    }

    /// A message in it.
    pub fn message(&self, ts: &Ts) -> ItemKey {
        ItemKey::message(&self.team, &self.channel, ts)
    }

    /// Whether anything is known of it.
    pub async fn exists(&self, archive: &dyn Archive) -> Result<bool, ArchiveError> {
        for partition in [self.messages(), key::channels(&self.team, &self.channel)] {
            let any = Query { limit: 1, ..Query::partition(partition) };
            if !archive.query(&any).await?.items.is_empty() {
                return Ok(true);
            }
        }
        Ok(directory::read(archive, &self.team).await?.name(&self.channel).is_some())
    }

    /// The channel as it is now; `None` if no event was about it.
    pub async fn newest(&self, archive: &dyn Archive) -> Result<Option<Value>, ArchiveError> {
        let partition = key::channels(&self.team, &self.channel);
        let mut query = Query { descending: true, limit: 8, ..Query::partition(partition) };
        loop {
            let page = archive.query(&query).await?;
            match (page.items.iter().find_map(project::channel), page.next) {
                (Some(snapshot), _) => return Ok(Some(snapshot)),
                (None, Some(next)) => query.after = Some(next),
                (None, None) => return Ok(None),
            }
        }
    }
}

/// Every place of the channel that is in this one, among these workspaces: those that share its id, and those it came
/// from or goes on as. The first is where it goes on.
pub async fn of_channel(
    archive: &dyn Archive,
    place: &ChannelOfTeam,
    teams: &[TeamId],
) -> Result<Vec<ChannelOfTeam>, ArchiveError> {
    let mut ahead = VecDeque::from([place.clone()]);
    // Each with the id that it goes on as.
    let mut found: Vec<(ChannelOfTeam, Option<ChannelId>)> = Vec::new();
    while let Some(place) = ahead.pop_front() {
        // Ids that lead back to each other end here.
        if found.len() >= MAX_PLACES || found.iter().any(|(known, _)| *known == place) {
            continue;
        }
        let snapshot = place.newest(archive).await?;
        let id = |name: &str| ChannelId::parse(snapshot.as_ref()?[name].as_str()?).ok();
        let (previous, next) = (id("prev_channel_id"), id("next_channel_id"));
        let in_team =
            |channel: &ChannelId| ChannelOfTeam { team: place.team.clone(), channel: channel.clone() };
        ahead.extend(previous.iter().chain(&next).map(in_team));
        for team in teams.iter().filter(|team| **team != place.team) {
            let shared = ChannelOfTeam { team: team.clone(), channel: place.channel.clone() };
            if shared.exists(archive).await? {
                ahead.push_back(shared);
            }
        }
        found.push((place, next));
    }
    let ids: Vec<ChannelId> = found.iter().map(|(place, _)| place.channel.clone()).collect();
    let goes_on = |next: &Option<ChannelId>| next.as_ref().is_some_and(|next| ids.contains(next));
    // Stable: among equals the one that was asked for stays in front.
    found.sort_by_key(|(_, next)| goes_on(next));
    Ok(found.into_iter().map(|(place, _)| place).collect())
}
