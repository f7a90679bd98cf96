//! What becomes of an event, given what is known of all that it claims.
//!
//! Slack's word counts, with these exceptions, in which it may rightly not know (any more) what is real:
//! * A channel that the archive knows already, by its public mark or a row of its own, was confirmed when it was first
//!   written. It may have been deleted, got another id, or become private where the app cannot see it: `channel_deleted`
//!   and late messages are such. An invented channel has neither mark nor row; of one whose mark a person took back, rows
//!   say nothing.
//! * A channel that has just been made may be missing for a moment: `channel_created` waits that long.
//! * A person whose own event says that they left, where the archive has a row of them.
//! * People of other workspaces, where the event says that they are and the channel is shared: the event is judged by its
//!   workspace and channel. Slack says whether it is; where the archive alone vouches for the channel, its newest row does.
//! * The app's own end (`tokens_revoked`, `app_uninstalled`), after which Slack answers nothing, of a workspace that the
//!   archive knows.
//!
//! An event that says that a channel is public, where Slack says that it is private and the archive does not know it, counts
//! as invented: else one forged event would open a private channel for all that is said in it from then on. An event that
//! says that a channel goes on under another id does the same for that id; and where the old one still answers, the channel
//! has not left it.
//!
//! A scope that the app lacks does not show an invention: events wait until it is added, except in channels that the archive
//! knows. A private channel that only `groups:read` would show counts as one that Slack does not know. What Slack keeps
//! failing on, or has no time for in a flood, is quarantined and does not count as an invention either.

use std::collections::HashMap;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use ports::clock::TimestampMs;
use rules::public_mark::MarkState;
use serde_json::Value;

use super::ask::NO_TOKEN;
use super::entity::Entity;
use super::known::{Demand, Knowledge, Known};
use super::reach::Reach;
use super::subject::{Person, Story, Subject};
use super::{SOON, Verdict};

/// How long Slack may not know a channel that it announced.
const NEWBORN: Duration = Duration::from_secs(60);

/// How long until a new channel is asked about again: longer than its absence is remembered.
const NEWBORN_AGAIN: Duration = Duration::from_secs(6);

/// What came of asking about something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    Found {
        /// Of a channel; a row of the cache does not say it.
        reach: Option<Reach>,
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

/// What is known while a batch is judged.
pub(super) struct Scales<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) known: &'a Known,
    pub(super) now: TimestampMs,
    /// What was asked for this batch.
    pub(super) facts: HashMap<Entity, Fact>,
}

/// The longest of the waits.
#[derive(Default)]
struct Wait(Option<(Duration, String)>);

impl Wait {
    fn add(&mut self, after: Duration, why: &str) {
        if self.0.as_ref().is_none_or(|(longest, _)| *longest < after) {
            self.0 = Some((after, why.to_owned()));
        }
    }
}

impl Scales<'_> {
    /// What becomes of an event, or what has to be asked first.
    pub(super) async fn weigh(&self, subject: &Subject) -> Result<Verdict, Vec<(Entity, Demand)>> {
        self.balance(subject)
            .await
            .unwrap_or_else(|error| Ok(Verdict::Wait { after: SOON, reason: error.to_string() }))
    }

    async fn balance(
        &self,
        subject: &Subject,
    ) -> Result<Result<Verdict, Vec<(Entity, Demand)>>, ArchiveError> {
        if subject.story == Story::Departure && self.knows_team(&subject.team).await? {
            return Ok(Ok(Verdict::Exists));
        }
        let demand = subject.demand();
        let mut unknown = Vec::new();
        let mut wait = Wait::default();
        match self.fact(&subject.team, &demand) {
            None => unknown.push((subject.team.clone(), demand)),
            Some(Fact::Found { .. }) => {}
            Some(Fact::Missing(code)) => return Ok(Ok(missing(&subject.team, &code))),
            Some(Fact::Unsaid(why)) => return Ok(Ok(unsaid(&subject.team, &why))),
            Some(Fact::Later { after, why, .. }) => wait.add(after, &why),
        }
        // Whether people of other workspaces may write in all of them; unknown while one of them is.
        let mut shared = (!subject.channels.is_empty()).then_some(true);
        for channel in &subject.channels {
            match self.fact(channel, &demand) {
                None => {
                    unknown.push((channel.clone(), demand));
                    shared = None;
                }
                Some(Fact::Found { reach: Some(reach) }) => {
                    if reach.private && subject.public && !self.knows_channel(channel).await? {
                        return Ok(Ok(private(channel)));
                    }
                    shared = shared.map(|all| all && reach.shared);
                }
                Some(Fact::Found { reach: None }) if !subject.has_foreigners() => {}
                Some(Fact::Found { reach: None }) if !self.facts.contains_key(channel) => {
                    unknown.push((channel.clone(), demand));
                    shared = None;
                }
                Some(Fact::Found { reach: None }) => shared = shared.map(|_| false),
                Some(Fact::Missing(_) | Fact::Unsaid(_) | Fact::Later { not_allowed: true, .. })
                    if self.knows_channel(channel).await? =>
                {
                    let row_says_so = subject.has_foreigners() && self.is_kept_as_shared(channel).await?;
                    shared = shared.map(|all| all && row_says_so);
                }
                Some(Fact::Missing(_)) if self.is_newborn(subject) => {
                    wait.add(NEWBORN_AGAIN, "Slack does not show the new channel yet");
                }
                Some(Fact::Missing(code)) => return Ok(Ok(missing(channel, &code))),
                Some(Fact::Unsaid(why)) => return Ok(Ok(unsaid(channel, &why))),
                Some(Fact::Later { after, why, .. }) => {
                    wait.add(after, &why);
                    shared = None;
                }
            }
        }
        if let Some(former) = &subject.former {
            let demand = Demand { former: true, ..demand };
            match self.fact(former, &demand) {
                None => unknown.push((former.clone(), demand)),
                Some(Fact::Found { .. }) if self.are_marked(&subject.channels).await? => {}
                Some(Fact::Found { .. }) => return Ok(Ok(not_left(former))),
                Some(Fact::Missing(_) | Fact::Unsaid(_) | Fact::Later { not_allowed: true, .. })
                    if self.knows_channel(former).await? => {}
                Some(Fact::Missing(code)) => return Ok(Ok(missing(former, &code))),
                Some(Fact::Unsaid(why)) => return Ok(Ok(unsaid(former, &why))),
                Some(Fact::Later { after, why, .. }) => wait.add(after, &why),
            }
        }
        for person in &subject.people {
            if person.foreign && !subject.channels.is_empty() && shared != Some(false) {
                // Either the channel is shared, or that is asked first.
                continue;
            }
            match self.fact(&person.who, &demand) {
                None => unknown.push((person.who.clone(), demand)),
                Some(Fact::Found { .. }) => {}
                Some(Fact::Missing(_) | Fact::Unsaid(_))
                    if subject.story == Story::Person && self.knows_person(person).await? => {}
                Some(Fact::Missing(code)) => return Ok(Ok(missing(&person.who, &code))),
                Some(Fact::Unsaid(why)) => return Ok(Ok(unsaid(&person.who, &why))),
                Some(Fact::Later { after, why, .. }) => wait.add(after, &why),
            }
        }
        if !unknown.is_empty() {
            return Ok(Err(unknown));
        }
        Ok(Ok(match wait.0 {
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
        subject.story == Story::ChannelCreated && self.now < subject.sent_at.plus(NEWBORN)
    }

    async fn knows_team(&self, team: &Entity) -> Result<bool, ArchiveError> {
        Ok(self.archive.get(&ItemKey::team(team.team())).await?.is_some())
    }

    /// By its mark, or by a row: both are written only of channels that were confirmed, or before there was a check. A mark
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

    async fn are_marked(&self, channels: &[Entity]) -> Result<bool, ArchiveError> {
        for channel in channels {
            if self.mark(channel).await? != MarkState::Public {
                return Ok(false);
            }
        }
        Ok(true)
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

/// What a person reads in quarantine.
fn missing(entity: &Entity, code: &str) -> Verdict {
    Verdict::Unknown(why_missing(entity, code))
}

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
fn unsaid(entity: &Entity, why: &str) -> Verdict {
    Verdict::Unknown(why_unsaid(entity, why))
}

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
