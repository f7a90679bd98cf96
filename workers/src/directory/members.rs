//! The members of the channels that are kept. <https://docs.slack.dev/reference/methods/conversations.members>
//!
//! Those of channels that are private now say who may see them, so they are listed in every sync; all others once a
//! day, a part of the channels in each sync.

use std::collections::BTreeSet;

use ports::archive::{
    ArchiveError, ArchiveExt, Guard, ItemKey, Query, Update, WriteOutcome, key, query_all, text_attributes,
};
use reader::joined::ChannelOfTeam;
use reader::memberships;
use rules::membership::{ChannelMembers, head_key, old_chunks, relisted};
use rules::public_mark::MarkState;
use rules::visibility::VisibilityRegister;
use serde::Deserialize;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use slack_api::{ApiError, Method, WebApi};

use super::daily::{DAY_MICROS, channels_per_sync, is_about_channel};
use super::listing::Listing;
use super::sync::{MISSING_SCOPE, write};
use super::{DirectorySync, SyncError, SyncReport};

/// The channels whose members are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MembersToList {
    /// All channels.
    #[default]
    All,
    /// Channels that are private now.
    Private,
    /// No channel.
    Off,
}

impl MembersToList {
    /// Every value.
    pub const EVERY: [Self; 3] = [Self::All, Self::Private, Self::Off];

    /// The value of the setting.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Private => "private",
            Self::Off => "off",
        }
    }
}

/// Maximum number of private channels in one sync: at 60 calls a minute they take ten minutes. If there are more,
/// each sync lists a part of them.
const MAX_PRIVATE: usize = 600;

/// How old an unchanged list gets before its time is written again. It says who may see a channel for a day.
const RELISTED_AFTER_MICROS: i64 = 6 * 3_600 * 1_000_000;

/// The register with the time at which Slack was last asked for the members of a channel.
const ASKED_AT: &str = "members_at";

#[derive(Deserialize)]
struct MembersPage {
    members: Vec<Value>,
}

impl DirectorySync {
    /// Lists the members of channels that are private now, and of others that were not listed for a day.
    pub(super) async fn sync_members(
        &self,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        if self.members == MembersToList::Off {
            return Ok(());
        }
        let team = report.team.clone();
        let (private, public) = self.kept_channels(&team).await?;
        let turns = private.len().div_ceil(MAX_PRIVATE).max(1);
        let hour = usize::try_from(clock.micros().div_euclid(3_600_000_000)).unwrap_or_default();
        for channel in private.chunks(MAX_PRIVATE).nth(hour % turns).unwrap_or_default() {
            match self.note_members(&team, channel, clock, report).await? {
                MembersOutcome::Listed => {}
                MembersOutcome::Refused => report.unlisted_private += 1,
                MembersOutcome::Stop => {
                    report.unlisted_private += 1;
                    break;
                }
            }
        }
        if self.members == MembersToList::All {
            self.sync_public_members(&team, public, clock, report).await?;
        }
        Ok(())
    }

    async fn sync_public_members(
        &self,
        team: &TeamId,
        channels: Vec<ChannelId>,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        let keys: Vec<ItemKey> =
            channels.iter().map(|channel| ItemKey::daily_reading(team, channel)).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let asked_at = rows.iter().map(|row| {
            row.as_ref().and_then(|row| Ts::unpadded(row.text(ASKED_AT)?)).map_or(i64::MIN, |at| at.micros())
        });
        let limit = channels_per_sync(channels.len());
        let mut due: Vec<(i64, ChannelId)> = asked_at
            .zip(channels)
            .filter(|(asked_at, _)| asked_at.saturating_add(DAY_MICROS) <= clock.micros())
            .collect();
        due.sort_unstable();
        due.truncate(limit);
        for (_, channel) in due {
            if self.note_members(team, &channel, clock, report).await? == MembersOutcome::Stop {
                break;
            }
            let asked = Update {
                guard: Guard::Greater { register: ASKED_AT.into(), version: clock.padded() },
                set_if_absent: text_attributes([("type", "daily_reading"), ("team_id", team.as_str())]),
                ..Update::new(ItemKey::daily_reading(team, &channel))
            };
            write(&*self.archive, &[vec![asked]]).await?;
        }
        Ok(())
    }

    /// The kept channels of a workspace: those that are private now, and the others.
    async fn kept_channels(&self, team: &TeamId) -> Result<(Vec<ChannelId>, Vec<ChannelId>), ArchiveError> {
        let (mut private, mut public) = (Vec::new(), Vec::new());
        for mark in query_all(&*self.archive, Query::partition(key::public_marks(team))).await? {
            let Ok(channel) = ChannelId::parse(&mark.key.timestamp) else { continue };
            if MarkState::from_row(Some(&mark)) != MarkState::Public {
                continue;
            }
            let is_private = match VisibilityRegister::from_row(Some(&mark)).is_private() {
                Some(is_private) => is_private,
                None => {
                    let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
                    let newest = location.newest(&*self.archive).await?;
                    newest.is_some_and(|newest| newest.is_private())
                }
            };
            if is_private { private.push(channel) } else { public.push(channel) }
        }
        Ok((private, public))
    }

    /// Lists and stores the members of a channel. A channel that Slack does not show is counted, and keeps its list.
    async fn note_members(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<MembersOutcome, SyncError> {
        let as_of = clock.clone();
        let members = match list_members(&self.api, team, channel, clock).await {
            Ok(members) => members,
            // The rest is listed in the next sync.
            Err(SyncError::Api(ApiError::RateLimited { .. })) => return Ok(MembersOutcome::Stop),
            Err(SyncError::Api(ApiError::Refused { error, needed, .. })) if error == MISSING_SCOPE => {
                report.missing_scopes.insert(needed.unwrap_or_else(|| "groups:read".to_owned()));
                return Ok(MembersOutcome::Stop);
            }
            Err(SyncError::Endless(_)) => {
                report.members.skipped += 1;
                return Ok(MembersOutcome::Refused);
            }
            Err(SyncError::Api(error)) if is_about_channel(&error) => {
                tracing::debug!(%team, %channel, %error, "Slack does not list the members of a channel");
                report.members.skipped += 1;
                return Ok(MembersOutcome::Refused);
            }
            Err(error) => return Err(error),
        };
        report.members.listed += 1;
        let is_changed = self.store_members(team, channel, ChannelMembers { as_of, members }).await?;
        report.members.changed += usize::from(is_changed);
        Ok(MembersOutcome::Listed)
    }

    /// Stores a list, and deletes what an earlier one needed. Returns whether it differs from the stored one.
    async fn store_members(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        list: ChannelMembers,
    ) -> Result<bool, ArchiveError> {
        let archive = &*self.archive;
        let key = head_key(team, channel);
        if let Some(head) = archive.get(&key).await?
            && let Some(stored) = memberships::list_of(archive, &head).await?
            && stored.members == list.members
        {
            let age = list.as_of.micros().saturating_sub(stored.as_of.micros());
            if age >= RELISTED_AFTER_MICROS {
                archive.write(&relisted(team, channel, &list.as_of)).await?;
            }
            return Ok(false);
        }
        let Some(rows) = list.rows(team, channel) else {
            tracing::warn!(%team, %channel, members = list.members.len(), "the list of members is too long to be stored");
            return Ok(false);
        };
        let Some((head, chunks)) = rows.split_last() else { return Ok(false) };
        // Only once all chunks are stored.
        for chunk in archive.write_all(&chunks.iter().collect::<Vec<_>>()).await {
            chunk?;
        }
        let is_changed = archive.write(head).await? == WriteOutcome::Applied;
        let stored = query_all(archive, Query::partition(key.item_id.clone())).await?;
        if let Some(head) = stored.iter().find(|row| row.key == key) {
            for old in old_chunks(head, &stored) {
                archive.delete_unchanged(old).await?;
            }
        }
        Ok(is_changed)
    }
}

/// Reads the members of a channel. `clock` is Slack's at its last answer.
pub(super) async fn list_members(
    api: &WebApi,
    team: &TeamId,
    channel: &ChannelId,
    clock: &mut Ts,
) -> Result<BTreeSet<UserId>, SyncError> {
    let parameters = [("channel", channel.as_str())];
    let mut listing = Listing::new(api, team, Method::ConversationsMembers, &parameters, clock.clone());
    let mut members = BTreeSet::new();
    while let Some(page) = listing.next().await? {
        let page: MembersPage = page.reply.read()?;
        members.extend(page.members.iter().filter_map(|id| UserId::parse(id.as_str()?).ok()));
    }
    *clock = listing.into_clock();
    Ok(members)
}

/// What came of asking Slack for the members of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembersOutcome {
    /// They are stored.
    Listed,
    /// Slack does not show them.
    Refused,
    /// Slack would refuse the other channels too.
    Stop,
}
