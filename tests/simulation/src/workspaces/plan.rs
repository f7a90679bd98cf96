//! The sizes of the workspaces, what happens to each, and the events that Slack sends of it.

use std::time::Duration;

use serde_json::Value;
use testkit::corpus::{event, ts};

use super::super::workload::{ExpectedOutcome, PlannedRequest};
use super::super::world::World;
use super::importing::begins_after;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Messages and edits of a median workspace in a day. The sizes are log-normal: a workspace in forty has seven
/// times as many.
const MEDIAN_EVENTS_PER_DAY: f64 = 60.0;

/// Each of this many messages or edits is a message with a file instead.
const MESSAGES_TO_A_FILE: usize = 20;

pub(super) const CHANNELS: usize = 3;
pub(super) const PEOPLE: usize = 5;

/// A workspace sends this many events within ten minutes: Slack sends at most 30,000 an hour.
const FLOOD_EVENTS: u64 = 5_000;
const FLOOD: Duration = Duration::from_secs(600);

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub struct WorkspacesSize {
    /// At least [`Self::MIN_WORKSPACES`].
    pub workspaces: usize,
    pub days: u32,
}

impl WorkspacesSize {
    /// Six fail or take much, each in another way, and one does not.
    pub const MIN_WORKSPACES: usize = 7;

    pub(super) fn length(self) -> Duration {
        DAY * self.days
    }

    /// One in a hundred loses its token in a week.
    fn dead_tokens(self) -> usize {
        (self.workspaces * self.days as usize / 700).max(1)
    }

    /// What happens to each workspace.
    pub(super) fn fates(self) -> Vec<WorkspaceFate> {
        let mut fates = vec![
            WorkspaceFate::SilentSlack,
            WorkspaceFate::Floods,
            WorkspaceFate::Added,
            WorkspaceFate::Removed,
            WorkspaceFate::Imports,
        ];
        fates.resize(fates.len() + self.dead_tokens(), WorkspaceFate::DeadToken);
        // An incident reaches one in eight.
        fates.resize(fates.len() + self.workspaces / 8, WorkspaceFate::SilentSlack);
        fates.resize(self.workspaces, WorkspaceFate::Healthy);
        fates
    }
}

/// What happens to a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkspaceFate {
    Healthy,
    /// Slack refuses its token for a quarter of the time.
    DeadToken,
    /// Slack answers nothing about it during the incident.
    SilentSlack,
    /// It sends as much as Slack allows.
    Floods,
    /// Its events begin in the middle of the run, and its token comes later.
    Added,
    /// Its events end in the middle of the run, and then Slack refuses its token.
    Removed,
    /// An export with many files is imported into it.
    Imports,
}

pub(super) fn channel_of(workspace: usize, number: usize) -> String {
    format!("C{workspace:05}X{number}")
}

pub(super) fn person_of(workspace: usize, number: usize) -> String {
    format!("U{workspace:05}X{number}")
}

/// The workspace's index in the id of a channel.
pub(super) fn index_in(channel: &str) -> Option<usize> {
    channel.get(1..6)?.parse().ok()
}

/// A normally distributed number.
fn normal(random: &mut fastrand::Rng) -> f64 {
    // Box and Muller; never the logarithm of zero.
    let (first, second) = (1.0 - random.f64(), random.f64());
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

pub(super) fn plan_workspace(
    size: WorkspacesSize,
    index: usize,
    fate: WorkspaceFate,
    team: &str,
    mut random: fastrand::Rng,
) -> Vec<PlannedRequest> {
    let length_ms = u64::try_from(size.length().as_millis()).unwrap_or(u64::MAX);
    let per_day = MEDIAN_EVENTS_PER_DAY * normal(&mut random).exp();
    let zone_h = random.u64(..24);
    // People write ten times as much in the eight hours of their day.
    let is_awake = |at_ms: u64| (at_ms / 3_600_000 + zone_h) % 24 < 8;
    let span = match fate {
        WorkspaceFate::Added => length_ms / 2..length_ms,
        WorkspaceFate::Removed => 0..length_ms / 2,
        WorkspaceFate::Healthy
        | WorkspaceFate::DeadToken
        | WorkspaceFate::SilentSlack
        | WorkspaceFate::Floods
        | WorkspaceFate::Imports => 0..length_ms,
    };
    let mut times = Vec::new();
    for _ in 0..(per_day.round() as u64).max(4) * u64::from(size.days) {
        loop {
            let at_ms = random.u64(span.clone());
            if is_awake(at_ms) || random.u32(..10) == 0 {
                times.push(at_ms);
                break;
            }
        }
    }
    if fate == WorkspaceFate::Floods {
        let flood_ms = u64::try_from(FLOOD.as_millis()).unwrap_or(u64::MAX);
        times.extend((0..FLOOD_EVENTS).map(|n| length_ms / 2 + n * flood_ms / FLOOD_EVENTS));
    }
    // Within a minute of the import, so that its files are in front of this one.
    let begins_after_ms = u64::try_from(begins_after(size.length()).as_millis()).unwrap_or(u64::MAX);
    let beside_import_ms = begins_after_ms + 20_000 + 60_000 * index as u64 / size.workspaces as u64;
    times.extend((fate == WorkspaceFate::Healthy).then_some(beside_import_ms));
    times.sort_unstable();
    let mut last: Option<(String, Value)> = None;
    let mut request = |number: usize, at_ms: u64| {
        let clock = ts((World::beginning().0 + i64::try_from(at_ms).unwrap_or(i64::MAX)) * 1_000
            + i64::try_from(number % 1_000).unwrap_or(0));
        let user = person_of(index, random.usize(..PEOPLE));
        let edited = last.take().filter(|_| random.u32(..10) == 0);
        let event = if number.is_multiple_of(MESSAGES_TO_A_FILE) || at_ms == beside_import_ms {
            let file = event::file(&format!("F{index:05}X{number}"), &user);
            let message = event::message(&clock, &user, &format!("file {number} of {team}"));
            let message = event::with_fields(message, [("files", vec![file].into())]);
            event::posted(&channel_of(index, random.usize(..CHANNELS)), &message)
        } else if let Some((channel, before)) = edited {
            let text = format!("{} and {number}", before["text"].as_str().unwrap_or_default());
            let mut after = before.clone();
            after["text"] = text.into();
            after["edited"] = serde_json::json!({ "user": before["user"], "ts": clock });
            event::changed(&channel, &before, &after, &clock)
        } else {
            let channel = channel_of(index, random.usize(..CHANNELS));
            let message = event::message(&clock, &user, &format!("text {number} of {team}"));
            let posted = event::posted(&channel, &message);
            last = Some((channel, message));
            posted
        };
        let body = event::envelope(team, &format!("Ev{index:05}X{number}"), &event);
        PlannedRequest { at_ms, body, fate: ExpectedOutcome::Accepted }
    };
    times.into_iter().enumerate().map(|(number, at_ms)| request(number, at_ms)).collect()
}
