//! The keys of all kinds of items. Each kind is read with a query of one partition, never with a scan.

mod authors;
mod groups;
mod pins;
mod questions;

use crate::queue::QueueName;
use crate::queue::run::RunId;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

pub use authors::{bots, organisations};
pub use groups::{bookmarks, user_group_members, user_group_names, user_groups};
pub use pins::{pin_lists, pins};
pub use questions::{answers, bot_messages, budgets, questions, responded};

/// The primary key of an item: `itemId` and `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey {
    /// The partition.
    pub item_id: String,
    /// The position within the partition; compared as text.
    pub timestamp: String,
}

impl ItemKey {
    /// A key of the given parts.
    pub fn new(item_id: impl Into<String>, timestamp: impl Into<String>) -> Self {
        Self { item_id: item_id.into(), timestamp: timestamp.into() }
    }

    /// A message.
    pub fn message(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(messages(team, channel), ts.as_str())
    }

    /// A version of a message other than its current content, by edit time and a hash of its content. The ids
    /// are those of the message's row.
    pub fn revision(team: &str, channel: &str, ts: &str, edit_time: &Ts, signature: &str) -> Self {
        Self::new(format!("revision#{team}#{channel}#{ts}"), format!("{edit_time}#{signature}"))
    }

    /// A user.
    pub fn user(team: &TeamId, user: &UserId) -> Self {
        Self::new(users(team), user.as_str())
    }

    /// A profile that a user had; `hash` distinguishes it from their other profiles.
    pub fn profile(team: &TeamId, user: &UserId, hash: &str) -> Self {
        Self::new(profiles(team, user), hash)
    }

    /// A snapshot of a channel at an event's clock.
    pub fn channel(team: &TeamId, channel: &ChannelId, clock: &Ts) -> Self {
        Self::new(channels(team, channel), clock.as_str())
    }

    /// The mark of a channel that has been public.
    pub fn public_mark(team: &TeamId, channel: &ChannelId) -> Self {
        Self::new(public_marks(team), channel.as_str())
    }

    /// A custom emoji.
    pub fn emoji(team: &TeamId, name: &str) -> Self {
        Self::new(emoji(team), name)
    }

    /// A file, independent of where it was shared.
    pub fn file(team: &TeamId, file: &FileId) -> Self {
        Self::new(files(team), file.as_str())
    }

    /// A file that no message shares any more, whose bytes must be deleted.
    pub fn unshared_file(team: &TeamId, file: &FileId) -> Self {
        Self::new(unshared_files(team), file.as_str())
    }

    /// The text of a canvas, for search.
    pub fn canvas_text(team: &TeamId, file: &FileId) -> Self {
        Self::new(canvas_texts(team), file.as_str())
    }

    /// The state of a workspace's jobs of a queue that wait aside.
    pub fn waiting(queue: QueueName, team: &TeamId) -> Self {
        Self::new(WAITING, format!("{queue}#{team}"))
    }

    /// The result of the last sync of a workspace's directory.
    pub fn directory_sync(team: &TeamId) -> Self {
        Self::new(format!("meta#{team}#sync"), "directory")
    }

    /// The last backfill of a workspace.
    pub fn backfill_run(team: &TeamId) -> Self {
        Self::new(format!("meta#{team}#backfill"), "run")
    }

    /// The name of a workspace.
    pub fn workspace_name(team: &TeamId) -> Self {
        Self::new(workspace(team), "name")
    }

    /// The URL of a workspace.
    pub fn workspace_address(team: &TeamId) -> Self {
        Self::new(workspace(team), "address")
    }

    /// The events of a workspace that a run of ingest saw.
    pub fn run(team: &TeamId, run: &RunId) -> Self {
        Self::new(runs(team), run.as_str())
    }

    /// A record that the app joined a channel.
    pub fn joined(team: &TeamId, channel: &ChannelId, clock: &Ts) -> Self {
        Self::new(joins(team, channel), clock.padded())
    }

    /// How far back a channel's history was read from Slack, from `to` towards its beginning.
    pub fn filled(team: &TeamId, channel: &ChannelId, to: &Ts) -> Self {
        Self::new(filled(team), format!("{channel}#{}", to.padded()))
    }

    /// A record that a channel's history before `from` could not be read.
    pub fn unreadable(team: &TeamId, channel: &ChannelId, from: &Ts) -> Self {
        Self::new(unreadable(team), format!("{channel}#{}", from.padded()))
    }

    /// The statistician's position in the changes to messages.
    pub fn figures_state() -> Self {
        Self::new("meta#figures", "state")
    }

    /// The number of members of a channel on a day.
    pub fn members(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(members(team, channel), day)
    }

    /// The counts of a channel's day.
    pub fn rollup(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(rollups(team, channel), day)
    }

    /// A record that a channel's day must be counted.
    pub fn rollup_due(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(rollups_due(team), format!("{day}#{channel}"))
    }

    /// A version that changes whenever a roll-up of this day changes, in any channel.
    pub fn rollup_day(team: &TeamId, day: &str) -> Self {
        Self::new(rollup_days(team), day)
    }

    /// The first message of a user.
    pub fn first_post(team: &TeamId, user: &UserId) -> Self {
        Self::new(first_posts(team), user.as_str())
    }

    /// The identity of this archive: its `id`, and its `epoch`, which changes with each restore.
    pub fn archive_identity() -> Self {
        Self::new("meta#archive", "identity")
    }

    /// A workspace that has sent events.
    pub fn team(team: &TeamId) -> Self {
        Self::new(TEAMS, team.as_str())
    }
}

/// The partition that lists the workspaces.
pub const TEAMS: &str = "meta#teams";

/// The partition of the states of jobs that wait aside: a row per queue and workspace.
pub const WAITING: &str = "meta#waiting";

/// Partitions whose rows are deleted at some time: jobs in quarantine, jobs that wait for something outside
/// Annalist and their state, attempt markers, the breakers of the existence check, days to count, stored reports, rows that the responder no longer needs, and files and the
/// texts of canvases, which are deleted with the last message that shares them. All other rows are permanent. A `*` matches the rest
/// of a name.
pub const TRANSIENT: [&str; 14] = [
    "quarantine#*",
    "waiting#*",
    "meta#waiting",
    "meta#attempts#*",
    // Of earlier versions.
    "meta#existence",
    "rollupdue#*",
    "report#*",
    "question#*",
    "answer#*",
    "botmessage#*",
    "budget#*",
    "file#*",
    "unshared#*",
    "canvastext#*",
];

/// Whether the rows of a partition are deleted at some time.
pub fn is_transient(item_id: &str) -> bool {
    TRANSIENT.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => item_id.starts_with(beginning),
        None => item_id == *pattern,
    })
}

/// The partition of a workspace's jobs of a queue that wait aside.
pub fn waiting(queue: QueueName, team: &TeamId) -> String {
    format!("waiting#{queue}#{team}")
}

/// The partition of a channel's messages.
pub fn messages(team: &TeamId, channel: &ChannelId) -> String {
    format!("message#{team}#{channel}")
}

/// The partition of a message's replaced versions.
pub fn revisions(team: &TeamId, channel: &ChannelId, ts: &Ts) -> String {
    format!("revision#{team}#{channel}#{ts}")
}

/// The prefix of [`change_marks`].
pub const CHANGE_MARKS: &str = "changes#";

/// The partition of the marks of writes to a workspace's messages, for a backend that needs them: see
/// [`crate::changes::ChangedSpan::mark_key`].
pub fn change_marks(team: &TeamId) -> String {
    format!("{CHANGE_MARKS}{team}")
}

/// The prefix of [`erasures`].
pub const ERASURES: &str = "erased#";

/// The partition of a workspace's erasure facts: see [`super::ErasureFact`].
pub fn erasures(team: &TeamId) -> String {
    format!("{ERASURES}{team}")
}

/// The partition of a channel's snapshots; the newest is the current one.
pub fn channels(team: &TeamId, channel: &ChannelId) -> String {
    format!("channel#{team}#{channel}")
}

/// The partition of a workspace's ChannelIndex.
pub fn channel_index(team: &TeamId) -> String {
    format!("channelindex#{team}")
}

/// The partition of the marks of channels that have been public.
pub fn public_marks(team: &TeamId) -> String {
    format!("meta#{team}#public")
}

/// The partition of a workspace's custom emoji.
pub fn emoji(team: &TeamId) -> String {
    format!("meta#{team}#emoji")
}

/// The partition of a workspace's name and URL.
pub fn workspace(team: &TeamId) -> String {
    format!("meta#{team}#workspace")
}

/// The partition of a workspace's users.
pub fn users(team: &TeamId) -> String {
    format!("user#{team}")
}

/// The partition of a user's profiles, including the current one.
pub fn profiles(team: &TeamId, user: &UserId) -> String {
    format!("userhistory#{team}#{user}")
}

/// The partition of a workspace's files.
pub fn files(team: &TeamId) -> String {
    format!("file#{team}")
}

/// The partition of a workspace's files whose bytes must be deleted.
pub fn unshared_files(team: &TeamId) -> String {
    format!("unshared#{team}")
}

/// The partition of the texts of a workspace's canvases, for search.
pub fn canvas_texts(team: &TeamId) -> String {
    format!("canvastext#{team}")
}

/// The partition of a workspace's gaps.
pub fn gaps(team: &TeamId) -> String {
    format!("gap#{team}")
}

/// The partition of the spans that were filled from history: by channel and end, `{channel}#{to padded}`.
pub fn filled(team: &TeamId) -> String {
    format!("filled#{team}")
}

/// The partition of the history that could not be read from Slack: by channel and time, `{channel}#{from
/// padded}`.
pub fn unreadable(team: &TeamId) -> String {
    format!("unreadable#{team}")
}

/// The partition of a channel's member counts, by day.
pub fn members(team: &TeamId, channel: &ChannelId) -> String {
    format!("members#{team}#{channel}")
}

/// The partition of a channel's daily counts.
pub fn rollups(team: &TeamId, channel: &ChannelId) -> String {
    format!("rollup#{team}#{channel}")
}

/// The partition of the days to count: `{day}#{channel}`.
pub fn rollups_due(team: &TeamId) -> String {
    format!("rollupdue#{team}")
}

/// The partition of the versions of days: one row per day for all channels.
pub fn rollup_days(team: &TeamId) -> String {
    format!("rollupdays#{team}")
}

/// The partition that lists a workspace's stored reports.
pub fn reports(team: &TeamId) -> String {
    format!("report#{team}")
}

/// The partition of a stored report.
pub fn report(team: &TeamId, report_id: &str) -> String {
    format!("report#{team}#{report_id}")
}

/// The partition of users' first messages.
pub fn first_posts(team: &TeamId) -> String {
    format!("firstpost#{team}")
}

/// The partition of the events of a workspace that each run of ingest saw.
pub fn runs(team: &TeamId) -> String {
    format!("meta#{team}#runs")
}

/// The partition of the times at which the app joined a channel, or a list first showed that it is in it.
pub fn joins(team: &TeamId, channel: &ChannelId) -> String {
    format!("meta#{team}#joined#{channel}")
}

/// The partition of the records of erasures: when, by whom, and how much.
pub fn erasure_records(team: &TeamId) -> String {
    format!("erasure#{team}")
}

/// The value of `parent` on every message of a thread, including its root.
pub fn thread_parent(team: &TeamId, thread_ts: &Ts) -> String {
    format!("thread#{team}#{thread_ts}")
}
