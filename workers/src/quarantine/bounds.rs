//! Limits the number of jobs kept per day and workspace. Anyone with the signing secret can fill the quarantine:
//! beyond the first limits, a job's row contains an outline without the body; beyond the last one, jobs are only
//! counted. A signing secret can name any workspace, so all that the archive does not know have one limit.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, ItemKey, Update, WriteOutcome};
use ports::clock::TimestampMs;
use ports::queue::job::Job;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::TeamId;

/// Jobs of a workspace that are kept completely per day. A wrong setting may quarantine a busy workspace's day, which can
/// then be replayed.
const JOBS_A_DAY: u64 = 100_000;

/// The bytes of these jobs.
const BYTES_A_DAY: u64 = 256 * 1024 * 1024;

/// Jobs that are kept as an outline per day. An outline takes 2 KB, so they take 20 MB, and are more than a
/// person reads.
const OUTLINES_A_DAY: u64 = 10_000;

pub(super) const DAY_S: i64 = 24 * 3_600;

/// Maximum number of attempts to write the count while other processes count too.
pub(super) const ATTEMPTS: u32 = 50;

const KEPT: &str = "kept";

/// Fields of an envelope, and of its event, in an outline: those that show where and when, without text.
const ENVELOPE: [&str; 6] =
    ["type", "team_id", "api_app_id", "event_id", "event_time", "minute_rate_limited"];
const EVENT: [&str; 8] =
    ["type", "subtype", "channel", "channel_type", "user", "ts", "event_ts", "deleted_ts"];

/// Slack sends no longer values in these fields.
const MAX_FIELD_BYTES: usize = 100;

/// The part of a job that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// The whole job.
    Whole,
    Outline,
    /// Only its count: see [`super::counted`].
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct DayTotals {
    day: i64,
    /// Jobs that are kept completely.
    jobs: u64,
    bytes: u64,
    outlines: u64,
}

impl DayTotals {
    fn read(register: &str) -> Option<Self> {
        let mut parts = register.split('/');
        let mut next = || parts.next()?.parse::<u64>().ok();
        let (day, jobs, bytes) = (i64::try_from(next()?).ok()?, next()?, next()?);
        // Earlier versions did not count outlines.
        Some(Self { day, jobs, bytes, outlines: next().unwrap_or_default() })
    }

    fn label(self) -> String {
        format!("{}/{}/{}/{}", self.day, self.jobs, self.bytes, self.outlines)
    }

    /// The part of each of these jobs that is kept on this day, and the new totals.
    fn with(self, day: i64, sizes: &[usize]) -> (Self, Vec<Keeping>) {
        let mut kept = if self.day == day { self } else { Self { day, ..Self::default() } };
        let keepings = sizes.iter().map(|size| {
            let bytes = kept.bytes.saturating_add(u64::try_from(*size).unwrap_or(u64::MAX));
            if kept.jobs < JOBS_A_DAY && bytes <= BYTES_A_DAY {
                kept = DayTotals { jobs: kept.jobs + 1, bytes, ..kept };
                Keeping::Whole
            } else if kept.outlines < OUTLINES_A_DAY {
                kept.outlines += 1;
                Keeping::Outline
            } else {
                Keeping::Number
            }
        });
        let keepings = keepings.collect();
        (kept, keepings)
    }
}

/// Counts jobs, each of a workspace and a size; returns the part that is kept of each.
pub(super) async fn keep(
    archive: &dyn Archive,
    now: TimestampMs,
    jobs: &[(Option<TeamId>, usize)],
) -> Result<Vec<Keeping>, ArchiveError> {
    let mut teams: BTreeMap<Option<&TeamId>, Vec<usize>> = BTreeMap::new();
    for (index, (team, _)) in jobs.iter().enumerate() {
        teams.entry(team.as_ref()).or_default().push(index);
    }
    let mut totals: BTreeMap<ItemKey, Vec<usize>> = BTreeMap::new();
    for (team, indexes) in teams {
        let key = match team {
            Some(team) if archive.get(&ItemKey::team(team)).await?.is_some() => {
                ItemKey::quarantine_size(team)
            }
            Some(_) | None => ItemKey::strangers_size(),
        };
        totals.entry(key).or_default().extend(indexes);
    }
    let mut keepings = vec![Keeping::Number; jobs.len()];
    for (key, indexes) in totals {
        let sizes: Vec<usize> = indexes.iter().map(|index| jobs[*index].1).collect();
        for (index, keeping) in indexes.into_iter().zip(keep_of(archive, now, key, &sizes).await?) {
            keepings[index] = keeping;
        }
    }
    Ok(keepings)
}

/// Counts jobs of these sizes in one total.
async fn keep_of(
    archive: &dyn Archive,
    now: TimestampMs,
    key: ItemKey,
    sizes: &[usize],
) -> Result<Vec<Keeping>, ArchiveError> {
    let mut stored = archive.get(&key).await?.and_then(|row| row.text(KEPT).map(str::to_owned));
    for _ in 0..ATTEMPTS {
        let before = stored.as_deref().and_then(DayTotals::read).unwrap_or_default();
        let (after, keepings) = before.with(now.seconds().div_euclid(DAY_S), sizes);
        if after == before {
            return Ok(keepings);
        }
        let guard = Guard::Unchanged { register: KEPT.into(), expected: stored, version: after.label() };
        match archive.write(&Update { guard, ..Update::new(key.clone()) }).await? {
            WriteOutcome::Applied => return Ok(keepings),
            WriteOutcome::Rejected(row) => stored = row.text(KEPT).map(str::to_owned),
        }
    }
    Err(too_many_count())
}

pub(super) fn too_many_count() -> ArchiveError {
    ArchiveError::Unavailable("too many processes count the day's quarantine at once".into())
}

/// The outline of a job whose body is not kept: enough to know where and when something is missing.
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

/// The explanation, for a person, of the missing body.
pub(super) fn missing_body_note(body: &str) -> String {
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
    fn a_day_keeps_whole_jobs_then_outlines_then_counts_and_the_next_day_begins_at_zero() {
        use Keeping::{Number, Outline, Whole};
        let full = DayTotals { day: 7, jobs: JOBS_A_DAY - 1, bytes: 10, outlines: OUTLINES_A_DAY - 1 };
        let (kept, keepings) = full.with(7, &[5, 5, 5, 5]);
        assert_eq!(keepings, [Whole, Outline, Number, Number]);
        let expected = DayTotals { day: 7, jobs: JOBS_A_DAY, bytes: 15, outlines: OUTLINES_A_DAY };
        assert_eq!(kept, expected);
        assert_eq!(kept.with(7, &[5]), (kept, vec![Number]));
        let heavy = DayTotals { day: 7, jobs: 1, bytes: BYTES_A_DAY - 10, outlines: 0 };
        let (kept, keepings) = heavy.with(7, &[11, 10, 1]);
        assert_eq!((kept.bytes, kept.outlines, keepings), (BYTES_A_DAY, 2, vec![Outline, Whole, Outline]));
        let next = DayTotals { day: 8, jobs: 1, bytes: 3, outlines: 0 };
        assert_eq!(kept.with(8, &[3]), (next, vec![Whole]));
        assert_eq!(DayTotals::read(&kept.label()), Some(kept));
        assert_eq!(DayTotals::read("8/1/3"), Some(next), "of a version without a limit for outlines");
        assert_eq!(DayTotals::read("soon"), None);
    }

    #[test]
    fn an_outline_shows_where_and_when_without_text() {
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
        assert!(missing_body_note(&body).contains(&format!("its {} bytes", body.len())));
    }
}
