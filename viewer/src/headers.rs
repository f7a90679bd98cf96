//! The security headers of responses.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;

/// Nothing is loaded from other sites, and only our script runs. Inline scripts and styles are blocked, so
/// text that became markup despite the escaping has no effect.
const PAGE_POLICY: &str = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A file that a browser opens directly may neither run nor load anything.
pub(crate) const FILE_POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// Adds the default headers that a response does not set itself.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The target of a link must not receive the address of the page.
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
        // Erased content must not reappear from a cache.
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
