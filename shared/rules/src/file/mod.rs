//! Files: their objects in Slack's events, the states of their downloads, and the rows that store both.
//!
//! * [`object`]: a file object reduced to the needed fields, and the result that it allows without a request.
//! * [`state`]: the state of a file, as a register: the greatest state stays.
//! * [`stored`]: what its rows have in common.
//! * [`row`]: the row of a file, the register on the messages it was shared in, and what readers see of both.
//! * [`canvas`]: the versions of a canvas, one per edit.
//! * [`canvas_text`]: the text of a canvas, for search; [`page_text`] reads it from a page.
//! * [`named`]: which rows name stored bytes.
//! * [`job`]: the jobs for the file-downloader. [`image`]: the same for avatars and custom emoji.
//!
//! <https://docs.slack.dev/reference/objects/file-object>

pub mod canvas;
pub mod canvas_text;
pub mod image;
pub mod job;
pub mod named;
pub mod object;
pub mod page_text;
pub mod row;
pub mod state;
mod stored;

use std::borrow::Cow;

use serde::Deserialize;

use super::{Change, Malformed, SlackEvent};
use slack::envelope::{self, text_or_none};
use slack::ids::{ChannelId, FileId};

pub use job::{FileJob, Jobs, jobs};
pub use object::{FileObject, FilePrecheck};
pub use state::{FileState, FileVerdict};

#[derive(Default, Deserialize)]
struct AboutFile<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    file_id: Option<Cow<'a, str>>,
}

/// The file that an event is about.
fn file_id(event: &SlackEvent<'_>, kind: &'static str) -> Result<FileId, Malformed> {
    let body: AboutFile<'_> = envelope::object_or_default(event.raw);
    let missing = Malformed::Missing { event: kind, field: "file_id" };
    Ok(FileId::parse(body.file_id.as_deref().ok_or(missing)?)?)
}

/// The file that was changed: a canvas was edited, for example. The event does not show what changed.
///
/// # Errors
/// [`Malformed`] if the id is missing or malformed.
///
/// <https://docs.slack.dev/reference/events/file_change>
pub fn changed(event: &SlackEvent<'_>) -> Result<FileId, Malformed> {
    file_id(event, "file_change")
}

/// The change if a file was deleted in Slack: its row is marked, and the stored bytes stay.
///
/// <https://docs.slack.dev/reference/events/file_deleted>
pub(super) fn deleted(event: &SlackEvent<'_>) -> Result<Vec<Change>, Malformed> {
    Ok(vec![Change::Register(row::deleted(&event.team, &file_id(event, "file_deleted")?))])
}

/// The channels that the deleted file was shared in; `None` if the event does not say it. Direct messages are
/// left out. Slack does not document the field, and sends it.
pub fn deleted_from(event: &SlackEvent<'_>) -> Option<Vec<ChannelId>> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct DeletedFile {
        channel_ids: Option<Vec<String>>,
    }
    let ids = serde_json::from_str::<DeletedFile>(event.raw.get()).ok()?.channel_ids?;
    let ids = ids.iter().filter(|id| !id.starts_with('D'));
    ids.map(|id| ChannelId::parse(id).ok()).collect()
}

/// The beginning of a text: at most `max_bytes`, whole characters only.
fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
