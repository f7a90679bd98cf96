//! The existence check, the second key: before anything of an event is written, Slack is asked with the bot token whether
//! its workspace, people and channel exist. A leaked signing secret alone cannot invent people or channels.
//!
//! * [`entities`] is what an event claims, and [`evaluate`] what becomes of it; both hold the exceptions and their reasons.
//! * [`cache`] remembers, in this process and in the table that all processes share.
//! * [`lookup`] asks Slack.
//!
//! A call runs in a task of its own. A batch waits for it no longer than [`PATIENCE`]; after that only the events that need
//! its answer go back to the queue, and those behind them in their group. Nothing is quarantined because Slack is out of reach.

mod cache;
mod entities;
mod evaluate;
mod lookup;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use metrics::counter;
use ports::archive::Archive;
use ports::clock::{SharedClock, TimestampMs};
use ports::existence::Existence;
use ports::metrics::{EXISTENCE_CHECKS, EXISTENCE_LOOKUPS};
use process::config::existence::ExistenceMode;
use slack::ids::{ChannelId, TeamId};
use slack_api::{Method, WebApi};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use cache::Demand;
use evaluate::{Evaluation, Fact};
use lookup::{Failures, Floods, List, QUESTIONS_AT_ONCE, SingleFlight};

use crate::failure::JobFailure;

pub use cache::KnownEntities;
pub(crate) use entities::{ChannelReach, Entity, EventEntities};
pub use lookup::{Waiting, waiting};

/// The channels of which it is unknown who may read them, each with when its event came and whether it was replayed.
pub(crate) type Unseen = BTreeMap<(TeamId, ChannelId), (TimestampMs, bool)>;

/// How long a batch waits for Slack, which answers within a fraction of a second when it is well. The rest of the batch
/// waits with it, so it must be short beside the lease of 30 s, and unnoticed by people who read the archive.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How soon an event comes back whose answer is on its way.
const SOON: Duration = Duration::from_secs(1);

/// Batches that are only observed, side by side. Beyond it they are not looked at: observing must not pile up.
const OBSERVED_AT_ONCE: usize = 64;

/// What is to be found out, and which answers will do.
type Questions = BTreeMap<Entity, Demand>;

/// What becomes of an event: all it claims exists, or cannot be asked about; or something does not exist, which is permanent,
/// or is not known yet, which is postponed.
type ExistenceVerdict = Result<(), JobFailure>;

/// Whether a job may be stored; `None` if it was not asked about, because nothing of it will be stored.
pub(crate) type Clearance = Option<ExistenceVerdict>;

/// For a job of which something is stored.
pub(crate) fn require(clearance: &Clearance) -> Result<(), JobFailure> {
    let unasked =
        || Err(JobFailure::Transient("it was not checked whether all that it claims exists".into()));
    clearance.clone().unwrap_or_else(unasked)
}

/// The check. Cloning shares what it knows.
#[derive(Clone)]
pub struct ExistenceCheck(Arc<Inner>);

/// What it is made of.
pub struct ExistenceParts {
    /// Slack.
    pub api: Arc<WebApi>,
    /// The cache all processes share.
    pub table: Arc<dyn Existence>,
    /// Holds what is known already, and the rows that say that the check waits.
    pub archive: Arc<dyn Archive>,
    /// The time.
    pub clock: SharedClock,
    /// What it does; unless it is set, it enforces as soon as there is a token.
    pub mode: Option<ExistenceMode>,
}

struct Inner {
    parts: ExistenceParts,
    known: Arc<KnownEntities>,
    failures: Failures,
    floods: Floods,
    /// How many questions may be on their way, for each kind of thing.
    limits: HashMap<Method, Semaphore>,
    questions: SingleFlight<Entity, Fact>,
    lists: SingleFlight<(TeamId, List), ()>,
    table_fails: AtomicBool,
    observing: Arc<Semaphore>,
}

impl ExistenceCheck {
    /// A check that knows nothing yet. It asks nothing before the first event.
    pub fn new(parts: ExistenceParts) -> Self {
        let limited = [Method::TeamInfo, Method::UsersInfo, Method::BotsInfo, Method::ConversationsInfo];
        Self(Arc::new(Inner {
            known: Arc::new(KnownEntities::new(Arc::clone(&parts.clock))),
            failures: Failures::new(Arc::clone(&parts.archive), Arc::clone(&parts.clock)),
            floods: Floods::new(Arc::clone(&parts.clock)),
            limits: limited.map(|method| (method, Semaphore::new(QUESTIONS_AT_ONCE))).into(),
            questions: SingleFlight::new(),
            lists: SingleFlight::new(),
            table_fails: AtomicBool::new(false),
            observing: Arc::new(Semaphore::new(OBSERVED_AT_ONCE)),
            parts,
        }))
    }

    /// What it knows: the directory sync adds to it.
    pub fn known(&self) -> Arc<KnownEntities> {
        Arc::clone(&self.0.known)
    }

    /// How jobs are checked now, since a token may come and go; `None` if nothing is asked, and every job may be stored.
    pub(crate) fn in_force(check: Option<&Self>) -> Option<(&Self, ExistenceMode)> {
        let check = check?;
        match check.0.parts.mode {
            Some(ExistenceMode::Off) => None,
            Some(mode) => Some((check, mode)),
            None => check.0.parts.api.has_tokens().then_some((check, ExistenceMode::Enforce)),
        }
    }

    /// Asks about a batch, given what each job claims, `None` if nothing of it will be stored; one answer per job, in their
    /// order. A worker decides twice on the jobs of a batch: first as if everything existed, to select what is asked about. What
    /// will be dropped costs no questions. If it only observes, every job may be stored, at once.
    pub(crate) async fn clear(
        &self,
        mode: ExistenceMode,
        claims: Vec<Result<Option<EventEntities>, JobFailure>>,
    ) -> Vec<Clearance> {
        if mode == ExistenceMode::Observe {
            let cleared = vec![Some(Ok(())); claims.len()];
            if let Ok(permit) = Arc::clone(&self.0.observing).try_acquire_owned() {
                let check = self.clone();
                tokio::spawn(async move {
                    for verdict in check.judge("observe", &claims).await {
                        if let Err(JobFailure::Permanent(reason)) = verdict {
                            tracing::warn!(reason, "stored, but `enforce` would have put it in quarantine");
                        }
                    }
                    drop(permit);
                });
            }
            return cleared;
        }
        let mut verdicts = self.judge("enforce", &claims).await.into_iter();
        let clearance = |claim| match claim {
            Ok(Some(_)) => verdicts.next(),
            Ok(None) => None,
            Err(failure) => Some(Err(failure)),
        };
        claims.into_iter().map(clearance).collect()
    }

    /// Judges what is claimed; one verdict per subject, in their order.
    async fn judge(
        &self,
        mode: &'static str,
        claims: &[Result<Option<EventEntities>, JobFailure>],
    ) -> Vec<ExistenceVerdict> {
        let subjects: Vec<&EventEntities> =
            claims.iter().filter_map(|claim| claim.as_ref().ok()?.as_ref()).collect();
        let verdicts = self.verdicts(&subjects).await;
        let mut outcomes: BTreeMap<&'static str, u64> = BTreeMap::new();
        for verdict in &verdicts {
            let outcome = match verdict {
                Ok(()) => "exists",
                Err(JobFailure::Permanent(_)) => "unknown",
                Err(JobFailure::Transient(_) | JobFailure::Postponed(..)) => "waits",
            };
            *outcomes.entry(outcome).or_default() += 1;
        }
        for (outcome, events) in outcomes {
            counter!(EXISTENCE_CHECKS, "mode" => mode, "outcome" => outcome).increment(events);
        }
        verdicts
    }

    async fn verdicts(&self, subjects: &[&EventEntities]) -> Vec<ExistenceVerdict> {
        let deadline = Instant::now() + PATIENCE;
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
            // Most often this process knows all that it takes.
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
                            unknown.entry(entity).and_modify(|known| known.add(demand)).or_insert(demand);
                        }
                        still_open.push(index);
                    }
                    Err(failure) => verdicts[index] = Err(failure),
                }
            }
            open = still_open;
            // Each round knows something of all that was unknown in the one before, so there are few.
            evaluation.facts.extend(self.find_out(unknown, deadline).await);
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
