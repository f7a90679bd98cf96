//! The inputs of a report besides its days. They are read once, and a stamp identifies their state.

use std::collections::BTreeMap;

use futures_util::future::try_join4;
use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::rollup::{self, RollupDay};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};

use super::basis::Basis;
use super::message;
use super::people::People;
use super::period::Period;
use super::report::Scope;
use super::rollups::Rollups;
use crate::concurrent::read_all;
use crate::directory::{self, WorkspaceChannels, WorkspaceFacts};
use crate::joined::{ChannelOfTeam, JoinedChannel};
use crate::range::ts_from_micros;

/// Days of a period, in UTC, that a reader of a report must know of.
pub(super) struct NotableDays {
    /// Days on which messages may be missing.
    pub(super) incomplete: Vec<String>,
    /// Days whose messages a retention rule has removed, in a channel at least.
    pub(super) expired: Vec<String>,
}

/// The inputs of a report besides its days.
pub(super) struct ReportInputs {
    pub(super) people: People,
    pub(super) names: WorkspaceChannels,
    pub(super) workspace: WorkspaceFacts,
    /// The versions of days. They are read before any counts, so a report that is made while a day changes
    /// has the old version, which never occurs again.
    pub(super) day_versions: BTreeMap<String, String>,
}

/// The messages that may have the most replies, with their reply counts. Replies may be later than the
/// period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReplyCandidates(pub(super) Vec<(ChannelId, Ts, u64)>);

impl ReportInputs {
    pub(super) async fn read(
        archive: &dyn Archive,
        team: &TeamId,
        rollups: Option<&Rollups>,
    ) -> Result<Self, ArchiveError> {
        let day_versions = async {
            let mut day_versions = BTreeMap::new();
            if rollups.is_some() {
                for row in query_all(archive, Query::partition(key::rollup_days(team))).await? {
                    let version = rollup::day_version(&row).unwrap_or_default().to_owned();
                    day_versions.insert(row.key.timestamp, version);
                }
            }
            Ok(day_versions)
        };
        let (day_versions, people, names, workspace) = try_join4(
            day_versions,
            People::read(archive, team),
            directory::read(archive, team),
            directory::read_workspace_facts(archive, team),
        )
        .await?;
        Ok(Self { people, names, workspace, day_versions })
    }

    /// Returns a hash of the state of everything that a report shows; `None` if days are not counted yet, or
    /// if a channel has a location in another workspace.
    pub(super) fn stamp(
        &self,
        team: &TeamId,
        scope: &Scope,
        period: &Period,
        channels: &[JoinedChannel<'_>],
        days: &NotableDays,
        rollups: &Rollups,
    ) -> Option<String> {
        let is_in_other_team = |location: &ChannelOfTeam| location.team != *team;
        let is_shared = channels.iter().any(|channel| channel.locations().iter().any(is_in_other_team));
        if is_shared || !rollups.are_all_counted_before(period.to()) {
            return None;
        }
        let mut stamp = Basis::new(scope, period);
        // Root authors and first-time posters depend on older days.
        let end = RollupDay::from_ts(&ts_from_micros(period.to()))?.text();
        for (day, version) in self.day_versions.range(..end) {
            stamp.part(day);
            stamp.part(version);
        }
        stamp.people(&self.people);
        for (channel, name) in self.names.iter() {
            stamp.part(channel.as_str());
            stamp.part(name);
        }
        for text in [&self.workspace.name, &self.workspace.base_url] {
            stamp.part(text.as_deref().unwrap_or_default());
        }
        for channel in channels {
            stamp.part("channel");
            channel.locations().iter().for_each(|location| stamp.part(&location.messages()));
        }
        days.incomplete.iter().chain(&days.expired).for_each(|day| stamp.part(day));
        Some(stamp.finish())
    }
}

impl ReplyCandidates {
    /// Whether the reply counts are unchanged.
    pub(super) async fn are_current(&self, channels: &[JoinedChannel<'_>]) -> Result<bool, ArchiveError> {
        let mut reads = Vec::with_capacity(self.0.len());
        for (id, ts, _) in &self.0 {
            let Some(channel) = channels.iter().find(|channel| channel.current_location().channel == *id)
            else {
                return Ok(false);
            };
            reads.push(message::reply_count(channel, ts));
        }
        Ok(read_all(reads).await?.iter().eq(self.0.iter().map(|(.., count)| count)))
    }

    /// Returns the candidates as JSON for storage.
    pub(super) fn to_json(&self) -> String {
        json!(self.0).to_string()
    }

    /// Parses stored candidates; `None` if they are malformed.
    pub(super) fn read(stored: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(stored).ok()?;
        let candidates = stored.as_array()?.iter().map(|one| {
            let (channel, ts) = (one[0].as_str()?, one[1].as_str()?);
            Some((ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?, one[2].as_u64()?))
        });
        Some(Self(candidates.collect::<Option<_>>()?))
    }
}
