//! Splits a text into the units that search compares: words, and single characters of scripts without spaces
//! between words.
//!
//! Queries and messages are folded in the same way. Compatibility forms (full width, ligatures, circled
//! digits) become plain ones; case and the accents of Latin, Greek and Cyrillic letters are removed.
//! Combining marks of other scripts stay: in Japanese, they form a different letter.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible, is_combining_mark};

/// Number of compared bytes of a word. Real words are much shorter; longer ones are encoded data.
const MAX_WORD_BYTES: usize = 128;

/// A word, or one character of a script without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchUnit {
    /// The folded text.
    pub text: String,
    /// Whether the unit is one character of a script without spaces, or a symbol.
    pub is_character: bool,
    /// Whether the unit directly follows another such character.
    pub is_joined: bool,
    /// The start in the text, in bytes.
    pub start: usize,
    /// The end in the text, in bytes.
    pub end: usize,
}

impl SearchUnit {
    /// Whether a unit of a text matches a unit of a query, or begins with it if `is_prefix`. The text before
    /// the first unit is irrelevant.
    pub(super) fn matches(&self, requested: &Self, is_first: bool, is_prefix: bool) -> bool {
        let begins = || is_prefix && self.text.starts_with(&requested.text);
        (self.text == requested.text || begins()) && (is_first || self.is_joined == requested.is_joined)
    }
}

pub fn split_into_units(text: &str) -> Vec<SearchUnit> {
    let mut units = UnitBuffer::default();
    let mut rest = text.char_indices().peekable();
    let mut folded = String::new();
    while let Some((start, c)) = rest.next() {
        if c.is_ascii() && rest.peek().is_none_or(|(_, next)| next.is_ascii()) {
            units.push(c.to_ascii_lowercase(), start, start + 1);
            continue;
        }
        let mut end = start + c.len_utf8();
        while let Some((at, mark)) = rest.next_if(|(_, next)| modifies_previous_character(*next)) {
            end = at + mark.len_utf8();
        }
        fold(&text[start..end], &mut folded);
        for c in folded.chars() {
            units.push(c, start, end);
        }
    }
    units.units
}

/// Returns the indexes in a text at which the units of a query are adjacent. With `is_prefix`, the last unit
/// of the query may be a prefix of the text's unit.
pub fn positions<'a>(
    text: &'a [SearchUnit],
    query: &'a [SearchUnit],
    is_prefix: bool,
) -> impl Iterator<Item = usize> + 'a {
    let last = query.len().saturating_sub(1);
    let is_at = move |start: usize| {
        query.iter().enumerate().all(|(number, requested)| {
            text[start + number].matches(requested, number == 0, is_prefix && number == last)
        })
    };
    let count = if query.is_empty() { 0 } else { (text.len() + 1).saturating_sub(query.len()) };
    (0..count).filter(move |start| is_at(*start))
}

fn modifies_previous_character(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    // Hangul vowels and final consonants as single letters.
    if matches!(c, '\u{1160}'..='\u{11FF}' | '\u{D7B0}'..='\u{D7FF}') || is_ignored(c) {
        return true;
    }
    let mut first = None;
    decompose_compatible(c, |part| {
        first.get_or_insert(part);
    });
    first.is_some_and(|first| canonical_combining_class(first) != 0)
}

/// Whether a character is invisible and may occur anywhere in a word.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a character is an accent of a Latin, Greek or Cyrillic letter.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}')
}

fn fold(text: &str, folded: &mut String) {
    folded.clear();
    let plain = text.nfkd().filter(|c| !is_accent(*c) && !is_ignored(*c));
    let lower = plain.flat_map(char::to_lowercase).filter(|c| !is_accent(*c));
    folded.extend(lower.map(|c| if c == 'ς' { 'σ' } else { c }).nfkc());
}

/// Whether a character is a unit of its own.
fn is_unit(c: char) -> bool {
    match c {
        // Arrows, technical symbols, pictographs.
        '\u{2190}'..='\u{23FF}'
        | '\u{2600}'..='\u{27BF}'
        | '\u{2B00}'..='\u{2BFF}'
        | '\u{1F000}'..='\u{1FAFF}' => true,
        // Thai, Lao; Myanmar; Khmer; Han radicals, kana, Hangul letters, Han; Hangul syllables; Han.
        '\u{E00}'..='\u{EFF}'
        | '\u{1000}'..='\u{109F}'
        | '\u{1100}'..='\u{11FF}'
        | '\u{1780}'..='\u{17FF}'
        | '\u{2E80}'..='\u{2FDF}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}'
        | '\u{3031}'..='\u{A4CF}'
        | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{1B000}'..='\u{1B16F}'
        | '\u{20000}'..='\u{3FFFF}' => c.is_alphanumeric() || is_combining_mark(c),
        _ => false,
    }
}

#[derive(Default)]
struct UnitBuffer {
    units: Vec<SearchUnit>,
    /// The kind of the last character.
    last: LastCharacter,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum LastCharacter {
    #[default]
    Separator,
    Word,
    Unit,
}

impl UnitBuffer {
    fn push(&mut self, c: char, start: usize, end: usize) {
        let kind = if is_unit(c) {
            LastCharacter::Unit
        } else if c.is_alphanumeric() || is_combining_mark(c) {
            LastCharacter::Word
        } else {
            LastCharacter::Separator
        };
        match kind {
            LastCharacter::Separator => {}
            LastCharacter::Word if self.last == LastCharacter::Word => {
                if let Some(word) = self.units.last_mut() {
                    if word.text.len() < MAX_WORD_BYTES {
                        word.text.push(c);
                    }
                    word.end = end;
                }
            }
            LastCharacter::Word | LastCharacter::Unit => {
                let is_character = kind == LastCharacter::Unit;
                let is_joined = is_character && self.last == LastCharacter::Unit;
                self.units.push(SearchUnit { text: c.to_string(), is_character, is_joined, start, end });
            }
        }
        self.last = kind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split_into_units(text).into_iter().map(|unit| unit.text).collect()
    }

    fn found(text: &str, query: &str, is_prefix: bool) -> Vec<String> {
        let (units, requested) = (split_into_units(text), split_into_units(query));
        positions(&units, &requested, is_prefix)
            .map(|at| text[units[at].start..units[at + requested.len() - 1].end].to_owned())
            .collect()
    }

    #[test]
    fn words_are_folded_and_separated_by_everything_but_letters_and_digits() {
        for (text, expected) in [
            ("Hello, World!", &["hello", "world"][..]),
            ("foo_bar.baz-qux foo::bar()", &["foo", "bar", "baz", "qux", "foo", "bar"]),
            ("https://example.com/a?b=1", &["https", "example", "com", "a", "b", "1"]),
            ("Café CAFE\u{301} naïve", &["cafe", "cafe", "naive"]),
            ("ＦＵＬＬ　ｗｉｄｔｈ １２", &["full", "width", "12"]),
            ("ﬁne ① ½", &["fine", "1", "1", "2"]),
            ("ΣΊΣΥΦΟΣ σίσυφος", &["σισυφοσ", "σισυφοσ"]),
            ("İstanbul", &["istanbul"]),
            ("zero\u{200B}width soft\u{AD}hyphen", &["zerowidth", "softhyphen"]),
            ("हिन्दी", &["हिन्दी"]),
            ("", &[]),
            ("-- :: \"\" ***", &[]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_split_into_characters() {
        for (text, expected) in [
            ("会議室", &["会", "議", "室"][..]),
            ("AWS障害", &["aws", "障", "害"]),
            ("ｶﾞｽ ガス", &["ガ", "ス", "ガ", "ス"]),
            ("か\u{3099}", &["が"]),
            ("한국어", &["한", "국", "어"]),
            ("\u{1112}\u{1161}\u{11AB}", &["한"]),
            ("㍻", &["平", "成"]),
            ("サーバー・メール", &["サ", "ー", "バ", "ー", "メ", "ー", "ル"]),
            ("🎉🎉", &["🎉", "🎉"]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
        let joined: Vec<bool> =
            split_into_units("会議 室AWS障害").iter().map(|unit| unit.is_joined).collect();
        assert_eq!(joined, [false, true, false, false, false, true]);
        assert!(!split_into_units("สวัสดี").is_empty());
    }

    #[test]
    fn a_phrase_is_found_where_its_units_are_adjacent() {
        for (text, query, expected) in [
            ("the quick brown fox", "quick brown", &["quick brown"][..]),
            ("the quick, brown fox", "QUICK brown", &["quick, brown"]),
            ("quick red brown", "quick brown", &[]),
            ("第一会議室で会議", "会議", &["会議", "会議"]),
            ("会 議", "会議", &[]),
            ("会議", "会 議", &[]),
            ("Ｃａｆe\u{301} x", "café", &["Ｃａｆe\u{301}"]),
            ("not here", "there", &[]),
            ("here", "nothing is this long", &[]),
        ] {
            assert_eq!(found(text, query, false), expected, "{text}: {query}");
        }
        assert_eq!(found("deploy deployed deploying", "deploy", true).len(), 3);
        assert_eq!(found("ready to deploy it", "to dep", true), ["to deploy"]);
        assert_eq!(found("dep to", "to dep", true), Vec::<String>::new());
    }

    #[test]
    fn a_unit_has_its_position_in_the_text() {
        for text in ["a ＡＢ か\u{3099}x 会議室 e\u{301}e", "\u{301}x", "ｶﾞ!", "a\u{301}\u{301}b"] {
            for unit in split_into_units(text) {
                assert_eq!(
                    split_into_units(&text[unit.start..unit.end])[0].text.chars().next(),
                    unit.text.chars().next(),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_very_long_word_is_truncated() {
        let text = "a".repeat(100_000);
        let units = split_into_units(&text);
        assert_eq!((units.len(), units[0].text.len(), units[0].end), (1, MAX_WORD_BYTES, 100_000));
    }
}
