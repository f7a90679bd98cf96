//! One process of the fleet: what `annalist up` composes, on the simulation's ports.

use std::sync::{Arc, Mutex};

use axum::Router;
use ingest::Ingest;
use ports::archive::{Archive, ErasureFact};
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::files::Files;
use ports::queue::run::RunId;
use ports::queue::{Queue, QueueName};
use process::config::backfill::BackfillMode;
use process::requests::OpenRequests;
use secrecy::SecretString;
use slack::signature::SigningSecrets;
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use tokio::sync::watch;
use tokio::task::JoinSet;
use workers::directory::Joiner;
use workers::environment::Environment;
use workers::existence::{self, ExistenceCheck};
use workers::file_downloader;
use workers::runtime::{self, Ports, RuntimeSettings};

use super::api::{PlayedSlack, SlackTruth};
use super::checked_archive::{BOT_TOKEN, CheckedArchive, SIGNING_SECRET};
use super::checked_worker::CheckedWorker;
use super::figures;
use super::ledger::Ledger;
use super::mutation::Mutants;
use super::questions::{self, LastWishes};
use super::schedule::{Life, Steps};
use super::world::{JumpyClock, World};
use testkit::faults::{FaultyArchive, FaultyClaims, FaultyFiles, FaultyQueue};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

/// What outlives every process.
pub(super) struct Surroundings {
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) files: MemoryFiles,
    pub(super) existence: Arc<MemoryExistence>,
    pub(super) claims: Arc<MemoryClaims>,
    pub(super) truth: Arc<SlackTruth>,
    pub(super) mutants: Mutants,
    /// What is erased.
    pub(super) erasures: Mutex<Vec<ErasureFact>>,
    /// Whether the processes fill gaps from history while events come. If not, the archive is exactly what the events make of
    /// it, and the gaps are filled afterwards.
    pub(super) fills_at_once: bool,
    /// Whether people ask questions.
    pub(super) asks: bool,
    /// What a person wanted last of some of them.
    pub(super) wishes: LastWishes,
}

/// A process that runs.
pub(super) struct RunningProcess {
    pub(super) router: Router,
    /// Each part, and what stops it: a channel of its own, since one for all would wake them in a random order.
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

impl Surroundings {
    /// The ports as one life of a process sees them.
    ///
    /// # Panics
    /// Never: the token is a good one.
    pub(super) fn seen_by(&self, life: &Arc<Life>) -> ProcessDependencies {
        let steps = || Steps { world: Arc::clone(&self.world), life: Arc::clone(life) };
        let clock: SharedClock = Arc::new(JumpyClock(Arc::clone(&self.world)));
        let checked_archive =
            CheckedArchive { world: Arc::clone(&self.world), inner: Arc::clone(&self.archive) };
        let queue = FaultyQueue::on(self.ledger.clone(), Arc::new(steps()));
        let queue: Arc<dyn Queue> = Arc::new(queue);
        let slack =
            PlayedSlack { world: Arc::clone(&self.world), steps: steps(), truth: Arc::clone(&self.truth) };
        let token = BotToken::parse(BOT_TOKEN).expect("it could be sent");
        ProcessDependencies {
            ports: Ports {
                queue: self.mutants.queue(queue),
                archive: Arc::new(FaultyArchive::on(
                    Arc::new(checked_archive) as Arc<dyn Archive>,
                    Arc::new(steps()),
                )),
                clock,
            },
            web: Arc::new(WebApi::carried_by(Arc::new(slack), ApiUrl::default(), Tokens::one(token))),
            files: self
                .mutants
                .files(Arc::new(FaultyFiles::on(Arc::new(self.files.clone()), Arc::new(steps())))),
            claims: Arc::new(FaultyClaims::on(self.claims.clone(), Arc::new(steps()))),
        }
    }

    /// Starts a process.
    ///
    /// # Panics
    /// Never: the secret is a good one.
    pub(super) fn start(&self, life: &Arc<Life>, backfill: BackfillMode) -> RunningProcess {
        let ProcessDependencies { ports, web, files, claims } = self.seen_by(life);
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET)).expect("one secret");
        let router = ingest::router(Ingest {
            queue: ports.queue.clone(),
            secrets,
            clock: ports.clock.clone(),
            limits: ingest::IngestLimits::default(),
            open_requests: OpenRequests::default(),
            run: RunId::parse(&format!("{:016x}", self.world.random().u64(..))),
        });
        let check = ExistenceCheck::new(existence::ExistenceParts {
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
            web,
            claims,
            check,
            joining: Some(Joiner::new()),
            instance: life.name.clone(),
            downloads: downloads(),
            backfill,
            responder: questions::settings(&self.world, self.asks),
            search: None,
        };
        let settings = RuntimeSettings {
            seed: self.world.random().u64(..),
            gauge_interval: std::time::Duration::from_secs(60),
            ..RuntimeSettings::default()
        };
        let (mut tasks, mut parts) = (JoinSet::new(), Vec::new());
        for (spec, build) in workers::all() {
            let worker = if spec.queue.name == QueueName::Stats {
                figures::statistician(&ports, &environment.changes)
            } else {
                build(&environment)
            };
            let (name, (stop, shutdown)) = (worker.name(), watch::channel(false));
            let checked_worker = CheckedWorker {
                inner: self.mutants.worker(worker),
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
        let (sync, asked) = environment.into_directory();
        let (name, (stop, shutdown)) = ("directory", watch::channel(false));
        tasks.spawn(async move {
            sync.run(asked, shutdown).await;
            name
        });
        parts.push((name, stop));
        RunningProcess { router, parts, tasks }
    }
}

/// Nothing of Slack's trouble lasts here, so a file is asked for until it comes.
fn downloads() -> file_downloader::DownloadSettings {
    file_downloader::DownloadSettings { file_tries: u32::MAX, ..file_downloader::DownloadSettings::default() }
}
