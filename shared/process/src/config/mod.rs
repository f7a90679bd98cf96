//! The only door to the environment: every setting, its flag, its variable and its default.

#[cfg(feature = "aws")]
pub mod aws;
pub mod backend;
pub mod backfill;
mod claims;
pub mod existence;
pub mod lambda;
mod log;
#[cfg(feature = "web")]
pub mod responder;
mod secrets;
#[cfg(feature = "web")]
pub mod slack;
#[cfg(feature = "web")]
mod tokens;
pub mod viewer;
pub mod zone;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU32;
use std::path::PathBuf;

use ::slack::signature::{InvalidSecrets, SigningSecrets};

pub use ::slack::credentials::{BOT_TOKEN, SIGNING_SECRET, SecretVariable};
pub use claims::{ClaimArgs, instance};
pub use log::{log_filter, log_filter_or};

/// The user's folder for what can be made again, as the XDG Base Directory Specification names it; `None` for a user without
/// a home.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| Some(std::env::home_dir()?.join(".cache")))
}

/// Who runs this process, as the system's programs call them: of `sudo`, who typed it.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn system_user() -> Option<String> {
    let names = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"].into_iter();
    names.filter_map(|name| std::env::var(name).ok()).find(|name| !name.is_empty())
}

/// Where the archive is kept.
#[derive(Debug, Clone, clap::Args)]
pub struct DataArgs {
    /// Folder that holds the archive and the queue
    #[arg(long, env = "ANNALIST_DATA", value_name = "DIR", default_value = "annalist-data")]
    pub data: PathBuf,
}

/// Where the search index is.
#[derive(Debug, Clone, clap::Args)]
pub struct IndexArgs {
    /// Folder of the search index [default: the data folder; with --backend aws one in the user's cache]
    #[arg(long = "index", env = "ANNALIST_INDEX", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Where requests are served.
#[derive(Debug, Clone, clap::Args)]
pub struct ListenArgs {
    /// Address for Slack's requests, /healthz and /readyz
    #[arg(long, env = "ANNALIST_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
}

/// Slack's path and port in Bolt's documentation, so that an existing tunnel or proxy keeps working.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3000));

/// Where metrics are served when nothing is set: loopback only, never on the public listener.
pub const DEFAULT_METRICS_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3001));

/// Where metrics are served.
#[derive(Debug, Clone, clap::Args)]
pub struct MetricsArgs {
    /// Address for Prometheus metrics (GET /metrics)
    #[arg(long, env = "ANNALIST_METRICS_LISTEN", value_name = "ADDR")]
    pub metrics_listen: Option<SocketAddr>,
    /// What a Lambda function tells CloudWatch, which bills each metric: five metrics, or all of them
    #[arg(
        long,
        env = "ANNALIST_METRICS",
        value_name = "DETAIL",
        value_enum,
        default_value_t,
        hide_short_help = true
    )]
    pub metrics: MetricsDetail,
}

/// What CloudWatch is told of the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MetricsDetail {
    /// Five sums, each under one dimension.
    #[default]
    Few,
    /// These, and every metric with its labels.
    Full,
}

/// How files are fetched.
#[derive(Debug, Clone, clap::Args)]
pub struct FileArgs {
    /// Files asked for in a minute, by each process
    #[arg(long, env = "ANNALIST_FILES_PER_MINUTE", value_name = "N", default_value_t = DEFAULT_FILES_PER_MINUTE)]
    pub files_per_minute: NonZeroU32,
    /// Longest file that is kept
    #[arg(long, env = "ANNALIST_MAX_FILE_BYTES", value_name = "BYTES", default_value_t = DEFAULT_MAX_FILE_BYTES)]
    pub max_file_bytes: u64,
    /// So that a file is fetched once
    #[command(flatten)]
    pub claims: ClaimArgs,
}

impl Default for FileArgs {
    fn default() -> Self {
        Self {
            files_per_minute: DEFAULT_FILES_PER_MINUTE,
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            claims: ClaimArgs::default(),
        }
    }
}

/// Slack publishes no limit for downloads. Five a second is what a person who scrolls through a channel of pictures asks
/// for, and more than a workspace brings; if it is too much after all, Slack answers 429, which is obeyed.
pub const DEFAULT_FILES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(300).unwrap();

/// Slack's own limit for an upload.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 1024 * 1024 * 1024;

/// A setting that stops the program from starting, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no signing secret.
    #[error(
        "{} is not set: copy the Signing Secret from your Slack app's Basic Information page, or create \
         the app first from the manifest that `annalist manifest` prints",
        SIGNING_SECRET.value
    )]
    NoSigningSecret,
    /// The signing secret cannot be used.
    #[error(
        "{variable} cannot be used: {why}; give one secret, or the old and the new one separated by a comma"
    )]
    SigningSecret {
        /// What it was set by.
        variable: &'static str,
        /// What is wrong with it.
        why: InvalidSecrets,
    },
    /// A secret is set both by its value and by where it is.
    #[error("{} and {} are both set: keep one of them", .0.value, .0.arn)]
    SecretTwice(SecretVariable),
    /// A secret could not be read from where it is.
    #[error("{variable} cannot be used: {why}")]
    SecretsManager {
        /// What names it.
        variable: &'static str,
        /// What kept it.
        why: String,
    },
    /// The base of Slack's Web API cannot be used.
    #[error("SLACK_API_URL (--slack-api-url) cannot be used: {0}; leave it out for Slack itself")]
    ApiUrl(String),
    /// The bot token cannot be used.
    #[error(
        "{variable} cannot be used: {why}; copy the Bot User OAuth Token from your Slack app's OAuth & Permissions page"
    )]
    BotToken {
        /// What it was set by.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The file of tokens cannot be used.
    #[error("SLACK_BOT_TOKENS_FILE {} cannot be used: {why}", path.display())]
    BotTokensFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The existence check is asked for, and there is nothing to ask Slack with.
    #[error(
        "--existence-check {0} (ANNALIST_EXISTENCE_CHECK) asks Slack, and there is no token for it: set SLACK_BOT_TOKEN, \
         or leave the setting out"
    )]
    NothingToCheckWith(existence::ExistenceMode),
    /// The chosen backend is not part of this build.
    #[error(
        "this build has no {0} backend: build it with `--features {0}`, or set ANNALIST_BACKEND to the one it has"
    )]
    NotBuilt(backend::BackendKind),
    /// The command works on a folder, and AWS was chosen.
    #[error("`annalist {command}` works on a data folder (--data), not on AWS: there, {instead}")]
    OneMachineOnly {
        /// The command.
        command: &'static str,
        /// What to use on AWS.
        instead: &'static str,
    },
    /// There is no bucket.
    #[cfg(feature = "aws")]
    #[error(
        "ANNALIST_BUCKET is not set: choose a name for the S3 bucket that holds files; bucket names are unique in the \
         world"
    )]
    NoBucket,
    /// AWS would refuse a name.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    AwsName(#[from] aws_template::names::InvalidName),
    /// Several processors are set.
    #[error(
        "ANNALIST_PROCESSOR_URL, ANNALIST_PROCESSOR_CMD and ANTHROPIC_API_KEY each name what answers questions: keep one of them"
    )]
    TwoProcessors,
    /// A model's key is set, and no model.
    #[error(
        "ANTHROPIC_API_KEY is set and ANNALIST_MODEL (--model) is not: name the model that answers questions"
    )]
    NoModel,
    /// The address of a processor cannot be used.
    #[cfg(feature = "web")]
    #[error("{variable} cannot be used: {why}")]
    ProcessorUrl {
        /// What it was set by.
        variable: &'static str,
        /// What is wrong with it.
        why: processor::InvalidUrl,
    },
    /// The command cannot be run.
    #[cfg(feature = "web")]
    #[error("ANNALIST_PROCESSOR_CMD (--processor-cmd) cannot be used: {0}")]
    ProcessorCommand(processor::command::InvalidCommand),
    /// A function runs no command.
    #[error(
        "ANNALIST_PROCESSOR_CMD does not work on Lambda: set ANNALIST_PROCESSOR_URL or ANTHROPIC_API_KEY instead"
    )]
    CommandOnLambda,
    /// No client could be made.
    #[error("the processor cannot be asked: {0}")]
    ProcessorClient(String),
    /// The file of instructions cannot be used.
    #[error("ANNALIST_SYSTEM_PROMPT_FILE {} cannot be used: {why}", path.display())]
    SystemPromptFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A part of the responder is started alone, and it is off.
    #[error(
        "{0} has nothing to do while ANNALIST_RESPONDER is off: set it to on, here and for the message-writer"
    )]
    ResponderOff(&'static str),
    /// What is to be logged cannot be used.
    #[error(
        "ANNALIST_LOG cannot be used: it is error, warn, info, debug, trace or off, or names the level of single \
         modules, such as info,workers=debug"
    )]
    Log,
    /// Tokens are set in both ways.
    #[error(
        "SLACK_BOT_TOKEN and SLACK_BOT_TOKENS_FILE are both set: keep the first for one workspace, or the file for \
         several"
    )]
    TwoTokens,
}

/// The signing secrets from the environment, or from the secret that it names.
///
/// # Errors
/// [`ConfigError`] if they are missing or cannot be used.
pub async fn signing_secrets() -> Result<SigningSecrets, ConfigError> {
    let found = secrets::find(SIGNING_SECRET).await?.ok_or(ConfigError::NoSigningSecret)?;
    SigningSecrets::parse(&found.secret)
        .map_err(|why| ConfigError::SigningSecret { variable: found.variable, why })
}

/// A variable that is set to something.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn text(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}
