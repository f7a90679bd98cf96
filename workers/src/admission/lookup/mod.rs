//! Asks Slack about many entities at once, each with a call of its own; an entity with a pending question is not
//! asked about again.
//!
//! * [`ask`] makes one call.
//! * [`single_flight`] merges concurrent questions about one entity into one call.
//! * [`failing`] holds back calls while Slack does not answer, or refuses the token, and calls about entities it
//!   keeps failing on; [`floods`] holds back calls that would delay all others.

mod ask;
mod failing;
mod floods;
mod single_flight;

use std::collections::HashMap;

use futures_util::future::join_all;
use ports::archive::{ArchiveExt, ItemKey};
use rules::audience::ChannelVisibility;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::cache::Knowledge;
use super::entities::{Demand, Entity};
use super::evaluate::{Fact, why_missing, why_undetermined};
use super::{BATCH_TIMEOUT, ExistenceCheck, FAILING_TIMEOUT, Questions, SOON, TeamChannel, ask_about};

use crate::admission::marks::note_visibility_if_kept;
use crate::failure::JobFailure;
use crate::quarantine::turns::is_tried_aside;
use crate::runtime::BatchJob;

use ask::{NO_GROUPS, ShownFacts};

pub(super) use failing::Failures;
use failing::Gate;
pub(super) use floods::Floods;
pub(super) use single_flight::SingleFlight;

/// Concurrent questions about one kind of entity: few enough to notice a flood before Slack was asked about
/// all of it.
pub(super) const QUESTIONS_AT_ONCE: usize = 8;

impl ExistenceCheck {
    /// Asks Slack about each of these entities, until the deadline.
    pub(super) async fn resolve_entities(
        &self,
        unknown: Questions,
        deadline: Instant,
    ) -> Vec<(Entity, Fact)> {
        let mut facts = Vec::new();
        let mut pending = Vec::new();
        let mut to_ask = Questions::new();
        for (entity, demand) in unknown {
            if let Some(answer) = self.0.questions.pending(&entity) {
                pending.push((entity, answer));
            } else if let Some(fact) = self.known_or_blocked(&entity, &demand).await {
                facts.push((entity, fact));
            } else {
                to_ask.insert(entity, demand);
            }
        }
        for (entity, demand) in to_ask {
            let asking = || {
                let (check, entity) = (self.clone(), entity.clone());
                async move { check.answer(&entity, &demand).await }
            };
            let answer = self.0.questions.join(entity.clone(), asking);
            pending.push((entity, answer));
        }
        let answers = pending.into_iter().map(|(entity, answer)| async move {
            // An event that has already waited for this question has waited long enough for the whole batch.
            let patience = if self.0.failures.has_failed(&entity) { FAILING_TIMEOUT } else { BATCH_TIMEOUT };
            let until = deadline.min(answer.began() + patience);
            let answer = timeout_at(until, answer.answer()).await.ok().flatten();
            let fact = answer.unwrap_or_else(|| Fact::Later {
                after: SOON,
                why: format!("Slack has not answered yet whether {entity} exists"),
            });
            (entity, fact)
        });
        facts.extend(join_all(answers).await);
        facts
    }

    /// The cached answer about an entity without a pending question, or the reason why Slack cannot be asked
    /// now.
    async fn known_or_blocked(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        // A question that was answered in the meantime stored its answer before it was removed.
        match self.0.known.answer(entity, demand) {
            Some(Knowledge::Found { reach: None, .. }) if matches!(entity, Entity::Channel(..)) => {}
            Some(known) => return Some(known.into()),
            None => {}
        }
        match self.0.failures.gate(entity, demand) {
            Gate::Open => None,
            Gate::Closed(fact) => Some(fact),
            Gate::Probe(fact) => {
                // While jobs wait aside, one of them is the question, for all processes together.
                let is_asked =
                    is_tried_aside(&*self.0.parts.archive, entity.team(), self.0.parts.clock.now());
                is_asked.await.then_some(fact)
            }
        }
    }

    async fn answer(&self, entity: &Entity, demand: &Demand) -> Fact {
        let _permit = match self.permit(entity, demand).await {
            Ok(permit) => permit,
            Err(later) => return later,
        };
        // A replayed entity is asked about separately, one job at a time, and gets an answer.
        if self.0.floods.is_flooded(entity)
            && !demand.replayed
            && let Some(fact) = self.hold_back(entity).await
        {
            return fact;
        }
        let (answer, ShownFacts { bot_row, visibility }) = ask::ask(&self.0.parts.api, entity).await;
        let archive = &*self.0.parts.archive;
        // What is not written now is written with the next answer, some minutes later.
        if let Err(error) = note_visibility_if_kept(archive, visibility.as_slice()).await {
            tracing::warn!(%entity, %error, "it could not be stored whether a channel is public");
        }
        if let Some(bot_row) = bot_row
            && let Err(error) = archive.write(&bot_row).await
        {
            tracing::warn!(%entity, %error, "the name of a bot could not be stored");
        }
        match &answer {
            Fact::Found { reach } => self.0.known.found(entity.clone(), *reach),
            Fact::Missing(code) => {
                self.0.known.missing(entity.clone(), code);
                self.0.floods.note_missing(entity, code);
            }
            Fact::Later { .. } | Fact::Blocked { .. } | Fact::Failed { .. } | Fact::Undetermined(_) => {}
        }
        self.0.failures.note(entity, &answer);
        if matches!(answer, Fact::Failed { .. }) {
            return self.0.failures.entity_failure(entity).unwrap_or(answer);
        }
        answer
    }

    /// Waits for a permit, which limits concurrent questions. If Slack has stopped answering meanwhile,
    /// returns that as the fact.
    async fn permit(&self, entity: &Entity, demand: &Demand) -> Result<Option<SemaphorePermit<'_>>, Fact> {
        let Some(limit) = self.0.limits.get(&entity.method()) else { return Ok(None) };
        if let Ok(permit) = limit.try_acquire() {
            return Ok(Some(permit));
        }
        // The semaphore is never closed.
        let permit = limit.acquire().await.ok();
        self.0.failures.still_blocked(entity, demand).map_or(Ok(permit), Err)
    }

    /// The fact about an entity during a flood, in which most entities do not exist; `None` if Slack is asked all
    /// the same, because the archive has its row.
    async fn hold_back(&self, entity: &Entity) -> Option<Fact> {
        let key = match entity {
            Entity::User(team, user) => Some(ItemKey::user(team, user)),
            Entity::Bot(team, bot) => Some(ItemKey::bot(team, bot)),
            Entity::Team(_) | Entity::Channel(..) => None,
        };
        if let Some(key) = key {
            match self.0.parts.archive.get(&key).await {
                Ok(Some(_)) => return None,
                Ok(None) => {}
                Err(error) => return Some(Fact::Later { after: SOON, why: error.to_string() }),
            }
        }
        let flooded = "too many missing IDs were named within a minute, so Slack was not asked";
        Some(Fact::Undetermined(flooded.into()))
    }

    /// Asks for the visibility of these channels, within the time limit of a batch. The error is the
    /// reason why a channel's events have to wait longer than for an answer.
    pub(crate) async fn look_up_visibility(
        &self,
        channels: Vec<(TeamChannel, &BatchJob<'_>)>,
    ) -> HashMap<TeamChannel, Result<ChannelVisibility, JobFailure>> {
        let mut questions = Questions::new();
        for ((team, channel), job) in channels {
            let demand = Demand::plain(job.delivery.sent_at, job.is_replayed());
            ask_about(&mut questions, Entity::Channel(team, channel), demand);
        }
        let facts = self.resolve_entities(questions, Instant::now() + BATCH_TIMEOUT).await;
        let sights = facts.into_iter().filter_map(|(entity, fact)| {
            let sight = sight(&entity, fact);
            let Entity::Channel(team, channel) = entity else { return None };
            Some(((team, channel), sight))
        });
        sights.collect()
    }
}

fn sight(channel: &Entity, fact: Fact) -> Result<ChannelVisibility, JobFailure> {
    Ok(match fact {
        Fact::Found { reach: Some(reach) } if reach.private => ChannelVisibility::Private,
        Fact::Found { reach: Some(_) } => ChannelVisibility::Public,
        Fact::Blocked { cause, why } => return Err(JobFailure::Waits(cause, why)),
        Fact::Failed { after, why } => return Err(JobFailure::SlackFailed(why, Some(after))),
        Fact::Found { reach: None } | Fact::Later { .. } => ChannelVisibility::Later,
        // The app may not see the channel: it is private.
        Fact::Missing(code) if code == NO_GROUPS => ChannelVisibility::Private,
        Fact::Missing(code) => ChannelVisibility::Unknown(why_missing(channel, &code)),
        Fact::Undetermined(why) => ChannelVisibility::Unknown(why_undetermined(channel, &why)),
    })
}
