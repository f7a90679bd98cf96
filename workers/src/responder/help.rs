//! Answers if nothing else can.

use async_trait::async_trait;
use processor::{Answer, Processor, ProcessorError, Prompt};

/// What people are told who ask for what is not there.
pub(super) const HELP: &str =
    "I keep this workspace's history. Nothing here answers questions, and this process has no search index.";

/// Says that there is nothing that answers.
#[derive(Debug, Clone, Copy)]
pub struct HelpProcessor;

#[async_trait]
impl Processor for HelpProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        Ok(if prompt.is_mention { Answer::Text(HELP.into()) } else { Answer::Skip })
    }
}
