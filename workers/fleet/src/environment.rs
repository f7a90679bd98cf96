//! The dependencies of all workers: one value for `annalist up`, each binary, each function and the
//! simulation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ports::changes::Changes;
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::files::Files;
use process::config::backend::Backend;
use process::config::nightly::NightlyArgs;
use process::config::slack::{self, SlackArgs};
use process::config::zone::ZoneArgs;
use process::config::{ConfigError, instance_id};
use processor::Processor;
use slack_api::WebApi;
use tokio::sync::watch;
use workers::admission::{self, ExistenceCheck};
use workers::claims::Claimant;
use workers::directory::MembersToList;
use workers::directory::{JoinRequests, Joiner, joins};
use workers::file_downloader;
use workers::keeper::{NightSettings, NightTime};
use workers::responder::HelpProcessor;
use workers::runtime::{Ports, RuntimeSettings};

use crate::args::{
    DirectoryArgs, ExistenceArgs, FileArgs, HistorianArgs, ResponderArgs, ResponderSettings, WaitArgs,
};

/// If no prompt can reset rows, the periodic sweep only removes old ones: on AWS, each sweep reads every
/// question, which costs money.
const POLL_INTERVAL_WITHOUT_PROMPT: Duration = Duration::from_secs(3_600);

/// The flags that configure the workers; each is also an environment variable.
#[derive(Debug, Clone, clap::Args)]
pub struct WorkArgs {
    /// The address of Slack's Web API.
    #[command(flatten)]
    pub slack: SlackArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    existence: ExistenceArgs,
    #[command(flatten)]
    backfill: HistorianArgs,
    #[command(flatten)]
    nightly: NightlyArgs,
    #[command(flatten)]
    waiting: WaitArgs,
    #[command(flatten)]
    responder: ResponderArgs,
}

/// The configuration of the workers, before a backend is opened.
pub struct WorkSettings {
    /// Slack's Web API, with the tokens that are set.
    pub web: Arc<WebApi>,
    /// Whether public channels are joined.
    pub join: bool,
    /// The channels whose members are listed.
    pub members: MembersToList,
    /// Whether Slack is asked to confirm what events claim.
    pub existence: ExistenceArgs,
    /// How files are fetched.
    pub downloads: file_downloader::DownloadSettings,
    /// Which parts of Slack's history are read without a request.
    pub backfill: HistorianArgs,
    /// When the night's work begins.
    pub night: NightTime,
    /// How long jobs wait before they are quarantined.
    pub waiting: WaitArgs,
    /// Whether questions are answered, and how.
    pub responder: ResponderSettings,
    /// The file of the search index, which answers questions if no processor is configured.
    pub search_index: Option<PathBuf>,
}

impl WorkSettings {
    /// Reads the flags and the secrets.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting cannot be used.
    pub async fn read(args: &WorkArgs) -> Result<Self, ConfigError> {
        let responder = args.responder.without_processor();
        let per_minute = responder.limits.posts_per_minute;
        Ok(Self {
            web: slack::web_api_with_post_limit(&args.slack, per_minute).await?,
            join: !args.directory.no_join,
            members: args.directory.members,
            existence: args.existence,
            downloads: args.files.settings(),
            backfill: args.backfill,
            night: NightTime { at: args.nightly.nightly_at, zone: ZoneArgs::default().time_zone() },
            waiting: args.waiting,
            responder,
            search_index: None,
        })
    }

    /// The same settings for a process that answers questions: also reads the processor and its key. If the
    /// processor is a command, it cannot read the paths in `hidden`.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting cannot be used.
    pub async fn with_processor(self, args: &WorkArgs, hidden: Vec<PathBuf>) -> Result<Self, ConfigError> {
        Ok(Self { responder: args.responder.settings(hidden).await?, ..self })
    }

    /// Rejects an existence check without a token to ask Slack with.
    ///
    /// # Errors
    /// [`ConfigError::ExistenceCheckWithoutToken`].
    pub fn check_existence(&self) -> Result<(), ConfigError> {
        self.existence.require_tokens(self.web.has_tokens())
    }
}

/// The dependencies of all workers. A worker uses those that its row of the worker table names.
pub struct Environment {
    /// The queue, the archive and the clock.
    pub ports: Ports,
    /// The change log of messages.
    pub changes: Arc<dyn Changes>,
    /// The store of file bytes.
    pub files: Arc<dyn Files>,
    /// The store of claims.
    pub claims: Arc<dyn Claims>,
    /// Slack's Web API.
    pub web: Arc<WebApi>,
    /// Asks Slack whether the entities that events claim exist.
    pub check: ExistenceCheck,
    /// The joiner of new channels, and its requests; absent if no channel is to be joined.
    pub joining: Option<(Joiner, JoinRequests)>,
    /// The channels whose members the directory sync lists.
    pub members: MembersToList,
    /// Distinguishes this process from every other in its claims.
    pub instance: String,
    /// The downloader's limits.
    pub downloads: file_downloader::DownloadSettings,
    /// How a night is done, and what is read from Slack without a request.
    pub night: NightSettings,
    /// Whether questions are answered, and how.
    pub responder: ResponderSettings,
    /// The archive's own search, which answers if no processor is configured.
    pub search: Option<Arc<dyn Processor>>,
}

impl Environment {
    /// The environment of this process on an open backend.
    pub fn from_backend(backend: &Backend, clock: &SharedClock, settings: WorkSettings) -> Self {
        let WorkSettings {
            web,
            join,
            members,
            existence,
            downloads,
            backfill,
            night,
            mut responder,
            search_index,
            ..
        } = settings;
        if !backend.has_sql_prompt() {
            responder.limits.reset_poll_interval = POLL_INTERVAL_WITHOUT_PROMPT;
        }
        let search = search_index.and_then(|index| archive_search(backend, index));
        let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock: Arc::clone(clock) };
        let check = ExistenceCheck::new(admission::ExistenceParts {
            api: Arc::clone(&web),
            table: backend.existence(),
            archive: Arc::clone(&ports.archive),
            clock: Arc::clone(clock),
            mode: existence.existence_check,
        });
        Self {
            ports,
            changes: backend.changes(),
            files: backend.files(),
            claims: backend.claims(),
            web,
            check,
            joining: join.then(Joiner::new),
            members,
            instance: instance_id(),
            downloads,
            night: NightSettings {
                time: night,
                writers_know_after: backend.writers_know_after(),
                backfill: backfill.mode(backend),
            },
            responder,
            search,
        }
    }

    /// The processor that answers questions.
    pub fn processor(&self) -> Arc<dyn Processor> {
        let configured = self.responder.processor.clone().or_else(|| self.search.clone());
        configured.unwrap_or_else(|| Arc::new(HelpProcessor))
    }

    /// The claimant of this process for files.
    pub fn claimant(&self) -> Claimant {
        Claimant::new(
            Arc::clone(&self.claims),
            Arc::clone(&self.ports.clock),
            self.instance.clone(),
            self.downloads.claims.clone(),
        )
    }

    /// The joiner of new channels, unless no channel is to be joined.
    pub fn joiner(&self) -> Option<Joiner> {
        self.joining.as_ref().map(|(joiner, _)| joiner.clone())
    }

    /// Joins the channels that the workers built before ask for, until the shutdown.
    pub fn into_joining(self, shutdown: watch::Receiver<bool>) -> impl Future<Output = ()> + Send {
        joins::run_until_shutdown(self.web, self.joining.map(|(_, requests)| requests), shutdown)
    }
}

/// The runtime's limits on a backend.
pub fn runtime_settings(backend: &Backend) -> RuntimeSettings {
    let default = RuntimeSettings::default();
    RuntimeSettings { slots: backend.concurrent_batches().unwrap_or(default.slots), ..default }
}

/// The archive's search, if an index may exist.
#[cfg(feature = "embedded")]
fn archive_search(backend: &Backend, index: PathBuf) -> Option<Arc<dyn Processor>> {
    use crate::archive_search::ArchiveSearch;

    Some(Arc::new(ArchiveSearch::new(backend.archive(), backend.changes(), index)))
}

#[cfg(not(feature = "embedded"))]
fn archive_search(_: &Backend, _: PathBuf) -> Option<Arc<dyn Processor>> {
    None
}
