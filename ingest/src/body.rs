//! Reads a request's body with limits on size and time.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::timeout;

/// How much of an oversized body is read and discarded: a client whose connection is closed while it sends
/// may never see the response.
const MAX_DISCARDED_BYTES: usize = 8 * 1024 * 1024;

/// How long an oversized body is read and discarded.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It has more bytes than allowed. Contains the unread rest.
    TooLarge(Body),
    /// It did not arrive in time.
    TimedOut,
    /// It ended early, or its framing is wrong.
    Broken,
}

/// Reads the whole body. A body that arrived in one chunk is not copied.
pub(crate) async fn read_body(
    mut body: Body,
    max_bytes: usize,
    time_limit: Duration,
) -> Result<Bytes, BodyError> {
    if declared_bytes(&body) > max_bytes {
        return Err(BodyError::TooLarge(body));
    }
    match timeout(time_limit, collect(&mut body, max_bytes)).await {
        Ok(Ok(body_bytes)) => Ok(body_bytes),
        Ok(Err(Stopped::TooLarge)) => Err(BodyError::TooLarge(body)),
        Ok(Err(Stopped::Broken)) => Err(BodyError::Broken),
        Err(_) => Err(BodyError::TimedOut),
    }
}

/// Whether the body declares at most `bytes` bytes; it cannot have more than declared.
pub(crate) fn is_at_most(body: &Body, bytes: usize) -> bool {
    let upper = body.size_hint().upper().and_then(|upper| usize::try_from(upper).ok());
    upper.is_some_and(|upper| upper <= bytes)
}

/// Reads and discards the rest of a body for a moment.
pub(crate) async fn discard(mut body: Body) {
    let reading = async {
        let mut discarded_bytes = 0;
        while let Ok(Some(chunk)) = next(&mut body).await {
            discarded_bytes += chunk.len();
            if discarded_bytes > MAX_DISCARDED_BYTES {
                return;
            }
        }
    };
    // The rest of the data is cut off with the connection.
    let _: Result<(), _> = timeout(DISCARD_TIMEOUT, reading).await;
}

enum Stopped {
    TooLarge,
    Broken,
}

async fn collect(body: &mut Body, max_bytes: usize) -> Result<Bytes, Stopped> {
    let first = next(body).await?.unwrap_or_default();
    let Some(second) = next(body).await? else {
        return if first.len() > max_bytes { Err(Stopped::TooLarge) } else { Ok(first) };
    };
    let expected_bytes = first.len() + second.len() + declared_bytes(body);
    let mut whole = BytesMut::with_capacity(expected_bytes.min(max_bytes));
    let mut chunk = Some(first);
    let mut next_chunk = Some(second);
    while let Some(bytes) = chunk {
        if whole.len() + bytes.len() > max_bytes {
            return Err(Stopped::TooLarge);
        }
        whole.extend_from_slice(&bytes);
        chunk = match next_chunk.take() {
            Some(bytes) => Some(bytes),
            None => next(body).await?,
        };
    }
    Ok(whole.freeze())
}

/// The next chunk of data; trailers are skipped.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Stopped> {
    match body.frame().await {
        None => Ok(None),
        Some(Ok(frame)) => Ok(frame.into_data().ok()),
        Some(Err(_)) => Err(Stopped::Broken),
    }
}

/// The minimum number of remaining bytes according to the framing.
fn declared_bytes(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}
