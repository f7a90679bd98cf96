//! Converts Markdown to Slack's mrkdwn without anything active: no mentions, no commands, no links except to
//! the web, no characters that change the direction of text.
//! <https://docs.slack.dev/messaging/formatting-message-text>

use crate::link_label::{names_another_host, web_host};

/// Longer labels and addresses are not treated as links, so that any text is read in one pass.
const MAX_LABEL_BYTES: usize = 500;
const MAX_ADDRESS_BYTES: usize = 2_000;

/// Opens and closes a code block.
pub(super) const FENCE: &str = "```";

/// Returns an answer that is safe to post.
pub fn to_safe_mrkdwn(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_unsafe(*c)).collect();
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    let mut fence: Option<&str> = None;
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        let marker = fence_of(trimmed);
        match (fence, marker) {
            (None, Some(marker)) => {
                // Some models write a whole block in one line.
                match trimmed[marker.len()..].strip_suffix(marker) {
                    Some(inner) => push_line(&mut out, &block(inner)),
                    None => {
                        fence = Some(marker);
                        push_line(&mut out, FENCE);
                    }
                }
            }
            (Some(open), Some(marker)) if marker.starts_with(open) && marker == trimmed => {
                fence = None;
                push_line(&mut out, FENCE);
            }
            (Some(_), _) => push_line(&mut out, &code(line)),
            (None, None) => {
                let is_separator = |next: &&str| is_table_separator(next);
                if trimmed.starts_with('|') && lines.peek().is_some_and(is_separator) {
                    push_line(&mut out, FENCE);
                    push_line(&mut out, &code(line));
                    while let Some(row) = lines.next_if(|next| next.trim_start().starts_with('|')) {
                        push_line(&mut out, &code(row));
                    }
                    push_line(&mut out, FENCE);
                } else {
                    push_line(&mut out, &paragraph(line));
                }
            }
        }
    }
    if fence.is_some() {
        push_line(&mut out, FENCE);
    }
    out.trim_matches('\n').trim_end().to_owned()
}

/// The marker that opens or closes a code block. A closing marker is at least as long as the opening one,
/// because Markdown in a block can contain blocks too.
fn fence_of(line: &str) -> Option<&str> {
    let kind = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let marker = &line[..line.len() - line.trim_start_matches(kind).len()];
    (marker.len() >= FENCE.len()).then_some(marker)
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Whether a character is a control character, changes the direction of text or is invisible.
fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

fn block(inner: &str) -> String {
    format!("{FENCE}\n{}\n{FENCE}", code(inner.trim()))
}

/// A line of a code block: it cannot end the block.
fn code(line: &str) -> String {
    let mut out = String::new();
    escape(&line.replace(FENCE, "'''"), &mut out);
    out
}

fn is_table_separator(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
}

/// A line outside code. A code block that starts within it would swallow the rest of the message.
fn paragraph(line: &str) -> String {
    let mut out = mrkdwn(line);
    while out.contains(FENCE) {
        out = out.replace(FENCE, "`");
    }
    out
}

fn mrkdwn(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let trimmed = line.trim_start();
    let heading = trimmed.trim_start_matches('#');
    let level = trimmed.len() - heading.len();
    if (1..=6).contains(&level) && heading.starts_with(' ') {
        let mut title = String::new();
        inline(&heading.trim().trim_end_matches('#').trim_end().replace("**", ""), &mut title);
        if !title.is_empty() {
            out = format!("*{title}*");
        }
        return out;
    }
    let indent = &line[..line.len() - trimmed.len()];
    out.push_str(indent);
    let item = ["- ", "* ", "+ "].into_iter().find_map(|sign| trimmed.strip_prefix(sign));
    if let Some(item) = item {
        out.push_str("• ");
        inline(item, &mut out);
    } else if let Some(quoted) = trimmed.strip_prefix('>') {
        out.push_str("> ");
        inline(quoted.trim_start(), &mut out);
    } else {
        inline(trimmed, &mut out);
    }
    out
}

fn inline(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = span(rest, out).unwrap_or_else(|| {
            escape_char(c, out);
            &rest[c.len_utf8()..]
        });
    }
}

/// Writes the code, bold or struck text, or link at the beginning of `text` and returns the rest; `None` if
/// `text` begins with an ordinary character.
fn span<'t>(text: &'t str, out: &mut String) -> Option<&'t str> {
    if let Some(rest) = text.strip_prefix('`') {
        let (inner, rest) = rest.split_once('`').filter(|(inner, _)| !inner.is_empty())?;
        out.push('`');
        escape(inner, out);
        out.push('`');
        return Some(rest);
    }
    for (mark, sign) in [("**", '*'), ("~~", '~')] {
        if let Some(rest) = text.strip_prefix(mark) {
            let (inner, rest) = rest.split_once(mark).filter(|(inner, _)| !inner.trim().is_empty())?;
            out.push(sign);
            inline(inner, out);
            out.push(sign);
            return Some(rest);
        }
    }
    let rest = text.strip_prefix("![").or_else(|| text.strip_prefix('['))?;
    let (label, rest) = within(rest, "](", MAX_LABEL_BYTES)?;
    let (address, rest) = within(rest, ")", MAX_ADDRESS_BYTES)?;
    link(label, address, out);
    Some(rest)
}

/// The text before and after a mark that begins within the first `most` bytes.
fn within<'t>(text: &'t str, mark: &str, most: usize) -> Option<(&'t str, &'t str)> {
    let window = &text[..text.floor_char_boundary(most)];
    let at = window.find(mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// Writes a link to the web, or only the label of any other link. If the label reads as an address of another
/// host, the host of the link is written after it.
fn link(label: &str, address: &str, out: &mut String) {
    let label = label.trim();
    let address = address.split_whitespace().next().unwrap_or_default();
    let Some(host) = web_host(address) else {
        escape(label, out);
        return;
    };
    out.push('<');
    for c in address.chars() {
        match c {
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '|' => out.push_str("%7C"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    let label = label.replace('|', "/").replace('`', "'");
    if !label.is_empty() {
        out.push('|');
        escape(&label, out);
    }
    out.push('>');
    if label.split_whitespace().any(|word| names_another_host(word, host)) {
        out.push_str(" (");
        escape(host, out);
        out.push(')');
    }
}

fn escape(text: &str, out: &mut String) {
    text.chars().for_each(|c| escape_char(c, out));
}

fn escape_char(c: char, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markdown_becomes_mrkdwn_without_active_content() {
        for (text, expected) in [
            ("<!channel> <@U1> <#C1|x>", "&lt;!channel&gt; &lt;@U1&gt; &lt;#C1|x&gt;"),
            ("a **bold** b ~~gone~~", "a *bold* b ~gone~"),
            ("## A **title** ##", "*A title*"),
            ("#hash", "#hash"),
            ("- one\n  * two", "• one\n  • two"),
            ("> said", "> said"),
            ("[here](https://a.example/?a=1&b=2)", "<https://a.example/?a=1&amp;b=2|here>"),
            ("![a](http://a.example/x.png)", "<http://a.example/x.png|a>"),
            ("[x](javascript:alert)", "x"),
            ("[x](mailto:a@b.example)", "x"),
            ("[good.example](https://evil.example/)", "<https://evil.example/|good.example> (evil.example)"),
            (
                "[https://good](https://good@evil.example)",
                "<https://good@evil.example|https://good> (evil.example)",
            ),
            ("[a](https://a.example/<!channel>|x)", "<https://a.example/%3C!channel%3E%7Cx|a>"),
            ("[<@U1>](https://a.example)", "<https://a.example|&lt;@U1&gt;>"),
            ("`**not** <b>`", "`**not** &lt;b&gt;`"),
            ("```rust\nlet a = &b;\n```\nend", "```\nlet a = &amp;b;\n```\nend"),
            ("```one line```", "```\none line\n```"),
            ("```\nopen", "```\nopen\n```"),
            ("~~~\na ``` b\n~~~", "```\na ''' b\n```"),
            ("````md\n```\nx\n```\n````\nend", "```\n'''\nx\n'''\n```\nend"),
            ("````one line````", "```\none line\n```"),
            ("~~~~\n~~~\n~~~~~", "```\n~~~\n```"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\nend", "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\nend"),
            ("a\u{202e}b\u{7}c\r\nd\u{200b}", "abc\nd"),
            ("&amp; &lt;!here&gt;", "&amp;amp; &amp;lt;!here&amp;gt;"),
            ("", ""),
        ] {
            assert_eq!(to_safe_mrkdwn(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_link_whose_label_reads_as_another_address_shows_its_host() {
        for label in [
            "https://paypal.com/?evil.example",
            "https://paypal.com/evil.example",
            "https://paypal.com#evil.example",
            "https://paypal.com@evil.example",
            "paypal.com?to=https://evil.example",
            "paypal.com|evil.example",
            "paypal.com\\evil.example",
            "evil.example.com",
            "my-evil.example",
            "https://some.com",
            "sign in at paypal.com now",
            "(paypal.com)",
            "//paypal.com/",
            "evil.example or paypal.com",
        ] {
            let posted = to_safe_mrkdwn(&format!("[{label}](https://evil.example/)"));
            assert!(posted.ends_with("> (evil.example)"), "{posted}");
        }
        for label in
            ["https://evil.example/a.html", "Evil.Example", "at evil.example.", "sign in", "and so on..."]
        {
            let posted = to_safe_mrkdwn(&format!("[{label}](https://evil.example/)"));
            assert!(posted.ends_with('>'), "{posted}");
        }
        assert_eq!(
            to_safe_mrkdwn("[https://some.com](https://e.co)"),
            "<https://e.co|https://some.com> (e.co)"
        );
    }

    #[test]
    fn a_long_text_is_read_in_one_pass() {
        for piece in ["[", "[](", "**", "`", "~~", "![a](", "|", "```\n"] {
            let text = piece.repeat(300_000 / piece.len());
            assert!(!to_safe_mrkdwn(&text).contains("<!"), "{piece}");
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_only_links_to_the_web(
            pieces in prop::collection::vec(prop_oneof![
                Just("<!channel>".to_owned()), Just("<@U1>".to_owned()), Just("](".to_owned()), Just("[".to_owned()),
                Just(")".to_owned()), Just("https://a.example".to_owned()), Just("`".to_owned()), Just("```\n".to_owned()),
                Just("**".to_owned()), Just("|".to_owned()), Just(">".to_owned()), Just("<".to_owned()), Just("\n".to_owned()),
                Just("javascript:1".to_owned()), "\\PC{0,6}",
            ], 0..30)
        ) {
            let text = to_safe_mrkdwn(&pieces.concat());
            for (at, _) in text.match_indices('<') {
                prop_assert!(text[at..].starts_with("<https://") || text[at..].starts_with("<http://"), "{}", text);
            }
            prop_assert_eq!(text.matches(FENCE).count() % 2, 0, "{}", text);
            prop_assert!(!text.chars().any(is_unsafe));
        }
    }
}
