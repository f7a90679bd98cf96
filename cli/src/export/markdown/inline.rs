//! What a message says, as Markdown: functions of its lines. Whatever the words are, they become no HTML, no heading, no list
//! and no link that they do not show.
//!
//! <https://spec.commonmark.org/0.31.2/>

use reader::names::DisplayNames;
use reader::plain;
use reader::text::flat;
use reader::text::spans::{LineKind, Span, TextLine, TextStyle};

/// What encloses preformatted text in Slack's markup.
const FENCE: &str = "```";

/// Where the sign that closes a style is looked for: hostile text has many that open one.
const MAX_STYLED_BYTES: usize = 1_000;

/// Styles within styles.
const MAX_DEPTH: usize = 3;

/// Addresses that may be followed.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// The lines of a message as lines of Markdown.
pub(super) fn lines(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Written::default();
    for line in lines {
        if line.kind == LineKind::Preformatted {
            let bare = TextLine { kind: LineKind::Plain, ..line.clone() };
            written.code.get_or_insert_default().push(flat::line(&bare, names));
            continue;
        }
        let words = flat::line(line, names);
        if written.is_fenced || words.contains(FENCE) {
            written.fenced(&words);
        } else {
            written.end_code();
            written.lines.push(ordinary(line, names));
        }
    }
    written.end_code();
    written.lines
}

/// Lines that are written, and those of preformatted text whose end was not seen.
#[derive(Default)]
struct Written {
    lines: Vec<String>,
    code: Option<Vec<String>>,
    /// Slack's own sign opened the preformatted text, and closes it.
    is_fenced: bool,
}

impl Written {
    /// A line in which preformatted text begins, goes on or ends.
    fn fenced(&mut self, words: &str) {
        let is_whole = !words.contains(FENCE);
        for (place, part) in words.split(FENCE).enumerate() {
            if place > 0 && self.is_fenced {
                self.end_code();
            } else if place > 0 {
                self.is_fenced = true;
                self.code = Some(Vec::new());
            }
            match &mut self.code {
                Some(code) if is_whole || !part.is_empty() => code.push(part.to_owned()),
                None if !part.trim().is_empty() => self.lines.push(begun(styled(part.trim(), 0))),
                Some(_) | None => {}
            }
        }
    }

    fn end_code(&mut self) {
        let Some(mut code) = self.code.take() else { return };
        while code.first().is_some_and(String::is_empty) {
            code.remove(0);
        }
        let longest = code.iter().map(|line| longest_run(line)).max().unwrap_or_default();
        let fence = "`".repeat(longest.max(2) + 1);
        self.lines.push(fence.clone());
        self.lines.append(&mut code);
        self.lines.push(fence);
        self.is_fenced = false;
    }
}

fn ordinary(line: &TextLine, names: &DisplayNames<'_>) -> String {
    let mut words = String::new();
    for span in &line.spans {
        words += &self::span(span, names);
    }
    let words = begun(words.trim_end().to_owned());
    let indent = "  ".repeat(line.level);
    if line.kind == LineKind::Quote {
        format!("> {words}")
    } else if line.sign.is_empty() {
        words
    } else if line.sign.starts_with(|c: char| c.is_ascii_digit()) {
        format!("{indent}{} {words}", escaped(&line.sign))
    } else {
        format!("{indent}- {words}")
    }
}

fn span(span: &Span, names: &DisplayNames<'_>) -> String {
    if let Span::Text(words, style) = span {
        let words = plain::line(words);
        return if *style == TextStyle::default() { styled(&words, 0) } else { in_style(&words, *style) };
    }
    if let Span::Link { address, label } = span {
        return link(address, label.as_deref(), span, names);
    }
    escaped(&flat::words(std::slice::from_ref(span), names))
}

/// Words in the style that Slack has for them apart from the words.
fn in_style(words: &str, style: TextStyle) -> String {
    let (inner, rest) = (words.trim(), words);
    if inner.is_empty() {
        return words.to_owned();
    }
    let start = rest.len() - rest.trim_start().len();
    let (before, after) = (&rest[..start], &rest[start + inner.len()..]);
    let mut text = if style.code { code(inner) } else { escaped(inner) };
    for (is_set, sign) in [(style.strike, "~~"), (style.italic, "_"), (style.bold, "**")] {
        if is_set {
            text = format!("{sign}{text}{sign}");
        }
    }
    format!("{before}{text}{after}")
}

/// A link shows where it leads if its label does not; an address of another kind is words.
fn link(address: &str, label: Option<&str>, span: &Span, names: &DisplayNames<'_>) -> String {
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !plain::acts(c) && !"<>\\`\"".contains(c);
    let lowercase = address.to_ascii_lowercase();
    if !SCHEMES.iter().any(|scheme| lowercase.starts_with(scheme)) || !address.chars().all(is_plain) {
        return escaped(&flat::words(std::slice::from_ref(span), names));
    }
    match label {
        Some(label) if !address.ends_with(label) => {
            format!("[{}](<{address}>)", escaped(&plain::line(label)))
        }
        Some(_) | None => format!("<{address}>"),
    }
}

/// Words with Slack's signs for bold, italic, struck and code as those of Markdown.
fn styled(words: &str, depth: usize) -> String {
    let mut text = String::with_capacity(words.len() + 8);
    let (mut rest, mut before) = (words, None);
    // Everything in front of it is written.
    let mut written = 0;
    while let Some(at) = rest.find(['*', '_', '~', '`']) {
        let place = words.len() - rest.len() + at;
        let sign = words[place..].chars().next().unwrap_or('*');
        before = words[..place].chars().next_back().or(before);
        match enclosed(&words[place..], sign, before) {
            Some(inner) if depth < MAX_DEPTH => {
                text += &escaped(&words[written..place]);
                text += &match sign {
                    '`' => code(inner),
                    '*' => format!("**{}**", styled(inner, depth + 1)),
                    '_' => format!("_{}_", styled(inner, depth + 1)),
                    _ => format!("~~{}~~", styled(inner, depth + 1)),
                };
                written = place + inner.len() + 2;
                rest = &words[written..];
            }
            Some(_) | None => rest = &words[place + 1..],
        }
    }
    text + &escaped(&words[written..])
}

/// What stands between a sign and the next one of its kind, if both enclose words.
fn enclosed(text: &str, sign: char, before: Option<char>) -> Option<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == sign;
    let inner = &text[1..];
    let begins = inner.chars().next().is_some_and(|c| !c.is_whitespace() && c != sign);
    if !begins || before.is_some_and(is_word) {
        return None;
    }
    let near = &inner[..inner.floor_char_boundary(MAX_STYLED_BYTES)];
    near.match_indices(sign).map(|(end, _)| end).find_map(|end| {
        let ends = !inner[..end].ends_with(char::is_whitespace);
        let is_free = inner[end + 1..].chars().next().is_none_or(|after| !is_word(after));
        (ends && is_free).then(|| &inner[..end])
    })
}

/// Code in a line.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Words in which nothing is markup.
pub(super) fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len() + 8);
    let mut before: Option<char> = None;
    let mut chars = words.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match c {
            '<' => text += "&lt;",
            '&' if next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '#') => text += "&amp;",
            '\\' | '`' | '*' | '[' | ']' | '~' | '|' => text.extend(['\\', c]),
            '_' if !is_word(before) || !is_word(next) => text += "\\_",
            c => text.push(c),
        }
        before = Some(c);
    }
    text
}

/// A line that begins no heading, list, rule or code.
fn begun(line: String) -> String {
    let text = line.trim_start();
    let is_numbered = || {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.len() && rest.starts_with(['.', ')'])
    };
    if text.starts_with(['#', '-', '+', '=']) {
        format!("\\{text}")
    } else if is_numbered() {
        text.replacen(
            ['.', ')'],
            if text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('.') {
                "\\."
            } else {
                "\\)"
            },
            1,
        )
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use reader::text;
    use serde_json::json;

    use super::*;
    use crate::fixture::Fixture;

    fn written(said: &str, fixture: &Fixture) -> Vec<String> {
        let names = DisplayNames::in_teams(fixture.archive(), Vec::new());
        lines(&text::read(&json!({ "user": "U1", "text": said })).lines, &names)
    }

    #[tokio::test]
    async fn slacks_signs_become_those_of_markdown() {
        let fixture = Fixture::open().await;
        for (said, expected) in [
            ("*bold* and _italic_, ~gone~ `code`", "**bold** and _italic_, ~~gone~~ `code`"),
            ("*_both_*", "**_both_**"),
            ("snake_case_name 2*3*4 ~5", "snake_case_name 2\\*3\\*4 \\~5"),
            ("* no * _no _", "\\* no \\* \\_no \\_"),
            (
                "<https://x.test/a_b|the page> <https://x.test>",
                "[the page](<https://x.test/a_b>) <https://x.test>",
            ),
            ("hi <@U1> <!here> :tada:", "hi @U1 @here :tada:"),
            ("see ```fn main() { `x` }```", "see"),
        ] {
            assert_eq!(written(said, &fixture)[0], expected, "{said}");
        }
        let fenced = written("see\n```\nlet a = *b;\n  c\n```\nthen", &fixture);
        assert_eq!(fenced, ["see", "```", "let a = *b;", "  c", "```", "then"]);
        assert_eq!(
            written("```one``` and ```two", &fixture),
            ["```", "one", "```", "and", "```", "two", "```"]
        );
    }

    #[tokio::test]
    async fn hostile_words_are_words() {
        let fixture = Fixture::open().await;
        for (said, expected) in [
            ("&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;script>alert(1)&lt;/script>"),
            ("<javascript:alert(1)|click>", "click (javascript:alert(1))"),
            ("<https://x.test/&gt; onclick|x>", "x (https://x.test/> onclick)"),
            ("<https://x.test|a](javascript:b)>", "[a\\](javascript:b)](<https://x.test>)"),
            ("# title", "\\# title"),
            ("- item", "\\- item"),
            ("12. item", "12\\. item"),
            ("    code", "code"),
            ("![x](http://evil.test)", "!\\[x\\](http://evil.test)"),
            ("&amp;lt;b&amp;gt;", "&amp;lt;b&amp;gt;"),
            ("a\u{202e}b\u{1b}[31m", "a\u{fffd}b\u{241b}\\[31m"),
            ("| a | b |", "\\| a \\| b \\|"),
        ] {
            assert_eq!(written(said, &fixture)[0], expected, "{said}");
        }
    }

    #[tokio::test]
    async fn preformatted_text_cannot_end_itself_and_long_texts_take_no_long_time() {
        let fixture = Fixture::open().await;
        let code = TextLine {
            kind: LineKind::Preformatted,
            spans: vec![Span::text("a ```` b")],
            ..TextLine::default()
        };
        let names = DisplayNames::in_teams(fixture.archive(), Vec::new());
        assert_eq!(lines(&[code], &names), ["`````", "a ```` b", "`````"]);
        for sign in ["*a ", "_", "`", "*_~", "``` "] {
            let said = sign.repeat(40_000 / sign.len());
            assert!(!written(&said, &fixture).is_empty(), "{sign}");
        }
    }
}
