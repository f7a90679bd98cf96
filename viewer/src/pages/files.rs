//! Renders the files of the archive.

use maud::{Markup, html};
use reader::files::verdict_text;
use reader::numbers::human_size;
use reader::plain;
use serde_json::Value;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use crate::links::LinkScheme;

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

/// Renders the files with their states.
pub fn files_page(page: &FilesPage, links: &dyn LinkScheme) -> Markup {
    html! {
        h1 { "Files" }
        @if page.files.is_empty() {
            p { "There are no files here." }
        } @else {
            div class="scrolling" {
                table class="wide" {
                    thead { tr { th scope="col" { "name" } th scope="col" { "type" } th scope="col" class="number" { "size" } th scope="col" { "state" } th scope="col" { "shared" } } }
                    tbody { @for file in &page.files { (row(file, links)) } }
                }
            }
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
