//! Writes the row of a job, in quarantine or aside.

use std::collections::BTreeMap;

use ports::archive::{ArchiveError, ArchiveExt, Attributes, Guard, ItemKey, Update, WriteOutcome};
use ports::queue::job::{Job, Origin, Payload};
use ports::queue::{Delivery, QueueRef};
use rules::waiting::REASON;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{FIRST_SEEN, LAST_SEEN, MESSAGE_ID, WITHHELD, bounds, register};
use crate::runtime::Ports;

/// The row of a job: in quarantine, or aside.
pub(super) struct JobRow {
    pub(super) partition: String,
    pub(super) kind: &'static str,
    /// Attributes besides those of every such row.
    pub(super) extra: Vec<(&'static str, Value)>,
}

impl JobRow {
    /// Writes the row. Its key consists of the job's first sent time and message ID, so that a job which comes
    /// back finds its row.
    pub(super) async fn put(
        self,
        ports: &Ports,
        queue: QueueRef,
        delivery: &Delivery,
        reason: &str,
        origin: Option<Origin>,
        is_whole: bool,
    ) -> Result<(), ArchiveError> {
        let Origin { sent_at_ms, message_id, .. } = origin.unwrap_or_else(|| origin_of(delivery));
        let (payload, reason) = if is_whole {
            (without_token(&delivery.body), reason.to_owned())
        } else {
            let note = bounds::missing_body_note(&delivery.body);
            (bounds::outline(&delivery.body), format!("{reason} ({note})"))
        };
        let named = |pairs: Vec<(&str, Value)>| -> Attributes {
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let mut set = named(vec![
            ("group", delivery.group.as_str().into()),
            (REASON, reason.into()),
            ("attempts", delivery.receive_count.into()),
            ("payload", payload.into()),
        ]);
        if !is_whole {
            set.insert(WITHHELD.into(), true.into());
        }
        set.extend(named(self.extra));
        let identity = named(vec![
            ("type", self.kind.into()),
            ("queue", queue.name.spec().label.into()),
            (FIRST_SEEN, register(sent_at_ms).into()),
            (MESSAGE_ID, message_id.as_str().into()),
        ]);
        let key = ItemKey::new(self.partition, sort_key(sent_at_ms, &message_id));
        let mut update = Update { set, set_if_absent: identity, ..Update::new(key) };
        let mut seen_ms = ports.clock.now().0;
        loop {
            update.guard = Guard::Greater { register: LAST_SEEN.into(), version: register(seen_ms) };
            match ports.archive.write(&update).await? {
                WriteOutcome::Applied => return Ok(()),
                // An unchanged row would let a replay delete it although the job has failed again.
                WriteOutcome::Rejected(stored) => {
                    let stored_ms: i64 =
                        stored.text(LAST_SEEN).and_then(|seen| seen.parse().ok()).unwrap_or_default();
                    seen_ms = seen_ms.max(stored_ms + 1);
                }
            }
        }
    }
}

/// The origin of a job that was not sent back before.
pub(super) fn origin_of(delivery: &Delivery) -> Origin {
    Origin {
        sent_at_ms: delivery.sent_at.0,
        message_id: delivery.message_id.to_string(),
        trips: 0,
        trial: None,
    }
}

/// The sort key of a job's row: its first sent time and message ID.
pub(super) fn sort_key(sent_at_ms: i64, message_id: &str) -> String {
    format!("{sent_at_ms:013}-{message_id}")
}

/// A job's body without the verification token that Slack adds to envelopes: it is a secret, and unused.
pub(super) fn without_token(body: &str) -> String {
    let redacted = || {
        let job = Job::decode(body).ok()?;
        let mut envelope: BTreeMap<String, &RawValue> = serde_json::from_str(job.event()?.get()).ok()?;
        envelope.remove("token")?;
        let envelope = serde_json::value::to_raw_value(&envelope).ok()?;
        Job { payload: Payload::Event(&envelope), ..job }.encode().ok()
    };
    redacted().unwrap_or_else(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use ports::queue::job::encode_event;

    use super::*;

    #[test]
    fn the_token_is_removed_and_the_event_kept_as_it_was() {
        let body = encode_event(r#"{"token":"secret","team_id":"T1","event":{"n":1.0e2}}"#);
        let redacted = without_token(&body);
        assert!(!redacted.contains("secret") && redacted.contains(r#""event":{"n":1.0e2}"#), "{redacted}");
    }

    #[test]
    fn a_body_without_a_token_stays_as_it_is() {
        for body in [encode_event("{}"), encode_event("7"), "not a job".to_owned()] {
            assert_eq!(without_token(&body), body);
        }
    }
}
