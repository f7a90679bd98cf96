//! The choice of a backend. No other code chooses one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "aws")]
use super::aws::AwsArgs;
pub use super::backend_kind::BackendKind;
use super::bucket::{BUCKET_PLACE, BucketPlace, FilesPlaceError};
#[cfg(feature = "embedded")]
use super::bucket::{check_place, store_place, stored_place};
use super::{ConfigError, DataArgs, SettingsArgs};
#[cfg(feature = "aws")]
use aws::{Aws, ConnectError};
#[cfg(feature = "embedded")]
use embedded::{Database, OpenError};
use ports::archive::Archive;
use ports::changes::Changes;
use ports::claims::Claims;
use ports::clock::SharedClock;
use ports::existence::Existence;
use ports::files::Files;
use ports::queue::Queue;

/// The file of the search index, in its folder.
pub const INDEX_FILE: &str = "index.db";

/// The variable that chooses the backend.
pub(super) const VARIABLE: &str = "ANNALIST_BACKEND";

/// The backend and its location.
#[derive(Debug, Clone, clap::Args)]
pub struct BackendArgs {
    /// One folder on this machine, or SQS, DynamoDB and S3
    #[arg(long, env = VARIABLE, value_enum, default_value_t = BackendKind::Embedded, hide_possible_values = true, value_name = "embedded|aws")]
    pub backend: BackendKind,
    /// Settings of the embedded backend
    #[command(flatten)]
    pub data: DataArgs,
    /// The bucket that has the bytes of files, if they are not in the data folder
    #[arg(long = "files", env = "ANNALIST_FILES", value_name = BUCKET_PLACE, hide_short_help = true)]
    pub files_in: Option<BucketPlace>,
    /// The settings file
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Settings of the AWS backend
    #[cfg(feature = "aws")]
    #[command(flatten)]
    pub aws: AwsArgs,
}

impl BackendArgs {
    /// The data folder; `None` on AWS.
    pub fn folder(&self) -> Option<&Path> {
        (self.backend == BackendKind::Embedded).then_some(&*self.data.data)
    }

    /// The embedded backend in this folder.
    pub fn embedded(data: &Path) -> Self {
        Self {
            backend: BackendKind::Embedded,
            data: DataArgs { data: data.to_owned() },
            files_in: None,
            settings: SettingsArgs::default(),
            #[cfg(feature = "aws")]
            aws: AwsArgs::default(),
        }
    }

    /// The base URI of the files; each file is at its key below it. It is derived from the settings each
    /// time: the folder may have moved, or the bucket may have been renamed.
    ///
    /// # Errors
    /// [`BackendError`] if a setting is missing, or the folder cannot be found.
    pub fn files_uri(&self) -> Result<String, BackendError> {
        match (self.backend, &self.files_in) {
            (BackendKind::Embedded, Some(place)) => Ok(place.to_string()),
            #[cfg(feature = "embedded")]
            (BackendKind::Embedded, None) => {
                let data = &self.data.data;
                let folder = |source| OpenError::Folder { path: data.clone(), source };
                Ok(embedded::files_uri(data).map_err(folder)?)
            }
            #[cfg(feature = "aws")]
            (BackendKind::Aws, _) => Ok(format!("s3://{}", self.aws.names()?.bucket())),
            #[cfg(not(all(feature = "embedded", feature = "aws")))]
            (kind, _) => Err(ConfigError::NotBuilt(kind).into()),
        }
    }

    /// The file of the search index next to the data; `None` if the data is not on this machine.
    pub fn local_index(&self) -> Option<PathBuf> {
        match self.backend {
            BackendKind::Embedded => Some(self.data.data.join(INDEX_FILE)),
            BackendKind::Aws => None,
        }
    }

    /// The flag that selects the same backend in another command. The environment contains the other
    /// settings.
    pub fn selecting_flag(&self) -> String {
        match self.backend {
            BackendKind::Embedded => format!("--data {}", self.data.data.display()),
            kind @ BackendKind::Aws => format!("--backend {kind}"),
        }
    }
}

/// The ports of the chosen backend. Its users share its connections and batches.
pub struct Backend {
    kind: BackendKind,
    queue: Arc<dyn Queue>,
    archive: Arc<dyn Archive>,
    changes: Arc<dyn Changes>,
    files: Arc<dyn Files>,
    existence: Arc<dyn Existence>,
    claims: Arc<dyn Claims>,
    #[cfg(feature = "embedded")]
    database: Option<Database>,
}

/// Why a backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A setting is missing or cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data folder cannot be used.
    #[cfg(feature = "embedded")]
    #[error(transparent)]
    Embedded(#[from] OpenError),
    /// The files cannot be used.
    #[error(transparent)]
    Files(#[from] FilesPlaceError),
    /// AWS cannot be used.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Aws(#[from] ConnectError),
}

impl BackendError {
    /// Whether the user must correct a setting, as opposed to a failure.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Config(_))
    }
}

impl Backend {
    /// Opens the chosen backend. Creates a missing data folder, but no AWS resources.
    ///
    /// # Errors
    /// [`BackendError`], whose text says what to do next.
    pub async fn open(args: &BackendArgs, clock: SharedClock) -> Result<Self, BackendError> {
        match args.backend {
            #[cfg(feature = "embedded")]
            BackendKind::Embedded => {
                let place = args.files_in.as_ref();
                if let Some(place) = place {
                    place.probe().await?;
                }
                let database = Database::open(&args.data.data, clock)?;
                let archive = database.archive();
                match (stored_place(&*archive).await.map_err(FilesPlaceError::from)?, place) {
                    (None, Some(place)) => store_place(&*archive, place).await?,
                    (store, place) => check_place(store.as_deref(), place)?,
                }
                Self::of_folder(database, place).await
            }
            _ => Self::connect(args, clock).await,
        }
    }

    /// Opens a backend that already contains an archive.
    ///
    /// # Errors
    /// [`BackendError`], also if the data folder exists but contains no archive.
    pub async fn open_existing(args: &BackendArgs, clock: SharedClock) -> Result<Self, BackendError> {
        match args.backend {
            #[cfg(feature = "embedded")]
            BackendKind::Embedded => {
                let place = args.files_in.as_ref();
                let database = Database::open_existing(&args.data.data, clock)?;
                // A database that cannot be read says so by itself.
                let store = stored_place(&*database.archive()).await.unwrap_or_default();
                check_place(store.as_deref(), place)?;
                Self::of_folder(database, place).await
            }
            _ => Self::connect(args, clock).await,
        }
    }

    #[cfg(feature = "embedded")]
    async fn of_folder(database: Database, place: Option<&BucketPlace>) -> Result<Self, BackendError> {
        let files = match place {
            Some(place) => database.files_in(place.files().await?),
            None => database.files(),
        };
        Ok(Self {
            kind: BackendKind::Embedded,
            queue: database.queue(),
            archive: database.archive(),
            changes: database.changes(),
            files,
            existence: database.existence(),
            claims: database.claims(),
            database: Some(database),
        })
    }

    /// Connects to AWS, which uses `clock` only for claims, erasures and change marks. Sends no request yet.
    #[cfg_attr(not(feature = "aws"), expect(clippy::unused_async, reason = "with AWS it awaits"))]
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "AWS takes it"))]
    async fn connect(args: &BackendArgs, clock: SharedClock) -> Result<Self, BackendError> {
        match args.backend {
            #[cfg(feature = "aws")]
            BackendKind::Aws if args.files_in.is_some() => Err(ConfigError::FilesOnAws.into()),
            #[cfg(feature = "aws")]
            kind @ BackendKind::Aws => {
                let aws = Aws::connect(args.aws.names()?).await?;
                Ok(Self {
                    kind,
                    queue: aws.queue(),
                    archive: aws.writing_archive(Arc::clone(&clock)),
                    changes: aws.changes(Arc::clone(&clock)),
                    files: aws.files(),
                    existence: aws.existence(),
                    claims: aws.claims(clock),
                    #[cfg(feature = "embedded")]
                    database: None,
                })
            }
            kind => Err(ConfigError::NotBuilt(kind).into()),
        }
    }

    /// Whether each row that is written costs money.
    pub fn is_paid(&self) -> bool {
        self.kind == BackendKind::Aws
    }

    /// After this time, every writer knows a fact that was written: what is erased, has expired, or is out.
    pub fn writers_know_after(&self) -> Duration {
        #[cfg(feature = "aws")]
        if self.kind == BackendKind::Aws {
            // Twice the interval at which writers read the facts again.
            return 2 * aws::ERASURE_REFRESH;
        }
        Duration::ZERO
    }

    /// Whether users can change rows without this program, with SQL.
    pub fn has_sql_prompt(&self) -> bool {
        self.kind == BackendKind::Embedded
    }

    /// Lowers the priority of this process: from now on, other processes that write to the same data folder
    /// go first. Has no effect on AWS.
    pub fn work_in_background(&self) {
        #[cfg(feature = "embedded")]
        if let Some(database) = &self.database {
            database.work_in_background();
        }
    }

    /// The queue port.
    pub fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue)
    }

    /// The archive port.
    pub fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.archive)
    }

    /// The changes port.
    pub fn changes(&self) -> Arc<dyn Changes> {
        Arc::clone(&self.changes)
    }

    /// The files port.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files)
    }

    /// The existence port.
    pub fn existence(&self) -> Arc<dyn Existence> {
        Arc::clone(&self.existence)
    }

    /// The claims port.
    pub fn claims(&self) -> Arc<dyn Claims> {
        Arc::clone(&self.claims)
    }

    /// The number of concurrent batches of one worker, if the default for one machine does not suit the
    /// backend.
    pub fn concurrent_batches(&self) -> Option<usize> {
        match self.kind {
            BackendKind::Embedded => None,
            // SQS returns at most ten messages per receive, and each step of a batch waits for the network. A
            // receive takes about a quarter of a batch's time; a few more than four batches keep a receive
            // running at all times.
            BackendKind::Aws => Some(6),
        }
    }

    /// The open database, if the backend is embedded: only it has a state of its own to inspect.
    #[cfg(feature = "embedded")]
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Waits until everything is durable and closes the backend. Every write that AWS acknowledged is durable.
    pub async fn close(&self) {
        #[cfg(feature = "embedded")]
        if let Some(database) = &self.database {
            database.close().await;
        }
    }
}

/// The location of the backend for users: the folder, or the prefix on AWS.
impl fmt::Display for BackendArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            BackendKind::Embedded => write!(f, "{}", self.data.data.display()),
            #[cfg(feature = "aws")]
            BackendKind::Aws => write!(f, "AWS, {}", self.aws.prefix),
            #[cfg(not(feature = "aws"))]
            BackendKind::Aws => f.write_str("AWS"),
        }
    }
}
