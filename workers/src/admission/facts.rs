//! Channel facts of a batch, which `rules::audience` needs to decide on its events.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use ports::archive::{Archive, ArchiveError, key, newest};
use ports::queue::route::Audience;
use ports::recent::Recent;
use rules::SlackEvent;
use rules::audience::{
    ChannelFacts, ChannelRows, ChannelVisibility, Decision, NeededFacts, decide, needed_facts,
};
use rules::public_mark::MarkState;
use slack::catalogue::{ChannelChange, EventRule, Visibility};
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::Instant;

use crate::admission::marks::Marks;
use crate::failure::JobFailure;

/// Maximum number of remembered private channels. At the limit, all of them are forgotten.
const MAX_SEEN: usize = 10_000;

/// How long a channel is remembered as private.
const SEEN_FOR: Duration = Duration::from_secs(600);

pub(crate) type TeamChannel = (TeamId, ChannelId);

/// Reads channel facts, and remembers which channels were recently private.
pub(crate) struct Audiences {
    pub(crate) marks: Marks,
    /// Unmarked channels that recently sent a private event.
    seen_as_private: Recent<TeamChannel>,
}

impl Default for Audiences {
    fn default() -> Self {
        Self { marks: Marks::default(), seen_as_private: Recent::new(SEEN_FOR, MAX_SEEN) }
    }
}

/// Facts about the channels of a batch, updated while its events are decided on.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchFacts(HashMap<TeamChannel, Result<ChannelFacts, JobFailure>>);

impl Audiences {
    /// Reads the facts that the decisions on these events need.
    pub(crate) async fn facts(&self, archive: &dyn Archive, events: &[&SlackEvent<'_>]) -> BatchFacts {
        let mut needed: BTreeMap<TeamChannel, (NeededFacts, bool)> = BTreeMap::new();
        for event in events {
            let needs = needed_facts(event);
            // An event without a usable channel fails when it is decided on.
            let Some(channel) = (needs > NeededFacts::Nothing).then(|| channel_of(event).ok()).flatten()
            else {
                continue;
            };
            let private = event.visibility() == Visibility::ChannelType
                && Audience::from_event(&event.header) == Audience::Private;
            let entry = needed.entry((event.team.clone(), channel)).or_insert((needs, private));
            *entry = (entry.0.max(needs), entry.1 || private);
        }
        let reads = needed.into_iter().map(|(channel, (needs, private))| async move {
            let facts = self.read(archive, &channel, needs, private).await;
            (channel, facts.map_err(JobFailure::from))
        });
        BatchFacts(join_all(reads).await.into_iter().collect())
    }

    async fn read(
        &self,
        archive: &dyn Archive,
        team_channel: &TeamChannel,
        needs: NeededFacts,
        private: bool,
    ) -> Result<ChannelFacts, ArchiveError> {
        let (team, channel) = team_channel;
        let mark = self.marks.read(archive, team, channel).await?;
        if private && mark.state() != MarkState::Public {
            self.seen_as_private.keep(team_channel.clone(), Instant::now(), ());
        }
        let rows = match (needs, mark.state()) {
            (NeededFacts::MarkAndRows, MarkState::Unmarked) => {
                read_channel_rows(archive, team, channel).await?
            }
            (NeededFacts::Nothing | NeededFacts::Mark | NeededFacts::MarkAndRows, _) => ChannelRows::Missing,
        };
        Ok(ChannelFacts {
            mark,
            rows,
            seen_as_private: self.seen_as_private.has(team_channel),
            visibility: None,
        })
    }
}

impl BatchFacts {
    /// Whether an event is stored.
    pub(crate) fn decide(&self, event: &SlackEvent<'_>) -> Result<Decision, JobFailure> {
        if needed_facts(event) == NeededFacts::Nothing {
            return Ok(decide(event, &ChannelFacts::default()));
        }
        Ok(decide(event, self.channel_facts(&event.team, channel_of(event)?)?))
    }

    /// Whether the archive has marked a channel as public, now or in the past.
    pub(crate) fn is_marked(&self, team: &TeamId, channel: ChannelId) -> Result<bool, JobFailure> {
        Ok(self.channel_facts(team, channel)?.mark.state() == MarkState::Public)
    }

    fn channel_facts(&self, team: &TeamId, channel: ChannelId) -> Result<&ChannelFacts, JobFailure> {
        match self.0.get(&(team.clone(), channel)) {
            Some(facts) => facts.as_ref().map_err(Clone::clone),
            None => Err(JobFailure::Transient("the facts of its channel were not read".into())),
        }
    }

    /// Records that an event with this clock shows a channel to be public.
    pub(crate) fn note_public(&mut self, team: &TeamId, channel: &ChannelId, clock: &Ts) {
        if let Some(facts) = self.facts_mut(team, channel) {
            facts.mark.open(clock);
        }
    }

    /// Records that a row of a channel is written.
    pub(crate) fn add_row(&mut self, team: &TeamId, channel: &ChannelId) {
        if let Some(facts) = self.facts_mut(team, channel).filter(|facts| facts.rows == ChannelRows::Missing)
        {
            facts.rows = ChannelRows::NotPublic;
        }
    }

    /// Records what Slack returned for a channel.
    pub(crate) fn set_visibility(&mut self, (team, channel): &TeamChannel, visibility: ChannelVisibility) {
        if let Some(facts) = self.facts_mut(team, channel) {
            facts.visibility = Some(visibility);
        }
    }

    fn facts_mut(&mut self, team: &TeamId, channel: &ChannelId) -> Option<&mut ChannelFacts> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut(&(team.clone(), channel.clone()))?.as_mut().ok()
    }
}

/// The channel whose facts decide on an event.
fn channel_of(event: &SlackEvent<'_>) -> Result<ChannelId, JobFailure> {
    Ok(match event.rule() {
        Some(EventRule::Channel(ChannelChange::IdChanged)) => event.changed_ids()?.0,
        Some(_) | None => event.channel()?,
    })
}

async fn read_channel_rows(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<ChannelRows, ArchiveError> {
    Ok(match newest(archive, key::channels(team, channel)).await? {
        None => ChannelRows::Missing,
        Some(row) if rules::channel::is_public(&row) => ChannelRows::Public,
        Some(_) => ChannelRows::NotPublic,
    })
}
