//! responder: from questions to answers, each at most once.
//!
//! * [`answering`] takes a question from its row to the job that posts the answer, step by step.
//! * [`prompt`] gathers what a processor is given; [`budget`] says whether there is room for a question.
//! * [`sweep`] asks again what was reset, and removes what was done with long ago.
//! * [`archive_search`] answers if there is no processor: from the archive's own search.

mod answering;
#[cfg(feature = "embedded")]
pub mod archive_search;
mod budget;
mod help;
mod prompt;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::QueueName;
use process::config::responder::ResponderLimits;
use processor::Processor;

pub use help::HelpProcessor;

use crate::claims::Claimant;
use crate::runtime::{Batch, DecodedPayload, Ports, Worker};

/// Answers questions.
pub struct Responder {
    ports: Ports,
    claimant: Claimant,
    processor: Arc<dyn Processor>,
    limits: ResponderLimits,
}

impl Responder {
    /// A responder that asks this processor.
    pub fn new(
        ports: Ports,
        claimant: Claimant,
        processor: Arc<dyn Processor>,
        limits: ResponderLimits,
    ) -> Self {
        Self { ports, claimant, processor, limits }
    }

    fn now_s(&self) -> i64 {
        self.ports.clock.now().seconds()
    }
}

#[async_trait]
impl Worker for Responder {
    fn queue(&self) -> QueueName {
        QueueName::Questions
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn slots(&self) -> Option<usize> {
        Some(self.limits.concurrency)
    }

    fn looks_every(&self) -> Option<Duration> {
        Some(self.limits.between_looks)
    }

    async fn look(&self) {
        if let Err(error) = self.sweep().await {
            tracing::warn!(%error, "questions that were reset cannot be looked for; the next look will find them");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Question(question) = &job.payload {
                job.finish(self.answer(question, job.delivery.receive_count).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
