//! One process of the fleet, composed like `annalist up` but with the simulation's ports.

use std::sync::{Arc, Mutex};

use axum::Router;
use fleet::environment::Environment;
use ingest::{Ingest, SocketMode};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use ports::archive::{Archive, ErasureFact};
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::files::Files;
use ports::queue::run::RunId;
use ports::queue::{Queue, QueueName};
use ports::requests::OpenRequests;
use ports::reread::Reread;
use secrecy::SecretString;
use slack::signature::SigningSecrets;
use slack_api::transport::Transport;
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use tokio::sync::watch;
use tokio::task::JoinSet;
use workers::admission::{self, ExistenceCheck};
use workers::directory::{Joiner, MembersToList};
use workers::file_downloader;
use workers::historian::BackfillMode;
use workers::keeper::{NightSettings, NightTime};
use workers::runtime::{self, Ports, RuntimeSettings};

use super::api::{PlayedSlack, SlackTruth};
use super::checked_archive::{BOT_TOKEN, CheckedArchive, SIGNING_SECRET};
use super::checked_worker::CheckedWorker;
use super::figures;
use super::ledger::Ledger;
use super::mutation::Mutants;
use super::questions::{self, LastRequests};
use super::schedule::{Life, Steps};
use super::socket::{SimulatedSource, SocketHost};
use super::workspaces::{CallTime, Workspaces};
use super::world::{Invariant, JumpyClock, World};
use testkit::faults::{FaultSchedule, FaultyArchive, FaultyClaims, FaultyFiles, FaultyQueue};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

/// The state that outlives every process.
pub(super) struct SimulationState {
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) files: MemoryFiles,
    pub(super) existence: Arc<MemoryExistence>,
    pub(super) claims: Arc<MemoryClaims>,
    pub(super) truth: Arc<SlackTruth>,
    /// Many workspaces instead of one, in a fleet without faults.
    pub(super) workspaces: Option<Arc<Workspaces>>,
    pub(super) mutants: Mutants,
    /// Slack's side of the connections, if it sends events over them instead of requests.
    pub(super) socket: Option<Arc<SocketHost>>,
    /// Every erasure so far.
    pub(super) erasures: Mutex<Vec<ErasureFact>>,
    /// Whether the processes fill gaps from history while events arrive. If not, the archive depends on the
    /// events alone, and the gaps are filled afterwards.
    pub(super) fills_at_once: bool,
    /// Whether people ask questions.
    pub(super) asks: bool,
    /// A person's last request for each question that the person cancelled or asked again.
    pub(super) last_requests: LastRequests,
}

pub(super) struct RunningProcess {
    pub(super) ingest: Ingest,
    web: Arc<WebApi>,
    /// Each part and its shutdown sender. A shared channel would wake the parts in a random order.
    pub(super) parts: Vec<(&'static str, watch::Sender<bool>)>,
    pub(super) tasks: JoinSet<&'static str>,
}

/// The ports and clients of a process.
pub(super) struct ProcessDependencies {
    pub(super) ports: Ports,
    pub(super) web: Arc<WebApi>,
    pub(super) files: Arc<dyn Files>,
    claims: Arc<dyn Claims>,
}

impl SimulationState {
    /// Returns the ports for one life of a process.
    ///
    /// # Panics
    /// Never: the token is valid.
    pub(super) fn dependencies_for(&self, life: &Arc<Life>) -> ProcessDependencies {
        let steps = || Steps { world: Arc::clone(&self.world), life: Arc::clone(life) };
        let clock: SharedClock = Arc::new(JumpyClock(Arc::clone(&self.world)));
        let checked_archive = CheckedArchive {
            world: Arc::clone(&self.world),
            inner: Arc::clone(&self.archive),
            mutants: self.mutants.clone(),
            workspaces: self.workspaces.clone(),
        };
        let schedule = || -> Arc<dyn FaultSchedule> {
            if self.workspaces.is_some() { Arc::new(CallTime) } else { Arc::new(steps()) }
        };
        let queue = FaultyQueue::with_schedule(self.ledger.clone(), schedule());
        let queue: Arc<dyn Queue> = Arc::new(queue);
        let (slack, tokens): (Arc<dyn Transport>, Tokens) = if let Some(workspaces) = &self.workspaces {
            (workspaces.slack(), workspaces.tokens(Arc::clone(&clock)))
        } else {
            let slack = PlayedSlack {
                world: Arc::clone(&self.world),
                steps: steps(),
                truth: Arc::clone(&self.truth),
                mutants: self.mutants.clone(),
            };
            (Arc::new(slack), Tokens::one(BotToken::parse(BOT_TOKEN).expect("a valid token")))
        };
        ProcessDependencies {
            ports: Ports {
                queue: self.mutants.queue(queue),
                archive: Arc::new(FaultyArchive::with_schedule(
                    Arc::new(checked_archive) as Arc<dyn Archive>,
                    schedule(),
                )),
                clock,
            },
            web: Arc::new(WebApi::with_transport(slack, ApiUrl::default(), tokens)),
            files: self
                .mutants
                .files(Arc::new(FaultyFiles::with_schedule(Arc::new(self.files.clone()), schedule()))),
            claims: Arc::new(FaultyClaims::with_schedule(self.claims.clone(), schedule())),
        }
    }

    /// Starts a process.
    ///
    /// # Panics
    /// Never: the secret is valid.
    pub(super) fn start(&self, life: &Arc<Life>, backfill: BackfillMode) -> RunningProcess {
        let ProcessDependencies { ports, web, files, claims } = self.dependencies_for(life);
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET)).expect("one secret");
        let ingest = Ingest {
            queue: ports.queue.clone(),
            secrets: Some(Arc::new(Reread::fixed(secrets.into()))),
            clock: ports.clock.clone(),
            limits: ingest::IngestLimits::default(),
            open_requests: OpenRequests::default(),
            run: RunId::parse(&format!("{:016x}", self.world.random().u64(..))),
        };
        let check = ExistenceCheck::new(admission::ExistenceParts {
            api: Arc::clone(&web),
            table: self.existence.clone(),
            archive: ports.archive.clone(),
            clock: ports.clock.clone(),
            mode: self.mutants.existence_mode(),
        });
        let environment = Environment {
            ports: ports.clone(),
            changes: self.archive.clone(),
            files,
            web: Arc::clone(&web),
            claims,
            check,
            joining: Some(Joiner::new()),
            members: MembersToList::All,
            instance: life.name.clone(),
            downloads: downloads(),
            night: NightSettings {
                time: NightTime { at: Time::midnight(), zone: TimeZone::UTC },
                writers_know_after: std::time::Duration::ZERO,
                backfill,
            },
            responder: questions::settings(&self.world, self.asks),
            search: None,
        };
        let settings = RuntimeSettings {
            seed: self.world.random().u64(..),
            gauge_interval: std::time::Duration::from_secs(60),
            ..RuntimeSettings::default()
        };
        let (mut tasks, mut parts) = (JoinSet::new(), Vec::new());
        for (spec, build) in fleet::all() {
            let worker = if spec.queue.name == QueueName::Stats {
                figures::statistician(&ports, &environment.changes)
            } else {
                build(&environment)
            };
            let (name, (stop, shutdown)) = (worker.name(), watch::channel(false));
            let checked_worker = CheckedWorker {
                inner: worker,
                mutants: self.mutants.clone(),
                world: Arc::clone(&self.world),
                ledger: Arc::clone(&self.ledger),
                process: life.name.clone(),
            };
            let run = runtime::run(Arc::new(checked_worker), ports.clone(), settings.clone(), shutdown);
            tasks.spawn(async move {
                run.await;
                name
            });
            parts.push((name, stop));
        }
        let (name, (stop, shutdown)) = ("joins", watch::channel(false));
        let joining = environment.into_joining(shutdown);
        tasks.spawn(async move {
            joining.await;
            name
        });
        parts.push((name, stop));
        RunningProcess { ingest, web, parts, tasks }
    }

    /// The router of a process, which opens connections too if Slack sends events over them.
    pub(super) fn router(&self, life: &Arc<Life>, running: &mut RunningProcess) -> Router {
        let ingest = running.ingest.clone();
        let Some(host) = &self.socket else { return ingest::router(ingest) };
        let (stop, stopped) = watch::channel(false);
        let source = SimulatedSource {
            host: Arc::clone(host),
            steps: Steps { world: Arc::clone(&self.world), life: Arc::clone(life) },
            mutants: self.mutants.clone(),
            stop: stopped.clone(),
        };
        let web = Some(Arc::clone(&running.web));
        let mode = SocketMode { api: Arc::new(source), web, connections: host.connections };
        let (router, connections) = ingest::router_with_socket(ingest, mode, stopped);
        let world = Arc::clone(&self.world);
        running.tasks.spawn(async move {
            if let Err(refused) = connections.await {
                world.report_violation(Invariant::Bounded, refused.to_string());
            }
            "socket"
        });
        running.parts.push(("socket", stop));
        router
    }
}

/// Slack's faults are temporary in the simulation, so the downloader retries a file without limit.
fn downloads() -> file_downloader::DownloadSettings {
    file_downloader::DownloadSettings { file_tries: u32::MAX, ..file_downloader::DownloadSettings::default() }
}
