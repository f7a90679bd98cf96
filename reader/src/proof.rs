//! What the nightly proof has compared with Slack, for readers. The rows are those of
//! [`rules::history::proof`].

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::history::proof::{ProofCounts, VerifiedChannel};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::history;
use crate::joined::ChannelOfTeam;

/// Returns what is proven of each channel that is kept, ordered by id.
pub async fn kept_channels(
    archive: &dyn Archive,
    team: &TeamId,
) -> Result<Vec<VerifiedChannel>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::verified_rows(team))).await?;
    let mut known: BTreeMap<ChannelId, VerifiedChannel> = rows
        .iter()
        .filter_map(|row| VerifiedChannel::read(team, row))
        .map(|known| (known.channel.clone(), known))
        .collect();
    let kept = history::channels_with_public_mark(archive, team).await?;
    let of_channel = |channel: ChannelId| {
        known.remove(&channel).unwrap_or_else(|| VerifiedChannel::new(team.clone(), channel))
    };
    Ok(kept.into_iter().map(of_channel).collect())
}

/// Returns what is proven of a channel.
pub async fn of_channel(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<VerifiedChannel, ArchiveError> {
    let row = archive.get(&ItemKey::verified(team, channel.as_str())).await?;
    let known = row.and_then(|row| VerifiedChannel::read(team, &row));
    Ok(known.unwrap_or_else(|| VerifiedChannel::new(team.clone(), channel.clone())))
}

/// How far a workspace is compared with Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamProof {
    /// The workspace.
    pub team: TeamId,
    /// The midnight up to which the last night compared.
    pub night: Ts,
    /// The oldest end of a proof: of each channel that could be compared, everything before is there.
    pub through: Option<Ts>,
    /// The channels that are kept, and in which something new may be.
    pub channels: u64,
    /// Those whose proof does not reach the last night.
    pub behind: Vec<VerifiedChannel>,
    /// What the last night found.
    pub found: ProofCounts,
}

/// Returns how far a workspace is compared with Slack; `None` before its first night.
pub async fn of_team(archive: &dyn Archive, team: &TeamId) -> Result<Option<TeamProof>, ArchiveError> {
    let known = kept_channels(archive, team).await?;
    let nights = known.iter().flat_map(|known| {
        let through = known.proven.as_ref().map(|proven| proven.through.clone());
        through.into_iter().chain(known.last.as_ref().map(|last| last.0.clone()))
    });
    let Some(night) = nights.max() else { return Ok(None) };
    let mut proof = TeamProof {
        team: team.clone(),
        night,
        through: None,
        channels: 0,
        behind: Vec::new(),
        found: ProofCounts::default(),
    };
    for known in known {
        let found = known.found_in(&proof.night);
        proof.found = ProofCounts { error: None, ..proof.found.plus(&found) };
        let is_over = known.proven.as_ref().is_some_and(|proven| proven.is_archived);
        if is_over || (!known.reaches(&proof.night) && is_excluded(archive, &known).await?) {
            continue;
        }
        proof.channels += 1;
        let through = known.proven.as_ref().map(|proven| proven.through.clone());
        proof.through = proof.through.into_iter().chain(through).min();
        if !known.reaches(&proof.night) {
            proof.behind.push(known);
        }
    }
    Ok(Some(proof))
}

/// Whether no proof of a channel is to be expected: Slack shows nothing of a deleted channel, nor under a former id.
async fn is_excluded(archive: &dyn Archive, known: &VerifiedChannel) -> Result<bool, ArchiveError> {
    // It waits for its first night.
    if known.proven.is_none() && known.last.is_none() {
        return Ok(true);
    }
    let location = ChannelOfTeam { team: known.team.clone(), channel: known.channel.clone() };
    let newest = location.newest(archive).await?;
    Ok(newest.is_some_and(|newest| newest.is_deleted() || newest.next_id().is_some()))
}

/// The day in UTC up to which a proof reaches, such as `2026-11-25`: the day before its midnight.
#[must_use]
pub fn last_day(through: &Ts) -> String {
    let last = jiff::Timestamp::from_microsecond(through.micros().saturating_sub(1)).unwrap_or_default();
    last.strftime("%Y-%m-%d").to_string()
}
