//! Everything that workers are built from: one value for `annalist up`, each binary, each function and the simulation.

use std::sync::Arc;

use ports::changes::Changes;
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::files::Files;
use process::config::backend::Backend;
use process::config::backfill::{BackfillArgs, BackfillMode};
use process::config::existence::ExistenceArgs;
use process::config::slack::{self, JoinArgs, SlackArgs};
use process::config::{ConfigError, FileArgs, instance};
use slack_api::WebApi;

use crate::claims::Claimant;
use crate::directory::{Asked, DirectorySync, Joiner};
use crate::existence::{self, Check};
use crate::file_downloader;
use crate::runtime::Ports;

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
    backfill: BackfillArgs,
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
    pub downloads: file_downloader::Settings,
    /// What is read of Slack's history without being asked for.
    pub backfill: BackfillMode,
}

impl WorkSettings {
    /// What the flags and the secrets say.
    ///
    /// # Errors
    /// [`ConfigError`] if a setting cannot be used.
    pub async fn read(args: &WorkArgs) -> Result<Self, ConfigError> {
        Ok(Self {
            web: slack::web_api(&args.slack).await?,
            join: !args.join.no_join,
            existence: args.existence,
            downloads: (&args.files).into(),
            backfill: args.backfill.backfill,
        })
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
    pub check: Check,
    /// New channels are joined through it; absent if none is to be joined.
    pub joining: Option<(Joiner, Asked)>,
    /// Tells this process from every other in its claims.
    pub instance: String,
    /// The downloader's limits.
    pub downloads: file_downloader::Settings,
    /// What the historian does by itself.
    pub backfill: BackfillMode,
}

impl Environment {
    /// The environment of this process on an open backend.
    #[must_use]
    pub fn on(backend: &Backend, clock: &SharedClock, settings: WorkSettings) -> Self {
        let WorkSettings { web, join, existence, downloads, backfill } = settings;
        let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock: Arc::clone(clock) };
        let check = Check::new(existence::Parts {
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
        }
    }

    /// This process as it claims files.
    #[must_use]
    pub fn claimant(&self) -> Claimant {
        Claimant::new(
            Arc::clone(&self.claims),
            Arc::clone(&self.ports.clock),
            self.instance.clone(),
            self.downloads.claims.clone(),
        )
    }

    /// What asks for channels to be joined, unless none is to be joined.
    #[must_use]
    pub fn joiner(&self) -> Option<Joiner> {
        self.joining.as_ref().map(|(joiner, _)| joiner.clone())
    }

    /// The sync of Slack's directory, which runs beside the workers that were built before, and what they ask it to join.
    #[must_use]
    pub fn into_directory(self) -> (DirectorySync, Option<Asked>) {
        let Self { ports: Ports { queue, archive, .. }, web, check, joining, .. } = self;
        let sync = DirectorySync::new(web, archive, queue).telling(check.known());
        (sync, joining.map(|(_, asked)| asked))
    }
}
