//! Converts the lines of a message to Markdown. No text becomes HTML, a heading, a list or a link with a
//! hidden target.
//!
//! <https://spec.commonmark.org/0.31.2/>

use reader::names::DisplayNames;
use reader::plain;
use reader::text::flat;
use reader::text::spans::{LineKind, TextLine, TextSpan, TextStyle};
use viewer::emoji;

/// Schemes of addresses that become links.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Converts the lines of a message to lines of Markdown, with an empty line between parts of different kinds.
pub(super) fn lines(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for framed in lines.chunk_by(|one, other| one.frame == other.frame) {
        let mut inner = Vec::new();
        for part in framed.chunk_by(|one, other| one.kind == other.kind) {
            add(&mut inner, of_kind(part, names));
        }
        // Attachments are quoted, because they are not the author's words.
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
        // Quoted, so that an item in it is no reply, and a fence without an end ends with it.
        LineKind::Markdown => quoted(part.iter().map(|line| unchanged(line, names)).collect()),
    }
}

fn quoted(lines: Vec<String>) -> Vec<String> {
    let line = |line: String| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
    lines.into_iter().map(line).collect()
}

/// Text and lists.
fn flow(part: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for alike in part.chunk_by(|one, other| one.marker.is_empty() == other.marker.is_empty()) {
        let is_list = !alike[0].marker.is_empty();
        add(&mut written, if is_list { list(alike, names) } else { paragraphs(alike, names) });
    }
    written
}

/// Text. An empty line ends a paragraph.
fn paragraphs(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written = Vec::new();
    for paragraph in lines.chunk_by(|one, other| one.is_empty() == other.is_empty()) {
        if !paragraph[0].is_empty() {
            let escaped_lines = paragraph.iter().map(|line| begun(words(&line.spans, names)));
            add(&mut written, broken(escaped_lines.collect()));
        }
    }
    written
}

/// Joins the lines of one paragraph: two trailing spaces break a line.
fn broken(mut lines: Vec<String>) -> Vec<String> {
    let last = lines.len().saturating_sub(1);
    lines[..last].iter_mut().for_each(|line| line.push_str("  "));
    lines
}

/// A list. The contents of an item are indented to the first word of the item.
fn list(lines: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    // The widths of the markers of the enclosing items.
    let mut widths: Vec<usize> = Vec::new();
    for item in lines.chunk_by(|_, next| next.marker.trim().is_empty()) {
        let first = &item[0];
        widths.truncate(first.level);
        // Markdown has no letters and no Roman numerals.
        let sign = first.number.map_or_else(|| "-".to_owned(), |number| format!("{number}."));
        let mut before = format!("{}{sign} ", " ".repeat(widths.iter().sum()));
        widths.push(sign.len() + 1);
        for line in broken(item.iter().map(|line| begun(words(&line.spans, names))).collect()) {
            written.push(format!("{before}{line}"));
            before = " ".repeat(before.len());
        }
    }
    written
}

/// A line of Markdown. Only what would become HTML, or a link to anything but the web, is escaped.
fn unchanged(line: &TextLine, names: &DisplayNames<'_>) -> String {
    let mut written = String::new();
    let text = flat::words(&line.spans, names);
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['<', ']']) {
        let (before, marked) = rest.split_at(at);
        written += before;
        let (sign, after) = marked.split_at(1);
        let is_address = |text: &str| SCHEMES.iter().any(|scheme| text.starts_with(scheme));
        let target = after.strip_prefix('(').map(|target| target.trim_start_matches([' ', '<']));
        let is_html = after.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c));
        written += match sign {
            "<" if is_html && !is_address(after) => "&lt;",
            "]" if target.is_some_and(|target| !is_address(target)) => "\\]",
            "]" if after.starts_with(':') => "\\]",
            sign => sign,
        };
        rest = after;
    }
    written + rest
}

/// A table whose first row is its header: Markdown requires one.
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

/// Code between fences that are longer than any run of backticks in it.
fn preformatted(part: &[TextLine], names: &DisplayNames<'_>) -> Vec<String> {
    let code: Vec<String> = part.iter().map(|line| flat::words(&line.spans, names)).collect();
    let longest = code.iter().map(|line| longest_run(line)).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    [vec![fence.clone()], code, vec![fence]].concat()
}

/// Converts spans to one line.
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
    if let TextSpan::Emoji { name, skin_tones } = span
        && let Some(characters) = emoji::unicode(name, skin_tones)
    {
        return characters;
    }
    escaped(&flat::words(std::slice::from_ref(span), names))
}

/// Formats words in their style.
fn in_style(words: &str, style: TextStyle) -> String {
    let inner = words.trim();
    if inner.is_empty() {
        return words.to_owned();
    }
    let start = words.len() - words.trim_start().len();
    let (before, after) = (&words[..start], &words[start + inner.len()..]);
    let mut text = if style.code { code(inner) } else { escaped(inner) };
    for (is_set, sign) in [(style.strike, "~~"), (style.italic, "_"), (style.bold, "**")] {
        if is_set {
            text = format!("{sign}{text}{sign}");
        }
    }
    format!("{before}{text}{after}")
}

/// Formats a link, with its address if the label does not show it. An address with another scheme becomes
/// text.
fn link(address: &str, label: Option<&str>, span: &TextSpan, names: &DisplayNames<'_>) -> String {
    let is_plain = |c: char| {
        !c.is_whitespace() && !c.is_control() && !plain::affects_terminal(c) && !"<>\\`\"".contains(c)
    };
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

/// Inline code.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Escapes all markup in words.
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

/// Escapes the start of a line that would begin a heading, list, rule or code block.
fn begun(line: String) -> String {
    let text = line.trim_start();
    if text.starts_with(['#', '-', '+', '=', '>']) {
        return format!("\\{text}");
    }
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_number.starts_with(['.', ')']) && after_number.len() < text.len() {
        let number = &text[..text.len() - after_number.len()];
        return format!("{number}\\{after_number}");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use reader::text;
    use serde_json::json;
    use testkit::long_texts::assert_linear;

    use super::*;
    use crate::fixture::CliFixture;

    fn written(message_text: &str, fixture: &CliFixture) -> Vec<String> {
        let names = DisplayNames::for_teams(fixture.archive(), Vec::new());
        lines(
            &text::read(&json!({ "user": "U1", "text": message_text }).into(), &TimeZone::UTC).lines,
            &names,
        )
    }

    #[tokio::test]
    async fn slack_markup_becomes_markdown() {
        let fixture = CliFixture::open().await;
        for (slack_text, expected) in [
            ("*bold* and _italic_, ~gone~ `code`", "**bold** and _italic_, ~~gone~~ `code`"),
            ("*_both_*", "**_both_**"),
            ("snake_case_name 2*3*4 ~5", "snake_case_name 2\\*3\\*4 \\~5"),
            ("* no * _no _", "\\* no \\* \\_no \\_"),
            (
                "<https://x.test/a_b|the page> <https://x.test>",
                "[the page](<https://x.test/a_b>) <https://x.test>",
            ),
            ("hi <@U1> <!here> :tada: :our-own:", "hi @U1 @here 🎉 :our-own:"),
            ("see ```fn main() { `x` }```", "see"),
        ] {
            assert_eq!(written(slack_text, &fixture)[0], expected, "{slack_text}");
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
    async fn blocks_become_markdown() {
        let fixture = CliFixture::open().await;
        let names = DisplayNames::for_teams(fixture.archive(), Vec::new());
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
        ], "attachments": [{ "color": "good", "text": "built\n\nin `4 s`", "mrkdwn_in": ["text"] }, { "text": "tested" }] });
        let row = json!({ "user": "U1", "raw_event": message.to_string() });
        let written = lines(&text::read(&row.clone().into(), &TimeZone::UTC).lines, &names);
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
    async fn blocks_of_markdown_stay_as_they_are_without_anything_active() {
        let fixture = CliFixture::open().await;
        let names = DisplayNames::for_teams(fixture.archive(), Vec::new());
        let markdown = "# Plan\n**bold** [page](https://x.test) <https://x.test> 1 < 2\n- **ana** 10:00\n\
            <script>x</script> [a](javascript:x)\n[b]: javascript:x\n```";
        let message = json!({ "text": "", "blocks": [{ "type": "markdown", "text": markdown }] });
        let row = json!({ "user": "U1", "raw_event": message.to_string() });
        let written = lines(&text::read(&row.clone().into(), &TimeZone::UTC).lines, &names);
        let expected = [
            "> # Plan",
            "> **bold** [page](https://x.test) <https://x.test> 1 < 2",
            "> - **ana** 10:00",
            "> &lt;script>x&lt;/script> [a\\](javascript:x)",
            "> [b\\]: javascript:x",
            "> ```",
        ];
        assert_eq!(written, expected);
    }

    #[tokio::test]
    async fn hostile_text_is_escaped() {
        let fixture = CliFixture::open().await;
        for (slack_text, expected) in [
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
            assert_eq!(written(slack_text, &fixture)[0], expected, "{slack_text}");
        }
    }

    #[tokio::test]
    async fn preformatted_text_cannot_close_its_fence_and_long_texts_are_fast() {
        let fixture = CliFixture::open().await;
        let code = TextLine {
            kind: LineKind::Preformatted,
            spans: vec![TextSpan::text("a ```` b")],
            ..TextLine::default()
        };
        let names = DisplayNames::for_teams(fixture.archive(), Vec::new());
        assert_eq!(lines(&[code], &names), ["`````", "a ```` b", "`````"]);
        for sign in ["*a ", "_", "`", "*_~", "``` "] {
            let slack_text = sign.repeat(40_000 / sign.len());
            assert!(!written(&slack_text, &fixture).is_empty(), "{sign}");
        }
    }

    #[tokio::test]
    async fn the_time_grows_with_the_length_of_a_text_alone() {
        let fixture = CliFixture::open().await;
        assert_linear("the Markdown of an export", 8_192, |text| {
            assert!(!written(text, &fixture).is_empty());
        });
    }
}
