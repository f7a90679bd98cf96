//! Converts lines of spans to plain text that is safe to print.

use super::spans::{LineKind, TextLine, TextSpan, TextStyle};
use crate::names::DisplayNames;
use crate::plain;

/// Columns of indentation per list level.
const LEVEL: usize = 2;

/// Returns a line as plain text.
pub fn line(line: &TextLine, names: &DisplayNames<'_>) -> String {
    let mut text = " ".repeat(line.level * LEVEL);
    match line.kind {
        LineKind::Plain
        | LineKind::Heading
        | LineKind::Context
        | LineKind::TableRow
        | LineKind::Divider
        | LineKind::Markdown => {}
        LineKind::Quote => text += "> ",
        LineKind::Preformatted => text += "  ",
    }
    if !line.marker.is_empty() {
        text += &line.marker;
        text.push(' ');
    }
    write(&line.spans, names, &mut text);
    text.truncate(text.trim_end().len());
    plain::line(&text)
}

/// Returns a line as plain text, without the signs of styles, quotations and lists.
pub fn line_without_signs(line: &TextLine, names: &DisplayNames<'_>) -> String {
    let mut spans = line.spans.clone();
    for span in &mut spans {
        if let TextSpan::Text(_, style) = span {
            *style = TextStyle::default();
        }
    }
    words(&spans, names)
}

/// Returns spans as one line of plain text.
pub fn words(spans: &[TextSpan], names: &DisplayNames<'_>) -> String {
    let mut text = String::new();
    write(spans, names, &mut text);
    plain::line(&text)
}

fn write(spans: &[TextSpan], names: &DisplayNames<'_>, text: &mut String) {
    for (index, span) in spans.iter().enumerate() {
        match span {
            TextSpan::Text(words, style) => styled(words, *style, spans.get(index + 1), text),
            TextSpan::Link { address, label } => link(address, label.as_deref(), text),
            TextSpan::User { id, label } => {
                mention('@', names.mentioned_person(id, label.as_deref()), text);
            }
            TextSpan::Channel { id, label } => {
                mention('#', &names.mentioned_channel(id, label.as_deref()), text);
            }
            TextSpan::UserGroup { id, label } => {
                let handle = names.user_group_handle(id).or(label.as_deref());
                mention('@', handle.unwrap_or(id), text);
            }
            TextSpan::Broadcast(name) => mention('@', name, text),
            TextSpan::Emoji { name, skin_tones } => emoji(name, skin_tones, text),
            TextSpan::Cell => *text += " | ",
            TextSpan::Control(label) => *text += &format!("[{label}]"),
        }
    }
}

fn mention(sign: char, name: &str, text: &mut String) {
    if !name.starts_with(sign) {
        text.push(sign);
    }
    text.push_str(name);
}

fn emoji(name: &str, skin_tones: &[u8], text: &mut String) {
    *text += &format!(":{name}:");
    if !skin_tones.is_empty() {
        let tones: Vec<String> = skin_tones.iter().map(u8::to_string).collect();
        *text += &format!(":skin-tone-{}:", tones.join("-"));
    }
}

/// Adds text with Slack's markup characters for its style, without the space around it. Within a word they
/// are left out: there they are no markup, and would split the word for the search.
fn styled(words: &str, style: TextStyle, next: Option<&TextSpan>, text: &mut String) {
    let TextStyle { bold, italic, strike, code } = style;
    let inner = words.trim();
    let next = if let Some(TextSpan::Text(next, _)) = next { next.chars().next() } else { None };
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_within_word = (is_word(text.chars().next_back()) && is_word(words.chars().next()))
        || (is_word(words.chars().next_back()) && is_word(next));
    if style == TextStyle::default() || inner.is_empty() || is_within_word {
        text.push_str(words);
        return;
    }
    let start = words.len() - words.trim_start().len();
    let (before, after) = (&words[..start], &words[start + inner.len()..]);
    let signs = [(bold, '*'), (italic, '_'), (strike, '~'), (code, '`')];
    let signs: String = signs.iter().filter(|(is_set, _)| *is_set).map(|(_, sign)| *sign).collect();
    text.push_str(before);
    text.push_str(&signs);
    text.push_str(inner);
    text.extend(signs.chars().rev());
    text.push_str(after);
}

/// Adds a link. The label may not match the address, so both are shown if they differ.
fn link(address: &str, label: Option<&str>, text: &mut String) {
    let shown = address.strip_prefix("mailto:").unwrap_or(address);
    match label {
        Some(label) if !address.ends_with(label) => *text += &format!("{label} ({shown})"),
        Some(_) | None => text.push_str(shown),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;
    use testkit::memory::archive::MemoryArchive;

    use super::*;
    use crate::fixture::{channel_names, person, team};
    use crate::text::{MessageText, formatting, mrkdwn, read};

    #[tokio::test]
    async fn markup_becomes_readable_text() {
        let archive = MemoryArchive::new();
        person(&archive, "U1", json!({ "display_name": "ana" })).await;
        channel_names(&archive, json!({ "C7": "new-name" })).await;
        let mut names = DisplayNames::new(&archive, team());
        let message: MessageText =
            read(&json!({ "user": "U9", "text": "<@U1> <@U2> <#C7> <@USLACKBOT>" }).into(), &TimeZone::UTC);
        names.learn(&[message]).await.unwrap();
        for (text, expected) in [
            ("hi <@U1>, <@U1|old>", "hi @ana, @ana"),
            ("<@U2> <@U3|cy> <@USLACKBOT>", "@U2 @cy @Slackbot"),
            ("<#C1|general> <#C2> <#C2|>", "#general #C2 #C2"),
            ("<#C7|old-name> <#C7>", "#new-name #new-name"),
            ("<!here> <!subteam^S1|@ops> <!subteam^S1>", "@here @ops @S1"),
            ("<!date^1392734382^{date}|a day in 2014>", "a day in 2014"),
            ("<https://example.com/?a=1&amp;b=2>", "https://example.com/?a=1&b=2"),
            ("<https://example.com|safe.example>", "safe.example (https://example.com)"),
            ("<http://example.com|example.com>", "http://example.com"),
            ("<mailto:a@example.com|a@example.com>", "a@example.com"),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 &copy; &", "1 < 2 && 3 > 2 &copy; &"),
            ("&amp;lt;", "&lt;"),
            ("a < b", "a < b"),
            ("<a <@U1>", "<a @ana"),
            ("<>", ""),
            ("<", "<"),
        ] {
            assert_eq!(words(&mrkdwn::parse(text, &TimeZone::UTC), &names), expected, "{text}");
        }
    }

    #[test]
    fn a_line_without_signs_has_its_words_alone() {
        let archive = MemoryArchive::new();
        let names = DisplayNames::new(&archive, team());
        let text = "> *bold* _it_ ~gone~ `code` <https://example.com|safe.example> 2 * 3";
        let lines = formatting::lines(mrkdwn::parse(text, &TimeZone::UTC));
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let with_signs =
            text.replace("<https://example.com|safe.example>", "safe.example (https://example.com)");
        assert_eq!(super::line(line, &names), with_signs);
        let expected = "bold it gone code safe.example (https://example.com) 2 * 3";
        assert_eq!(line_without_signs(line, &names), expected);
    }

    #[test]
    fn signs_of_a_style_do_not_split_a_word() {
        let archive = MemoryArchive::new();
        let names = DisplayNames::new(&archive, team());
        let bold = |text: &str| TextSpan::Text(text.into(), TextStyle { bold: true, ..TextStyle::default() });
        let link = || TextSpan::Link { address: "https://x.example".into(), label: None };
        for (spans, expected) in [
            (vec![TextSpan::text("a"), bold("b"), TextSpan::text("c")], "abc"),
            (vec![TextSpan::text("a "), bold(" b "), TextSpan::text("c")], "a  *b* c"),
            (vec![bold("see "), link()], "*see* https://x.example"),
            (vec![bold("a"), TextSpan::text(", "), bold("b")], "*a*, *b*"),
            (vec![bold(" ")], " "),
        ] {
            assert_eq!(words(&spans, &names), expected);
        }
    }
}
