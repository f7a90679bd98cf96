//! The content of a message as lines of spans, independent of the output format and of display names.

use super::formatting;
use crate::permalink::SlackLink;

/// Maximum number of lines from the blocks and attachments of one message. Slack allows 50 blocks and 100
/// attachments. If there are more lines, the last one refers to the raw event.
const MAX_LINES: usize = 2_000;

/// A line of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextLine {
    /// The nesting level: 0, 1 for a nested list, and so on.
    pub level: usize,
    /// The kind of content that the line is part of.
    pub kind: LineKind,
    /// The bullet or number of a list item.
    pub marker: String,
    /// The content.
    pub spans: Vec<TextSpan>,
    /// The attachment that contains the line; `None` for the message's own text.
    pub frame: Option<TextFrame>,
}

/// The attachment that contains a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFrame {
    /// The index of the attachment in the message.
    pub number: usize,
    /// Its colour as Slack sent it: `good`, `warning`, `danger`, or six hexadecimal digits.
    pub color: Option<String>,
}

/// The kind of content that a line is part of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineKind {
    /// Ordinary text, or a list.
    #[default]
    Plain,
    /// A quotation.
    Quote,
    /// Preformatted text.
    Preformatted,
    /// A heading.
    Heading,
    /// Secondary text of an app, such as a footer.
    Context,
    /// A row of a table, with [`TextSpan::Cell`] between its cells.
    TableRow,
    /// A dividing line. It has no text, and is only added if formatting is requested.
    Divider,
}

/// A piece of a line. Texts are unescaped. Ids, labels and addresses are untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSpan {
    /// Text.
    Text(String, TextStyle),
    /// A link. The label may not match the address.
    Link {
        /// The target.
        address: String,
        /// The label in the message, if there is one.
        label: Option<String>,
    },
    /// A person, by id.
    User {
        /// The person's id.
        id: String,
        /// The label in the message, if there is one.
        label: Option<String>,
    },
    /// A channel, by id.
    Channel {
        /// The channel's id.
        id: String,
        /// The label in the message, if there is one.
        label: Option<String>,
    },
    /// A group of people, by id.
    UserGroup {
        /// The group's id.
        id: String,
        /// The label in the message, if there is one.
        label: Option<String>,
    },
    /// `here`, `channel` or `everyone`.
    Broadcast(String),
    /// An emoji.
    Emoji {
        /// Its name in Slack.
        name: String,
        /// Its skin tone, from 2 to 6, if it has one.
        skin_tone: Option<u8>,
    },
    /// The next cell of a table begins.
    Cell,
    /// A button or another interactive element, by its label.
    Control(String),
}

/// The style of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// Bold.
    pub bold: bool,
    /// Italic.
    pub italic: bool,
    /// Struck through.
    pub strike: bool,
    /// Code.
    pub code: bool,
}

impl TextSpan {
    /// A text without a style.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into(), TextStyle::default())
    }
}

impl TextLine {
    /// A line of ordinary text.
    pub fn plain(spans: Vec<TextSpan>) -> Self {
        Self { spans, ..Self::default() }
    }

    /// Whether the line has no visible content.
    pub fn is_empty(&self) -> bool {
        let empty = |span: &TextSpan| matches!(span, TextSpan::Text(text, _) if text.trim().is_empty());
        self.marker.is_empty() && self.spans.iter().all(empty)
    }
}

/// The ids of the mentioned people.
pub(crate) fn people<'s>(spans: impl IntoIterator<Item = &'s TextSpan>) -> impl Iterator<Item = &'s str> {
    spans
        .into_iter()
        .filter_map(|span| if let TextSpan::User { id, .. } = span { Some(id.as_str()) } else { None })
}

/// The ids of the mentioned user groups.
pub(crate) fn user_groups<'s>(
    spans: impl IntoIterator<Item = &'s TextSpan>,
) -> impl Iterator<Item = &'s str> {
    spans
        .into_iter()
        .filter_map(|span| if let TextSpan::UserGroup { id, .. } = span { Some(id.as_str()) } else { None })
}

/// Whether a channel is mentioned or linked with a Slack link.
pub(crate) fn mentions_channel<'s>(spans: impl IntoIterator<Item = &'s TextSpan>) -> bool {
    let is_link = |address: &str| SlackLink::parse(address).is_some();
    spans.into_iter().any(|span| {
        matches!(span, TextSpan::Channel { .. })
            || matches!(span, TextSpan::Link { address, .. } if is_link(address))
    })
}

/// Splits spans at line breaks. Returns at least one line.
pub(super) fn split_lines(spans: Vec<TextSpan>) -> Vec<Vec<TextSpan>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for span in spans {
        let TextSpan::Text(text, style) = span else {
            line.push(span);
            continue;
        };
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(std::mem::take(&mut line));
            }
            let part = part.strip_suffix('\r').unwrap_or(part);
            if !part.is_empty() {
                line.push(TextSpan::Text(part.to_owned(), style));
            }
        }
    }
    lines.push(line);
    lines
}

/// Collects lines, up to [`MAX_LINES`].
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    lines: Vec<TextLine>,
    has_formatting: bool,
}

impl LineBuffer {
    /// Returns an empty buffer that converts markup to styles: see [`formatting`].
    pub(super) fn with_formatting() -> Self {
        Self { lines: Vec::new(), has_formatting: true }
    }

    /// Returns an empty buffer with the same settings.
    pub(super) fn empty_like(&self) -> Self {
        Self { lines: Vec::new(), has_formatting: self.has_formatting }
    }

    /// Whether markup is converted to styles.
    pub(super) fn has_formatting(&self) -> bool {
        self.has_formatting
    }

    /// Adds spans as ordinary lines.
    pub(super) fn spans(&mut self, spans: Vec<TextSpan>) {
        self.spans_as(LineKind::Plain, spans);
    }

    /// Adds spans as lines of a kind.
    pub(super) fn spans_as(&mut self, kind: LineKind, spans: Vec<TextSpan>) {
        let lines = if self.has_formatting {
            formatting::lines(spans)
        } else {
            split_lines(spans).into_iter().map(TextLine::plain).collect()
        };
        for line in lines {
            let kind = if line.kind == LineKind::Plain { kind } else { line.kind };
            self.line(TextLine { kind, ..line });
        }
    }

    /// Adds one line.
    pub(super) fn line(&mut self, line: TextLine) {
        if !self.is_full() {
            self.lines.push(line);
        }
    }

    /// Whether further lines are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_LINES
    }

    /// Whether no line has visible content.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(TextLine::is_empty)
    }

    /// Returns the lines without empty ones at either end. If lines were dropped, the last one states that.
    pub(super) fn into_lines(mut self) -> Vec<TextLine> {
        if self.is_full() {
            self.lines.push(TextLine::plain(vec![TextSpan::text("[and more: --json shows everything]")]));
        }
        while self.lines.last().is_some_and(TextLine::is_empty) {
            self.lines.pop();
        }
        let empty = self.lines.iter().take_while(|line| line.is_empty()).count();
        self.lines.drain(..empty);
        self.lines
    }
}
