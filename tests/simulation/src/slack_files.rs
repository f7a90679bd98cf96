//! The files of the simulated Slack.

use serde_json::{Value, json};
use slack::ids::FileId;
use testkit::corpus::event;

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
