//! How often each method may be called, counted as Slack does: by method and workspace, over the last minute.
//! <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::{BTreeMap, VecDeque};

const MINUTE_MS: i64 = 60_000;

/// Limits, and the calls that count against them.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    per_minute: BTreeMap<String, usize>,
    lanes: BTreeMap<(String, String), LaneCount>,
}

/// One method of one workspace.
#[derive(Debug, Default)]
struct LaneCount {
    granted_ms: VecDeque<i64>,
    held_until_ms: i64,
}

impl RateLimits {
    pub(crate) fn set(&mut self, method: &str, per_minute: usize) {
        self.per_minute.insert(method.to_owned(), per_minute);
    }

    /// Whether Slack asked for a pause that is not over.
    pub(crate) fn is_held(&self, team: &str, method: &str, now_ms: i64) -> bool {
        let lane = self.lanes.get(&(team.to_owned(), method.to_owned()));
        lane.is_some_and(|lane| now_ms < lane.held_until_ms)
    }

    /// From now on a call before the end of this pause is an early one.
    pub(crate) fn hold(&mut self, team: &str, method: &str, until_ms: i64) {
        let lane = self.lane(team, method);
        lane.held_until_ms = lane.held_until_ms.max(until_ms);
    }

    /// Counts a call, or says after how many seconds the next one may come. `lowered` is a limit of the workspace's own.
    pub(crate) fn take(
        &mut self,
        team: &str,
        method: &str,
        now_ms: i64,
        lowered: Option<usize>,
    ) -> Result<(), i64> {
        let limit = self.per_minute.get(method).copied().into_iter().chain(lowered).min();
        let Some(limit) = limit else { return Ok(()) };
        let lane = self.lane(team, method);
        lane.granted_ms.retain(|at_ms| at_ms + MINUTE_MS > now_ms);
        if lane.granted_ms.len() < limit {
            lane.granted_ms.push_back(now_ms);
            return Ok(());
        }
        let next_ms = lane.granted_ms.front().map_or(MINUTE_MS, |first_ms| first_ms + MINUTE_MS - now_ms);
        Err((next_ms + 999) / 1_000)
    }

    fn lane(&mut self, team: &str, method: &str) -> &mut LaneCount {
        self.lanes.entry((team.to_owned(), method.to_owned())).or_default()
    }
}
