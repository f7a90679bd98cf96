//! The only access to the environment: every setting with its flag, its variable and its default.

mod arguments;
#[cfg(feature = "aws")]
pub mod aws;
pub mod backend;
mod backend_kind;
pub mod bucket;
pub mod copy;
mod instance;
pub mod lambda;
mod log;
pub mod named_file;
pub mod nightly;
pub mod publish;
pub mod secrets;
mod setting_names;
mod settings_file;
mod settings_lines;
pub mod setup;
mod signing;
pub mod slack;
pub mod socket;
mod tokens;
pub mod viewer;
pub mod zone;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use ::slack::signature::InvalidSecrets;

pub use ::slack::credentials::{APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SecretVariable};
pub use arguments::parse;
pub use instance::instance_id;
pub use log::{log_filter, log_filter_or};
pub use setting_names::is_setting;
pub use settings_file::{
    SETTINGS_FILE, SettingsArgs, SettingsFacts, SettingsFile, SettingsFileError, SettingsFileState,
    forbidden_settings_file, settings_facts, settings_warning,
};
pub use signing::{optional_signing_table, signing_table};

/// The user's cache folder according to the XDG Base Directory Specification; `None` for a user without a
/// home.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| Some(std::env::home_dir()?.join(".cache")))
}

/// `PATH`: the folders of the installed programs.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn program_folders() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// The name of the user who runs this process; with `sudo`, the user who invoked it.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn system_user() -> Option<String> {
    let names = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"].into_iter();
    names.filter_map(|name| std::env::var(name).ok()).find(|name| !name.is_empty())
}

/// Whether the environment asks for text without control sequences: `NO_COLOR` (<https://no-color.org>), or a terminal that
/// knows none.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn wants_plain_text() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// The location of the archive.
#[derive(Debug, Clone, clap::Args)]
pub struct DataArgs {
    /// Folder that holds the archive and the queue
    #[arg(long, env = "ANNALIST_DATA", value_name = "DIR", default_value = "annalist-data")]
    pub data: PathBuf,
}

/// The location of the search index.
#[derive(Debug, Clone, clap::Args)]
pub struct IndexArgs {
    /// Folder of the search index [default: the data folder; with --backend aws one in the user's cache]
    #[arg(long = "index", env = "ANNALIST_INDEX", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// The address that serves requests.
#[derive(Debug, Clone, clap::Args)]
pub struct ListenArgs {
    /// Address for Slack's requests, /healthz and /readyz
    #[arg(long, env = "ANNALIST_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
}

/// Slack's path and port in Bolt's documentation, so that an existing tunnel or proxy keeps working.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3000));

/// The default address of the metrics: loopback only, never on the public listener.
pub const DEFAULT_METRICS_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3001));

/// The settings of metrics.
#[derive(Debug, Clone, clap::Args)]
pub struct MetricsArgs {
    /// Address for Prometheus metrics (GET /metrics)
    #[arg(long, env = "ANNALIST_METRICS_LISTEN", value_name = "ADDR")]
    pub metrics_listen: Option<SocketAddr>,
    /// Metrics that a Lambda function sends to CloudWatch, which bills each: five, or all of them
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

/// The metrics that are sent to CloudWatch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MetricsDetail {
    /// Six numbers, each under one dimension.
    #[default]
    Few,
    /// These, and every metric with its labels.
    Full,
}

/// A setting that stops the program from starting, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The arguments cannot be used, or ask for help.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// The settings file cannot be used.
    #[error(transparent)]
    SettingsFile(#[from] SettingsFileError),
    /// There is no signing secret, and no app-level token in its place.
    #[error(
        "neither {APP_TOKEN} nor {} is set: run `annalist setup`, which creates the app and asks for its tokens; or \
         create it from what `annalist manifest` prints, and copy the Signing Secret or an app-level token from its Basic \
         Information page",
        SIGNING_SECRET.value
    )]
    NoSigningSecret,
    /// There is no signing secret, and a Lambda function can have nothing in its place.
    #[error(
        "neither {} nor {} is set: set the parameter SigningSecretArn of the stack to the ARN of a secret that contains \
         the Signing Secret from your Slack app's Basic Information page",
        SIGNING_SECRET.arn,
        SIGNING_SECRET.value
    )]
    NoSigningSecretOnLambda,
    /// The app-level token cannot be used.
    #[error(
        "{APP_TOKEN} cannot be used: {0}; it is the app-level token (xapp-…) with the scope connections:write from your \
         Slack app's Basic Information page"
    )]
    AppToken(&'static str),
    /// Slack refuses the app-level token.
    #[error(
        "{APP_TOKEN} cannot be used: {0}; generate an app-level token with the scope connections:write on your Slack \
         app's Basic Information page"
    )]
    AppTokenRefused(String),
    /// A Lambda function keeps no connection.
    #[error(
        "{APP_TOKEN} does not work on Lambda, which keeps no connection open: unset it, and let Slack send requests"
    )]
    AppTokenOnLambda,
    /// The signing secret cannot be used.
    #[error(
        "{variable} cannot be used: {why}; give one secret, or the old and the new one separated by a comma"
    )]
    SigningSecret {
        /// The variable that sets it.
        variable: &'static str,
        /// What is wrong with it.
        why: InvalidSecrets,
    },
    /// The signing secrets of apps cannot be used.
    #[error(
        "{place} cannot be used: {why}; give a JSON object of app ids, each with its signing secret, or with an array of the new \
         and the old one"
    )]
    SigningTable {
        /// The setting, with its file.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A secret is set both by its value and by its ARN.
    #[error("{} and {} are both set: keep one of them", .0.value, .0.arn)]
    SecretTwice(SecretVariable),
    /// A secret could not be read from Secrets Manager.
    #[error("{variable} cannot be used: {why}")]
    SecretsManager {
        /// The variable that names it.
        variable: &'static str,
        /// Why it could not be read.
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
        /// The variable that sets it.
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
    /// The existence check is turned on, and there is no token for Slack.
    #[error(
        "--existence-check enforce (ANNALIST_EXISTENCE_CHECK) asks Slack, and there is no token for it: set SLACK_BOT_TOKEN, \
         or leave the setting out"
    )]
    ExistenceCheckWithoutToken,
    /// The chosen backend is not part of this build.
    #[error(
        "this build has no {0} backend: build it with `--features {0}`, or set ANNALIST_BACKEND to the one it has"
    )]
    NotBuilt(backend_kind::BackendKind),
    /// A bucket is named twice.
    #[error(
        "ANNALIST_FILES (--files) is for a data folder: on AWS, files are in ANNALIST_BUCKET; leave it out"
    )]
    FilesOnAws,
    /// The command needs a data folder, but AWS was chosen.
    #[error("`annalist {command}` works on a data folder (--data), not on AWS: there, {instead}")]
    EmbeddedOnly {
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
    /// AWS would reject a name.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    AwsName(#[from] aws_resources::names::InvalidName),
    /// Several processors are set.
    #[error(
        "ANNALIST_PROCESSOR_URL, ANNALIST_PROCESSOR_CMD and ANTHROPIC_API_KEY each name what answers questions: keep one of them"
    )]
    TwoProcessors,
    /// A model's key is set, but no model.
    #[error(
        "ANTHROPIC_API_KEY is set and ANNALIST_MODEL (--model) is not: name the model that answers questions"
    )]
    NoModel,
    /// The address of a processor cannot be used.
    #[error("{variable} cannot be used: {why}")]
    ProcessorUrl {
        /// The variable that sets it.
        variable: &'static str,
        /// What is wrong with it.
        why: processor::InvalidUrl,
    },
    /// The command cannot be run.
    #[error("ANNALIST_PROCESSOR_CMD (--processor-cmd) cannot be used: {0}")]
    ProcessorCommand(processor::command::InvalidCommand),
    /// A Lambda function cannot run a command.
    #[error(
        "ANNALIST_PROCESSOR_CMD does not work on Lambda: set ANNALIST_PROCESSOR_URL or ANTHROPIC_API_KEY instead"
    )]
    CommandOnLambda,
    /// No HTTP client could be created.
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
    /// A process of the responder was started alone while the responder is off.
    #[error(
        "{0} has nothing to do while ANNALIST_RESPONDER is off: set it to on, here and for the message-writer"
    )]
    ResponderOff(&'static str),
    /// The program of the workers has another name than any of them.
    #[error(
        "`{program}` is not the name of a worker: this program is the worker whose name it has, which is one of {names}"
    )]
    NotAWorker {
        /// What the program was called as.
        program: String,
        /// The names of all workers.
        names: String,
    },
    /// The log filter cannot be used.
    #[error(
        "ANNALIST_LOG cannot be used: it must be error, warn, info, debug, trace or off, or set the level of single \
         modules, such as info,workers=debug"
    )]
    Log,
    /// Both token settings are set.
    #[error(
        "SLACK_BOT_TOKEN and SLACK_BOT_TOKENS_FILE are both set: keep the first for one workspace, or the file for \
         several"
    )]
    TwoTokens,
}

/// The value of a setting, from the environment, otherwise from the settings file; `None` if it is unset or blank.
fn text(variable: &str) -> Option<String> {
    environment(variable).or_else(|| settings_file::text(variable))
}

/// The value of a variable; `None` if it is unset or blank.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}
