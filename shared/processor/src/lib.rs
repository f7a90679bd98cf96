//! What answers questions. A processor is given a question with its thread and answers text, or nothing; it knows no token of
//! Slack's and no archive.
//!
//! * [`http`]: an endpoint. [`command`]: a program. [`anthropic`]: a model behind Anthropic's Messages API.

pub mod anthropic;
mod client;
pub mod command;
pub mod http;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use client::{InvalidUrl, ProcessorUrl};

/// An answer is no longer than this; eight messages hold an eighth of it.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// The version of what a processor is given.
const VERSION: u32 = 1;

/// A channel or a person: an id, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedId {
    /// Its id.
    pub id: String,
    /// Its name, if it is known.
    pub name: Option<String>,
}

/// A message of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextMessage {
    /// When it was written.
    pub ts: String,
    /// By whom.
    pub user_id: Option<String>,
    /// What they are called.
    pub name: String,
    /// What it says, as people read it.
    pub text: String,
}

/// A question with all that is known of it. As JSON it is what a processor is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    v: u32,
    /// Names the question, the same in every attempt.
    pub id: String,
    /// The workspace.
    pub team_id: String,
    /// The channel.
    pub channel: NamedId,
    /// The thread.
    pub thread_ts: String,
    /// Who asks.
    pub asker: NamedId,
    /// What is asked, as people read it, without the mention of the app.
    pub question: String,
    /// The messages of the thread before it, oldest first.
    pub context: Vec<ContextMessage>,
    /// The keys of the files with it.
    pub files: Vec<String>,
    /// What time it is.
    pub now: String,
    /// The question as Slack sent it, without the mention of the app.
    #[serde(skip)]
    pub raw: String,
    /// Whether the app was mentioned.
    #[serde(skip)]
    pub is_mention: bool,
}

/// What a [`Prompt`] is made of beside what it always has.
#[derive(Debug, Clone)]
pub struct PromptFacts {
    /// Names the question.
    pub id: String,
    /// The workspace.
    pub team_id: String,
    /// The channel.
    pub channel: NamedId,
    /// The thread.
    pub thread_ts: String,
    /// Who asks.
    pub asker: NamedId,
    /// What time it is.
    pub now: String,
}

impl Prompt {
    /// A prompt that asks nothing yet.
    pub fn new(facts: PromptFacts) -> Self {
        let PromptFacts { id, team_id, channel, thread_ts, asker, now } = facts;
        Self {
            v: VERSION,
            id,
            team_id,
            channel,
            thread_ts,
            asker,
            question: String::new(),
            context: Vec::new(),
            files: Vec::new(),
            now,
            raw: String::new(),
            is_mention: true,
        }
    }

    /// As JSON. Text always serialises.
    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a processor answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This text, which may be Markdown.
    Text(String),
    /// Nothing: no reply is posted.
    Skip,
}

impl Answer {
    /// The answer in a text; one without a word is a failure.
    fn of(text: String) -> Result<Self, ProcessorError> {
        if text.trim().is_empty() {
            return Err(ProcessorError::Permanent("the processor answered nothing".into()));
        }
        Ok(Self::Text(text))
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// The same question may be answered later; if it is known, after this long.
    #[error("{reason}")]
    Transient {
        /// What happened.
        reason: String,
        /// When to ask again.
        after: Option<Duration>,
    },
    /// Asking again cannot help.
    #[error("{0}")]
    Permanent(String),
}

impl ProcessorError {
    fn transient(reason: impl Into<String>) -> Self {
        Self::Transient { reason: reason.into(), after: None }
    }
}

/// Answers questions. Asked the same question twice, it may answer twice: the caller keeps the first answer.
#[async_trait]
pub trait Processor: Send + Sync + 'static {
    /// Answers within its own time limit. Dropping the future stops the work.
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError>;
}
