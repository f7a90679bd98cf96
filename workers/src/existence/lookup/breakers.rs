//! The breakers: one per workspace, for Slack and the token, and one per method of a workspace, for a scope the app
//! lacks. What is open is a row too, since `annalist status` is another process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::gauge;
use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update};
use ports::clock::SharedClock;
use ports::metrics::EXISTENCE_BREAKERS;
use serde_json::Value;
use slack::ids::TeamId;
use slack_api::Method;

use super::ask::Answer;
use super::breaker::{Breaker, Open, Permission, Transition};
use super::failing::FailingEntities;
use crate::existence::cache::Demand;
use crate::existence::entities::Entity;
use crate::existence::evaluate::Fact;

/// Things that Slack fails on in a row, which open a workspace's breaker: one lost connection does not.
const FAILURES: usize = 3;

/// Breakers there may be. Without them, whatever fails is asked again every second.
const MAX_BREAKERS: usize = 1_000;

/// A row stays valid this long after the next probe is due: the probe takes its time.
const ROW_GRACE: Duration = Duration::from_secs(30);

/// What waits together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BreakerKey {
    team: TeamId,
    method: Option<Method>,
}

impl BreakerKey {
    fn key(&self) -> ItemKey {
        let what = match self.method {
            Some(method) => format!("{}#{}", self.team, method.name()),
            None => self.team.to_string(),
        };
        ItemKey::existence_breaker(&what)
    }
}

/// All breakers.
pub(in crate::existence) struct Breakers {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    breakers: Mutex<HashMap<BreakerKey, Breaker>>,
    failing: FailingEntities,
}

impl Breakers {
    pub(in crate::existence) fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, breakers: Mutex::default(), failing: FailingEntities::default() }
    }

    /// Why Slack may not be asked about this now, if it may not.
    pub(in crate::existence) fn shut(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let now = self.clock.now();
        // What Slack fails on alone is no probe of how Slack is.
        if self.failing.is_alone(entity) {
            return self.failing.shut(entity, demand, now);
        }
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if breakers.is_empty() {
            return None;
        }
        keys_of(entity).into_iter().find_map(|key| match breakers.get_mut(&key)?.gate(now) {
            Permission::Granted => None,
            Permission::Denied(after, why) => {
                Some(Fact::Later { after, why, not_allowed: key.method.is_some() })
            }
        })
    }

    /// The same, for a question that has waited for its turn.
    pub(in crate::existence) fn waits(&self, entity: &Entity) -> Option<Fact> {
        let now = self.clock.now();
        let breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        keys_of(entity).into_iter().find_map(|key| {
            let (after, why) = breakers.get(&key)?.waits(now)?;
            Some(Fact::Later { after, why: why.to_owned(), not_allowed: key.method.is_some() })
        })
    }

    /// What failures about something alone amount to.
    pub(in crate::existence) fn stuck(&self, entity: &Entity) -> Option<Fact> {
        self.failing.stuck(entity, self.clock.now())
    }

    /// What came of asking.
    pub(in crate::existence) async fn note(&self, entity: &Entity, answer: &Answer) {
        let now = self.clock.now();
        let [of_team, of_method] = keys_of(entity);
        if matches!(answer, Answer::Found { .. } | Answer::Missing(_)) {
            self.failing.answered(entity, now);
        }
        let turns = match answer {
            Answer::Found { .. } | Answer::Missing(_) => {
                [self.turn(of_team, Breaker::succeeded), self.turn(of_method, Breaker::succeeded)]
            }
            Answer::Paused(pause, _) => {
                let until = now.plus(*pause);
                let postpone = |breaker: &mut Breaker| {
                    breaker.postponed(until);
                    None
                };
                [self.turn(of_team, postpone), self.turn(of_method, postpone)]
            }
            Answer::NotAllowed(why) => [
                self.turn(of_team, Breaker::succeeded),
                self.turn(of_method, |breaker| breaker.failed(now, why, entity, 1)),
            ],
            Answer::Failed(why) if self.failing.failed(entity, now, why) => [None, None],
            Answer::Failed(why) => {
                [self.turn(of_team, |breaker| breaker.failed(now, why, entity, FAILURES)), None]
            }
        };
        for (key, turn) in turns.into_iter().flatten() {
            if key.method.is_none() && matches!(turn, Transition::Opened(_)) {
                self.failing.outage(&key.team);
            }
            self.tell(&key, turn).await;
        }
    }

    fn turn(
        &self,
        key: BreakerKey,
        change: impl FnOnce(&mut Breaker) -> Option<Transition>,
    ) -> Option<(BreakerKey, Transition)> {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !breakers.contains_key(&key) && breakers.len() >= MAX_BREAKERS {
            return None;
        }
        let breaker = breakers.entry(key.clone()).or_default();
        let turn = change(breaker);
        if breaker.is_idle() {
            breakers.remove(&key);
        }
        let open = breakers.values().filter(|breaker| breaker.is_open()).count();
        gauge!(EXISTENCE_BREAKERS).set(f64::from(u32::try_from(open).unwrap_or(u32::MAX)));
        turn.map(|turn| (key, turn))
    }

    /// One line when it opens and one when it closes, and a row between them.
    async fn tell(&self, key: &BreakerKey, turn: Transition) {
        let (team, method) = (&key.team, key.method.map(Method::name));
        let told = match &turn {
            Transition::Opened(open) => {
                let reason = &open.reason;
                tracing::warn!(%team, method, reason, "the existence check waits: events stay on the queue until Slack answers");
                self.write(key, open).await
            }
            Transition::Longer(open) => self.write(key, open).await,
            Transition::Closed(open) => {
                let seconds = self.clock.now().since(open.since).as_secs();
                tracing::info!(%team, method, seconds, "Slack answers the existence check again");
                self.remove(key).await
            }
        };
        if let Err(error) = told {
            tracing::warn!(%team, %error, "failed to store the existence-check state; `annalist status` may be out of date");
        }
    }

    async fn write(&self, key: &BreakerKey, open: &Open) -> Result<(), ArchiveError> {
        let until = open.until.plus(ROW_GRACE);
        let mut update = Update::new(key.key());
        update.set = [
            ("team_id", Some(Value::from(key.team.as_str()))),
            ("method", key.method.map(|method| method.name().into())),
            ("since", Some(open.since.seconds().into())),
            ("until", Some(until.seconds().into())),
            ("reason", Some(open.reason.as_str().into())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
        self.archive.write(&update).await.map(drop)
    }

    async fn remove(&self, key: &BreakerKey) -> Result<(), ArchiveError> {
        if let Some(row) = self.archive.get(&key.key()).await? {
            // Changed meanwhile, it is another process's, which waits itself.
            self.archive.delete_unchanged(&row).await?;
        }
        Ok(())
    }
}

/// The workspace's, and the method's of it.
fn keys_of(entity: &Entity) -> [BreakerKey; 2] {
    let key = |method| BreakerKey { team: entity.team().clone(), method };
    [key(None), key(Some(entity.method()))]
}
