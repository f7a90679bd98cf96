//! Renders the files of the archive.

use std::cmp::Reverse;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::files::verdict_text;
use reader::names::DisplayNames;
use reader::numbers::{counted, human_size};
use reader::plain;
use rules::view::{FileVersionView, FileView};
use serde::Deserialize;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

use super::attached::FileShape;
use super::sidebar::ChannelMenu;
use super::{MAX_NAME_CHARS, with_code};
use crate::links::{LinkScheme, SitePage};
use crate::public_links::encoded;
use crate::times;

/// Maximum number of characters of a name that are shown.
const MAX_FILE_NAME_CHARS: usize = 120;

/// Maximum number of messages that share a file and are linked.
const MAX_SHARES: usize = 3;

/// The type of a file, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A picture.
    Image,
    /// A video.
    Video,
    /// Sound.
    Audio,
    /// Text, PDF, and documents of office programs.
    Document,
    /// Anything else.
    Other,
}

impl FileKind {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Image, Self::Video, Self::Audio, Self::Document, Self::Other];

    /// Its name in addresses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Document => "document",
            Self::Other => "other",
        }
    }

    /// The type for a media type.
    pub fn of(mimetype: &str) -> Self {
        match mimetype.split_once('/') {
            Some(("image", _)) => Self::Image,
            Some(("video", _)) => Self::Video,
            Some(("audio", _)) => Self::Audio,
            Some(("text", _)) => Self::Document,
            Some(("application", rest)) if OFFICE.iter().any(|part| rest.starts_with(part)) => Self::Document,
            Some(_) | None => Self::Other,
        }
    }
}

/// The beginnings of the media types of documents: PDF, RTF, those of Microsoft's and of open formats, of Google's
/// programs, and of Slack's canvases.
const OFFICE: [&str; 9] = [
    "pdf",
    "rtf",
    "msword",
    "vnd.ms-",
    "vnd.openxmlformats-",
    "vnd.oasis.opendocument.",
    "vnd.google-apps.",
    "vnd.apple.",
    "vnd.slack-docs",
];

/// The state of a file, as the filter names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStateName {
    /// Its bytes are stored.
    Held,
    /// It could not be fetched.
    Failed,
    /// It is not fetched, for a reason.
    Skipped,
    /// It is not fetched yet.
    Pending,
}

impl FileStateName {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Held, Self::Failed, Self::Skipped, Self::Pending];

    /// Its name in addresses and in rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Pending => "pending",
        }
    }
}

/// A file of the list.
#[derive(Debug)]
pub struct ShownFile {
    /// The row from [`rules::project::file`].
    pub row: FileView,
    /// Who uploaded it.
    pub user: Option<UserId>,
    /// When a message shared it for the last time, or otherwise when it was uploaded.
    pub shared_at: Option<Ts>,
}

/// The start of a page: after this file of this workspace, and the number of the page of what is read from there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesStart {
    /// The workspace and the file's id.
    pub after: Option<(TeamId, String)>,
    /// The number of the page, from 0.
    pub page: usize,
}

/// A page of files.
#[derive(Debug, Default)]
pub struct FilesPage {
    /// The files, newest first.
    pub files: Vec<ShownFile>,
    /// Where the next page starts, if there is one.
    pub next: Option<FilesStart>,
}

/// The form of the list of files, as it was filled in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FilesForm {
    /// A part of the name.
    pub q: String,
    /// The id or name of a channel.
    pub channel: String,
    /// The id or name of a person.
    pub from: String,
    /// The name of a [`FileKind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of a [`FileStateName`].
    pub state: String,
}

impl FilesForm {
    /// The filled fields as the query of an address.
    fn query(&self) -> Vec<String> {
        let Self { q, channel, from, kind, state } = self;
        let fields = [("q", q), ("channel", channel), ("from", from), ("type", kind), ("state", state)];
        let filled = fields.into_iter().filter(|(_, value)| !value.is_empty());
        filled.map(|(name, value)| format!("{name}={}", encoded(value))).collect()
    }

    /// The address of the page that starts there.
    fn address(&self, start: &FilesStart, files: &str) -> String {
        let mut query = self.query();
        if let Some((team, file)) = &start.after {
            query.push(format!("team={team}&after={}", encoded(file)));
        }
        if start.page > 0 {
            query.push(format!("page={}", start.page));
        }
        format!("{files}?{}", query.join("&"))
    }
}

/// The context for the list of files.
pub struct FilesContext<'a> {
    /// The addresses of pages.
    pub links: &'a dyn LinkScheme,
    /// The names of people.
    pub names: &'a DisplayNames<'a>,
    pub menu: &'a ChannelMenu,
    /// The time zone of times.
    pub zone: &'a TimeZone,
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
        p { "Shared in: " (canvas_shares(file, links)) }
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
            td { @match version.verdict() { Some(verdict) => (with_code(verdict_text(verdict), None)), None => "held" } }
        }
    }
}

/// Renders the files with their states, and the form that selects them.
pub fn files_page(page: &FilesPage, form: &FilesForm, context: &FilesContext<'_>) -> Markup {
    let address = context.links.site_page(SitePage::Files).unwrap_or_default();
    html! {
        h1 { "Files" }
        (filter_form(form, &address, context))
        @if page.files.is_empty() { p { "There are no such files here." } }
        ul class="file-list" { @for file in &page.files { (entry(file, context)) } }
        @if let Some(next) = &page.next {
            p class="way" { a rel="next" href=(form.address(next, &address)) { "More files" } }
        }
    }
}

fn filter_form(form: &FilesForm, address: &str, context: &FilesContext<'_>) -> Markup {
    let select = |name: &str, label: &str, selected: &str, options: &[(&str, String)]| {
        html! {
            select name=(name) aria-label=(label) {
                option value="" { (label) }
                @for (value, text) in options { option value=(value) selected[*value == selected] { (text) } }
            }
        }
    };
    let field = |name: &str, label: &str, value: &str| {
        html! { input name=(name) aria-label=(label) placeholder=(label) value=(value) maxlength="200" autocomplete="off"; }
    };
    let channels: Vec<(&str, String)> = context
        .menu
        .channels
        .iter()
        .map(|channel| (channel.location.channel.as_str(), format!("#{}", channel.display_name())))
        .collect();
    html! {
        form class="file-filter" action=(address) method="get" {
            (field("q", "Name", &form.q))
            (select("channel", "Any channel", &form.channel, &channels))
            (field("from", "From anyone", &form.from))
            (select("type", "Any type", &form.kind, &FileKind::ALL.map(|kind| (kind.as_str(), kind.as_str().to_owned()))))
            (select("state", "Any state", &form.state, &FileStateName::ALL.map(|state| (state.as_str(), state.as_str().to_owned()))))
            button type="submit" { "Show" }
        }
    }
}

fn entry(file: &ShownFile, context: &FilesContext<'_>) -> Markup {
    let ShownFile { row, user, .. } = file;
    let links = context.links;
    let name = plain::excerpt(row.name().unwrap_or("unnamed"), MAX_FILE_NAME_CHARS);
    let state = row.state().unwrap_or("pending");
    let ids = ids(row);
    let address = ids.as_ref().filter(|_| state == "held").and_then(|(team, file)| links.file(team, file));
    let canvas = ids.as_ref().and_then(|(team, file)| links.canvas(team, file)).filter(|_| row.is_canvas());
    let reason = row.verdict().map(verdict_text).or(row.error());
    let mimetype = row.mimetype().unwrap_or_default();
    let is_picture = FileShape::from_content_type(mimetype) == FileShape::Image;
    let person = user.as_ref().zip(row.team()).map(|(user, team)| {
        let name = plain::excerpt(context.names.person_name(user.as_str()), MAX_NAME_CHARS);
        (links.person(&team, user.as_str()).filter(|_| context.names.has_name(user.as_str())), name)
    });
    html! {
        li data-file=[row.id_text()] {
            @match &address {
                Some(address) if is_picture => a class="picture" href=(address) { img class="thumbnail" src=(address) alt=(name) width="48" height="48" loading="lazy"; },
                Some(_) | None => span class="thumbnail" aria-hidden="true" {},
            }
            div {
                p {
                    @match &address { Some(address) => a href=(address) download { bdi { (name) } }, None => bdi { (name) } }
                    @if let Some(canvas) = canvas { ", " a href=(canvas) { (counted(row.versions().len(), "version", "versions")) } }
                }
                p class="quiet" {
                    @if let Some((address, name)) = &person { a href=[address.as_deref()] { bdi { (name) } } " · " }
                    (shares(row, context))
                    @if let Some(size) = row.size_bytes() { (human_size(size)) " · " }
                    span title=(plain::excerpt(mimetype, 80)) { (FileKind::of(mimetype).as_str()) }
                    @if state != "held" { " · " strong { (plain::excerpt(state, 40)) } @if let Some(reason) = reason { ": " (with_code(&plain::excerpt(reason, 120), None)) } }
                    @if row.is_deleted() { " · deleted in Slack" }
                }
            }
        }
    }
}

/// Renders links to the newest messages that share a file.
fn shares(file: &FileView, context: &FilesContext<'_>) -> Markup {
    let mut shares: Vec<(ChannelId, Ts)> = file.shares().collect();
    shares.sort_by_key(|(_, ts)| Reverse(ts.micros()));
    let name = |id: &ChannelId| {
        let mut channels = context.menu.channels.iter();
        let channel = channels.find(|channel| channel.location.channel == *id);
        channel.map_or_else(|| id.to_string(), |channel| format!("#{}", channel.display_name()))
    };
    html! {
        @for (channel, ts) in shares.iter().take(MAX_SHARES) {
            a href=[context.links.permalink(channel, ts)] { bdi { (name(channel)) } ", " (times::short(ts, context.zone)) }
            " · "
        }
    }
}

/// Renders links to the first few messages that share a canvas.
fn canvas_shares(file: &FileView, links: &dyn LinkScheme) -> Markup {
    let addresses = file.shares().filter_map(|(channel, ts)| links.permalink(&channel, &ts));
    html! {
        @for (index, address) in addresses.take(MAX_SHARES).enumerate() {
            @if index > 0 { ", " }
            a href=(address) { "message" @if index > 0 { " " (index + 1) } }
        }
    }
}
