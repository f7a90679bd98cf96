//! What a message says and who says it, read from its row into [`spans`]: a function of the row alone, before anything is
//! looked up. [`flat`] makes it plain text.
//!
//! [`read`] is for words: the message's text as Slack sent it. [`read_with_looks`] is for pages: what Slack shows, with blocks in
//! place of the text that stands for them, and with markup read as styles.

mod attachments;
mod blocks;
pub mod flat;
mod looks;
pub mod mrkdwn;
mod notices;
mod rich_text;
pub mod spans;

use serde_json::Value;
use slack::envelope;

use self::attachments::{attachments, is_preview};
use self::blocks::{blocks, list, text};
use self::spans::{LineBuffer, TextLine, TextSpan};

/// What Slack puts where a text should be if it has none to show.
const PLACEHOLDER: &str = "This content can't be displayed.";

/// A message, read.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageText {
    /// Whose words they are.
    pub author: MessageAuthor,
    /// Words of a person or an app, or a notice of what happened.
    pub manner: Manner,
    /// The words. A notice goes on where its author's name ends, and has at least one line.
    pub lines: Vec<TextLine>,
}

/// How a message is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Its author says it.
    Speech,
    /// It tells what its author does, or did.
    Notice,
}

/// Who a message is from, as far as the message itself says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MessageAuthor {
    /// The id of a person or of an app's user.
    pub user: Option<String>,
    /// The name that came with the message: of people of other workspaces and of apps there is often no other.
    pub name: Option<String>,
    /// The name counts more than what the archive calls them: an app chose it for this message.
    pub is_named_by_app: bool,
    /// The id of an app's bot.
    pub bot: Option<String>,
}

/// Reads a row as [`rules::project::message`] gives it.
pub fn read(message: &Value) -> MessageText {
    let raw = said(message);
    let mut author = author(message, &raw);
    if let Some(notice) = notices::read(message, &raw) {
        author.user = notice.user.or(author.user);
        return MessageText { author, manner: Manner::Notice, lines: notice.lines };
    }
    let mut lines = LineBuffer::default();
    let own = text(message, "text").filter(|text| text.trim() != PLACEHOLDER);
    if let Some(text) = own {
        // A text is as long as Slack lets it be, and is shown whole.
        let mut all: Vec<TextLine> =
            spans::broken(mrkdwn::parse(text)).into_iter().map(TextLine::plain).collect();
        // Under a text of its own, what is made of the links in it says nothing new.
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

/// Reads a row as [`read`] does, as it looks: blocks come before the text that stands for them where they are not shown, links
/// have their previews, and markup is read.
pub fn read_with_looks(message: &Value) -> MessageText {
    let raw = said(message);
    let mut author = author(message, &raw);
    if let Some(notice) = notices::read(message, &raw) {
        author.user = notice.user.or(author.user);
        return MessageText { author, manner: Manner::Notice, lines: notice.lines };
    }
    let mut lines = LineBuffer::with_looks();
    blocks(&raw["blocks"], &mut lines);
    if lines.is_empty() {
        lines = LineBuffer::with_looks();
        let own = text(message, "text").filter(|text| text.trim() != PLACEHOLDER);
        own.into_iter().for_each(|text| lines.spans(mrkdwn::parse(text)));
    }
    // A preview that only has the address of what it previews says nothing.
    let says = |attachment: &&Value| {
        !is_preview(attachment)
            || ["title", "text", "pretext"].into_iter().any(|name| text(attachment, name).is_some())
    };
    attachments(list(&raw["attachments"]).iter().filter(says), &mut lines);
    MessageText { author, manner: Manner::Speech, lines: lines.into_lines() }
}

/// What Slack said of a message.
fn said(message: &Value) -> Value {
    text(message, "raw_event").and_then(|raw| envelope::value(raw).ok()).unwrap_or(Value::Null)
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

impl MessageText {
    /// The ids of the people who are named in it, its author first.
    pub fn people(&self) -> impl Iterator<Item = &str> {
        self.author.user.as_deref().into_iter().chain(spans::people(self.spans()))
    }

    /// Whether a channel is named in it.
    pub fn mentions_channel(&self) -> bool {
        spans::mention_channel(self.spans())
    }

    fn spans(&self) -> impl Iterator<Item = &TextSpan> {
        self.lines.iter().flat_map(|line| &line.spans)
    }
}
