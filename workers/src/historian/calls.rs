//! Calls to Slack's history methods: with pages as large as Slack allows, at the rate it permits this app.
//!
//! <https://docs.slack.dev/reference/methods/conversations.history>,
//! <https://docs.slack.dev/reference/methods/conversations.replies>

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiError, Method, WebApi};
use tokio::sync::watch;

/// The largest page that Slack returns.
const LARGEST_PAGE: usize = 999;

/// Pages are not made smaller than this: their answers are not too long.
const SMALLEST_PAGE: usize = 100;

/// The largest page that Slack returns to an app that was distributed outside its Marketplace after May 2025;
/// such an app may make one call a minute.
/// <https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps>
const RESTRICTED_PAGE: usize = 15;

/// Consecutive pages of exactly that length that identify such an app: one may be chance.
const RESTRICTED_AFTER: u32 = 2;

/// The advice shown to the user in that case.
pub const RESTRICTED_ADVICE: &str = "Slack gives this app 15 messages a minute. Create your own app with `annalist \
     manifest`: 50 requests of 999 messages a minute";

/// How often a page is requested before the rest waits.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Slack's cursors have fewer than a hundred characters.
const MAX_CURSOR_BYTES: usize = 4_096;

/// The reaction to a pause that Slack demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausePolicy {
    /// Wait: a person is waiting too.
    WaitOut,
    /// Return the pause to the caller, so that the job waits on its queue.
    Return,
}

/// The history of one workspace.
pub struct HistoryCalls {
    api: Arc<WebApi>,
    team: TeamId,
    pause_policy: PausePolicy,
    page: AtomicUsize,
    short_pages: AtomicU32,
    restricted: watch::Sender<bool>,
    made: AtomicU64,
}

/// A page of messages, as Slack returned it.
#[derive(Debug)]
pub(super) struct RawPage {
    /// Message objects, newest first for history, oldest first for a thread.
    pub(super) messages: Vec<Box<RawValue>>,
    /// Whether Slack reports more messages.
    pub(super) has_more: bool,
    /// Whether it has fewer messages than requested although there are more: some in between may be missing.
    pub(super) is_short: bool,
    /// Whether the plan hides older messages.
    pub(super) is_limited: bool,
    /// The cursor of the next page.
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize)]
struct HistoryBody {
    /// A body without messages is an error; it does not mean that the channel is empty.
    messages: Vec<Box<RawValue>>,
    #[serde(default)]
    has_more: Option<bool>,
    #[serde(default)]
    is_limited: Option<bool>,
    #[serde(default)]
    response_metadata: Option<HistoryCursor>,
}

#[derive(Deserialize)]
struct HistoryCursor {
    #[serde(default)]
    next_cursor: Option<String>,
}

/// The bounds of a page of history. Slack excludes both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageBounds {
    /// Messages after this one; `None` for all.
    pub(super) oldest: Option<Ts>,
    /// Messages before this one.
    pub(super) latest: Ts,
    /// Set only if Slack returned an empty page and reported more messages.
    pub(super) cursor: Option<String>,
}

impl HistoryCalls {
    pub fn new(api: Arc<WebApi>, team: TeamId, pause_policy: PausePolicy) -> Self {
        Self {
            api,
            team,
            pause_policy,
            page: AtomicUsize::new(LARGEST_PAGE),
            short_pages: AtomicU32::new(0),
            restricted: watch::Sender::new(false),
            made: AtomicU64::new(0),
        }
    }

    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// The current time by Slack's clock, rounded down to the second.
    pub(crate) async fn now(&self) -> Result<Ts, ApiError> {
        self.api.slack_time(&self.team).await
    }

    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Whether it was detected that Slack restricts this app to a few messages a minute.
    pub fn is_restricted(&self) -> bool {
        *self.restricted.borrow()
    }

    /// Waits until it is detected that Slack restricts this app to a few messages a minute.
    pub async fn became_restricted(&self) {
        // An error would mean that the sender was dropped, but `self` owns it.
        drop(self.restricted.subscribe().wait_for(|restricted| *restricted).await);
    }

    /// Joins a public channel. Its members see that.
    pub async fn join(&self, channel: &ChannelId) -> Result<(), ApiError> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let parameters = [("channel", channel.as_str())];
        self.api.call(&self.team, Method::ConversationsJoin, &parameters).await.map(drop)
    }

    /// A page of a channel, newest first.
    pub(super) async fn history(
        &self,
        channel: &ChannelId,
        between: &PageBounds,
    ) -> Result<RawPage, ApiError> {
        let mut parameters =
            vec![("channel", channel.as_str()), ("latest", between.latest.as_str()), ("inclusive", "false")];
        parameters.extend(between.oldest.as_ref().map(|oldest| ("oldest", oldest.as_str())));
        parameters.extend(between.cursor.as_deref().map(|cursor| ("cursor", cursor)));
        self.ask(Method::ConversationsHistory, &parameters).await
    }

    /// A page of a thread, oldest first, starting with its root.
    pub(super) async fn replies(
        &self,
        channel: &ChannelId,
        root: &Ts,
        after: Option<&Ts>,
        cursor: Option<&str>,
    ) -> Result<RawPage, ApiError> {
        let mut parameters = vec![("channel", channel.as_str()), ("ts", root.as_str())];
        parameters.extend(after.map(|after| ("oldest", after.as_str())));
        parameters.extend(cursor.map(|cursor| ("cursor", cursor)));
        self.ask(Method::ConversationsReplies, &parameters).await
    }

    async fn ask(&self, method: Method, parameters: &[(&str, &str)]) -> Result<RawPage, ApiError> {
        let (mut attempts, mut pause) = (1, FIRST_PAUSE);
        let mut page = self.page.load(Ordering::Relaxed);
        loop {
            let limit = page.to_string();
            let parameters: Vec<(&str, &str)> =
                parameters.iter().copied().chain([("limit", limit.as_str())]).collect();
            let answer = self.api.call_without_pauses(&self.team, method, &parameters).await;
            let smaller = (page / 2).max(SMALLEST_PAGE);
            match answer {
                Ok(reply) => {
                    self.made.fetch_add(1, Ordering::Relaxed);
                    let read = read(page, reply.read()?);
                    self.detect_restriction(page, &read);
                    return Ok(read);
                }
                Err(ApiError::RateLimited { retry_after, .. })
                    if self.pause_policy == PausePolicy::WaitOut =>
                {
                    tokio::time::sleep(retry_after).await;
                }
                Err(error) if error.is_too_long() && smaller < page => {
                    self.made.fetch_add(1, Ordering::Relaxed);
                    page = smaller;
                    // The next pages contain messages of the same kind.
                    self.page.store(page, Ordering::Relaxed);
                }
                Err(ApiError::Unreachable { .. }) if attempts < ATTEMPTS => {
                    self.made.fetch_add(1, Ordering::Relaxed);
                    attempts += 1;
                    page = smaller;
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    self.made.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }

    /// Detects an app to which Slack returns less than it documents for the method.
    fn detect_restriction(&self, asked: usize, page: &RawPage) {
        match page.messages.len() {
            RESTRICTED_PAGE if page.has_more && asked > RESTRICTED_PAGE => {
                let pages = self.short_pages.fetch_add(1, Ordering::Relaxed) + 1;
                if pages >= RESTRICTED_AFTER && !self.restricted.send_replace(true) {
                    for method in [Method::ConversationsHistory, Method::ConversationsReplies] {
                        self.api.lower_limit(&self.team, method, NonZeroU32::MIN);
                    }
                    tracing::warn!(team = %self.team, "{RESTRICTED_ADVICE}");
                }
            }
            0 => {}
            _ => self.short_pages.store(0, Ordering::Relaxed),
        }
    }
}

fn read(asked: usize, body: HistoryBody) -> RawPage {
    let cursor = body.response_metadata.and_then(|metadata| metadata.next_cursor);
    let (messages, has_more) = (body.messages, body.has_more == Some(true));
    RawPage {
        is_short: has_more && messages.len() < asked,
        messages,
        has_more,
        is_limited: body.is_limited == Some(true),
        cursor: cursor.filter(|cursor| !cursor.is_empty() && cursor.len() <= MAX_CURSOR_BYTES),
    }
}
