//! Asks Slack about many entities at once: an entity that is being asked about is not asked about again, many of one
//! workspace are looked up in its list, and the others are asked about alone.
//!
//! * [`ask`] is one call, and [`lists`] the pages of a list.
//! * [`single_flight`] makes one call of many for the same entity.
//! * [`failing`] holds back calls while Slack does not answer, and those about what it keeps failing on while it answers about
//!   the rest; [`floods`] those that would hold everything up.

mod ask;
mod failing;
mod floods;
mod lists;
mod single_flight;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use ports::archive::ItemKey;
use rules::audience::Sight;
use slack::ids::{ChannelId, TeamId};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::cache::{Demand, Knowledge, PeopleList};
use super::entities::Entity;
use super::evaluate::{Fact, why_missing, why_unsaid};
use super::{ExistenceCheck, PATIENCE, Questions, SOON, Unseen};

use ask::{ExistenceAnswer, NO_GROUPS, NOT_LISTED};

pub(super) use ask::NO_TOKEN;
pub(super) use failing::Failures;
pub(super) use floods::Floods;
pub(super) use lists::List;
pub(super) use single_flight::{PendingAnswer, SingleFlight};
pub use waiting::{Waiting, waiting};

/// How long a list of many may take before each is asked about alone.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Questions about one kind of thing that are on their way at once: so few that a flood is noticed before all of it has been
/// asked about.
pub(super) const QUESTIONS_AT_ONCE: usize = 8;

impl ExistenceCheck {
    /// Asks Slack about each of these, and waits until the deadline.
    pub(super) async fn find_out(&self, unknown: Questions, deadline: Instant) -> Vec<(Entity, Fact)> {
        let mut facts = Vec::new();
        let mut pending = Vec::new();
        let mut to_ask = Questions::new();
        for (entity, demand) in unknown {
            if let Some(answer) = self.0.questions.pending(&entity) {
                pending.push((entity, answer));
            } else if let Some(fact) = self.without_asking(&entity, &demand) {
                facts.push((entity, fact));
            } else {
                to_ask.insert(entity, demand);
            }
        }
        let read = self.read_lists(&to_ask);
        for (entity, demand) in to_ask {
            let list = of_list(&entity).and_then(|list| read.get(&(entity.team().clone(), list)).cloned());
            let asking = || {
                let (check, entity) = (self.clone(), entity.clone());
                async move { check.answer(&entity, list, &demand).await }
            };
            let answer = self.0.questions.join(entity.clone(), asking);
            pending.push((entity, answer));
        }
        let answers = pending.into_iter().map(|(entity, answer)| async move {
            // An event that waited for it before has waited long enough for all.
            let until = deadline.min(answer.began() + PATIENCE);
            let answer = timeout_at(until, answer.answer()).await.ok().flatten();
            let fact = answer.unwrap_or_else(|| Fact::Later {
                after: SOON,
                why: format!("Slack has not said yet whether {entity} exists"),
                not_allowed: false,
            });
            (entity, fact)
        });
        facts.extend(join_all(answers).await);
        facts
    }

    /// What is known of something that is not being asked about, or why it cannot be asked about now.
    fn without_asking(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        // A question that was answered since has said what it found before it was gone.
        match self.0.known.answer(entity, demand) {
            Some(Knowledge::Found { reach: None, .. }) if matches!(entity, Entity::Channel(..)) => {}
            Some(known) => return Some(known.into()),
            None => {}
        }
        self.0.failures.shut(entity, demand)
    }

    async fn answer(&self, entity: &Entity, list: Option<PendingAnswer<()>>, demand: &Demand) -> Fact {
        if let Some(list) = list {
            // Out of time or crashed: it is asked about alone.
            timeout(LIST_TIMEOUT, list.answer()).await.ok();
            if let Some(Knowledge::Found { reach, .. }) = self.0.known.get(entity) {
                return Fact::Found { reach };
            }
        }
        let _permit = match self.permit(entity).await {
            Ok(permit) => permit,
            Err(later) => return later,
        };
        // What a person has tried again is asked about alone: one job at a time, and with an answer.
        if self.0.floods.is_flooded(entity)
            && !demand.replayed
            && let Some(fact) = self.in_a_flood(entity, demand).await
        {
            return fact;
        }
        let answer = ask::ask(&self.0.parts.api, entity).await;
        match &answer {
            ExistenceAnswer::Found { reach } => self.0.known.found(entity.clone(), *reach),
            ExistenceAnswer::Missing(code) => {
                self.0.known.missing(entity.clone(), code);
                self.0.floods.note_missing(entity, code);
            }
            ExistenceAnswer::Paused(..) | ExistenceAnswer::NotAllowed(_) | ExistenceAnswer::Failed(_) => {}
        }
        self.0.failures.note(entity, &answer).await;
        match answer {
            ExistenceAnswer::Found { reach } => Fact::Found { reach },
            ExistenceAnswer::Missing(code) => Fact::Missing(code),
            ExistenceAnswer::Paused(after, why) => Fact::Later { after, why, not_allowed: false },
            ExistenceAnswer::NotAllowed(why) => Fact::Later { after: SOON, why, not_allowed: true },
            ExistenceAnswer::Failed(why) => {
                let stuck = self.0.failures.stuck(entity);
                stuck.unwrap_or(Fact::Later { after: SOON, why, not_allowed: false })
            }
        }
    }

    /// Waits until few questions are on their way; if Slack has stopped answering meanwhile, says so.
    async fn permit(&self, entity: &Entity) -> Result<Option<SemaphorePermit<'_>>, Fact> {
        let Some(limit) = self.0.limits.get(&entity.method()) else { return Ok(None) };
        if let Ok(permit) = limit.try_acquire() {
            return Ok(Some(permit));
        }
        // It is never closed.
        let permit = limit.acquire().await.ok();
        self.0.failures.waits(entity).map_or(Ok(permit), Err)
    }

    /// What becomes of something while a flood lasts, in which most of what is asked about does not exist; `None` if it is
    /// asked about all the same. Of people a list that was read to its end since the event came is an answer, and one call is
    /// enough for all of them. If the list is longer than is read of it, the archive's rows say who is real.
    async fn in_a_flood(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let (known, team) = (&self.0.known, entity.team());
        let unasked = "so much that does not exist was named within a minute that it was not asked";
        let Entity::User(_, user) = entity else { return Some(Fact::Unsaid(unasked.into())) };
        if known.people_list(team, demand.sent_at) == PeopleList::Unread {
            timeout(LIST_TIMEOUT, self.read_list(team, List::People).answer()).await.ok();
        }
        if let Some(Knowledge::Found { reach, .. }) = known.get(entity) {
            return Some(Fact::Found { reach });
        }
        let why = match known.people_list(team, demand.sent_at) {
            PeopleList::Whole => {
                known.missing(entity.clone(), NOT_LISTED);
                return Some(Fact::Missing(NOT_LISTED.to_owned()));
            }
            PeopleList::TooLong => match self.0.parts.archive.get(&ItemKey::user(team, user)).await {
                Ok(Some(_)) => return None,
                Ok(None) => return Some(Fact::Unsaid(unasked.into())),
                Err(error) => error.to_string(),
            },
            PeopleList::Unread => "Slack's list of people could not be read".to_owned(),
        };
        Some(Fact::Later { after: SOON, why, not_allowed: false })
    }

    /// Reads the lists of workspaces of which many are unknown.
    fn read_lists(&self, unknown: &Questions) -> HashMap<(TeamId, List), PendingAnswer<()>> {
        let mut counts: BTreeMap<(&TeamId, List), usize> = BTreeMap::new();
        for (entity, list) in unknown.keys().filter_map(|entity| Some((entity, of_list(entity)?))) {
            *counts.entry((entity.team(), list)).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= lists::LIST_FROM);
        many.map(|((team, list), _)| ((team.clone(), list), self.read_list(team, list))).collect()
    }

    fn read_list(&self, team: &TeamId, list: List) -> PendingAnswer<()> {
        let reading = || {
            let (check, team) = (self.clone(), team.clone());
            async move { lists::read(&check.0.parts, &check.0.known, &team, list).await }
        };
        self.0.lists.join((team.clone(), list), reading)
    }
}

/// The list that has such things.
fn of_list(entity: &Entity) -> Option<List> {
    match entity {
        Entity::User(..) => Some(List::People),
        Entity::Channel(..) => Some(List::Channels),
        Entity::Team(_) | Entity::Bot(..) => None,
    }
}

impl ExistenceCheck {
    /// Asks who may read these channels, and waits no longer than for a batch.
    pub(crate) async fn ask_who_reads(&self, channels: Unseen) -> HashMap<(TeamId, ChannelId), Sight> {
        let question = |((team, channel), (sent_at, replayed))| {
            (Entity::Channel(team, channel), Demand { sent_at, replayed, newborn: false, former: false })
        };
        let questions = channels.into_iter().map(question).collect();
        let facts = self.find_out(questions, Instant::now() + PATIENCE).await;
        let sights = facts.into_iter().filter_map(|(entity, fact)| {
            let sight = sight(&entity, fact);
            let Entity::Channel(team, channel) = entity else { return None };
            Some(((team, channel), sight))
        });
        sights.collect()
    }
}

fn sight(channel: &Entity, fact: Fact) -> Sight {
    match fact {
        Fact::Found { reach: Some(reach) } if reach.private => Sight::Private,
        Fact::Found { reach: Some(_) } => Sight::Public,
        Fact::Found { reach: None } | Fact::Later { .. } => Sight::Later,
        // The app may not see it: it is private.
        Fact::Missing(code) if code == NO_GROUPS => Sight::Private,
        Fact::Missing(code) => Sight::Unknown(why_missing(channel, &code)),
        Fact::Unsaid(why) => Sight::Unknown(why_unsaid(channel, &why)),
    }
}
