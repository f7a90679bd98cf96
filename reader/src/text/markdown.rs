//! Converts Slack's Markdown blocks to lines of text with styles. What is not recognised stays as it is. Each
//! line is read once, so that the time grows with its length alone.
//!
//! <https://docs.slack.dev/reference/block-kit/blocks/markdown-block>

use super::formatting;
use super::spans::{LineKind, TextLine, TextSpan, TextStyle};

/// The deepest list that is indented.
const MAX_LEVEL: usize = 8;

/// Columns of indentation per list level.
const LEVEL: usize = 2;

/// Converts lines of Markdown. Other lines stay as they are, and so does Markdown that consists only of signs.
pub fn lines(markdown: &[TextLine]) -> Vec<TextLine> {
    let mut lines = Vec::with_capacity(markdown.len());
    let mut fence: Option<String> = None;
    let mut rest = markdown.iter().peekable();
    while let Some(line) = rest.next() {
        let Some(text) = source(line) else {
            lines.push(line.clone());
            continue;
        };
        let new = |kind: LineKind, spans: Vec<TextSpan>| TextLine {
            kind,
            frame: line.frame.clone(),
            ..TextLine::plain(spans)
        };
        let trimmed = text.trim();
        if let Some(open) = &fence {
            if trimmed.len() >= open.len() && trimmed.starts_with(open) && is_run(trimmed) {
                fence = None;
            } else {
                lines.push(new(LineKind::Preformatted, vec![TextSpan::text(text)]));
            }
        } else if let Some(open) = opened_fence(trimmed) {
            fence = Some(open.to_owned());
        } else if let Some(title) = heading(trimmed) {
            lines.push(new(LineKind::Heading, inline(title)));
        } else if is_rule(trimmed) {
            lines.push(new(LineKind::Divider, Vec::new()));
        } else if trimmed.starts_with('|')
            && rest.peek().and_then(|next| source(next)).is_some_and(is_separator)
        {
            lines.push(new(LineKind::TableRow, cells(trimmed)));
            rest.next();
            while let Some(row) =
                rest.next_if(|next| source(next).is_some_and(|row| row.trim().starts_with('|')))
            {
                lines.push(new(LineKind::TableRow, cells(source(row).unwrap_or_default().trim())));
            }
        } else if let Some(quotation) = trimmed.strip_prefix('>') {
            lines.push(new(LineKind::Quote, inline(quotation.trim_start_matches('>').trim_start())));
        } else if let Some((marker, number, item)) = item(trimmed) {
            let level = ((text.len() - text.trim_start().len()) / LEVEL).min(MAX_LEVEL);
            lines.push(TextLine { level, marker, number, ..new(LineKind::Plain, inline(item)) });
        } else {
            lines.push(new(LineKind::Plain, inline(trimmed)));
        }
    }
    if lines.iter().all(TextLine::is_blank) {
        return markdown.iter().map(|line| TextLine { kind: LineKind::Plain, ..line.clone() }).collect();
    }
    lines
}

/// Returns the text of a line of Markdown.
fn source(line: &TextLine) -> Option<&str> {
    match (line.kind, line.spans.as_slice()) {
        (LineKind::Markdown, [TextSpan::Text(text, _)]) => Some(text),
        (LineKind::Markdown, []) => Some(""),
        (_, _) => None,
    }
}

fn opened_fence(text: &str) -> Option<&str> {
    let sign = text.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
    let length = text.len() - text.trim_start_matches(sign).len();
    let is_open = length >= 3 && !text[length..].contains('`');
    is_open.then(|| &text[..length])
}

/// Whether a text is one repeated character.
fn is_run(text: &str) -> bool {
    let first = text.chars().next();
    text.chars().all(|c| Some(c) == first)
}

fn heading(text: &str) -> Option<&str> {
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    let is_heading = (1..=6).contains(&level) && title.starts_with(' ');
    is_heading.then(|| title.trim().trim_end_matches('#').trim_end())
}

fn is_rule(text: &str) -> bool {
    text.len() >= 3 && text.starts_with(['-', '*', '_']) && is_run(text)
}

fn is_separator(text: &str) -> bool {
    let text = text.trim();
    text.contains('-') && text.contains('|') && text.chars().all(|c| "|-: ".contains(c))
}

fn cells(row: &str) -> Vec<TextSpan> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    let mut spans = Vec::new();
    for (column, cell) in row.split('|').enumerate() {
        if column > 0 {
            spans.push(TextSpan::Cell);
        }
        spans.extend(inline(cell.trim()));
    }
    spans
}

/// Reads a list item: its marker, its number, and its text.
fn item(text: &str) -> Option<(String, Option<u64>, &str)> {
    if let Some(item) = ["- ", "* ", "+ "].into_iter().find_map(|sign| text.strip_prefix(sign)) {
        return Some(("•".to_owned(), None, item));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let item = text[digits..].strip_prefix(". ").or_else(|| text[digits..].strip_prefix(") "))?;
    let number: u64 = text[..digits].parse().ok()?;
    Some((format!("{number}."), Some(number), item))
}

/// Sets a style, or unsets it.
type ToggleStyle = fn(&mut TextStyle);

/// Signs that set a style, longer ones first.
const STYLES: [(&str, ToggleStyle); 5] = [
    ("**", |style| style.bold = !style.bold),
    ("__", |style| style.bold = !style.bold),
    ("~~", |style| style.strike = !style.strike),
    ("*", |style| style.italic = !style.italic),
    ("_", |style| style.italic = !style.italic),
];

/// Converts the markup within a line.
fn inline(text: &str) -> Vec<TextSpan> {
    let mut line = InlineText { text, ..InlineText::default() };
    while line.at < text.len() {
        if !(line.escape() || line.code() || line.link() || line.style()) {
            let end = line.at + text[line.at..].chars().next().map_or(1, char::len_utf8);
            line.words.push_str(&text[line.at..end]);
            line.at = end;
        }
    }
    line.end_words();
    line.spans
}

/// A line that is being read.
#[derive(Default)]
struct InlineText<'t> {
    text: &'t str,
    at: usize,
    words: String,
    style: TextStyle,
    spans: Vec<TextSpan>,
    /// The last result of the search for each sign, so that no part is searched twice.
    found: Vec<(&'static str, Option<usize>)>,
    /// The signs of the styles that are set.
    open: Vec<&'static str>,
}

impl<'t> InlineText<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the offset of the first sign from an offset on. Later calls have later offsets.
    fn find(&mut self, from: usize, sign: &'static str) -> Option<usize> {
        let known = self.found.iter().position(|(known, _)| *known == sign);
        match known.and_then(|known| self.found.get(known)) {
            Some((_, None)) => return None,
            Some((_, Some(found))) if *found >= from => return Some(*found),
            Some(_) | None => {}
        }
        let found = self.text.get(from..).and_then(|rest| rest.find(sign)).map(|offset| from + offset);
        if let Some(known) = known {
            self.found.swap_remove(known);
        }
        self.found.push((sign, found));
        found
    }

    fn end_words(&mut self) {
        if !self.words.is_empty() {
            let text = TextSpan::Text(std::mem::take(&mut self.words), self.style);
            self.spans.extend(formatting::unstyled(vec![text]).into_iter().flat_map(|line| line.spans));
        }
    }

    fn escape(&mut self) -> bool {
        let escaped = self.rest().strip_prefix('\\').and_then(|rest| rest.chars().next());
        let Some(c) = escaped.filter(char::is_ascii_punctuation) else { return false };
        self.words.push(c);
        self.at += 2;
        true
    }

    fn code(&mut self) -> bool {
        if !self.rest().starts_with('`') {
            return false;
        }
        let Some(end) = self.find(self.at + 1, "`").filter(|end| *end > self.at + 1) else { return false };
        self.end_words();
        let style = TextStyle { code: true, ..self.style };
        self.spans.push(TextSpan::Text(self.text[self.at + 1..end].to_owned(), style));
        self.at = end + 1;
        true
    }

    /// Reads `[label](address)`, `![description](address)` or `<address>`.
    fn link(&mut self) -> bool {
        if self.rest().starts_with('<') {
            let Some(end) = self.find(self.at, ">") else { return false };
            let address = &self.text[self.at + 1..end];
            let is_address =
                ["https://", "http://", "mailto:"].iter().any(|scheme| address.starts_with(scheme));
            if !is_address || address.contains(['<', ' ']) {
                return false;
            }
            self.end_words();
            self.spans.push(TextSpan::Link { address: address.to_owned(), label: None });
            self.at = end + 1;
            return true;
        }
        let is_image = self.rest().starts_with("![");
        if !is_image && !self.rest().starts_with('[') {
            return false;
        }
        let start = self.at + 1 + usize::from(is_image);
        let Some(middle) = self.find(start, "](") else { return false };
        // The nearest bracket belongs to the nearest link.
        if self.find(start, "[").is_some_and(|bracket| bracket < middle) {
            return false;
        }
        let label = &self.text[start..middle];
        let Some(end) = self.find(middle, ")") else { return false };
        let address = self.text[middle + 2..end].split_whitespace().next().unwrap_or_default().to_owned();
        self.end_words();
        self.spans.push(if is_image {
            TextSpan::Control(if label.is_empty() { "image".to_owned() } else { format!("image: {label}") })
        } else {
            TextSpan::Link { address, label: Some(label.to_owned()).filter(|label| !label.is_empty()) }
        });
        self.at = end + 1;
        true
    }

    fn style(&mut self) -> bool {
        let Some((sign, toggle)) = STYLES.iter().find(|(sign, _)| self.rest().starts_with(sign)) else {
            return false;
        };
        let before = self.text[..self.at].chars().next_back();
        let after = self.rest()[sign.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_space = |c: Option<char>| c.is_none_or(char::is_whitespace);
        // Underscores in a word are part of it.
        let is_part = sign.starts_with('_') && is_word(before) && is_word(after);
        let is_open = self.open.contains(sign);
        let can_close = is_open && !is_space(before);
        let can_open = !is_open && !is_space(after) && self.find(self.at + sign.len(), sign).is_some();
        if is_part || !(can_close || can_open) {
            return false;
        }
        self.end_words();
        toggle(&mut self.style);
        if is_open {
            self.open.retain(|open| open != sign);
        } else {
            self.open.push(sign);
        }
        self.at += sign.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(markdown: &str) -> Vec<(LineKind, String)> {
        let source =
            |line: &str| TextLine { kind: LineKind::Markdown, ..TextLine::plain(vec![TextSpan::text(line)]) };
        let lines = lines(&markdown.split('\n').map(source).collect::<Vec<_>>());
        let one = |span: &TextSpan| match span {
            TextSpan::Text(text, TextStyle { bold, italic, strike, code }) => {
                let styles = [(bold, 'b'), (italic, 'i'), (strike, 's'), (code, 'c')];
                let styles: String =
                    styles.iter().filter(|(is_set, _)| **is_set).map(|(_, name)| *name).collect();
                if styles.is_empty() { text.clone() } else { format!("{styles}({text})") }
            }
            TextSpan::Link { address, label } => format!("[{}]({address})", label.as_deref().unwrap_or("")),
            TextSpan::Cell => " | ".to_owned(),
            TextSpan::User { .. }
            | TextSpan::Channel { .. }
            | TextSpan::UserGroup { .. }
            | TextSpan::Broadcast(_)
            | TextSpan::Emoji { .. }
            | TextSpan::Control(_) => format!("{span:?}"),
        };
        let line = |line: TextLine| {
            let words: String = line.spans.iter().map(one).collect();
            let marker = if line.marker.is_empty() {
                String::new()
            } else {
                format!("{}{} ", line.level, line.marker)
            };
            (line.kind, format!("{marker}{words}"))
        };
        lines.into_iter().map(line).collect()
    }

    #[test]
    fn markdown_becomes_lines_with_styles() {
        let plain = |text: &str| vec![(LineKind::Plain, text.to_owned())];
        for (markdown, expected) in [
            ("**bold** and *it*, _it_ ~~gone~~ `a*b*`", plain("b(bold) and i(it), i(it) s(gone) c(a*b*)")),
            ("**bold *both***", plain("b(bold )bi(both)")),
            ("__init__ and snake_case_name 2 * 3 * 4", plain("b(init) and snake_case_name 2 * 3 * 4")),
            (
                "\\*no\\* [a](https://x.example \"t\") <https://y.example>",
                plain("*no* [a](https://x.example) [](https://y.example)"),
            ),
            ("a < b > c [no] (x)", plain("a < b > c [no] (x)")),
            ("# Title #", vec![(LineKind::Heading, "Title".to_owned())]),
            ("#no", plain("#no")),
            ("---", vec![(LineKind::Divider, String::new())]),
            ("> said", vec![(LineKind::Quote, "said".to_owned())]),
            ("- one", plain("0• one")),
            ("  2) two", plain("12. two")),
        ] {
            assert_eq!(shown(markdown), expected, "{markdown}");
        }
        let row = |text: &str| (LineKind::TableRow, text.to_owned());
        assert_eq!(shown("| a | **b** |\n|---|:-:|\n| 1 | 2 |"), [row("a | b(b)"), row("1 | 2")]);
        let code = |text: &str| (LineKind::Preformatted, text.to_owned());
        assert_eq!(
            shown("```rust\n# no\n``\n```\nthen"),
            [code("# no"), code("``"), plain("then")[0].clone()]
        );
    }
}
