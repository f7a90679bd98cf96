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

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use ports::clock::TimestampMs;
use rules::public_mark::MarkState;
use serde_json::Value;

use super::Verdict;
use super::cache::{Demand, Knowledge, KnownEntities};
use super::entities::{ChannelReach, Entity, Person, SpecialCase, Subject};
use super::lookup::NO_TOKEN;

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

/// What came of evaluating a claim.
pub(super) enum Evaluated {
    /// What becomes of the event.
    Decided(Verdict),
    /// What has to be asked first.
    Open(Vec<(Entity, Demand)>),
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
    /// Takes in what is known of an entity that the event needs; the verdict if it is known not to exist.
    fn add(&mut self, entity: &Entity, demand: Demand, fact: Option<Fact>) -> Option<Verdict> {
        match fact {
            None => self.unknown.push((entity.clone(), demand)),
            Some(Fact::Found { .. }) => {}
            Some(Fact::Missing(code)) => return Some(Verdict::Unknown(why_missing(entity, &code))),
            Some(Fact::Unsaid(why)) => return Some(Verdict::Unknown(why_unsaid(entity, &why))),
            Some(Fact::Later { after, why, .. }) => self.wait(after, &why),
        }
        None
    }

    fn wait(&mut self, after: Duration, why: &str) {
        if self.wait.as_ref().is_none_or(|(longest, _)| *longest < after) {
            self.wait = Some((after, why.to_owned()));
        }
    }
}

impl Evaluation<'_> {
    /// What becomes of an event, or what has to be asked first.
    pub(super) async fn evaluate(&self, subject: &Subject) -> Result<Evaluated, ArchiveError> {
        if subject.special_case == SpecialCase::Departure && self.knows_team(&subject.team).await? {
            return Ok(Evaluated::Decided(Verdict::Exists));
        }
        let demand = subject.demand();
        let mut undecided = Undecided::default();
        let team = &subject.team;
        if let Some(verdict) = undecided.add(team, demand, self.fact(team, &demand)) {
            return Ok(Evaluated::Decided(verdict));
        }
        // Whether people of other workspaces may write in all of them; unknown while one of them is.
        let mut shared = (!subject.channels.is_empty()).then_some(true);
        for channel in &subject.channels {
            let is_shared = match self.fact(channel, &demand) {
                Some(Fact::Found { reach: Some(reach) }) => {
                    if reach.private && subject.public && !self.knows_channel(channel).await? {
                        return Ok(Evaluated::Decided(private(channel)));
                    }
                    Some(reach.shared)
                }
                Some(Fact::Found { reach: None }) if !subject.has_foreigners() => continue,
                // A row of the table does not say whether it is shared: Slack does.
                Some(Fact::Found { reach: None }) if !self.facts.contains_key(channel) => {
                    undecided.unknown.push((channel.clone(), demand));
                    None
                }
                Some(Fact::Found { reach: None }) => Some(false),
                Some(Fact::Missing(_) | Fact::Unsaid(_) | Fact::Later { not_allowed: true, .. })
                    if self.knows_channel(channel).await? =>
                {
                    Some(subject.has_foreigners() && self.is_kept_as_shared(channel).await?)
                }
                Some(Fact::Missing(_)) if self.is_newborn(subject) => {
                    undecided.wait(NEWBORN_AGAIN, "Slack does not show the new channel yet");
                    continue;
                }
                fact => {
                    if let Some(verdict) = undecided.add(channel, demand, fact) {
                        return Ok(Evaluated::Decided(verdict));
                    }
                    None
                }
            };
            shared = is_shared.and_then(|is_shared| shared.map(|all| all && is_shared));
        }
        if let Some(former) = &subject.former {
            let demand = Demand { former: true, ..demand };
            match self.fact(former, &demand) {
                Some(Fact::Found { .. }) => return Ok(Evaluated::Decided(not_left(former))),
                Some(Fact::Missing(_) | Fact::Unsaid(_) | Fact::Later { not_allowed: true, .. })
                    if self.knows_channel(former).await? => {}
                fact => {
                    if let Some(verdict) = undecided.add(former, demand, fact) {
                        return Ok(Evaluated::Decided(verdict));
                    }
                }
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
                fact => {
                    if let Some(verdict) = undecided.add(&person.who, demand, fact) {
                        return Ok(Evaluated::Decided(verdict));
                    }
                }
            }
        }
        if !undecided.unknown.is_empty() {
            return Ok(Evaluated::Open(undecided.unknown));
        }
        Ok(Evaluated::Decided(match undecided.wait {
            Some((after, reason)) => Verdict::Wait { after, reason },
            None => Verdict::Exists,
        }))
    }

    fn fact(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        if let Some(fact) = self.facts.get(entity) {
            return Some(fact.clone());
        }
        self.known.answer(entity, demand).map(|known| match known {
            Knowledge::Found { reach, .. } => Fact::Found { reach },
            Knowledge::Missing { code, .. } => Fact::Missing(code),
        })
    }

    fn is_newborn(&self, subject: &Subject) -> bool {
        subject.special_case == SpecialCase::ChannelCreated && self.now < subject.sent_at.plus(NEWBORN)
    }

    async fn knows_team(&self, team: &Entity) -> Result<bool, ArchiveError> {
        Ok(self.archive.get(&ItemKey::team(team.team())).await?.is_some())
    }

    /// By its mark, or by a row: both are written only of channels that were confirmed, or before the check was on. A mark
    /// that a person took back speaks for the rows too.
    async fn knows_channel(&self, channel: &Entity) -> Result<bool, ArchiveError> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        Ok(match self.mark(channel).await? {
            MarkState::Public => true,
            MarkState::Forgotten => false,
            MarkState::Unmarked => {
                let any = Query { limit: 1, ..Query::partition(key::channels(team, id)) };
                !self.archive.query(&any).await?.items.is_empty()
            }
        })
    }

    async fn mark(&self, channel: &Entity) -> Result<MarkState, ArchiveError> {
        let Entity::Channel(team, id) = channel else { return Ok(MarkState::Unmarked) };
        Ok(MarkState::of(self.archive.get(&ItemKey::public_mark(team, id)).await?.as_ref()))
    }

    /// Whether the newest row of a channel says that people of other workspaces write in it.
    async fn is_kept_as_shared(&self, channel: &Entity) -> Result<bool, ArchiveError> {
        let Entity::Channel(team, id) = channel else { return Ok(false) };
        let newest = Query { limit: 1, descending: true, ..Query::partition(key::channels(team, id)) };
        let rows = self.archive.query(&newest).await?.items;
        Ok(rows.iter().any(|row| row.attributes.get("ext_shared") == Some(&Value::Bool(true))))
    }

    async fn knows_person(&self, person: &Person) -> Result<bool, ArchiveError> {
        let Entity::User(team, user) = &person.who else { return Ok(false) };
        Ok(self.archive.get(&ItemKey::user(team, user)).await?.is_some())
    }
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
fn not_left(former: &Entity) -> Verdict {
    Verdict::Unknown(format!(
        "Slack still shows {former} under the id that the event says it has left. The event may be forged: drop it and change \
         the signing secret. If the channel did get another id, start with `--existence-check observe` and replay this job"
    ))
}

/// The same, of a channel that is not what the event says.
fn private(channel: &Entity) -> Verdict {
    Verdict::Unknown(format!(
        "Slack shows {channel} as private, the event as public, and no public message of it was ever kept. The event may be \
         forged: drop it and change the signing secret. If the channel was public until now, start with \
         `--existence-check observe` and replay this job"
    ))
}
