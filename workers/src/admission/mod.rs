//! What may be stored of the jobs of a batch. [`admit`] decides on them from the [`facts`] about their channels
//! and asks the existence check.
//!
//! The existence check is a second safeguard: before any part of an event is written, Slack is asked with the
//! bot token whether its workspace, people and channel exist. A leaked signing secret alone cannot invent
//! people or channels.
//!
//! * [`entities`] lists the entities an event claims, and [`evaluate`] decides on the event; both document
//!   the exceptions and their reasons.
//! * [`cache`] remembers answers, in this process and in the table that all processes share.
//! * [`lookup`] asks Slack.
//!
//! Each call runs in its own task. A batch waits for it only a short time; after that, only the events that
//! need its answer return to the queue, with the later events of their group. While Slack cannot be asked,
//! because it fails or refuses the token, events wait aside: none is quarantined for that.

mod admit;
mod cache;
mod entities;
mod evaluate;
mod facts;
mod lookup;
pub(crate) mod marks;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use metrics::counter;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::existence::Existence;
use ports::metrics::{EXISTENCE_CHECKS, EXISTENCE_LOOKUPS};
use slack_api::{Method, WebApi};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use entities::Demand;
use evaluate::{Evaluation, Fact};
use lookup::{Failures, Floods, QUESTIONS_AT_ONCE, SingleFlight};

use crate::failure::JobFailure;

pub(crate) use admit::{Admitted, BatchAdmission, DecisionRule, Step, event_job};
pub use cache::KnownEntities;
pub(crate) use entities::{ChannelReach, Entity, EventEntities};
pub(crate) use facts::{Audiences, BatchFacts, TeamChannel};

/// How long a batch waits for Slack, which normally answers within a fraction of a second. The rest of the
/// batch waits too, so it must be short compared with the lease of 30 s, and unnoticeable for people who read
/// the archive.
const BATCH_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The same if the last question about the workspace, the kind of entity or the entity failed: the answer is hardly
/// expected, and the jobs of other workspaces wait beside it.
const FAILING_TIMEOUT: Duration = Duration::from_millis(200);

/// The retry delay of an event whose answer is pending.
const SOON: Duration = Duration::from_secs(1);

/// The entities to ask about, and which answers are valid for them.
type Questions = BTreeMap<Entity, Demand>;

fn ask_about(questions: &mut Questions, entity: Entity, demand: Demand) {
    questions.entry(entity).and_modify(|known| known.add(demand)).or_insert(demand);
}

/// The result for an event: all its entities exist, or cannot be asked about; or one does not exist, which is
/// permanent, or is not known yet, which is postponed.
type ExistenceVerdict = Result<(), JobFailure>;

/// The existence check. Clones share its state.
#[derive(Clone)]
pub struct ExistenceCheck(Arc<Inner>);

/// The mode of the existence check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistenceMode {
    /// Events with entities that Slack does not know are quarantined; events wait while Slack cannot be
    /// asked.
    Enforce,
    /// Slack is not asked.
    Off,
}

/// The dependencies of the check.
pub struct ExistenceParts {
    /// Slack's Web API.
    pub api: Arc<WebApi>,
    /// The cache that all processes share.
    pub table: Arc<dyn Existence>,
    /// Contains the known entities, and the states of jobs that wait aside.
    pub archive: Arc<dyn Archive>,
    pub clock: SharedClock,
    /// The mode; if unset, the check enforces as soon as there is a token.
    pub mode: Option<ExistenceMode>,
}

struct Inner {
    parts: ExistenceParts,
    known: Arc<KnownEntities>,
    failures: Failures,
    floods: Floods,
    /// The limit of concurrent questions, for each kind of entity.
    limits: HashMap<Method, Semaphore>,
    questions: SingleFlight<Entity, Fact>,
    table_fails: AtomicBool,
}

impl ExistenceCheck {
    /// A check with an empty cache. It asks Slack nothing before the first event.
    pub fn new(parts: ExistenceParts) -> Self {
        let limited = [Method::TeamInfo, Method::UsersInfo, Method::BotsInfo, Method::ConversationsInfo];
        Self(Arc::new(Inner {
            known: Arc::new(KnownEntities::new(Arc::clone(&parts.clock))),
            failures: Failures::new(Arc::clone(&parts.clock)),
            floods: Floods::new(Arc::clone(&parts.clock)),
            limits: limited.map(|method| (method, Semaphore::new(QUESTIONS_AT_ONCE))).into(),
            questions: SingleFlight::new(),
            table_fails: AtomicBool::new(false),
            parts,
        }))
    }

    /// The cache of entities, to which the directory sync adds.
    pub fn known(&self) -> Arc<KnownEntities> {
        Arc::clone(&self.0.known)
    }

    /// The check, if it is active now, since a token may come and go; `None` if Slack is not asked and every
    /// job may be stored.
    pub(crate) fn active(check: Option<&Self>) -> Option<&Self> {
        check.filter(|check| match check.0.parts.mode {
            Some(mode) => mode == ExistenceMode::Enforce,
            None => check.0.parts.api.has_tokens(),
        })
    }

    /// Checks the entities of jobs; returns one verdict for each, in their order.
    pub(crate) async fn judge(&self, subjects: &[&EventEntities]) -> Vec<ExistenceVerdict> {
        let verdicts = self.verdicts(subjects).await;
        let mut outcomes: BTreeMap<&'static str, u64> = BTreeMap::new();
        for verdict in &verdicts {
            let outcome = match verdict {
                Ok(()) => "exists",
                Err(JobFailure::Permanent(_)) => "unknown",
                Err(
                    JobFailure::Transient(_)
                    | JobFailure::Postponed(..)
                    | JobFailure::Waits(..)
                    | JobFailure::SlackFailed(..),
                ) => "waits",
            };
            *outcomes.entry(outcome).or_default() += 1;
        }
        for (outcome, events) in outcomes {
            counter!(EXISTENCE_CHECKS, "outcome" => outcome).increment(events);
        }
        verdicts
    }

    async fn verdicts(&self, subjects: &[&EventEntities]) -> Vec<ExistenceVerdict> {
        let deadline = Instant::now() + BATCH_TIMEOUT;
        let (ExistenceParts { archive, clock, .. }, known) = (&self.0.parts, &self.0.known);
        let mut evaluation =
            Evaluation { archive: &**archive, known, now: clock.now(), facts: HashMap::new() };
        let mut open: Vec<usize> = (0..subjects.len()).collect();
        for layer in ["process", "table"] {
            if layer == "table" {
                self.consult_table(open.iter().map(|index| subjects[*index])).await;
            }
            let mut unknown = Vec::new();
            for index in &open {
                if !matches!(evaluation.evaluate(subjects[*index]).await, Ok(missing) if missing.is_empty()) {
                    unknown.push(*index);
                }
            }
            answered(layer, open.len() - unknown.len());
            open = unknown;
            // Usually this process knows all the entities.
            if open.is_empty() {
                return vec![Ok(()); subjects.len()];
            }
        }
        answered("slack", open.len());

        let mut verdicts = vec![Ok(()); subjects.len()];
        let asked = open.clone();
        while !open.is_empty() {
            let mut unknown = Questions::new();
            let mut still_open = Vec::new();
            for index in open {
                match evaluation.evaluate(subjects[index]).await {
                    Ok(missing) if missing.is_empty() => {}
                    Ok(missing) => {
                        for (entity, demand) in missing {
                            ask_about(&mut unknown, entity, demand);
                        }
                        still_open.push(index);
                    }
                    Err(failure) => verdicts[index] = Err(failure),
                }
            }
            open = still_open;
            // Each round answers every question of the one before, so there are few rounds.
            evaluation.facts.extend(self.resolve_entities(unknown, deadline).await);
        }
        let confirmed = asked.iter().filter(|index| verdicts[**index].is_ok());
        self.store_in_table(confirmed.map(|index| subjects[*index])).await;
        verdicts
    }
}

fn answered(layer: &'static str, events: usize) {
    if events > 0 {
        counter!(EXISTENCE_LOOKUPS, "layer" => layer).increment(u64::try_from(events).unwrap_or(u64::MAX));
    }
}
