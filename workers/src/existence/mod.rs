//! The existence check, the second key: before anything of an event is written, Slack is asked with the bot token whether
//! its workspace, people and channel exist. A leaked signing secret alone invents nobody.
//!
//! * [`subject`] is what an event claims, [`weigh`] what becomes of it; both hold the exceptions and their reasons.
//!   [`reach`] is whom a channel reaches.
//! * [`known`] remembers, in this process; behind it is the cache that all processes share, [`table`], then Slack: [`ask`].
//! * [`flights`] makes one call of many, [`listings`] one page of many calls, [`lanes`] and [`breaker`] none at all
//!   while Slack does not answer; [`waiting`] is what `annalist status` says of that.
//!
//! A call runs in a task of its own. A batch waits for it no longer than [`PATIENCE`]; after that only the events that need
//! its answer go back to the queue, and those behind them in their group. Nothing is put aside because Slack is out of reach.

mod ask;
mod breaker;
mod entity;
mod flights;
mod known;
mod lanes;
mod listings;
mod reach;
mod subject;
mod table;
mod waiting;
mod weigh;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::join_all;
use metrics::counter;
use shared::archive::Archive;
use shared::clock::SharedClock;
use shared::config::existence::ExistenceMode;
use shared::existence::Existence;
use shared::slack::ids::TeamId;
use shared::slack::web::WebApi;
use shared::telemetry::metrics::{EXISTENCE_CHECKS, EXISTENCE_LOOKUPS};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use ask::Answer;
use entity::Entity;
use flights::{Flight, Flights};
use known::Knowledge;
use lanes::Lanes;
use listings::List;
use weigh::{Fact, Scales};

pub use known::Known;
pub(crate) use reach::Reach;
pub(crate) use subject::Subject;
pub use waiting::{Waiting, waiting};

/// How long a batch waits for Slack, which answers within a fraction of a second when it is well. The rest of the batch
/// waits with it, so that it must be short beside the lease of 30 s, and unnoticed by whoever reads the archive.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How soon an event comes back whose answer is on its way.
const SOON: Duration = Duration::from_secs(1);

/// How long somebody waits for a list of many before they are asked about alone.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// Batches that are only observed, side by side. Beyond it they are not looked at: observing must not pile up.
const OBSERVED_AT_ONCE: usize = 64;

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All it claims exists, or cannot be asked about.
    Exists,
    /// Something does not exist, and why it is put aside.
    Unknown(String),
    /// Nobody knows yet.
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
    /// What is known already, and where it says that it waits.
    pub archive: Arc<dyn Archive>,
    /// The time.
    pub clock: SharedClock,
    /// What it does; where nobody says, it enforces as soon as there is a token.
    pub mode: Option<ExistenceMode>,
}

struct Inner {
    api: Arc<WebApi>,
    table: Arc<dyn Existence>,
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    mode: Option<ExistenceMode>,
    known: Arc<Known>,
    lanes: Lanes,
    flights: Flights<Entity, Fact>,
    lists: Flights<(TeamId, List), ()>,
    table_fails: AtomicBool,
    observing: Arc<Semaphore>,
}

impl Check {
    /// A check that knows nothing yet. It asks nobody before the first event.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { api, table, archive, clock, mode } = parts;
        Self(Arc::new(Inner {
            known: Arc::new(Known::new(Arc::clone(&clock))),
            lanes: Lanes::new(Arc::clone(&archive), Arc::clone(&clock)),
            flights: Flights::new(),
            lists: Flights::new(),
            table_fails: AtomicBool::new(false),
            observing: Arc::new(Semaphore::new(OBSERVED_AT_ONCE)),
            api,
            table,
            archive,
            clock,
            mode,
        }))
    }

    /// What it knows: whoever reads Slack's directory adds to it.
    #[must_use]
    pub fn known(&self) -> Arc<Known> {
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

    /// Judges events; one verdict each, in their order. Where it only observes, everything exists, at once.
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
            (0..subjects.len()).filter(|place| !self.knows(&subjects[*place])).collect();
        answered("process", subjects.len() - open.len());
        if open.is_empty() {
            return verdicts;
        }
        self.consult_table(open.iter().map(|place| &subjects[*place])).await;
        let before = open.len();
        open.retain(|place| !self.knows(&subjects[*place]));
        answered("table", before - open.len());
        answered("slack", open.len());

        let asked = open.clone();
        let Inner { archive, known, clock, .. } = &*self.0;
        let mut scales = Scales { archive: &**archive, known, now: clock.now(), facts: HashMap::new() };
        while !open.is_empty() {
            let mut unknown = BTreeSet::new();
            let mut still_open = Vec::new();
            for place in open {
                match scales.weigh(&subjects[place]).await {
                    Ok(verdict) => verdicts[place] = verdict,
                    Err(missing) => {
                        unknown.extend(missing);
                        still_open.push(place);
                    }
                }
            }
            open = still_open;
            // Each round knows something of all that was unknown in the one before, so there are few.
            scales.facts.extend(self.find_out(unknown, deadline).await);
        }
        let confirmed = asked.iter().filter(|place| verdicts[**place] == Verdict::Exists);
        self.tell_table(confirmed.map(|place| &subjects[*place])).await;
        verdicts
    }

    /// Whether this process knows all that it takes: the common case.
    fn knows(&self, subject: &Subject) -> bool {
        let known = &self.0.known;
        known.has_all(subject.entities(), subject.public)
            || (subject.has_foreigners()
                && known.has_all(subject.own_entities(), subject.public)
                && subject.channels.iter().all(|channel| known.is_shared(channel)))
    }

    /// Asks Slack about each of these, and waits until the deadline.
    async fn find_out(&self, unknown: BTreeSet<Entity>, deadline: Instant) -> Vec<(Entity, Fact)> {
        let mut facts = Vec::new();
        let mut flying = Vec::new();
        let mut to_ask = BTreeSet::new();
        for entity in unknown {
            if let Some(flight) = self.0.flights.on_its_way(&entity) {
                flying.push((entity, flight));
            } else if let Some(fact) = self.without_asking(&entity) {
                facts.push((entity, fact));
            } else {
                to_ask.insert(entity);
            }
        }
        let lists = self.read_lists(&to_ask);
        for entity in to_ask {
            let list = of_list(&entity).and_then(|list| lists.get(&(entity.team().clone(), list)).cloned());
            let asking = || {
                let (check, entity) = (self.clone(), entity.clone());
                async move { check.answer(&entity, list).await }
            };
            let flight = self.0.flights.join(entity.clone(), asking);
            flying.push((entity, flight));
        }
        let landing = flying.into_iter().map(|(entity, flight)| async move {
            // Whoever waited for it before has waited long enough for all.
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

    /// What is known of something that nobody is asking about, or why it cannot be asked about now.
    fn without_asking(&self, entity: &Entity) -> Option<Fact> {
        // A question that has landed since has said what it found before it was gone.
        match self.0.known.get(entity) {
            Some(Knowledge::Found { reach: None, .. }) if matches!(entity, Entity::Channel(..)) => {}
            Some(Knowledge::Found { reach, .. }) => return Some(Fact::Found { reach }),
            Some(Knowledge::Missing(code)) => return Some(Fact::Missing(code)),
            None => {}
        }
        self.0.lanes.shut(entity)
    }

    async fn answer(&self, entity: &Entity, list: Option<Flight<()>>) -> Fact {
        if let Some(list) = list {
            // Out of time or crashed: it is asked about alone.
            timeout(LIST_PATIENCE, list.landed()).await.ok();
            if let Some(Knowledge::Found { reach, .. }) = self.0.known.get(entity) {
                return Fact::Found { reach };
            }
        }
        let answer = ask::ask(&self.0.api, entity).await;
        match &answer {
            Answer::Found { reach } => self.0.known.found(entity.clone(), *reach),
            Answer::Missing(code) => self.0.known.missing(entity.clone(), code),
            Answer::Paused(..) | Answer::NotAllowed(_) | Answer::Failed(_) => {}
        }
        self.0.lanes.note(entity, &answer).await;
        match answer {
            Answer::Found { reach } => Fact::Found { reach },
            Answer::Missing(code) => Fact::Missing(code),
            Answer::Paused(after, why) => Fact::Later { after, why, not_allowed: false },
            Answer::NotAllowed(why) => Fact::Later { after: SOON, why, not_allowed: true },
            Answer::Failed(why) => Fact::Later { after: SOON, why, not_allowed: false },
        }
    }

    /// Reads the lists of workspaces of which many are unknown.
    fn read_lists(&self, unknown: &BTreeSet<Entity>) -> HashMap<(TeamId, List), Flight<()>> {
        let mut counts: BTreeMap<(&TeamId, List), usize> = BTreeMap::new();
        for (entity, list) in unknown.iter().filter_map(|entity| Some((entity, of_list(entity)?))) {
            *counts.entry((entity.team(), list)).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= listings::LIST_FROM);
        many.map(|((team, list), _)| {
            let reading = || {
                let (check, team) = (self.clone(), team.clone());
                async move { listings::read(&check.0.api, &check.0.known, &team, list).await }
            };
            let flight = self.0.lists.join((team.clone(), list), reading);
            ((team.clone(), list), flight)
        })
        .collect()
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
