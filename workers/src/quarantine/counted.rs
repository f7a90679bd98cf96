//! Counts the jobs that exceed a day's rows: one row `{day}-counted` per queue and day, and a gap for each
//! hour in which something is missing. A job that is delivered again is counted again, so the number may be
//! too high, but never too low.

use std::collections::BTreeSet;

use ports::archive::{ArchiveError, ArchiveExt, Attributes, Guard, Item, ItemKey, Update, WriteOutcome};
use ports::queue::{Delivery, QueueRef};
use rules::waiting::REASON;
use serde_json::Value;

use super::bounds::{ATTEMPTS, DAY_S, too_many_count};
use super::{FIRST_SEEN, LAST_SEEN, MESSAGE_ID, WITHHELD, loss, partition, register, time};
use crate::runtime::Ports;

const COUNTED: &str = "counted";

const KINDS: &str = "kinds";

/// Maximum number of kinds of reasons that a row lists.
const MAX_KINDS: usize = 5;

/// The number of jobs that a counting row represents; zero for other rows.
pub(super) fn job_count(row: &Item) -> u64 {
    row.text(COUNTED).and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Counts jobs that are not kept otherwise, each with its reason, after writing the gaps that they leave.
pub(super) async fn count_jobs(
    ports: &Ports,
    queue: QueueRef,
    jobs: &[(&Delivery, &str)],
) -> Result<(), ArchiveError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let archive = &*ports.archive;
    let bodies: Vec<_> = jobs.iter().map(|(delivery, _)| (&*delivery.body, delivery.sent_at)).collect();
    loss::note_hours(archive, &bodies).await?;
    let day_ms = ports.clock.now().seconds().div_euclid(DAY_S) * DAY_S * 1_000;
    let key = ItemKey::new(partition(queue.name), format!("{day_ms:013}-{COUNTED}"));
    let mut stored = archive.get(&key).await?;
    for _ in 0..ATTEMPTS {
        let update = counting(key.clone(), queue, stored.as_ref(), jobs);
        match archive.write(&update).await? {
            WriteOutcome::Applied => return Ok(()),
            WriteOutcome::Rejected(row) => stored = Some(row),
        }
    }
    Err(too_many_count())
}

/// The update of the row that adds these jobs.
fn counting(key: ItemKey, queue: QueueRef, stored: Option<&Item>, jobs: &[(&Delivery, &str)]) -> Update {
    let stored = stored.filter(|row| job_count(row) > 0);
    let number = stored.map(job_count).unwrap_or_default() + u64::try_from(jobs.len()).unwrap_or_default();
    let times = jobs.iter().map(|(delivery, _)| delivery.sent_at);
    let times =
        times.chain(stored.iter().flat_map(|row| [FIRST_SEEN, LAST_SEEN].map(|name| time(row, name))));
    let (first, last) = times.fold((i64::MAX, 0), |(first, last), at| (at.0.min(first), at.0.max(last)));
    let listed = stored.and_then(|row| row.text(KINDS)).unwrap_or_default();
    let mut kinds: BTreeSet<String> = listed.split("; ").map(str::to_owned).collect();
    kinds.remove("");
    for kind in jobs.iter().map(|(_, reason)| kind(reason)) {
        if kinds.len() < MAX_KINDS {
            kinds.insert(kind);
        }
    }
    let kinds = kinds.into_iter().collect::<Vec<_>>().join("; ");
    let reason = format!(
        "{kinds}: {number} more jobs of this day are only counted, since too much was put in quarantine; `annalist gaps` shows \
         the hours in which events are missing"
    );
    let attributes = |pairs: Vec<(&str, Value)>| -> Attributes {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    Update {
        guard: Guard::Unchanged {
            register: COUNTED.into(),
            expected: stored.and_then(|row| row.text(COUNTED).map(str::to_owned)),
            version: number.to_string(),
        },
        set: attributes(vec![
            (FIRST_SEEN, register(first).into()),
            (LAST_SEEN, register(last).into()),
            (KINDS, kinds.into()),
            (REASON, reason.into()),
        ]),
        set_if_absent: attributes(vec![
            ("type", "quarantine".into()),
            ("queue", queue.name.spec().label.into()),
            ("group", COUNTED.into()),
            (MESSAGE_ID, COUNTED.into()),
            ("attempts", 1.into()),
            ("payload", "{}".into()),
            (WITHHELD, true.into()),
        ]),
        ..Update::new(key)
    }
}

/// The first words of a reason, up to anything that may come from the job: an ID, a number, a quotation.
fn kind(reason: &str) -> String {
    let is_plain = |word: &&str| word.chars().all(|sign| sign.is_alphabetic() || "'’-,".contains(sign));
    let is_name = |word: &str| word.chars().skip(1).any(char::is_uppercase);
    let words = reason.split(' ').take_while(|word| is_plain(word) && !is_name(word));
    words.take(8).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_reason_contains_no_data_of_the_job() {
        for (reason, expected) in [
            ("Slack does not know user U0INVENT of workspace T1", "Slack does not know user"),
            ("received 1000 times without success", "received"),
            ("user \"ana\" does not have Slack's shape", "user"),
            ("an id does not have Slack's shape", "an id does not have Slack's shape"),
            ("UABC", ""),
        ] {
            assert_eq!(kind(reason), expected);
        }
    }
}
