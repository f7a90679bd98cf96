//! The files of a message. Types that a browser shows are embedded, other files are downloads. All of them
//! come from the archive's file store.

use maud::{Markup, html};
use reader::files;
use reader::numbers::human_size;
use reader::plain;
use rules::view::{MessageView, file_id, file_mimetype, file_size, is_file_deleted};
use serde_json::Value;

use super::{PageContext, with_code};

/// Maximum number of files that are shown per message: ten times the limit of Slack's clients.
const MAX_FILES: usize = 100;

/// Maximum number of characters of a name that are shown.
const MAX_FILE_NAME_CHARS: usize = 120;

/// The greatest width and height at which a picture is shown, in pixels. The style sheet has the same ones.
const MAX_PICTURE: [u64; 2] = [416, 320];

/// No picture has more pixels in a row: browsers show fewer.
const MAX_PIXELS: u64 = 100_000;

/// How a browser shows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileShape {
    Image,
    Video,
    /// As sound.
    Audio,
    /// As a download.
    Other,
}

impl FileShape {
    /// Determines the shape from a content type, detected or as reported by Slack.
    pub fn from_content_type(content_type: &str) -> Self {
        match content_type {
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Self::Image,
            "video/mp4" | "video/webm" => Self::Video,
            "audio/mpeg" | "audio/ogg" | "audio/wav" | "audio/flac" | "audio/mp4" | "audio/webm" => {
                Self::Audio
            }
            _ => Self::Other,
        }
    }
}

/// Renders the files of a message.
pub fn of(message: &MessageView, shown: &PageContext<'_>) -> Markup {
    let listed = message.files();
    html! {
        @if !listed.is_empty() {
            ul class="files" {
                @for file in listed.iter().take(MAX_FILES) { li { (one(message, file, shown)) } }
                @if listed.len() > MAX_FILES { li { "and " (listed.len() - MAX_FILES) " more" } }
            }
        }
    }
}

/// The size at which a picture is shown, so that the page does not move when it is loaded: as large as it is, and
/// at most the greatest size. `None` if Slack does not say how large it is.
fn shown_size(file: &Value) -> Option<[u64; 2]> {
    let [width, height] = ["original_w", "original_h"]
        .map(|name| file[name].as_u64().filter(|pixels| (1..=MAX_PIXELS).contains(pixels)));
    let (width, height) = (width?, height?);
    let [max_width, max_height] = MAX_PICTURE;
    let width_shown = width.min(max_width).min((max_height * width / height).max(1));
    Some([width_shown, (height * width_shown / width).clamp(1, max_height)])
}

fn one(message: &MessageView, file: &Value, shown: &PageContext<'_>) -> Markup {
    let name = ["title", "name", "id"]
        .into_iter()
        .find_map(|name| file[name].as_str().filter(|text| !text.is_empty()));
    let name = plain::excerpt(name.unwrap_or("unnamed"), MAX_FILE_NAME_CHARS);
    let size = file_size(file).map(human_size);
    let state = files::file_state(message, file);
    let address = || shown.links.file(&shown.location.team, &file_id(file)?);
    let Some(address) = (state == Some("held")).then(address).flatten() else {
        // What the archive holds is not the public's concern.
        if shown.names.are_public() {
            return html! { span class="file missing" { bdi { (name) } } };
        }
        let why = match state {
            Some("held") => "it is not in this copy",
            Some(state) => files::verdict_text(state),
            None => "it is not fetched yet",
        };
        return html! { span class="file missing" { bdi { (name) } @if let Some(size) = size { " " (size) } " – " (with_code(why, None)) } };
    };
    let caption = html! {
        a class="file" href=(address) download { bdi { (name) } }
        @if let Some(size) = size { " " span class="quiet" { (size) } }
        @if is_file_deleted(file) { " " span class="quiet" { "deleted in Slack" } }
    };
    match FileShape::from_content_type(file_mimetype(file).unwrap_or_default()) {
        FileShape::Image => html! {
            @let [width, height] = shown_size(file).map_or([None; 2], |size| size.map(Some));
            a class="picture" href=(address) { img src=(address) alt=(name) width=[width] height=[height] loading="lazy"; } (caption)
        },
        FileShape::Video => {
            html! { video src=(address) controls preload="none" aria-label=(name) {} (caption) }
        }
        FileShape::Audio => {
            html! { audio src=(address) controls preload="none" aria-label=(name) {} (caption) }
        }
        FileShape::Other => caption,
    }
}
