//! Whether a message is what was looked for, and what of it is shown.

use slack::ids::Ts;

use super::document::{Facet, SearchDocument};
use super::query::{IsWhat, TextCondition};
use super::resolve::{ResolvedCondition, ResolvedQuery};
use super::units::{self, SearchUnit};
use crate::joined::ChannelOfTeam;

/// Bytes of text before the first match in a snippet.
const BEFORE: usize = 80;

/// Bytes of a snippet.
const SNIPPET: usize = 280;

/// A message as the archive has it now.
#[derive(Debug)]
pub struct MatchCandidate<'c> {
    /// What can be found of it, with names.
    pub document: &'c SearchDocument,
    /// The places of its channel.
    pub places: &'c [ChannelOfTeam],
    /// When it was written.
    pub ts: &'c Ts,
    /// Whether it has replies; only asked for if the query does.
    pub has_replies: bool,
}

/// Whether it fits every term.
#[must_use]
pub fn fits(query: &ResolvedQuery, candidate: &MatchCandidate<'_>) -> bool {
    let text = units::of(&candidate.document.text);
    query.terms.iter().all(|term| {
        let holds = match &term.condition {
            ResolvedCondition::Text { text: wanted, .. } => is_said(&text, wanted),
            ResolvedCondition::Facets(facets) => {
                facets.iter().any(|facet| candidate.document.facets.contains(facet))
            }
            ResolvedCondition::Places(places) => candidate.places.iter().any(|place| places.contains(place)),
            ResolvedCondition::Time(range) => range.contains(candidate.ts),
            ResolvedCondition::HasReplies => candidate.has_replies,
            // A root need not know of its replies.
            ResolvedCondition::InThread => {
                candidate.has_replies || candidate.document.facets.contains(&Facet::is(IsWhat::Thread))
            }
        };
        holds != term.is_negated
    })
}

fn is_said(text: &[SearchUnit], wanted: &TextCondition) -> bool {
    units::positions(text, &wanted.units, wanted.is_prefix).next().is_some()
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnippetPart {
    /// The text of the piece.
    pub text: String,
    /// Whether it is what was looked for.
    pub is_match: bool,
}

/// The part of a text around the first match, in one line; its beginning if nothing in it was looked for.
#[must_use]
pub fn snippet(query: &ResolvedQuery, text: &str) -> Vec<SnippetPart> {
    let matches = matches(query, text);
    let first = matches.first().map_or(0, |(start, _)| *start);
    let start = if first <= BEFORE { 0 } else { word_start(text, first - BEFORE) };
    let end = text.floor_char_boundary(text.len().min(start + SNIPPET));
    let mut parts = Vec::new();
    let mut push = |text: &str, is_match: bool| {
        if !text.is_empty() {
            parts.push(SnippetPart { text: text.replace('\n', " "), is_match });
        }
    };
    if start > 0 {
        push("…", false);
    }
    let mut at = start;
    for (match_start, match_end) in matches {
        if match_start >= end {
            break;
        }
        push(&text[at..match_start], false);
        // A match is cut where the snippet is.
        let match_end = match_end.min(end);
        push(&text[match_start..match_end], true);
        at = match_end;
    }
    push(&text[at..end], false);
    if end < text.len() {
        push("…", false);
    }
    parts
}

/// Where the text has what was looked for, in order and apart from each other.
fn matches(query: &ResolvedQuery, text: &str) -> Vec<(usize, usize)> {
    let units = units::of(text);
    let mut found = Vec::new();
    for term in query.terms.iter().filter(|term| !term.is_negated) {
        if let ResolvedCondition::Text { text: wanted, .. } = &term.condition {
            let last = wanted.units.len() - 1;
            found.extend(
                units::positions(&units, &wanted.units, wanted.is_prefix)
                    .map(|at| (units[at].start, units[at + last].end)),
            );
        }
    }
    found.sort_unstable();
    let mut apart: Vec<(usize, usize)> = Vec::with_capacity(found.len());
    for (start, end) in found {
        match apart.last_mut() {
            Some((_, last_end)) if start < *last_end => *last_end = end.max(*last_end),
            Some(_) | None => apart.push((start, end)),
        }
    }
    apart
}

/// The start of the next word, if one begins soon.
fn word_start(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let soon = text[at..].char_indices().take(20).find(|(_, c)| c.is_whitespace());
    soon.map_or(at, |(offset, c)| at + offset + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::{SearchCondition, SearchQuery};
    use crate::search::resolve::ResolvedTerm;

    fn query(text: &str) -> ResolvedQuery {
        let terms = SearchQuery::parse(text).unwrap().terms.into_iter();
        let terms = terms.map(|term| {
            let SearchCondition::Text(text) = term.condition else { panic!("{:?}", term.condition) };
            let condition = ResolvedCondition::Text { text, mentions: Vec::new(), unit_mentions: Vec::new() };
            ResolvedTerm { is_negated: term.is_negated, condition }
        });
        ResolvedQuery { terms: terms.collect(), with_deleted: false }
    }

    fn marked(looked_for: &str, text: &str) -> String {
        let parts = snippet(&query(looked_for), text).into_iter();
        parts.map(|part| if part.is_match { format!("[{}]", part.text) } else { part.text }).collect()
    }

    #[test]
    fn a_snippet_marks_what_was_looked_for_in_the_text_as_it_is() {
        for (looked_for, text, expected) in [
            ("deploy", "The Deploy failed. Deploy again", "The [Deploy] failed. [Deploy] again"),
            ("\"the deploy\" deploy fail*", "The deploy\nfailed", "[The deploy] [failed]"),
            ("会議", "明日の会議室", "明日の[会議]室"),
            ("cafe", "un CAFÉ", "un [CAFÉ]"),
            ("x -draft", "draft x", "draft [x]"),
            ("ｶﾞｽ", "都市ガス", "都市[ガス]"),
            ("x", "", ""),
        ] {
            assert_eq!(marked(looked_for, text), expected, "{looked_for}");
        }
    }

    #[test]
    fn a_snippet_of_a_long_text_is_around_the_first_match() {
        let text = format!("{}needle {}", "hay ".repeat(100), "hay ".repeat(100));
        let shown = marked("needle", &text);
        assert!(
            shown.starts_with("…hay hay") && shown.contains(" [needle] hay") && shown.ends_with('…'),
            "{shown}"
        );
        assert!(shown.len() < SNIPPET + 20);
        for length in 0..90 {
            let text = format!("{}é会議{}", "会".repeat(length), "議é".repeat(200));
            assert!(marked("会議", &text).contains("[会議]"), "{length}");
        }
    }
}
