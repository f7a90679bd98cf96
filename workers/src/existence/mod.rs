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
use slack_api::WebApi;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use cache::Demand;
use entities::Entity;
use evaluate::{Evaluated, Evaluation, Fact};
use lookup::{Failures, Floods, List, QuestionLimits, SingleFlight};

pub use cache::KnownEntities;
pub(crate) use entities::{ChannelReach, Subject};
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

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All it claims exists, or cannot be asked about.
    Exists,
    /// Something does not exist, and why the event is quarantined.
    Unknown(String),
    /// It is not known yet.
    Wait { after: Duration, reason: String },
}

/// The check. Cloning shares what it knows.
#[derive(Clone)]
pub struct Check(Arc<Inner>);

/// What it is made of.
pub struct Parts {
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
    api: Arc<WebApi>,
    table: Arc<dyn Existence>,
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    mode: Option<ExistenceMode>,
    known: Arc<KnownEntities>,
    failures: Failures,
    floods: Floods,
    limits: QuestionLimits,
    questions: SingleFlight<Entity, Fact>,
    lists: SingleFlight<(TeamId, List), ()>,
    table_fails: AtomicBool,
    observing: Arc<Semaphore>,
}

impl Check {
    /// A check that knows nothing yet. It asks nothing before the first event.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { api, table, archive, clock, mode } = parts;
        Self(Arc::new(Inner {
            known: Arc::new(KnownEntities::new(Arc::clone(&clock))),
            failures: Failures::new(Arc::clone(&archive), Arc::clone(&clock)),
            floods: Floods::new(Arc::clone(&clock)),
            limits: QuestionLimits::default(),
            questions: SingleFlight::new(),
            lists: SingleFlight::new(),
            table_fails: AtomicBool::new(false),
            observing: Arc::new(Semaphore::new(OBSERVED_AT_ONCE)),
            api,
            table,
            archive,
            clock,
            mode,
        }))
    }

    /// What it knows: the directory sync adds to it.
    #[must_use]
    pub fn known(&self) -> Arc<KnownEntities> {
        Arc::clone(&self.0.known)
    }

    /// What it does now: a token may come and go while it runs.
    pub(crate) fn mode(&self) -> ExistenceMode {
        match self.0.mode {
            Some(mode) => mode,
            None if self.0.api.has_tokens() => ExistenceMode::Enforce,
            None => ExistenceMode::Off,
        }
    }

    /// Judges events; one verdict each, in their order. If it only observes, everything exists, at once.
    pub(crate) async fn judge(&self, mode: ExistenceMode, subjects: Vec<Subject>) -> Vec<Verdict> {
        match mode {
            ExistenceMode::Off => vec![Verdict::Exists; subjects.len()],
            ExistenceMode::Enforce => {
                let verdicts = self.verdicts(&subjects).await;
                count(mode, &verdicts);
                verdicts
            }
            ExistenceMode::Observe => {
                let exist = vec![Verdict::Exists; subjects.len()];
                if let Ok(permit) = Arc::clone(&self.0.observing).try_acquire_owned() {
                    let check = self.clone();
                    tokio::spawn(async move {
                        let verdicts = check.verdicts(&subjects).await;
                        count(mode, &verdicts);
                        for verdict in verdicts {
                            if let Verdict::Unknown(reason) = verdict {
                                tracing::warn!(
                                    reason,
                                    "stored, but `enforce` would have put it in quarantine"
                                );
                            }
                        }
                        drop(permit);
                    });
                }
                exist
            }
        }
    }

    async fn verdicts(&self, subjects: &[Subject]) -> Vec<Verdict> {
        let deadline = Instant::now() + PATIENCE;
        let mut verdicts = vec![Verdict::Exists; subjects.len()];
        let mut open: Vec<usize> =
            (0..subjects.len()).filter(|index| !self.knows(&subjects[*index])).collect();
        answered("process", subjects.len() - open.len());
        if open.is_empty() {
            return verdicts;
        }
        self.consult_table(open.iter().map(|index| &subjects[*index])).await;
        let before = open.len();
        open.retain(|index| !self.knows(&subjects[*index]));
        answered("table", before - open.len());
        answered("slack", open.len());

        let asked = open.clone();
        let Inner { archive, known, clock, .. } = &*self.0;
        let mut evaluation =
            Evaluation { archive: &**archive, known, now: clock.now(), facts: HashMap::new() };
        while !open.is_empty() {
            let mut unknown = Questions::new();
            let mut still_open = Vec::new();
            for index in open {
                match evaluation.evaluate(&subjects[index]).await {
                    Ok(Evaluated::Decided(verdict)) => verdicts[index] = verdict,
                    Ok(Evaluated::Open(missing)) => {
                        for (entity, demand) in missing {
                            unknown.entry(entity).and_modify(|known| known.add(demand)).or_insert(demand);
                        }
                        still_open.push(index);
                    }
                    Err(error) => {
                        verdicts[index] = Verdict::Wait { after: SOON, reason: error.to_string() };
                    }
                }
            }
            open = still_open;
            // Each round knows something of all that was unknown in the one before, so there are few.
            evaluation.facts.extend(self.find_out(unknown, deadline).await);
        }
        let confirmed = asked.iter().filter(|index| verdicts[**index] == Verdict::Exists);
        self.store_in_table(confirmed.map(|index| &subjects[*index])).await;
        verdicts
    }

    /// Whether this process knows all that it takes: the common case.
    fn knows(&self, subject: &Subject) -> bool {
        let known = &self.0.known;
        // Whether a channel has left its old id is asked each time.
        if subject.former.is_some() {
            return false;
        }
        known.has_all(subject.entities(), subject.public)
            || (subject.has_foreigners()
                && known.has_all(subject.own_entities(), subject.public)
                && subject.channels.iter().all(|channel| known.is_shared(channel)))
    }
}

fn answered(layer: &'static str, events: usize) {
    if events > 0 {
        counter!(EXISTENCE_LOOKUPS, "layer" => layer).increment(u64::try_from(events).unwrap_or(u64::MAX));
    }
}

fn count(mode: ExistenceMode, verdicts: &[Verdict]) {
    let mode = match mode {
        ExistenceMode::Enforce => "enforce",
        ExistenceMode::Observe => "observe",
        ExistenceMode::Off => "off",
    };
    let mut outcomes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for verdict in verdicts {
        *outcomes
            .entry(match verdict {
                Verdict::Exists => "exists",
                Verdict::Unknown(_) => "unknown",
                Verdict::Wait { .. } => "waits",
            })
            .or_default() += 1;
    }
    for (outcome, events) in outcomes {
        counter!(EXISTENCE_CHECKS, "mode" => mode, "outcome" => outcome).increment(events);
    }
}
