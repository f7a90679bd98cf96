//! A reply of the Web API: a JSON object with `ok`, of limited length.
//! <https://docs.slack.dev/apis/web-api/#responses>

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;

use super::error::{ApiError, TOO_LONG, code};
use super::method::Method;
use super::transport::SlackResponse;
use slack::envelope::text_or_none;
use slack::ids::Ts;

/// The largest page has a thousand users of some kilobytes each.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// The pause if Slack requests one without a length.
const DEFAULT_PAUSE: Duration = Duration::from_secs(30);

/// The header with the scopes of the token, which every response contains.
/// <https://docs.slack.dev/apis/web-api/>
const SCOPES: &str = "x-oauth-scopes";

/// Slack's reply to a call that it accepted.
#[derive(Debug)]
pub struct ApiReply {
    method: Method,
    body: String,
    date: Option<Ts>,
    scopes: Option<BTreeSet<String>>,
}

impl ApiReply {
    /// When Slack replied, by its own clock, to the second.
    pub fn date(&self) -> Option<&Ts> {
        self.date.as_ref()
    }

    /// The scopes of the token of the call; `None` if Slack did not return them. Slack leaves out fields for which
    /// the token has no scope, and says nothing else about it.
    pub fn scopes(&self) -> Option<&BTreeSet<String>> {
        self.scopes.as_ref()
    }

    /// Parses the reply. `T` may borrow from it.
    ///
    /// # Errors
    /// [`ApiError::Garbled`] if the reply does not have the shape of `T`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        serde_json::from_str(&self.body)
            .map_err(|_| ApiError::Garbled { method: self.method, why: "a field has an unexpected type" })
    }

    /// Reads and checks a response.
    pub(super) async fn receive(method: Method, response: SlackResponse) -> Result<Self, ApiError> {
        let garbled = |why| ApiError::Garbled { method, why };
        let status = response.status;
        let pause = retry_after(&response.headers);
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(ApiError::RateLimited { method, retry_after: pause });
        }
        if status.is_server_error() || status.is_redirection() {
            return Err(ApiError::Unreachable { method, why: format!("HTTP {}", status.as_u16()) });
        }
        let (date, scopes) = (date(&response.headers), scopes(&response.headers));
        let body =
            String::from_utf8(body(method, response).await?).map_err(|_| garbled("it is not UTF-8"))?;
        if !body.trim_ascii_start().starts_with('{') {
            return Err(garbled("it is not a JSON object"));
        }
        let head: ReplyHead<'_> =
            serde_json::from_str(&body).map_err(|_| garbled("it is not the JSON object it should be"))?;
        match (head.ok, head.error.as_deref()) {
            (Some(true), _) => Ok(Self { method, body, date, scopes }),
            (_, Some("ratelimited" | "rate_limited")) => {
                Err(ApiError::RateLimited { method, retry_after: pause })
            }
            // A failure of Slack, by the codes that all methods have for it.
            (
                _,
                Some(error @ ("internal_error" | "fatal_error" | "service_unavailable" | "request_timeout")),
            ) => Err(ApiError::Unreachable { method, why: error.to_owned() }),
            (Some(false), error) => Err(ApiError::Refused {
                method,
                error: error.and_then(code).unwrap_or_else(|| "no reason given".to_owned()),
                needed: head.needed.as_deref().and_then(code),
            }),
            (None, _) => Err(garbled("it does not say `ok`")),
        }
    }
}

#[derive(Deserialize)]
struct ReplyHead<'a> {
    #[serde(default)]
    ok: Option<bool>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    needed: Option<Cow<'a, str>>,
}

async fn body(method: Method, mut response: SlackResponse) -> Result<Vec<u8>, ApiError> {
    let mut body = Vec::new();
    loop {
        let chunk = response.body.chunk().await.map_err(|why| ApiError::Unreachable { method, why })?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(ApiError::Garbled { method, why: TOO_LONG });
        }
        body.extend_from_slice(&chunk);
    }
}

pub(super) fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(DEFAULT_PAUSE, Duration::from_secs)
}

fn date(headers: &HeaderMap) -> Option<Ts> {
    Ts::parse(&format!("{}.000000", date_s(headers)?)).ok()
}

/// When Slack responded, by its own clock, in whole seconds since the Unix epoch.
pub(super) fn date_s(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get(DATE)?.to_str().ok()?;
    Some(rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?.as_second())
}

/// The scopes of the token of a call, if Slack returned them.
pub(super) fn scopes(headers: &HeaderMap) -> Option<BTreeSet<String>> {
    let list = headers.get(SCOPES)?.to_str().ok()?;
    Some(list.split(',').filter_map(|scope| code(scope.trim())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: reqwest::header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn slacks_date_is_parsed_as_a_timestamp() {
        let ts = date(&headers(DATE, "Tue, 14 Nov 2023 22:13:20 GMT"));
        assert_eq!(ts.unwrap().as_str(), "1700000000.000000");
        for odd in ["", "yesterday", "Thu, 01 Jan 1950 00:00:00 GMT", "1700000000"] {
            assert_eq!(date(&headers(DATE, odd)), None, "{odd}");
        }
        assert_eq!(date(&HeaderMap::new()), None);
    }

    #[test]
    fn a_pause_has_slacks_length_or_the_default() {
        assert_eq!(retry_after(&headers(RETRY_AFTER, "7")), Duration::from_secs(7));
        for odd in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(retry_after(&headers(RETRY_AFTER, odd)), DEFAULT_PAUSE, "{odd}");
        }
    }

    #[test]
    fn scopes_are_read_from_the_header() {
        let scopes_of = |value: &str| {
            let name = reqwest::header::HeaderName::from_static(SCOPES);
            scopes(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
        };
        let expected = BTreeSet::from(["channels:read".to_owned(), "files:read".to_owned()]);
        assert_eq!(scopes_of("channels:read,files:read"), Some(expected.clone()));
        assert_eq!(scopes_of(" files:read , channels:read, xoxb-1"), Some(expected));
        assert_eq!(scopes_of(""), Some(BTreeSet::new()));
        assert_eq!(scopes(&HeaderMap::new()), None);
    }
}
