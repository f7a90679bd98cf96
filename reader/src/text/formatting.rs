//! Converts the characters of Slack's markup to styles. Each step reads a text once, so that the time grows
//! with its length alone.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>

use super::spans::{LineKind, TextLine, TextSpan, TextStyle, split_lines};

/// The delimiter of preformatted text.
const FENCE: &str = "```";

/// The characters around text with a style.
const DELIMITERS: [char; 4] = ['`', '*', '_', '~'];

/// The text between the name of an emoji and its skin tones: one digit, or two with a hyphen, and a colon.
const SKIN_TONE: &str = ":skin-tone-";

/// The length of the longest skin tones, `2-3`.
const SKIN_TONES_BYTES: usize = 3;

/// Maximum length of an emoji's name in Slack, in characters.
const MAX_EMOJI_NAME: usize = 100;

/// Converts spans to lines with kinds and styles. A text that consists only of delimiters is not converted.
pub(super) fn lines(spans: Vec<TextSpan>) -> Vec<TextLine> {
    let unconverted = spans.clone();
    let mut lines = Vec::new();
    for (number, part) in between_fences(spans).into_iter().enumerate() {
        if number % 2 == 1 {
            preformatted(part, &mut lines);
        } else if number == 0 || !is_blank(&part) {
            quoted(part, &mut lines);
        }
    }
    if lines.iter().all(TextLine::is_empty) {
        return split_lines(unconverted).into_iter().map(TextLine::plain).collect();
    }
    lines
}

/// Splits spans without markup into lines. Only the names of emoji are converted.
pub(super) fn unstyled(spans: Vec<TextSpan>) -> Vec<TextLine> {
    split_lines(spans).into_iter().map(|spans| TextLine::plain(with_emoji_in(spans))).collect()
}

fn is_blank(spans: &[TextSpan]) -> bool {
    spans.iter().all(|span| matches!(span, TextSpan::Text(text, _) if text.trim().is_empty()))
}

/// Returns the parts outside and inside of pairs of fences, alternating. A fence without a partner is text.
fn between_fences(spans: Vec<TextSpan>) -> Vec<Vec<TextSpan>> {
    let fences =
        |span: &TextSpan| if let TextSpan::Text(text, _) = span { text.matches(FENCE).count() } else { 0 };
    let mut left = spans.iter().map(fences).sum::<usize>() / 2 * 2;
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    for span in spans {
        let TextSpan::Text(text, style) = span else {
            part.push(span);
            continue;
        };
        let mut rest = text.as_str();
        while left > 0
            && let Some((before, after)) = rest.split_once(FENCE)
        {
            part.push(TextSpan::Text(before.to_owned(), style));
            parts.push(std::mem::take(&mut part));
            rest = after;
            left -= 1;
        }
        if !rest.is_empty() {
            part.push(TextSpan::Text(rest.to_owned(), style));
        }
    }
    parts.push(part);
    parts
}

fn preformatted(spans: Vec<TextSpan>, lines: &mut Vec<TextLine>) {
    let mut parts = split_lines(spans);
    if parts.first().is_some_and(Vec::is_empty) {
        parts.remove(0);
    }
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    let kind = LineKind::Preformatted;
    lines.extend(parts.into_iter().map(|spans| TextLine { kind, ..TextLine::plain(spans) }));
}

/// Adds lines and marks quotations: `>` quotes one line, `>>>` all following ones.
fn quoted(spans: Vec<TextSpan>, lines: &mut Vec<TextLine>) {
    let mut rest_is_quoted = false;
    for mut spans in split_lines(spans) {
        let mut is_quoted = rest_is_quoted;
        if let Some(TextSpan::Text(text, _)) = spans.first_mut()
            && text.starts_with('>')
        {
            is_quoted = true;
            rest_is_quoted |= text.starts_with(">>>");
            let quotation = text.trim_start_matches('>');
            *text = quotation.strip_prefix(' ').unwrap_or(quotation).to_owned();
        }
        let kind = if is_quoted { LineKind::Quote } else { LineKind::Plain };
        lines.push(TextLine { kind, ..TextLine::plain(styled(spans)) });
    }
}

/// A character with its style, or a span without a style.
enum Unit {
    Char { c: char, style: TextStyle, is_delimiter: bool },
    Whole(TextSpan),
}

impl Unit {
    /// Returns the character, unless it is part of code or already read as a delimiter.
    fn char(&self) -> Option<char> {
        match self {
            Self::Char { c, style, is_delimiter } if !style.code && !is_delimiter => Some(*c),
            Self::Char { .. } | Self::Whole(_) => None,
        }
    }

    fn is_alphanumeric(&self) -> bool {
        matches!(self, Self::Char { c, .. } if c.is_alphanumeric())
    }

    fn is_blank(&self) -> bool {
        matches!(self, Self::Char { c, .. } if c.is_whitespace())
    }
}

/// Converts the markup of one line to styles.
fn styled(spans: Vec<TextSpan>) -> Vec<TextSpan> {
    let is_markup = |span: &TextSpan| matches!(span, TextSpan::Text(text, _) if text.contains(DELIMITERS));
    if !spans.iter().any(is_markup) {
        return with_emoji_in(spans);
    }
    let mut units: Vec<Unit> = Vec::new();
    for span in spans {
        if let TextSpan::Text(text, style) = span {
            units.extend(text.chars().map(|c| Unit::Char { c, style, is_delimiter: false }));
        } else {
            units.push(Unit::Whole(span));
        }
    }
    code(&mut units);
    emphasis(&mut units, '*', |style| style.bold = true);
    emphasis(&mut units, '_', |style| style.italic = true);
    emphasis(&mut units, '~', |style| style.strike = true);
    joined(units)
}

/// Marks text between two backticks as code. Code contains no markup.
fn code(units: &mut [Unit]) {
    let mut start = 0;
    let next = |units: &[Unit], from: usize| {
        units.iter().skip(from).position(|unit| unit.char() == Some('`')).map(|index| from + index)
    };
    while let Some(open) = next(units, start) {
        let Some(close) = next(units, open + 1) else { return };
        if close > open + 1 {
            apply(units, open, close, |style| style.code = true);
        }
        start = close + 1;
    }
}

/// Sets a style between two delimiters at word boundaries.
fn emphasis(units: &mut [Unit], delimiter: char, set: fn(&mut TextStyle)) {
    let mut open = 0;
    while open < units.len() {
        if !opens(units, open, delimiter) {
            open += 1;
            continue;
        }
        // If no later delimiter closes this one, none closes a later one.
        let Some(close) = (open + 2..units.len()).find(|index| closes(units, *index, delimiter)) else {
            return;
        };
        apply(units, open, close, set);
        open = close + 1;
    }
}

fn opens(units: &[Unit], index: usize, delimiter: char) -> bool {
    let before = index.checked_sub(1).and_then(|before| units.get(before));
    let after = units.get(index + 1);
    units[index].char() == Some(delimiter)
        && before.is_none_or(|before| !before.is_alphanumeric())
        && after.is_some_and(|after| !after.is_blank() && after.char() != Some(delimiter))
}

fn closes(units: &[Unit], index: usize, delimiter: char) -> bool {
    units[index].char() == Some(delimiter)
        && !units[index - 1].is_blank()
        && units.get(index + 1).is_none_or(|after| !after.is_alphanumeric())
}

fn apply(units: &mut [Unit], open: usize, close: usize, set: fn(&mut TextStyle)) {
    for (index, unit) in units.iter_mut().enumerate().take(close + 1).skip(open) {
        if let Unit::Char { style, is_delimiter, .. } = unit {
            if index == open || index == close {
                *is_delimiter = true;
            } else {
                set(style);
            }
        }
    }
}

/// Converts units to spans: characters with the same style become one text, and names between colons become
/// emoji.
fn joined(units: Vec<Unit>) -> Vec<TextSpan> {
    let mut spans = Vec::new();
    let (mut text, mut text_style) = (String::new(), TextStyle::default());
    let end = |text: &mut String, style: TextStyle, spans: &mut Vec<TextSpan>| {
        if !text.is_empty() {
            with_emoji(&std::mem::take(text), style, spans);
        }
    };
    for unit in units {
        match unit {
            Unit::Char { is_delimiter: true, .. } => {}
            Unit::Char { c, style, .. } => {
                if style != text_style {
                    end(&mut text, text_style, &mut spans);
                    text_style = style;
                }
                text.push(c);
            }
            Unit::Whole(span) => {
                end(&mut text, text_style, &mut spans);
                spans.push(span);
            }
        }
    }
    end(&mut text, text_style, &mut spans);
    spans
}

/// Converts the names of emoji in the texts of spans.
fn with_emoji_in(spans: Vec<TextSpan>) -> Vec<TextSpan> {
    let mut converted = Vec::with_capacity(spans.len());
    for span in spans {
        if let TextSpan::Text(text, style) = &span {
            with_emoji(text, *style, &mut converted);
        } else {
            converted.push(span);
        }
    }
    converted
}

fn with_emoji(text: &str, style: TextStyle, spans: &mut Vec<TextSpan>) {
    if style.code {
        spans.push(TextSpan::Text(text.to_owned(), style));
        return;
    }
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(':') {
        words += before;
        // A time of day has colons between its numbers.
        let is_time = before.ends_with(|c: char| c.is_ascii_digit());
        match emoji(after).filter(|_| !is_time) {
            Some((name, skin_tones, behind)) => {
                if !words.is_empty() {
                    spans.push(TextSpan::Text(std::mem::take(&mut words), style));
                }
                spans.push(TextSpan::Emoji { name: name.to_owned(), skin_tones });
                rest = behind;
            }
            None => {
                words.push(':');
                rest = after;
            }
        }
    }
    words += rest;
    if !words.is_empty() {
        spans.push(TextSpan::Text(words, style));
    }
}

/// Parses an emoji after its opening colon. Returns its name, its skin tones, and the rest of the text.
fn emoji(text: &str) -> Option<(&str, Vec<u8>, &str)> {
    let bounded = &text[..text.floor_char_boundary(MAX_EMOJI_NAME * 4 + 1)];
    let (name, _) = bounded.split_once(':')?;
    let is_named = |c: char| c.is_alphanumeric() || "_+-'".contains(c);
    if name.is_empty() || !name.chars().all(is_named) {
        return None;
    }
    let after = &text[name.len() + 1..];
    let toned = after.strip_prefix(SKIN_TONE).and_then(|toned| {
        let end = toned.bytes().take(SKIN_TONES_BYTES + 1).position(|byte| byte == b':')?;
        Some((skin_tones(&toned[..end])?, &toned[end + 1..]))
    });
    Some(toned.map_or((name, Vec::new(), after), |(tones, after)| (name, tones, after)))
}

/// Parses skin tones: `3`, or `2-3` for an emoji with two people. `None` for anything else.
pub(super) fn skin_tones(text: &str) -> Option<Vec<u8>> {
    let tone = |tone: &str| tone.parse().ok().filter(|tone| (2..=6).contains(tone));
    match text.split_once('-') {
        Some((first, second)) => Some(vec![tone(first)?, tone(second)?]),
        None => Some(vec![tone(text)?]),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::text::mrkdwn;

    fn formatted(text: &str) -> Vec<TextLine> {
        lines(mrkdwn::parse(text, &TimeZone::UTC))
    }

    /// Returns the text with its styles as `b(…)`, `i(…)`, `s(…)` and `c(…)`.
    fn shown(text: &str) -> String {
        let mut shown = String::new();
        for line in formatted(text) {
            shown += match line.kind {
                LineKind::Quote => "> ",
                LineKind::Preformatted => "| ",
                LineKind::Plain
                | LineKind::Heading
                | LineKind::Context
                | LineKind::TableRow
                | LineKind::Divider
                | LineKind::Markdown => "",
            };
            for span in &line.spans {
                match span {
                    TextSpan::Text(words, TextStyle { bold, italic, strike, code }) => {
                        let styles = [(bold, 'b'), (italic, 'i'), (strike, 's'), (code, 'c')];
                        let styles: String =
                            styles.into_iter().filter(|(is_set, _)| **is_set).map(|(_, name)| name).collect();
                        shown +=
                            &if styles.is_empty() { words.clone() } else { format!("{styles}({words})") };
                    }
                    TextSpan::Emoji { name, skin_tones } => {
                        let tones: String = skin_tones.iter().map(u8::to_string).collect();
                        shown += &format!("[{name}{tones}]");
                    }
                    TextSpan::Link { .. }
                    | TextSpan::User { .. }
                    | TextSpan::Channel { .. }
                    | TextSpan::UserGroup { .. }
                    | TextSpan::Broadcast(_)
                    | TextSpan::Cell
                    | TextSpan::Control(_) => shown += &format!("{span:?}"),
                }
            }
            shown.push('\n');
        }
        shown.trim_end().to_owned()
    }

    #[test]
    fn delimiters_at_word_boundaries_are_styles_and_others_are_text() {
        for (text, expected) in [
            ("*bold* _it_ ~gone~ `x*y*`", "b(bold) i(it) s(gone) c(x*y*)"),
            ("*_both_*", "bi(both)"),
            ("2 * 3 * 4, a_b_c, *", "2 * 3 * 4, a_b_c, *"),
            ("**", "**"),
            ("``", "``"),
            ("_*_*", "_*_*"),
            ("``````", "``````"),
            ("``` ```", "``` ```"),
            ("&gt;", ">"),
            ("`open", "`open"),
            ("*a\nb*", "*a\nb*"),
            (
                ":tada: at 10:30:45 :wave::skin-tone-3: :no such: :+1:",
                "[tada] at 10:30:45 [wave3] :no such: [+1]",
            ),
            (":handshake::skin-tone-2-3: :wave::skin-tone-7: x", "[handshake23] [wave][skin-tone-7] x"),
            (":a::skin-tone-2::skin-tone-3: :b::skin-tone-23:", "[a2][skin-tone-3] [b][skin-tone-23]"),
            ("&gt; said\nnot said", "> said\nnot said"),
            ("&gt;&gt;&gt; said\nstill", "> said\n> still"),
            ("so:\n```\nif *x* {\n}\n```\nthen", "so:\n\n| if *x* {\n| }\n\nthen"),
            ("```a``` and ``` alone", "| a\n and ``` alone"),
        ] {
            assert_eq!(shown(text).trim_start(), expected, "{text}");
        }
    }

    #[test]
    fn hostile_markup_produces_a_bounded_number_of_spans() {
        for delimiter in ["*", "_", "~", "`", ":", "```", ">", "*a ", "_*~", ":a"] {
            let text = delimiter.repeat(40_000 / delimiter.len());
            let lines = formatted(&text);
            assert!(lines.iter().map(|line| line.spans.len()).sum::<usize>() <= 40_000, "{delimiter}");
        }
    }
}
