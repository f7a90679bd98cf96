//! Events that do not say who may read their channel, and come before anything else does: they wait in a message group of
//! their own, beside their channel's, so that they hold up nothing of what they wait for.

use std::time::Duration;

use ports::clock::TimestampMs;
use ports::queue::{DedupId, Delivery, GroupId, Outgoing, QueueName};

/// The end of such a group's name.
const WAITING: &str = "waiting";

/// How long an event waits at most. Slack delivers what it could not deliver again after a minute and after five.
const LONGEST: Duration = Duration::from_secs(600);

/// The shortest and the longest wait between two looks.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const LAST_LOOK: Duration = Duration::from_secs(60);

/// The job, as it waits beside its group.
pub(super) fn aside(job: &Delivery) -> Outgoing {
    Outgoing {
        queue: QueueName::Events,
        group: GroupId::of(&[job.group.as_str(), WAITING]),
        // If the first copy is delivered again, it sends no other.
        dedup: DedupId::of(&[b"waiting", job.message_id.0.as_bytes()]),
        body: job.body.clone(),
    }
}

/// Whether a job waits beside its group already.
pub(super) fn is_aside(job: &Delivery) -> bool {
    job.group.as_str().rsplit_once('#').is_some_and(|(_, end)| end == WAITING)
}

/// When to look again; `None` once it has waited for long enough.
pub(super) fn next_look(job: &Delivery, now: TimestampMs) -> Option<Duration> {
    let waited = now.since(job.sent_at);
    (waited < LONGEST).then(|| (waited / 2).clamp(FIRST_LOOK, LAST_LOOK))
}

/// When to look again if only Slack is waited for.
pub(super) fn last_look() -> Duration {
    LAST_LOOK
}

#[cfg(test)]
mod tests {
    use ports::queue::{MessageId, Receipt};

    use super::*;

    #[test]
    fn a_job_waits_in_a_group_of_its_own_for_ten_minutes() {
        let job = Delivery {
            message_id: MessageId("1".into()),
            group: GroupId::of(&["T1", "C1"]),
            body: "{}".into(),
            receive_count: 1,
            sent_at: TimestampMs(1_000),
            receipt: Receipt("1".into()),
        };
        let sent = aside(&job);
        assert_eq!((sent.group.as_str(), &sent.body), ("T1#C1#waiting", &job.body));
        let parked = Delivery { group: sent.group, ..job.clone() };
        assert!(is_aside(&parked) && !is_aside(&job));
        let after = |seconds: i64| next_look(&parked, TimestampMs(1_000 + 1_000 * seconds));
        let looks: Vec<_> = [0, 10, 599, 600].map(after).into();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(looks, [seconds(2), seconds(5), seconds(60), None]);
    }
}
