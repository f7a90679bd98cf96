//! Slack's Web API, played by [`SlackState`]: over a socket on this machine, or without one on a test's paused time.

mod carrier;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use ::fake_slack::{
    Call, ChannelHistory, FakeWorkspace, SlackAnswer, SlackState, channel, person, refusal,
};
use serde_json::Value;
use slack::ids::TeamId;
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer};

use crate::faults::CrashPoint;

use self::carrier::{FakeClock, FakeSlackTable, MemoryCarrier, SocketCarrier};

/// The second at which its clock starts.
pub const START_S: i64 = 1_700_000_000;

/// A Slack that answers as long as this lives.
pub struct FakeSlack {
    server: Option<MockServer>,
    table: Arc<Mutex<FakeSlackTable>>,
}

impl FakeSlack {
    /// A Slack on a socket that knows no token yet. Its clock stands still until it is moved.
    pub async fn start() -> Self {
        let table = FakeSlackTable::starting_at(FakeClock::Fixed(START_S * 1_000));
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(SocketCarrier(Arc::clone(&table))).mount(&server).await;
        Self { server: Some(server), table }
    }

    /// A Slack without a socket, on the time of the test's runtime: [`Self::client_in_memory`] calls it, and an hour of
    /// its limits passes at once if the runtime is paused.
    pub fn on_virtual_time() -> Self {
        Self { server: None, table: FakeSlackTable::starting_at(FakeClock::running_from(START_S * 1_000)) }
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
        self.client_until(token, &CrashPoint::never())
    }

    /// The same in a process that dies at the point: before a call is carried, or with its answer on the way.
    ///
    /// # Panics
    /// If it is not a token.
    pub fn client_until(&self, token: &str, point: &Arc<CrashPoint>) -> Arc<WebApi> {
        let (table, point) = (Arc::clone(&self.table), Arc::clone(point));
        let carrier = MemoryCarrier { table, token: token.to_owned(), point };
        Arc::new(WebApi::carried_by(Arc::new(carrier), ApiUrl::default(), one_token(token)))
    }

    /// What it is made of: workspaces, limits, cursors, calls.
    pub fn with<T>(&self, work: impl FnOnce(&mut SlackState) -> T) -> T {
        work(&mut self.table().state)
    }

    /// A workspace behind a token; it replaces what was there.
    pub fn set(&self, token: &str, workspace: FakeWorkspace) {
        self.with(|state| state.set(token, workspace));
    }

    /// Changes a workspace.
    ///
    /// # Panics
    /// If no workspace has this token.
    pub fn change<T>(&self, token: &str, change: impl FnOnce(&mut FakeWorkspace) -> T) -> T {
        self.with(|state| change(state.workspace(token).expect("the workspace was set")))
    }

    /// Pages have at most this many entries, whatever is asked for.
    pub fn pages_of(&self, entries: usize) {
        self.with(|state| state.pages_of(entries));
    }

    /// Sets its clock, which stands still then.
    pub fn at(&self, now_s: i64) {
        self.table().clock = FakeClock::Fixed(now_s * 1_000);
    }

    /// Lets its clock run from now on.
    pub fn run_clock(&self) {
        let mut table = self.table();
        table.clock = FakeClock::running_from(table.clock.now_ms());
    }

    /// The next answers of a method; after them it answers as it should.
    pub fn next(&self, method: &str, answers: impl IntoIterator<Item = SlackAnswer>) {
        self.with(|state| state.next(method, answers));
    }

    /// From now on a method refuses: the whole answer.
    pub fn refuse(&self, method: &str, answer: Value) {
        self.with(|state| state.refuse(method, answer));
    }

    /// From now on it answers nothing but 503, or answers again.
    pub fn away(&self, away: bool) {
        self.with(|state| state.set_away(away));
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.with(|state| state.calls().to_vec())
    }

    /// How often a method was called.
    pub fn called(&self, method: &str) -> usize {
        self.with(|state| state.called(method))
    }

    /// The channels that were joined with this token.
    pub fn joined(&self, token: &str) -> Vec<String> {
        self.with(|state| {
            let joined = state.workspace(token).map(|workspace| &workspace.joined);
            joined.into_iter().flatten().cloned().collect()
        })
    }

    fn table(&self) -> MutexGuard<'_, FakeSlackTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
/// If something is not what it should be.
pub fn tokens(entries: &[(&str, &str)]) -> Tokens {
    let entry = |(team, token): &(&str, &str)| {
        let team = TeamId::parse(team).expect("an id of a test");
        (team, BotToken::parse(token).expect("a token of a test"))
    };
    let table = Arc::new(entries.iter().map(entry).collect());
    Tokens::per_team(move || Arc::clone(&table))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use slack_api::Method;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_in_memory_runs_into_the_limits_on_virtual_time() {
        let slack = FakeSlack::on_virtual_time();
        slack.set("xoxb-1", FakeWorkspace::of("T1", 3, 1));
        slack.with(|state| state.limit("users.info", 2));
        slack.next("users.info", [SlackAnswer::new(503).after(Duration::from_secs(1))]);
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
        assert_eq!((slack.called("users.info"), early), (6, 0));
    }
}
