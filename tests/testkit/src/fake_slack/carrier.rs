//! The two ways to call the fake Slack: a socket, and a transport in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::fake_slack::{SlackAnswer, SlackState};
use async_trait::async_trait;
use bytes::Bytes;
use ports::clock::SharedClock;
use slack_api::transport::{HeaderMap, ResponseBody, SlackRequest, SlackResponse, StatusCode, Transport};
use wiremock::{Request, Respond, ResponseTemplate};

use crate::faults::CrashPoint;

/// The state that the socket and the transport share.
pub(super) struct FakeSlackTable {
    pub(super) state: SlackState,
    pub(super) clock: SharedClock,
}

impl FakeSlackTable {
    pub(super) fn new(clock: SharedClock) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { state: SlackState::default(), clock }))
    }

    fn answer(
        table: &Mutex<Self>,
        method: &str,
        token: &str,
        parameters: BTreeMap<String, String>,
    ) -> SlackAnswer {
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = table.clock.now().0;
        table.state.answer(method.trim_start_matches("/api/"), token, parameters, now_ms)
    }
}

/// Answers on a socket.
pub(super) struct SocketCarrier(pub(super) Arc<Mutex<FakeSlackTable>>);

/// Answers in memory. A client does not pass its token to a foreign transport, so this one gets a copy.
pub(super) struct MemoryCarrier {
    pub(super) table: Arc<Mutex<FakeSlackTable>>,
    pub(super) token: String,
    /// The crash point of the calling process.
    pub(super) point: Arc<CrashPoint>,
}

impl fmt::Debug for MemoryCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryCarrier")
    }
}

impl Respond for SocketCarrier {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let header = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let mut form = request.url.clone();
        form.set_query(Some(&String::from_utf8_lossy(&request.body)));
        let parameters = form.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
        let answer = FakeSlackTable::answer(&self.0, request.url.path(), token, parameters.collect());
        let response = ResponseTemplate::new(answer.status).set_delay(answer.delay);
        let response = response.set_body_bytes(answer.body);
        answer
            .headers
            .iter()
            .fold(response, |response, (name, value)| response.insert_header(*name, value.as_str()))
    }
}

#[async_trait]
impl Transport for MemoryCarrier {
    async fn send_request(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        self.point.step()?;
        let token = question.token.map_or("", |_| self.token.as_str());
        let form = question.form.unwrap_or_default().iter();
        let parameters = form.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let answer = FakeSlackTable::answer(&self.table, question.url.path(), token, parameters);
        let time_limit = question.time_limit.unwrap_or(Duration::MAX);
        tokio::time::sleep(answer.delay.min(time_limit)).await;
        self.point.step()?;
        if answer.delay > time_limit {
            return Err("no answer in time".to_owned());
        }
        Ok(response(answer))
    }
}

/// Converts an answer to a transport's response, without its delay.
pub fn response(answer: SlackAnswer) -> SlackResponse {
    let headers =
        answer.headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    SlackResponse {
        status: StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        headers: headers.collect::<HeaderMap>(),
        size_bytes: Some(answer.body.len() as u64),
        body: Box::new(WholeBody(Some(answer.body.into()))),
    }
}

#[derive(Debug)]
struct WholeBody(Option<Bytes>);

#[async_trait]
impl ResponseBody for WholeBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        Ok(self.0.take().filter(|body| !body.is_empty()))
    }
}
