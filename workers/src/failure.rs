//! Why a job is not done: whether trying again can help is all the runtime needs to know.

use std::time::Duration;

use ports::archive::ArchiveError;
use ports::queue::QueueError;
use ports::queue::job::JobError;
use rules::Malformed;

use crate::runtime::{JobOutcome, JobRetry};

/// Why a job is not done.
#[derive(Debug, Clone)]
pub(crate) enum JobFailure {
    /// Trying again cannot help.
    Permanent(String),
    /// Something outside the job was in the way.
    Transient(String),
    /// The same, and it is known when to try again.
    Postponed(String, Duration),
}

impl JobFailure {
    /// What the runtime is told.
    pub(crate) fn outcome(self) -> JobOutcome {
        match self {
            Self::Permanent(reason) => JobOutcome::Quarantine(reason),
            Self::Transient(reason) => JobOutcome::retry(reason),
            Self::Postponed(reason, after) => JobOutcome::Retry(JobRetry { reason, after: Some(after) }),
        }
    }
}

impl From<ArchiveError> for JobFailure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Unavailable(_) => Self::Transient(error.to_string()),
            ArchiveError::TooLarge { .. } => Self::Permanent(error.to_string()),
        }
    }
}

impl From<QueueError> for JobFailure {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Unavailable(_) | QueueError::LeaseLost => Self::Transient(error.to_string()),
            QueueError::TooLarge { .. } => Self::Permanent(error.to_string()),
        }
    }
}

impl From<JobError> for JobFailure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Malformed(_) | JobError::NoPayload => Self::Permanent(error.to_string()),
            JobError::Newer(_) => Self::Transient(error.to_string()),
        }
    }
}

impl From<Malformed> for JobFailure {
    fn from(malformed: Malformed) -> Self {
        Self::Permanent(malformed.to_string())
    }
}
