//! Rate limits per method and workspace. Slack counts calls per method, workspace and app.
//! <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use super::method::{CallRate, Method};
use super::tokens::BotToken;
use slack::ids::TeamId;

/// The longest pause to observe. Slack requests about a minute at most; longer pauses are a mistake.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The rate limits of all methods and workspaces.
#[derive(Debug)]
pub(super) struct MethodLimits {
    clock: RuntimeClock,
    /// The rate limit for posting messages, if it was set.
    posts: Option<CallRate>,
    limiters: Mutex<HashMap<(String, Method), MethodLimiter>>,
}

/// Whose calls a limit counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum LimitScope<'a> {
    Team(&'a TeamId),
    /// The owner of this token is not known yet.
    Token(&'a BotToken),
}

impl LimitScope<'_> {
    fn key(self) -> String {
        match self {
            Self::Team(team) => team.to_string(),
            Self::Token(token) => format!("token {}", token.mark()),
        }
    }
}

/// The limiter of a method in a workspace.
#[derive(Debug)]
struct MethodLimiter {
    limiter: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>>,
    per_minute: NonZeroU32,
    paused_until: Option<Instant>,
}

impl MethodLimits {
    pub(super) fn new() -> Self {
        Self { clock: RuntimeClock::default(), posts: None, limiters: Mutex::default() }
    }

    /// The same limits with another rate for posting messages.
    pub(super) fn with_post_rate(self, pace: CallRate) -> Self {
        Self { posts: Some(pace), ..self }
    }

    fn pace(&self, method: Method) -> CallRate {
        self.posts.filter(|_| method == Method::ChatPostMessage).unwrap_or(method.call_rate())
    }

    /// Waits for a permit. If Slack requested a pause longer than `time_limit`, returns its remaining length
    /// instead.
    pub(super) async fn permit(
        &self,
        scope: LimitScope<'_>,
        method: Method,
        time_limit: Duration,
    ) -> Result<(), Duration> {
        loop {
            let wait = self.with_limiter(scope, method, |limiter_entry| {
                let pause =
                    limiter_entry.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
                if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
                    return if pause > time_limit { Err(pause) } else { Ok(Some(pause)) };
                }
                let not_until = limiter_entry.limiter.check().err();
                Ok(not_until.map(|not_until| not_until.wait_time_from(self.clock.now())))
            })?;
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Ok(()),
            }
        }
    }

    /// Pauses permits, because Slack requested it.
    pub(super) fn pause(&self, scope: LimitScope<'_>, method: Method, pause: Duration) {
        let until = Instant::now() + pause.min(LONGEST_PAUSE);
        self.with_limiter(scope, method, |limiter_entry| {
            limiter_entry.paused_until = limiter_entry.paused_until.max(Some(until))
        });
    }

    /// Permits fewer calls from now on, because Slack permits this app fewer than others. The call that
    /// revealed it counts.
    pub(super) fn lower(&self, scope: LimitScope<'_>, method: Method, per_minute: NonZeroU32) {
        self.with_limiter(scope, method, |limiter_entry| {
            if per_minute < limiter_entry.per_minute {
                limiter_entry.limiter = self.limiter(CallRate::steady(per_minute));
                limiter_entry.per_minute = per_minute;
                drop(limiter_entry.limiter.check());
            }
        });
    }

    fn limiter(
        &self,
        pace: CallRate,
    ) -> RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>> {
        let quota = Quota::per_minute(pace.per_minute).allow_burst(pace.at_once);
        RateLimiter::direct_with_clock(quota, self.clock.clone())
    }

    fn with_limiter<T>(
        &self,
        scope: LimitScope<'_>,
        method: Method,
        work: impl FnOnce(&mut MethodLimiter) -> T,
    ) -> T {
        // Ignore poisoning: no change can panic halfway.
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter_entry = limiters.entry((scope.key(), method)).or_insert_with(|| MethodLimiter {
            limiter: self.limiter(self.pace(method)),
            per_minute: self.pace(method).per_minute,
            paused_until: None,
        });
        work(limiter_entry)
    }
}

/// Tokio's clock for a limiter, so that waits and measurements agree, even with a test's paused clock.
#[derive(Debug, Clone)]
pub struct RuntimeClock(Instant);

impl Default for RuntimeClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RuntimeClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn team(id: &str) -> TeamId {
        TeamId::parse(id).unwrap()
    }

    async fn permit_times(limits: &MethodLimits, team: &TeamId, method: Method, permits: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..permits {
            limits.permit(LimitScope::Team(team), method, TIMEOUT).await.unwrap();
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_one_minute_is_permitted_at_once_and_the_rest_evenly() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        assert_eq!(permit_times(&limits, &team_1, Method::UsersList, 20).await, Duration::ZERO);
        let twenty_more = permit_times(&limits, &team_1, Method::UsersList, 20).await;
        assert!((59..=61).contains(&twenty_more.as_secs()), "{twenty_more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn history_calls_are_evenly_spaced_and_within_slacks_limit() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        permit_times(&limits, &team_1, Method::ConversationsHistory, 1).await;
        let five_minutes = permit_times(&limits, &team_1, Method::ConversationsHistory, 245).await;
        assert!((299..=301).contains(&five_minutes.as_secs()), "{five_minutes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lowered_limit_applies_to_its_method_and_workspace_and_counts_the_last_call() {
        let limits = MethodLimits::new();
        let (team_1, history, once) = (team("T1"), Method::ConversationsHistory, NonZeroU32::MIN);
        permit_times(&limits, &team_1, history, 1).await;
        limits.lower(LimitScope::Team(&team_1), history, once);
        let first = permit_times(&limits, &team_1, history, 1).await;
        assert!((59..=61).contains(&first.as_secs()), "{first:?}");
        // Lowering it again does not start another minute.
        limits.lower(LimitScope::Team(&team_1), history, once);
        let second = permit_times(&limits, &team_1, history, 1).await;
        assert!((59..=61).contains(&second.as_secs()), "{second:?}");
        assert!(permit_times(&limits, &team_1, Method::ConversationsReplies, 2).await.as_secs() < 2);
        assert!(permit_times(&limits, &team("T2"), history, 2).await.as_secs() < 2);
    }

    #[tokio::test(start_paused = true)]
    async fn every_method_and_every_workspace_has_its_own_limit() {
        let limits = MethodLimits::new();
        permit_times(&limits, &team("T1"), Method::UsersList, 20).await;
        assert_eq!(permit_times(&limits, &team("T2"), Method::UsersList, 20).await, Duration::ZERO);
        assert_eq!(permit_times(&limits, &team("T1"), Method::EmojiList, 20).await, Duration::ZERO);
        limits.pause(LimitScope::Team(&team("T1")), Method::FilesInfo, Duration::from_secs(30));
        let tokens = ["xoxb-1", "xoxb-2"].map(|token| BotToken::parse(token).unwrap());
        limits.pause(LimitScope::Token(&tokens[0]), Method::AuthTest, Duration::from_secs(90));
        assert!(limits.permit(LimitScope::Token(&tokens[0]), Method::AuthTest, TIMEOUT).await.is_err());
        assert!(limits.permit(LimitScope::Token(&tokens[1]), Method::AuthTest, TIMEOUT).await.is_ok());
        assert_eq!(permit_times(&limits, &team("T2"), Method::FilesInfo, 1).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_method_waits_or_returns_the_pause() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        limits.pause(LimitScope::Team(&team_1), Method::FilesInfo, Duration::from_secs(30));
        // A shorter pause does not cut the longer one.
        limits.pause(LimitScope::Team(&team_1), Method::FilesInfo, Duration::from_secs(1));
        assert_eq!(permit_times(&limits, &team_1, Method::FilesInfo, 2).await, Duration::from_secs(30));

        limits.pause(LimitScope::Team(&team_1), Method::FilesInfo, Duration::from_secs(90));
        let pause = limits.permit(LimitScope::Team(&team_1), Method::FilesInfo, TIMEOUT).await;
        assert_eq!(pause, Err(Duration::from_secs(90)));

        limits.pause(LimitScope::Team(&team_1), Method::FilesInfo, Duration::MAX);
        let pause = limits.permit(LimitScope::Team(&team_1), Method::FilesInfo, TIMEOUT).await;
        assert_eq!(pause, Err(LONGEST_PAUSE));
    }
}
