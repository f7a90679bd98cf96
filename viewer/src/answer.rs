//! Answers that are no page of the archive.

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use ports::archive::ArchiveError;
use ports::files::FilesError;

use crate::links::ServedLinks;
use crate::pages::notice;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// What is asked for is not in the archive.
    #[error("{0}")]
    Missing(String),
    /// What is asked for cannot be meant.
    #[error("{0}")]
    Meaningless(String),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store of files failed.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl PageError {
    pub(crate) fn missing(says: impl Into<String>) -> Self {
        Self::Missing(says.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::Missing(says) => said(StatusCode::NOT_FOUND, "Not here", &says),
            Self::Meaningless(says) => said(StatusCode::BAD_REQUEST, "What is meant?", &says),
            Self::Archive(error) => failed(&error),
            Self::Files(error) => failed(&error),
        }
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    tracing::warn!(%error, "cannot answer a page");
    said(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not now",
        "The archive cannot be read at the moment. Try again soon.",
    )
}

/// A page that only says something.
pub(crate) fn said(status: StatusCode, title: &str, says: &str) -> Response {
    (status, html(notice::page(title, says, &ServedLinks))).into_response()
}

/// A page.
pub(crate) fn html(markup: Markup) -> Response {
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, content_type)], markup.into_string()).into_response()
}

/// Leads to another page of ours.
pub(crate) fn see(address: &str) -> Response {
    match HeaderValue::from_str(address) {
        Ok(address) => (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response(),
        Err(_) => PageError::missing("There is no such page.").into_response(),
    }
}
