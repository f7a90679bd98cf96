//! The content of a message as lines of spans, independent of the output format and of display names.

use super::formatting;
use super::reading::MessageParts;
use crate::permalink::SlackLink;

/// Maximum number of lines from the blocks, attachments and files of one message. Slack allows 50 blocks and
/// 100 attachments. If there are more lines, the last one refers to the raw event.
const MAX_LINES: usize = 2_000;

/// Maximum number of lines of a message's own text. Slack cuts a text at 40,000 characters, so that no real
/// text has more.
const MAX_TEXT_LINES: usize = 40_000;

/// Maximum depth of blocks in blocks. Slack allows two levels; the strings of deeper blocks are shown.
const MAX_DEPTH: usize = 8;

/// A line of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextLine {
    /// The nesting level: 0, 1 for a nested list, and so on.
    pub level: usize,
    /// The kind of content that the line is part of.
    pub kind: LineKind,
    /// The bullet or number of a list item. That of its further lines is blank and as wide.
    pub marker: String,
    /// The number of the item, if its list is numbered.
    pub number: Option<u64>,
    /// The content.
    pub spans: Vec<TextSpan>,
    /// The attachment or file that contains the line; `None` for the message's own text.
    pub frame: Option<TextFrame>,
}

/// The attachment or file that contains a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFrame {
    /// The index of the attachment in the message; files are counted after the attachments.
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
    Heading,
    /// Secondary text of an app, such as a footer.
    Context,
    /// A row of a table, with [`TextSpan::Cell`] between its cells.
    TableRow,
    /// A dividing line. It has no text.
    Divider,
    /// Markdown, unchanged. [`super::markdown::lines`] converts it to lines of the other kinds.
    Markdown,
}

/// A piece of a line. Texts are unescaped. Ids, labels and addresses are untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSpan {
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
    Emoji {
        /// Its name in Slack.
        name: String,
        /// Its skin tones, from 2 to 6: one for each person that it shows, or none.
        skin_tones: Vec<u8>,
    },
    /// The next cell of a table begins.
    Cell,
    /// A button or another interactive element, by its label.
    Control(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextStyle {
    pub bold: bool,
    pub italic: bool,
    /// Struck through.
    pub strike: bool,
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

    /// Whether the line is neither content nor a dividing line.
    pub(super) fn is_blank(&self) -> bool {
        self.kind != LineKind::Divider && self.is_empty()
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
#[derive(Debug)]
pub(super) struct LineBuffer<'r> {
    /// What the lines are read with.
    pub(super) parts: &'r MessageParts<'r>,
    lines: Vec<TextLine>,
    max_lines: usize,
    has_words: bool,
    depth: usize,
}

impl<'r> LineBuffer<'r> {
    /// Returns an empty buffer.
    pub(super) fn new(parts: &'r MessageParts<'r>) -> Self {
        Self { parts, lines: Vec::new(), max_lines: MAX_LINES, has_words: false, depth: 0 }
    }

    /// Returns an empty buffer for a message's own text.
    pub(super) fn for_text(parts: &'r MessageParts<'r>) -> Self {
        Self { max_lines: MAX_TEXT_LINES, ..Self::new(parts) }
    }

    /// Returns an empty buffer for content of the same depth.
    pub(super) fn empty_like(&self) -> Self {
        Self { depth: self.depth, ..Self::new(self.parts) }
    }

    /// Returns an empty buffer for content one level deeper; `None` at the deepest level.
    pub(super) fn nested(&self) -> Option<Self> {
        (self.depth < MAX_DEPTH).then(|| Self { depth: self.depth + 1, ..Self::new(self.parts) })
    }

    /// Adds spans as ordinary lines.
    pub(super) fn spans(&mut self, spans: Vec<TextSpan>) {
        self.lines(LineKind::Plain, split_lines(spans).into_iter().map(TextLine::plain));
    }

    /// Adds spans whose texts contain markup, or only emoji.
    pub(super) fn markup(&mut self, spans: Vec<TextSpan>, is_styled: bool) {
        let lines = if is_styled { formatting::lines(spans) } else { formatting::unstyled(spans) };
        self.lines(LineKind::Plain, lines);
    }

    /// Adds lines, and gives the ordinary ones a kind.
    pub(super) fn lines(&mut self, kind: LineKind, lines: impl IntoIterator<Item = TextLine>) {
        for line in lines {
            let kind = if line.kind == LineKind::Plain { kind } else { line.kind };
            self.line(TextLine { kind, ..line });
        }
    }

    /// Adds one line.
    pub(super) fn line(&mut self, line: TextLine) {
        self.has_words |= !line.is_empty();
        self.push(line);
    }

    /// Adds a line that only states that there is something without words.
    pub(super) fn trace(&mut self, trace: TextSpan) {
        self.push(TextLine::plain(vec![trace]));
    }

    fn push(&mut self, line: TextLine) {
        if self.lines.len() <= self.max_lines {
            self.lines.push(line);
        }
    }

    /// Whether further lines are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.lines.len() > self.max_lines
    }

    /// Whether no line has visible content.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_words && self.lines.iter().all(TextLine::is_empty)
    }

    /// Whether a line has content other than traces.
    pub(super) fn has_words(&self) -> bool {
        self.has_words
    }

    /// Adds the lines of another buffer.
    pub(super) fn append(&mut self, other: Self) {
        self.has_words |= other.has_words;
        other.into_lines().into_iter().for_each(|line| self.push(line));
    }

    /// Adds the lines of another buffer in a frame.
    pub(super) fn append_framed(&mut self, other: Self, frame: &TextFrame) {
        self.has_words |= other.has_words;
        for line in other.into_lines() {
            self.push(TextLine { frame: Some(frame.clone()), ..line });
        }
    }

    /// Returns the lines without empty ones at either end. If lines were dropped, the last one states that.
    pub(super) fn into_lines(mut self) -> Vec<TextLine> {
        if self.is_full() {
            self.lines.truncate(self.max_lines);
            self.lines.push(TextLine::plain(vec![TextSpan::text("[and more: --json shows everything]")]));
        }
        while self.lines.last().is_some_and(TextLine::is_blank) {
            self.lines.pop();
        }
        let empty = self.lines.iter().take_while(|line| line.is_blank()).count();
        self.lines.drain(..empty);
        self.lines
    }
}
