//! Requests that Slack signed and ingest refuses: the timestamp is too early or too late by this machine's
//! clock, or Slack retries for the last time and the event cannot be queued. Their events are missing: this
//! module reports the interval to the workers, which record a gap.
//!
//! A client can replay a recorded request any number of times, so both memory and reports are limited: one
//! fact per minute and workspace, from the last event accepted before to the last refused time since.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::queue::Queue;
use ports::queue::route::{Route, event_time, refused_span_message, route};
use slack::envelope::Envelope;
use slack::event::EventHeader;
use slack::ids::{TeamId, Ts};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// The interval between two facts of a workspace, by the monotonic clock, since the wall clock may be wrong.
const FACT_INTERVAL: Duration = Duration::from_secs(60);

/// The maximum wait for the first fact of a workspace to be sent. A wait is needed because a function is frozen once it has
/// responded; it is limited because Slack waits for the response: with the queue's timeout before it, it must
/// stay below 3 s.
const FIRST_FACT_WAIT: Duration = Duration::from_millis(500);

/// The maximum time for the facts that still wait when ingest stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum distance at which two spans of a workspace are merged: a replayed old request must not extend
/// the current gap.
const MERGE_DISTANCE_MICROS: i64 = 3_600 * 1_000_000;

/// The maximum number of spans of a workspace that wait to be reported.
const MAX_SPANS: usize = 16;

/// The maximum number of workspaces whose spans wait: twice as many as one installation has. Another one must wait
/// until one of them has reported everything.
const MAX_WAITING_TEAMS: usize = 1_000;

/// The maximum number of workspaces whose last event is remembered. For others, a gap starts with the first
/// refused request.
const MAX_TEAMS: usize = 10_000;

/// The maximum age of a delivery: Slack retries an event for a day at most, with *Delayed Events*.
const LATEST_DELIVERY_MICROS: i64 = 26 * 3_600 * 1_000_000;

/// The workspace of a refused request, and the time of its event by Slack's clock. `None` if the event would
/// not have been stored. Call it only after the signature was verified, since it parses the body.
///
/// The event's own time is missing from the archive. If the event has no time, or one that is not plausible
/// for this request, the second in which Slack signed the request replaces it.
pub(crate) fn missing_event(signed_s: &str, body: &[u8]) -> Option<(TeamId, Ts)> {
    missing_event_at(&Ts::parse(&format!("{signed_s}.000000")).ok()?, body)
}

/// The same for an event that Slack sent in this second.
pub(crate) fn missing_event_at(signed: &Ts, body: &[u8]) -> Option<(TeamId, Ts)> {
    let envelope = Envelope::peek(body).ok()?;
    if matches!(envelope.kind.as_deref(), Some("url_verification" | "ssl_check")) {
        return None;
    }
    let team = envelope.workspace()?;
    if route(&envelope, std::str::from_utf8(body).ok()?) == Route::DirectMessage {
        return None;
    }
    let event = envelope.event.map(EventHeader::read).unwrap_or_default();
    let happened = event_time(&envelope, &event);
    let delivered_after = |happened: &Ts| signed.micros() - happened.micros();
    // The signing time has no fraction, so an event within the same second may appear to be later.
    let credible = |happened: &Ts| (-1_000_000..=LATEST_DELIVERY_MICROS).contains(&delivered_after(happened));
    Some((team, happened.filter(credible).unwrap_or_else(|| signed.clone())))
}

/// The times of refused requests that have not been reported to workers.
pub(crate) struct RefusedTimes {
    queue: Arc<dyn Queue>,
    time_limit: Duration,
    waiting: Mutex<UnreportedSpans>,
    /// Held by each task that sends a span, which is not among the waiting ones then.
    sending: tokio::sync::RwLock<()>,
    /// The time of the last accepted event of each workspace.
    accepted: Mutex<HashMap<TeamId, Ts>>,
}

/// The workspaces with spans that wait, each with a task that reports them.
#[derive(Default)]
struct UnreportedSpans {
    teams: HashMap<TeamId, Vec<RefusedSpan>>,
    /// Times that were dropped for lack of room since the last fact.
    left_out: u64,
}

/// The interval from the last event accepted before the first refused request to the last refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RefusedSpan {
    team: TeamId,
    from: Ts,
    to: Ts,
}

impl RefusedTimes {
    /// Sends facts to this queue, with `time_limit` for each.
    pub(crate) fn new(queue: Arc<dyn Queue>, time_limit: Duration) -> Self {
        Self {
            queue,
            time_limit,
            waiting: Mutex::default(),
            sending: tokio::sync::RwLock::default(),
            accepted: Mutex::default(),
        }
    }

    /// Records that an event with this time was accepted: a later gap cannot start before it.
    pub(crate) fn record_accepted(&self, team: TeamId, at: Ts) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = accepted.len() < MAX_TEAMS;
        match accepted.get_mut(&team) {
            Some(last) if *last < at => *last = at,
            None if has_room => drop(accepted.insert(team, at)),
            Some(_) | None => {}
        }
    }

    /// The workspaces of accepted events.
    pub(crate) fn accepted_teams(&self) -> std::collections::BTreeSet<TeamId> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// When a gap that contains this time starts: at the last event that was accepted before it.
    fn missing_since(&self, team: &TeamId, at: &Ts) -> Ts {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.get(team).filter(|last| *last < at).unwrap_or(at).clone()
    }

    /// Records the time of a refused request. The first fact of a workspace is on the queue when this returns,
    /// unless the queue is slow.
    pub(crate) async fn record_refused(self: &Arc<Self>, team: TeamId, at: Ts) {
        let from = self.missing_since(&team, &at);
        let starts_reporting = self.waiting().add(RefusedSpan { team: team.clone(), from, to: at });
        if starts_reporting {
            let (first_sent, first) = oneshot::channel();
            tokio::spawn(Arc::clone(self).report(team, first_sent));
            // Even after a timeout, the task sends the fact.
            drop(timeout(FIRST_FACT_WAIT, first).await);
        }
    }

    /// Reports one span of a workspace per minute until none is left. A process that is killed loses those that
    /// wait.
    async fn report(self: Arc<Self>, team: TeamId, first_sent: oneshot::Sender<()>) {
        let mut first_sent = Some(first_sent);
        while self.report_next(&team).await {
            if let Some(first_sent) = first_sent.take() {
                // The waiting request may have been answered already.
                let _: Result<(), ()> = first_sent.send(());
            }
            sleep(FACT_INTERVAL).await;
        }
    }

    /// Reports a span of a workspace, and returns whether there was one.
    async fn report_next(&self, team: &TeamId) -> bool {
        let _sending = self.sending.read().await;
        let Some(span) = self.next(team) else { return false };
        self.send(vec![span]).await;
        true
    }

    /// Reports everything that waits. Call it when no request can be refused any more, and before the queue
    /// is closed.
    pub(crate) async fn drain(&self) {
        let all_sent = timeout(DRAIN_TIMEOUT, async {
            let _sending = self.sending.write().await;
            let spans: Vec<_> = self.waiting().teams.values_mut().flat_map(std::mem::take).collect();
            if !spans.is_empty() {
                self.send(spans).await;
            }
        });
        if all_sent.await.is_err() {
            tracing::warn!("the queue did not accept the gaps of refused requests in time");
        }
    }

    /// Sends spans to the queue. Those that it does not accept wait again.
    async fn send(&self, spans: Vec<RefusedSpan>) {
        let facts = spans.iter().map(|RefusedSpan { team, from, to }| refused_span_message(team, from, to));
        let sent = timeout(self.time_limit, self.queue.send(facts.collect())).await.unwrap_or_default();
        for (index, span) in spans.into_iter().enumerate() {
            if !sent.get(index).is_some_and(Result::is_ok) {
                let RefusedSpan { team, from, to } = &span;
                tracing::warn!(%team, %from, %to, "failed to queue the gap of refused requests");
                self.waiting().add(span);
            }
        }
    }

    /// The next span of a workspace. After the last one, the workspace no longer has a task.
    fn next(&self, team: &TeamId) -> Option<RefusedSpan> {
        let mut waiting = self.waiting();
        let left_out = std::mem::take(&mut waiting.left_out);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "too many workspaces with refused requests: their gaps are not recorded"
            );
        }
        let Some(spans) = waiting.teams.get_mut(team).filter(|spans| !spans.is_empty()) else {
            waiting.teams.remove(team);
            return None;
        };
        Some(spans.remove(0))
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, UnreportedSpans> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnreportedSpans {
    /// Merges a span into one near it; if there is no room for a new span, into any span of its workspace.
    /// Returns whether the workspace needs a task.
    fn add(&mut self, span: RefusedSpan) -> bool {
        let has_room = self.teams.len() < MAX_WAITING_TEAMS;
        match self.teams.entry(span.team.clone()) {
            Entry::Occupied(mut known) => {
                merge(known.get_mut(), span);
                false
            }
            Entry::Vacant(new) if has_room => {
                new.insert(vec![span]);
                true
            }
            Entry::Vacant(_) => {
                self.left_out += 1;
                false
            }
        }
    }
}

fn merge(spans: &mut Vec<RefusedSpan>, span: RefusedSpan) {
    let has_room = spans.len() < MAX_SPANS;
    match spans.iter_mut().find(|known| !has_room || known.is_near(&span)) {
        Some(known) => {
            known.from = known.from.clone().min(span.from);
            known.to = known.to.clone().max(span.to);
        }
        None => spans.push(span),
    }
}

impl RefusedSpan {
    fn is_near(&self, other: &Self) -> bool {
        other.from.micros() - self.to.micros() <= MERGE_DISTANCE_MICROS
            && self.from.micros() - other.to.micros() <= MERGE_DISTANCE_MICROS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(second: i64) -> Ts {
        Ts::parse(&format!("{second}.000000")).unwrap()
    }

    fn span(team: &str, from: i64, to: i64) -> RefusedSpan {
        RefusedSpan { team: TeamId::parse(team).unwrap(), from: ts(from), to: ts(to) }
    }

    #[test]
    fn the_events_own_time_is_missing_if_it_is_credible() {
        let at = |event: &str| {
            let body = format!(
                r#"{{"type":"event_callback","team_id":"T1","event_time":1700000009,"event":{event}}}"#
            );
            missing_event("1700000010", body.as_bytes()).map(|(_, at)| at.to_string())
        };
        assert_eq!(
            at(r#"{"type":"message","channel":"C1","event_ts":"1700000008.000100"}"#).unwrap(),
            "1700000008.000100"
        );
        assert_eq!(
            at(r#"{"type":"message","channel":"C1","event_ts":"1700000010.900000"}"#).unwrap(),
            "1700000010.900000"
        );
        assert_eq!(at(r#"{"type":"team_rename"}"#).unwrap(), "1700000009.000000");
        for odd in ["5.000000", "999999999999.000000"] {
            assert_eq!(
                at(&format!(r#"{{"type":"x","event_ts":"{odd}"}}"#)).unwrap(),
                "1700000010.000000",
                "{odd}"
            );
        }
        assert_eq!(at(r#"{"type":"message","channel":"D1"}"#), None);
    }

    #[test]
    fn a_request_without_a_workspace_or_an_event_is_not_missing() {
        for body in [
            r#"{"type":"url_verification","team_id":"T1","challenge":"c"}"#,
            r#"{"type":"event_callback","event":{}}"#,
            r#"{"type":"event_callback","team_id":"t#","event":{}}"#,
            "ssl_check=1",
            "{",
        ] {
            assert_eq!(missing_event("1700000010", body.as_bytes()), None, "{body}");
        }
        assert!(missing_event("1700000010", br#"{"type":"app_rate_limited","team_id":"T1"}"#).is_some());
        assert_eq!(missing_event("99999999999999999", br#"{"type":"x","team_id":"T1"}"#), None);
    }

    #[test]
    fn near_spans_are_merged_and_an_old_one_stays_separate() {
        let mut waiting = UnreportedSpans::default();
        for at in [10_000, 10_500, 9_000, 900_000, 13_000] {
            waiting.add(span("T1", at, at));
        }
        waiting.add(span("T2", 10_000, 10_000));
        let spans_of = |team: &str| &waiting.teams[&TeamId::parse(team).unwrap()];
        assert_eq!(*spans_of("T1"), [span("T1", 9_000, 13_000), span("T1", 900_000, 900_000)]);
        assert_eq!(*spans_of("T2"), [span("T2", 10_000, 10_000)]);
    }

    #[test]
    fn the_number_of_waiting_spans_is_limited_and_full_spans_are_merged() {
        let mut waiting = UnreportedSpans::default();
        for day in 0..100 {
            waiting.add(span("T1", day * 86_400, day * 86_400));
        }
        let spans = &waiting.teams[&TeamId::parse("T1").unwrap()];
        assert_eq!(spans.len(), MAX_SPANS);
        assert!(spans.contains(&span("T1", 0, 99 * 86_400)));
        for number in 2..=MAX_WAITING_TEAMS {
            assert!(waiting.add(span(&format!("T{number}"), 5, 5)), "T{number} has room beside T1");
        }
        assert!(!waiting.add(span("T0", 5, 5)));
        assert!(!waiting.add(span("T2", 6, 6)));
        assert_eq!((waiting.teams.len(), waiting.left_out), (MAX_WAITING_TEAMS, 1));
    }
}
