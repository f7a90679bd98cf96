//! Asking about many at once: who is asked about already, who stands in a list, and who is asked about alone.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use slack::ids::TeamId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::ask::{self, Answer, NOT_LISTED};
use super::entity::Entity;
use super::flights::Flight;
use super::known::{Demand, Knowledge};
use super::listings::{self, List};
use super::weigh::Fact;
use super::{Check, PATIENCE, Questions, SOON};

/// How long an event waits for a list of many before its people are asked about alone.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// Questions about one kind of thing that are on their way at once: so few that a flood is noticed before all of it has been
/// asked about.
const QUESTIONS_AT_ONCE: usize = 8;

/// How many questions may be on their way, for each kind of thing.
pub(super) struct Pace([Semaphore; 4]);

impl Default for Pace {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Semaphore::new(QUESTIONS_AT_ONCE)))
    }
}

impl Pace {
    fn of(&self, entity: &Entity) -> &Semaphore {
        let [teams, users, bots, channels] = &self.0;
        match entity {
            Entity::Team(_) => teams,
            Entity::User(..) => users,
            Entity::Bot(..) => bots,
            Entity::Channel(..) => channels,
        }
    }
}

impl Check {
    /// Asks Slack about each of these, and waits until the deadline.
    pub(super) async fn find_out(&self, unknown: Questions, deadline: Instant) -> Vec<(Entity, Fact)> {
        let mut facts = Vec::new();
        let mut flying = Vec::new();
        let mut to_ask = Questions::new();
        for (entity, demand) in unknown {
            if let Some(flight) = self.0.flights.on_its_way(&entity) {
                flying.push((entity, flight));
            } else if let Some(fact) = self.without_asking(&entity, &demand) {
                facts.push((entity, fact));
            } else {
                to_ask.insert(entity, demand);
            }
        }
        let lists = self.read_lists(&to_ask);
        for (entity, demand) in to_ask {
            let list = of_list(&entity).and_then(|list| lists.get(&(entity.team().clone(), list)).cloned());
            let asking = || {
                let (check, entity) = (self.clone(), entity.clone());
                async move { check.answer(&entity, list, &demand).await }
            };
            let flight = self.0.flights.join(entity.clone(), asking);
            flying.push((entity, flight));
        }
        let landing = flying.into_iter().map(|(entity, flight)| async move {
            // An earlier waiter has waited long enough for all.
            let until = deadline.min(flight.began() + PATIENCE);
            let landed = timeout_at(until, flight.landed()).await.ok().flatten();
            let fact = landed.unwrap_or_else(|| Fact::Later {
                after: SOON,
                why: format!("Slack has not said yet whether {entity} exists"),
                not_allowed: false,
            });
            (entity, fact)
        });
        facts.extend(join_all(landing).await);
        facts
    }

    /// What is known of something without a question on its way, or why it cannot be asked about now.
    fn without_asking(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        // A question that has landed since has said what it found before it was gone.
        match self.0.known.answer(entity, demand) {
            Some(Knowledge::Found { reach: None, .. }) if matches!(entity, Entity::Channel(..)) => {}
            Some(Knowledge::Found { reach, .. }) => return Some(Fact::Found { reach }),
            Some(Knowledge::Missing { code, .. }) => return Some(Fact::Missing(code)),
            None => {}
        }
        self.0.lanes.shut(entity, demand)
    }

    async fn answer(&self, entity: &Entity, list: Option<Flight<()>>, demand: &Demand) -> Fact {
        if let Some(list) = list {
            // Out of time or crashed: it is asked about alone.
            timeout(LIST_PATIENCE, list.landed()).await.ok();
            if let Some(Knowledge::Found { reach, .. }) = self.0.known.get(entity) {
                return Fact::Found { reach };
            }
        }
        let _turn = match self.turn(entity).await {
            Ok(turn) => turn,
            Err(later) => return later,
        };
        // What a person has tried again is asked about alone: one job at a time, and with an answer.
        if self.0.floods.is_flooded(entity) && !demand.replayed {
            return self.in_a_flood(entity, demand).await;
        }
        let answer = ask::ask(&self.0.api, entity).await;
        match &answer {
            Answer::Found { reach } => self.0.known.found(entity.clone(), *reach),
            Answer::Missing(code) => {
                self.0.known.missing(entity.clone(), code);
                self.0.floods.note_missing(entity, code);
            }
            Answer::Paused(..) | Answer::NotAllowed(_) | Answer::Failed(_) => {}
        }
        self.0.lanes.note(entity, &answer).await;
        match answer {
            Answer::Found { reach } => Fact::Found { reach },
            Answer::Missing(code) => Fact::Missing(code),
            Answer::Paused(after, why) => Fact::Later { after, why, not_allowed: false },
            Answer::NotAllowed(why) => Fact::Later { after: SOON, why, not_allowed: true },
            Answer::Failed(why) => {
                let stuck = self.0.lanes.stuck(entity);
                stuck.unwrap_or(Fact::Later { after: SOON, why, not_allowed: false })
            }
        }
    }

    /// Waits until few questions are on their way; where Slack has stopped answering meanwhile, says so.
    async fn turn(&self, entity: &Entity) -> Result<Option<SemaphorePermit<'_>>, Fact> {
        let pace = self.0.pace.of(entity);
        if let Ok(turn) = pace.try_acquire() {
            return Ok(Some(turn));
        }
        // It is never closed.
        let turn = pace.acquire().await.ok();
        self.0.lanes.waits(entity).map_or(Ok(turn), Err)
    }

    /// What becomes of something while a flood lasts, in which most of what is asked about does not exist. Of people a list
    /// that was read to its end since the event came is an answer, and one call is enough for all of them.
    async fn in_a_flood(&self, entity: &Entity, demand: &Demand) -> Fact {
        let (known, team) = (&self.0.known, entity.team());
        if !matches!(entity, Entity::User(..)) {
            return Fact::Unsaid(
                "so much that does not exist was named within a minute that it was not asked".into(),
            );
        }
        if !known.has_listed_people_since(team, demand.sent_at) {
            timeout(LIST_PATIENCE, self.read_list(team, List::People).landed()).await.ok();
        }
        if let Some(Knowledge::Found { reach, .. }) = known.get(entity) {
            return Fact::Found { reach };
        }
        if known.has_listed_people_since(team, demand.sent_at) {
            known.missing(entity.clone(), NOT_LISTED);
            return Fact::Missing(NOT_LISTED.to_owned());
        }
        Fact::Later {
            after: SOON,
            why: "Slack's list of people could not be read".into(),
            not_allowed: false,
        }
    }

    /// Reads the lists of workspaces of which many are unknown.
    fn read_lists(&self, unknown: &Questions) -> HashMap<(TeamId, List), Flight<()>> {
        let mut counts: BTreeMap<(&TeamId, List), usize> = BTreeMap::new();
        for (entity, list) in unknown.keys().filter_map(|entity| Some((entity, of_list(entity)?))) {
            *counts.entry((entity.team(), list)).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= listings::LIST_FROM);
        many.map(|((team, list), _)| ((team.clone(), list), self.read_list(team, list))).collect()
    }

    fn read_list(&self, team: &TeamId, list: List) -> Flight<()> {
        let reading = || {
            let (check, team) = (self.clone(), team.clone());
            async move { listings::read(&check.0.api, &check.0.known, &*check.0.clock, &team, list).await }
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
