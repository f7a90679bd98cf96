//! The author and content of a message, read into [`spans`] from the message's row alone, without any lookup.
//!
//! There is one reading: what Slack shows. [`flat`] renders it as plain text, `viewer` as pages, `cli` as
//! Markdown. Content is the blocks, if they have words, because Slack shows their text only in notifications;
//! otherwise the text; then attachments, and the texts in files. docs/messages.md describes it.

mod attachments;
mod blocks;
mod data;
mod dates;
mod elements;
mod files;
pub mod flat;
mod formatting;
#[cfg(test)]
mod hostile_tests;
pub mod kinds;
pub mod markdown;
mod mentions;
pub mod mrkdwn;
mod notices;
mod reading;
#[cfg(test)]
mod reading_tests;
mod rich_text;
pub mod spans;
mod unknown;

use jiff::tz::TimeZone;
use rules::view::MessageView;
use serde_json::Value;

use self::blocks::{list, text};
use self::reading::MessageParts;
use self::spans::{LineBuffer, TextLine, TextSpan};

/// The text that Slack sends if it has no text to show.
const PLACEHOLDER: &str = "This content can't be displayed.";

/// The author and content of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageText {
    pub author: MessageAuthor,
    /// Whether the message is speech or a notice.
    pub manner: Manner,
    /// The content. That of a notice follows the author's name and has at least one line.
    pub lines: Vec<TextLine>,
    /// The text of a notification, if it is not the content: people may search for what they saw there.
    pub notification: Vec<TextLine>,
}

/// Whether a message is speech or a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The author wrote the message.
    Speech,
    /// The message describes what the author did.
    Notice,
}

/// The author of a message, according to the message itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MessageAuthor {
    /// The id of a person or of an app's user.
    pub user: Option<String>,
    /// The name in the message. For apps and people of other workspaces, it is often the only name.
    pub name: Option<String>,
    /// Whether `name` takes precedence over the archive's name, because an app chose it for this message.
    pub is_named_by_app: bool,
    /// The id of an app's bot.
    pub bot: Option<String>,
}

/// Reads a row that [`rules::project::message`] returned, with its dates in this zone.
pub fn read(message: &MessageView, zone: &TimeZone) -> MessageText {
    let raw = message.raw().unwrap_or_default();
    let mut author = author(message, &raw);
    if let Some(notice) = notices::read(message, &raw, zone) {
        author.user = notice.user.or(author.user);
        let (manner, lines) = (Manner::Notice, notice.lines);
        return MessageText { author, manner, lines, notification: Vec::new() };
    }
    let own = message.text().filter(|text| text.trim() != PLACEHOLDER);
    let own = own.map(|text| mrkdwn::parse(text, zone)).unwrap_or_default();
    let parts = MessageParts::new(zone, &own, message.files());
    let mut content = LineBuffer::new(&parts);
    blocks::blocks(&raw["blocks"], &mut content);
    let has_words = content.has_words();
    let mut lines = if has_words {
        content.into_lines()
    } else {
        let mut text = LineBuffer::for_text(&parts);
        text.markup(own.clone(), raw["mrkdwn"] != false);
        text.append(content);
        text.into_lines()
    };
    let mut more = LineBuffer::new(&parts);
    attachments::attachments(&raw["attachments"], &mut more);
    files::files(message.files(), list(&raw["attachments"]).len(), &mut more);
    lines.extend(more.into_lines());
    let notification = if has_words { spans::split_lines(own) } else { Vec::new() };
    let notification = notification.into_iter().map(TextLine::plain).collect();
    MessageText { author, manner: Manner::Speech, lines, notification }
}

fn author(message: &MessageView, raw: &Value) -> MessageAuthor {
    let owned = |value: &Value, name: &str| text(value, name).map(str::to_owned);
    let is_named_by_app = message.subtype() == Some("bot_message") && message.username().is_some();
    let profile =
        ["display_name", "real_name", "name"].iter().find_map(|name| owned(&raw["user_profile"], name));
    let name =
        message.username().map(str::to_owned).or(profile).or_else(|| owned(&raw["bot_profile"], "name"));
    let [user, bot] = [message.user(), message.bot()].map(|id| id.map(str::to_owned));
    MessageAuthor { user, name, is_named_by_app, bot }
}

impl MessageAuthor {
    /// The id of the author: the person or the app's user, otherwise the app's bot.
    pub fn id(&self) -> Option<&str> {
        self.user.as_deref().or(self.bot.as_deref())
    }
}

impl MessageText {
    /// The ids of the author, of the app's bot, and of the mentioned people, in this order.
    pub fn people(&self) -> impl Iterator<Item = &str> {
        let author = [&self.author.user, &self.author.bot].into_iter().filter_map(Option::as_deref);
        author.chain(spans::people(self.all_spans()))
    }

    /// The ids of the mentioned user groups.
    pub fn user_groups(&self) -> impl Iterator<Item = &str> {
        spans::user_groups(self.all_spans())
    }

    pub fn mentions_channel(&self) -> bool {
        spans::mentions_channel(self.all_spans())
    }

    /// The spans of the content and of the notification.
    pub(crate) fn all_spans(&self) -> impl Iterator<Item = &TextSpan> {
        self.lines.iter().chain(&self.notification).flat_map(|line| &line.spans)
    }
}
