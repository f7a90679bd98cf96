//! Everything that workers are built from: one value for `annalist up`, each binary, each function and the simulation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ports::changes::Changes;
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::files::Files;
use process::config::backend::Backend;
use process::config::backfill::{BackfillMode, HistorianArgs};
use process::config::existence::ExistenceArgs;
use process::config::responder::{ResponderArgs, ResponderSettings};
use process::config::slack::{self, JoinArgs, SlackArgs};
use process::config::{ConfigError, FileArgs, instance};
use processor::Processor;
use slack_api::WebApi;

use crate::claims::Claimant;
use crate::directory::{DirectorySync, JoinRequests, Joiner};
use crate::existence::{self, ExistenceCheck};
use crate::file_downloader;
use crate::responder::HelpProcessor;
use crate::runtime::Ports;

/// If no row can be reset at a prompt, a look only removes what is old: on AWS, each one reads every question, which costs money.
const BETWEEN_LOOKS_WITHOUT_PROMPT: Duration = Duration::from_secs(3_600);

/// The flags that say how workers work; each is also a variable of the environment.
#[derive(Debug, Clone, clap::Args)]
pub struct WorkArgs {
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    existence: ExistenceArgs,
    #[command(flatten)]
    backfill: HistorianArgs,
    #[command(flatten)]
    responder: ResponderArgs,
}

/// How workers work, before a backend is opened.
pub struct WorkSettings {
    /// Slack's Web API, with the tokens that are set.
    pub web: Arc<WebApi>,
    /// Whether public channels are joined.
    pub join: bool,
    /// Whether Slack is asked about what events claim.
    pub existence: ExistenceArgs,
    /// How files are fetched.
    pub downloads: file_downloader::DownloadSettings,
    /// What is read of Slack's history without being asked for.
    pub backfill: BackfillMode,
    /// Whether questions are answered, and how.
    pub responder: ResponderSettings,
    /// The file of the search index, which answers questions if nothing else does.
    pub search_index: Option<PathBuf>,
}

impl WorkSettings {
    /// What the flags and the secrets say.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting cannot be used.
    pub async fn read(args: &WorkArgs) -> Result<Self, ConfigError> {
        let responder = args.responder.without_processor();
        let per_minute = responder.limits.posts_per_minute;
        Ok(Self {
            web: slack::posting_web_api(&args.slack, per_minute).await?,
            join: !args.join.no_join,
            existence: args.existence,
            downloads: (&args.files).into(),
            backfill: args.backfill.backfill,
            responder,
            search_index: None,
        })
    }

    /// The same for a process that answers questions: what answers them is read too, with its key.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting cannot be used.
    pub async fn with_processor(self, args: &WorkArgs) -> Result<Self, ConfigError> {
        Ok(Self { responder: args.responder.settings().await?, ..self })
    }

    /// Refuses an existence check that has no token to ask Slack with.
    ///
    /// # Errors
    /// [`ConfigError::NothingToCheckWith`].
    pub fn check_existence(&self) -> Result<(), ConfigError> {
        self.existence.needs(self.web.has_tokens())
    }
}

/// Everything that workers are built from. A worker takes what its row of the table says that it uses.
pub struct Environment {
    /// Where jobs and rows are.
    pub ports: Ports,
    /// What was written to messages.
    pub changes: Arc<dyn Changes>,
    /// Where bytes are.
    pub files: Arc<dyn Files>,
    /// Where claims are kept.
    pub claims: Arc<dyn Claims>,
    /// Slack.
    pub web: Arc<WebApi>,
    /// Asks Slack whether what events claim exists.
    pub check: ExistenceCheck,
    /// New channels are joined through it; absent if none is to be joined.
    pub joining: Option<(Joiner, JoinRequests)>,
    /// Tells this process from every other in its claims.
    pub instance: String,
    /// The downloader's limits.
    pub downloads: file_downloader::DownloadSettings,
    /// What the historian does by itself.
    pub backfill: BackfillMode,
    /// Whether questions are answered, and how.
    pub responder: ResponderSettings,
    /// The archive's own search, which answers if nothing else does.
    pub search: Option<Arc<dyn Processor>>,
}

impl Environment {
    /// The environment of this process on an open backend.
    pub fn on(backend: &Backend, clock: &SharedClock, settings: WorkSettings) -> Self {
        let WorkSettings { web, join, existence, downloads, backfill, mut responder, search_index } =
            settings;
        if !backend.has_prompt() {
            responder.limits.between_looks = BETWEEN_LOOKS_WITHOUT_PROMPT;
        }
        let search = search_index.and_then(|index| archive_search(backend, index));
        let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock: Arc::clone(clock) };
        let check = ExistenceCheck::new(existence::ExistenceParts {
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
            instance: instance(),
            downloads,
            backfill,
            responder,
            search,
        }
    }

    /// What answers questions.
    pub fn processor(&self) -> Arc<dyn Processor> {
        let configured = self.responder.processor.clone().or_else(|| self.search.clone());
        configured.unwrap_or_else(|| Arc::new(HelpProcessor))
    }

    /// This process as it claims files.
    pub fn claimant(&self) -> Claimant {
        Claimant::new(
            Arc::clone(&self.claims),
            Arc::clone(&self.ports.clock),
            self.instance.clone(),
            self.downloads.claims.clone(),
        )
    }

    /// What asks for channels to be joined, unless none is to be joined.
    pub fn joiner(&self) -> Option<Joiner> {
        self.joining.as_ref().map(|(joiner, _)| joiner.clone())
    }

    /// The sync of Slack's directory, which runs beside the workers that were built before, and what they ask it to join.
    #[must_use]
    pub fn into_directory(self) -> (DirectorySync, Option<JoinRequests>) {
        let Self { ports: Ports { queue, archive, .. }, web, check, joining, .. } = self;
        let sync = DirectorySync::new(web, archive, queue).telling(check.known());
        (sync, joining.map(|(_, asked)| asked))
    }
}

/// The archive's search, where there may be an index.
#[cfg(feature = "embedded")]
fn archive_search(backend: &Backend, index: PathBuf) -> Option<Arc<dyn Processor>> {
    use crate::responder::archive_search::ArchiveSearch;

    Some(Arc::new(ArchiveSearch::new(backend.archive(), backend.changes(), index)))
}

#[cfg(not(feature = "embedded"))]
fn archive_search(_: &Backend, _: PathBuf) -> Option<Arc<dyn Processor>> {
    None
}
