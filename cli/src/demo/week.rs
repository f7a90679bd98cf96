//! The recorded week: what Slack delivered to a made-up workspace, with duplicates and out of order, the
//! directories before and after it, and what the archive holds in the end. It is played as if it ended now.

use std::collections::BTreeMap;

use anyhow::Context;
use fake_slack::event;
use ports::clock::TimestampMs;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The id of the made-up workspace.
pub(super) const TEAM: &str = "T0DEMO";

/// The app's bot user.
pub(super) const BOT: &str = "U0ANNALIST";

/// The first line is a [`WeekHead`], each other one a [`RecordedEvent`]. Timestamps are those of the recording,
/// and addresses begin with [`RECORDED_ORIGIN`].
const WEEK: &str = include_str!("week.jsonl");
/// When the recorded week ended.
const RECORDED_UNTIL_S: i64 = 1_799_971_200;
/// What each timestamp of the recording begins with, of ten digits.
const RECORDED_DIGITS: &str = "1799";
const RECORDED_ORIGIN: &str = "http://slack.invalid";

/// Files and pictures: the path at which Slack serves them, the content type, and the bytes. Slack answers a
/// request for another file with its login page.
pub(super) const SERVED: [(&str, &str, &[u8]); 14] = [
    ("/avatars/ana.png", "image/png", include_bytes!("files/avatar-ana.png")),
    ("/avatars/ben.png", "image/png", include_bytes!("files/avatar-ben.png")),
    ("/avatars/cho.png", "image/png", include_bytes!("files/avatar-cho.png")),
    ("/avatars/devi.png", "image/png", include_bytes!("files/avatar-devi.png")),
    ("/avatars/eve.png", "image/png", include_bytes!("files/avatar-eve.png")),
    ("/avatars/finn.png", "image/png", include_bytes!("files/avatar-finn.png")),
    ("/emoji/shipped.png", "image/png", include_bytes!("files/emoji-shipped.png")),
    ("/emoji/thirsty-plant.png", "image/png", include_bytes!("files/emoji-thirsty-plant.png")),
    ("/files-pri/T0DEMO-F0PLAN/offsite-plan.txt", "text/plain", include_bytes!("files/offsite-plan.txt")),
    ("/files-pri/T0DEMO-F0SURVEY/survey.csv", "text/csv", include_bytes!("files/survey.csv")),
    ("/files-pri/T0DEMO-F0LOGO/logo.png", "image/png", include_bytes!("files/logo.png")),
    ("/files-pri/T0DEMO-F0PALETTE/palette.html", "text/html", include_bytes!("files/palette.html")),
    ("/files-pri/T0DEMO-F0PARTY/summer-party.png", "image/png", include_bytes!("files/summer-party.png")),
    ("/files-pri/T0DEMO-F0BADGES/badge-printer.txt", "text/plain", include_bytes!("files/badge-printer.txt")),
];

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeliveryKind {
    /// The first delivery of an event.
    Event,
    /// A delivery that Slack retries because it got no response.
    Retry,
    /// The same event with another event id.
    Twin,
    /// A direct message or a message in a private channel.
    Private,
    /// An event with malformed ids.
    Poison,
    /// A request signed with another secret.
    Forged,
    /// Slack reports that it delivered nothing for a minute.
    RateLimited,
}

/// A request to send.
#[derive(Debug, Clone)]
pub(super) struct DemoRequest {
    pub(super) kind: DeliveryKind,
    pub(super) body: String,
}

/// The contents of Slack's directory at some time.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DirectorySnapshot {
    pub(super) at_s: i64,
    pub(super) channels: Vec<Value>,
    pub(super) people: Vec<Value>,
    /// Names and addresses of custom emoji.
    pub(super) emoji: Map<String, Value>,
}

/// Counts of everything that the demo plays.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ArchiveCounts {
    pub(super) channels: usize,
    /// Earlier names of channels.
    pub(super) former_names: usize,
    pub(super) archived: usize,
    pub(super) deleted_channels: usize,
    pub(super) private: usize,
    pub(super) messages: usize,
    /// Messages that were edited.
    pub(super) edited: usize,
    /// Message versions that edits replaced.
    pub(super) revisions: usize,
    pub(super) deleted: usize,
    pub(super) threads: usize,
    pub(super) replies: usize,
    pub(super) reactions: usize,
    pub(super) people: usize,
    /// Files that are stored byte for byte as Slack serves them.
    pub(super) files_stored: usize,
    /// Files in messages that have the key of the stored copy.
    pub(super) files_shared: usize,
    /// Files that were deleted in Slack.
    pub(super) files_deleted: usize,
    /// Files that Slack does not serve.
    pub(super) files_skipped: usize,
    pub(super) files_failed: usize,
    /// Pictures of people and custom emoji.
    pub(super) images: usize,
    /// Periods in which events were lost.
    pub(super) gaps: usize,
    pub(super) quarantined: u64,
}

/// Everything but the events.
#[derive(Debug, Deserialize)]
pub(super) struct WeekHead {
    /// The number of requests that are played first, in order, so that every channel is known to be public.
    pub(super) opening: usize,
    /// The number of channels that the app joins.
    pub(super) joined: usize,
    /// A thread, and an edited message in it, that the summary shows.
    pub(super) thread_ts: String,
    pub(super) edited_ts: String,
    /// The expected contents of the archive after the week.
    pub(super) expected: ArchiveCounts,
    pub(super) before: DirectorySnapshot,
    pub(super) after: DirectorySnapshot,
    /// Channels that can be looked up and are not listed. Earlier ids of a channel are unknown instead.
    pub(super) unlisted_channels: Vec<Value>,
    pub(super) unknown: Vec<String>,
    /// What `files.info` returns.
    pub(super) files: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct RecordedEvent {
    kind: DeliveryKind,
    event_id: String,
    event: Value,
}

/// The week, as if it ended within the last minute, of a Slack that serves its files at `origin`.
pub(super) fn read(now: TimestampMs, origin: &str) -> anyhow::Result<(WeekHead, Vec<DemoRequest>)> {
    // By whole minutes, since Slack reports whole minutes in which it delivered nothing.
    let later_s = (now.seconds() - RECORDED_UNTIL_S).div_euclid(60) * 60;
    let text = shifted(WEEK, later_s).replace(RECORDED_ORIGIN, origin);
    let (head, events) = text.split_once('\n').context("the week has no events")?;
    let request = |line: &str| -> anyhow::Result<DemoRequest> {
        let RecordedEvent { kind, event_id, event } = serde_json::from_str(line)?;
        let body = if kind == DeliveryKind::RateLimited {
            event.to_string()
        } else {
            event::envelope(TEAM, &event_id, &event)
        };
        Ok(DemoRequest { kind, body })
    };
    Ok((serde_json::from_str(head)?, events.lines().map(request).collect::<anyhow::Result<_>>()?))
}

/// The text with each timestamp of the recording moved by so many seconds.
fn shifted(text: &str, later_s: i64) -> String {
    let mut moved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(RECORDED_DIGITS) {
        let (before, found) = rest.split_at(at);
        let digits = found.find(|c: char| !c.is_ascii_digit()).unwrap_or(found.len());
        moved.push_str(before);
        match found[..digits].parse::<i64>() {
            Ok(seconds) if digits == 10 => moved.push_str(&(seconds + later_s).to_string()),
            _ => moved.push_str(&found[..digits]),
        }
        rest = &found[digits..];
    }
    moved + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_week_has_every_kind_of_request_and_ends_before_now() {
        let now_s = 1_900_000_030;
        let (head, requests) = read(TimestampMs(now_s * 1_000), "http://127.0.0.1:1").unwrap();
        let count = |kind| requests.iter().filter(|request| request.kind == kind).count();
        assert!((300..1_000).contains(&count(DeliveryKind::Event)));
        for kind in [
            DeliveryKind::Retry,
            DeliveryKind::Twin,
            DeliveryKind::Private,
            DeliveryKind::Poison,
            DeliveryKind::Forged,
            DeliveryKind::RateLimited,
        ] {
            assert!(count(kind) > 0, "{kind:?}");
        }
        // The week contains every kind of thing that is counted.
        let counted = format!("{:?}", head.expected);
        assert!(!counted.contains(": 0"), "{counted}");
        let oldest_s = now_s - 8 * 24 * 3600;
        for request in requests {
            let envelope: Value = serde_json::from_str(&request.body).unwrap();
            let time_s = [&envelope["event_time"], &envelope["minute_rate_limited"]];
            let time_s = time_s.into_iter().find_map(Value::as_i64).unwrap();
            // The invalid event has no time.
            let since_s = if request.kind == DeliveryKind::Poison { 0 } else { oldest_s };
            assert!((since_s..now_s).contains(&time_s), "{envelope}");
            assert!(!request.body.contains(RECORDED_ORIGIN) && !request.body.contains("1799"), "{envelope}");
        }
    }

    #[test]
    fn only_timestamps_of_the_recording_are_moved() {
        let text = r#"{"ts":"1799000001.000100","at":1799000002,"n":17990000031,"m":1799}"#;
        assert_eq!(
            shifted(text, 10),
            r#"{"ts":"1799000011.000100","at":1799000012,"n":17990000031,"m":1799}"#
        );
    }
}
