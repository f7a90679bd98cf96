//! The files of the simulated Slack, and what the archive must have of them.

use std::collections::BTreeMap;

use ports::archive::ItemKey;
use ports::files::FileKey;
use rules::file::{FileState, FileVerdict, canvas, row};
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, TeamId, Ts};
use testkit::corpus::{TEAM, event};

use super::erasing::ErasedJobs;
use super::fleet::SimulationState;
use super::model::{MessageLocation, ModelledMessage};
use super::world::{FaultKind, Invariant};

/// The beginning of the ids of canvases.
pub(super) const CANVAS: &str = "F0CANV";

/// The length of every file, as in [`event::file`].
const FILE_BYTES: usize = 12;

/// Returns Slack's object of a file, or `None` if the id is malformed.
pub(super) fn file_object(id: &str) -> Option<Value> {
    FileId::parse(id).ok()?;
    let file = event::file(id, "U0");
    if id.starts_with(CANVAS) {
        return Some(event::with_fields(file, [("mode", "quip".into()), ("updated", 1.into())]));
    }
    if id.starts_with("F0EVIL") {
        let url = json!(format!("https://files.slack.com.evil.example/{id}"));
        return Some(event::with_fields(file, [("url_private", url.clone()), ("url_private_download", url)]));
    }
    Some(file)
}

/// Returns the content type and bytes of a download, or its error status. `updated` returns the time of the
/// last edit of a canvas.
pub(super) fn download(
    host: &str,
    path: &str,
    updated: impl Fn(&str) -> u64,
) -> Result<(&'static str, Vec<u8>), u16> {
    if host != "files.slack.com" {
        return Ok(("image/png", b"a picture".to_vec()));
    }
    let id = path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    if id.starts_with(CANVAS) {
        let page = format!("{}{}</p>", canvas_beginning(id), updated(id));
        return Ok(("text/html", page.into_bytes()));
    }
    if id.starts_with("F0GONE") { Err(404) } else { Ok(("text/plain", file_bytes(id))) }
}

fn canvas_beginning(id: &str) -> String {
    format!("<!DOCTYPE html><p>{id} of ")
}

/// Whether Slack served these bytes as the file at this key. A canvas that Slack cuts is a page too.
pub(super) fn is_served(key: &str, bytes: &[u8]) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    let id = name.split('.').next().unwrap_or_default();
    if id.starts_with(CANVAS) {
        let beginning = canvas_beginning(id);
        bytes.starts_with(beginning.as_bytes()) || beginning.as_bytes().starts_with(bytes)
    } else {
        bytes == file_bytes(name)
    }
}

/// Returns the bytes of a file.
pub(super) fn file_bytes(id: &str) -> Vec<u8> {
    format!("{id:_<FILE_BYTES$}").into_bytes().into_iter().take(FILE_BYTES).collect()
}

/// Checks that every file is stored completely or has a reason, and that its messages have the same state.
pub(super) fn check_files(
    all: &SimulationState,
    messages: &BTreeMap<MessageLocation, ModelledMessage>,
    canvas_edits: &BTreeMap<String, u64>,
    erased: &ErasedJobs,
) {
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let tally = all.world.tally();
    let refused = tally.injected(FaultKind::TokenRevoked) + tally.injected(FaultKind::Refused) > 0;
    for ((channel, ts), expected) in
        messages.iter().filter(|((channel, ts), _)| !erased.concerns(channel, ts))
    {
        for id in &expected.files {
            let broke = |what: String| {
                all.world
                    .report_violation(Invariant::Lost, format!("the file {id} of {ts} in {channel}: {what}"));
            };
            let (Ok(file), Ok(channel), Ok(ts)) =
                (FileId::parse(id), ChannelId::parse(channel), Ts::parse(ts))
            else {
                continue;
            };
            let is_erased = |key: &ItemKey| all.archive.item(key).is_some_and(|row| row.is_erased());
            let message = ItemKey::message(&team, &channel, &ts);
            if is_erased(&message) {
                continue;
            }
            let state = |key: ItemKey| all.archive.item(&key).and_then(|row| row::state(&row, &file));
            let (of_file, of_message) =
                (state(ItemKey::file(&team, &file)), state(ItemKey::message(&team, &channel, &ts)));
            let is_canvas = id.starts_with(CANVAS);
            let newest = all.archive.item(&ItemKey::file(&team, &file)).as_ref().and_then(canvas::newest);
            let fine = match &of_file {
                Some(FileState::Stored(_)) if is_canvas => {
                    // An edit that failed with a refused token can be retried later.
                    let edited_s = canvas_edits.get(id).copied().filter(|_| !refused).unwrap_or_default();
                    newest.is_some_and(|newest| newest.updated >= edited_s)
                }
                Some(FileState::Stored(_)) => {
                    let published = all.files.published();
                    let bytes = published.iter().find(|(key, _)| key.as_str().ends_with(&format!("/{id}")));
                    id.starts_with("F0GOOD") && bytes.is_some_and(|(_, bytes)| **bytes == *file_bytes(id))
                }
                Some(FileState::Verdict(FileVerdict::NotFound)) => id.starts_with("F0GONE"),
                Some(FileState::Verdict(FileVerdict::Gone)) => id.starts_with("F0GONE") && refused,
                // Refused addresses stay refused; a file whose call was refused can be retried later.
                Some(FileState::Failed(_)) => id.starts_with("F0EVIL") || refused,
                Some(FileState::Verdict(FileVerdict::AccessDenied)) => refused,
                Some(FileState::Verdict(_)) | None => false,
            };
            if !fine {
                broke(format!("it is {of_file:?}"));
            }
            // The messages of a canvas may name different versions.
            let is_same = match &of_message {
                Some(FileState::Stored(_)) if is_canvas => matches!(of_file, Some(FileState::Stored(_))),
                of_message => of_file == *of_message,
            };
            if !is_same && !refused {
                broke(format!("it is {of_file:?}, but its message has {of_message:?}"));
            }
        }
    }
    for (key, bytes) in all.files.published() {
        if key.as_str().contains("/images/") == is_served(key.as_str(), &bytes) {
            all.world.report_violation(
                Invariant::Archive,
                format!(
                    "{} is not what Slack served: {:?}",
                    FileKey::as_str(&key),
                    String::from_utf8_lossy(&bytes)
                ),
            );
        }
    }
}
