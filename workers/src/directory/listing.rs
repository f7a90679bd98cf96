//! A paginated Slack list. <https://docs.slack.dev/apis/web-api/pagination>

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope::{self, text_or_none};
use slack::ids::{TeamId, Ts};
use slack_api::{ApiError, ApiReply, Method, WebApi};

use super::SyncError;

/// Slack accepts any number under 1,000. The largest pages need the fewest calls, of which there are 20 a
/// minute: 10,000 channels and 20,000 people fit into one burst of calls. A page of people is about two
/// megabytes.
const PAGE: &str = "999";

/// A million entries: more than any workspace has.
const MAX_PAGES: usize = 1_000;

/// Slack's cursors have fewer than a hundred characters.
const MAX_CURSOR_BYTES: usize = 4_096;

/// How often a page is requested before the whole sync waits for its next scheduled run.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A list that is being read.
pub(super) struct Listing<'a> {
    api: &'a WebApi,
    team: &'a TeamId,
    method: Method,
    parameters: &'a [(&'a str, &'a str)],
    /// Slack's clock at its last answer.
    clock: Ts,
    cursor: Option<String>,
    seen: HashSet<String>,
    pages: usize,
}

/// A page, and Slack's clock before it was requested: every later change is newer than the page.
pub(super) struct ListingPage {
    pub(super) reply: ApiReply,
    pub(super) asked: Ts,
}

impl<'a> Listing<'a> {
    /// A list that has not been read yet; `clock` is Slack's at its last answer.
    pub(super) fn new(
        api: &'a WebApi,
        team: &'a TeamId,
        method: Method,
        parameters: &'a [(&'a str, &'a str)],
        clock: Ts,
    ) -> Self {
        Self { api, team, method, parameters, clock, cursor: None, seen: HashSet::new(), pages: 0 }
    }

    /// The next page; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<ListingPage>, SyncError> {
        let cursor = match &self.cursor {
            None if self.pages > 0 => return Ok(None),
            cursor => cursor.clone(),
        };
        let mut parameters = self.parameters.to_vec();
        parameters.push(("limit", PAGE));
        parameters.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let reply = call_with_retries(self.api, self.team, self.method, &parameters).await?;
        self.pages += 1;
        self.cursor = self.next_cursor(&reply)?;
        let asked = self.clock.clone();
        if let Some(date) = reply.date() {
            self.clock = date.clone();
        }
        Ok(Some(ListingPage { reply, asked }))
    }

    /// Slack's clock at its last answer.
    pub(super) fn into_clock(self) -> Ts {
        self.clock
    }

    fn next_cursor(&mut self, reply: &ApiReply) -> Result<Option<String>, SyncError> {
        let head: ListingHead<'_> = reply.read()?;
        let metadata: ListingCursor<'_> =
            head.response_metadata.map(envelope::object_or_default).unwrap_or_default();
        let next = metadata.next_cursor.map(Cow::into_owned);
        let Some(next) = next.filter(|cursor| !cursor.is_empty()) else { return Ok(None) };
        let known = next.len() > MAX_CURSOR_BYTES || !self.seen.insert(next.clone());
        if known || self.pages == MAX_PAGES {
            return Err(SyncError::Endless(self.method));
        }
        Ok(Some(next))
    }
}

/// Makes one call, and retries it if Slack is briefly unreachable.
pub(super) async fn call_with_retries(
    api: &WebApi,
    team: &TeamId,
    method: Method,
    parameters: &[(&str, &str)],
) -> Result<ApiReply, ApiError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match api.call(team, method, parameters).await {
            Err(ApiError::Unreachable { .. }) => tokio::time::sleep(pause).await,
            answer @ (Ok(_)
            | Err(
                ApiError::NoToken(_)
                | ApiError::WrongToken { .. }
                | ApiError::Refused { .. }
                | ApiError::RateLimited { .. }
                | ApiError::Garbled { .. },
            )) => return answer,
        }
        pause *= 2;
    }
    api.call(team, method, parameters).await
}

#[derive(Deserialize)]
struct ListingHead<'a> {
    #[serde(borrow, default)]
    response_metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ListingCursor<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    next_cursor: Option<Cow<'a, str>>,
}
