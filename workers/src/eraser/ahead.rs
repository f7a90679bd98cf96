//! What is there when an erasure begins although its time is after the erasure's: the clock of this machine is
//! behind Slack's, or a sender or an import named a future time. An erasure covers it, but nothing that comes
//! later with such a time: each message gets its own fact.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, rows};
use slack::ids::{ChannelId, TeamId, Ts};

use super::{JobCover, PAGE, channels_of, cover_of};
use crate::quarantine;
use crate::runtime::updates_of;

/// More messages than this are not ahead of a clock that is right: it would take a day to write that many, and
/// each gets its own row.
const MAX_AHEAD: usize = 10_000;

/// The latest time that a timestamp can have.
const LATEST: &str = "999999999999.999999";

/// Why an erasure could not begin.
#[derive(Debug, thiserror::Error)]
pub enum AheadError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The clock of this machine is wrong.
    #[error(
        "more than {MAX_AHEAD} messages to erase are newer than {0}, the time of this machine: correct its clock, then erase again"
    )]
    WrongClock(String),
}

/// The facts of a request, at the end of all times: they cover what is there, whatever its time.
fn at_any_time(facts: &[ErasureFact]) -> Vec<ErasureFact> {
    let at_end = |fact: &ErasureFact| Some(ErasureFact { until: Ts::parse(LATEST).ok()?, ..fact.clone() });
    facts.iter().filter_map(at_end).collect()
}

/// What facts cover only because it is there when the erasure begins.
#[derive(Debug, Clone, Default)]
pub struct ErasedAhead {
    messages: BTreeSet<(TeamId, ChannelId, Ts)>,
    /// The states and member counts of channels.
    pub(super) states: BTreeSet<ItemKey>,
    /// The jobs in quarantine, by their ids.
    pub(super) quarantined: BTreeSet<String>,
    /// The facts of the request at any time, for jobs.
    pub(super) facts: Vec<ErasureFact>,
    covered: ErasureFacts,
}

impl ErasedAhead {
    /// Finds it in the rows of the archive and in quarantine.
    pub async fn find(archive: &dyn Archive, facts: &[ErasureFact]) -> Result<Self, AheadError> {
        let mut ahead = Self { facts: at_any_time(facts), ..Self::default() };
        ahead.covered = ahead.facts.iter().collect();
        for fact in facts {
            let (team, from) = (&fact.team, Some(fact.until.as_str()));
            let mut partitions = BTreeMap::new();
            match &fact.scope {
                ErasureScope::User(_) => {
                    for channel in channels_of(archive, team).await? {
                        partitions.insert(key::messages(team, &channel), from);
                    }
                }
                ErasureScope::Channel(channel) => {
                    partitions.insert(key::messages(team, channel), from);
                    partitions.insert(key::channels(team, channel), from);
                    partitions.insert(key::members(team, channel), None);
                }
                // Covered at any time.
                ErasureScope::Message(..) => continue,
            }
            for partition in
                [key::questions(team), key::answers(team), key::responded(team), key::bot_messages(team)]
            {
                partitions.insert(partition, None);
            }
            for (partition, from) in partitions {
                // The last text before this time.
                let after = from.map(|from| ItemKey::new(&*partition, &from[..from.len() - 1]));
                let mut query = Query { limit: PAGE, after, ..Query::partition(&*partition) };
                loop {
                    let page = archive.query(&query).await?;
                    for row in &page.items {
                        if ahead.covered.covers_row(row) && !ahead.message(&row.key, facts)? {
                            ahead.states.insert(row.key.clone());
                        }
                    }
                    match page.next {
                        Some(next) => query.after = Some(next),
                        None => break,
                    }
                }
            }
        }
        for (queue, partition) in quarantine::partitions(archive).await? {
            let mut after = None;
            loop {
                let (jobs, next) = quarantine::read_page_of(archive, queue, partition.clone(), after).await?;
                for job in jobs {
                    if ahead.job(&job.payload, facts)? {
                        ahead.quarantined.insert(job.id);
                    }
                }
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(ahead)
    }

    /// Adds what a job would write. Returns whether the job is covered.
    pub fn job(&mut self, body: &str, facts: &[ErasureFact]) -> Result<bool, AheadError> {
        if cover_of(body, &self.facts, &self.covered) == JobCover::Free {
            return Ok(false);
        }
        for update in updates_of(body).unwrap_or_default() {
            if self.covered.covers(&update) {
                self.message(&update.key, facts)?;
            }
        }
        Ok(true)
    }

    /// Facts that cover the content of every job that is there.
    #[must_use]
    pub fn job_facts(&self) -> &[ErasureFact] {
        &self.facts
    }

    /// The facts of the messages that the facts of the request do not cover.
    #[must_use]
    pub fn message_facts(&self, facts: &[ErasureFact]) -> Vec<ErasureFact> {
        let Some(first) = facts.first() else { return Vec::new() };
        let fact = |(team, channel, ts): &(TeamId, ChannelId, Ts)| ErasureFact {
            team: team.clone(),
            scope: ErasureScope::Message(channel.clone(), ts.clone()),
            until: first.until.clone(),
        };
        self.messages.iter().map(fact).collect()
    }

    /// Adds the message of a row, unless it is before the erasure. Returns whether the row belongs to one.
    fn message(&mut self, key: &ItemKey, facts: &[ErasureFact]) -> Result<bool, AheadError> {
        let Some((team, channel, ts)) = rows::message_of(key) else { return Ok(false) };
        let Some(until) = facts.iter().map(|fact| &fact.until).min() else { return Ok(true) };
        if ts >= *until {
            self.messages.insert((team, channel, ts));
            if self.messages.len() > MAX_AHEAD {
                return Err(AheadError::WrongClock(rules::message::rfc3339(until)));
            }
        }
        Ok(true)
    }
}
