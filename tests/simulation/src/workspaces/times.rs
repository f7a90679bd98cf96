//! How long it takes until what Slack sends is stored, and how late workspaces are synced.

use std::collections::BTreeMap;
use std::time::Duration;

use ports::archive::{Guard, ItemKey, Update};
use ports::clock::TimestampMs;
use rules::schedule::WorkSchedule;
use serde_json::Value;
use tokio::time::Instant;

use super::WorkspacesSize;
use super::plan::WorkspaceFate;

/// How long what belongs to the workspaces that do not fail took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The 99th percentile of the time from Slack to the row.
    pub messages: Duration,
    /// The longest time from Slack to the bytes of a file.
    pub files: Duration,
    /// The longest time from when a directory was due until it was synced.
    pub syncs: Duration,
}

/// What is measured, by the workspace's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimedKind {
    Message,
    File,
    Sync,
}

#[derive(Default)]
pub(super) struct StoredTimes {
    messages: BTreeMap<ItemKey, (usize, Instant)>,
    /// By the id of the file.
    files: BTreeMap<String, (usize, Instant)>,
    took: BTreeMap<(TimedKind, usize), Vec<Duration>>,
}

impl StoredTimes {
    /// Notes a new message, with its files.
    pub(super) fn note_sent(&mut self, index: usize, key: ItemKey, event: &Value) {
        let now = Instant::now();
        self.messages.insert(key, (index, now));
        let files = event["files"].as_array().into_iter().flatten();
        let ids = files.filter_map(|file| file["id"].as_str());
        self.files.extend(ids.map(|id| (id.to_owned(), (index, now))));
    }

    /// Notes an update that was applied at this time.
    pub(super) fn note_stored(&mut self, update: &Update, now: TimestampMs) {
        let sent = self.messages.remove(&update.key).map(|sent| (TimedKind::Message, sent));
        let stored_file = if let Guard::Greater { register, version } = &update.guard
            && version.contains("/stored/")
            && let Some(id) = register.strip_prefix("file#")
        {
            self.files.remove(id).map(|sent| (TimedKind::File, sent))
        } else {
            None
        };
        for (kind, (index, sent)) in sent.into_iter().chain(stored_file) {
            self.took.entry((kind, index)).or_default().push(sent.elapsed());
        }
        if let Guard::Unchanged { register, expected: Some(before), version } = &update.guard
            && register == "sync"
        {
            self.note_schedule(&update.key, before, version, now);
        }
    }

    /// Notes how late a sync ended that has changed the workspace's schedule.
    fn note_schedule(&mut self, key: &ItemKey, before: &str, after: &str, now: TimestampMs) {
        let read = |text| serde_json::from_str::<WorkSchedule>(text).ok();
        let (Some(before), Some(after)) = (read(before), read(after)) else { return };
        let Some(index) = super::plan::index_in(&key.timestamp) else { return };
        // The first sync of a workspace has no due time.
        if before.due_ms > 0 && after.sent_ms.is_none() {
            let late = now.since(TimestampMs(before.due_ms));
            self.took.entry((TimedKind::Sync, index)).or_default().push(late);
        }
    }

    /// The number of messages without a row.
    pub(super) fn waiting(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn of_healthy(&self, size: WorkspacesSize) -> Lateness {
        let fates = size.fates();
        let percentile = |kind: TimedKind, percent: usize| {
            let healthy = self.took.iter().filter(|((timed, index), _)| {
                *timed == kind && fates.get(*index) == Some(&WorkspaceFate::Healthy)
            });
            let mut took: Vec<Duration> = healthy.flat_map(|(_, took)| took.iter().copied()).collect();
            took.sort_unstable();
            took.get(took.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
        };
        Lateness {
            messages: percentile(TimedKind::Message, 99),
            files: percentile(TimedKind::File, 100),
            syncs: percentile(TimedKind::Sync, 100),
        }
    }
}
