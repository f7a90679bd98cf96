//! Splits outcomes into acks, quarantine rows, backoffs and releases: a pure function.

use std::collections::HashSet;

use ports::queue::{Delivery, GroupId};

use super::{JobOutcome, JobRetry};
use crate::quarantine::aside::Aside;

/// The actions for the jobs of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settlement<'b> {
    /// Jobs that are done, aside or in quarantine, in the order of the batch: to be acked once their rows are
    /// written.
    pub(super) finished: Vec<&'b Delivery>,
    /// The quarantined ones of them, with their reasons.
    pub(super) quarantined: Vec<(&'b Delivery, &'b str)>,
    /// The ones of them that wait.
    pub(super) aside: Vec<Aside<'b>>,
    /// The first failure of each group.
    pub(super) backed_off: Vec<(&'b Delivery, &'b JobRetry)>,
    /// The jobs behind a failure: returned immediately; they stay invisible behind the head.
    pub(super) tail: Vec<&'b Delivery>,
}

/// Splits a batch. In each group, every job before the first one to be retried is finished, and no job after
/// it, whatever its outcome: an ack past a failure would permanently break the group's order.
pub(super) fn split_batch(jobs: &[(Delivery, JobOutcome)]) -> Settlement<'_> {
    let mut settlement = Settlement::default();
    let mut stopped: HashSet<&GroupId> = HashSet::new();
    for (delivery, outcome) in jobs {
        if stopped.contains(&delivery.group) {
            settlement.tail.push(delivery);
            continue;
        }
        match outcome {
            JobOutcome::Done => settlement.finished.push(delivery),
            JobOutcome::Quarantine(reason) => {
                settlement.finished.push(delivery);
                settlement.quarantined.push((delivery, reason));
            }
            JobOutcome::Wait(cause, reason) => {
                settlement.finished.push(delivery);
                settlement.aside.push(Aside { delivery, cause: *cause, reason });
            }
            JobOutcome::Retry(retry) => {
                stopped.insert(&delivery.group);
                settlement.backed_off.push((delivery, retry));
            }
        }
    }
    settlement
}

#[cfg(test)]
mod tests {
    use ports::clock::TimestampMs;
    use ports::queue::waiting::WaitCause;
    use ports::queue::{MessageId, Receipt};

    use super::*;

    fn delivery(group: &str, number: usize) -> Delivery {
        Delivery {
            message_id: MessageId(number.to_string()),
            group: GroupId::from_parts(&[group]),
            body: String::new(),
            receive_count: 1,
            sent_at: TimestampMs(0),
            receipt: Receipt(number.to_string()),
        }
    }

    #[test]
    fn a_group_stops_at_its_first_failure_and_others_continue() {
        let retry = JobRetry { reason: "later".into(), after: None };
        let outcomes = [
            ("a", JobOutcome::Done),
            ("b", JobOutcome::Retry(retry.clone())),
            ("a", JobOutcome::Quarantine("bad".into())),
            ("a", JobOutcome::Done),
            ("b", JobOutcome::Done),
            ("c", JobOutcome::Wait(WaitCause::Token, "refused".into())),
            ("c", JobOutcome::Done),
        ];
        let jobs: Vec<(Delivery, JobOutcome)> = outcomes
            .into_iter()
            .enumerate()
            .map(|(index, (group, outcome))| (delivery(group, index), outcome))
            .collect();
        let job = |index: usize| &jobs[index].0;
        assert_eq!(
            split_batch(&jobs),
            Settlement {
                finished: vec![job(0), job(2), job(3), job(5), job(6)],
                quarantined: vec![(job(2), "bad")],
                aside: vec![Aside { delivery: job(5), cause: WaitCause::Token, reason: "refused" }],
                backed_off: vec![(job(1), &retry)],
                tail: vec![job(4)],
            }
        );
    }
}
