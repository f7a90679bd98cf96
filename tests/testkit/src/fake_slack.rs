//! Slack's Web API, simulated by [`SlackState`]: on a local socket, or in memory on a test's paused time.

mod carrier;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use ::fake_slack::{
    Call, ChannelHistory, FakeWorkspace, SlackAnswer, SlackState, bookmark, channel, errors, person, refusal,
    shapes, user_group,
};
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use serde_json::Value;
use slack::ids::TeamId;
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer};

use crate::clock::virtual_clock;
use crate::faults::CrashPoint;

pub use self::carrier::response;
use self::carrier::{FakeSlackTable, MemoryCarrier, SocketCarrier};

/// The second at which the fake Slack's clock starts.
pub const START_S: i64 = 1_700_000_000;

/// A fake Slack, which answers until it is dropped.
pub struct FakeSlack {
    server: Option<MockServer>,
    table: Arc<Mutex<FakeSlackTable>>,
}

impl FakeSlack {
    /// A Slack on a socket, without tokens. Its clock is fixed until a test moves it.
    pub async fn start() -> Self {
        let table = FakeSlackTable::new(fixed_clock(START_S));
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(SocketCarrier(Arc::clone(&table))).mount(&server).await;
        Self { server: Some(server), table }
    }

    /// A Slack without a socket, on the time of the test's runtime, for [`Self::client_in_memory`]. An hour
    /// of its rate limits passes at once if the runtime is paused.
    pub fn on_virtual_time() -> Self {
        Self { server: None, table: FakeSlackTable::new(virtual_clock(TimestampMs(START_S * 1_000))) }
    }

    /// The base for `SLACK_API_URL`.
    ///
    /// # Panics
    /// If it has no socket.
    pub fn url(&self) -> String {
        format!("{}/api/", self.server.as_ref().expect("it was started on a socket").uri())
    }

    /// A client with these tokens.
    ///
    /// # Panics
    /// If it has no socket.
    pub fn client(&self, tokens: Tokens) -> Arc<WebApi> {
        let url: ApiUrl = self.url().parse().expect("a loopback address is a base");
        Arc::new(WebApi::new(url, tokens))
    }

    /// A client with one token that needs no socket.
    ///
    /// # Panics
    /// If it is not a token.
    pub fn client_in_memory(&self, token: &str) -> Arc<WebApi> {
        self.client_with_crash_point(token, &CrashPoint::never())
    }

    /// A client in a process that dies at the point: before a call is sent, or before its response arrives.
    ///
    /// # Panics
    /// If it is not a token.
    pub fn client_with_crash_point(&self, token: &str, point: &Arc<CrashPoint>) -> Arc<WebApi> {
        let (table, point) = (Arc::clone(&self.table), Arc::clone(point));
        let carrier = MemoryCarrier { table, token: token.to_owned(), point };
        Arc::new(WebApi::with_transport(Arc::new(carrier), ApiUrl::default(), one_token(token)))
    }

    /// Runs `work` on the state: workspaces, limits, cursors, calls.
    pub fn with_state<T>(&self, work: impl FnOnce(&mut SlackState) -> T) -> T {
        work(&mut self.table().state)
    }

    /// Sets the workspace of a token and replaces an earlier one.
    pub fn set_workspace(&self, token: &str, workspace: FakeWorkspace) {
        self.with_state(|state| state.set_workspace(token, workspace));
    }

    /// Refuses a token from now on.
    pub fn remove_workspace(&self, token: &str) {
        self.with_state(|state| state.remove_workspace(token));
    }

    /// Changes a workspace.
    ///
    /// # Panics
    /// If no workspace has this token.
    pub fn change_workspace<T>(&self, token: &str, change: impl FnOnce(&mut FakeWorkspace) -> T) -> T {
        self.with_state(|state| change(state.workspace(token).expect("the workspace was set")))
    }

    /// Limits every page to this number of entries, even if a call asks for more.
    pub fn set_page_size(&self, entries: usize) {
        self.with_state(|state| state.set_page_size(entries));
    }

    /// Sets the clock, which then stays fixed.
    pub fn set_clock(&self, now_s: i64) {
        self.table().clock = fixed_clock(now_s);
    }

    /// Lets the clock run from now on.
    pub fn run_clock(&self) {
        let mut table = self.table();
        table.clock = virtual_clock(table.clock.now());
    }

    /// Sets the next responses of a method; after them the method works normally.
    pub fn plan_answers(&self, method: &str, answers: impl IntoIterator<Item = SlackAnswer>) {
        self.with_state(|state| state.plan_answers(method, answers));
    }

    /// Makes a method return this error response from now on.
    pub fn refuse(&self, method: &str, answer: Value) {
        self.with_state(|state| state.set_refusal(method, answer));
    }

    /// Makes every call return 503, or work again.
    pub fn set_unavailable(&self, away: bool) {
        self.with_state(|state| state.set_away(away));
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.with_state(|state| state.calls().to_vec())
    }

    pub fn call_count(&self, method: &str) -> usize {
        self.with_state(|state| state.call_count(method))
    }

    /// The channels that were joined with this token.
    pub fn joined(&self, token: &str) -> Vec<String> {
        self.with_state(|state| {
            let joined = state.workspace(token).map(|workspace| &workspace.joined);
            joined.into_iter().flatten().cloned().collect()
        })
    }

    fn table(&self) -> MutexGuard<'_, FakeSlackTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fixed_clock(now_s: i64) -> SharedClock {
    ManualClock::starting_at(TimestampMs(now_s * 1_000))
}

/// One token, for any workspace.
///
/// # Panics
/// If it is not a token.
pub fn one_token(token: &str) -> Tokens {
    Tokens::one(BotToken::parse(token).expect("a token of a test"))
}

/// A token for each workspace.
///
/// # Panics
/// If an id or a token is invalid.
pub fn tokens(entries: &[(&str, &str)]) -> Tokens {
    let entry = |(team, token): &(&str, &str)| {
        let team = TeamId::parse(team).expect("an id of a test");
        (team, BotToken::parse(token).expect("a token of a test"))
    };
    Tokens::per_team(entries.iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use slack_api::Method;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_in_memory_keeps_the_limits_on_virtual_time() {
        let slack = FakeSlack::on_virtual_time();
        slack.set_workspace("xoxb-1", FakeWorkspace::with_size("T1", 3, 1));
        slack.with_state(|state| state.set_rate_limit("users.info", 2));
        slack.plan_answers("users.info", [SlackAnswer::new(503).with_delay(Duration::from_secs(1))]);
        let (client, team) = (slack.client_in_memory("xoxb-1"), TeamId::parse("T1").unwrap());
        let ask = async || client.call(&team, Method::UsersInfo, &[("user", "U00000")]).await;
        assert!(ask().await.is_err());
        let began = Instant::now();
        for _ in 0..4 {
            ask().await.unwrap();
        }
        let waited = began.elapsed();
        assert!((60..70).contains(&waited.as_secs()), "{waited:?}");
        let early = slack.calls().iter().filter(|call| call.early).count();
        assert_eq!((slack.call_count("users.info"), early), (6, 0));
    }
}
