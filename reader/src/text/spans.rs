//! What a message says, as lines of spans. Nothing here knows what shows them, or what anyone is called.

use super::looks;
use crate::permalink::SlackLink;

/// Lines made of one message's blocks and attachments; beyond it the reader is sent to the raw event. Slack allows 50
/// blocks and 100 attachments, and a person reads no more.
const MAX_LINES: usize = 2_000;

/// A line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextLine {
    /// How many levels it is in: 0, 1 for a nested list, and so on.
    pub level: usize,
    /// What it is part of.
    pub kind: LineKind,
    /// What stands before it: the sign or the number of a list's item.
    pub sign: String,
    /// What it says.
    pub spans: Vec<TextSpan>,
    /// The attachment that it is of; `None` for what the message says itself.
    pub frame: Option<TextFrame>,
}

/// An attachment around lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFrame {
    /// Which of the message's.
    pub number: usize,
    /// Its colour as Slack sent it: `good`, `warning`, `danger`, or a number of six digits.
    pub color: Option<String>,
}

/// What a line is part of.
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
    /// What an app says beside the rest.
    Context,
    /// A row of a table, with [`TextSpan::Cell`] between its cells.
    TableRow,
    /// A line between parts. It says nothing, and is only there if looks are asked for.
    Divider,
}

/// A piece of a line. Texts are unescaped; ids, labels and addresses are what Slack sent and may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextSpan {
    /// Words.
    Text(String, TextStyle),
    /// A link. A label may say anything about where it leads.
    Link {
        /// Where it leads.
        address: String,
        /// What Slack shows for it, if the message says so.
        label: Option<String>,
    },
    /// A person, by id.
    User {
        /// Whose.
        id: String,
        /// What Slack shows for it, if the message says so.
        label: Option<String>,
    },
    /// A channel, by id.
    Channel {
        /// Which.
        id: String,
        /// What Slack shows for it, if the message says so.
        label: Option<String>,
    },
    /// A group of people, by id.
    UserGroup {
        /// Which.
        id: String,
        /// What Slack shows for it, if the message says so.
        label: Option<String>,
    },
    /// `here`, `channel` or `everyone`.
    Broadcast(String),
    /// An emoji.
    Emoji {
        /// What Slack calls it.
        name: String,
        /// Its skin tone, from 2 to 6, if it has one.
        skin_tone: Option<u8>,
    },
    /// The next cell of a table begins.
    Cell,
    /// What a person may press or choose, by what stands on it.
    Control(String),
}

/// How words look, where Slack says so apart from them.
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
    /// Words as they are.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into(), TextStyle::default())
    }
}

impl TextLine {
    /// A line of ordinary text.
    pub fn plain(spans: Vec<TextSpan>) -> Self {
        Self { spans, ..Self::default() }
    }

    /// Whether there is nothing on it.
    pub fn is_empty(&self) -> bool {
        let empty = |span: &TextSpan| matches!(span, TextSpan::Text(text, _) if text.trim().is_empty());
        self.sign.is_empty() && self.spans.iter().all(empty)
    }
}

/// The ids of the people who are named.
pub(crate) fn people<'s>(spans: impl IntoIterator<Item = &'s TextSpan>) -> impl Iterator<Item = &'s str> {
    spans
        .into_iter()
        .filter_map(|span| if let TextSpan::User { id, .. } = span { Some(id.as_str()) } else { None })
}

/// Whether a channel is named, or linked as Slack links it.
pub(crate) fn mention_channel<'s>(spans: impl IntoIterator<Item = &'s TextSpan>) -> bool {
    let is_link = |address: &str| SlackLink::parse(address).is_some();
    spans.into_iter().any(|span| {
        matches!(span, TextSpan::Channel { .. })
            || matches!(span, TextSpan::Link { address, .. } if is_link(address))
    })
}

/// Breaks spans where their text breaks. At least one line comes out.
pub(super) fn broken(spans: Vec<TextSpan>) -> Vec<Vec<TextSpan>> {
    let mut lines = vec![Vec::new()];
    for span in spans {
        let TextSpan::Text(text, style) = span else {
            last(&mut lines).push(span);
            continue;
        };
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(Vec::new());
            }
            let part = part.strip_suffix('\r').unwrap_or(part);
            if !part.is_empty() {
                last(&mut lines).push(TextSpan::Text(part.to_owned(), style));
            }
        }
    }
    lines
}

fn last(lines: &mut Vec<Vec<TextSpan>>) -> &mut Vec<TextSpan> {
    if lines.is_empty() {
        lines.push(Vec::new());
    }
    let end = lines.len() - 1;
    &mut lines[end]
}

/// Collects lines, up to a bound.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    lines: Vec<TextLine>,
    has_looks: bool,
}

impl LineBuffer {
    /// For lines whose markup is read too: see [`looks`].
    pub(super) fn with_looks() -> Self {
        Self { lines: Vec::new(), has_looks: true }
    }

    /// An empty one for the same purpose.
    pub(super) fn for_part(&self) -> Self {
        Self { lines: Vec::new(), has_looks: self.has_looks }
    }

    /// Whether markup is read.
    pub(super) fn has_looks(&self) -> bool {
        self.has_looks
    }

    /// Adds spans as ordinary lines.
    pub(super) fn spans(&mut self, spans: Vec<TextSpan>) {
        self.spans_as(LineKind::Plain, spans);
    }

    /// Adds spans as lines of a kind.
    pub(super) fn spans_as(&mut self, kind: LineKind, spans: Vec<TextSpan>) {
        let lines = if self.has_looks {
            looks::lines(spans)
        } else {
            broken(spans).into_iter().map(TextLine::plain).collect()
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

    /// Whether nothing more is taken.
    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_LINES
    }

    /// Whether nothing can be read in it.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(TextLine::is_empty)
    }

    /// The lines, without empty ones at either end; the last says so if some were left out.
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
