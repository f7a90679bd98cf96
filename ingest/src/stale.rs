//! Requests that Slack signed and that came too early or too late by this machine's clock. They are refused, and what they
//! brought is missing: workers make a gap of the time that is told here.
//!
//! A client that recorded one request can send it again and again, so what is kept and what is told is bounded: a fact a
//! minute, from the last event that was taken before to the last time that was noted since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::queue::Queue;
use ports::queue::route::{Route, happened, refused, route};
use slack::envelope::Envelope;
use slack::event::EventHeader;
use slack::ids::{TeamId, Ts};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// One fact in this time, by the monotonic clock: the other one is what is wrong.
const PERIOD: Duration = Duration::from_secs(60);

/// The first fact is waited for, but no longer than this: a function is frozen once it has answered, and Slack waits for
/// the answer of a server.
const MOMENT: Duration = Duration::from_millis(500);

/// Times of one workspace that are at most so far apart become one: an old request that is sent again must not stretch
/// what is missing now.
const TOGETHER_MICROS: i64 = 3_600 * 1_000_000;

/// Times that wait to be told.
const MAX_SPANS: usize = 16;

/// Workspaces of which the last event is known. Of more than that, a gap begins with the first refused request.
const MAX_TEAMS: usize = 10_000;

/// Slack delivers an event again for a day at most, with *Delayed Events*.
const LATEST_DELIVERY_MICROS: i64 = 26 * 3_600 * 1_000_000;

/// The workspace that misses a refused request, and when by Slack's clock the event in it happened. Nothing if nothing of
/// it would have been kept. The signature must have been found right: this parses the body.
///
/// The event's own time is what is missing from the archive. It counts as far as the request can have brought it; beyond
/// that, and if it has none, the second in which Slack signed the request stands for it.
pub(crate) fn missing(signed_s: &str, body: &[u8]) -> Option<(TeamId, Ts)> {
    let envelope = Envelope::peek(body).ok()?;
    if matches!(envelope.kind.as_deref(), Some("url_verification" | "ssl_check")) {
        return None;
    }
    let team = TeamId::parse(envelope.team_id.as_deref()?).ok()?;
    if route(&envelope, std::str::from_utf8(body).ok()?) == Route::DirectMessage {
        return None;
    }
    let signed = Ts::parse(&format!("{signed_s}.000000")).ok()?;
    let event = envelope.event.map(EventHeader::read).unwrap_or_default();
    let happened = happened(&envelope, &event);
    let delivered_after = |happened: &Ts| signed.micros() - happened.micros();
    // A second has no fractions: what happened within it may seem to be later.
    let credible = |happened: &Ts| (-1_000_000..=LATEST_DELIVERY_MICROS).contains(&delivered_after(happened));
    Some((team, happened.filter(credible).unwrap_or(signed)))
}

/// The times of refused requests that workers have not been told of.
pub(crate) struct StaleTimes {
    queue: Arc<dyn Queue>,
    time_limit: Duration,
    waiting: Mutex<UnreportedSpans>,
    /// The last event that was taken of each workspace.
    taken: Mutex<HashMap<TeamId, Ts>>,
}

#[derive(Default)]
struct UnreportedSpans {
    spans: Vec<StaleSpan>,
    /// Whether a task reports them.
    telling: bool,
    /// Times for which there was no room since the last fact.
    left_out: u64,
}

/// From the last event that was taken before the first refused request to the last such request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StaleSpan {
    team: TeamId,
    from: Ts,
    to: Ts,
}

impl StaleTimes {
    /// Facts go to this queue, which may take `time_limit` for each.
    pub(crate) fn told_to(queue: Arc<dyn Queue>, time_limit: Duration) -> Self {
        Self { queue, time_limit, waiting: Mutex::default(), taken: Mutex::default() }
    }

    /// Notes that an event of this time was taken: what is refused later was not missing until then.
    pub(crate) fn took(&self, team: TeamId, at: Ts) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = taken.len() < MAX_TEAMS;
        match taken.get_mut(&team) {
            Some(last) if *last < at => *last = at,
            None if has_room => drop(taken.insert(team, at)),
            Some(_) | None => {}
        }
    }

    /// When what is missing begins, if something of this time is: with the last event that was taken before.
    fn missing_since(&self, team: &TeamId, at: &Ts) -> Ts {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.get(team).filter(|last| *last < at).unwrap_or(at).clone()
    }

    /// Notes a time. The first fact of a minute is on the queue when this returns, unless the queue is slow.
    pub(crate) async fn note(self: &Arc<Self>, team: TeamId, at: Ts) {
        let begins = {
            let from = self.missing_since(&team, &at);
            let mut waiting = self.waiting();
            waiting.add(StaleSpan { team, from, to: at });
            !std::mem::replace(&mut waiting.telling, true)
        };
        if begins {
            let (told, first) = oneshot::channel();
            tokio::spawn(Arc::clone(self).tell(told));
            // Slow or not, the fact is on its way.
            drop(timeout(MOMENT, first).await);
        }
    }

    /// Reports one span a minute until none waits. A process that ends before that leaves the rest to the downtime
    /// between its last event and the next one's first.
    async fn tell(self: Arc<Self>, told: oneshot::Sender<()>) {
        let mut told = Some(told);
        while let Some(span) = self.next() {
            let StaleSpan { team, from, to } = &span;
            let sent = timeout(self.time_limit, self.queue.send(vec![refused(team, from, to)])).await;
            if !sent.is_ok_and(|results| !results.is_empty() && results.iter().all(Result::is_ok)) {
                tracing::warn!(%team, %from, %to, "failed to queue the gap of refused requests; will retry");
                self.waiting().add(span);
            }
            if let Some(told) = told.take() {
                // The request that waited may be answered already.
                let _: Result<(), ()> = told.send(());
            }
            sleep(PERIOD).await;
        }
    }

    fn next(&self) -> Option<StaleSpan> {
        let mut waiting = self.waiting();
        if waiting.spans.is_empty() {
            waiting.telling = false;
            return None;
        }
        let left_out = std::mem::take(&mut waiting.left_out);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "too many workspaces with refused requests: their gaps are not recorded"
            );
        }
        Some(waiting.spans.remove(0))
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, UnreportedSpans> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnreportedSpans {
    /// Adds a span to what it is near to. If there is no room for another one, any of its workspace takes it in.
    fn add(&mut self, span: StaleSpan) {
        let has_room = self.spans.len() < MAX_SPANS;
        let mut own = self.spans.iter_mut().filter(|known| known.team == span.team);
        if let Some(known) = own.find(|known| !has_room || known.is_near(&span)) {
            known.from = known.from.clone().min(span.from);
            known.to = known.to.clone().max(span.to);
        } else if has_room {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}

impl StaleSpan {
    fn is_near(&self, other: &Self) -> bool {
        other.from.micros() - self.to.micros() <= TOGETHER_MICROS
            && self.from.micros() - other.to.micros() <= TOGETHER_MICROS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(second: i64) -> Ts {
        Ts::parse(&format!("{second}.000000")).unwrap()
    }

    fn span(team: &str, from: i64, to: i64) -> StaleSpan {
        StaleSpan { team: TeamId::parse(team).unwrap(), from: ts(from), to: ts(to) }
    }

    #[test]
    fn the_events_own_time_is_missing_as_far_as_it_is_credible() {
        let at = |event: &str| {
            let body = format!(
                r#"{{"type":"event_callback","team_id":"T1","event_time":1700000009,"event":{event}}}"#
            );
            missing("1700000010", body.as_bytes()).map(|(_, at)| at.to_string())
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
    fn what_names_no_workspace_or_brings_nothing_is_not_missing() {
        for body in [
            r#"{"type":"url_verification","team_id":"T1","challenge":"c"}"#,
            r#"{"type":"event_callback","event":{}}"#,
            r#"{"type":"event_callback","team_id":"t#","event":{}}"#,
            "ssl_check=1",
            "{",
        ] {
            assert_eq!(missing("1700000010", body.as_bytes()), None, "{body}");
        }
        assert!(missing("1700000010", br#"{"type":"app_rate_limited","team_id":"T1"}"#).is_some());
        assert_eq!(missing("99999999999999999", br#"{"type":"x","team_id":"T1"}"#), None);
    }

    #[test]
    fn times_that_are_near_become_one_and_an_old_one_stays_by_itself() {
        let mut waiting = UnreportedSpans::default();
        for at in [10_000, 10_500, 9_000, 900_000, 13_000] {
            waiting.add(span("T1", at, at));
        }
        waiting.add(span("T2", 10_000, 10_000));
        let expected = [span("T1", 9_000, 13_000), span("T1", 900_000, 900_000), span("T2", 10_000, 10_000)];
        assert_eq!(waiting.spans, expected);
    }

    #[test]
    fn what_waits_is_bounded_and_no_workspace_is_forgotten_for_it() {
        let mut waiting = UnreportedSpans::default();
        for day in 0..100 {
            waiting.add(span("T1", day * 86_400, day * 86_400));
        }
        assert_eq!(waiting.spans.len(), MAX_SPANS);
        assert!(waiting.spans.contains(&span("T1", 0, 99 * 86_400)));
        waiting.add(span("T2", 5, 5));
        assert_eq!((waiting.spans.len(), waiting.left_out), (MAX_SPANS, 1));
    }
}
