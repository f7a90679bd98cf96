//! Why the API has no answer.

use std::io::ErrorKind;

use axum::http::StatusCode;
use viewer::NOT_NOW;

use crate::plain;
use crate::read::ReadError;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// What to do next, in one line.
    pub(super) line: String,
}

impl ApiError {
    pub(super) fn invalid(line: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, line: line.into() }
    }

    pub(super) fn too_long() -> Self {
        let line = "this takes too long at the moment: ask for less, or try again later";
        Self { status: StatusCode::SERVICE_UNAVAILABLE, line: line.to_owned() }
    }

    pub(super) fn failed(error: &dyn std::fmt::Display) -> Self {
        tracing::warn!(%error, "cannot answer a call of the API");
        Self { status: StatusCode::SERVICE_UNAVAILABLE, line: NOT_NOW.to_owned() }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let (status, line) = match error {
            ReadError::Channel(_)
            | ReadError::Person(_)
            | ReadError::UnknownTeam(_)
            | ReadError::UnknownUser { .. }
            | ReadError::UnknownMessage { .. } => (StatusCode::NOT_FOUND, error.to_string()),
            ReadError::EmptyRange(_) => {
                let line = "until is exclusive and must be later than since";
                (StatusCode::BAD_REQUEST, line.to_owned())
            }
            ReadError::Output(error) if error.kind() == ErrorKind::FileTooLarge => {
                let line = "the answer is larger than 16 MiB: ask for less, with limit or channel";
                (StatusCode::PAYLOAD_TOO_LARGE, line.to_owned())
            }
            ReadError::Files(_) | ReadError::Archive(_) | ReadError::Output(_) => {
                return Self::failed(&error);
            }
        };
        Self { status, line: plain::line(&line) }
    }
}
