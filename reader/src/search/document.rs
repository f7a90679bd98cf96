//! The searchable parts of a message: its plain text, the names of its files, what only its notification says,
//! and facets. Facets are short words for its author, its mentions and its properties.

use std::collections::{BTreeSet, HashSet};

use jiff::tz::TimeZone;
use rules::view::MessageView;

use super::query::{HasWhat, IsWhat};
use super::units::{self, SearchUnit};
use crate::names::DisplayNames;
use crate::plain;
use crate::text::spans::{LineKind, TextLine, TextSpan};
use crate::text::{self, MessageText, flat, markdown};

/// The zone of the dates in searchable texts: the same message has the same words for everybody.
pub const SEARCHED_ZONE: TimeZone = TimeZone::UTC;

/// Number of searchable characters of a file's name or title.
const MAX_FILE_NAME_CHARS: usize = 255;

/// Number of compared bytes of a name in a message: as many as Slack allows in a name.
const MAX_NAME_WORD_BYTES: usize = 80;

/// The searchable parts of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchDocument {
    /// Its text, line by line, with the display names of people and channels, if the caller passed them.
    pub text: String,
    /// The lines of its notification with a word that the text lacks.
    pub notification: String,
    pub facets: BTreeSet<Facet>,
}

/// A filter criterion, as a word of letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facet(String);

impl Facet {
    /// The message was written by this person.
    pub fn author(user: &str) -> Self {
        Self(format!("u{}", word(user)))
    }

    /// The author has this name in the message itself, because an app chose it or because there is no other.
    /// `None` for a name without words.
    pub fn author_name(name: &[SearchUnit]) -> Option<Self> {
        name_word('n', name)
    }

    /// The message has this label for a person, user group or channel that it mentions. `None` for a label
    /// without words.
    pub fn mention_label(label: &[SearchUnit]) -> Option<Self> {
        name_word('l', label)
    }

    /// The message mentions this person, user group or channel.
    pub fn mention(id: &str) -> Self {
        Self(format!("m{}", word(id)))
    }

    /// The message has this; `None` for replies, because a message does not record its replies.
    pub fn has(what: HasWhat) -> Option<Self> {
        Some(Self::named(match what {
            HasWhat::File => "hasfile",
            HasWhat::Link => "haslink",
            HasWhat::Reaction => "hasreaction",
            HasWhat::Pin => "haspin",
            HasWhat::Code => "hascode",
            HasWhat::Thread => return None,
        }))
    }

    /// The message has this state.
    pub fn is(what: IsWhat) -> Self {
        Self::named(match what {
            IsWhat::Thread => "isthread",
            IsWhat::Edited => "isedited",
            IsWhat::Deleted => "isdeleted",
            IsWhat::Bot => "isbot",
        })
    }

    /// The message mentions any person, user group or channel, so its text changes with their names.
    pub fn mentions() -> Self {
        Self::named("mentions")
    }

    fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Converts an id to a word. Ids are letters and digits; other characters of a forged id are left out.
fn word(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).take(32).collect()
}

/// Joins the words of a name to one, after a letter for what it names. Spaces and signs are not compared.
fn name_word(letter: char, name: &[SearchUnit]) -> Option<Facet> {
    let mut word: String = name.iter().map(|unit| unit.text.as_str()).collect();
    word.truncate(word.floor_char_boundary(MAX_NAME_WORD_BYTES));
    (!word.is_empty()).then(|| Facet(format!("{letter}{word}")))
}

impl SearchDocument {
    /// All searchable text.
    pub fn searched_text(&self) -> String {
        if self.notification.is_empty() {
            self.text.clone()
        } else {
            format!("{}\n{}", self.text, self.notification)
        }
    }
}

/// Creates the document of a row that [`rules::project::message`] returned. For an unknown name, the text
/// contains the id or the label from the message.
pub fn search_document(
    message: &MessageView,
    content: &MessageText,
    names: &DisplayNames<'_>,
) -> SearchDocument {
    let lines = lines(message, content, |line| flat::line(line, names));
    let notification = content.notification.iter().map(|line| flat::line(line, names)).collect();
    let notification = with_other_words(notification, &lines).join("\n");
    SearchDocument { text: lines.join("\n"), notification, facets: facets(message, content) }
}

/// Returns the document's text without the signs of styles and quotations, for snippets: there, a sign beside a marked word
/// would look like another mark.
pub fn text_without_signs(message: &MessageView, content: &MessageText, names: &DisplayNames<'_>) -> String {
    lines(message, content, |line| flat::line_without_signs(line, names)).join("\n")
}

/// The lines of a message, and the names of its files.
fn lines(message: &MessageView, content: &MessageText, shown: impl Fn(&TextLine) -> String) -> Vec<String> {
    let mut lines: Vec<String> = content.lines.iter().map(shown).collect();
    for file in message.files() {
        let named = |name: &str| Some(plain::excerpt(file[name].as_str()?, MAX_FILE_NAME_CHARS));
        let (name, title) = (named("name"), named("title"));
        lines.extend(title.filter(|title| Some(title) != name.as_ref()));
        lines.extend(name);
    }
    lines
}

/// Returns the lines that have a word that others lack. Most are equal to one of the others.
fn with_other_words(mut lines: Vec<String>, others: &[String]) -> Vec<String> {
    let equal: HashSet<&str> = others.iter().map(|line| line.trim()).collect();
    lines.retain(|line| !equal.contains(line.trim()));
    if lines.is_empty() {
        return lines;
    }
    let words: HashSet<String> =
        others.iter().flat_map(|line| units::split_into_units(line)).map(|unit| unit.text).collect();
    lines.retain(|line| units::split_into_units(line).iter().any(|unit| !words.contains(&unit.text)));
    lines
}

fn facets(message: &MessageView, content: &MessageText) -> BTreeSet<Facet> {
    let has_markdown = content.lines.iter().any(|line| line.kind == LineKind::Markdown);
    let lines = if has_markdown { &markdown::lines(&content.lines) } else { &content.lines };
    let spans = || lines.iter().flat_map(|line| &line.spans);
    let has_code = lines.iter().any(|line| line.kind == LineKind::Preformatted)
        || spans().any(|span| matches!(span, TextSpan::Text(_, style) if style.code));
    let is_bot = message.bot().is_some() || message.subtype() == Some("bot_message");
    let flags = [
        (Facet::has(HasWhat::File), !message.files().is_empty()),
        (Facet::has(HasWhat::Reaction), !message.reactions().is_empty()),
        (Facet::has(HasWhat::Pin), message.is_pinned()),
        (Facet::has(HasWhat::Link), spans().any(|span| matches!(span, TextSpan::Link { .. }))),
        (Facet::has(HasWhat::Code), has_code),
        (Some(Facet::is(IsWhat::Thread)), message.thread_ts().is_some()),
        (Some(Facet::is(IsWhat::Edited)), message.is_edited()),
        (Some(Facet::is(IsWhat::Deleted)), message.is_deleted()),
        (Some(Facet::is(IsWhat::Bot)), is_bot),
    ];
    let mut facets: BTreeSet<Facet> =
        flags.into_iter().filter(|(_, is_set)| *is_set).filter_map(|(facet, _)| facet).collect();
    let author = &content.author;
    facets.extend(author.id().map(Facet::author));
    let name = author.name.as_deref().filter(|_| author.is_named_by_app || author.user.is_none());
    facets.extend(name.and_then(|name| Facet::author_name(&units::split_into_units(name))));
    for span in content.all_spans() {
        if let TextSpan::User { id, label }
        | TextSpan::Channel { id, label }
        | TextSpan::UserGroup { id, label } = span
        {
            facets.extend([Facet::mention(id), Facet::mentions()]);
            let label = label.as_deref().map(units::split_into_units);
            facets.extend(label.and_then(|label| Facet::mention_label(&label)));
        }
    }
    facets
}

/// Returns the units of a text as words for an index: a word unchanged, and each pair of successive
/// characters of a script without spaces. Words are adjacent exactly if their units are.
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

/// Returns the words of a phrase in a query, and whether the last word is a prefix: other characters may
/// follow a character at the end of the phrase.
pub fn query_words(units: &[SearchUnit], is_prefix: bool) -> (String, bool) {
    let Some((last, before)) = units.split_last() else { return (String::new(), false) };
    // The last of several joined characters is part of the word of the character before it.
    if last.is_joined && !before.is_empty() {
        let words = index_words(units);
        let end = words.rfind(' ').unwrap_or(words.len());
        return (words[..end].to_owned(), false);
    }
    (index_words(units), is_prefix || last.is_character)
}

/// Returns the words of a message for an index, and its facets.
pub fn index_words_and_facets(
    message: &MessageView,
    no_names: &DisplayNames<'_>,
) -> (String, BTreeSet<Facet>) {
    let document = search_document(message, &text::read(message, &SEARCHED_ZONE), no_names);
    (index_words(&units::split_into_units(&document.searched_text())), document.facets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use testkit::memory::archive::MemoryArchive;

    use super::*;

    fn indexed_words(message: &Value) -> (String, Vec<String>) {
        let archive = MemoryArchive::new();
        let (words, facets) =
            index_words_and_facets(&message.clone().into(), &DisplayNames::for_teams(&archive, Vec::new()));
        (words, facets.into_iter().map(|facet| facet.0).collect())
    }

    #[test]
    fn a_message_is_indexed_by_its_words_and_facets() {
        let (words, facets) = indexed_words(&json!({
            "ts": "1.000000", "user": "U1", "thread_ts": "1.000000", "updated_ts": "x",
            "text": "see <https://example.com/a|the docs>, <@U2> and <#C3|ops>: `let x`",
            "files": [{"id": "F1", "name": "plan.pdf", "title": "Plan B"}], "reactions": [{"name": "tada"}],
            "pinned": {"user": "U2", "ts": "2.000000"},
        }));
        assert_eq!(words, "see the docs https example com a u2 and ops let x plan b plan pdf");
        assert_eq!(
            facets,
            [
                "hascode",
                "hasfile",
                "haslink",
                "haspin",
                "hasreaction",
                "isedited",
                "isthread",
                "lops",
                "mc3",
                "mentions",
                "mu2",
                "uu1"
            ]
        );
        let (words, facets) = indexed_words(&json!({
            "ts": "1.000000", "deleted": true, "bot_id": "B1", "subtype": "bot_message", "text": "会議室 は AWS障害",
            "username": "Deploy-Bot 会議 🤖",
        }));
        assert_eq!(words, "会議 議室 室 は aws 障害 害");
        assert_eq!(facets, ["isbot", "isdeleted", "ndeploybot会議🤖", "ub1"]);
    }

    #[test]
    fn blocks_are_indexed_with_the_lines_of_the_notification_that_say_more() {
        let header = json!({ "type": "header", "text": { "type": "plain_text", "text": "INC-1 outage" } });
        let link =
            json!({ "type": "section", "text": { "type": "mrkdwn", "text": "<https://a.example|run> `x`" } });
        let text = "New incident by <@U2>\nINC-1 outage\noutage: INC";
        let raw = json!({ "text": text, "blocks": [header, link] });
        let (words, facets) = indexed_words(&json!({ "text": text, "raw_event": raw.to_string() }));
        assert_eq!(words, "inc 1 outage run https a example x new incident by u2");
        assert_eq!(facets, ["hascode", "haslink", "mentions", "mu2"]);
        let blocks = json!([{ "type": "rich_text", "elements": [{ "type": "rich_text_section",
            "elements": [{ "type": "text", "text": "hello ", "style": { "bold": true } }, { "type": "user", "user_id": "U2" }] }] }]);
        let raw = json!({ "text": "*hello* <@U2>", "blocks": blocks });
        let (words, _) = indexed_words(&json!({ "text": "*hello* <@U2>", "raw_event": raw.to_string() }));
        assert_eq!(words, "hello u2");
    }

    #[test]
    fn a_facet_drops_special_characters_of_a_forged_id() {
        assert_eq!(Facet::author("U1\" OR \"x").as_str(), "uu1orx");
    }

    /// Whether the words of an index contain a phrase.
    fn contains_phrase(index: &str, phrase: &str, is_word_prefix: bool) -> bool {
        let (index, phrase): (Vec<&str>, Vec<&str>) =
            (index.split(' ').collect(), phrase.split(' ').collect());
        index.windows(phrase.len()).any(|window| {
            window.iter().zip(&phrase).enumerate().all(|(number, (word, phrase_word))| {
                word == phrase_word
                    || (is_word_prefix && number + 1 == phrase.len() && word.starts_with(phrase_word))
            })
        })
    }

    proptest! {
        #[test]
        fn index_words_and_units_find_the_same_phrases(
            text in "[ab会議室ガ 。]{0,24}", query in "[ab会議ガ 。]{1,5}", is_prefix: bool
        ) {
            let (text, query) = (units::split_into_units(&text), units::split_into_units(&query));
            prop_assume!(!query.is_empty());
            let is_found = units::positions(&text, &query, is_prefix).next().is_some();
            let (words, is_word_prefix) = query_words(&query, is_prefix);
            prop_assert_eq!(contains_phrase(&index_words(&text), &words, is_word_prefix), is_found);
        }
    }
}
