//! What is held of the channels of a workspace, for readers: facts gathered from the archive, of which
//! [`coverage`](rules::gap::coverage) says which times are held and where the holes are.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use rules::filled::{self, FilledSpan};
use rules::gap::closing::HistoryFacts;
use rules::gap::coverage::{HeldSpan, Hole, KnownChannel};
use rules::gap::projection::{Gap, posted_at};
use rules::gap::run::RunSpan;
use rules::interval::Interval;
use rules::message;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::{gaps, history};

/// Messages looked at to find the newest one that came as it was posted.
const MAX_MESSAGES: usize = 500;

/// Read in pages of this, the first of which is smaller: nearly always the first row decides.
const PAGE: usize = 25;
const FIRST_PAGE: usize = 5;

/// What is held of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelCoverage {
    /// The times of which everything is held, oldest first.
    pub held: Vec<HeldSpan>,
    /// The times of which something may be missing, oldest first.
    pub holes: Vec<Hole>,
    /// Its newest message in the archive.
    pub last_message: Option<Ts>,
    /// The oldest ts that Slack still showed, if its plan does not show everything.
    pub limited_before: Option<Ts>,
}

/// What the coverage of the channels of one workspace is made of.
pub struct TeamCoverage<'a> {
    archive: &'a dyn Archive,
    team: TeamId,
    gaps: Vec<Gap>,
    spans: BTreeMap<ChannelId, Vec<FilledSpan>>,
    facts: HistoryFacts,
    marked: Vec<ChannelId>,
    /// The last event that a run of ingest took.
    last_event: Option<Ts>,
}

impl<'a> TeamCoverage<'a> {
    /// Reads what all channels have in common.
    pub async fn read(archive: &'a dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let gaps = gaps::read(archive, team).await?;
        let runs = query_all(archive, Query::partition(key::runs(team))).await?;
        let filled = filled::spans(&query_all(archive, Query::partition(key::filled(team))).await?);
        let unreadable = query_all(archive, Query::partition(key::unreadable(team))).await?;
        let facts = HistoryFacts::new(&filled, &filled::unreadables(&unreadable), []);
        let mut spans: BTreeMap<ChannelId, Vec<FilledSpan>> = BTreeMap::new();
        for span in filled {
            spans.entry(span.channel.clone()).or_default().push(span);
        }
        Ok(Self {
            archive,
            team: team.clone(),
            gaps,
            spans,
            facts,
            marked: history::marked(archive, team).await?,
            last_event: runs.iter().filter_map(RunSpan::read).map(|seen| seen.last).max(),
        })
    }

    /// The workspace.
    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// The channels that are kept or were read, in the order of their ids.
    pub fn channels(&self) -> BTreeSet<&ChannelId> {
        self.marked.iter().chain(self.spans.keys()).collect()
    }

    /// What is held of a channel.
    pub async fn of(&self, channel: &ChannelId) -> Result<ChannelCoverage, ArchiveError> {
        let Self { archive, team, facts, .. } = self;
        let joined = history::first_there(*archive, team, channel).await?;
        let known = KnownChannel { joined, ..self.known(channel) };
        // The last event matters only in a channel that the app is known to have been in.
        let newest = NewestMessages::read(*archive, team, channel, known.joined().is_some()).await?;
        let created = history::created(*archive, team, channel).await?;
        let last_event = known.last_event.clone().max(newest.posted);
        let known = KnownChannel { created, last_event, ..known };
        let limit = facts.limited_before(channel);
        Ok(ChannelCoverage {
            held: known.held(),
            holes: known.holes(),
            last_message: newest.any,
            limited_before: limit.map(|limit| Interval { from: limit, to: limit }.from_ts()),
        })
    }

    /// Whether everything of a time is surely held of a channel: then none of its holes touches that time. It reads no more than
    /// it needs to say so; `false` leaves it to [`TeamCoverage::of`].
    pub async fn is_whole(&self, channel: &ChannelId, within: Interval) -> Result<bool, ArchiveError> {
        let known = self.known(channel);
        if !known.has_hole_in(within) {
            return Ok(true);
        }
        let joined = history::first_there(self.archive, &self.team, channel).await?;
        Ok(joined.is_some() && !KnownChannel { joined, ..known }.has_hole_in(within))
    }

    /// What is known of a channel without reading anything of it.
    fn known<'c>(&'c self, channel: &'c ChannelId) -> KnownChannel<'c> {
        KnownChannel {
            channel,
            created: None,
            joined: None,
            last_event: self.last_event.clone(),
            gaps: &self.gaps,
            spans: self.spans.get(channel).map(Vec::as_slice).unwrap_or_default(),
            facts: &self.facts,
        }
    }
}

/// The newest messages of a channel.
struct NewestMessages {
    /// However it came.
    any: Option<Ts>,
    /// One that came as it was posted, if it is looked for.
    posted: Option<Ts>,
}

impl NewestMessages {
    async fn read(
        archive: &dyn Archive,
        team: &TeamId,
        channel: &ChannelId,
        is_posted_wanted: bool,
    ) -> Result<Self, ArchiveError> {
        let partition = key::messages(team, channel);
        let mut query = Query { descending: true, limit: FIRST_PAGE, ..Query::partition(partition) };
        let (mut any, mut looked_at) = (None, 0);
        loop {
            let page = archive.query(&query).await?;
            any = any.or_else(|| page.items.iter().filter(|row| is_message(row)).find_map(ts));
            let posted = page.items.iter().find_map(posted_at);
            looked_at += page.items.len();
            let is_found = any.is_some() && (posted.is_some() || !is_posted_wanted);
            match page.next {
                Some(next) if !is_found && looked_at < MAX_MESSAGES => query.after = Some(next),
                Some(_) | None => return Ok(Self { any, posted }),
            }
            query.limit = PAGE;
        }
    }
}

fn ts(row: &Item) -> Option<Ts> {
    Ts::parse(&row.key.timestamp).ok()
}

/// Whether readers see the row: one that only has reactions is not a message yet.
fn is_message(row: &Item) -> bool {
    message::stored_version(row).is_some() || row.is("deleted")
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
