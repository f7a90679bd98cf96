//! Limits how many jobs of a day are kept whole. Anyone with the signing secret can fill the quarantine: beyond these limits
//! a job's row holds what the job is about, and no body.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, ItemKey, Update, WriteOutcome};
use ports::clock::TimestampMs;
use ports::queue::job::Job;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// Jobs that are kept whole in a day. A wrong setting may quarantine a busy workspace's day, and it can be replayed.
const JOBS_A_DAY: u64 = 100_000;

/// Their bytes.
const BYTES_A_DAY: u64 = 256 * 1024 * 1024;

const DAY_S: i64 = 24 * 3_600;

/// How often the count is tried if other processes count at the same time.
const ATTEMPTS: u32 = 50;

const KEPT: &str = "kept";

/// Fields of an envelope, and of the event in it, that an outline has: what says where and when, and no text.
const ENVELOPE: [&str; 6] =
    ["type", "team_id", "api_app_id", "event_id", "event_time", "minute_rate_limited"];
const EVENT: [&str; 8] =
    ["type", "subtype", "channel", "channel_type", "user", "ts", "event_ts", "deleted_ts"];

/// Slack sends no longer value in these fields.
const MAX_FIELD_BYTES: usize = 100;

/// What was kept whole on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DayTotals {
    day: i64,
    jobs: u64,
    bytes: u64,
}

impl DayTotals {
    fn read(register: &str) -> Option<Self> {
        let mut parts = register.split('/');
        let mut next = || parts.next()?.parse::<u64>().ok();
        Some(Self { day: i64::try_from(next()?).ok()?, jobs: next()?, bytes: next()? })
    }

    fn label(self) -> String {
        format!("{}/{}/{}", self.day, self.jobs, self.bytes)
    }

    /// Which of these jobs are kept whole on this day, and what is kept then.
    fn with(self, day: i64, sizes: &[usize]) -> (Self, Vec<bool>) {
        let mut kept = if self.day == day { self } else { Self { day, jobs: 0, bytes: 0 } };
        let whole = sizes.iter().map(|size| {
            let bytes = kept.bytes.saturating_add(u64::try_from(*size).unwrap_or(u64::MAX));
            let fits = kept.jobs < JOBS_A_DAY && bytes <= BYTES_A_DAY;
            if fits {
                kept = DayTotals { day, jobs: kept.jobs + 1, bytes };
            }
            fits
        });
        let whole = whole.collect();
        (kept, whole)
    }
}

/// Counts jobs of these sizes and says which of them are kept whole.
pub(super) async fn keep(
    archive: &dyn Archive,
    now: TimestampMs,
    sizes: &[usize],
) -> Result<Vec<bool>, ArchiveError> {
    if sizes.is_empty() {
        return Ok(Vec::new());
    }
    let key = ItemKey::new("meta#quarantine", "kept");
    let mut stored = archive.get(&key).await?.and_then(|row| row.text(KEPT).map(str::to_owned));
    for _ in 0..ATTEMPTS {
        let before =
            stored.as_deref().and_then(DayTotals::read).unwrap_or(DayTotals { day: 0, jobs: 0, bytes: 0 });
        let (after, whole) = before.with(now.seconds().div_euclid(DAY_S), sizes);
        if after == before {
            return Ok(whole);
        }
        let guard = Guard::Unchanged { register: KEPT.into(), expected: stored, version: after.label() };
        match archive.write(&Update { guard, ..Update::new(key.clone()) }).await? {
            WriteOutcome::Applied => return Ok(whole),
            WriteOutcome::Rejected(row) => stored = row.text(KEPT).map(str::to_owned),
        }
    }
    Err(ArchiveError::Unavailable("too many count the day's quarantine at once".into()))
}

/// What is left of a job whose body is not kept: enough to know where something is missing, and when.
pub(super) fn outline(body: &str) -> String {
    let request = Job::decode(body).ok().and_then(|job| job.event());
    let envelope = request.map(|request| fields(request, &ENVELOPE)).unwrap_or_default();
    let event = request.and_then(|request| object(request)?.remove("event"));
    let mut envelope = Value::from(envelope);
    if let Some(event) = event {
        envelope["event"] = Value::from(fields(event, &EVENT));
    }
    json!({ "v": ports::queue::job::VERSION, "event": envelope }).to_string()
}

/// What a person reads of the rest.
pub(super) fn what_is_missing(body: &str) -> String {
    format!(
        "its {} bytes are not kept, since too much was put in quarantine that day; sha256 {}",
        body.len(),
        to_hex(&Sha256::digest(body.as_bytes()))
    )
}

fn object(raw: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

fn fields(raw: &RawValue, names: &[&str]) -> serde_json::Map<String, Value> {
    let mut object = object(raw).unwrap_or_default();
    let short = |name: &&str| {
        let value = object.remove(*name).filter(|value| value.get().len() <= MAX_FIELD_BYTES)?;
        let value: Value = serde_json::from_str(value.get()).ok()?;
        Some(((*name).to_owned(), value)).filter(|(_, value)| !value.is_object() && !value.is_array())
    };
    names.iter().filter_map(short).collect()
}

#[cfg(test)]
mod tests {
    use ports::queue::job::encode_event;

    use super::*;

    #[test]
    fn a_day_keeps_a_limited_number_of_whole_jobs_and_bytes_and_the_next_day_begins_at_zero() {
        let full = DayTotals { day: 7, jobs: JOBS_A_DAY - 1, bytes: 10 };
        assert_eq!(
            full.with(7, &[5, 5]),
            (DayTotals { jobs: JOBS_A_DAY, bytes: 15, ..full }, vec![true, false])
        );
        let heavy = DayTotals { day: 7, jobs: 1, bytes: BYTES_A_DAY - 10 };
        let (kept, whole) = heavy.with(7, &[11, 10, 1]);
        assert_eq!((kept.bytes, whole), (BYTES_A_DAY, vec![false, true, false]));
        assert_eq!(kept.with(8, &[3]), (DayTotals { day: 8, jobs: 1, bytes: 3 }, vec![true]));
        assert_eq!(DayTotals::read(&kept.label()), Some(kept));
        assert_eq!(DayTotals::read("soon"), None);
    }

    #[test]
    fn an_outline_says_where_and_when_and_holds_no_text() {
        let event = json!({ "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "text": "secret",
            "event_ts": "5.000100", "ts": "x".repeat(200), "blocks": [{}], "subtype": { "odd": 1 } });
        let body = encode_event(
            &json!({ "token": "t", "team_id": "T1", "event_id": "Ev1", "event": event }).to_string(),
        );
        let outline: Value = serde_json::from_str(&outline(&body)).unwrap();
        assert_eq!(
            outline,
            json!({ "v": 1, "event": { "team_id": "T1", "event_id": "Ev1", "event": { "type": "message", "channel": "C1",
                "channel_type": "channel", "user": "U1", "event_ts": "5.000100" } } })
        );
        assert_eq!(super::outline("not a job"), r#"{"event":{},"v":1}"#);
        assert!(what_is_missing(&body).contains(&format!("its {} bytes", body.len())));
    }
}
