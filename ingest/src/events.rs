//! `POST /slack/events`: from the raw request to the response.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use hyper::HeaderMap;
use ports::queue::job::MAX_EVENT_BYTES;
use ports::queue::route::{Route, route_in_run, route_unreadable};
use ports::queue::run::RunId;
use ports::queue::{Outgoing, QueueError};
use serde_json::value::RawValue;
use slack::catalogue::APP_RATE_LIMITED;
use slack::envelope::Envelope;
use slack::ids::{TeamId, Ts};
use slack::signature::Refused;
use slack::signing_table::SigningTable;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Ingest;
use crate::answer::{EventOutcome, EventResponse};
use crate::body::{self, BodyError};
use crate::connections::WaitingConnection;
use crate::counters::Counters;
use crate::limits::SMALL_BODY_BYTES;
use crate::refused::{self, RefusedTimes};
use crate::throttle::LogThrottle;

const TIMESTAMP: &str = "x-slack-request-timestamp";
const SIGNATURE: &str = "x-slack-signature";
const RETRY_NUM: &str = "x-slack-retry-num";
const RETRY_REASON: &str = "x-slack-retry-reason";

/// The retry after which Slack gives up on an event, about six minutes after it happened. With *Delayed
/// Events* it continues hourly for a day. <https://docs.slack.dev/apis/events-api/#retries>
const LAST_RETRY: u32 = 3;

/// The state that all requests share.
pub(crate) struct Endpoint {
    pub(crate) ingest: Ingest,
    pub(crate) not_ready: LogThrottle,
    pub(crate) refused_times: Arc<RefusedTimes>,
    /// The connections of Socket Mode, if it is on.
    pub(crate) presence: Option<Arc<std::sync::Mutex<crate::socket::Presence>>>,
    in_flight: Semaphore,
    large_bodies: Semaphore,
    counters: Counters,
    /// One per reason, so that unsigned requests of other clients cannot suppress the log line about refused
    /// requests of Slack.
    refused: [LogThrottle; Refused::LABELS.len()],
    malformed: LogThrottle,
    failed: LogThrottle,
    shed: LogThrottle,
}

impl Endpoint {
    pub(crate) fn new(ingest: Ingest) -> Self {
        Self {
            in_flight: Semaphore::new(ingest.limits.in_flight.min(Semaphore::MAX_PERMITS)),
            large_bodies: Semaphore::new(ingest.limits.large_bodies.min(Semaphore::MAX_PERMITS)),
            refused_times: Arc::new(RefusedTimes::new(Arc::clone(&ingest.queue), ingest.limits.enqueue)),
            ingest,
            presence: None,
            counters: Counters::register(),
            not_ready: LogThrottle::new(),
            refused: Refused::LABELS.map(|_| LogThrottle::once_a_minute()),
            malformed: LogThrottle::new(),
            failed: LogThrottle::new(),
            shed: LogThrottle::new(),
        }
    }

    /// Reads the whole body. A small body needs no permit, so clients that send slowly cannot use up all
    /// permits.
    async fn read(&self, body: Body) -> Result<Bytes, EventOutcome> {
        let _reading = if body::is_at_most(&body, SMALL_BODY_BYTES) {
            None
        } else {
            Some(self.large_bodies.try_acquire().map_err(|_| self.shed("too many large ones at once"))?)
        };
        body::read_body(body, MAX_EVENT_BYTES, self.ingest.limits.body).await.map_err(unreadable)
    }

    fn shed(&self, why: &'static str) -> EventOutcome {
        if let Some(left_out) = self.shed.permit_line(self.ingest.clock.now()) {
            tracing::warn!(why, left_out, "shed an event");
        }
        EventOutcome::Shed
    }

    fn answer(&self, answer: EventResponse) -> Response {
        self.counters.count_outcome(answer.outcome);
        answer.into_response()
    }
}

pub(crate) async fn receive(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = match endpoint.read(body).await {
        Ok(body) => body,
        Err(outcome) => return endpoint.answer(outcome.into()),
    };
    if let Some(waiting) = head.extensions.get::<WaitingConnection>() {
        waiting.request_arrived();
    }
    // Before the signature is verified, so that shedding a request costs almost nothing, except for a last
    // retry.
    let app = slack::app_of_path(head.uri.path());
    let Ok(_in_flight) = endpoint.in_flight.try_acquire() else {
        let secrets = endpoint.ingest.secrets.as_ref().map(|secrets| secrets.last());
        let is_signed =
            secrets.is_some_and(|secrets| endpoint.verify_with(&secrets, app, &head.headers, &body).is_ok());
        if is_last_retry(&head.headers) && is_signed {
            endpoint.record_refused(missing_event(&head.headers, &body)).await;
        }
        return endpoint.answer(endpoint.shed("too many at once").into());
    };
    let _open = endpoint.ingest.open_requests.open();
    let complete = Instant::now();
    let answer = endpoint.decide(app, &head.headers, body).await;
    endpoint.counters.record_duration(complete.elapsed());
    endpoint.answer(answer)
}

fn unreadable(unread: BodyError) -> EventOutcome {
    match unread {
        BodyError::TooLarge(rest) => {
            tokio::spawn(body::discard(rest));
            EventOutcome::TooLarge
        }
        BodyError::TimedOut => EventOutcome::BodyTimeout,
        BodyError::Broken => EventOutcome::BodyBroken,
    }
}

impl Endpoint {
    async fn decide(&self, app: Option<&str>, headers: &HeaderMap, body: Bytes) -> EventResponse {
        if let Err(refused) = self.verify(app, headers, &body).await {
            self.refuse(refused, app, headers, &body).await;
            return EventResponse::refused(refused);
        }
        let is_retry = headers.contains_key(RETRY_NUM) || headers.contains_key(RETRY_REASON);
        if is_retry {
            self.counters.count_retry(single_header(headers, RETRY_REASON).unwrap_or_default());
        }
        if is_ssl_check_form(&body) {
            return EventOutcome::SslCheck.into();
        }
        let run = self.ingest.run.as_ref().filter(|_| !is_retry);
        let given_up = is_last_retry(headers).then(|| missing_event(headers, &body)).flatten();
        self.accept(body, run, given_up).await
    }

    /// Puts the event of an authentic body on the queue, and answers once it is durable. A retried event has no
    /// run: ingest may not have been running when it happened. `given_up` is missing if the queue fails.
    async fn accept(
        &self,
        body: Bytes,
        run: Option<&RunId>,
        given_up: Option<(TeamId, Ts)>,
    ) -> EventResponse {
        let sends = match self.route(&body, run) {
            Ok(sends) => sends,
            Err(answer) => return answer,
        };
        // The job is a copy, so the body's buffer is freed while the queue stores the job.
        drop(body);
        match self.enqueue(sends.messages).await {
            Ok(()) => {
                if let Some((team, at)) = sends.accepted {
                    self.refused_times.record_accepted(team, at);
                }
                sends.outcome.into()
            }
            Err(outcome) => {
                self.record_refused(given_up).await;
                outcome.into()
            }
        }
    }

    /// Verifies the signature, once more with the secrets that were read again if it fits none.
    async fn verify(&self, app: Option<&str>, headers: &HeaderMap, body: &[u8]) -> Result<(), Refused> {
        let Some(source) = &self.ingest.secrets else { return Err(Refused::Mismatch) };
        let secrets = source.fresh().await;
        let verdict = self.verify_with(&secrets, app, headers, body);
        if verdict != Err(Refused::Mismatch) {
            return verdict;
        }
        let newer = source.reread().await;
        if Arc::ptr_eq(&secrets, &newer) { verdict } else { self.verify_with(&newer, app, headers, body) }
    }

    fn verify_with(
        &self,
        secrets: &SigningTable,
        app: Option<&str>,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), Refused> {
        let now_s = self.ingest.clock.now().seconds();
        secrets.verify(app, [TIMESTAMP, SIGNATURE].map(|name| single_header(headers, name)), body, now_s)
    }

    /// Counts a refused request, logs it at a limited rate, and if Slack signed it, records its time as
    /// missing.
    async fn refuse(&self, refused: Refused, app: Option<&str>, headers: &HeaderMap, body: &[u8]) {
        self.counters.count_refused(refused);
        let throttle =
            Refused::LABELS.iter().zip(&self.refused).find(|(label, _)| **label == refused.label());
        if let Some(left_out) =
            throttle.and_then(|(_, throttle)| throttle.permit_line(self.ingest.clock.now()))
        {
            let secrets = self.ingest.secrets.as_ref().map(|secrets| secrets.last());
            let is_known =
                |app: &&str| secrets.as_ref().is_some_and(|secrets| secrets.secrets_of(Some(app)).is_some());
            // Any client can name an unknown app.
            let named = app.filter(is_known);
            let reason = match app {
                Some(_) if named.is_none() => "its path names an app without a signing secret".to_owned(),
                Some(_) | None => refused.to_string(),
            };
            tracing::warn!(app = named, reason, left_out, "refused a request; Slack will deliver it again");
        }
        if let Refused::Stale { .. } = refused {
            self.record_refused(missing_event(headers, body)).await;
        }
    }

    async fn record_refused(&self, missing: Option<(TeamId, Ts)>) {
        if let Some((team, at)) = missing {
            self.refused_times.record_refused(team, at).await;
        }
    }

    /// The jobs of an authentic body, or the response if it has none.
    fn route(&self, body: &[u8], run: Option<&RunId>) -> Result<Sends, EventResponse> {
        let malformed = |error: &dyn std::fmt::Display| {
            if let Some(left_out) = self.malformed.permit_line(self.ingest.clock.now()) {
                tracing::warn!(%error, left_out, "a signed body is not an event envelope");
            }
            EventResponse::from(EventOutcome::Malformed)
        };
        let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
        let envelope = match Envelope::peek(body) {
            Ok(envelope) => envelope,
            // It may be a request that this version cannot read: a worker quarantines it.
            Err(_) if is_object(text) => {
                let messages = vec![route_unreadable(text)];
                return Ok(Sends { messages, accepted: None, outcome: EventOutcome::Stored });
            }
            Err(error) => return Err(malformed(&error)),
        };
        let outcome = match envelope.kind.as_deref() {
            Some("url_verification") => {
                let challenge = envelope.challenge.ok_or_else(|| malformed(&"it has no challenge"))?;
                return Err(EventResponse::challenge(challenge.into_owned()));
            }
            Some("ssl_check") => return Err(EventOutcome::SslCheck.into()),
            Some(APP_RATE_LIMITED) => {
                warn_of_rate_limit(&envelope, text);
                EventOutcome::RateLimited
            }
            Some(_) | None => EventOutcome::Stored,
        };
        match route_in_run(run, &envelope, text) {
            (Route::Queues(messages), accepted) => Ok(Sends { messages, accepted, outcome }),
            (Route::DirectMessage, _) => Err(EventOutcome::DirectMessage.into()),
        }
    }

    async fn enqueue(&self, messages: Vec<Outgoing>) -> Result<(), EventOutcome> {
        let entries = messages.len();
        let failed = match timeout(self.ingest.limits.enqueue, self.ingest.queue.send(messages)).await {
            Ok(results) if results.len() == entries => results.into_iter().filter_map(Result::err).collect(),
            Ok(_) => vec![QueueError::Unavailable("it did not answer for every message".to_owned())],
            Err(_) => {
                self.warn_of_failure(&"the queue did not answer in time");
                return Err(EventOutcome::QueueSlow);
            }
        };
        let Some(first) = failed.first() else { return Ok(()) };
        self.warn_of_failure(first);
        // A retry helps if it can store at least one entry.
        let too_large = |error: &QueueError| matches!(error, QueueError::TooLarge { .. });
        Err(if failed.iter().all(too_large) { EventOutcome::TooLarge } else { EventOutcome::QueueFailed })
    }

    fn warn_of_failure(&self, error: &dyn std::fmt::Display) {
        if let Some(left_out) = self.failed.permit_line(self.ingest.clock.now()) {
            tracing::error!(%error, left_out, "failed to queue an event; Slack retries it three times");
        }
    }
}

struct Sends {
    messages: Vec<Outgoing>,
    /// The workspace and the time of an event that arrived at Slack's first attempt.
    accepted: Option<(TeamId, Ts)>,
    /// The outcome of the request once the messages are durable.
    outcome: EventOutcome,
}

/// An event that a connection of Socket Mode received.
pub(crate) struct SocketEvent {
    /// The bytes of the payload.
    pub(crate) body: Bytes,
    /// The run of the ready connections.
    pub(crate) run: Option<RunId>,
    /// 0 at Slack's first attempt.
    pub(crate) retry_attempt: u32,
    pub(crate) retry_reason: String,
    /// The current second by Slack's clock, if it is known.
    pub(crate) received_at: Option<Ts>,
}

impl Endpoint {
    /// Puts the event of a connection on the queue. TLS and the ticket prove that Slack sent it.
    pub(crate) async fn accept_from_socket(&self, event: SocketEvent) -> EventOutcome {
        let SocketEvent { body, run, retry_attempt, retry_reason, received_at } = event;
        let _open = self.ingest.open_requests.open();
        let began = Instant::now();
        let is_retry = retry_attempt > 0;
        if is_retry {
            self.counters.count_retry(&retry_reason);
        }
        // A body that is too large is acked, so that Slack does not repeat it.
        let missing = || refused::missing_event_at(received_at.as_ref()?, &body);
        let is_last = retry_attempt >= LAST_RETRY;
        let given_up = (is_last || body.len() > MAX_EVENT_BYTES).then(missing).flatten();
        let outcome = if body.len() > MAX_EVENT_BYTES {
            self.record_refused(given_up).await;
            EventOutcome::TooLarge
        } else {
            self.accept(body, run.as_ref().filter(|_| !is_retry), given_up).await.outcome
        };
        self.counters.count_outcome(outcome);
        self.counters.record_duration(began.elapsed());
        outcome
    }
}

/// A header that must occur once. A duplicate header, or a value that is not text, counts as malformed, not
/// as missing.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { Some("") } else { Some(value.to_str().unwrap_or_default()) }
}

/// Whether Slack gives up on the event if this request fails.
fn is_last_retry(headers: &HeaderMap) -> bool {
    let number = single_header(headers, RETRY_NUM).and_then(|number| number.parse().ok());
    number.is_some_and(|number: u32| number >= LAST_RETRY)
}

/// The workspace and the time of the event that is missing if this signed request is refused.
fn missing_event(headers: &HeaderMap, body: &[u8]) -> Option<(TeamId, Ts)> {
    refused::missing_event(single_header(headers, TIMESTAMP).unwrap_or_default(), body)
}

/// Whether this is the form that Slack sends to check the certificate of a request URL.
fn is_ssl_check_form(body: &[u8]) -> bool {
    !body.starts_with(b"{") && body.split(|byte| *byte == b'&').any(|field| field == b"ssl_check=1")
}

/// Whether a text is a JSON object with any contents.
fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok()
}

fn warn_of_rate_limit(envelope: &Envelope<'_>, text: &str) {
    let team = envelope.workspace();
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let minute: Option<i64> = fields.get("minute_rate_limited").and_then(|minute| minute.get().parse().ok());
    tracing::warn!(
        team = team.as_ref().map(TeamId::as_str),
        minute,
        "Slack dropped the events of a minute: its hourly limit was exceeded"
    );
}
