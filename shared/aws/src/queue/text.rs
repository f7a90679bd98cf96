//! Encodes any text in the characters that SQS accepts.
//!
//! SQS rejects a message with a character outside `#x9 | #xA | #xD | #x20–#xD7FF | #xE000–#xFFFD |
//! #x10000–#x10FFFF`, and an empty one. The port carries any text, and a carelessly written JSON string may
//! contain such a character unescaped. So a text that SQS would reject is sent escaped, with the message
//! attribute [`FORM`]. All others are sent unchanged, readable for a person who inspects the queue.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>

/// The message attribute that names the encoding of a body. If it is absent, the body is the text itself.
pub(super) const FORM: &str = "annalist-body";
/// The encoding in which [`ESCAPE`] and a letter encode a character, or an empty text.
pub(super) const ESCAPED: &str = "escaped";

/// Starts an escape sequence. SQS accepts it, and it is rare in texts.
const ESCAPE: char = '\u{7f}';
/// After [`ESCAPE`]: no character. This sequence encodes an empty text.
const NOTHING: char = 'z';

/// The characters that are escaped, in the order of their letters in [`LETTERS`].
const CHARACTERS: [char; 32] = [
    '\u{0}', '\u{1}', '\u{2}', '\u{3}', '\u{4}', '\u{5}', '\u{6}', '\u{7}', '\u{8}', '\u{b}', '\u{c}',
    '\u{e}', '\u{f}', '\u{10}', '\u{11}', '\u{12}', '\u{13}', '\u{14}', '\u{15}', '\u{16}', '\u{17}',
    '\u{18}', '\u{19}', '\u{1a}', '\u{1b}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{1f}', '\u{fffe}', '\u{ffff}',
    ESCAPE,
];
const LETTERS: [char; 32] = [
    'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U',
    'V', 'W', 'X', 'Y', 'Z', 'a', 'b', 'c', 'd', 'e', 'f',
];

/// The escaped form of a text that SQS would reject; `None` if SQS accepts it unchanged.
pub(super) fn escape(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some([ESCAPE, NOTHING].into_iter().collect());
    }
    if !text.chars().any(is_rejected) {
        return None;
    }
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match CHARACTERS.iter().position(|refused| *refused == character) {
            Some(index) => escaped.extend([ESCAPE, LETTERS[index]]),
            None => escaped.push(character),
        }
    }
    Some(escaped)
}

/// The text of an escaped form; `None` if an escape sequence is unknown.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut text = String::with_capacity(escaped.len());
    let mut characters = escaped.chars();
    while let Some(character) = characters.next() {
        if character != ESCAPE {
            text.push(character);
            continue;
        }
        let letter = characters.next()?;
        if letter != NOTHING {
            text.push(CHARACTERS[LETTERS.iter().position(|known| *known == letter)?]);
        }
    }
    Some(text)
}

/// Whether SQS rejects a message with this character.
fn is_rejected(character: char) -> bool {
    let accepted = matches!(character,
        '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    !accepted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exactly_the_characters_that_sqs_rejects_and_the_escape_itself_are_escaped() {
        for character in '\0'..=char::MAX {
            let listed = CHARACTERS.contains(&character);
            assert_eq!(listed, is_rejected(character) || character == ESCAPE, "{character:?}");
        }
    }

    #[test]
    fn a_text_that_sqs_accepts_is_sent_unchanged() {
        for text in ["{\"text\":\"é\\u0000\"}", " \r\n\t", "delete \u{7f} alone", "🦀 \u{fffd} \u{10ffff}"]
        {
            assert_eq!(escape(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_empty_text_is_sent_as_a_non_empty_body() {
        let escaped = escape("").unwrap();
        assert!(!escaped.is_empty() && !escaped.chars().any(is_rejected));
        assert_eq!(unescape(&escaped).as_deref(), Some(""));
    }

    #[test]
    fn an_unknown_escape_sequence_is_rejected() {
        for escaped in ["\u{7f}", "\u{7f}!", "a\u{7f}g", "\u{7f}é"] {
            assert_eq!(unescape(escaped), None, "{escaped:?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_survives_a_round_trip(text in "[\\x00-\\x20\\x7fA-Zaz\\u{fffe}\\u{ffff}é🦀]{0,40}") {
            match escape(&text) {
                Some(escaped) => {
                    prop_assert!(!escaped.chars().any(is_rejected));
                    prop_assert_eq!(unescape(&escaped), Some(text));
                }
                None => prop_assert!(!text.is_empty() && !text.chars().any(is_rejected)),
            }
        }
    }
}
