//! How words look: the signs of Slack's markup, read as styles. For pages; where only words count they stay as they are.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>

use super::spans::{LineKind, TextLine, TextSpan, TextStyle, broken};

/// What stands around preformatted text.
const FENCE: &str = "```";

/// What stands behind the name of an emoji that has a skin tone, and a digit with a colon behind it.
const SKIN_TONE: &str = ":skin-tone-";

/// The longest name of an emoji: Slack allows 100 characters.
const MAX_EMOJI_NAME: usize = 100;

/// Spans as lines with their kinds and styles.
pub(super) fn lines(spans: Vec<TextSpan>) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for (number, part) in between_fences(spans).into_iter().enumerate() {
        if number % 2 == 1 {
            preformatted(part, &mut lines);
        } else if number == 0 || !is_blank(&part) {
            quoted(part, &mut lines);
        }
    }
    lines
}

fn is_blank(spans: &[TextSpan]) -> bool {
    spans.iter().all(|span| matches!(span, TextSpan::Text(text, _) if text.trim().is_empty()))
}

/// The parts before, within, and after each pair of fences: each second one is within. A fence that has no other is words.
fn between_fences(spans: Vec<TextSpan>) -> Vec<Vec<TextSpan>> {
    let fences =
        |span: &TextSpan| if let TextSpan::Text(text, _) = span { text.matches(FENCE).count() } else { 0 };
    let mut left = spans.iter().map(fences).sum::<usize>() / 2 * 2;
    let mut parts = vec![Vec::new()];
    let add = |parts: &mut Vec<Vec<TextSpan>>, span: TextSpan| match parts.last_mut() {
        Some(part) => part.push(span),
        None => parts.push(vec![span]),
    };
    for span in spans {
        let TextSpan::Text(text, style) = span else {
            add(&mut parts, span);
            continue;
        };
        let mut rest = text.as_str();
        while left > 0
            && let Some((before, after)) = rest.split_once(FENCE)
        {
            add(&mut parts, TextSpan::Text(before.to_owned(), style));
            parts.push(Vec::new());
            rest = after;
            left -= 1;
        }
        if !rest.is_empty() {
            add(&mut parts, TextSpan::Text(rest.to_owned(), style));
        }
    }
    parts
}

fn preformatted(spans: Vec<TextSpan>, lines: &mut Vec<TextLine>) {
    let mut parts = broken(spans);
    if parts.first().is_some_and(Vec::is_empty) {
        parts.remove(0);
    }
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    let kind = LineKind::Preformatted;
    lines.extend(parts.into_iter().map(|spans| TextLine { kind, ..TextLine::plain(spans) }));
}

/// Lines, some of which are quotations: `>` begins one line, `>>>` all that follow.
fn quoted(spans: Vec<TextSpan>, lines: &mut Vec<TextLine>) {
    let mut rest_is_quoted = false;
    for mut spans in broken(spans) {
        let mut is_quoted = rest_is_quoted;
        if let Some(TextSpan::Text(text, _)) = spans.first_mut()
            && text.starts_with('>')
        {
            is_quoted = true;
            rest_is_quoted |= text.starts_with(">>>");
            let said = text.trim_start_matches('>');
            *text = said.strip_prefix(' ').unwrap_or(said).to_owned();
        }
        let kind = if is_quoted { LineKind::Quote } else { LineKind::Plain };
        lines.push(TextLine { kind, ..TextLine::plain(styled(spans)) });
    }
}

/// A character with its style, or a span that has none.
enum Unit {
    Char { c: char, style: TextStyle, is_sign: bool },
    Whole(TextSpan),
}

impl Unit {
    /// The character, unless it is code or a sign already.
    fn char(&self) -> Option<char> {
        match self {
            Self::Char { c, style, is_sign } if !style.code && !is_sign => Some(*c),
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

/// One line, with the signs of its markup read.
fn styled(spans: Vec<TextSpan>) -> Vec<TextSpan> {
    let mut units: Vec<Unit> = Vec::new();
    for span in spans {
        if let TextSpan::Text(text, style) = span {
            units.extend(text.chars().map(|c| Unit::Char { c, style, is_sign: false }));
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

/// What stands between two backticks is code, and nothing in it is markup.
fn code(units: &mut [Unit]) {
    let mut start = 0;
    let next = |units: &[Unit], from: usize| {
        units.iter().skip(from).position(|unit| unit.char() == Some('`')).map(|place| from + place)
    };
    while let Some(open) = next(units, start) {
        let Some(close) = next(units, open + 1) else { return };
        if close > open + 1 {
            apply(units, open, close, |style| style.code = true);
        }
        start = close + 1;
    }
}

/// What stands between two signs at the edges of words.
fn emphasis(units: &mut [Unit], sign: char, set: fn(&mut TextStyle)) {
    let mut open = 0;
    while open < units.len() {
        if !opens(units, open, sign) {
            open += 1;
            continue;
        }
        // What does not close this one closes none behind it either.
        let Some(close) = (open + 2..units.len()).find(|place| closes(units, *place, sign)) else { return };
        apply(units, open, close, set);
        open = close + 1;
    }
}

fn opens(units: &[Unit], place: usize, sign: char) -> bool {
    let before = place.checked_sub(1).and_then(|before| units.get(before));
    let after = units.get(place + 1);
    units[place].char() == Some(sign)
        && before.is_none_or(|before| !before.is_alphanumeric())
        && after.is_some_and(|after| !after.is_blank() && after.char() != Some(sign))
}

fn closes(units: &[Unit], place: usize, sign: char) -> bool {
    units[place].char() == Some(sign)
        && !units[place - 1].is_blank()
        && units.get(place + 1).is_none_or(|after| !after.is_alphanumeric())
}

fn apply(units: &mut [Unit], open: usize, close: usize, set: fn(&mut TextStyle)) {
    for (place, unit) in units.iter_mut().enumerate().take(close + 1).skip(open) {
        if let Unit::Char { style, is_sign, .. } = unit {
            if place == open || place == close {
                *is_sign = true;
            } else {
                set(style);
            }
        }
    }
}

/// Units as spans: characters of one style are one text, and names between colons are emoji.
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
            Unit::Char { is_sign: true, .. } => {}
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

fn with_emoji(text: &str, style: TextStyle, spans: &mut Vec<TextSpan>) {
    if style.code {
        spans.push(TextSpan::Text(text.to_owned(), style));
        return;
    }
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(':') {
        words += before;
        // A time has colons between its numbers.
        let is_time = before.ends_with(|c: char| c.is_ascii_digit());
        match emoji(after).filter(|_| !is_time) {
            Some((name, skin_tone, behind)) => {
                if !words.is_empty() {
                    spans.push(TextSpan::Text(std::mem::take(&mut words), style));
                }
                spans.push(TextSpan::Emoji { name: name.to_owned(), skin_tone });
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

/// The emoji that a text begins with, behind its colon: name, skin tone, and what follows.
fn emoji(text: &str) -> Option<(&str, Option<u8>, &str)> {
    let bounded = &text[..text.floor_char_boundary(MAX_EMOJI_NAME * 4 + 1)];
    let (name, _) = bounded.split_once(':')?;
    let is_named = |c: char| c.is_alphanumeric() || "_+-'".contains(c);
    if name.is_empty() || !name.chars().all(is_named) {
        return None;
    }
    let after = &text[name.len() + 1..];
    let tone = after.strip_prefix(SKIN_TONE).and_then(|toned| {
        let (digit, after) = toned.split_once(':')?;
        Some((digit.parse().ok().filter(|tone| (2..=6).contains(tone))?, after))
    });
    Some(tone.map_or((name, None, after), |(tone, after)| (name, Some(tone), after)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::mrkdwn;

    fn of(text: &str) -> Vec<TextLine> {
        lines(mrkdwn::parse(text))
    }

    /// The text with `b`, `i`, `s` and `c` for styles around what has them.
    fn shown(text: &str) -> String {
        let mut shown = String::new();
        for line in of(text) {
            shown += match line.kind {
                LineKind::Quote => "> ",
                LineKind::Preformatted => "| ",
                LineKind::Plain
                | LineKind::Heading
                | LineKind::Context
                | LineKind::TableRow
                | LineKind::Divider => "",
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
                    TextSpan::Emoji { name, skin_tone } => {
                        shown +=
                            &format!("[{name}{}]", skin_tone.map_or(String::new(), |tone| tone.to_string()));
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
    fn signs_at_the_edges_of_words_are_styles_and_others_are_words() {
        for (text, expected) in [
            ("*bold* _it_ ~gone~ `x*y*`", "b(bold) i(it) s(gone) c(x*y*)"),
            ("*_both_*", "bi(both)"),
            ("2 * 3 * 4, a_b_c, *", "2 * 3 * 4, a_b_c, *"),
            ("**", "**"),
            ("``", "``"),
            ("`open", "`open"),
            ("*a\nb*", "*a\nb*"),
            (
                ":tada: at 10:30:45 :wave::skin-tone-3: :no such: :+1:",
                "[tada] at 10:30:45 [wave3] :no such: [+1]",
            ),
            ("&gt; said\nnot said", "> said\nnot said"),
            ("&gt;&gt;&gt; said\nstill", "> said\n> still"),
            ("so:\n```\nif *x* {\n}\n```\nthen", "so:\n\n| if *x* {\n| }\n\nthen"),
            ("```a``` and ``` alone", "| a\n and ``` alone"),
        ] {
            assert_eq!(shown(text).trim_start(), expected, "{text}");
        }
    }

    #[test]
    fn hostile_markup_ends_in_time_and_loses_no_word() {
        for sign in ["*", "_", "~", "`", ":", "```", ">", "*a ", "_*~", ":a"] {
            let text = sign.repeat(40_000 / sign.len());
            let said = of(&text);
            assert!(said.iter().map(|line| line.spans.len()).sum::<usize>() <= 40_000, "{sign}");
        }
    }
}
