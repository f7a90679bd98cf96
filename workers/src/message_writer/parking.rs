//! Parks events that do not show the visibility of their channel before anything else does: they wait in
//! a message group of their own, so that they block neither the messages they wait for nor each other.

use std::time::Duration;

use ports::clock::TimestampMs;
use ports::queue::{DedupId, Delivery, GroupId, Outgoing, QueueName};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// The suffix of such a group's name.
const WAITING: &str = "waiting";

/// The longest wait. Slack repeats failed deliveries after a minute and after five.
const LONGEST: Duration = Duration::from_secs(600);

/// The shortest and the longest retry delay; the longest is also that of a job that waits only for Slack.
const MIN_DELAY: Duration = Duration::from_secs(2);
pub(super) const MAX_DELAY: Duration = Duration::from_secs(60);

/// A copy of the job that waits in a group of its own: it waits for something else than the next one.
pub(super) fn park(job: &Delivery) -> Outgoing {
    let own = to_hex(&Sha256::digest(job.message_id.0.as_bytes())[..4]);
    Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&[job.group.as_str(), &own, WAITING]),
        // If the first copy is delivered again, it does not send another.
        dedup: DedupId::from_parts(&[b"waiting", job.message_id.0.as_bytes()]),
        body: job.body.clone(),
    }
}

/// Whether a job is already parked.
pub(super) fn is_parked(job: &Delivery) -> bool {
    job.group.as_str().rsplit_once('#').is_some_and(|(_, end)| end == WAITING)
}

/// The retry delay; `None` once the job has waited for long enough.
pub(super) fn next_delay(job: &Delivery, now: TimestampMs) -> Option<Duration> {
    let waited = now.since(job.sent_at);
    (waited < LONGEST).then(|| (waited / 2).clamp(MIN_DELAY, MAX_DELAY))
}

#[cfg(test)]
mod tests {
    use ports::queue::{MessageId, Receipt};

    use super::*;

    #[test]
    fn a_job_waits_in_its_own_group_for_ten_minutes() {
        let job = Delivery {
            message_id: MessageId("1".into()),
            group: GroupId::from_parts(&["T1", "C1"]),
            body: "{}".into(),
            receive_count: 1,
            sent_at: TimestampMs(1_000),
            receipt: Receipt("1".into()),
        };
        let sent = park(&job);
        assert_eq!((sent.group.as_str(), &sent.body), ("T1#C1#6b86b273#waiting", &job.body));
        let parked = Delivery { group: sent.group, ..job.clone() };
        assert!(is_parked(&parked) && !is_parked(&job));
        let after = |seconds: i64| next_delay(&parked, TimestampMs(1_000 + 1_000 * seconds));
        let delays: Vec<_> = [0, 10, 599, 600].map(after).into();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(delays, [seconds(2), seconds(5), seconds(60), None]);
    }
}
