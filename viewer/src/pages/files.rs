//! Renders the files of the archive.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::files::verdict_text;
use reader::numbers::human_size;
use reader::plain;
use rules::view::{FileVersionView, FileView};
use slack::ids::{FileId, TeamId, Ts};

use super::scrolling;
use crate::links::LinkScheme;
use crate::times;

/// Maximum number of characters of a name that are shown.
const MAX_FILE_NAME_CHARS: usize = 120;

#[derive(Debug, Default)]
pub struct FilesPage {
    /// The rows from [`rules::project::file`].
    pub files: Vec<FileView>,
    /// The address of the next page, if there is one.
    pub next: Option<String>,
}

#[derive(Debug)]
pub struct CanvasPage {
    /// The row from [`rules::project::file`].
    pub file: FileView,
    /// The text of the newest version.
    pub text: String,
}

/// Renders a canvas: its text, and its versions, the newest first.
pub fn canvas_page(page: &CanvasPage, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let file = &page.file;
    let bytes = ids(file).and_then(|(team, file)| links.file(&team, &file));
    html! {
        h1 { bdi { (plain::excerpt(file.name().unwrap_or("unnamed"), MAX_FILE_NAME_CHARS)) } }
        @if file.is_deleted() { p class="note" { "The canvas was deleted in Slack." } }
        p { "Shared in: " (shares(file, links)) }
        @for line in page.text.lines() { p class="text" dir="auto" { (plain::line(line)) } }
        h2 { "Versions" }
        table {
            thead { tr { th scope="col" { "edited" } th scope="col" class="number" { "size" } th scope="col" { "state" } } }
            tbody { @for version in file.versions().rev() { (version_row(version, bytes.as_deref(), zone)) } }
        }
    }
}

/// The ids in a row.
fn ids(file: &FileView) -> Option<(TeamId, FileId)> {
    Some((file.team()?, file.id()?))
}

fn version_row(version: FileVersionView<'_>, bytes: Option<&str>, zone: &TimeZone) -> Markup {
    let updated = version.updated_s().unwrap_or_default();
    let ts = Ts::parse(&format!("{updated}.000000")).ok();
    let edited = ts.map(|ts| times::short(&ts, zone)).unwrap_or_default();
    let address = bytes.filter(|_| version.uri().is_some()).map(|bytes| format!("{bytes}?updated={updated}"));
    html! {
        tr {
            td { @match address { Some(address) => a href=(address) download { (edited) }, None => (edited) } }
            td class="number" { (version.size_bytes().map(human_size).unwrap_or_default()) }
            td { @match version.verdict() { Some(verdict) => (verdict_text(verdict)), None => "held" } }
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

fn row(file: &FileView, links: &dyn LinkScheme) -> Markup {
    let name = plain::excerpt(file.name().unwrap_or("unnamed"), MAX_FILE_NAME_CHARS);
    let state = file.state().unwrap_or("pending");
    let ids = ids(file);
    let address = ids.as_ref().filter(|_| state == "held").and_then(|(team, file)| links.file(team, file));
    let canvas = ids.as_ref().and_then(|(team, file)| links.canvas(team, file));
    let counted =
        |count: usize| if count == 1 { "1 version".to_owned() } else { format!("{count} versions") };
    let reason = file.verdict().map(verdict_text).or(file.error());
    html! {
        tr {
            td class="name" {
                @match address {
                    Some(address) => a href=(address) download { bdi { (name) } },
                    None => bdi { (name) },
                }
            }
            td { (plain::excerpt(file.mimetype().unwrap_or_default(), 40)) }
            td class="number" { (file.size_bytes().map(human_size).unwrap_or_default()) }
            td {
                (plain::excerpt(state, 40))
                @if let Some(reason) = reason { ": " (plain::excerpt(reason, 120)) }
                @if file.is_deleted() { " (deleted in Slack)" }
                @if file.is_canvas() {
                    ", "
                    @match canvas { Some(canvas) => a href=(canvas) { (counted(file.versions().len())) }, None => (counted(file.versions().len())) }
                }
            }
            td { (shares(file, links)) }
        }
    }
}

/// Renders links to the first few messages that share a file.
fn shares(file: &FileView, links: &dyn LinkScheme) -> Markup {
    let addresses = file.shares().filter_map(|(channel, ts)| links.permalink(&channel, &ts));
    html! {
        @for (index, address) in addresses.take(3).enumerate() {
            @if index > 0 { ", " }
            a href=(address) { "message" @if index > 0 { " " (index + 1) } }
        }
    }
}
