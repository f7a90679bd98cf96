//! How often each method is called for each workspace. Slack counts per method, workspace and app.
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
use slack::ids::TeamId;

/// What Slack asks for at most is about a minute; what is beyond this was never meant.
const LONGEST_HOLD: Duration = Duration::from_secs(3_600);

/// The limits of every method and workspace.
#[derive(Debug)]
pub(super) struct MethodLimits {
    clock: RuntimeClock,
    /// How often messages may be posted, if that was set.
    posts: Option<CallRate>,
    lanes: Mutex<HashMap<(Option<TeamId>, Method), MethodLimiter>>,
}

/// One method of one workspace; of none, while it is not known yet whom a token belongs to.
#[derive(Debug)]
struct MethodLimiter {
    limiter: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>>,
    per_minute: NonZeroU32,
    held_until: Option<Instant>,
}

impl MethodLimits {
    pub(super) fn new() -> Self {
        Self { clock: RuntimeClock::default(), posts: None, lanes: Mutex::default() }
    }

    /// The same with another limit for messages.
    pub(super) fn posting(self, pace: CallRate) -> Self {
        Self { posts: Some(pace), ..self }
    }

    fn pace(&self, method: Method) -> CallRate {
        self.posts.filter(|_| method == Method::ChatPostMessage).unwrap_or(method.pace())
    }

    /// Waits for a permit, unless Slack asked for a longer pause than `time_limit`: then that is the answer.
    pub(super) async fn permit(
        &self,
        team: Option<&TeamId>,
        method: Method,
        time_limit: Duration,
    ) -> Result<(), Duration> {
        loop {
            let wait = self.in_lane(team, method, |lane| {
                let held = lane.held_until.map(|until| until.saturating_duration_since(Instant::now()));
                if let Some(held) = held.filter(|held| !held.is_zero()) {
                    return if held > time_limit { Err(held) } else { Ok(Some(held)) };
                }
                let refused = lane.limiter.check().err();
                Ok(refused.map(|not_until| not_until.wait_time_from(self.clock.now())))
            })?;
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Ok(()),
            }
        }
    }

    /// Gives no permit for a while, because Slack said so.
    pub(super) fn hold(&self, team: Option<&TeamId>, method: Method, pause: Duration) {
        let until = Instant::now() + pause.min(LONGEST_HOLD);
        self.in_lane(team, method, |lane| lane.held_until = lane.held_until.max(Some(until)));
    }

    /// Permits fewer calls from now on, because Slack permits this app fewer than others. The call that showed it counts.
    pub(super) fn lower(&self, team: Option<&TeamId>, method: Method, per_minute: NonZeroU32) {
        self.in_lane(team, method, |lane| {
            if per_minute < lane.per_minute {
                lane.limiter = self.limiter(CallRate::steady(per_minute));
                lane.per_minute = per_minute;
                drop(lane.limiter.check());
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

    fn in_lane<T>(
        &self,
        team: Option<&TeamId>,
        method: Method,
        work: impl FnOnce(&mut MethodLimiter) -> T,
    ) -> T {
        // Nothing panics between two halves of a change.
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry((team.cloned(), method)).or_insert_with(|| MethodLimiter {
            limiter: self.limiter(self.pace(method)),
            per_minute: self.pace(method).per_minute,
            held_until: None,
        });
        work(lane)
    }
}

/// The runtime's own clock for a limiter, so that waiting and measuring agree, on a test's paused clock too.
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

    async fn take(limits: &MethodLimits, team: &TeamId, method: Method, permits: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..permits {
            limits.permit(Some(team), method, TIMEOUT).await.unwrap();
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_minutes_worth_is_given_at_once_and_the_rest_one_by_one() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        assert_eq!(take(&limits, &team_1, Method::UsersList, 20).await, Duration::ZERO);
        let twenty_more = take(&limits, &team_1, Method::UsersList, 20).await;
        assert!((59..=61).contains(&twenty_more.as_secs()), "{twenty_more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn history_is_asked_for_evenly_and_never_more_often_than_slack_permits() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        take(&limits, &team_1, Method::ConversationsHistory, 1).await;
        let five_minutes = take(&limits, &team_1, Method::ConversationsHistory, 245).await;
        assert!((299..=301).contains(&five_minutes.as_secs()), "{five_minutes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lowered_limit_holds_for_its_method_and_workspace_and_counts_the_call_before() {
        let limits = MethodLimits::new();
        let (team_1, history, once) = (team("T1"), Method::ConversationsHistory, NonZeroU32::MIN);
        take(&limits, &team_1, history, 1).await;
        limits.lower(Some(&team_1), history, once);
        let first = take(&limits, &team_1, history, 1).await;
        assert!((59..=61).contains(&first.as_secs()), "{first:?}");
        // Saying it again does not begin another minute.
        limits.lower(Some(&team_1), history, once);
        let second = take(&limits, &team_1, history, 1).await;
        assert!((59..=61).contains(&second.as_secs()), "{second:?}");
        assert!(take(&limits, &team_1, Method::ConversationsReplies, 2).await.as_secs() < 2);
        assert!(take(&limits, &team("T2"), history, 2).await.as_secs() < 2);
    }

    #[tokio::test(start_paused = true)]
    async fn every_method_and_every_workspace_has_a_limit_of_its_own() {
        let limits = MethodLimits::new();
        take(&limits, &team("T1"), Method::UsersList, 20).await;
        assert_eq!(take(&limits, &team("T2"), Method::UsersList, 20).await, Duration::ZERO);
        assert_eq!(take(&limits, &team("T1"), Method::EmojiList, 20).await, Duration::ZERO);
        limits.hold(Some(&team("T1")), Method::FilesInfo, Duration::from_secs(30));
        assert_eq!(take(&limits, &team("T2"), Method::FilesInfo, 1).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_slack_holds_back_waits_or_says_for_how_long() {
        let limits = MethodLimits::new();
        let team_1 = team("T1");
        limits.hold(Some(&team_1), Method::FilesInfo, Duration::from_secs(30));
        // A shorter pause does not cut the longer one.
        limits.hold(Some(&team_1), Method::FilesInfo, Duration::from_secs(1));
        assert_eq!(take(&limits, &team_1, Method::FilesInfo, 2).await, Duration::from_secs(30));

        limits.hold(Some(&team_1), Method::FilesInfo, Duration::from_secs(90));
        let refused = limits.permit(Some(&team_1), Method::FilesInfo, TIMEOUT).await;
        assert_eq!(refused, Err(Duration::from_secs(90)));

        limits.hold(Some(&team_1), Method::FilesInfo, Duration::MAX);
        let refused = limits.permit(Some(&team_1), Method::FilesInfo, TIMEOUT).await;
        assert_eq!(refused, Err(LONGEST_HOLD));
    }
}
