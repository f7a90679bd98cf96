//! What a message says, as Markdown: functions of its lines. Whatever the words are, they become no HTML, no heading, no list
//! and no link that they do not show.
//!
//! <https://spec.commonmark.org/0.31.2/>

use reader::names::DisplayNames;
use reader::plain;
use reader::text::flat;
use reader::text::spans::{LineKind, TextLine, TextSpan, TextStyle};

/// Addresses that may be followed.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// The lines of a message as lines of Markdown. Between parts of different kinds an empty line ends the one before.
pub(super) fn lines(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for framed in lines.chunk_by(|one, other| one.frame == other.frame) {
        let mut inner = Vec::new();
        for part in framed.chunk_by(|one, other| one.kind == other.kind) {
            add(&mut inner, of_kind(part, names));
        }
        // What is attached is not what the author says.
        add(&mut written, if framed[0].frame.is_some() { quoted(inner) } else { inner });
    }
    written
}

fn add(written: &mut Vec<String>, part: Vec<String>) {
    if !written.is_empty() && !part.is_empty() {
        written.push(String::new());
    }
    written.extend(part);
}

fn of_kind(part: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    match part[0].kind {
        LineKind::Plain | LineKind::Context => flow(part, names),
        LineKind::Quote => quoted(flow(part, names)),
        LineKind::Preformatted => preformatted(part, names),
        LineKind::Heading => part.iter().map(|line| format!("**{}**", words(&line.spans, names))).collect(),
        LineKind::TableRow => table(part, names),
        LineKind::Divider => vec!["---".to_owned()],
    }
}

fn quoted(lines: Vec<String>) -> Vec<String> {
    let line = |line: String| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
    lines.into_iter().map(line).collect()
}

/// Text and lists.
fn flow(part: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for alike in part.chunk_by(|one, other| one.sign.is_empty() == other.sign.is_empty()) {
        let is_list = !alike[0].sign.is_empty();
        add(&mut written, if is_list { list(alike, names) } else { paragraphs(alike, names) });
    }
    written
}

/// Text. An empty line ends a paragraph.
fn paragraphs(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for paragraph in lines.chunk_by(|one, other| one.is_empty() == other.is_empty()) {
        if !paragraph[0].is_empty() {
            let said = paragraph.iter().map(|line| begun(words(&line.spans, names)));
            add(&mut written, broken(said.collect()));
        }
    }
    written
}

/// Lines of one paragraph: two spaces at the end break a line.
fn broken(mut lines: Vec<String>) -> Vec<String> {
    let last = lines.len().saturating_sub(1);
    lines[..last].iter_mut().for_each(|line| line.push_str("  "));
    lines
}

/// A list. What is in an item stands where the words of the item begin.
fn list(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    // How wide the signs of the items are that a line is in.
    let mut widths: Vec<usize> = Vec::new();
    for item in lines.chunk_by(|_, next| next.sign.trim().is_empty()) {
        let first = &item[0];
        widths.truncate(first.level);
        let is_numbered = first.sign.starts_with(|c: char| c.is_ascii_digit());
        let sign = if is_numbered { first.sign.as_str() } else { "-" };
        let mut before = format!("{}{sign} ", " ".repeat(widths.iter().sum()));
        widths.push(sign.len() + 1);
        for line in broken(item.iter().map(|line| begun(words(&line.spans, names))).collect()) {
            written.push(format!("{before}{line}"));
            before = " ".repeat(before.len());
        }
    }
    written
}

/// A table, the first row of which is its head: Markdown knows no other.
fn table(rows: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let cells = |row: &TextLine| {
        row.spans.split(|span| *span == TextSpan::Cell).map(|cell| words(cell, names)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let row = |cells: &Vec<String>| format!("| {} |", cells.join(" | "));
    let mut written: Vec<String> = rows.iter().map(row).collect();
    written.insert(1, format!("|{}", " --- |".repeat(columns)));
    written
}

/// Code between fences that are longer than all in it.
fn preformatted(part: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let code: Vec<String> = part.iter().map(|line| flat::words(&line.spans, names)).collect();
    let longest = code.iter().map(|line| longest_run(line)).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    [vec![fence.clone()], code, vec![fence]].concat()
}

/// Spans in one line.
pub(super) fn words(spans: &[TextSpan], names: &DisplayNames<'_>) -> String {
    let words: String = spans.iter().map(|span| self::span(span, names)).collect();
    words.trim().to_owned()
}

fn span(span: &TextSpan, names: &DisplayNames<'_>) -> String {
    if let TextSpan::Text(words, style) = span {
        return in_style(&plain::line(words), *style);
    }
    if let TextSpan::Link { address, label } = span {
        return link(address, label.as_deref(), span, names);
    }
    escaped(&flat::words(std::slice::from_ref(span), names))
}

/// Words in their style.
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
fn link(address: &str, label: Option<&str>, span: &TextSpan, names: &DisplayNames<'_>) -> String {
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
    if text.starts_with(['#', '-', '+', '=', '>']) {
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
    use crate::fixture::CliFixture;

    fn written(said: &str, fixture: &CliFixture) -> Vec<String> {
        let names = DisplayNames::in_teams(fixture.archive(), Vec::new());
        lines(&text::read_with_looks(&json!({ "user": "U1", "text": said })).lines, &names)
    }

    #[tokio::test]
    async fn slacks_signs_become_those_of_markdown() {
        let fixture = CliFixture::open().await;
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
        assert_eq!(fenced, ["see", "", "```", "let a = *b;", "  c", "```", "", "then"]);
        assert_eq!(written("one\ntwo\n\nthree", &fixture), ["one  ", "two", "", "three"]);
        let mut unclosed = written("```one``` and ```two", &fixture);
        unclosed.retain(|line| !line.is_empty());
        assert_eq!(unclosed, ["```", "one", "```", "and \\`\\`\\`two"]);
        assert_eq!(written("&gt; quoted\n&gt; more\nthen", &fixture), ["> quoted  ", "> more", "", "then"]);
    }

    #[tokio::test]
    async fn blocks_become_those_of_markdown() {
        let fixture = CliFixture::open().await;
        let names = DisplayNames::in_teams(fixture.archive(), Vec::new());
        let section = |text: &str| json!({ "type": "rich_text_section", "elements": [{ "type": "text", "text": text }] });
        let list = |style: &str, indent: u32, items: &[&str]| {
            let items: Vec<_> = items.iter().map(|item| section(item)).collect();
            json!({ "type": "rich_text_list", "style": style, "indent": indent, "elements": items })
        };
        let cell = |text: &str| json!({ "type": "raw_text", "text": text });
        let message = json!({ "user": "U1", "text": "", "blocks": [
            { "type": "header", "text": { "type": "plain_text", "text": "Plan" } },
            { "type": "rich_text", "elements": [section("first"), list("ordered", 0, &["one", "two\nmore"]), list("ordered", 1, &["deep"]),
                list("bullet", 2, &["- deeper"]), list("bullet", 0, &["other"]), section("then")] },
            { "type": "table", "rows": [[cell("name"), cell("a|b")], [cell("x"), cell("1")]] },
            { "type": "divider" },
        ], "attachments": [{ "color": "good", "text": "built\n\nin `4 s`" }, { "text": "tested" }] });
        let row = json!({ "user": "U1", "raw_event": message.to_string() });
        let written = lines(&text::read_with_looks(&row).lines, &names);
        let expected = [
            "**Plan**",
            "",
            "first",
            "",
            "1. one",
            "2. two  ",
            "   more",
            "   1. deep",
            "      - \\- deeper",
            "- other",
            "",
            "then",
            "",
            "| name | a\\|b |",
            "| --- | --- |",
            "| x | 1 |",
            "",
            "---",
            "",
            "> built",
            ">",
            "> in `4 s`",
            "",
            "> tested",
        ];
        assert_eq!(written, expected, "{}", written.join("\n"));
    }

    #[tokio::test]
    async fn hostile_words_are_words() {
        let fixture = CliFixture::open().await;
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
        let fixture = CliFixture::open().await;
        let code = TextLine {
            kind: LineKind::Preformatted,
            spans: vec![TextSpan::text("a ```` b")],
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
