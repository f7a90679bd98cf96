//! Makes untrusted text safe to print: a message must not be able to control a terminal or to imitate another
//! text.

/// Whether a character affects a terminal instead of being printed: control characters, characters that
/// change the text direction or break lines, and annotation characters.
pub fn affects_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// Whether a character is invisible, so that two texts that differ only in it look the same.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether an invisible character has an effect between its neighbours: a joiner between letters of scripts
/// that need it or within emoji, a variation selector after a character with variants, a tag after the flag
/// that it spells.
fn is_needed(c: char, before: Option<char>, after: Option<char>) -> bool {
    // Latin, Greek and Cyrillic letters and punctuation need no joiners.
    let is_joined = |c: char| {
        c >= '\u{590}'
            && !matches!(c, '\u{1e00}'..='\u{206f}' | '\u{feff}')
            && !c.is_whitespace()
            && !affects_terminal(c)
    };
    match c {
        '\u{200c}' | '\u{200d}' => {
            before.is_some_and(is_joined)
                && after.is_some_and(|after| is_joined(after) && !is_invisible(after))
        }
        // It turns digits into keycaps; some emoji are letters.
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|before| match before {
            '0'..='9' | '#' | '*' | '\u{24c2}' | '\u{1f100}'..='\u{1f1ff}' => true,
            _ => {
                !before.is_ascii()
                    && !before.is_alphabetic()
                    && !before.is_whitespace()
                    && !is_invisible(before)
            }
        }),
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            before.is_some_and(|before| !before.is_ascii() && !is_invisible(before))
        }
        // After the black flag or another tag.
        '\u{e0020}'..='\u{e007f}' => matches!(before, Some('\u{1f3f4}' | '\u{e0020}'..='\u{e007e}')),
        _ => false,
    }
}

/// Returns the visible replacement of a character that affects terminals.
fn visible_replacement(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Returns the text on one line, without invisible characters that have no effect.
pub fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let c = match c {
            '\n' | '\t' | '\r' => ' ',
            c if affects_terminal(c) => visible_replacement(c),
            c if is_invisible(c) && !is_needed(c, before, rest.clone().next()) => continue,
            c => c,
        };
        line.push(c);
        before = Some(c);
    }
    line
}

/// Returns the text's lines, each safe to print by itself.
pub fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|part| line(part.strip_suffix('\r').unwrap_or(part)))
}

/// Returns the first `max` characters of the text on one line.
pub fn excerpt(text: &str, max: usize) -> String {
    let end = text.floor_char_boundary(max.saturating_mul(4));
    let mut cut = line(&text[..end]);
    let mut is_cut = end < text.len();
    if let Some((end, _)) = cut.char_indices().nth(max) {
        cut.truncate(end);
        is_cut = true;
    }
    if is_cut {
        cut.push('…');
    }
    cut
}

/// Returns the last `max` characters of the text on one line.
pub fn tail(text: &str, max: usize) -> String {
    let text = line(text);
    match text.char_indices().rev().nth(max.saturating_sub(1)) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mred\u{7}\u{9b}2J\u{7f}\u{202e}\r\nb\tc\u{0}";

    #[test]
    fn text_keeps_no_character_that_affects_a_terminal() {
        assert!(!line(HOSTILE).contains(affects_terminal));
        assert!(lines(HOSTILE).all(|line| !line.contains(affects_terminal)));
        assert_eq!(line("a\u{1b}[1mb\nc"), "a␛[1mb c");
        assert_eq!(lines("a\r\n\nb\rc").collect::<Vec<_>>(), ["a", "", "b c"]);
    }

    #[test]
    fn other_scripts_and_emoji_stay_unchanged() {
        // Families, flags and keycaps; Persian and Hindi with a non-joiner and a joiner; a variant of a Han character.
        for text in [
            "naïve 日本語 עברית 👩‍👩‍👧 🏳️‍🌈 ❤️ ☎︎ 1️⃣ 👩🏽‍💻",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} می\u{200c}خواهم क्\u{200d}ष 葛\u{e0100}",
        ] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn invisible_characters_neither_make_two_names_look_alike_nor_hide_words() {
        for c in [
            '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{3164}', '\u{fe0f}',
            '\u{fe01}',
        ] {
            assert_eq!(line(&format!("a{c}na")), "ana", "{c:?}");
            assert_eq!(line(&format!("{c}ana{c}")), "ana", "{c:?}");
        }
        let hidden: String =
            "pay me".chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c))).collect();
        assert_eq!(line(&format!("hello{hidden}")), "hello");
        assert_eq!(line(&format!("é{}é", "\u{200d}".repeat(99))), "éé");
        for c in ['\u{200e}', '\u{200f}', '\u{61c}', '\u{fff9}', '\u{fffb}', '\u{202e}'] {
            assert_eq!(line(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
        }
    }

    #[test]
    fn an_end_is_bounded() {
        assert_eq!(tail("short", 5), "short");
        assert_eq!(tail("longer", 5), "…onger");
        assert_eq!(tail("\n\u{1b}", 1), "…␛");
        assert_eq!(tail("", 5), "");
    }

    #[test]
    fn an_excerpt_is_bounded() {
        assert_eq!(excerpt("short", 5), "short");
        assert_eq!(excerpt("longer", 5), "longe…");
        assert_eq!(excerpt(&"é".repeat(1000), 3), "ééé…");
    }
}
