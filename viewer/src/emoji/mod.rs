//! Emoji by their names in Slack.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Names, characters, and whether an emoji has skin tones.
const NAMES: &str = include_str!("names.tsv");

/// The separator between an emoji's name and its skin tone in the names of reactions.
const SKIN_TONE: &str = "::skin-tone-";

/// The first of the skin tone modifiers. Slack numbers the tones from 2 to 6.
const FIRST_TONE: u32 = 0x1f3fb;

/// Selects the emoji presentation of a character. A skin tone replaces it.
const VARIATION: char = '\u{fe0f}';

/// Returns the characters of a Unicode emoji; `None` for an unknown name. Two different skin tones are left
/// out: few programs draw such an emoji, and show its people one by one instead.
pub fn unicode(name: &str, skin_tones: &[u8]) -> Option<String> {
    let (characters, has_tones) = *names().get(name)?;
    let tone = match skin_tones {
        [tone] => Some(*tone),
        [first, second] if first == second => Some(*first),
        [..] => None,
    };
    let tone = tone.filter(|tone| has_tones && (2..=6).contains(tone));
    let tone = tone.and_then(|tone| char::from_u32(FIRST_TONE + u32::from(tone) - 2));
    Some(match tone {
        Some(tone) => {
            let mut rest = characters.chars();
            let first = rest.next();
            let rest = rest.as_str();
            first
                .into_iter()
                .chain([tone])
                .chain(rest.strip_prefix(VARIATION).unwrap_or(rest).chars())
                .collect()
        }
        None => characters.to_owned(),
    })
}

/// Splits the name of a reaction, such as `wave::skin-tone-3` or `handshake::skin-tone-2-3`, into its name and
/// its skin tones.
pub fn split_skin_tones(name: &str) -> (&str, Vec<u8>) {
    match name.split_once(SKIN_TONE) {
        Some((name, tones)) => {
            (name, tones.split('-').take(2).filter_map(|tone| tone.parse().ok()).collect())
        }
        None => (name, Vec::new()),
    }
}

fn names() -> &'static HashMap<&'static str, (&'static str, bool)> {
    static KNOWN: OnceLock<HashMap<&str, (&str, bool)>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let read = |line: &'static str| {
            let mut parts = line.split('\t');
            Some((parts.next()?, (parts.next()?, parts.next().is_some())))
        };
        NAMES.lines().filter(|line| !line.starts_with('#')).filter_map(read).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_names_with_skin_tones_become_unicode_emoji() {
        assert_eq!(names().len(), 1_972);
        for (name, expected) in [
            ("tada", "🎉"),
            ("+1", "👍"),
            ("thumbsup::skin-tone-6", "👍🏿"),
            ("v::skin-tone-2", "✌🏻"),
            ("v", "✌️"),
            ("man-running::skin-tone-3", "🏃🏼\u{200d}♂️"),
            ("tada::skin-tone-3", "🎉"),
            ("wave::skin-tone-9", "👋"),
            ("handshake::skin-tone-2-3", "🤝"),
            ("handshake::skin-tone-2-2", "🤝🏻"),
            ("flag-jp", "🇯🇵"),
        ] {
            let (name, tones) = split_skin_tones(name);
            assert_eq!(unicode(name, &tones).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(unicode("no-such", &[]), None);
        assert_eq!(unicode("", &[]), None);
    }
}
