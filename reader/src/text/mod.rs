//! The author and content of a message, read into [`spans`] from the message's row alone, without any lookup.
//! [`flat`] converts the content to plain text.
//!
//! [`read`] returns the message's text as Slack sent it. [`read_formatted`] returns what Slack shows, for
//! pages: blocks instead of their fallback text, and markup converted to styles.

mod attachments;
mod blocks;
pub mod flat;
mod formatting;
pub mod mrkdwn;
mod notices;
mod rich_text;
pub mod spans;

use serde_json::Value;
use slack::envelope;

use self::attachments::{attachments, is_preview};
use self::blocks::{blocks, list, text};
use self::spans::{LineBuffer, TextLine, TextSpan};

/// The text that Slack sends if it has no text to show.
const PLACEHOLDER: &str = "This content can't be displayed.";

/// The author and content of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageText {
    /// The author.
    pub author: MessageAuthor,
    /// Whether the message is speech or a notice.
    pub manner: Manner,
    /// The content. That of a notice follows the author's name and has at least one line.
    pub lines: Vec<TextLine>,
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

/// Reads a row that [`rules::project::message`] returned.
pub fn read(message: &Value) -> MessageText {
    let raw = raw_message(message);
    let mut author = author(message, &raw);
    if let Some(notice) = notices::read(message, &raw) {
        author.user = notice.user.or(author.user);
        return MessageText { author, manner: Manner::Notice, lines: notice.lines };
    }
    let mut lines = LineBuffer::default();
    let own = text(message, "text").filter(|text| text.trim() != PLACEHOLDER);
    if let Some(text) = own {
        // Slack limits the length of a text, so it is shown completely.
        let mut all: Vec<TextLine> =
            spans::split_lines(mrkdwn::parse(text)).into_iter().map(TextLine::plain).collect();
        // Previews of the links in a text add nothing to it.
        attachments(
            list(&raw["attachments"]).iter().filter(|attachment| !is_preview(attachment)),
            &mut lines,
        );
        all.extend(lines.into_lines());
        return MessageText { author, manner: Manner::Speech, lines: all };
    }
    blocks(&raw["blocks"], &mut lines);
    attachments(list(&raw["attachments"]).iter(), &mut lines);
    MessageText { author, manner: Manner::Speech, lines: lines.into_lines() }
}

/// Reads a row like [`read`], with formatting: blocks instead of their fallback text, previews of links, and
/// markup converted to styles.
pub fn read_formatted(message: &Value) -> MessageText {
    let raw = raw_message(message);
    let mut author = author(message, &raw);
    if let Some(notice) = notices::read(message, &raw) {
        author.user = notice.user.or(author.user);
        return MessageText { author, manner: Manner::Notice, lines: notice.lines };
    }
    let mut lines = LineBuffer::with_formatting();
    blocks(&raw["blocks"], &mut lines);
    if lines.is_empty() {
        lines = LineBuffer::with_formatting();
        let own = text(message, "text").filter(|text| text.trim() != PLACEHOLDER);
        own.into_iter().for_each(|text| lines.spans(mrkdwn::parse(text)));
    }
    // A preview that has nothing but an address is left out.
    let has_content = |attachment: &&Value| {
        !is_preview(attachment)
            || ["title", "text", "pretext"].into_iter().any(|name| text(attachment, name).is_some())
    };
    attachments(list(&raw["attachments"]).iter().filter(has_content), &mut lines);
    MessageText { author, manner: Manner::Speech, lines: lines.into_lines() }
}

/// Returns the message as Slack sent it.
fn raw_message(message: &Value) -> Value {
    text(message, "raw_event").and_then(|raw| envelope::parse_value(raw).ok()).unwrap_or(Value::Null)
}

fn author(message: &Value, raw: &Value) -> MessageAuthor {
    let owned = |value: &Value, name: &str| text(value, name).map(str::to_owned);
    let is_named_by_app =
        text(message, "subtype") == Some("bot_message") && text(message, "username").is_some();
    let profile =
        ["display_name", "real_name", "name"].iter().find_map(|name| owned(&raw["user_profile"], name));
    let name = owned(message, "username").or(profile).or_else(|| owned(&raw["bot_profile"], "name"));
    MessageAuthor { user: owned(message, "user"), name, is_named_by_app, bot: owned(message, "bot_id") }
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
        author.chain(spans::people(self.spans()))
    }

    /// The ids of the mentioned user groups.
    pub fn user_groups(&self) -> impl Iterator<Item = &str> {
        spans::user_groups(self.spans())
    }

    /// Whether the message mentions a channel.
    pub fn mentions_channel(&self) -> bool {
        spans::mentions_channel(self.spans())
    }

    fn spans(&self) -> impl Iterator<Item = &TextSpan> {
        self.lines.iter().flat_map(|line| &line.spans)
    }
}
