//! The channels that are private now, and who is in them.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use ports::clock::TimestampMs;
use rules::view::ChannelView;
use rules::visibility::VisibilityRegister;
use serde::Serialize;
use slack::ids::{ChannelId, TeamId, UserId};

use super::HiddenChannels;
use crate::channels::{ChannelList, ChannelOrder};
use crate::find;
use crate::joined::ChannelOfTeam;
use crate::memberships;

/// The channels of an archive that are private now. The archive has them because they were public.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PrivateChannels(Vec<PrivateChannel>);

/// A private channel under all its ids and in all its workspaces, which readers merge.
#[derive(Debug, PartialEq, Eq)]
struct PrivateChannel {
    locations: Vec<ChannelOfTeam>,
    /// Its members, in the workspaces whose lists of them are new enough.
    members: BTreeSet<(TeamId, UserId)>,
    /// Whether one of these lists is new enough; `None` without any list.
    is_list_new: Option<bool>,
}

/// How many private channels have a list of their members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MembershipCounts {
    /// The channels that are private now.
    pub private_channels: usize,
    /// Those whose list is new enough, so that their members see them.
    pub listed: usize,
    /// Those whose list is too old.
    pub stale: usize,
}

impl PrivateChannels {
    /// Reads them from a whole archive: its newest snapshot of each channel, what is known about who can read it,
    /// and the lists of its members that are new enough at `now`.
    pub async fn read(archive: &dyn Archive, now: TimestampMs) -> Result<Self, ArchiveError> {
        let teams = find::teams(archive).await?;
        let mut registers = BTreeMap::new();
        for team in &teams {
            for row in query_all(archive, Query::partition(key::public_marks(team))).await? {
                if let Ok(channel) = ChannelId::parse(&row.key.timestamp) {
                    let location = ChannelOfTeam { team: team.clone(), channel };
                    registers.insert(location, VisibilityRegister::from_row(Some(&row)));
                }
            }
        }
        let mut snapshots = BTreeMap::new();
        let list = ChannelList::read(archive, &teams, ChannelOrder::Id).await?;
        for listed in list.channels() {
            for team in list.teams_of(&listed.location.channel) {
                let location = ChannelOfTeam { team: team.clone(), channel: listed.location.channel.clone() };
                let snapshot = location.snapshot(archive).await?.unwrap_or_default();
                snapshots.insert(location, snapshot);
            }
        }
        let mut private = Vec::new();
        for locations in joined(&snapshots) {
            if is_private(&locations, &snapshots, &registers) {
                private.push(with_members(archive, locations, now).await?);
            }
        }
        Ok(Self(private))
    }

    /// How many of them have a list of their members.
    pub fn counts(&self) -> MembershipCounts {
        let with = |is_new| self.0.iter().filter(|channel| channel.is_list_new == Some(is_new)).count();
        MembershipCounts { private_channels: self.0.len(), listed: with(true), stale: with(false) }
    }

    /// The channels that this person is not a member of; all of them for a reader whose person is not known.
    pub fn hidden_from(&self, person: Option<&(TeamId, UserId)>) -> HiddenChannels {
        let is_member =
            |channel: &&PrivateChannel| person.is_some_and(|person| channel.members.contains(person));
        let hidden = self.0.iter().filter(|channel| !is_member(channel));
        let locations = hidden.flat_map(|channel| &channel.locations);
        locations.map(|ChannelOfTeam { team, channel }| (team.clone(), channel.clone())).collect()
    }
}

/// A private channel with the people in the lists of these locations, each with the workspace of the list.
async fn with_members(
    archive: &dyn Archive,
    locations: Vec<ChannelOfTeam>,
    now: TimestampMs,
) -> Result<PrivateChannel, ArchiveError> {
    let (mut members, mut is_list_new) = (BTreeSet::new(), None);
    for location in &locations {
        let Some(list) = memberships::read(archive, location).await? else { continue };
        let is_new = memberships::is_fresh(&list.as_of, now.seconds());
        is_list_new = Some(is_new || is_list_new == Some(true));
        if is_new {
            members.extend(list.members.into_iter().map(|user| (location.team.clone(), user)));
        }
    }
    Ok(PrivateChannel { locations, members, is_list_new })
}

/// The locations of each channel: those of one id in several workspaces, and those of the ids that a channel had
/// one after the other, whichever of the snapshots says so.
fn joined(snapshots: &BTreeMap<ChannelOfTeam, ChannelView>) -> Vec<Vec<ChannelOfTeam>> {
    let mut links: BTreeMap<ChannelOfTeam, Vec<ChannelOfTeam>> = BTreeMap::new();
    let mut of_id: BTreeMap<&ChannelId, &ChannelOfTeam> = BTreeMap::new();
    for (location, snapshot) in snapshots {
        let in_team = |channel| ChannelOfTeam { team: location.team.clone(), channel };
        let other_ids = snapshot.previous_id().into_iter().chain(snapshot.next_id()).map(in_team);
        let shared = of_id.insert(&location.channel, location).cloned();
        links.entry(location.clone()).or_default();
        for other in other_ids.chain(shared) {
            links.entry(other.clone()).or_default().push(location.clone());
            links.entry(location.clone()).or_default().push(other);
        }
    }
    let mut seen = BTreeSet::new();
    let mut groups = Vec::new();
    for start in links.keys() {
        let mut group = Vec::new();
        let mut pending = vec![start];
        while let Some(location) = pending.pop() {
            if seen.insert(location) {
                group.push(location.clone());
                pending.extend(links.get(location).into_iter().flatten());
            }
        }
        if !group.is_empty() {
            groups.push(group);
        }
    }
    groups
}

/// Whether a channel is private in one of its workspaces. In each, the latest evidence counts, under whichever id
/// of the channel; without any, its snapshots.
fn is_private(
    locations: &[ChannelOfTeam],
    snapshots: &BTreeMap<ChannelOfTeam, ChannelView>,
    registers: &BTreeMap<ChannelOfTeam, VisibilityRegister>,
) -> bool {
    let teams: BTreeSet<&TeamId> = locations.iter().map(|location| &location.team).collect();
    teams.into_iter().any(|team| {
        let in_team = || locations.iter().filter(move |location| location.team == *team);
        let known = in_team().filter_map(|location| registers.get(location).cloned());
        let known = known.fold(VisibilityRegister::default(), VisibilityRegister::joined).is_private();
        let mut shown = in_team().filter_map(|location| snapshots.get(location));
        known.unwrap_or_else(|| shown.any(ChannelView::is_private))
    })
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
