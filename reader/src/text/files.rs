//! Converts the texts in file objects to lines: of an email, of a snippet, of what was said in a recording.
//!
//! <https://docs.slack.dev/reference/objects/file-object>

use serde_json::Value;

use super::blocks::{list, text};
use super::spans::{LineBuffer, LineKind, TextFrame, TextLine, TextSpan};

/// Maximum number of files whose texts are shown, and of the senders of an email: ten times what Slack's
/// clients attach.
const MAX_FILES: usize = 100;

/// Adds the texts in the files of a message. `first` is the number of the first frame.
pub(super) fn files(files: &[Value], first: usize, lines: &mut LineBuffer<'_>) {
    for (index, file) in files.iter().take(MAX_FILES).enumerate() {
        if lines.is_full() {
            return;
        }
        let mut inside = lines.empty_like();
        content(file, &mut inside);
        if inside.is_empty() {
            continue;
        }
        let mut framed = lines.empty_like();
        let (title, name) = (text(file, "title"), text(file, "name"));
        let is_needed = files.len() > 1 || title != name;
        let name = title.or(name).filter(|_| is_needed);
        add(name, LineKind::Context, &mut framed);
        framed.append(inside);
        lines.append_framed(framed, &TextFrame { number: first + index, color: None });
    }
}

fn content(file: &Value, lines: &mut LineBuffer<'_>) {
    for sender in list(&file["from"]).iter().take(MAX_FILES) {
        let named = text(sender, "name").zip(text(sender, "address"));
        let named = named.map(|(name, address)| format!("{name} <{address}>"));
        let sender = ["original", "address", "name"].iter().find_map(|name| text(sender, name));
        let sender = named.or_else(|| sender.map(str::to_owned));
        add(sender.map(|sender| format!("From: {sender}")).as_deref(), LineKind::Context, lines);
    }
    let is_title = |subject: &&str| ["title", "name"].iter().any(|name| text(file, name) == Some(*subject));
    let subject = text(file, "subject").filter(|subject| !is_title(subject));
    add(subject, LineKind::Heading, lines);
    let written = ["plain_text", "preview_plain_text"].iter().find_map(|name| text(file, name));
    let preview = text(file, "preview").filter(|_| written.is_none());
    add(written, LineKind::Plain, lines);
    let is_code = text(file, "mode") == Some("snippet");
    add(preview, if is_code { LineKind::Preformatted } else { LineKind::Plain }, lines);
    let is_cut = |name: &str| file[name] == true;
    if preview.is_some() && is_cut("preview_is_truncated") {
        add(Some("[and more in the file]"), LineKind::Context, lines);
    }
    let spoken = &file["transcription"]["preview"];
    add(text(spoken, "content"), LineKind::Plain, lines);
    if text(spoken, "content").is_some() && spoken["has_more"] == true {
        add(Some("[and more in the recording]"), LineKind::Context, lines);
    }
    add(text(file, "alt_txt"), LineKind::Context, lines);
}

/// Adds a text without markup.
fn add(text: Option<&str>, kind: LineKind, lines: &mut LineBuffer<'_>) {
    for line in text.into_iter().flat_map(str::lines) {
        lines.line(TextLine { kind, ..TextLine::plain(vec![TextSpan::text(line)]) });
    }
}
