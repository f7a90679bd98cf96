//! Calls of Slack's history: pages as large as Slack gives them, and no more often than it permits this app.
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

/// The most that Slack gives in a page.
const LARGEST_PAGE: usize = 999;

/// Below this a page is not made smaller: its answer would not be too long.
const SMALLEST_PAGE: usize = 100;

/// What Slack gives an app in a page at most that was distributed outside its Marketplace after May 2025; and it permits that
/// one call a minute. <https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps>
const RESTRICTED_PAGE: usize = 15;

/// Pages of exactly that length in a row that show such an app: one may be chance.
const RESTRICTED_AFTER: u32 = 2;

/// What the user is told then.
pub const RESTRICTED_ADVICE: &str = "Slack gives this app 15 messages a minute. Create your own app with `annalist \
     manifest`: 50 requests of 999 messages a minute";

/// A page that failed is asked for again before the rest waits.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Slack's cursors have less than a hundred characters.
const MAX_CURSOR_BYTES: usize = 4_096;

/// What to do while Slack wants a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausePolicy {
    /// Wait: a person does too.
    WaitOut,
    /// Hand the pause back, so that the job waits on its queue.
    HandBack,
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

/// A page of messages, as Slack sent it.
#[derive(Debug)]
pub(super) struct RawPage {
    /// Message objects, of history newest first, of a thread oldest first.
    pub(super) messages: Vec<Box<RawValue>>,
    /// Whether Slack says that there is more.
    pub(super) has_more: bool,
    /// Whether it has fewer messages than were asked for although there are more: it may leave out some in between.
    pub(super) is_short: bool,
    /// Whether the plan hides what is older.
    pub(super) is_limited: bool,
    /// Where the next page is.
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize)]
struct HistoryBody {
    /// An answer without them says nothing of the channel, and not that it is empty.
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

/// Where a page of history begins and ends. Slack leaves out both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Between {
    /// Messages after this one; `None` for all.
    pub(super) oldest: Option<Ts>,
    /// Messages before this one.
    pub(super) latest: Ts,
    /// Only if Slack gave an empty page and said that there is more.
    pub(super) cursor: Option<String>,
}

impl HistoryCalls {
    /// Calls for a workspace.
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

    /// The workspace.
    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// What time it is by Slack's clock, to the second before.
    pub(super) async fn now(&self) -> Result<Ts, ApiError> {
        self.api.now(&self.team).await
    }

    /// Calls that were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Waits until it is noticed that Slack gives this app only a few messages a minute.
    pub async fn became_restricted(&self) {
        // An error would mean that the sender is gone, and this holds it.
        drop(self.restricted.subscribe().wait_for(|restricted| *restricted).await);
    }

    /// Joins a public channel. People in it see that.
    pub async fn join(&self, channel: &ChannelId) -> Result<(), ApiError> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let parameters = [("channel", channel.as_str())];
        self.api.call(&self.team, Method::ConversationsJoin, &parameters).await.map(drop)
    }

    /// A page of a channel, newest first.
    pub(super) async fn history(&self, channel: &ChannelId, between: &Between) -> Result<RawPage, ApiError> {
        let mut parameters =
            vec![("channel", channel.as_str()), ("latest", between.latest.as_str()), ("inclusive", "false")];
        parameters.extend(between.oldest.as_ref().map(|oldest| ("oldest", oldest.as_str())));
        parameters.extend(between.cursor.as_deref().map(|cursor| ("cursor", cursor)));
        self.ask(Method::ConversationsHistory, &parameters).await
    }

    /// A page of a thread, oldest first, with its root in front.
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
                    self.notice(page, &read);
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
                    // What follows has messages of the same kind.
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

    /// Notices an app to which Slack gives less than it documents for the method.
    fn notice(&self, asked: usize, page: &RawPage) {
        match page.messages.len() {
            RESTRICTED_PAGE if page.has_more && asked > RESTRICTED_PAGE => {
                let pages = self.short_pages.fetch_add(1, Ordering::Relaxed) + 1;
                if pages >= RESTRICTED_AFTER && !self.restricted.send_replace(true) {
                    for method in [Method::ConversationsHistory, Method::ConversationsReplies] {
                        self.api.lower(&self.team, method, NonZeroU32::MIN);
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
