//! What of a message can be found: its text as people read it, the names of its files, and facets, short words that say
//! who wrote it, whom it mentions and what it has.

use std::collections::BTreeSet;

use serde_json::Value;

use super::query::{HasWhat, IsWhat};
use super::units::{self, SearchUnit};
use crate::names::DisplayNames;
use crate::plain;
use crate::text::spans::{LineKind, TextSpan};
use crate::text::{self, MessageText, flat};

/// So much of a file's name or title can be found.
const MAX_FILE_NAME_CHARS: usize = 255;

/// A message, ready to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchDocument {
    /// Its text, a line for each of the message's, with the names of people and channels as far as they were given.
    pub text: String,
    /// Its facets.
    pub facets: BTreeSet<Facet>,
}

/// One thing to filter by, as a word of letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facet(String);

impl Facet {
    /// Written by this person.
    #[must_use]
    pub fn author(user: &str) -> Self {
        Self(format!("u{}", word(user)))
    }

    /// Mentions this person or channel.
    #[must_use]
    pub fn mention(id: &str) -> Self {
        Self(format!("m{}", word(id)))
    }

    /// Has this. Replies are rows of their own: no message says that it has some.
    #[must_use]
    pub fn has(what: HasWhat) -> Option<Self> {
        Some(Self::named(match what {
            HasWhat::File => "hasfile",
            HasWhat::Link => "haslink",
            HasWhat::Reaction => "hasreaction",
            HasWhat::Code => "hascode",
            HasWhat::Thread => return None,
        }))
    }

    /// Is this.
    #[must_use]
    pub fn is(what: IsWhat) -> Self {
        Self::named(match what {
            IsWhat::Thread => "isthread",
            IsWhat::Edited => "isedited",
            IsWhat::Deleted => "isdeleted",
            IsWhat::Bot => "isbot",
        })
    }

    /// Mentions someone or some channel: what it says changes with their names.
    #[must_use]
    pub fn mentions() -> Self {
        Self::named("mentions")
    }

    fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Ids are letters and digits; anything else in one that Slack never sent is left out.
fn word(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).take(32).collect()
}

/// Reads a row as [`rules::project::message`] gives it. With names of which none is known, ids and the labels that came with a
/// message stand where names would.
#[must_use]
pub fn of(message: &Value, said: &MessageText, names: &DisplayNames<'_>) -> SearchDocument {
    let mut lines: Vec<String> = said.lines.iter().map(|line| flat::line(line, names)).collect();
    let files = message["files"].as_array().map_or(&[][..], Vec::as_slice);
    for file in files {
        let named = |name: &str| Some(plain::excerpt(file[name].as_str()?, MAX_FILE_NAME_CHARS));
        let (name, title) = (named("name"), named("title"));
        lines.extend(title.filter(|title| Some(title) != name.as_ref()));
        lines.extend(name);
    }
    SearchDocument { text: lines.join("\n"), facets: facets(message, said) }
}

fn facets(message: &Value, said: &MessageText) -> BTreeSet<Facet> {
    let spans = || said.lines.iter().flat_map(|line| &line.spans);
    let is_filled = |name: &str| message[name].as_array().is_some_and(|list| !list.is_empty());
    let is_text = |name: &str| message[name].is_string();
    let has_code = said.lines.iter().any(|line| line.kind == LineKind::Preformatted)
        || spans()
            .any(|span| matches!(span, TextSpan::Text(text, style) if style.code || text.contains('`')));
    let is_bot = is_text("bot_id") || message["subtype"] == "bot_message";
    let marks = [
        (Facet::has(HasWhat::File), is_filled("files")),
        (Facet::has(HasWhat::Reaction), is_filled("reactions")),
        (Facet::has(HasWhat::Link), spans().any(|span| matches!(span, TextSpan::Link { .. }))),
        (Facet::has(HasWhat::Code), has_code),
        (Some(Facet::is(IsWhat::Thread)), is_text("thread_ts")),
        (Some(Facet::is(IsWhat::Edited)), is_text("updated_ts")),
        (Some(Facet::is(IsWhat::Deleted)), message["deleted"] == true),
        (Some(Facet::is(IsWhat::Bot)), is_bot),
    ];
    let mut facets: BTreeSet<Facet> =
        marks.into_iter().filter(|(_, is_set)| *is_set).filter_map(|(facet, _)| facet).collect();
    facets.extend(message["user"].as_str().map(Facet::author));
    for span in spans() {
        if let TextSpan::User { id, .. } | TextSpan::Channel { id, .. } = span {
            facets.extend([Facet::mention(id), Facet::mentions()]);
        }
    }
    facets
}

/// The text of a document as words for an index: a word as it is, of a row of single characters each two that follow each
/// other. Words stand next to each other exactly if the units do.
#[must_use]
pub fn index_words(units: &[SearchUnit]) -> String {
    let mut words = String::new();
    for (number, unit) in units.iter().enumerate() {
        if number > 0 {
            words.push(' ');
        }
        words += &unit.text;
        if let Some(next) = units.get(number + 1).filter(|next| next.is_joined) {
            words += &next.text;
        }
    }
    words
}

/// The same of a phrase that is looked for, and whether its last word may go on: a character that ends the phrase may be
/// followed by others.
#[must_use]
pub fn query_words(units: &[SearchUnit], is_prefix: bool) -> (String, bool) {
    let Some((last, before)) = units.split_last() else { return (String::new(), false) };
    // The last of several joined characters is in the word that begins with the one before it.
    if last.is_joined && !before.is_empty() {
        let words = index_words(units);
        let end = words.rfind(' ').unwrap_or(words.len());
        return (words[..end].to_owned(), false);
    }
    (index_words(units), is_prefix || last.is_character)
}

/// The words of a message for an index, and its facets.
#[must_use]
pub fn indexed(message: &Value, unknown: &DisplayNames<'_>) -> (String, BTreeSet<Facet>) {
    let document = of(message, &text::read(message), unknown);
    (index_words(&units::of(&document.text)), document.facets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use testkit::memory::archive::MemoryArchive;

    use super::*;

    fn indexed_words(message: &Value) -> (String, Vec<String>) {
        let archive = MemoryArchive::new();
        let (words, facets) = indexed(message, &DisplayNames::in_teams(&archive, Vec::new()));
        (words, facets.into_iter().map(|facet| facet.0).collect())
    }

    #[test]
    fn a_message_is_found_by_its_words_and_its_facets() {
        let (words, facets) = indexed_words(&json!({
            "ts": "1.000000", "user": "U1", "thread_ts": "1.000000", "updated_ts": "x",
            "text": "see <https://example.com/a|the docs>, <@U2> and <#C3|ops>: `let x`",
            "files": [{"id": "F1", "name": "plan.pdf", "title": "Plan B"}], "reactions": [{"name": "tada"}],
        }));
        assert_eq!(words, "see the docs https example com a u2 and ops let x plan b plan pdf");
        assert_eq!(
            facets,
            [
                "hascode",
                "hasfile",
                "haslink",
                "hasreaction",
                "isedited",
                "isthread",
                "mc3",
                "mentions",
                "mu2",
                "uu1"
            ]
        );
        let (words, facets) = indexed_words(&json!({
            "ts": "1.000000", "deleted": true, "bot_id": "B1", "subtype": "bot_message", "text": "会議室 は AWS障害",
        }));
        assert_eq!(words, "会議 議室 室 は aws 障害 害");
        assert_eq!(facets, ["isbot", "isdeleted"]);
    }

    #[test]
    fn an_id_that_slack_never_sent_makes_no_signs() {
        assert_eq!(Facet::author("U1\" OR \"x").as_str(), "uu1orx");
    }

    /// Whether words that an index holds contain a phrase.
    fn holds(index: &str, phrase: &str, may_go_on: bool) -> bool {
        let (index, phrase): (Vec<&str>, Vec<&str>) =
            (index.split(' ').collect(), phrase.split(' ').collect());
        index.windows(phrase.len()).any(|window| {
            window.iter().zip(&phrase).enumerate().all(|(number, (word, wanted))| {
                word == wanted || (may_go_on && number + 1 == phrase.len() && word.starts_with(wanted))
            })
        })
    }

    proptest! {
        #[test]
        fn an_index_of_words_finds_what_the_units_find(
            text in "[ab会議室ガ 。]{0,24}", query in "[ab会議ガ 。]{1,5}", is_prefix: bool
        ) {
            let (text, query) = (units::of(&text), units::of(&query));
            prop_assume!(!query.is_empty());
            let is_found = units::positions(&text, &query, is_prefix).next().is_some();
            let (words, may_go_on) = query_words(&query, is_prefix);
            prop_assert_eq!(holds(&index_words(&text), &words, may_go_on), is_found);
        }
    }
}
