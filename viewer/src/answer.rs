//! Responses other than pages of the archive: errors, notices, redirects.

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use ports::archive::ArchiveError;
use ports::files::FilesError;
use serde_json::json;

use crate::links::ServedLinks;
use crate::pages::notice;

/// What a program reads if the archive cannot be read.
pub const NOT_NOW: &str = "the archive cannot be read at the moment: try again soon";

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The requested item is not in the archive.
    #[error("{0}")]
    Missing(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The search index cannot be used.
    #[error("The search index cannot be used: see the log of this program.")]
    NoIndex,
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file store failed.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl PageError {
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::Missing(message.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::Missing(message) => error_page(StatusCode::NOT_FOUND, "Not found", &message),
            Self::Invalid(message) => error_page(StatusCode::BAD_REQUEST, "Invalid request", &message),
            Self::NoIndex => error_page(StatusCode::SERVICE_UNAVAILABLE, "Not now", &self.to_string()),
            Self::Archive(error) => failed(&error),
            Self::Files(error) => failed(&error),
        }
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    tracing::warn!(%error, "cannot serve a page");
    error_page(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not now",
        "The archive cannot be read at the moment. Try again soon.",
    )
}

/// Returns an error for a program: one line.
pub fn program_error(status: StatusCode, line: &str) -> Response {
    let body = json!({ "error": line }).to_string();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Returns a page with a title and a message for someone who is not admitted.
pub(crate) fn notice_response(status: StatusCode, title: &str, message: &str) -> Response {
    (status, html(notice::page(title, message, false, &ServedLinks))).into_response()
}

/// Returns a page with a title and a message, from which a reader can go on.
pub(crate) fn error_page(status: StatusCode, title: &str, message: &str) -> Response {
    (status, html(notice::page(title, message, true, &ServedLinks))).into_response()
}

/// Returns a response with a page.
pub(crate) fn html(markup: Markup) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], markup.into_string()).into_response()
}

/// Redirects to another page of this site.
pub(crate) fn redirect_to(address: &str) -> Response {
    match HeaderValue::from_str(address) {
        Ok(address) => (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response(),
        Err(_) => PageError::missing("There is no such page.").into_response(),
    }
}

/// Returns the path if it is on this site, or otherwise `/`.
pub(crate) fn local(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_never_redirects_to_another_site() {
        assert_eq!(local("/c/T1/C1?around=1.000000"), "/c/T1/C1?around=1.000000");
        for path in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", "javascript:x"]
        {
            assert_eq!(local(path), "/", "{path}");
        }
    }
}
