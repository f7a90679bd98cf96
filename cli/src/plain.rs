//! Makes untrusted text safe to print: plain text with [`reader::plain`], JSON, and values in addresses. Formats numbers.

use std::io;

pub(crate) use reader::numbers::{counted, grouped};
use reader::plain::affects_terminal;
pub(crate) use reader::plain::{excerpt, line, lines, tail};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use slack::ids::ChannelId;

/// Returns `#general`, with at most this number of characters, or the id of a channel without a name.
pub(crate) fn channel_label(name: Option<&str>, channel: &ChannelId, max_chars: usize) -> String {
    name.map_or_else(|| channel.to_string(), |name| format!("#{}", excerpt(name, max_chars)))
}

/// Formats an age or another duration in its largest sensible unit.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A text as a value in the query of an address.
pub(crate) fn query_value(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Writes a value as one line of JSON. Characters that act on a terminal are escaped, which does not change
/// the value.
pub(crate) fn json_line<W: io::Write + ?Sized>(out: &mut W, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Escaping))?;
    out.write_all(b"\n")
}

/// Escapes characters that act on a terminal. serde_json only escapes characters that JSON forbids.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !fragment.contains(affects_terminal) {
            return out.write_all(fragment.as_bytes());
        }
        let mut escaped = String::with_capacity(fragment.len() + 16);
        for c in fragment.chars() {
            if affects_terminal(c) {
                // All such characters are in the first plane of Unicode.
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
    fn json_lines_have_the_same_value_without_control_characters() {
        let value = json!({ HOSTILE: [HOSTILE, 1, null] });
        let mut out = Vec::new();
        json_line(&mut out, &value).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(!printed.trim_end_matches('\n').contains(affects_terminal), "{printed}");
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
    }
}
