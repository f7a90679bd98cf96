//! Renders the files of the archive.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::files::verdict_text;
use reader::numbers::human_size;
use reader::plain;
use serde_json::Value;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::scrolling;
use crate::links::LinkScheme;
use crate::times;

/// Maximum number of characters of a name that are shown.
const MAX_FILE_NAME_CHARS: usize = 120;

/// A page of files.
#[derive(Debug, Default)]
pub struct FilesPage {
    /// The rows from [`rules::project::file`].
    pub files: Vec<Value>,
    /// The address of the next page, if there is one.
    pub next: Option<String>,
}

/// The page of a canvas.
#[derive(Debug)]
pub struct CanvasPage {
    /// The row from [`rules::project::file`].
    pub file: Value,
    /// The text of the newest version.
    pub text: String,
}

/// Renders a canvas: its text, and its versions, the newest first.
pub fn canvas_page(page: &CanvasPage, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let file = &page.file;
    let text = |name: &str| file[name].as_str();
    let ids = || Some((TeamId::parse(text("team_id")?).ok()?, FileId::parse(text("file_id")?).ok()?));
    let bytes = ids().and_then(|(team, file)| links.file(&team, &file));
    let versions = file["versions"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        h1 { bdi { (plain::excerpt(text("name").unwrap_or("unnamed"), MAX_FILE_NAME_CHARS)) } }
        @if file["deleted"] == true { p class="note" { "The canvas was deleted in Slack." } }
        p { "Shared in: " (shares(file, links)) }
        @for line in page.text.lines() { p class="text" dir="auto" { (plain::line(line)) } }
        h2 { "Versions" }
        table {
            thead { tr { th scope="col" { "edited" } th scope="col" class="number" { "size" } th scope="col" { "state" } } }
            tbody { @for version in versions.iter().rev() { (version_row(version, bytes.as_deref(), zone)) } }
        }
    }
}

fn version_row(version: &Value, bytes: Option<&str>, zone: &TimeZone) -> Markup {
    let updated = version["updated"].as_u64().unwrap_or_default();
    let ts = Ts::parse(&format!("{updated}.000000")).ok();
    let edited = ts.map(|ts| times::short(&ts, zone)).unwrap_or_default();
    let address =
        bytes.filter(|_| version["uri"].is_string()).map(|bytes| format!("{bytes}?updated={updated}"));
    html! {
        tr {
            td { @match address { Some(address) => a href=(address) download { (edited) }, None => (edited) } }
            td class="number" { (version["size_bytes"].as_u64().map(human_size).unwrap_or_default()) }
            td { @match version["verdict"].as_str() { Some(verdict) => (verdict_text(verdict)), None => "held" } }
        }
    }
}

/// Renders the files with their states.
pub fn files_page(page: &FilesPage, links: &dyn LinkScheme) -> Markup {
    html! {
        h1 { "Files" }
        @if page.files.is_empty() {
            p { "There are no files here." }
        } @else {
            (scrolling("Files", &html! {
                table class="wide" {
                    thead { tr { th scope="col" { "name" } th scope="col" { "type" } th scope="col" class="number" { "size" } th scope="col" { "state" } th scope="col" { "shared" } } }
                    tbody { @for file in &page.files { (row(file, links)) } }
                }
            }))
        }
        @if let Some(next) = &page.next { p class="way" { a rel="next" href=(next) { "More files" } } }
    }
}

fn row(file: &Value, links: &dyn LinkScheme) -> Markup {
    let text = |name: &str| file[name].as_str();
    let name = plain::excerpt(text("name").unwrap_or("unnamed"), MAX_FILE_NAME_CHARS);
    let state = text("state").unwrap_or("pending");
    let address =
        || links.file(&TeamId::parse(text("team_id")?).ok()?, &FileId::parse(text("file_id")?).ok()?);
    let address = (state == "held").then(address).flatten();
    let canvas =
        || links.canvas(&TeamId::parse(text("team_id")?).ok()?, &FileId::parse(text("file_id")?).ok()?);
    let canvas = canvas();
    let counted =
        |count: usize| if count == 1 { "1 version".to_owned() } else { format!("{count} versions") };
    let reason = text("verdict").map(verdict_text).or(text("error"));
    html! {
        tr {
            td class="name" {
                @match address {
                    Some(address) => a href=(address) download { bdi { (name) } },
                    None => bdi { (name) },
                }
            }
            td { (plain::excerpt(text("mimetype").unwrap_or_default(), 40)) }
            td class="number" { (file["size_bytes"].as_u64().map(human_size).unwrap_or_default()) }
            td {
                (plain::excerpt(state, 40))
                @if let Some(reason) = reason { ": " (plain::excerpt(reason, 120)) }
                @if file["deleted"] == true { " (deleted in Slack)" }
                @if let Some(versions) = file["versions"].as_array() {
                    ", "
                    @match canvas { Some(canvas) => a href=(canvas) { (counted(versions.len())) }, None => (counted(versions.len())) }
                }
            }
            td { (shares(file, links)) }
        }
    }
}

/// Renders links to the first few messages that share a file.
fn shares(file: &Value, links: &dyn LinkScheme) -> Markup {
    let shares = file["shares"].as_array().map_or(&[][..], Vec::as_slice);
    let message = |share: &Value| {
        let channel = ChannelId::parse(share["channel_id"].as_str()?).ok()?;
        links.permalink(&channel, &Ts::parse(share["ts"].as_str()?).ok()?)
    };
    html! {
        @for (index, address) in shares.iter().filter_map(message).take(3).enumerate() {
            @if index > 0 { ", " }
            a href=(address) { "message" @if index > 0 { " " (index + 1) } }
        }
    }
}
