//! responder: turns questions into answers, each at most once.
//!
//! * [`answering`] takes a question from its row to the job that posts the answer, step by step.
//! * [`prompt`] collects the input of a processor; [`budget`] checks whether there is room for a question.
//! * [`sweep`] requeues rows that were reset, and removes rows that were finished long ago.

mod answering;
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

    fn poll_interval(&self) -> Option<Duration> {
        Some(self.limits.reset_poll_interval)
    }

    async fn poll(&self) {
        if let Err(error) = self.sweep().await {
            tracing::warn!(%error, "the search for reset questions failed; the next sweep repeats it");
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
