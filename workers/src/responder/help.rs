//! Answers if no other processor can.

use async_trait::async_trait;
use processor::{Answer, Processor, ProcessorError, Prompt};

/// The reply to people who ask although nothing answers questions.
pub(super) const HELP: &str =
    "I keep this workspace's history. Nothing here answers questions, and this process has no search index.";

/// A processor that replies that nothing answers questions.
#[derive(Debug, Clone, Copy)]
pub struct HelpProcessor;

#[async_trait]
impl Processor for HelpProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        Ok(if prompt.is_mention { Answer::Text(HELP.into()) } else { Answer::Skip })
    }
}
