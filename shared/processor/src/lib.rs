//! Processors, which answer questions. A processor receives a question with its thread and returns a text or
//! no answer; it has no Slack token and no access to the archive.
//!
//! * [`http`]: an endpoint. [`command`]: a program. [`anthropic`]: a model behind Anthropic's Messages API.

pub mod anthropic;
mod client;
pub mod command;
mod confinement;
pub mod http;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use client::{InvalidUrl, ProcessorUrl};

/// The maximum length of an answer; eight messages contain an eighth of it.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// The version of the JSON that a processor receives.
const VERSION: u32 = 1;

/// A channel or a user, by id and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NamedId {
    pub id: String,
    /// Its name, if it is known.
    pub name: Option<String>,
}

/// A message of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextMessage {
    /// When it was written.
    pub ts: String,
    /// The author.
    pub user_id: Option<String>,
    /// The name of the author.
    pub name: String,
    /// Its text, in readable form.
    pub text: String,
}

/// A question with its context. A processor receives it as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// The id of the question, the same in every attempt.
    pub id: String,
    pub team_id: String,
    pub channel: NamedId,
    pub thread_ts: String,
    /// The user who asks.
    pub asker: NamedId,
    /// The question in readable form, without the mention of the app.
    pub question: String,
    /// The earlier messages of the thread, oldest first.
    pub context: Vec<ContextMessage>,
    /// The keys of the question's files.
    pub files: Vec<String>,
    /// The current time.
    pub now: String,
    /// The question as Slack sent it, without the mention of the app.
    #[serde(skip)]
    pub raw: String,
    /// Whether the app was mentioned.
    #[serde(skip)]
    pub is_mention: bool,
}

/// The JSON of a [`Prompt`].
#[derive(Serialize)]
struct PromptJson<'a> {
    v: u32,
    #[serde(flatten)]
    prompt: &'a Prompt,
}

impl Prompt {
    /// The prompt as JSON. Text always serialises.
    fn json(&self) -> String {
        serde_json::to_string(&PromptJson { v: VERSION, prompt: self }).unwrap_or_default()
    }
}

/// The answer of a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A text, which may be Markdown.
    Text(String),
    /// No answer: no reply is posted.
    Skip,
}

impl Answer {
    /// An answer with this text. A blank text is an error.
    fn from_text(text: String) -> Result<Self, ProcessorError> {
        if text.trim().is_empty() {
            return Err(ProcessorError::Permanent("the processor answered nothing".into()));
        }
        Ok(Self::Text(text))
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// A retry may succeed.
    #[error("{reason}")]
    Transient {
        /// The reason of the failure.
        reason: String,
        /// The delay before a retry, if known.
        after: Option<Duration>,
    },
    /// A retry cannot succeed.
    #[error("{0}")]
    Permanent(String),
}

impl ProcessorError {
    fn transient(reason: impl Into<String>) -> Self {
        Self::Transient { reason: reason.into(), after: None }
    }
}

/// Answers questions. It may answer the same question twice: the caller keeps the first answer.
#[async_trait]
pub trait Processor: Send + Sync + 'static {
    /// Answers a question within its own time limit. Dropping the future stops the work.
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError>;
}
