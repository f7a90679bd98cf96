//! The rows: `KIND = key, partition: "what it is", "who writes it", facts, "partition" (ids) / "sort key" (ids)`.
//! `where` formats an id for the sort key.

use std::fmt::Display;

use super::ErasedWith::{BotUser, Channel, ChannelBefore, ChannelDay, Eraser, Message, User};
use super::{KEPT, RowKind, TRANSIENT, before_ids};
use crate::archive::ItemKey;
use crate::queue::run::RunId;
use crate::queue::{MessageId, QueueName, QueueRef};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserGroupId, UserId};

/// How far a follower of the changes may fall behind before it counts everything again.
pub const CHANGE_MARK_DAYS: u32 = 30;

/// Longer than a message is on its queue and then on the dead-letter queue, which is 28 days.
const ATTEMPTS_DAYS: u32 = 60;

macro_rules! rows_table {
    ($(
        $constant:ident = $key:ident $(in $partition:ident)?: $about:literal, $written_by:literal, $facts:expr,
            $item_id:literal $parts:tt / $timestamp:literal $ids:tt $(where $formatted:ident = $format:expr)?;
    )*) => {
        $(
            #[doc = $about]
            pub const $constant: RowKind = RowKind {
                about: $about,
                partition: $item_id,
                prefix: before_ids($item_id),
                sort: $timestamp,
                written_by: $written_by,
                ..$facts
            };

            $(partition! { $partition $about $item_id $parts })?

            key! { $key $about $item_id $parts $timestamp $ids $($formatted = $format)? }
        )*

        /// The table.
        pub const ROWS: &[RowKind] = &[$($constant),*];
    };
}

macro_rules! partition {
    ($partition:ident $about:literal $item_id:literal ($($part:ident: $part_type:ty),*)) => {
        /// The partition of these rows:
        #[doc = $about]
        pub fn $partition($($part: $part_type),*) -> String {
            format!($item_id)
        }
    };
}

macro_rules! key {
    (
        $key:ident $about:literal $item_id:literal ($($part:ident: $part_type:ty),*)
        $timestamp:literal ($($id:ident: $id_type:ty),*) $($formatted:ident = $format:expr)?
    ) => {
        impl ItemKey {
            #[doc = $about]
            pub fn $key($($part: $part_type,)* $($id: $id_type),*) -> Self {
                $(let $formatted = $format;)?
                Self::new(format!($item_id), format!($timestamp))
            }
        }
    };
}

rows_table! {
    TEAM = team in teams: "A workspace: whether Slack lets the app in, which app sends its events, and when its work is due.", "all parts", KEPT,
        "meta#teams" () / "{team}" (team: &TeamId);
    WORKSPACE_NAME = workspace_name in workspace: "The name of a workspace.",
        "message-writer, directory sync", KEPT,
        "meta#{team}#workspace" (team: &TeamId) / "name" ();
    WORKSPACE_ADDRESS = workspace_address: "The URL of a workspace.",
        "message-writer, directory sync, import", KEPT,
        "meta#{team}#workspace" (team: &TeamId) / "address" ();
    ARCHIVE_IDENTITY = archive_identity:
        "The identity of this archive: its `id`, and its `epoch`, which changes with each restore.",
        "the backend", KEPT.only_on("in a data folder"),
        "meta#archive" () / "identity" ();
    ARCHIVE_COPY = archive_copy:
        "How the last copy of this archive went: where to, when, and why none was made since.",
        "the command line", KEPT.only_on("in a data folder"),
        "meta#archive" () / "copy" ();
    ARCHIVE_FILES = archive_files:
        "The bucket that has the bytes of files (`store`), if they are not in the data folder.",
        "all parts", KEPT.only_on("in a data folder"),
        "meta#archive" () / "files" ();
    ARCHIVE_VERSION = archive_version:
        "The format of what is stored (`format`), and the version of Annalist that began it (`by`).",
        "all parts", KEPT,
        "meta#archive" () / "version" ();

    MESSAGE = message in messages: "A message.", "message-writer, historian, import",
        KEPT.erased_with(Message).followed(),
        "message#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{ts}" (ts: &Ts);
    REVISION = revision in revisions:
        "A version of a message other than its current content, by edit time and a hash of its content.",
        "message-writer, historian, import", KEPT.erased_with(Message),
        "revision#{team}#{channel}#{ts}"
        (team: &(impl Display + ?Sized), channel: &(impl Display + ?Sized), ts: &(impl Display + ?Sized))
        / "{edit_time}#{signature}" (edit_time: &Ts, signature: &str);
    PIN = pin in pins: "A record that a message of a channel was pinned.",
        "message-writer, directory sync", KEPT,
        "pins#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{ts}" (ts: &Ts);
    PIN_LIST = pin_list in pin_lists: "Whether the pins of a channel were listed.", "directory sync", KEPT,
        "meta#{team}#pinlists" (team: &TeamId) / "{channel}" (channel: &ChannelId);
    CHANGE_MARK = change_mark in change_marks:
        "A mark of writes to the messages of a channel, by hour and day.",
        "the backend", KEPT.only_on("on AWS").expiring(CHANGE_MARK_DAYS),
        "changes#{team}" (team: &TeamId) / "{hour}#{channel}#{day}" (hour: &str, channel: &ChannelId, day: &str);

    ERASURE = erasure in erasures:
        "A fact that something is erased, has expired, is on hold, or is not to be stored.",
        "eraser, retention", KEPT,
        "erased#{team}" (team: &TeamId) / "{scope}" (scope: &str);
    LAST_ERASURE = last_erasure:
        "A mark that changes with each fact of an erasure, of any workspace.", "the backend",
        KEPT.only_on("on AWS"),
        "meta#erasures" () / "last" ();
    ERASURE_RECORD = erasure_record in erasure_records:
        "A record of an erasure: when, by whom, and how much.", "eraser", KEPT,
        "erasure#{team}" (team: &TeamId) / "{at}#{scope}" (at: &Ts, scope: &str) where at = at.padded();
    RETENTION_RULE = retention_rule in retention_rules:
        "A retention rule of a channel, or of every channel (`*`); the newest is in force.", "retention", KEPT,
        "retention#{team}" (team: &TeamId) / "{channel}#{at}" (channel: &str, at: &Ts) where at = at.padded();

    CHANNEL = channel in channels:
        "A snapshot of a channel at an event's clock; the newest is the current one.",
        "channel-indexer, directory sync, import", KEPT.erased_with(ChannelBefore),
        "channel#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{ts}" (ts: &Ts);
    CHANNEL_INDEX = channel_index_shard in channel_index:
        "A shard of a workspace's ChannelIndex: the names of its channels.",
        "channel-indexer, directory sync, import", KEPT.erased_with(Eraser("the channel's name is removed")),
        "channelindex#{team}" (team: &TeamId) / "{number}" (number: u64);
    PUBLIC_MARK = public_mark in public_marks: "The mark of a channel that has been public.",
        "message-writer, channel-indexer, directory sync, historian, import", KEPT,
        "meta#{team}#public" (team: &TeamId) / "{channel}" (channel: &ChannelId);
    BOOKMARK = bookmark in bookmarks: "A bookmark of a channel.", "directory sync",
        KEPT.erased_with(Channel),
        "bookmark#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{bookmark}" (bookmark: &str);
    MEMBERSHIP = membership in memberships:
        "The head of the list of a channel's members as Slack listed them, or a part of a long list.",
        "directory sync", TRANSIENT.erased_with(Channel),
        "membership#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{part}" (part: &str);
    DAILY_READING = daily_reading: "When a channel was last read for what no event reports.",
        "directory sync", KEPT,
        "meta#{team}#daily" (team: &TeamId) / "{channel}" (channel: &ChannelId);
    DIRECTORY_SYNC = directory_sync: "The result of the last sync of a workspace's directory.",
        "directory sync", KEPT,
        "meta#{team}#sync" (team: &TeamId) / "directory" ();
    HISTORY_PROGRESS = history_progress: "How far the reading of a workspace's history is.", "historian", KEPT,
        "meta#{team}" (team: &TeamId) / "history" ();
    EMOJI = emoji in emoji: "A custom emoji.", "message-writer, directory sync", KEPT,
        "meta#{team}#emoji" (team: &TeamId) / "{name}" (name: &str);

    USER = user in users: "A user.", "message-writer, directory sync, historian, import",
        KEPT.erased_with(User),
        "user#{team}" (team: &TeamId) / "{user}" (user: &UserId);
    PROFILE = profile in profiles:
        "A profile that a user had or has; `hash` distinguishes it from their other profiles.",
        "message-writer, directory sync, import", KEPT.erased_with(User),
        "userhistory#{team}#{user}" (team: &TeamId, user: &UserId) / "{hash}" (hash: &str);
    BOT = bot in bots: "A bot of an app. Its id has the shape of a user's.",
        "message-writer, historian, import", KEPT.erased_with(BotUser),
        "bot#{team}" (team: &TeamId) / "{bot}" (bot: &UserId);
    ORGANISATION = organisation in organisations:
        "Another organisation, whose people write in channels that are shared with it.",
        "message-writer, directory sync", KEPT,
        "team#{team}" (team: &TeamId) / "{organisation}" (organisation: &TeamId);
    PUBLIC_STANCE = public_stance in public_stances:
        "Whether a person may be named on a public site. It stays when the person is erased.",
        "`annalist publish opt-out`", KEPT,
        "optout#{team}" (team: &TeamId) / "{user}" (user: &UserId);
    PSEUDONYM_KEY = pseudonym_key: "The key from which the pseudonyms of a public site are made.",
        "`annalist publish`", KEPT,
        "meta#{team}" (team: &TeamId) / "pseudonyms" ();
    USER_GROUP = user_group in user_groups: "A user group.", "message-writer, directory sync", KEPT,
        "usergroup#{team}" (team: &TeamId) / "{group}" (group: &UserGroupId);
    USER_GROUP_MEMBER = user_group_member in user_group_members:
        "A member of a user group, or a person who was one.",
        "message-writer, directory sync", KEPT.erased_with(User),
        "usergroupmember#{team}#{group}" (team: &TeamId, group: &UserGroupId) / "{user}" (user: &UserId);
    USER_GROUP_NAME = user_group_name in user_group_names:
        "A name that a user group had or has; `hash` distinguishes it from the group's other names.",
        "message-writer, directory sync", KEPT,
        "usergroupname#{team}#{group}" (team: &TeamId, group: &UserGroupId) / "{hash}" (hash: &str);

    GAP = gap in gaps: "A fact from which gaps follow.", "all workers, directory sync, import", KEPT,
        "gap#{team}" (team: &TeamId) / "{fact}" (fact: &str);
    RUN = run in runs: "The events of a workspace that a run of ingest saw.", "message-writer", KEPT,
        "meta#{team}#runs" (team: &TeamId) / "{run}" (run: &RunId) where run = run.as_str();
    JOINED = joined in joins:
        "A time at which the app joined a channel, or a list first showed that it is in it.",
        "channel-indexer, directory sync", KEPT,
        "meta#{team}#joined#{channel}" (team: &TeamId, channel: &ChannelId)
        / "{clock}" (clock: &Ts) where clock = clock.padded();
    FILLED = filled in filled:
        "How far back a channel's history was read from Slack, from `to` towards its beginning.",
        "historian, import", KEPT,
        "filled#{team}" (team: &TeamId) / "{channel}#{to}" (channel: &ChannelId, to: &Ts) where to = to.padded();
    UNREADABLE = unreadable in unreadable:
        "A record that a channel's history before `from` could not be read.", "historian", KEPT,
        "unreadable#{team}" (team: &TeamId)
        / "{channel}#{from}" (channel: &ChannelId, from: &Ts) where from = from.padded();
    VERIFIED = verified in verified_rows:
        "The interval of a channel that was compared with Slack, and what the last night found in it; or, as `night`, the last night that is done.",
        "keeper, `annalist reconcile --nightly`", KEPT,
        "verified#{team}" (team: &TeamId) / "{channel}" (channel: &str);
    BACKFILL_RUN = backfill_run: "The last backfill of a workspace.", "historian", KEPT,
        "meta#{team}#backfill" (team: &TeamId) / "run" ();

    QUARANTINED = quarantined in quarantine: "A job in quarantine.", "all workers",
        TRANSIENT.erased_with(Eraser("if the job carries erased content")),
        "quarantine#{queue}" (queue: QueueName) / "{position}" (position: &str);
    WAITING_JOB = waiting_job in waiting: "A job that waits for something outside Annalist.",
        "message-writer, channel-indexer, file-downloader",
        TRANSIENT.erased_with(Eraser("if the job carries erased content")),
        "waiting#{queue}#{team}" (queue: QueueName, team: &TeamId) / "{position}" (position: &str);
    WAITING_STATE = waiting in waiting_states: "The state of a workspace's jobs of a queue that wait.",
        "message-writer, channel-indexer, file-downloader", TRANSIENT,
        "meta#waiting" () / "{queue}#{team}" (queue: QueueName, team: &TeamId);
    QUARANTINE_SIZE = quarantine_size: "How much of a workspace was kept in quarantine in the last days.",
        "all workers", KEPT,
        "meta#{team}#quarantine" (team: &TeamId) / "kept" ();
    STRANGERS_SIZE = strangers_size:
        "How much of all workspaces that the archive does not know was kept in the last days.",
        "all workers", KEPT,
        "meta#quarantine" () / "kept" ();
    ATTEMPTS = attempts: "The attempts at a message of a queue.", "all workers",
        TRANSIENT.expiring(ATTEMPTS_DAYS),
        "meta#attempts#{queue}#{team}" (queue: QueueRef, team: &TeamId) / "{message}" (message: &MessageId);
    OTHER_ATTEMPTS = other_attempts: "The attempts at a message without a workspace, or of an earlier version.",
        "all workers", TRANSIENT.expiring(ATTEMPTS_DAYS),
        "meta#attempts#{queue}" (queue: QueueRef) / "{message}" (message: &MessageId);
    EXISTENCE_BREAKER = existence_breaker: "A circuit breaker of the existence check.",
        "earlier versions", TRANSIENT,
        "meta#existence" () / "{scope}" (scope: &str);

    ROLLUP_DUE = rollup_due in rollups_due: "A record that a channel's day must be counted.",
        "statistician", TRANSIENT,
        "rollupdue#{team}" (team: &TeamId) / "{day}#{channel}" (channel: &ChannelId, day: &str);
    ROLLUP = rollup in rollups: "The counts of a channel's day.", "statistician",
        KEPT.erased_with(Eraser("emptied and counted again if it may have erased content")),
        "rollup#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{day}" (day: &str);
    ROLLUP_DAY = rollup_day in rollup_days:
        "A version that changes whenever a roll-up of this day changes, in any channel.", "statistician", KEPT,
        "rollupdays#{team}" (team: &TeamId) / "{day}" (day: &str);
    FIRST_POST = first_post in first_posts: "The first message of a user.", "statistician",
        KEPT.erased_with(Eraser("marked as unsure if the message is erased")),
        "firstpost#{team}" (team: &TeamId) / "{user}" (user: &UserId);
    FIGURES_STATE = figures_state: "The statistician's position in the changes to messages.",
        "statistician", KEPT,
        "meta#figures" () / "state" ();
    MEMBERS = members in members: "The number of members of a channel on a day.", "directory sync",
        KEPT.erased_with(ChannelDay),
        "members#{team}#{channel}" (team: &TeamId, channel: &ChannelId) / "{day}" (day: &str);
    LISTED_REPORT = listed_report in reports: "The entry of a stored report in the list of them.",
        "statistician", TRANSIENT.erased_with(Eraser("with every erasure in its workspace")),
        "report#{team}" (team: &TeamId) / "{report}" (report: &str);
    REPORT_PART = report_part in report: "The head of a stored report, or a part of its text.",
        "statistician", TRANSIENT.erased_with(Eraser("with every erasure in its workspace")),
        "report#{team}#{report}" (team: &TeamId, report: &str) / "{part}" (part: &str);

    QUESTION = question in questions: "A question to the responder, by the message that asks it.",
        "responder, poster", TRANSIENT.erased_with(Message),
        "question#{team}" (team: &TeamId) / "{channel}#{ts}" (channel: &ChannelId, ts: &Ts);
    ANSWER = answer in answers: "The answer to a question, and its progress of posting.", "responder, poster",
        TRANSIENT.erased_with(Message),
        "answer#{team}" (team: &TeamId) / "{channel}#{ts}" (channel: &ChannelId, ts: &Ts);
    RESPONDED = responded in responded: "A record that a question was answered, and with what.", "poster",
        KEPT.erased_with(Message),
        "responded#{team}" (team: &TeamId) / "{channel}#{ts}" (channel: &ChannelId, ts: &Ts);
    BOT_THREAD = bot_thread: "A thread in which the responder has posted.", "poster", KEPT,
        "botthread#{team}" (team: &TeamId) / "{channel}#{ts}" (channel: &ChannelId, ts: &Ts);
    BOT_MESSAGE = bot_message in bot_messages: "A message that the responder has posted.", "poster",
        TRANSIENT.erased_with(Message),
        "botmessage#{team}" (team: &TeamId) / "{channel}#{ts}" (channel: &ChannelId, ts: &Ts);
    BUDGET = budget in budgets: "The number of accepted questions in an hour or in a thread.", "responder",
        TRANSIENT,
        "budget#{team}" (team: &TeamId) / "{scope}" (scope: &str);

    FILE = file in files: "A file, independent of where it was shared.",
        "message-writer, file-downloader, historian, import",
        TRANSIENT.erased_with(Eraser("with the last message that shares it")),
        "file#{team}" (team: &TeamId) / "{file}" (file: &FileId);
    UNSHARED_FILE = unshared_file in unshared_files:
        "A file that no message shares any more, whose bytes must be deleted.", "file-downloader, eraser",
        TRANSIENT.erased_with(Eraser("when the bytes are deleted")),
        "unshared#{team}" (team: &TeamId) / "{file}" (file: &FileId);
    CANVAS_TEXT = canvas_text in canvas_texts: "The text of a canvas, for search.", "file-downloader",
        TRANSIENT.erased_with(Eraser("with the last message that shares the canvas")),
        "canvastext#{team}" (team: &TeamId) / "{file}" (file: &FileId);

    READER_TOKEN = reader_token in reader_tokens:
        "A token with which a program reads over HTTP, without its secret.", "the token command", KEPT,
        "token#readers" () / "{id}" (id: &str);
    SIGN_OUT = sign_out in sign_outs: "The time before which the sessions of a person, or of all, do not count.",
        "the sign-out command", KEPT,
        "signout#readers" () / "{who}" (who: &str);
}
