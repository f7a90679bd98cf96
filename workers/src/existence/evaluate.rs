//! What becomes of an event, given what is known of all that it claims.
//!
//! Slack's answer counts, with these exceptions, in which it may rightly not know (any more) what is real:
//! * A channel that the archive knows already, by its public mark or a row of its own, was confirmed when it was first
//!   written. It may have been deleted, got another id, or become private, so that the app cannot see it: `channel_deleted`
//!   and late messages are such. An invented channel has neither mark nor row; of one whose mark a person took back, rows
//!   say nothing.
//! * A channel that has just been made may be missing for a moment: `channel_created` waits that long.
//! * A person whose own event says that they left, if the archive has a row of them.
//! * People of other workspaces, if the event says that they are and the channel is shared: the event is judged by its
//!   workspace and channel. Slack says whether it is; if the archive alone vouches for the channel, its newest row does.
//! * The app's own end (`tokens_revoked`, `app_uninstalled`), after which Slack answers nothing, of a workspace that the
//!   archive knows.
//!
//! An event that says that a channel is public, while Slack says that it is private and the archive does not know it, counts
//! as invented: else one forged event would open a private channel for all that is said in it from then on. An event that
//! says that a channel goes on under another id does the same for that id; and if the old one still answers, the channel
//! has not left it, even if both are public: readers would take two channels for one.
//!
//! A scope that the app lacks is no sign of an invention: events wait until it is added, except in channels that the archive
//! knows. A private channel that only `groups:read` would show counts as one that Slack does not know. What Slack keeps
//! failing on, or has no time for in a flood, is quarantined and is no invention either.

use std::collections::HashMap;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key};
use ports::clock::TimestampMs;
use rules::public_mark::MarkState;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};

use super::SOON;
use super::cache::{Demand, Knowledge, KnownEntities};
use super::entities::{ChannelReach, Entity, EventEntities, EventPerson, SpecialCase};
use super::lookup::NO_TOKEN;
use crate::failure::JobFailure;

/// How long Slack may not know a channel that it announced.
const NEWBORN: Duration = Duration::from_secs(60);

/// How long until a new channel is asked about again: longer than its absence is remembered.
const NEWBORN_AGAIN: Duration = Duration::from_secs(6);

/// What came of asking about something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    Found {
        /// Of a channel; a row of the cache does not say it.
        reach: Option<ChannelReach>,
    },
    Missing(String),
    /// It is not known yet.
    Later {
        after: Duration,
        why: String,
        not_allowed: bool,
    },
    /// Slack could not say, for this reason, and waiting does not help.
    Unsaid(String),
}

impl From<Knowledge> for Fact {
    fn from(known: Knowledge) -> Self {
        match known {
            Knowledge::Found { reach, .. } => Self::Found { reach },
            Knowledge::Missing { code, .. } => Self::Missing(code),
        }
    }
}

/// What is known while a batch is evaluated.
pub(super) struct Evaluation<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) known: &'a KnownEntities,
    pub(super) now: TimestampMs,
    /// What was asked for this batch.
    pub(super) facts: HashMap<Entity, Fact>,
}

/// What stands in the way of a verdict so far.
#[derive(Default)]
struct Undecided {
    unknown: Vec<(Entity, Demand)>,
    /// The longest of the waits.
    wait: Option<(Duration, String)>,
}

impl Undecided {
    /// Takes in what is known of an entity that the event needs.
    fn add(&mut self, entity: &Entity, demand: Demand, fact: Option<Fact>) -> Result<(), JobFailure> {
        match fact {
            None => self.unknown.push((entity.clone(), demand)),
            Some(Fact::Found { .. }) => {}
            Some(Fact::Missing(code)) => return Err(JobFailure::Permanent(why_missing(entity, &code))),
            Some(Fact::Unsaid(why)) => return Err(JobFailure::Permanent(why_unsaid(entity, &why))),
            Some(Fact::Later { after, why, .. }) => self.wait(after, &why),
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
    /// What has to be asked before it is known what becomes of an event; nothing if all that it claims exists.
    pub(super) async fn evaluate(
        &self,
        subject: &EventEntities,
    ) -> Result<Vec<(Entity, Demand)>, JobFailure> {
        let team = &subject.team;
        if subject.special_case == SpecialCase::Departure
            && self.row(&ItemKey::team(team.team())).await?.is_some()
        {
            return Ok(Vec::new());
        }
        let demand = subject.demand();
        // Whether it matters that people of other workspaces may write in its channels.
        let is_unknown =
            |person: &EventPerson| !matches!(self.fact(&person.who, &demand), Some(Fact::Found { .. }));
        let has_foreigners = !subject.channels.is_empty()
            && subject.people.iter().any(|person| person.foreign && is_unknown(person));
        let mut undecided = Undecided::default();
        undecided.add(team, demand, self.fact(team, &demand))?;
        // Whether people of other workspaces may write in all of them; unknown while one of them is.
        let mut shared = (!subject.channels.is_empty()).then_some(true);
        for channel in &subject.channels {
            let is_shared = match self.fact(channel, &demand) {
                Some(Fact::Found { reach: Some(reach) }) => {
                    if reach.private && subject.public && !self.knows_channel(channel).await? {
                        return Err(private(channel));
                    }
                    Some(reach.shared)
                }
                Some(Fact::Found { reach: None }) if !has_foreigners => continue,
                // A row of the table does not say whether it is shared: Slack does.
                Some(Fact::Found { reach: None }) if !self.facts.contains_key(channel) => {
                    undecided.unknown.push((channel.clone(), demand));
                    None
                }
                Some(Fact::Found { reach: None }) => Some(false),
                fact if self.archive_vouches(channel, &fact).await? => {
                    Some(has_foreigners && self.is_kept_as_shared(channel).await?)
                }
                Some(Fact::Missing(_)) if self.is_newborn(subject) => {
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
        if let Some(former) = &subject.former {
            let demand = Demand { former: true, ..demand };
            match self.fact(former, &demand) {
                Some(Fact::Found { .. }) => return Err(not_left(former)),
                fact if self.archive_vouches(former, &fact).await? => {}
                fact => undecided.add(former, demand, fact)?,
            }
        }
        for person in &subject.people {
            if person.foreign && !subject.channels.is_empty() && shared != Some(false) {
                // Either the channel is shared, or that is asked first.
                continue;
            }
            match self.fact(&person.who, &demand) {
                Some(Fact::Missing(_) | Fact::Unsaid(_))
                    if subject.special_case == SpecialCase::Person && self.knows_person(person).await? => {}
                fact => undecided.add(&person.who, demand, fact)?,
            }
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

    fn is_newborn(&self, subject: &EventEntities) -> bool {
        subject.special_case == SpecialCase::ChannelCreated && self.now < subject.sent_at.plus(NEWBORN)
    }

    /// Whether the archive knows a channel of which Slack does not say that it exists, nor that this is said later.
    async fn archive_vouches(&self, channel: &Entity, fact: &Option<Fact>) -> Result<bool, JobFailure> {
        let may =
            matches!(fact, Some(Fact::Missing(_) | Fact::Unsaid(_) | Fact::Later { not_allowed: true, .. }));
        Ok(may && self.knows_channel(channel).await?)
    }

    /// By its mark, or by a row: both are written only of channels that were confirmed, or before the check was on. A mark
    /// that a person took back speaks for the rows too.
    async fn knows_channel(&self, channel: &Entity) -> Result<bool, JobFailure> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        Ok(match MarkState::of(self.row(&ItemKey::public_mark(team, id)).await?.as_ref()) {
            MarkState::Public => true,
            MarkState::Forgotten => false,
            MarkState::Unmarked => self.newest_row(team, id).await?.is_some(),
        })
    }

    /// Whether the newest row of a channel says that people of other workspaces write in it.
    async fn is_kept_as_shared(&self, channel: &Entity) -> Result<bool, JobFailure> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        let row = self.newest_row(team, id).await?;
        Ok(row.is_some_and(|row| row.attributes.get("ext_shared") == Some(&Value::Bool(true))))
    }

    async fn knows_person(&self, person: &EventPerson) -> Result<bool, JobFailure> {
        let Entity::User(team, user) = &person.who else { return Ok(false) };
        Ok(self.row(&ItemKey::user(team, user)).await?.is_some())
    }

    async fn row(&self, key: &ItemKey) -> Result<Option<Item>, JobFailure> {
        self.archive.get(key).await.map_err(unread)
    }

    async fn newest_row(&self, team: &TeamId, channel: &ChannelId) -> Result<Option<Item>, JobFailure> {
        let newest = Query { limit: 1, descending: true, ..Query::partition(key::channels(team, channel)) };
        Ok(self.archive.query(&newest).await.map_err(unread)?.items.pop())
    }
}

/// The archive does not say, which is no sign of an invention.
fn unread(error: ArchiveError) -> JobFailure {
    JobFailure::Postponed(error.to_string(), SOON)
}

/// What a person reads in quarantine about what Slack does not know.
pub(super) fn why_missing(entity: &Entity, code: &str) -> String {
    if code == NO_TOKEN {
        format!(
            "it is unknown whether {entity} exists: there is no token for it. If it is yours, add its token to \
             SLACK_BOT_TOKENS_FILE and replay this job; else drop it"
        )
    } else {
        format!(
            "Slack does not know {entity} ({}: {code}). The event may be forged: if it is not, replay this job once Slack \
             shows it to the app; else drop it and change the signing secret",
            entity.method().name()
        )
    }
}

/// The same, of what Slack cannot be asked about.
pub(super) fn why_unsaid(entity: &Entity, why: &str) -> String {
    format!(
        "Slack could not say whether {entity} exists ({}: {why}). Replay this job later: it is asked again then; drop it if it \
         is forged",
        entity.method().name()
    )
}

/// The same, of a channel that still has the id it is said to have left.
fn not_left(former: &Entity) -> JobFailure {
    JobFailure::Permanent(format!(
        "Slack still shows {former} under the id that the event says it has left. The event may be forged: drop it and change \
         the signing secret. If the channel did get another id, start with `--existence-check observe` and replay this job"
    ))
}

/// The same, of a channel that is not what the event says.
fn private(channel: &Entity) -> JobFailure {
    JobFailure::Permanent(format!(
        "Slack shows {channel} as private, the event as public, and no public message of it was ever kept. The event may be \
         forged: drop it and change the signing secret. If the channel was public until now, start with \
         `--existence-check observe` and replay this job"
    ))
}
