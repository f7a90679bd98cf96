//! Why ports and jobs fail. Of a job, the runtime only needs to know whether a retry can help.

use std::time::Duration;

use ports::archive::ArchiveError;
use ports::files::FilesError;
use ports::queue::QueueError;
use ports::queue::job::JobError;
use ports::queue::waiting::WaitCause;
use rules::Malformed;

/// The reason why rows, files or jobs could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PortError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// What the runtime does with a job after its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// Its effects are durable.
    Done,
    /// Something outside the job failed. Its group waits; it is retried until it succeeds.
    Retry(JobRetry),
    /// It waits for something outside itself, for this reason: it is set aside and tried again by itself, and
    /// its group continues.
    Wait(WaitCause, String),
    /// It can never succeed: it is quarantined with this reason, and its group continues.
    Quarantine(String),
}

/// The reason and the delay of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRetry {
    /// For the log.
    pub reason: String,
    /// The delay that another service requested (for example `Retry-After`); otherwise the runtime chooses
    /// the backoff.
    pub after: Option<Duration>,
}

impl JobOutcome {
    /// A retry after the runtime's own backoff.
    pub fn retry(reason: impl ToString) -> Self {
        Self::Retry(JobRetry { reason: reason.to_string(), after: None })
    }
}

/// The reason why a job failed.
#[derive(Debug, Clone)]
pub(crate) enum JobFailure {
    /// A retry cannot help.
    Permanent(String),
    /// The cause is outside the job, so a retry may help.
    Transient(String),
    /// Like `Transient`, with a known retry delay.
    Postponed(String, Duration),
    /// Something outside the job must change first, for example a token.
    Waits(WaitCause, String),
    /// Slack failed. Most such failures are over after a moment, which may be known.
    SlackFailed(String, Option<Duration>),
}

/// A job on which Slack fails is set aside when it is received this often: up to 15 s after the first time.
const SLACK_TRIES: u32 = 5;

impl JobFailure {
    /// The outcome for the runtime of a job that was received this often.
    pub(crate) fn outcome(self, receives: u32) -> JobOutcome {
        match self {
            Self::Permanent(reason) => JobOutcome::Quarantine(reason),
            Self::Transient(reason) => JobOutcome::retry(reason),
            Self::Postponed(reason, after) => JobOutcome::Retry(JobRetry { reason, after: Some(after) }),
            Self::Waits(cause, reason) => JobOutcome::Wait(cause, reason),
            Self::SlackFailed(reason, after) if receives < SLACK_TRIES => {
                JobOutcome::Retry(JobRetry { reason, after })
            }
            Self::SlackFailed(reason, _) => JobOutcome::Wait(WaitCause::Slack, reason),
        }
    }
}

impl From<JobRetry> for JobFailure {
    fn from(JobRetry { reason, after }: JobRetry) -> Self {
        match after {
            Some(after) => Self::Postponed(reason, after),
            None => Self::Transient(reason),
        }
    }
}

impl From<PortError> for JobFailure {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Archive(error) => error.into(),
            PortError::Files(error) => error.into(),
            PortError::Queue(error) => error.into(),
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

impl From<FilesError> for JobFailure {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Unavailable(_) => Self::Transient(error.to_string()),
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
