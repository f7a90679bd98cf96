//! From outcomes to what the queue is told: a pure function.

use std::collections::HashSet;

use ports::queue::{Delivery, GroupId};

use super::{Outcome, Retry};

/// What to do with a settled batch; numbers are places in the batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settlement {
    /// To be acked once the quarantined ones are written.
    pub(super) done: Vec<usize>,
    /// To be written to quarantine, then acked.
    pub(super) quarantined: Vec<(usize, String)>,
    /// The first failure of each group.
    pub(super) backed_off: Vec<(usize, Retry)>,
    /// What lies behind a failure: given back at once; it stays invisible behind the head.
    pub(super) tail: Vec<usize>,
}

/// Splits a batch. In each group everything up to the first job to be retried is settled, and nothing after it,
/// whatever became of it: an ack past a failure would break the group's order for good.
pub(super) fn settle(batch: &[Delivery], outcomes: &[Outcome]) -> Settlement {
    let mut settlement = Settlement::default();
    let mut stopped: HashSet<&GroupId> = HashSet::new();
    for (place, (delivery, outcome)) in batch.iter().zip(outcomes).enumerate() {
        if stopped.contains(&delivery.group) {
            settlement.tail.push(place);
            continue;
        }
        match outcome {
            Outcome::Done => settlement.done.push(place),
            Outcome::Quarantine(reason) => settlement.quarantined.push((place, reason.clone())),
            Outcome::Retry(retry) => {
                stopped.insert(&delivery.group);
                settlement.backed_off.push((place, retry.clone()));
            }
        }
    }
    settlement
}

#[cfg(test)]
mod tests {
    use ports::clock::TimestampMs;
    use ports::queue::{MessageId, Receipt};

    use super::*;

    fn delivery(group: &str, number: usize) -> Delivery {
        Delivery {
            message_id: MessageId(number.to_string()),
            group: GroupId::of(&[group]),
            body: String::new(),
            receive_count: 1,
            sent_at: TimestampMs(0),
            receipt: Receipt(number.to_string()),
        }
    }

    #[test]
    fn a_group_stops_at_its_first_failure_and_others_go_on() {
        let groups = ["a", "b", "a", "a", "b", "c"];
        let batch: Vec<_> = groups.iter().enumerate().map(|(place, group)| delivery(group, place)).collect();
        let retry = Retry { reason: "later".into(), after: None };
        let outcomes = [
            Outcome::Done,
            Outcome::Retry(retry.clone()),
            Outcome::Quarantine("bad".into()),
            Outcome::Done,
            Outcome::Done,
            Outcome::Done,
        ];
        assert_eq!(
            settle(&batch, &outcomes),
            Settlement {
                done: vec![0, 3, 5],
                quarantined: vec![(2, "bad".into())],
                backed_off: vec![(1, retry)],
                tail: vec![4],
            }
        );
    }
}
