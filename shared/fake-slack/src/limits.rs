//! Rate limits, counted as Slack does: by method and workspace, over the last minute.
//! <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::{BTreeMap, VecDeque};

const MINUTE_MS: i64 = 60_000;

/// The limits and the calls that count against them.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    per_minute: BTreeMap<String, usize>,
    counts: BTreeMap<(String, String), CallCount>,
}

/// The calls of one method in one workspace.
#[derive(Debug, Default)]
struct CallCount {
    granted_ms: VecDeque<i64>,
    paused_until_ms: i64,
}

impl RateLimits {
    pub(crate) fn set(&mut self, method: &str, per_minute: usize) {
        self.per_minute.insert(method.to_owned(), per_minute);
    }

    /// Whether an earlier answer asked for a pause that is not over.
    pub(crate) fn is_paused(&self, team: &str, method: &str, now_ms: i64) -> bool {
        let count = self.counts.get(&(team.to_owned(), method.to_owned()));
        count.is_some_and(|count| now_ms < count.paused_until_ms)
    }

    /// Starts a pause: until its end, every call counts as early.
    pub(crate) fn pause(&mut self, team: &str, method: &str, until_ms: i64) {
        let count = self.count(team, method);
        count.paused_until_ms = count.paused_until_ms.max(until_ms);
    }

    /// Counts a call, or returns the number of seconds until the next call is allowed. `lowered` is a limit
    /// of the workspace.
    pub(crate) fn count_call(
        &mut self,
        team: &str,
        method: &str,
        now_ms: i64,
        lowered: Option<usize>,
    ) -> Result<(), i64> {
        let limit = self.per_minute.get(method).copied().into_iter().chain(lowered).min();
        let Some(limit) = limit else { return Ok(()) };
        let count = self.count(team, method);
        count.granted_ms.retain(|at_ms| at_ms + MINUTE_MS > now_ms);
        if count.granted_ms.len() < limit {
            count.granted_ms.push_back(now_ms);
            return Ok(());
        }
        let next_ms = count.granted_ms.front().map_or(MINUTE_MS, |first_ms| first_ms + MINUTE_MS - now_ms);
        Err((next_ms + 999) / 1_000)
    }

    fn count(&mut self, team: &str, method: &str) -> &mut CallCount {
        self.counts.entry((team.to_owned(), method.to_owned())).or_default()
    }
}
