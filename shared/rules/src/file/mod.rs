//! Files: their objects in Slack's events, the states of their downloads, and the rows that store both.
//!
//! * [`object`]: a file object reduced to the needed fields, and the result that it allows without a request.
//! * [`state`]: the state of a file, as a register: the greatest state stays.
//! * [`row`]: the row of a file, the register on the messages it was shared in, and what readers see of both.
//! * [`job`]: the jobs for the file-downloader. [`image`]: the same for avatars and custom emoji.
//!
//! <https://docs.slack.dev/reference/objects/file-object>

pub mod image;
pub mod job;
pub mod object;
pub mod row;
pub mod state;

use std::borrow::Cow;

use serde::Deserialize;

use super::{Change, Malformed, SlackEvent};
use slack::envelope::{self, text_or_none};
use slack::ids::FileId;

pub use job::{FileJob, Jobs, jobs};
pub use object::{FileObject, FilePrecheck};
pub use state::{FileState, FileVerdict};

#[derive(Default, Deserialize)]
struct FileDeleted<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    file_id: Option<Cow<'a, str>>,
}

/// The change if a file was deleted in Slack: its row is marked, and the stored bytes stay.
///
/// <https://docs.slack.dev/reference/events/file_deleted>
pub(super) fn deleted(event: &SlackEvent<'_>) -> Result<Vec<Change>, Malformed> {
    let body: FileDeleted<'_> = envelope::object_or_default(event.raw);
    let missing = Malformed::Missing { event: "file_deleted", field: "file_id" };
    let file = FileId::parse(body.file_id.as_deref().ok_or(missing)?)?;
    Ok(vec![Change::Register(row::deleted(&event.team, &file))])
}

/// The beginning of a text: at most `max_bytes`, whole characters only.
fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
