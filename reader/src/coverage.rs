//! The coverage of a workspace's channels, for readers. This module reads the facts from the archive;
//! [`coverage`](rules::gap::coverage) derives the covered intervals and the holes.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, ErasureFacts, Item, Query, key, query_all};
use rules::filled::{self, FilledSpan};
use rules::gap::GapReason;
use rules::gap::closing::HistoryFacts;
use rules::gap::coverage::{CoveredSpan, Hole, HoleReason, KnownChannel, kept_holes};
use rules::gap::projection::{Gap, posted_at, recorded_gaps};
use rules::gap::run::RunSpan;
use rules::history::proof::{ProvenSpan, VerifiedChannel};
use rules::interval::Interval;
use rules::message;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::presence::{self, FIRST_PAGE, MAX_MESSAGES, PAGE};
use crate::{gaps, history};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelCoverage {
    /// The intervals that the archive covers completely, oldest first.
    pub held: Vec<CoveredSpan>,
    /// The intervals in which messages may be missing, oldest first.
    pub holes: Vec<Hole>,
    /// The newest message in the archive.
    pub last_message: Option<Ts>,
    /// The oldest timestamp that Slack still showed, if the workspace's plan limits the history.
    pub limited_before: Option<Ts>,
    /// The interval that was compared with Slack.
    pub verified: Option<ProvenSpan>,
    /// The time before which messages have expired.
    pub expired_before: Option<Ts>,
}

/// The facts from which the coverage of one workspace's channels is derived.
pub struct TeamCoverage<'a> {
    archive: &'a dyn Archive,
    team: TeamId,
    gaps: Vec<Gap>,
    spans: BTreeMap<ChannelId, Vec<FilledSpan>>,
    facts: HistoryFacts,
    erasures: ErasureFacts,
    verified: BTreeMap<ChannelId, ProvenSpan>,
    marked: Vec<ChannelId>,
    /// When the app first left a channel, also if nothing was missing then: it was in the channel before.
    left: BTreeMap<ChannelId, Ts>,
    /// The last event that any run of ingest accepted.
    last_event: Option<Ts>,
    runs: Vec<RunSpan>,
}

impl<'a> TeamCoverage<'a> {
    /// Reads the facts that all channels share.
    pub async fn read(archive: &'a dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let gaps = gaps::read(archive, team).await?;
        let runs = presence::runs(archive, team).await?;
        let filled = filled::spans(&query_all(archive, Query::partition(key::filled(team))).await?);
        let unreadable = query_all(archive, Query::partition(key::unreadable(team))).await?;
        let facts = HistoryFacts::new(&filled, &filled::unreadables(&unreadable), []);
        let mut left: BTreeMap<ChannelId, Ts> = BTreeMap::new();
        let recorded = recorded_gaps(&query_all(archive, Query::partition(key::gaps(team))).await?);
        for Gap { channel, from, .. } in recorded.into_iter().filter(|gap| gap.reason == GapReason::Left) {
            let Some(channel) = channel else { continue };
            let first = left.entry(channel).or_insert_with(|| from.clone());
            *first = (*first).clone().min(from);
        }
        let mut spans: BTreeMap<ChannelId, Vec<FilledSpan>> = BTreeMap::new();
        for span in filled {
            spans.entry(span.channel.clone()).or_default().push(span);
        }
        let verified = query_all(archive, Query::partition(key::verified_rows(team))).await?;
        let verified = verified.iter().filter_map(|row| VerifiedChannel::read(team, row));
        Ok(Self {
            archive,
            erasures: ErasureFacts::load(archive, team).await?,
            verified: verified.filter_map(|known| Some((known.channel, known.proven?))).collect(),
            team: team.clone(),
            gaps,
            spans,
            facts,
            left,
            marked: history::channels_with_public_mark(archive, team).await?,
            last_event: runs.iter().map(|run| run.last.clone()).max(),
            runs,
        })
    }

    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// The channels that have a public mark or whose history was read, ordered by id.
    pub fn channels(&self) -> BTreeSet<&ChannelId> {
        self.marked.iter().chain(self.spans.keys()).collect()
    }

    pub async fn channel_coverage(&self, channel: &ChannelId) -> Result<ChannelCoverage, ArchiveError> {
        let Self { archive, team, facts, runs, .. } = self;
        let known = self.known(channel);
        let joined = history::first_presence(*archive, team, channel, runs).await?;
        let known = KnownChannel { joined: joined.into_iter().chain(known.joined.clone()).min(), ..known };
        // The last event matters only in a channel that the app is known to have been in.
        let newest = NewestMessages::read(*archive, team, channel, known.joined().is_some()).await?;
        let created = history::created(*archive, team, channel).await?;
        let last_event = known.last_event.clone().max(newest.posted);
        let known = KnownChannel { created, last_event, ..known };
        let limit = facts.limited_before(channel);
        let expired_before = self.expired_before(channel);
        let out = self.erasures.channel_out_times(team, channel);
        Ok(ChannelCoverage {
            held: known.covered_spans(),
            holes: kept_holes(known.holes(), expired_before.as_ref(), out),
            last_message: newest.any,
            limited_before: limit.map(|limit| Interval { from: limit, to: limit }.from_ts()),
            verified: self.verified.get(channel).cloned(),
            expired_before,
        })
    }

    /// The time before which the messages of a channel have expired.
    pub fn expired_before(&self, channel: &ChannelId) -> Option<Ts> {
        self.erasures.expired_before(&self.team, channel).filter(|until| until.micros() > 0)
    }

    /// Whether an interval of a channel is certainly complete: no hole touches it. Reads only what this check
    /// needs; `false` means that [`TeamCoverage::channel_coverage`] must decide.
    pub async fn is_whole(&self, channel: &ChannelId, within: Interval) -> Result<bool, ArchiveError> {
        let known = self.known(channel);
        if !known.has_hole_in(within) {
            return Ok(true);
        }
        let joined = history::first_presence(self.archive, &self.team, channel, &self.runs).await?;
        let joined = joined.into_iter().chain(known.joined.clone()).min();
        Ok(joined.is_some() && !KnownChannel { joined, ..known }.has_hole_in(within))
    }

    /// Returns the facts about a channel that need no read of the channel's rows.
    fn known<'c>(&'c self, channel: &'c ChannelId) -> KnownChannel<'c> {
        KnownChannel {
            channel,
            created: None,
            joined: self.left.get(channel).cloned(),
            last_event: self.last_event.clone(),
            gaps: &self.gaps,
            spans: self.spans.get(channel).map(Vec::as_slice).unwrap_or_default(),
            facts: &self.facts,
        }
    }
}

/// The newest messages of a channel.
struct NewestMessages {
    /// The newest message, no matter how it arrived.
    any: Option<Ts>,
    /// The newest message that was delivered when it was posted, if the caller needs it.
    posted: Option<Ts>,
}

impl NewestMessages {
    async fn read(
        archive: &dyn Archive,
        team: &TeamId,
        channel: &ChannelId,
        needs_posted: bool,
    ) -> Result<Self, ArchiveError> {
        let partition = key::messages(team, channel);
        let mut query = Query { descending: true, limit: FIRST_PAGE, ..Query::partition(partition) };
        let (mut any, mut rows_read) = (None, 0);
        loop {
            let page = archive.query(&query).await?;
            any = any.or_else(|| page.items.iter().filter(|row| is_message(row)).find_map(ts));
            let posted = page.items.iter().find_map(posted_at);
            rows_read += page.items.len();
            let is_found = any.is_some() && (posted.is_some() || !needs_posted);
            match page.next {
                Some(next) if !is_found && rows_read < MAX_MESSAGES => query.after = Some(next),
                Some(_) | None => return Ok(Self { any, posted }),
            }
            query.limit = PAGE;
        }
    }
}

fn ts(row: &Item) -> Option<Ts> {
    Ts::parse(&row.key.timestamp).ok()
}

/// Whether readers see the row. A row that only has reactions is not a message yet.
fn is_message(row: &Item) -> bool {
    message::stored_version(row).is_some() || row.has_flag("deleted")
}

/// The name of a reason for a hole, and what it means. `is_open` is for a hole that goes on.
pub fn hole_in_words(reason: HoleReason, is_open: bool) -> &'static str {
    match reason {
        HoleReason::Gap(reason) => gaps::reason_in_words(reason),
        HoleReason::BeforeJoining if is_open => "before_joining: the app is not in the channel",
        HoleReason::BeforeJoining => "before_joining: the app was not in the channel yet",
        HoleReason::PlanLimit => "plan_limit: Slack's plan no longer shows it",
        HoleReason::OptedOut => "opted_out: nothing of the channel is stored",
    }
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
