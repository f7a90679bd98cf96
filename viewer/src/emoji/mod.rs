//! Emoji by the names that Slack has for them.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Names, characters, and whether there are skin tones.
const NAMES: &str = include_str!("names.tsv");

/// What Slack writes between a name and its skin tone, in the names of reactions.
const SKIN_TONE: &str = "::skin-tone-";

/// What has a skin tone changes from this character on; Slack counts tones from 2 to 6.
const FIRST_TONE: u32 = 0x1f3fb;

/// Asks for a colourful picture of a character. It gives way to a skin tone.
const VARIATION: char = '\u{fe0f}';

/// The characters of an emoji of Unicode; `None` for a name that is not one of theirs.
#[must_use]
pub fn unicode(name: &str, skin_tone: Option<u8>) -> Option<String> {
    let (characters, has_tones) = *names().get(name)?;
    let tone = skin_tone.filter(|tone| has_tones && (2..=6).contains(tone));
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

/// The name and the skin tone of a reaction, such as `wave::skin-tone-3`.
#[must_use]
pub fn parted(name: &str) -> (&str, Option<u8>) {
    match name.split_once(SKIN_TONE) {
        Some((name, tone)) => (name, tone.parse().ok()),
        None => (name, None),
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
    fn names_are_slacks_and_have_skin_tones() {
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
            ("flag-jp", "🇯🇵"),
        ] {
            let (name, tone) = parted(name);
            assert_eq!(unicode(name, tone).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(unicode("no-such", None), None);
        assert_eq!(unicode("", None), None);
    }
}
