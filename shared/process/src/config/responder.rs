//! The settings of the responder: its mode, its processor and its limits.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::slack::credentials::{APP_TOKEN, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN, SIGNING_SECRET};
use processor::anthropic::{AnthropicProcessor, AnthropicSettings};
use processor::command::{CommandLine, CommandProcessor, HiddenFromCommand};
use processor::http::HttpProcessor;
use processor::{Processor, ProcessorUrl};
use secrecy::SecretString;

use super::named_file::read_text;
use super::settings_file::BOT_TOKENS_FILE;
use super::viewer::CLIENT_SECRET;
use super::{ConfigError, secrets};

/// The default address of Anthropic's API.
const ANTHROPIC: &str = "https://api.anthropic.com";

/// An operator's instructions are a page or two.
const MAX_SYSTEM_PROMPT_BYTES: u64 = 64 * 1024;

/// A Lambda function has fifteen minutes for a question, and the rest of the work needs some of them.
const MAX_TIMEOUT_S: i64 = 14 * 60;

/// Whether questions are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ResponderMode {
    /// No question is answered, and nothing is posted.
    #[default]
    Off,
    /// Questions are answered in their threads.
    On,
}

/// How questions are answered.
#[derive(Debug, Clone, clap::Args)]
pub struct ResponderArgs {
    /// Answer questions in Slack: this posts messages, and needs the scope chat:write
    #[arg(long, env = "ANNALIST_RESPONDER", value_name = "MODE", value_enum, default_value_t)]
    pub responder: ResponderMode,
    /// Endpoint that answers questions
    // Checked later, so that clap does not print an invalid value: it may contain a secret.
    #[arg(
        long,
        env = "ANNALIST_PROCESSOR_URL",
        value_name = "URL",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub processor_url: Option<String>,
    /// Program that answers questions: a path, or a JSON array of a path and arguments
    #[arg(long, env = "ANNALIST_PROCESSOR_CMD", value_name = "COMMAND", hide_short_help = true)]
    pub processor_cmd: Option<String>,
    /// Seconds within which a question must be answered
    #[arg(long, env = "ANNALIST_PROCESSOR_TIMEOUT_S", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=MAX_TIMEOUT_S as u64), hide_short_help = true)]
    pub processor_timeout_s: u64,
    /// Base of Anthropic's API [default: https://api.anthropic.com]
    #[arg(
        long,
        env = "ANTHROPIC_BASE_URL",
        value_name = "URL",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub anthropic_base_url: Option<String>,
    /// Model that answers questions, if ANTHROPIC_API_KEY is set
    #[arg(long, env = "ANNALIST_MODEL", value_name = "MODEL", hide_short_help = true)]
    pub model: Option<String>,
    /// File with instructions for the model
    #[arg(long, env = "ANNALIST_SYSTEM_PROMPT_FILE", value_name = "FILE", hide_short_help = true)]
    pub system_prompt_file: Option<PathBuf>,
    /// Bytes of a thread that go with a question
    #[arg(long, env = "ANNALIST_CONTEXT_BYTES", value_name = "BYTES", default_value_t = 32 * 1024,
          value_parser = clap::value_parser!(u32).range(0..=512 * 1024), hide_short_help = true)]
    pub context_bytes: u32,
    /// Seconds after which a question is not answered any more
    #[arg(long, env = "ANNALIST_QUESTION_MAX_AGE_S", value_name = "SECONDS", default_value_t = 3_600,
          value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub question_max_age_s: u32,
    /// Questions answered at once, by each process
    #[arg(long, env = "ANNALIST_RESPONDER_CONCURRENCY", value_name = "N", default_value_t = CONCURRENCY, hide_short_help = true)]
    pub responder_concurrency: NonZeroU32,
    /// Questions answered in an hour
    #[arg(
        long,
        env = "ANNALIST_RESPONDER_PER_HOUR",
        value_name = "N",
        default_value_t = 200,
        hide_short_help = true
    )]
    pub responder_per_hour: u32,
    /// Questions of one person answered in an hour
    #[arg(
        long,
        env = "ANNALIST_RESPONDER_PER_USER_HOUR",
        value_name = "N",
        default_value_t = 20,
        hide_short_help = true
    )]
    pub responder_per_user_hour: u32,
    /// Questions answered in a thread before the app has to be mentioned again
    #[arg(
        long,
        env = "ANNALIST_RESPONDER_PER_THREAD",
        value_name = "N",
        default_value_t = 30,
        hide_short_help = true
    )]
    pub responder_per_thread: u32,
    /// Messages posted in a second to one channel; 0 for any number
    #[arg(
        long,
        env = "ANNALIST_REPLIES_PER_SECOND",
        value_name = "N",
        default_value_t = 1,
        hide_short_help = true
    )]
    pub replies_per_second: u32,
    /// Messages posted in a minute to one workspace, by each process; 0 for any number
    #[arg(
        long,
        env = "ANNALIST_REPLIES_PER_MINUTE",
        value_name = "N",
        default_value_t = 200,
        hide_short_help = true
    )]
    pub replies_per_minute: u32,
}

/// Most of the time for an answer is spent waiting for a model.
const CONCURRENCY: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// A question that a user resets with SQL is answered within a minute and a half.
const RESET_POLL_INTERVAL: Duration = Duration::from_secs(45);

/// The settings of the responder, as read and validated.
#[derive(Clone)]
pub struct ResponderSettings {
    /// Whether questions are answered.
    pub mode: ResponderMode,
    /// The processor that answers; if missing, the archive's own search answers.
    pub processor: Option<Arc<dyn Processor>>,
    /// The limits.
    pub limits: ResponderLimits,
}

/// The limits on questions, answers and context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderLimits {
    /// Bytes of a thread that are sent with a question.
    pub context_bytes: usize,
    /// The maximum age of a question.
    pub max_age: Duration,
    /// Questions answered concurrently in this process.
    pub concurrency: usize,
    /// Questions per hour.
    pub per_hour: u32,
    /// Questions per hour from one user.
    pub per_user_hour: u32,
    /// Questions in a thread without another mention.
    pub per_thread: u32,
    /// The interval between two messages to one channel.
    pub post_interval: Duration,
    /// Messages per minute to one workspace; unlimited if `None`.
    pub posts_per_minute: Option<NonZeroU32>,
    /// The interval between two polls for questions that were reset with SQL. Each poll reads all rows.
    pub reset_poll_interval: Duration,
}

impl ResponderSettings {
    /// Settings with the responder turned off.
    pub fn off() -> Self {
        Self { mode: ResponderMode::Off, processor: None, limits: ResponderLimits::default() }
    }

    /// Whether questions are answered.
    pub fn is_on(&self) -> bool {
        self.mode == ResponderMode::On
    }
}

impl Default for ResponderLimits {
    fn default() -> Self {
        Self {
            context_bytes: 32 * 1024,
            max_age: Duration::from_secs(3_600),
            concurrency: CONCURRENCY.get() as usize,
            per_hour: 200,
            per_user_hour: 20,
            per_thread: 30,
            post_interval: Duration::from_secs(1),
            posts_per_minute: NonZeroU32::new(200),
            reset_poll_interval: RESET_POLL_INTERVAL,
        }
    }
}

impl ResponderArgs {
    fn limits(&self) -> ResponderLimits {
        let per_second = NonZeroU32::new(self.replies_per_second);
        ResponderLimits {
            context_bytes: self.context_bytes as usize,
            max_age: Duration::from_secs(self.question_max_age_s.into()),
            concurrency: self.responder_concurrency.get() as usize,
            per_hour: self.responder_per_hour,
            per_user_hour: self.responder_per_user_hour,
            per_thread: self.responder_per_thread,
            post_interval: per_second.map_or(Duration::ZERO, |most| Duration::from_secs(1) / most.get()),
            posts_per_minute: NonZeroU32::new(self.replies_per_minute),
            reset_poll_interval: RESET_POLL_INTERVAL,
        }
    }

    /// The settings for every process except the responder itself: they contain no key.
    pub fn without_processor(&self) -> ResponderSettings {
        ResponderSettings { mode: self.responder, processor: None, limits: self.limits() }
    }

    /// Reads the settings with the processor. If the responder is off, no key is read: a model's key is often
    /// set for other programs.
    ///
    /// A command cannot read the paths in `hidden`.
    ///
    /// # Errors
    /// [`ConfigError`] if several processors are set, or one cannot be used.
    pub async fn settings(&self, hidden: Vec<PathBuf>) -> Result<ResponderSettings, ConfigError> {
        let without = self.without_processor();
        if !without.is_on() {
            return Ok(without);
        }
        let key = secrets::find(MODEL_KEY).await?;
        let token = secrets::find(PROCESSOR_TOKEN).await?;
        let set = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let timeout = Duration::from_secs(self.processor_timeout_s);
        let processor: Option<Arc<dyn Processor>> =
            match (set(&self.processor_url), set(&self.processor_cmd), key) {
                (None, None, None) => None,
                (Some(url), None, None) => {
                    let url = address("ANNALIST_PROCESSOR_URL (--processor-url)", &url)?;
                    let token = token.map(|found| found.secret);
                    Some(Arc::new(
                        HttpProcessor::new(url, token, timeout).map_err(ConfigError::ProcessorClient)?,
                    ))
                }
                (None, Some(_), None) if super::lambda::on_lambda() => {
                    return Err(ConfigError::CommandOnLambda);
                }
                (None, Some(command), None) => {
                    let command = CommandLine::parse(&command).map_err(ConfigError::ProcessorCommand)?;
                    let hidden = hidden_from_command(hidden);
                    Some(Arc::new(CommandProcessor::new(command, timeout, hidden)))
                }
                (None, None, Some(key)) => {
                    let base_url = set(&self.anthropic_base_url).unwrap_or_else(|| ANTHROPIC.to_owned());
                    let settings = AnthropicSettings {
                        base_url: address("ANTHROPIC_BASE_URL (--anthropic-base-url)", &base_url)?,
                        key: key.secret,
                        model: set(&self.model).ok_or(ConfigError::NoModel)?,
                        system_prompt: self.system_prompt()?,
                        timeout,
                    };
                    Some(Arc::new(AnthropicProcessor::new(settings).map_err(ConfigError::ProcessorClient)?))
                }
                (Some(_), Some(_), _) | (Some(_), None, Some(_)) | (None, Some(_), Some(_)) => {
                    return Err(ConfigError::TwoProcessors);
                }
            };
        Ok(ResponderSettings { processor, ..without })
    }

    fn system_prompt(&self) -> Result<Option<String>, ConfigError> {
        let Some(path) = &self.system_prompt_file else { return Ok(None) };
        let failed = |why| ConfigError::SystemPromptFile { path: path.clone(), why };
        read_text(path, MAX_SYSTEM_PROMPT_BYTES).map(Some).map_err(failed)
    }
}

/// These paths, the files of settings and of tokens, and the secrets.
fn hidden_from_command(mut paths: Vec<PathBuf>) -> HiddenFromCommand {
    paths.extend(super::text(BOT_TOKENS_FILE).map(PathBuf::from));
    paths.extend(super::settings_file::path().map(PathBuf::from));
    let secrets = [SIGNING_SECRET, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN].map(|secret| secret.value);
    let values = secrets.into_iter().chain([APP_TOKEN, CLIENT_SECRET]).map(super::text);
    // Two signing secrets are valid while one replaces the other.
    let words = |value: String| value.split(',').map(str::trim).map(SecretString::from).collect::<Vec<_>>();
    HiddenFromCommand { paths, secrets: values.flatten().flat_map(words).collect() }
}

fn address(variable: &'static str, text: &str) -> Result<ProcessorUrl, ConfigError> {
    text.parse().map_err(|why| ConfigError::ProcessorUrl { variable, why })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ResponderCommand {
        #[command(flatten)]
        responder: ResponderArgs,
    }

    async fn settings(args: &[&str]) -> Result<ResponderSettings, ConfigError> {
        let args = [&["annalist", "--responder", "on"], args].concat();
        ResponderCommand::try_parse_from(args).unwrap().responder.settings(Vec::new()).await
    }

    #[tokio::test]
    async fn every_error_is_one_line_that_names_the_setting() {
        let url = "https://a.example/hidden";
        for (args, expected) in [
            (&["--processor-url", url, "--processor-cmd", "/bin/cat"][..], "keep one"),
            (&["--processor-url", "http://a.example/hidden"], "ANNALIST_PROCESSOR_URL"),
            (&["--processor-cmd", "/nowhere/program"], "/nowhere/program"),
            (&["--processor-cmd", "[7]"], "ANNALIST_PROCESSOR_CMD"),
        ] {
            let Err(error) = settings(args).await else { panic!("{args:?}") };
            let line = error.to_string();
            assert!(line.contains(expected) && !line.contains("hidden") && !line.contains('\n'), "{line}");
        }
    }

    #[tokio::test]
    async fn the_processor_is_not_read_while_the_responder_is_off() {
        let command = ResponderCommand::try_parse_from(["annalist", "--processor-cmd", "/nowhere"]).unwrap();
        assert!(!command.responder.settings(Vec::new()).await.unwrap().is_on());
        let found = settings(&["--replies-per-second", "0", "--replies-per-minute", "0"]).await.unwrap();
        assert!(found.is_on() && found.processor.is_none());
        assert_eq!((found.limits.post_interval, found.limits.posts_per_minute), (Duration::ZERO, None));
    }

    #[test]
    fn the_defaults_are_those_of_the_flags() {
        let command = ResponderCommand::try_parse_from(["annalist"]).unwrap();
        assert_eq!(command.responder.limits(), ResponderLimits::default());
    }
}
