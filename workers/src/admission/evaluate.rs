//! Decides on an event from the facts about the entities it claims.
//!
//! Slack's answer decides, except in these cases, in which Slack may legitimately not know (or no longer
//! know) a real entity:
//! * A channel that the archive already knows, by its public mark or its own row, was confirmed when it was
//!   first written. It may have been deleted, received another ID, or become private, so that the app cannot
//!   see it, for example with `channel_deleted` and late messages. A forged channel has neither mark nor row.
//!   If a person revoked a channel's mark, its rows prove nothing.
//! * A channel that was just created may be missing for a moment: `channel_created` waits for that long.
//! * A person whose own event reports that they left, if the archive has their row.
//! * People of other workspaces, if the event marks them as such and the channel is shared: the event is
//!   judged by its workspace and channel. Slack reports whether a channel is shared; if only the archive
//!   confirms the channel, its newest row does.
//! * The removal of the app itself (`tokens_revoked`, `app_uninstalled`), after which Slack answers no
//!   request, for a workspace that the archive knows.
//!
//! An event that implies that a channel is public counts as forged if Slack reports the channel as private
//! and the archive does not know it: otherwise one forged event would open a private channel for all its
//! later messages. An event that reports a new ID of a channel implies the same for that ID. If the old ID
//! still answers, the channel has not left it, even if both are public: readers would take two channels for
//! one.
//!
//! A scope that the app lacks is no sign of a forgery: events wait until it is added, except in channels that
//! the archive knows. A private channel that only `groups:read` would show counts as unknown to Slack. Events
//! of entities that Slack cannot be asked about in a flood are quarantined, but do not count as forged.

use std::collections::HashMap;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, key, newest};
use ports::clock::TimestampMs;
use ports::queue::waiting::WaitCause;
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, TeamId};

use super::SOON;
use super::cache::{Knowledge, KnownEntities};
use super::entities::{ChannelReach, Demand, Entity, EventEntities, EventPerson, SpecialCase};
use crate::failure::JobFailure;

/// How long Slack may not know a channel that it announced.
const NEWBORN: Duration = Duration::from_secs(60);

/// The delay before Slack is asked about a new channel again: longer than its absence is remembered.
const NEWBORN_AGAIN: Duration = Duration::from_secs(6);

/// The result of asking about an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    Found {
        /// Set for channels only; a row of the cache table does not contain it.
        reach: Option<ChannelReach>,
    },
    Missing(String),
    /// The answer is pending, or Slack demands a pause.
    Later {
        after: Duration,
        why: String,
    },
    /// Slack failed on it, perhaps only for a moment.
    Failed {
        after: Duration,
        why: String,
    },
    /// Something must change before Slack can be asked.
    Blocked {
        cause: WaitCause,
        why: String,
    },
    /// Slack was not asked, for this reason, and waiting does not help.
    Undetermined(String),
}

impl From<Knowledge> for Fact {
    fn from(known: Knowledge) -> Self {
        match known {
            Knowledge::Found { reach, .. } => Self::Found { reach },
            Knowledge::Missing { code, .. } => Self::Missing(code),
        }
    }
}

/// The facts that are known while a batch is evaluated.
pub(super) struct Evaluation<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) known: &'a KnownEntities,
    pub(super) now: TimestampMs,
    /// Facts that were requested for this batch.
    pub(super) facts: HashMap<Entity, Fact>,
}

/// The facts that a verdict still lacks.
#[derive(Default)]
struct Undecided {
    unknown: Vec<(Entity, Demand)>,
    /// The longest of the waits.
    wait: Option<(Duration, String)>,
    /// Why it has to wait longer than for an answer.
    stopped: Option<JobFailure>,
}

impl Undecided {
    /// Adds the fact about an entity that the event needs.
    fn add(&mut self, entity: &Entity, demand: Demand, fact: Option<Fact>) -> Result<(), JobFailure> {
        match fact {
            None => self.unknown.push((entity.clone(), demand)),
            Some(Fact::Found { .. }) => {}
            Some(Fact::Missing(code)) => return Err(JobFailure::Permanent(why_missing(entity, &code))),
            Some(Fact::Undetermined(why)) => {
                return Err(JobFailure::Permanent(why_undetermined(entity, &why)));
            }
            Some(Fact::Later { after, why }) => self.wait(after, &why),
            Some(Fact::Failed { after, why }) => {
                self.stopped.get_or_insert(JobFailure::SlackFailed(why, Some(after)));
            }
            Some(Fact::Blocked { cause, why }) => self.stopped = Some(JobFailure::Waits(cause, why)),
        }
        Ok(())
    }

    fn wait(&mut self, after: Duration, why: &str) {
        if self.wait.as_ref().is_none_or(|(longest, _)| *longest < after) {
            self.wait = Some((after, why.to_owned()));
        }
    }
}

impl Evaluation<'_> {
    /// Returns the questions that must be answered before the event is decided; none if all its entities
    /// exist.
    pub(super) async fn evaluate(
        &self,
        entities: &EventEntities,
    ) -> Result<Vec<(Entity, Demand)>, JobFailure> {
        let team = &entities.team;
        if entities.special_case == SpecialCase::Departure
            && self.row(&ItemKey::team(team.team())).await?.is_some()
        {
            return Ok(Vec::new());
        }
        let demand = entities.demand();
        // Whether it matters that people of other workspaces can write in its channels.
        let is_unknown =
            |person: &EventPerson| !matches!(self.fact(&person.entity, &demand), Some(Fact::Found { .. }));
        let has_foreigners = !entities.channels.is_empty()
            && entities.people.iter().any(|person| person.foreign && is_unknown(person));
        let mut undecided = Undecided::default();
        undecided.add(team, demand, self.fact(team, &demand))?;
        // Whether people of other workspaces can write in all of them; unknown while it is unknown for one of
        // them.
        let mut shared = (!entities.channels.is_empty()).then_some(true);
        for channel in &entities.channels {
            let is_shared = match self.fact(channel, &demand) {
                Some(Fact::Found { reach: Some(reach) }) => {
                    if reach.private && entities.public && !self.knows_channel(channel).await? {
                        return Err(private(channel));
                    }
                    Some(reach.shared)
                }
                Some(Fact::Found { reach: None }) if !has_foreigners => continue,
                // A row of the cache table does not record whether the channel is shared, so Slack is asked.
                Some(Fact::Found { reach: None }) if !self.facts.contains_key(channel) => {
                    undecided.unknown.push((channel.clone(), demand));
                    None
                }
                Some(Fact::Found { reach: None }) => Some(false),
                fact if self.archive_vouches(channel, &fact).await? => {
                    Some(has_foreigners && self.is_stored_as_shared(channel).await?)
                }
                Some(Fact::Missing(_)) if self.is_newborn(entities) => {
                    undecided.wait(NEWBORN_AGAIN, "Slack does not show the new channel yet");
                    continue;
                }
                fact => {
                    undecided.add(channel, demand, fact)?;
                    None
                }
            };
            shared = is_shared.and_then(|is_shared| shared.map(|all| all && is_shared));
        }
        if let Some(former) = &entities.former {
            let demand = Demand { former: true, ..demand };
            match self.fact(former, &demand) {
                Some(Fact::Found { .. }) => return Err(not_left(former)),
                fact if self.archive_vouches(former, &fact).await? => {}
                fact => undecided.add(former, demand, fact)?,
            }
        }
        for person in &entities.people {
            if person.foreign && !entities.channels.is_empty() && shared != Some(false) {
                // Either the channel is shared, or Slack is asked about that first.
                continue;
            }
            match self.fact(&person.entity, &demand) {
                Some(Fact::Missing(_) | Fact::Undetermined(_))
                    if entities.special_case == SpecialCase::Person && self.knows_person(person).await? => {}
                fact => undecided.add(&person.entity, demand, fact)?,
            }
        }
        if let Some(stopped) = undecided.stopped {
            return Err(stopped);
        }
        match undecided.wait {
            Some((after, reason)) if undecided.unknown.is_empty() => {
                Err(JobFailure::Postponed(reason, after))
            }
            Some(_) | None => Ok(undecided.unknown),
        }
    }

    fn fact(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        self.facts.get(entity).cloned().or_else(|| self.known.answer(entity, demand).map(Fact::from))
    }

    fn is_newborn(&self, entities: &EventEntities) -> bool {
        entities.special_case == SpecialCase::ChannelCreated && self.now < entities.sent_at.plus(NEWBORN)
    }

    /// Whether the archive knows a channel whose existence Slack neither confirms nor will confirm later.
    async fn archive_vouches(&self, channel: &Entity, fact: &Option<Fact>) -> Result<bool, JobFailure> {
        let may = matches!(
            fact,
            Some(Fact::Missing(_) | Fact::Undetermined(_) | Fact::Blocked { cause: WaitCause::Scope, .. })
        );
        Ok(may && self.knows_channel(channel).await?)
    }

    /// Whether a channel has a public mark or a row: both are written only for confirmed channels, or were
    /// written before the check was enabled. A mark that a person revoked overrides the rows.
    async fn knows_channel(&self, channel: &Entity) -> Result<bool, JobFailure> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        Ok(match MarkState::from_row(self.row(&ItemKey::public_mark(team, id)).await?.as_ref()) {
            MarkState::Public => true,
            MarkState::Forgotten => false,
            MarkState::Unmarked => self.newest_row(team, id).await?.is_some(),
        })
    }

    /// Whether the newest row of a channel records that people of other workspaces can write in it.
    async fn is_stored_as_shared(&self, channel: &Entity) -> Result<bool, JobFailure> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        let row = self.newest_row(team, id).await?;
        Ok(row.is_some_and(|row| rules::channel::is_shared(&row)))
    }

    async fn knows_person(&self, person: &EventPerson) -> Result<bool, JobFailure> {
        let Entity::User(team, user) = &person.entity else { return Ok(false) };
        Ok(self.row(&ItemKey::user(team, user)).await?.is_some())
    }

    async fn row(&self, key: &ItemKey) -> Result<Option<Item>, JobFailure> {
        self.archive.get(key).await.map_err(unread)
    }

    async fn newest_row(&self, team: &TeamId, channel: &ChannelId) -> Result<Option<Item>, JobFailure> {
        newest(self.archive, key::channels(team, channel)).await.map_err(unread)
    }
}

/// The archive could not be read, which is no sign of a forgery.
fn unread(error: ArchiveError) -> JobFailure {
    JobFailure::Postponed(error.to_string(), SOON)
}

/// The quarantine reason for an entity that Slack does not know.
pub(super) fn why_missing(entity: &Entity, code: &str) -> String {
    format!(
        "Slack does not know {entity} ({}: {code}). The event may be forged: if it is not, replay this job once Slack \
         shows it to the app; else drop it and change the signing secret",
        entity.method().name()
    )
}

/// The quarantine reason for an entity that Slack could not be asked about.
pub(super) fn why_undetermined(entity: &Entity, why: &str) -> String {
    format!(
        "Slack could not say whether {entity} exists ({}: {why}). Replay this job later: it is asked again then; drop it if it \
         is forged",
        entity.method().name()
    )
}

/// The quarantine reason for a channel that still has the ID it reportedly left.
fn not_left(former: &Entity) -> JobFailure {
    JobFailure::Permanent(format!(
        "Slack still shows {former} under the id that the event says it has left. The event may be forged: drop it and change \
         the signing secret. If the channel did get another id, start with `--existence-check off` and replay this job"
    ))
}

/// The quarantine reason for a private channel in a public event.
fn private(channel: &Entity) -> JobFailure {
    JobFailure::Permanent(format!(
        "Slack shows {channel} as private, the event as public, and no public message of it was ever kept. Either it became \
         private while Slack could not be asked: to keep it, start with `--existence-check off` and replay this job. Or the \
         event is forged: drop it and change the signing secret"
    ))
}
