//! Where each kind of item lives. Each kind is one partition to query, never a scan.

mod questions;

use crate::queue::run::RunId;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

pub use questions::{answers, bot_messages, budgets, questions, responded};

/// The primary key of an item: `itemId` and `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey {
    /// The partition.
    pub item_id: String,
    /// The place within the partition; compared as text.
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

    /// A version of a message that is not its content: by when it was made, and by a hash of what it says. The ids are
    /// those of a message's row.
    pub fn revision(team: &str, channel: &str, ts: &str, edit_time: &Ts, signature: &str) -> Self {
        Self::new(format!("revision#{team}#{channel}#{ts}"), format!("{edit_time}#{signature}"))
    }

    /// A person.
    pub fn user(team: &TeamId, user: &UserId) -> Self {
        Self::new(users(team), user.as_str())
    }

    /// A profile that a person had; `hash` tells it from their others.
    pub fn profile(team: &TeamId, user: &UserId, hash: &str) -> Self {
        Self::new(profiles(team, user), hash)
    }

    /// A channel as of an event's clock.
    pub fn channel(team: &TeamId, channel: &ChannelId, clock: &Ts) -> Self {
        Self::new(channels(team, channel), clock.as_str())
    }

    /// The mark of a channel that was public at some time.
    pub fn public_mark(team: &TeamId, channel: &ChannelId) -> Self {
        Self::new(public_marks(team), channel.as_str())
    }

    /// A custom emoji.
    pub fn emoji(team: &TeamId, name: &str) -> Self {
        Self::new(emoji(team), name)
    }

    /// A file, wherever it was shared.
    pub fn file(team: &TeamId, file: &FileId) -> Self {
        Self::new(files(team), file.as_str())
    }

    /// Bytes of a file that no message shares any more, which are to be deleted.
    pub fn unshared_file(team: &TeamId, file: &FileId) -> Self {
        Self::new(unshared_files(team), file.as_str())
    }

    /// That the existence check waits for Slack; `what` is a workspace, or a workspace and a method.
    pub fn existence_breaker(what: &str) -> Self {
        Self::new(EXISTENCE_BREAKERS, what)
    }

    /// What the last sync of a workspace's directory found.
    pub fn directory_sync(team: &TeamId) -> Self {
        Self::new(format!("meta#{team}#sync"), "directory")
    }

    /// The last backfill of a workspace.
    pub fn backfill_run(team: &TeamId) -> Self {
        Self::new(format!("meta#{team}#backfill"), "run")
    }

    /// What a workspace is called.
    pub fn workspace_name(team: &TeamId) -> Self {
        Self::new(workspace(team), "name")
    }

    /// Where a workspace is.
    pub fn workspace_address(team: &TeamId) -> Self {
        Self::new(workspace(team), "address")
    }

    /// What a run of ingest saw of a workspace.
    pub fn run(team: &TeamId, run: &RunId) -> Self {
        Self::new(runs(team), run.as_str())
    }

    /// That the app joined a channel.
    pub fn joined(team: &TeamId, channel: &ChannelId, clock: &Ts) -> Self {
        Self::new(joins(team, channel), clock.padded())
    }

    /// How far back a channel was read of Slack's history, from `to` on towards its beginning.
    pub fn filled(team: &TeamId, channel: &ChannelId, to: &Ts) -> Self {
        Self::new(filled(team), format!("{channel}#{}", to.padded()))
    }

    /// That what is older than `from` could not be read of a channel's history.
    pub fn unreadable(team: &TeamId, channel: &ChannelId, from: &Ts) -> Self {
        Self::new(unreadable(team), format!("{channel}#{}", from.padded()))
    }

    /// How far the statistician has followed what is written to messages.
    pub fn figures_state() -> Self {
        Self::new("meta#figures", "state")
    }

    /// How many members a channel had on a day.
    pub fn members(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(members(team, channel), day)
    }

    /// What was counted of a channel's day.
    pub fn rollup(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(rollups(team, channel), day)
    }

    /// That a channel's day is to be counted.
    pub fn rollup_due(team: &TeamId, channel: &ChannelId, day: &str) -> Self {
        Self::new(rollups_due(team), format!("{day}#{channel}"))
    }

    /// Changes whenever a roll-up of this day does, of whatever channel.
    pub fn rollup_day(team: &TeamId, day: &str) -> Self {
        Self::new(rollup_days(team), day)
    }

    /// The first message of a person.
    pub fn first_post(team: &TeamId, user: &UserId) -> Self {
        Self::new(first_posts(team), user.as_str())
    }

    /// Which archive this is: its `id`, and its `epoch`, which is another one after each restore.
    pub fn archive_identity() -> Self {
        Self::new("meta#archive", "identity")
    }

    /// A workspace that has sent something.
    pub fn team(team: &TeamId) -> Self {
        Self::new(TEAMS, team.as_str())
    }
}

/// The partition that lists the workspaces.
pub const TEAMS: &str = "meta#teams";

/// The partition of what the existence check waits for.
pub const EXISTENCE_BREAKERS: &str = "meta#existence";

/// Partitions whose rows come and go: jobs in quarantine, marks of their attempts, the breakers of the existence check, days
/// that are to be counted, stored reports, what the responder has done with, and files, which go with the last message that
/// shares them. All other rows are there for good. A `*` stands for the rest of a name.
pub const PASSING: [&str; 11] = [
    "quarantine#*",
    "meta#attempts#*",
    EXISTENCE_BREAKERS,
    "rollupdue#*",
    "report#*",
    "question#*",
    "answer#*",
    "botmessage#*",
    "budget#*",
    "file#*",
    "unshared#*",
];

/// Whether the rows of a partition come and go.
pub fn is_passing(item_id: &str) -> bool {
    PASSING.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => item_id.starts_with(beginning),
        None => item_id == *pattern,
    })
}

/// The partition of a channel's messages.
pub fn messages(team: &TeamId, channel: &ChannelId) -> String {
    format!("message#{team}#{channel}")
}

/// The partition of a message's replaced versions.
pub fn revisions(team: &TeamId, channel: &ChannelId, ts: &Ts) -> String {
    format!("revision#{team}#{channel}#{ts}")
}

/// What [`change_marks`] begin with.
pub const CHANGE_MARKS: &str = "changes#";

/// The partition of what was written to a workspace's messages, where a backend needs marks of it: see
/// [`crate::changes::ChangedSpan::mark`].
pub fn change_marks(team: &TeamId) -> String {
    format!("{CHANGE_MARKS}{team}")
}

/// What the partitions of [`erasures`] begin with.
pub const ERASURES: &str = "erased#";

/// The partition of what was erased in a workspace, and stays so: see [`super::ErasureFact`].
pub fn erasures(team: &TeamId) -> String {
    format!("{ERASURES}{team}")
}

/// The partition of a channel's snapshots: the newest is the channel now.
pub fn channels(team: &TeamId, channel: &ChannelId) -> String {
    format!("channel#{team}#{channel}")
}

/// The partition of a workspace's ChannelIndex.
pub fn channel_index(team: &TeamId) -> String {
    format!("channelindex#{team}")
}

/// The partition of the marks of channels that were public at some time.
pub fn public_marks(team: &TeamId) -> String {
    format!("meta#{team}#public")
}

/// The partition of a workspace's custom emoji.
pub fn emoji(team: &TeamId) -> String {
    format!("meta#{team}#emoji")
}

/// The partition of what a workspace says of itself.
pub fn workspace(team: &TeamId) -> String {
    format!("meta#{team}#workspace")
}

/// The partition of a workspace's people.
pub fn users(team: &TeamId) -> String {
    format!("user#{team}")
}

/// The partition of the profiles that a person had, the current one included.
pub fn profiles(team: &TeamId, user: &UserId) -> String {
    format!("userhistory#{team}#{user}")
}

/// The partition of a workspace's files.
pub fn files(team: &TeamId) -> String {
    format!("file#{team}")
}

/// The partition of the files of a workspace whose bytes are to be deleted.
pub fn unshared_files(team: &TeamId) -> String {
    format!("unshared#{team}")
}

/// The partition of a workspace's gaps.
pub fn gaps(team: &TeamId) -> String {
    format!("gap#{team}")
}

/// The partition of the spans that were filled from history: by channel and end, `{channel}#{to padded}`.
pub fn filled(team: &TeamId) -> String {
    format!("filled#{team}")
}

/// The partition of what could not be read of Slack's history: by channel and time, `{channel}#{from padded}`.
pub fn unreadable(team: &TeamId) -> String {
    format!("unreadable#{team}")
}

/// The partition of the numbers of a channel's members, by day.
pub fn members(team: &TeamId, channel: &ChannelId) -> String {
    format!("members#{team}#{channel}")
}

/// The partition of a channel's days as they were counted.
pub fn rollups(team: &TeamId, channel: &ChannelId) -> String {
    format!("rollup#{team}#{channel}")
}

/// The partition of the days that are to be counted: `{day}#{channel}`.
pub fn rollups_due(team: &TeamId) -> String {
    format!("rollupdue#{team}")
}

/// The partition of the versions of days: one row for all channels.
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

/// The partition of people's first messages.
pub fn first_posts(team: &TeamId) -> String {
    format!("firstpost#{team}")
}

/// The partition of what each run of ingest saw of a workspace.
pub fn runs(team: &TeamId) -> String {
    format!("meta#{team}#runs")
}

/// The partition of when the app joined a channel.
pub fn joins(team: &TeamId, channel: &ChannelId) -> String {
    format!("meta#{team}#joined#{channel}")
}

/// The partition of the erasures that were done: when, by whom, and how much.
pub fn erasure_records(team: &TeamId) -> String {
    format!("erasure#{team}")
}

/// The value of `parent` on every message of a thread, its root included.
pub fn thread_parent(team: &TeamId, thread_ts: &Ts) -> String {
    format!("thread#{team}#{thread_ts}")
}
