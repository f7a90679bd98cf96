//! The rate and the pauses of file requests to Slack, for each workspace.
//!
//! A job waits for the rate of its workspace. During a pause that Slack asked for, the job goes back to the queue
//! until the pause ends, so that the files of other workspaces do not wait behind it.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use ports::queue::MessageId;
use slack::ids::TeamId;
use slack_api::limits::RuntimeClock;
use tokio::time::{Instant, sleep, sleep_until};

/// The rate is smoothed over this fraction of a minute: that share of it may be requested at once.
const BURSTS_PER_MINUTE: u32 = 6;

/// Slack asks for about a minute. A longer pause is cut to this limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// From this number of workspaces on, those without a recent request are forgotten: twice as many as one
/// installation has. Requests need a token, so there are never more than tokens.
const MANY_TEAMS: usize = 1_000;

/// Maximum number of jobs whose postponements are remembered: more than a process receives during a pause. Of
/// further jobs, a postponement counts as a try.
const MAX_POSTPONED: usize = 10_000;

/// The permits of one worker.
pub(super) struct Permits {
    clock: RuntimeClock,
    limiter: RateLimiter<TeamId, HashMapStateStore<TeamId>, RuntimeClock, NoOpMiddleware<Nanos>>,
    state: Mutex<PermitState>,
}

#[derive(Default)]
struct PermitState {
    paused_until: HashMap<TeamId, Instant>,
    postponements: HashMap<MessageId, u32>,
}

impl PermitState {
    fn end_pauses(&mut self) {
        let now = Instant::now();
        self.paused_until.retain(|_, until| *until > now);
    }
}

impl Permits {
    /// Permits for this number of requests per minute and workspace.
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        let clock = RuntimeClock::default();
        let burst = NonZeroU32::new(per_minute.get() / BURSTS_PER_MINUTE).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(per_minute).allow_burst(burst);
        let limiter = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Self { limiter, clock, state: Mutex::default() }
    }

    /// Must be called before each request: waits for the rate of the workspace. During a pause, returns its
    /// remaining length.
    pub(super) async fn request(&self, team: &TeamId) -> Result<(), Duration> {
        if self.limiter.len() >= MANY_TEAMS {
            self.limiter.retain_recent();
        }
        loop {
            if let Some(pause) = self.pause_left(team) {
                return Err(pause);
            }
            match self.limiter.check_key(team) {
                Ok(()) => return Ok(()),
                Err(not_until) => sleep(not_until.wait_time_from(self.clock.now())).await,
            }
        }
    }

    /// The remaining length of the workspace's pause, if there is one.
    pub(super) fn pause_left(&self, team: &TeamId) -> Option<Duration> {
        let until = self.lock().paused_until.get(team).copied()?;
        Some(until.saturating_duration_since(Instant::now())).filter(|pause| !pause.is_zero())
    }

    /// Pauses the requests of a workspace, because Slack asked for it.
    pub(super) fn pause(&self, team: &TeamId, pause: Duration) {
        let until = Instant::now() + pause.min(LONGEST_PAUSE);
        let mut state = self.lock();
        state.end_pauses();
        let known = state.paused_until.entry(team.clone()).or_insert(until);
        *known = until.max(*known);
    }

    /// Waits while as many workspaces as this are paused: their jobs stay on the queue.
    pub(super) async fn until_fewer_are_paused(&self, workspaces: usize) {
        loop {
            let first_end = {
                let mut state = self.lock();
                state.end_pauses();
                let all_paused = state.paused_until.len() >= workspaces.max(1);
                state.paused_until.values().min().copied().filter(|_| all_paused)
            };
            match first_end {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// How often this process postponed a job without a try.
    pub(super) fn postponements(&self, job: &MessageId) -> u32 {
        self.lock().postponements.get(job).copied().unwrap_or_default()
    }

    /// Records whether a job was postponed now, or has ended or was tried.
    pub(super) fn note_postponement(&self, job: &MessageId, postponed: bool, is_done: bool) {
        let mut state = self.lock();
        let has_room = state.postponements.len() < MAX_POSTPONED;
        match state.postponements.get_mut(job) {
            Some(_) if is_done => drop(state.postponements.remove(job)),
            Some(count) if postponed => *count += 1,
            None if postponed && has_room => drop(state.postponements.insert(job.clone(), 1)),
            Some(_) | None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        // Ignore poisoning: no change can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(per_minute: u32) -> Permits {
        Permits::new(NonZeroU32::new(per_minute).unwrap())
    }

    fn team(id: &str) -> TeamId {
        TeamId::parse(id).unwrap()
    }

    async fn requests(permits: &Permits, id: &str, requests: u32) -> Duration {
        let began = Instant::now();
        for _ in 0..requests {
            permits.request(&team(id)).await.unwrap();
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_files_take_the_time_the_rate_of_their_workspace_allows() {
        let permits = permits(600);
        // The first hundred at once, then ten a second, in each workspace.
        let (first, second) = tokio::join!(requests(&permits, "T1", 1_000), requests(&permits, "T2", 1_000));
        for took in [first, second] {
            assert!((89.5..=91.0).contains(&took.as_secs_f64()), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_applies_to_one_workspace_and_to_its_waiting_requests() {
        let permits = permits(6);
        requests(&permits, "T1", 1).await;
        let waiting_team = team("T1");
        let pause = async { permits.pause(&waiting_team, Duration::from_secs(30)) };
        let (waiting, ()) = tokio::join!(permits.request(&waiting_team), pause);
        assert_eq!(waiting, Err(Duration::from_secs(20)), "after its wait of 10 s for the rate");
        permits.pause(&team("T1"), Duration::from_secs(1));
        assert_eq!(permits.request(&team("T1")).await, Err(Duration::from_secs(20)));
        assert!(requests(&permits, "T2", 1).await.is_zero());
        sleep(Duration::from_secs(20)).await;
        requests(&permits, "T1", 1).await;
        permits.pause(&team("T1"), Duration::MAX);
        assert_eq!(permits.request(&team("T1")).await, Err(LONGEST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_stay_on_the_queue_only_while_every_workspace_is_paused() {
        let permits = permits(600);
        permits.pause(&team("T1"), Duration::from_secs(30));
        let wait = async |workspaces| {
            let began = Instant::now();
            permits.until_fewer_are_paused(workspaces).await;
            began.elapsed().as_secs()
        };
        assert_eq!(wait(2).await, 0);
        permits.pause(&team("T2"), Duration::from_secs(10));
        assert_eq!(wait(2).await, 10);
        assert_eq!((wait(1).await, wait(0).await), (20, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_workspaces_and_jobs_is_limited() {
        let permits = permits(600);
        for number in 0..MANY_TEAMS {
            requests(&permits, &format!("T{number}"), 1).await;
        }
        sleep(Duration::from_secs(10)).await;
        requests(&permits, "TLAST", 1).await;
        assert_eq!(permits.limiter.len(), 1);

        let id = |number: usize| MessageId(number.to_string());
        for number in 0..=MAX_POSTPONED {
            permits.note_postponement(&id(number), true, false);
        }
        permits.note_postponement(&id(7), true, false);
        let counts = [7, 8, MAX_POSTPONED].map(|number| permits.postponements(&id(number)));
        assert_eq!(counts, [2, 1, 0]);
        permits.note_postponement(&id(7), false, true);
        assert_eq!(permits.postponements(&id(7)), 0);
    }
}
