//! What an edit changed: the words that it removed and those that it added, with a few words around them.

use maud::{Markup, html};
use reader::plain;
use reader::text::flat;
use reader::text::spans::TextLine;

use super::PageContext;

/// Maximum number of words compared with each other, of what is between the first and the last change: each word
/// of one version with each of the other. If there are more, all of it counts as changed.
const MAX_COMPARED: usize = 250_000;

/// Maximum number of characters of one change that are shown. The versions themselves are shown whole.
const MAX_CHANGE_CHARS: usize = 2_000;

/// The number of characters around a change that are shown.
const AROUND_CHARS: usize = 60;

/// A change, and what is before it since the last one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    same: String,
    removed: String,
    added: String,
}

/// Renders what differs between the texts of two versions; nothing if they have the same text, or one has none.
pub(super) fn between(before: &[TextLine], after: &[TextLine], shown: &PageContext<'_>) -> Markup {
    let text = |lines: &[TextLine]| {
        lines.iter().map(|line| flat::line(line, shown.names)).collect::<Vec<_>>().join(" ")
    };
    let (before, after) = (text(before), text(after));
    if before == after || before.trim().is_empty() || after.trim().is_empty() {
        return html! {};
    }
    let (changes, rest) = changes(&before, &after);
    html! {
        p class="changes" dir="auto" {
            span class="quiet" { "Changed: " }
            @for (number, Change { same, removed, added }) in changes.iter().enumerate() {
                (if number == 0 { plain::tail(same, AROUND_CHARS) } else { middle(same) })
                @if !removed.is_empty() { (marked(removed, |words| html! { del { (words) } })) }
                @if !added.is_empty() { (marked(added, |words| html! { ins { (words) } })) }
            }
            (plain::excerpt(&rest, AROUND_CHARS))
        }
    }
}

/// Renders the words of a change as marked, and the spaces around them as they are: a line through or under a space looks
/// like a character. If only spaces changed, they are marked.
fn marked(words: &str, mark: impl Fn(&str) -> Markup) -> Markup {
    let words = plain::excerpt(words, MAX_CHANGE_CHARS);
    let inner = match words.trim() {
        "" => words.as_str(),
        inner => inner,
    };
    let (before, after) = words.split_once(inner).unwrap_or_default();
    html! { (before) (mark(inner)) (after) }
}

/// What is the same between two changes; only its ends if it is long.
fn middle(same: &str) -> String {
    if same.chars().count() <= 2 * AROUND_CHARS {
        return plain::line(same);
    }
    format!("{} {}", plain::excerpt(same, AROUND_CHARS), plain::tail(same, AROUND_CHARS))
}

/// Returns the changes, and what is the same after the last one.
fn changes(before: &str, after: &str) -> (Vec<Change>, String) {
    let (before, after) = (words(before), words(after));
    let start = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (old, new) = (&before[start..], &after[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let mut found: Vec<Change> = Vec::new();
    let mut same = before[..start].concat();
    let (mut from_old, mut from_new) = (0, 0);
    let pairs = common_words(old, new);
    for (to_old, to_new) in pairs.into_iter().chain([(old.len(), new.len())]) {
        let (removed, added) = (old[from_old..to_old].concat(), new[from_new..to_new].concat());
        if !removed.is_empty() || !added.is_empty() {
            match found.last_mut() {
                // Two changed words are one change, and not two with a space between them.
                Some(last) if same.trim().is_empty() => {
                    last.removed += &(same.clone() + &removed);
                    last.added += &(std::mem::take(&mut same) + &added);
                }
                Some(_) | None => found.push(Change { same: std::mem::take(&mut same), removed, added }),
            }
        }
        same.extend(old.get(to_old).copied());
        (from_old, from_new) = (to_old + 1, to_new + 1);
    }
    let rest = same + &before[before.len() - end..].concat();
    (found, rest)
}

/// Splits a text into words, and what is between them. A character of a script without spaces is a word.
fn words(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        '\u{2e80}'.. => 3,
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut words = Vec::new();
    let (mut start, mut last) = (0, None);
    for (at, c) in text.char_indices() {
        let kind = kind(c);
        if at > 0 && (last != Some(kind) || kind > 1) {
            words.push(&text[start..at]);
            start = at;
        }
        last = Some(kind);
    }
    if !text.is_empty() {
        words.push(&text[start..]);
    }
    words
}

/// Returns the positions of the words of a longest common subsequence, in order.
fn common_words(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    if old.len().saturating_mul(new.len()) > MAX_COMPARED {
        return Vec::new();
    }
    // The length of the longest common subsequence from each pair of positions on.
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for (at_old, one) in old.iter().enumerate().rev() {
        for (at_new, other) in new.iter().enumerate().rev() {
            let at = at_old * width + at_new;
            lengths[at] = if one == other {
                lengths[at + width + 1] + 1
            } else {
                lengths[at + width].max(lengths[at + 1])
            };
        }
    }
    let (mut at_old, mut at_new, mut pairs) = (0, 0, Vec::new());
    while at_old < old.len() && at_new < new.len() {
        let at = at_old * width + at_new;
        if old[at_old] == new[at_new] {
            pairs.push((at_old, at_new));
            (at_old, at_new) = (at_old + 1, at_new + 1);
        } else if lengths[at + width] >= lengths[at + 1] {
            at_old += 1;
        } else {
            at_new += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(same: &str, removed: &str, added: &str) -> Change {
        Change { same: same.to_owned(), removed: removed.to_owned(), added: added.to_owned() }
    }

    #[test]
    fn a_change_has_the_words_that_were_removed_and_added() {
        for (before, after, expected, rest) in [
            ("we meet at 10", "we meet at 11", vec![change("we meet at ", "10", "11")], ""),
            ("see you", "see you soon", vec![change("see you", "", " soon")], ""),
            ("not now, Ana", "now, Ana", vec![change("", "not ", "")], "now, Ana"),
            (
                "one two three four five",
                "one 2 three four 5",
                vec![change("one ", "two", "2"), change(" three four ", "five", "5")],
                "",
            ),
            ("red green blue", "rot grün blue", vec![change("", "red green", "rot grün")], " blue"),
            ("会議は十時", "会議は九時", vec![change("会議は", "十", "九")], "時"),
            ("a", "b", vec![change("", "a", "b")], ""),
        ] {
            assert_eq!(changes(before, after), (expected, rest.to_owned()), "{before} / {after}");
        }
    }

    #[test]
    fn a_space_around_changed_words_is_not_marked() {
        for (words, expected) in [
            ("soon", "<ins>soon</ins>"),
            (" very soon", " <ins>very soon</ins>"),
            ("not ", "<ins>not</ins> "),
            ("  a  ", "  <ins>a</ins>  "),
            (" ", "<ins> </ins>"),
            (" <b>", " <ins>&lt;b&gt;</ins>"),
        ] {
            assert_eq!(marked(words, |words| html! { ins { (words) } }).into_string(), expected, "{words:?}");
        }
    }

    #[test]
    fn both_versions_can_be_made_from_the_changes() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let mut text = || -> String {
                (0..random.usize(1..12))
                    .map(|_| ["a", "b", "c", " ", ", ", "会"][random.usize(..6)])
                    .collect()
            };
            let (before, after) = (text(), text());
            let (changes, rest) = changes(&before, &after);
            let made = |of: fn(&Change) -> &str| -> String {
                changes.iter().map(|change| change.same.clone() + of(change)).collect::<String>() + &rest
            };
            assert_eq!(made(|change| &change.removed), before);
            assert_eq!(made(|change| &change.added), after);
        }
    }

    #[test]
    fn texts_that_are_too_different_are_one_change() {
        let text = |word: &str| format!("{word} ").repeat(1_000);
        let (changes, rest) = changes(&format!("x {}y", text("a")), &format!("x {}y", text("b")));
        assert_eq!((changes.len(), changes[0].same.as_str(), rest.as_str()), (1, "x ", " y"));
        assert_eq!(changes[0].removed, text("a").trim_end());
    }
}
