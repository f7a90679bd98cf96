//! The state of the fake Slack, and the function that answers calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::answer::{SlackAnswer, refused};
use crate::limits::RateLimits;
use crate::paging::Paging;
use crate::workspace::FakeWorkspace;
use crate::{conversations, directory, posting};

/// Default of the maximum number of entries per page.
const PAGE: usize = 1_000;

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub method: String,
    /// The bearer token; empty if there was no token.
    pub token: String,
    /// The form parameters.
    pub parameters: BTreeMap<String, String>,
    /// The time of the call, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The status of the answer.
    pub status: u16,
    /// Whether the call came before the `Retry-After` of an earlier answer had passed.
    pub early: bool,
}

/// The workspaces by token, the calls so far, and the planned faults.
#[derive(Debug, Default)]
pub struct SlackState {
    /// [`PAGE`] if it was not set.
    page: Option<usize>,
    cursor_life: Option<Duration>,
    repeated_entries: usize,
    skips_entries: bool,
    workspaces: BTreeMap<String, FakeWorkspace>,
    answers: BTreeMap<String, VecDeque<SlackAnswer>>,
    refusals: BTreeMap<String, Value>,
    /// The number of next answers of a method that do not arrive.
    lost: BTreeMap<String, usize>,
    away: bool,
    limits: RateLimits,
    calls: Vec<Call>,
}

impl SlackState {
    /// Sets the workspace behind a token.
    pub fn set_workspace(&mut self, token: &str, workspace: FakeWorkspace) {
        self.workspaces.insert(token.to_owned(), workspace);
    }

    /// Refuses a token from now on.
    pub fn remove_workspace(&mut self, token: &str) {
        self.workspaces.remove(token);
    }

    /// Returns the workspace behind a token.
    #[must_use]
    pub fn workspace(&mut self, token: &str) -> Option<&mut FakeWorkspace> {
        self.workspaces.get_mut(token)
    }

    /// Sets the maximum number of entries per page, even if the caller asks for more.
    pub fn set_page_size(&mut self, entries: usize) {
        self.page = Some(entries);
    }

    pub fn set_cursor_lifetime(&mut self, life: Duration) {
        self.cursor_life = Some(life);
    }

    /// Makes each later page begin with this number of entries of the page before it.
    pub fn repeat_entries(&mut self, entries: usize) {
        self.repeated_entries = entries;
    }

    /// Makes each page of channels and people but the first skip an entry, or ends that.
    pub fn skip_entries(&mut self, skips: bool) {
        self.skips_entries = skips;
    }

    /// Limits the calls of a method per minute and workspace.
    pub fn set_rate_limit(&mut self, method: &str, per_minute: usize) {
        self.limits.set(method, per_minute);
    }

    /// Plans the next answers of a method. After them it answers normally.
    pub fn plan_answers(&mut self, method: &str, answers: impl IntoIterator<Item = SlackAnswer>) {
        self.answers.entry(method.to_owned()).or_default().extend(answers);
    }

    /// Removes the planned answers of a method.
    pub fn clear_planned_answers(&mut self, method: &str) {
        self.answers.remove(method);
    }

    /// Performs the next `count` calls of a method but loses their answers: the caller receives 504.
    pub fn lose_answers(&mut self, method: &str, count: usize) {
        *self.lost.entry(method.to_owned()).or_default() += count;
    }

    /// Makes a method return this answer from now on.
    pub fn set_refusal(&mut self, method: &str, answer: Value) {
        self.refusals.insert(method.to_owned(), answer);
    }

    /// Makes every method return 503 from now on, or ends that.
    pub fn set_away(&mut self, away: bool) {
        self.away = away;
    }

    /// Returns every call so far.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Forgets the calls so far: a long simulation makes millions.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Returns how often a method was called.
    pub fn call_count(&self, method: &str) -> usize {
        self.calls.iter().filter(|call| call.method == method).count()
    }

    /// Answers a call at this time, in milliseconds since the Unix epoch, and records it.
    pub fn answer(
        &mut self,
        method: &str,
        token: &str,
        parameters: BTreeMap<String, String>,
        now_ms: i64,
    ) -> SlackAnswer {
        let team = self.workspaces.get(token).map_or_else(String::new, |workspace| workspace.team.clone());
        let early = self.limits.is_paused(&team, method, now_ms);
        let answer = self.decide(method, token, &parameters, &team, now_ms);
        if let Some(pause_s) = answer.header("retry-after").and_then(|pause| pause.parse::<i64>().ok()) {
            self.limits.pause(&team, method, now_ms.saturating_add(pause_s.saturating_mul(1_000)));
        }
        let (method, token) = (method.to_owned(), token.to_owned());
        self.calls.push(Call { method, token, parameters, at_ms: now_ms, status: answer.status, early });
        answer
    }

    fn decide(
        &mut self,
        method: &str,
        token: &str,
        parameters: &BTreeMap<String, String>,
        team: &str,
        now_ms: i64,
    ) -> SlackAnswer {
        if self.away {
            return SlackAnswer::new(503);
        }
        let lowered = self.workspaces.get(token).and_then(|workspace| workspace.calls_per_minute(method));
        let planned = self.answers.get_mut(method).and_then(VecDeque::pop_front);
        let answer = match planned {
            Some(planned) => planned,
            None => match self.limits.count_call(team, method, now_ms, lowered) {
                Err(retry_after_s) => SlackAnswer::rate_limited(retry_after_s),
                Ok(()) => SlackAnswer::json(&self.call(method, token, parameters, now_ms)),
            },
        };
        let answer = match self.lost.get_mut(method) {
            Some(count @ 1..) => {
                *count -= 1;
                SlackAnswer::new(504)
            }
            Some(0) | None => answer,
        };
        let answer = match self.workspaces.get(token).and_then(|workspace| workspace.answer_delay) {
            Some(delay) => answer.with_delay(delay),
            None => answer,
        };
        let answer = answer.with_header("date", &http_date(now_ms));
        match self.workspaces.get(token).map(|workspace| workspace.scopes.join(",")) {
            Some(scopes) if !scopes.is_empty() => answer.with_header("x-oauth-scopes", &scopes),
            Some(_) | None => answer,
        }
    }

    fn call(
        &mut self,
        method: &str,
        token: &str,
        parameters: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Value {
        let paging = Paging {
            max_entries: self.page.unwrap_or(PAGE),
            cursor_life_ms: self.cursor_life.and_then(|life| i64::try_from(life.as_millis()).ok()),
            now_ms,
            repeated_entries: self.repeated_entries,
            skips_entries: self.skips_entries,
        };
        let Some(workspace) = self.workspaces.get_mut(token) else { return refused("invalid_auth") };
        if let Some(refusal) = self.refusals.get(method) {
            return refusal.clone();
        }
        let parameter = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        match method {
            "conversations.history" => {
                conversations::history(workspace, &parameter, paging, self.calls.len())
            }
            "conversations.replies" => {
                conversations::replies(workspace, &parameter, paging, self.calls.len())
            }
            "chat.postMessage" => posting::post(workspace, &parameter, now_ms),
            _ => directory::answer(workspace, method, &parameter, paging),
        }
    }
}

/// Formats a time for the `Date` header.
fn http_date(now_ms: i64) -> String {
    let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn slack() -> SlackState {
        let mut slack = SlackState::default();
        slack.set_workspace("xoxb-1", FakeWorkspace::with_size("T1", 9, 2));
        slack
    }

    fn ask(slack: &mut SlackState, method: &str, parameters: &[(&str, &str)], now_ms: i64) -> SlackAnswer {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        slack.answer(method, "xoxb-1", parameters.collect(), now_ms)
    }

    #[test]
    fn every_channel_is_on_exactly_one_page() {
        let mut slack = slack();
        slack.set_page_size(4);
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let answer = ask(&mut slack, "conversations.list", &[("cursor", &cursor)], NOW_MS).value();
            seen.extend(
                answer["channels"].as_array().unwrap().iter().map(|channel| channel["id"].to_string()),
            );
            cursor = answer["response_metadata"]["next_cursor"].as_str().unwrap().to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!((seen.len(), slack.call_count("conversations.list")), (9, 3));
        let wrong = ask(&mut slack, "conversations.list", &[("cursor", "x")], NOW_MS);
        assert_eq!(wrong.value()["error"], "invalid_cursor");
    }

    #[test]
    fn a_joined_channel_has_the_app_as_member_and_an_archived_one_cannot_be_joined() {
        let mut slack = slack();
        let workspace = slack.workspace("xoxb-1").unwrap();
        workspace.channels[3]["is_archived"] = true.into();
        workspace.channels[4]["is_member"] = false.into();
        let mut join = |id: &str| ask(&mut slack, "conversations.join", &[("channel", id)], NOW_MS).value();
        assert_eq!(join("C00004")["ok"], true);
        assert_eq!(join("C00003")["error"], "is_archived");
        assert_eq!(join("C77")["error"], "channel_not_found");
        let workspace = slack.workspace("xoxb-1").unwrap();
        assert_eq!(workspace.joined.len(), 1);
        assert_eq!(workspace.channels[4]["is_member"], true);
    }

    #[test]
    fn a_workspace_that_knows_every_id_does_not_know_the_unknown_ones() {
        let mut slack = slack();
        let workspace = slack.workspace("xoxb-1").unwrap();
        workspace.knows_every_id = true;
        workspace.unknown.insert("U9".into());
        let mut user = |id: &str| ask(&mut slack, "users.info", &[("user", id)], NOW_MS).value();
        assert_eq!(user("U8")["user"]["id"], "U8");
        assert_eq!(user("U9")["error"], "user_not_found");
        assert_eq!(user("U00001")["user"]["name"], "person-1");
    }

    #[test]
    fn a_call_beyond_the_limit_returns_the_seconds_until_the_next_one() {
        let mut slack = slack();
        slack.set_rate_limit("team.info", 2);
        for (at_s, status, pause) in [
            (0, 200, None),
            (10, 200, None),
            (20, 429, Some("40")),
            (60, 200, None),
            (61, 429, Some("9")),
            (69, 429, Some("1")),
            (70, 200, None),
        ] {
            let answer = ask(&mut slack, "team.info", &[], NOW_MS + at_s * 1_000);
            assert_eq!((answer.status, answer.header("retry-after")), (status, pause), "after {at_s} s");
        }
        let early: Vec<i64> = slack.calls().iter().filter(|call| call.early).map(|call| call.at_ms).collect();
        assert_eq!(early, [NOW_MS + 69_000]);
        assert_eq!(ask(&mut slack, "users.list", &[], NOW_MS).status, 200, "each method has its own limit");
    }

    #[test]
    fn planned_answers_come_first_and_every_answer_has_a_date() {
        let mut slack = slack();
        slack.plan_answers("team.info", [SlackAnswer::new(500)]);
        let answer = ask(&mut slack, "team.info", &[], NOW_MS);
        assert_eq!((answer.status, answer.header("date")), (500, Some("Tue, 14 Nov 2023 22:13:20 GMT")));
        assert_eq!(ask(&mut slack, "team.info", &[], NOW_MS).value()["team"]["id"], "T1");
        slack.set_away(true);
        assert_eq!(ask(&mut slack, "team.info", &[], NOW_MS).status, 503);
        slack.set_away(false);
        let stranger = slack.answer("team.info", "xoxb-2", BTreeMap::new(), NOW_MS);
        assert_eq!(stranger.value()["error"], "invalid_auth");
        let statuses: Vec<u16> = slack.calls().iter().map(|call| call.status).collect();
        assert_eq!(statuses, [500, 200, 503, 200]);
    }
}
