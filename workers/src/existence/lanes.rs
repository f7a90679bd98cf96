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
use super::breaker::{Breaker, Gate, Open, Turn};
use super::entity::Entity;
use super::known::Demand;
use super::troubles::Troubles;
use super::weigh::Fact;

/// Things that Slack fails on in a row, which open a workspace's breaker: one lost connection is not enough.
const FAILURES: usize = 3;

/// Breakers there may be. Without them, whatever fails is asked again every second.
const MAX_LANES: usize = 1_000;

/// A row counts for so long after the next probe is due: the probe takes its time.
const ROW_GRACE: Duration = Duration::from_secs(30);

/// What waits together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    team: TeamId,
    method: Option<Method>,
}

impl Lane {
    fn key(&self) -> ItemKey {
        let what = match self.method {
            Some(method) => format!("{}#{}", self.team, method.name()),
            None => self.team.to_string(),
        };
        ItemKey::existence_breaker(&what)
    }
}

/// All breakers.
pub(super) struct Lanes {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    breakers: Mutex<HashMap<Lane, Breaker>>,
    troubles: Troubles,
}

impl Lanes {
    pub(super) fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, breakers: Mutex::default(), troubles: Troubles::default() }
    }

    /// Why Slack may not be asked about this now, if it may not.
    pub(super) fn shut(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let now = self.clock.now();
        // What Slack fails on alone is no probe of how Slack is.
        if self.troubles.is_alone(entity) {
            return self.troubles.shut(entity, demand, now);
        }
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if breakers.is_empty() {
            return None;
        }
        lanes(entity).into_iter().find_map(|lane| match breakers.get_mut(&lane)?.gate(now) {
            Gate::Open => None,
            Gate::Shut(after, why) => Some(Fact::Later { after, why, not_allowed: lane.method.is_some() }),
        })
    }

    /// The same, for a question that has waited for its turn.
    pub(super) fn waits(&self, entity: &Entity) -> Option<Fact> {
        let now = self.clock.now();
        let breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        lanes(entity).into_iter().find_map(|lane| {
            let (after, why) = breakers.get(&lane)?.waits(now)?;
            Some(Fact::Later { after, why: why.to_owned(), not_allowed: lane.method.is_some() })
        })
    }

    /// What failures about something alone amount to.
    pub(super) fn stuck(&self, entity: &Entity) -> Option<Fact> {
        self.troubles.stuck(entity, self.clock.now())
    }

    /// What came of asking.
    pub(super) async fn note(&self, entity: &Entity, answer: &Answer) {
        let now = self.clock.now();
        let [of_team, of_method] = lanes(entity);
        if matches!(answer, Answer::Found { .. } | Answer::Missing(_)) {
            self.troubles.answered(entity, now);
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
            Answer::Failed(why) if self.troubles.failed(entity, now, why) => [None, None],
            Answer::Failed(why) => {
                [self.turn(of_team, |breaker| breaker.failed(now, why, entity, FAILURES)), None]
            }
        };
        for (lane, turn) in turns.into_iter().flatten() {
            if lane.method.is_none() && matches!(turn, Turn::Opened(_)) {
                self.troubles.outage(&lane.team);
            }
            self.tell(&lane, turn).await;
        }
    }

    fn turn(&self, lane: Lane, change: impl FnOnce(&mut Breaker) -> Option<Turn>) -> Option<(Lane, Turn)> {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !breakers.contains_key(&lane) && breakers.len() >= MAX_LANES {
            return None;
        }
        let breaker = breakers.entry(lane.clone()).or_default();
        let turn = change(breaker);
        if breaker.is_idle() {
            breakers.remove(&lane);
        }
        let open = breakers.values().filter(|breaker| breaker.is_open()).count();
        gauge!(EXISTENCE_BREAKERS).set(f64::from(u32::try_from(open).unwrap_or(u32::MAX)));
        turn.map(|turn| (lane, turn))
    }

    /// One line when it opens and one when it closes, and a row between them.
    async fn tell(&self, lane: &Lane, turn: Turn) {
        let (team, method) = (&lane.team, lane.method.map(Method::name));
        let told = match &turn {
            Turn::Opened(open) => {
                let reason = &open.reason;
                tracing::warn!(%team, method, reason, "the existence check waits: events stay on the queue until Slack answers");
                self.write(lane, open).await
            }
            Turn::Longer(open) => self.write(lane, open).await,
            Turn::Closed(open) => {
                let seconds = self.clock.now().since(open.since).as_secs();
                tracing::info!(%team, method, seconds, "Slack answers the existence check again");
                self.remove(lane).await
            }
        };
        if let Err(error) = told {
            tracing::warn!(%team, %error, "failed to store the existence-check state; `annalist status` may be out of date");
        }
    }

    async fn write(&self, lane: &Lane, open: &Open) -> Result<(), ArchiveError> {
        let until = open.until.plus(ROW_GRACE);
        let mut update = Update::new(lane.key());
        update.set = [
            ("team_id", Some(Value::from(lane.team.as_str()))),
            ("method", lane.method.map(|method| method.name().into())),
            ("since", Some(open.since.seconds().into())),
            ("until", Some(until.seconds().into())),
            ("reason", Some(open.reason.as_str().into())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
        self.archive.write(&update).await.map(drop)
    }

    async fn remove(&self, lane: &Lane) -> Result<(), ArchiveError> {
        if let Some(row) = self.archive.get(&lane.key()).await? {
            // Changed meanwhile, it is another process's, which waits itself.
            self.archive.delete_unchanged(&row).await?;
        }
        Ok(())
    }
}

/// The workspace's, and the method's of it.
fn lanes(entity: &Entity) -> [Lane; 2] {
    let lane = |method| Lane { team: entity.team().clone(), method };
    [lane(None), lane(Some(entity.method()))]
}
