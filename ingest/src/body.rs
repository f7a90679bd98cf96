//! Reads a request's body within bounds.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::timeout;

/// How much of a body that is too large is still read: a client that is cut off while it sends may never see the answer.
const MAX_DISCARDED_BYTES: usize = 8 * 1024 * 1024;

/// How long a body that is too large is still read.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It has more bytes than allowed; this is the rest of it.
    TooLarge(Body),
    /// It did not arrive in time.
    TimedOut,
    /// It ended early, or its framing is wrong.
    Broken,
}

/// The whole body. One that arrived in one piece is not copied.
pub(crate) async fn read(mut body: Body, max_bytes: usize, time_limit: Duration) -> Result<Bytes, Unread> {
    if declared_bytes(&body) > max_bytes {
        return Err(Unread::TooLarge(body));
    }
    match timeout(time_limit, collect(&mut body, max_bytes)).await {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(Stopped::TooLarge)) => Err(Unread::TooLarge(body)),
        Ok(Err(Stopped::Broken)) => Err(Unread::Broken),
        Err(_) => Err(Unread::TimedOut),
    }
}

/// Whether the body declares at most `bytes` bytes: then it can have no more.
pub(crate) fn is_at_most(body: &Body, bytes: usize) -> bool {
    let upper = body.size_hint().upper().and_then(|upper| usize::try_from(upper).ok());
    upper.is_some_and(|upper| upper <= bytes)
}

/// Reads on for a moment and forgets it.
pub(crate) async fn discard(mut body: Body) {
    let reading = async {
        let mut discarded_bytes = 0;
        while let Ok(Some(piece)) = next(&mut body).await {
            discarded_bytes += piece.len();
            if discarded_bytes > MAX_DISCARDED_BYTES {
                return;
            }
        }
    };
    // Whatever is still coming after this is cut off with the connection.
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
    let mut piece = Some(first);
    let mut after = Some(second);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > max_bytes {
            return Err(Stopped::TooLarge);
        }
        whole.extend_from_slice(&bytes);
        piece = match after.take() {
            Some(bytes) => Some(bytes),
            None => next(body).await?,
        };
    }
    Ok(whole.freeze())
}

/// The next piece of data; trailers are skipped.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Stopped> {
    match body.frame().await {
        None => Ok(None),
        Some(Ok(frame)) => Ok(frame.into_data().ok()),
        Some(Err(_)) => Err(Stopped::Broken),
    }
}

/// How many bytes are still to come, as far as the framing tells.
fn declared_bytes(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}
