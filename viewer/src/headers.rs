//! What a browser may do with an answer.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;

/// Nothing is loaded from elsewhere, and nothing runs but our script: neither scripts nor styles within a page, so that text which
/// became markup after all would do nothing.
const PAGE_POLICY: &str = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'; script-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A file that a browser opens by itself may do nothing at all.
pub(crate) const FILE_POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// Adds to each answer what it does not say itself.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Where a link leads must not learn where it was.
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
        // What is erased must not come back from a cache.
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
