//! Many workspaces in one installation. Some of them fail, and the others must not be slower for it.
//!
//! The same seed is played twice: with the workspaces that fail, and without them. Every message of every
//! workspace must be stored in the end, and the messages of the others at most twice as late as without the
//! failing ones. The fleet has none of the faults of [`super::run`]: each call only takes a while.

mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::ItemKey;
use ports::clock::Clock;
use serde_json::Value;
use slack::ids::TeamId;
use slack_api::tokens::TokenSecret;
use slack_api::transport::{SlackRequest, SlackResponse, Transport};
use slack_api::{BotToken, Tokens};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use workers::quarantine;

use super::fleet::SimulationState;
use super::ledger::Ledger;
use super::model;
use super::mutation::{Mutants, Mutation};
use super::run::Finding;
use super::sender::{OpenRouters, SlackSender};
use super::workload::PlannedRequest;
use super::world::{FaultCounts, Invariant, JumpyClock, World, lock};
use super::{api::SlackTruth, operator, supervisor};
use testkit::fake_slack::{self, FakeWorkspace, SlackAnswer, SlackState, channel, person, refusal};
use testkit::faults::{CallFault, FaultSchedule, PortMethod};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

pub use self::plan::WorkspacesSize;
use self::plan::{CHANNELS, PEOPLE, WorkspaceFate, channel_of, index_in, person_of, plan_workspace};

/// How long Slack is silent to some workspaces.
const INCIDENT: Duration = Duration::from_secs(2 * 3_600);

/// A workspace's first events come this long before its token.
const WITHOUT_TOKEN: Duration = Duration::from_secs(900);

/// How long a call of a port takes, and one of Slack.
const PORT_CALL: Duration = Duration::from_millis(5);
const SLACK_CALL: Duration = Duration::from_millis(60);

/// The part of a queue in which messages are found. It is smaller than that of SQS, 120,000, by as much as
/// these workspaces are smaller: a queue that keeps what waits hides the rest sooner.
const QUEUE_WINDOW: usize = 2_000;

struct SimulatedWorkspace {
    team: TeamId,
    token: BotToken,
    token_text: String,
    fate: WorkspaceFate,
}

/// The workspaces, Slack's side of them, and when their messages were stored.
pub(super) struct Workspaces {
    size: WorkspacesSize,
    began: Instant,
    workspaces: Vec<SimulatedWorkspace>,
    state: Mutex<SlackState>,
    are_repaired: AtomicBool,
    times: Mutex<MessageTimes>,
}

#[derive(Default)]
struct MessageTimes {
    /// By the key of its row: the workspace's index, and when Slack sent it.
    sent: BTreeMap<(String, String), (usize, Instant)>,
    /// By the workspace's index: how long each message took from Slack to its row.
    took: BTreeMap<usize, Vec<Duration>>,
}

impl Workspaces {
    /// # Panics
    /// Never: the ids and tokens are valid.
    fn new(size: WorkspacesSize, with_failing: bool) -> Arc<Self> {
        let mut state = SlackState::default();
        state.set_page_size(100);
        let mut workspaces = Vec::new();
        for (index, fate) in size.fates().into_iter().enumerate() {
            if !with_failing && fate != WorkspaceFate::Healthy {
                continue;
            }
            let team = format!("T{index:05}");
            let token_text = format!("xoxb-simulated-{index:05}");
            state.set_workspace(
                &token_text,
                FakeWorkspace {
                    channels: (0..CHANNELS)
                        .map(|n| channel(&channel_of(index, n), &format!("channel-{n}")))
                        .collect(),
                    members: (0..PEOPLE)
                        .map(|n| person(&person_of(index, n), &format!("person-{n}")))
                        .collect(),
                    ..FakeWorkspace::new(&team)
                },
            );
            workspaces.push(SimulatedWorkspace {
                team: TeamId::parse(&team).expect("a valid id"),
                token: BotToken::parse(&token_text).expect("a valid token"),
                token_text,
                fate,
            });
        }
        Arc::new(Self {
            size,
            began: Instant::now(),
            workspaces,
            state: Mutex::new(state),
            are_repaired: AtomicBool::new(false),
            times: Mutex::default(),
        })
    }

    /// The tokens as one process reads them.
    pub(super) fn tokens(self: &Arc<Self>, clock: Arc<dyn Clock>) -> Tokens {
        let all = Arc::clone(self);
        let read = Box::new(move || {
            let table = all.token_table();
            Box::pin(async move { Ok(vec![table]) }) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
        });
        Tokens::reread("the simulation", vec![self.token_table()], Duration::from_secs(300), clock, read)
    }

    fn token_table(&self) -> TokenSecret {
        let token_comes = self.size.length() / 2 + WITHOUT_TOKEN;
        let has_token = |workspace: &&SimulatedWorkspace| {
            workspace.fate != WorkspaceFate::Added || self.began.elapsed() >= token_comes
        };
        let with_token = self.workspaces.iter().filter(has_token);
        TokenSecret::PerTeam(
            with_token.map(|workspace| (workspace.team.clone(), workspace.token.clone())).collect(),
        )
    }

    /// Slack as a process sees it.
    pub(super) fn slack(self: &Arc<Self>) -> Arc<dyn Transport> {
        Arc::new(WorkspacesSlack(Arc::clone(self)))
    }

    /// Applies an event to Slack's state, and notes when it was sent.
    pub(super) fn note_sent(&self, body: &str) {
        let request: Value = serde_json::from_str(body).unwrap_or_default();
        let event = &request["event"];
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let Some(index) = index_in(&text("channel")) else { return };
        let workspace = self.workspaces.iter().find(|known| request["team_id"] == known.team.as_str());
        if let Some(known) = workspace
            && let Some(workspace) = lock(&self.state).workspace(&known.token_text)
        {
            workspace.apply_event(event);
        }
        if event["subtype"].is_null()
            && let Some(workspace) = workspace
        {
            let key = (format!("message#{}#{}", workspace.team, text("channel")), text("ts"));
            lock(&self.times).sent.insert(key, (index, Instant::now()));
        }
    }

    /// Notes when a row was written.
    pub(super) fn note_stored(&self, key: &ItemKey) {
        let mut times = lock(&self.times);
        if let Some((index, sent)) = times.sent.remove(&(key.item_id.clone(), key.timestamp.clone())) {
            times.took.entry(index).or_default().push(sent.elapsed());
        }
    }

    /// The 99th percentile of the time from Slack to the row, of all messages of the workspaces that do not fail.
    fn p99_of_healthy(&self) -> Duration {
        let times = lock(&self.times);
        let fates = self.size.fates();
        let healthy = times.took.iter().filter(|(index, _)| fates[**index] == WorkspaceFate::Healthy);
        let mut took: Vec<Duration> = healthy.flat_map(|(_, took)| took.iter().copied()).collect();
        took.sort_unstable();
        took.get(took.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
    }

    fn is_silent(&self, fate: WorkspaceFate) -> bool {
        let (now, begin) = (self.began.elapsed(), self.size.length() / 3);
        let lasts = (begin..begin + INCIDENT).contains(&now);
        fate == WorkspaceFate::SilentSlack && lasts
    }

    fn is_refused(&self, fate: WorkspaceFate) -> bool {
        let (now, length) = (self.began.elapsed(), self.size.length());
        let refused = match fate {
            WorkspaceFate::DeadToken => length / 4..length / 2,
            // Its last events are stored by then.
            WorkspaceFate::Removed => length / 2 + WITHOUT_TOKEN..Duration::MAX,
            WorkspaceFate::Healthy
            | WorkspaceFate::SilentSlack
            | WorkspaceFate::Floods
            | WorkspaceFate::Added => return false,
        };
        refused.contains(&now) && !self.are_repaired.load(Ordering::Relaxed)
    }

    /// All requests, in the order of their time. A workspace's do not depend on the others.
    fn plan(&self, seed: u64) -> Vec<PlannedRequest> {
        let mut planned = Vec::new();
        for (index, fate) in self.size.fates().into_iter().enumerate() {
            if let Some(workspace) =
                self.workspaces.iter().find(|known| index_in(known.team.as_str()) == Some(index))
            {
                let random =
                    fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(index as u64));
                planned.extend(plan_workspace(self.size, index, fate, workspace.team.as_str(), random));
            }
        }
        planned.sort_by_key(|planned| planned.at_ms);
        planned
    }
}

struct WorkspacesSlack(Arc<Workspaces>);

impl fmt::Debug for WorkspacesSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkspacesSlack")
    }
}

#[async_trait]
impl Transport for WorkspacesSlack {
    async fn send_request(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        let all = &*self.0;
        sleep(SLACK_CALL).await;
        let known =
            question.token.and_then(|token| all.workspaces.iter().find(|known| known.token == *token));
        let Some(workspace) = known else { return Ok(fake_slack::response(SlackAnswer::new(404))) };
        if all.is_silent(workspace.fate) {
            sleep(question.time_limit.unwrap_or(INCIDENT)).await;
            return Err("no answer in time".to_owned());
        }
        if all.is_refused(workspace.fate) {
            return Ok(fake_slack::response(refusal("token_revoked")));
        }
        let form = question.form.unwrap_or_default().iter();
        let parameters = form.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let method = question.url.path().trim_start_matches("/api/");
        let now_ms = World::beginning().plus(all.began.elapsed()).0;
        let answer = lock(&all.state).answer(method, &workspace.token_text, parameters, now_ms);
        Ok(fake_slack::response(answer))
    }
}

/// Every call takes a while.
pub(super) struct CallTime;

#[async_trait]
impl FaultSchedule for CallTime {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        let takes_time = !matches!(method, PortMethod::Depth | PortMethod::Ready);
        takes_time.then_some(CallFault::Delay(PORT_CALL))
    }
}

/// The result of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacesOutcome {
    /// Events that Slack sent.
    pub events: u64,
    /// The 99th percentile of the time from Slack to the row, for the workspaces that do not fail.
    pub p99: Duration,
    /// The same without the failing ones.
    pub p99_alone: Duration,
    /// The first violation, if any.
    pub finding: Option<Finding>,
}

/// Runs a seed twice: with and without the workspaces that fail. `mutation` is a planted bug.
///
/// # Panics
/// If the tokio runtime cannot be built.
pub fn run_workspaces(seed: u64, size: WorkspacesSize, mutation: Option<Mutation>) -> WorkspacesOutcome {
    let (alone, p99_alone) = play_once(seed, size, mutation, false);
    let (together, p99) = play_once(seed, size, mutation, true);
    let is_fair = p99 <= 2 * p99_alone;
    let unfair = (!is_fair).then(|| Finding {
        invariant: Invariant::Fair,
        what: format!("p99 is {p99:?} beside workspaces that fail, and {p99_alone:?} without them"),
    });
    let finding = together.1.or(alone.1).or(unfair);
    WorkspacesOutcome { events: together.0.events, p99, p99_alone, finding }
}

fn play_once(
    seed: u64,
    size: WorkspacesSize,
    mutation: Option<Mutation>,
    with_failing: bool,
) -> ((FaultCounts, Option<Finding>), Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    fastrand::seed(seed);
    runtime.expect("a runtime without input and output").block_on(async {
        let world = World::new(seed, false);
        world.stop_faults();
        let workspaces = Workspaces::new(size, with_failing);
        tokio::select! {
            biased;
            () = world.wait_for_violation() => {}
            () = play(&world, &workspaces, seed, mutation) => {}
        }
        let finding = world.violation().map(|(invariant, what)| Finding { invariant, what });
        ((world.tally(), finding), workspaces.p99_of_healthy())
    })
}

async fn play(world: &Arc<World>, workspaces: &Arc<Workspaces>, seed: u64, mutation: Option<Mutation>) {
    const PROCESSES: usize = 2;
    let archive = Arc::new(MemoryArchive::new());
    let ledger = Ledger::new(world, &archive);
    ledger.set_window(QUEUE_WINDOW);
    let all = Arc::new(SimulationState {
        world: Arc::clone(world),
        ledger,
        archive,
        files: MemoryFiles::new(),
        existence: Arc::new(MemoryExistence::new()),
        claims: Arc::new(MemoryClaims::new(Arc::new(JumpyClock(Arc::clone(world))))),
        truth: Arc::new(SlackTruth::new()),
        workspaces: Some(Arc::clone(workspaces)),
        mutants: Mutants::with(mutation),
        socket: None,
        erasures: Mutex::default(),
        fills_at_once: false,
        asks: false,
        last_requests: Mutex::default(),
    });
    let doors = Arc::new(OpenRouters::for_processes(PROCESSES));
    let over = Arc::new(Semaphore::new(0));
    let mut supervisors = JoinSet::new();
    for index in 0..PROCESSES {
        supervisors.spawn(supervisor::supervise(
            Arc::clone(&all),
            Arc::clone(&doors),
            index,
            Arc::clone(&over),
        ));
    }
    let planned = workspaces.plan(seed);
    let requests: Vec<Value> =
        planned.iter().filter_map(|planned| serde_json::from_str(&planned.body).ok()).collect();
    SlackSender::new(&all, &doors).send_all(planned).await;
    workspaces.are_repaired.store(true, Ordering::Relaxed);
    // Longer than a wake waits.
    sleep(Duration::from_secs(3_600)).await;
    operator::wait_until_idle(&all).await;
    check_stored(&all, workspaces, &requests).await;
    over.close();
    while let Some(supervisor) = supervisors.join_next().await {
        if supervisor.is_err() {
            world.report_violation(Invariant::Bounded, "a process panicked".into());
        }
    }
}

/// Checks that each workspace is equal to its model, and that nothing is in quarantine.
async fn check_stored(all: &SimulationState, workspaces: &Workspaces, requests: &[Value]) {
    for ((channel, ts), expected) in model::messages(requests) {
        let team = index_in(&channel).map(|index| format!("T{index:05}")).unwrap_or_default();
        let row = all.archive.item(&ItemKey::new(format!("message#{team}#{channel}"), ts.as_str()));
        if row.as_ref().and_then(|row| row.text("text")) != expected.text() {
            let what = format!("{ts} in {channel} is not stored with its last text");
            all.world.report_violation(Invariant::Lost, what);
        }
    }
    let late = lock(&workspaces.times).sent.len();
    if late > 0 {
        all.world.report_violation(Invariant::Lost, format!("{late} messages have no row"));
    }
    let listed = quarantine::list(&*all.archive).await.unwrap_or_default();
    if let Some(job) = listed.first() {
        let what = format!("{} is in quarantine: {}", job.id, job.reason);
        all.world.report_violation(Invariant::Lost, what);
    }
}
