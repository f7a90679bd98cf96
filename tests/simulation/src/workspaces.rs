//! Many workspaces in one installation. Some of them fail, and the others must not be slower for it.
//!
//! The same seed is played twice: with the workspaces that fail, and without them. Every message and file of every
//! workspace must be stored in the end, and what belongs to the others about as soon as without the failing ones:
//! see [`Lateness`]. The fleet has none of the faults of [`super::run`]: each call only takes a while.

mod importing;
mod plan;
mod times;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ItemKey, Update};
use ports::clock::{Clock, TimestampMs};
use rules::file::{FileState, row};
use serde_json::Value;
use slack::ids::{FileId, TeamId};
use slack_api::tokens::TokenSecret;
use slack_api::transport::{SlackRequest, SlackResponse, Transport};
use slack_api::{BotToken, Tokens};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use workers::directory::AT_ONCE;
use workers::quarantine;

use super::api::{SlackTruth, typed_answer};
use super::fleet::SimulationState;
use super::ledger::Ledger;
use super::model;
use super::mutation::{Mutants, Mutation};
use super::run::Finding;
use super::sender::{OpenRouters, SlackSender};
use super::workload::PlannedRequest;
use super::world::{Invariant, JumpyClock, World, lock};
use super::{operator, slack_files, supervisor};
use testkit::corpus::event;
use testkit::fake_slack::{self, FakeWorkspace, SlackAnswer, SlackState, channel, person, refusal};
use testkit::faults::{CallFault, FaultSchedule, PortMethod};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

pub use self::plan::WorkspacesSize;
use self::plan::{CHANNELS, PEOPLE, WorkspaceFate, channel_of, index_in, person_of, plan_workspace};
pub use self::times::Lateness;
use self::times::StoredTimes;

/// How long Slack is silent to some workspaces.
const INCIDENT: Duration = Duration::from_secs(2 * 3_600);

/// A workspace's first events come this long before its token.
const WITHOUT_TOKEN: Duration = Duration::from_secs(900);

/// How long a call of a port takes, and one of Slack.
const PORT_CALL: Duration = Duration::from_millis(5);
const SLACK_CALL: Duration = Duration::from_millis(60);

/// The processes of the fleet.
const PROCESSES: usize = 2;

/// How long a file of today may take beside an import: up to 1,100 of the import's files are in front, and two processes
/// request ten a second.
const FILE_BESIDE_IMPORT: Duration = Duration::from_secs(160);

/// How long the sync of a workspace for which Slack is silent holds its place: three calls of a minute, and pauses.
const SILENT_SYNC: Duration = Duration::from_secs(200);

/// A queue loses messages after this part of the run, as SQS does after 14 days: a token is refused for longer.
const RETENTION_SHARE: u32 = 8;

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
    /// By their index.
    workspaces: BTreeMap<usize, SimulatedWorkspace>,
    state: Mutex<SlackState>,
    are_repaired: AtomicBool,
    times: Mutex<StoredTimes>,
}

impl Workspaces {
    /// # Panics
    /// Never: the ids and tokens are valid.
    fn new(size: WorkspacesSize, with_failing: bool) -> Arc<Self> {
        let mut state = SlackState::default();
        state.set_page_size(100);
        let mut workspaces = BTreeMap::new();
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
            let workspace = SimulatedWorkspace {
                team: TeamId::parse(&team).expect("a valid id"),
                token: BotToken::parse(&token_text).expect("a valid token"),
                token_text,
                fate,
            };
            workspaces.insert(index, workspace);
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
        let with_token = self.workspaces.values().filter(has_token);
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
        let Some(workspace) = self.workspaces.get(&index) else { return };
        if let Some(known) = lock(&self.state).workspace(&workspace.token_text) {
            known.apply_event(event);
        }
        if event["subtype"].is_null() {
            let item = format!("message#{}#{}", workspace.team, text("channel"));
            lock(&self.times).note_sent(index, ItemKey::new(item, text("ts")), event);
        }
    }

    /// Adds messages that Slack has had before the run.
    fn note_history(&self, workspace: &SimulatedWorkspace, messages: impl Iterator<Item = (String, Value)>) {
        let mut state = lock(&self.state);
        let Some(known) = state.workspace(&workspace.token_text) else { return };
        messages.for_each(|(channel, message)| known.apply_event(&event::posted(&channel, &message)));
    }

    /// Notes an update that was applied at this time.
    pub(super) fn note_stored(&self, update: &Update, now: TimestampMs) {
        lock(&self.times).note_stored(update, now);
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
            | WorkspaceFate::Added
            | WorkspaceFate::Imports => return false,
        };
        refused.contains(&now) && !self.are_repaired.load(Ordering::Relaxed)
    }

    /// All requests, in the order of their time. A workspace's do not depend on the others.
    fn plan(&self, seed: u64) -> Vec<PlannedRequest> {
        let mut planned: Vec<PlannedRequest> =
            self.workspaces.keys().flat_map(|index| self.plan_of(seed, *index)).collect();
        planned.sort_by_key(|planned| planned.at_ms);
        planned
    }

    /// The requests of one workspace.
    fn plan_of(&self, seed: u64, index: usize) -> Vec<PlannedRequest> {
        let Some(workspace) = self.workspaces.get(&index) else { return Vec::new() };
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(index as u64));
        plan_workspace(self.size, index, workspace.fate, workspace.team.as_str(), random)
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
        let host = question.url.host_str().unwrap_or_default();
        let download = || {
            slack_files::download(host, question.url.path(), |_| 0).map_or_else(
                |status| typed_answer(status, "text/plain", ""),
                |(kind, body)| typed_answer(200, kind, body),
            )
        };
        // Pictures are public.
        let Some(token) = question.token else { return Ok(fake_slack::response(download())) };
        let known = all.workspaces.values().find(|known| known.token == *token);
        let Some(workspace) = known else { return Ok(fake_slack::response(SlackAnswer::new(404))) };
        if all.is_silent(workspace.fate) {
            sleep(question.time_limit.unwrap_or(INCIDENT)).await;
            return Err("no answer in time".to_owned());
        }
        let is_file = host == "files.slack.com";
        if all.is_refused(workspace.fate) {
            let login = || {
                typed_answer(302, "text/html", "").with_header("location", "https://slack.com/?redir=login")
            };
            return Ok(fake_slack::response(if is_file { login() } else { refusal("token_revoked") }));
        }
        if is_file {
            return Ok(fake_slack::response(download()));
        }
        let form = question.form.unwrap_or_default().iter();
        let parameters = form.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let method = question.url.path().trim_start_matches("/api/");
        let now_ms = World::beginning().plus(all.began.elapsed()).0;
        let mut state = lock(&all.state);
        let answer = state.answer(method, &workspace.token_text, parameters, now_ms);
        state.forget_calls();
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
    /// Of the workspaces that do not fail.
    pub lateness: Lateness,
    /// The first violation, if any.
    pub finding: Option<Finding>,
}

/// Runs a seed without the workspaces that fail, and without a planted bug: what [`run_workspaces`] is compared with.
///
/// # Panics
/// If the tokio runtime cannot be built.
pub fn run_workspaces_alone(seed: u64, size: WorkspacesSize) -> WorkspacesOutcome {
    play_once(seed, size, None, false)
}

/// Runs a seed with the workspaces that fail. `mutation` is a planted bug.
///
/// # Panics
/// If the tokio runtime cannot be built.
pub fn run_workspaces(
    seed: u64,
    size: WorkspacesSize,
    alone: &WorkspacesOutcome,
    mutation: Option<Mutation>,
) -> WorkspacesOutcome {
    let mut outcome = play_once(seed, size, mutation, true);
    let finding = outcome.finding.take().or_else(|| alone.finding.clone());
    outcome.finding = finding.or_else(|| unfair(size, &alone.lateness, &outcome.lateness));
    outcome
}

/// What is too late, if anything is.
fn unfair(size: WorkspacesSize, alone: &Lateness, together: &Lateness) -> Option<Finding> {
    let silent = size.fates().iter().filter(|fate| **fate == WorkspaceFate::SilentSlack).count();
    // Only if they take all places at once, others wait for one.
    let waves = u32::try_from(silent / (PROCESSES * AT_ONCE)).unwrap_or(u32::MAX);
    let bounds = [
        ("the 99th percentile of messages", together.messages, 2 * alone.messages),
        ("the latest file", together.files, FILE_BESIDE_IMPORT),
        ("the latest sync", together.syncs, 2 * alone.syncs + waves * SILENT_SYNC),
    ];
    let (what, took, bound) = bounds.into_iter().find(|(_, took, bound)| took > bound)?;
    let what = format!("{what} is {took:?} beside workspaces that fail, and should be {bound:?} at most");
    Some(Finding { invariant: Invariant::Fair, what })
}

fn play_once(
    seed: u64,
    size: WorkspacesSize,
    mutation: Option<Mutation>,
    with_failing: bool,
) -> WorkspacesOutcome {
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
        let lateness = lock(&workspaces.times).of_healthy(size);
        WorkspacesOutcome { events: world.tally().events, lateness, finding }
    })
}

async fn play(world: &Arc<World>, workspaces: &Arc<Workspaces>, seed: u64, mutation: Option<Mutation>) {
    let archive = Arc::new(MemoryArchive::new());
    let retention = workspaces.size.length() / RETENTION_SHARE;
    let ledger = Ledger::bounded(world, &archive, QUEUE_WINDOW, retention);
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
    let sender = SlackSender::new(&all, &doors);
    tokio::join!(sender.send_all(workspaces.plan(seed)), importing::import(&all, workspaces));
    workspaces.are_repaired.store(true, Ordering::Relaxed);
    // Longer than a wake waits.
    sleep(Duration::from_secs(3_600)).await;
    operator::wait_until_idle(&all).await;
    check_stored(&all, workspaces, seed).await;
    over.close();
    while let Some(supervisor) = supervisors.join_next().await {
        if supervisor.is_err() {
            world.report_violation(Invariant::Bounded, "a process panicked".into());
        }
    }
}

/// Checks that each workspace is equal to its model, and that nothing is in quarantine.
async fn check_stored(all: &SimulationState, workspaces: &Workspaces, seed: u64) {
    for (index, workspace) in &workspaces.workspaces {
        let planned = workspaces.plan_of(seed, *index);
        let requests: Vec<Value> =
            planned.iter().filter_map(|planned| serde_json::from_str(&planned.body).ok()).collect();
        for ((channel, ts), expected) in model::messages(&requests) {
            let key = ItemKey::new(format!("message#{}#{channel}", workspace.team), ts.as_str());
            if all.archive.item(&key).as_ref().and_then(|row| row.text("text")) != expected.text() {
                let what = format!("{ts} in {channel} is not stored with its last text");
                all.world.report_violation(Invariant::Lost, what);
            }
            expected.files.iter().for_each(|file| check_file(all, &key, file));
        }
    }
    importing::rows(workspaces).iter().for_each(|(key, file)| check_file(all, key, file));
    let late = lock(&workspaces.times).waiting();
    if late > 0 {
        all.world.report_violation(Invariant::Lost, format!("{late} messages have no row"));
    }
    let listed = quarantine::list(&*all.archive).await.unwrap_or_default();
    if let Some(job) = listed.first() {
        let what = format!("{} is in quarantine: {}", job.id, job.reason);
        all.world.report_violation(Invariant::Lost, what);
    }
}

fn check_file(all: &SimulationState, message: &ItemKey, file: &str) {
    let row = all.archive.item(message);
    let state = row.and_then(|message| row::state(&message, &FileId::parse(file).ok()?));
    if !matches!(state, Some(FileState::Stored(_))) {
        let what = format!("the file {file} of {message:?} is not stored: {state:?}");
        all.world.report_violation(Invariant::Lost, what);
    }
}
