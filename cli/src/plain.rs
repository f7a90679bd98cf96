//! Text from outside, made safe to print: what a message says must not be able to drive a terminal.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Whether a character acts on a terminal instead of being shown: controls, and what changes the direction or the lines
/// of the text around it.
fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// What is shown instead of such a character.
fn shown(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// The text on one line.
pub(crate) fn line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            c if acts(c) => shown(c),
            c => c,
        })
        .collect()
}

/// The text's lines, each safe to print by itself.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|part| line(part.strip_suffix('\r').unwrap_or(part)))
}

/// The text on one line, cut where it is longer than `max` characters.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let mut cut: String = line(text.get(..text.floor_char_boundary(max * 4)).unwrap_or(text));
    if let Some((end, _)) = cut.char_indices().nth(max) {
        cut.truncate(end);
    }
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Writes a value as one line of JSON. What acts on a terminal is escaped, which is the same JSON.
pub(crate) fn json_line<W: io::Write + ?Sized>(out: &mut W, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Escaping))?;
    out.write_all(b"\n")
}

/// serde_json escapes what JSON forbids, which is less than what acts on a terminal.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !fragment.contains(acts) {
            return out.write_all(fragment.as_bytes());
        }
        let mut escaped = String::with_capacity(fragment.len() + 16);
        for c in fragment.chars() {
            if acts(c) {
                // Everything that acts lies in the first plane of Unicode.
                escaped += &format!("\\u{:04x}", u32::from(c));
            } else {
                escaped.push(c);
            }
        }
        out.write_all(escaped.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mred\u{7}\u{9b}2J\u{7f}\u{202e}\r\nb\tc\u{0}";

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left_in_text() {
        assert!(!line(HOSTILE).contains(acts));
        assert!(lines(HOSTILE).all(|line| !line.contains(acts)));
        assert_eq!(line("a\u{1b}[1mb\nc"), "a␛[1mb c");
        assert_eq!(lines("a\r\n\nb\rc").collect::<Vec<_>>(), ["a", "", "b c"]);
    }

    #[test]
    fn other_scripts_and_emoji_stay_as_they_are() {
        let text = "naïve 日本語 עברית 👩‍👩‍👧 🏳️‍🌈";
        assert_eq!(line(text), text);
    }

    #[test]
    fn json_is_the_same_value_without_anything_that_acts() {
        let value = json!({ HOSTILE: [HOSTILE, 1, null] });
        let mut out = Vec::new();
        json_line(&mut out, &value).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(!printed.trim_end_matches('\n').contains(acts), "{printed}");
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
    }

    #[test]
    fn an_excerpt_is_bounded() {
        assert_eq!(excerpt("short", 5), "short");
        assert_eq!(excerpt("longer", 5), "longe…");
        assert_eq!(excerpt(&"é".repeat(1000), 3), "ééé…");
    }
}
