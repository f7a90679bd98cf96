//! Messages that come while a page of a channel is open, as server-sent events.
//!
//! One task per process follows the changes of the archive while anyone listens. Each stream reads the newest
//! messages of its channel through its reader's archive if something in it changed, and sends those that the page
//! does not have as they are.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use ports::metrics::LIVE_STREAMS;
use reader::access::{Reader, Sight};
use reader::joined::ChannelOfTeam;
use serde::Deserialize;
use slack::ids::Ts;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::access::identity::{IdentityError, Presented};
use crate::answer::{NOT_NOW, PageError, program_error};
use crate::handlers::messages::{NewestArticles, newest_articles};
use crate::handlers::timestamp;
use crate::live_feed::{ChangedChannels, LiveFeed};
use crate::page_thread::on_page_thread;
use crate::serve::Stopping;
use crate::state::{ViewerState, Visit, reader_of};

/// The interval between two looks for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The number of changes that one look reads; further ones are read at once.
const CHANGES_PER_READ: usize = 1_000;

/// The minimum interval between two reads of a channel for one stream.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The interval of comments, which keep proxies from closing a silent connection.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// The time within which a stream of a reader who is out ends.
const ADMISSION_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of streams: each holds a connection of the listener, and pages need the others.
const MAX_STREAMS: usize = 100;

/// Maximum number of streams of one reader: a browser opens no more connections to one server.
const MAX_STREAMS_OF_READER: usize = 6;

/// How long a browser waits before it comes again.
const FIRST_FRAME: &str = "retry: 5000\n\n";
const COMMENT: &str = ":\n\n";
const END: &str = "event: end\ndata:\n\n";
/// More messages came than the page can be sent one by one.
const GAP: &str = "event: gap\ndata:\n\n";

/// The place of a stream among the open ones.
struct StreamPlace {
    state: Arc<ViewerState>,
    reader: String,
}

impl StreamPlace {
    /// `None` if there are too many streams.
    fn take(state: &Arc<ViewerState>, reader: &Reader) -> Option<Self> {
        let reader = reader.counted_as();
        let mut streams = lock(&state.live.as_ref()?.streams);
        let open = streams.values().sum::<usize>();
        let own = streams.get(&reader).copied().unwrap_or_default();
        // Readers who cannot be told apart have no bound of their own.
        if open >= MAX_STREAMS || !reader.is_empty() && own >= MAX_STREAMS_OF_READER {
            return None;
        }
        streams.insert(reader.clone(), own + 1);
        show_streams(open + 1);
        Some(Self { state: Arc::clone(state), reader })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let Some(feed) = &self.state.live else { return };
        let mut streams = lock(&feed.streams);
        if let Some(own) = streams.get_mut(&self.reader) {
            *own -= 1;
        }
        streams.retain(|_, own| *own > 0);
        show_streams(streams.values().sum());
    }
}

fn show_streams(open: usize) {
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    metrics::gauge!(LIVE_STREAMS).set(open);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the changes from now on, and follows them as long as anyone listens.
fn listen(state: &Arc<ViewerState>, feed: &LiveFeed) -> watch::Receiver<ChangedChannels> {
    let mut is_followed = lock(&feed.is_followed);
    let changed = feed.changed.subscribe();
    if !*is_followed {
        *is_followed = true;
        tokio::spawn(follow(Arc::clone(state)));
    }
    changed
}

async fn follow(state: Arc<ViewerState>) {
    let Some(feed) = &state.live else { return };
    // The index is nearly up to date. Changes that are not new only cause a read.
    let mut cursor = state.index.cursor().await;
    loop {
        {
            let mut is_followed = lock(&feed.is_followed);
            if feed.changed.receiver_count() == 0 {
                *is_followed = false;
                feed.changed.send_replace(ChangedChannels::new());
                return;
            }
        }
        match state.index.changes().spans_since(cursor.as_ref(), CHANGES_PER_READ).await {
            Ok(Some(batch)) => {
                cursor = Some(batch.next);
                if !batch.spans.is_empty() {
                    feed.changed.send_modify(|changed| {
                        for span in batch.spans {
                            *changed.entry((span.team, span.channel)).or_default() += 1;
                        }
                    });
                }
                if !batch.is_all {
                    continue;
                }
            }
            // The archive was restored.
            Ok(None) => cursor = state.index.cursor().await,
            Err(error) => tracing::debug!(%error, "the changes cannot be read"),
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Where the page ends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LiveParams {
    after: Option<String>,
}

/// `/c/{team}/{channel}/live`
pub(crate) async fn live(
    visit: Visit,
    Extension(presented): Extension<Presented>,
    stopping: Option<Extension<Stopping>>,
    Path((team, called)): Path<(String, String)>,
    Query(params): Query<LiveParams>,
    headers: HeaderMap,
) -> Response {
    let (state, reader) = (visit.state(), visit.reader.clone());
    let last_sent = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = last_sent.filter(|id| !id.is_empty()).or(params.after.as_deref());
    let after = match after.map(timestamp).transpose() {
        Ok(after) => after,
        Err(error) => return program_error(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let Some(feed) = &state.live else {
        return program_error(StatusCode::SERVICE_UNAVAILABLE, "this archive has no live messages");
    };
    let Some(place) = StreamPlace::take(&state, &reader) else {
        return program_error(StatusCode::SERVICE_UNAVAILABLE, "too many pages listen: load this one again");
    };
    let changed = listen(&state, feed);
    let mut stream = LiveStream {
        place,
        presented,
        reader,
        target: (team, called),
        after,
        changed,
        stopping: stopping.map(|Extension(Stopping(stopping))| stopping),
        locations: Vec::new(),
        seen_changes: 0,
        shown: None,
        read_due: None,
        read_at: Instant::now(),
        admitted_at: Instant::now(),
        comment_at: Instant::now() + COMMENT_INTERVAL,
        frames: VecDeque::from([FIRST_FRAME.to_owned()]),
        is_over: false,
    };
    // Before the headers, so that a channel that the reader does not see is not found.
    match stream.newest().await {
        Ok(Some(newest)) => stream.show(newest),
        Ok(None) => return program_error(StatusCode::NOT_FOUND, "there is no such channel in this archive"),
        Err(error) => {
            tracing::warn!(%error, "cannot read the messages for a page that listens");
            return program_error(StatusCode::SERVICE_UNAVAILABLE, NOT_NOW);
        }
    }
    let frames = stream::unfold(stream, |mut stream| async move {
        let frame = stream.next_frame().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), stream))
    });
    let headers = [(CONTENT_TYPE.as_str(), "text/event-stream"), ("x-accel-buffering", "no")];
    (headers, Body::from_stream(frames)).into_response()
}

/// The stream of one page.
struct LiveStream {
    place: StreamPlace,
    presented: Presented,
    reader: Reader,
    /// The workspace and the channel of the address.
    target: (String, String),
    /// The last message of the page.
    after: Option<Ts>,
    changed: watch::Receiver<ChangedChannels>,
    stopping: Option<watch::Receiver<bool>>,
    /// All ids of the channel.
    locations: Vec<ChannelOfTeam>,
    seen_changes: u64,
    /// The newest messages with the hashes of their articles, as the page has them.
    shown: Option<BTreeMap<Ts, u64>>,
    read_due: Option<Instant>,
    read_at: Instant,
    admitted_at: Instant,
    comment_at: Instant,
    frames: VecDeque<String>,
    is_over: bool,
}

impl LiveStream {
    async fn next_frame(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                self.comment_at = Instant::now() + COMMENT_INTERVAL;
                return Some(frame);
            }
            if self.is_over {
                return None;
            }
            let read_due = self.read_due;
            tokio::select! {
                () = stopped(self.stopping.as_mut()) => return None,
                () = sleep_until(read_due.unwrap_or(self.read_at)), if read_due.is_some() => self.read().await,
                () = sleep_until(self.admitted_at + ADMISSION_INTERVAL) => self.admit().await,
                () = sleep_until(self.comment_at) => self.frames.push_back(COMMENT.to_owned()),
                _ = self.changed.changed() => {
                    if self.count_changes() != self.seen_changes && self.read_due.is_none() {
                        self.read_due = Some(self.read_at + READ_INTERVAL);
                    }
                }
            }
        }
    }

    /// The number of changes of this channel so far.
    fn count_changes(&mut self) -> u64 {
        let changed = self.changed.borrow_and_update();
        let key = |location: &ChannelOfTeam| (location.team.clone(), location.channel.clone());
        self.locations.iter().filter_map(|location| changed.get(&key(location))).sum()
    }

    /// Finds out again whether the reader may read, and sees the channel.
    async fn admit(&mut self) {
        self.admitted_at = Instant::now();
        let state = Arc::clone(&self.place.state);
        match state.admissions.identify(self.presented.clone(), &*state.clock).await {
            Ok(identity) => match reader_of(&state, identity).await {
                Ok(reader) => self.reader = reader,
                Err(_) => self.is_over = true,
            },
            // The browser comes again.
            Err(IdentityError::Archive(_)) => self.is_over = true,
            Err(IdentityError::NotAdmitted(_) | IdentityError::SessionEnded | IdentityError::WrongToken) => {
                self.end()
            }
        }
        if let Sight::Without(hidden) = &self.reader.sight
            && self.locations.iter().any(|location| hidden.contains(&location.team, &location.channel))
        {
            self.end();
        }
    }

    async fn read(&mut self) {
        self.read_due = None;
        self.admit().await;
        if self.is_over {
            return;
        }
        match self.newest().await {
            Ok(Some(newest)) => self.show(newest),
            Ok(None) => self.end(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the messages for a page that listens");
                self.is_over = true;
            }
        }
    }

    fn end(&mut self) {
        if !self.is_over {
            self.frames.push_back(END.to_owned());
        }
        self.is_over = true;
    }

    /// The newest messages of the channel; `None` if the reader has no such channel.
    async fn newest(&mut self) -> Result<Option<NewestArticles>, PageError> {
        (self.read_at, self.seen_changes) = (Instant::now(), self.count_changes());
        let visit = Visit::new(&self.place.state, self.reader.clone());
        let (team, called) = self.target.clone();
        let read = move || async move { newest_articles(&visit, &team, &called).await };
        let read = on_page_thread(&self.place.state.page_slots, read).await;
        read.unwrap_or_else(|| Err(PageError::Invalid("its messages cannot be shown".to_owned())))
    }

    /// Sends what the page does not have as it is.
    fn show(&mut self, newest: NewestArticles) {
        let NewestArticles { articles, locations, is_whole } = newest;
        self.locations = locations;
        let before = self.shown.take();
        let oldest = before.as_ref().and_then(|before| before.keys().next());
        let last = before.as_ref().and_then(|before| before.keys().next_back()).or(self.after.as_ref());
        if !is_whole && last.is_some_and(|last| articles.iter().all(|(ts, _)| ts > last)) {
            self.frames.push_back(GAP.to_owned());
        }
        let mut shown = BTreeMap::new();
        for (ts, html) in articles {
            let mut hasher = DefaultHasher::new();
            html.hash(&mut hasher);
            let hash = hasher.finish();
            let is_sent = match before.as_ref().map(|before| before.get(&ts)) {
                // The page itself had everything up to its last message.
                None => self.after.as_ref().is_none_or(|after| ts > *after),
                Some(Some(known)) => *known != hash,
                // Before the oldest one it was there, and another message is gone.
                Some(None) => oldest.is_none_or(|oldest| ts > *oldest),
            };
            if is_sent {
                self.frames.push_back(message_frame(&ts, &html));
            }
            shown.insert(ts, hash);
        }
        self.shown = Some(shown);
    }
}

/// An article as an event. Each line of an event is a field, so that line breaks are written as references.
fn message_frame(ts: &Ts, html: &str) -> String {
    let html = html.replace('\n', "&#10;").replace('\r', "&#13;");
    format!("event: message\nid: {ts}\ndata: {html}\n\n")
}

/// Returns when the server stops.
async fn stopped(stopping: Option<&mut watch::Receiver<bool>>) {
    match stopping {
        Some(stopping) => drop(stopping.wait_for(|is_stopping| *is_stopping).await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_article_is_one_line_of_an_event() {
        let ts = Ts::parse("1700000000.000100").unwrap();
        let frame = message_frame(&ts, "<pre>one\r\ntwo\n\nevent: end</pre>");
        assert_eq!(
            frame,
            "event: message\nid: 1700000000.000100\ndata: <pre>one&#13;&#10;two&#10;&#10;event: end</pre>\n\n"
        );
    }
}
