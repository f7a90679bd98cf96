//! Matches messages against queries and creates snippets.

use slack::ids::Ts;

use super::document::{Facet, SearchDocument};
use super::query::{IsWhat, TextCondition};
use super::resolve::{ResolvedCondition, ResolvedQuery};
use super::units::{self, SearchUnit};
use crate::joined::ChannelOfTeam;

/// Maximum number of bytes before the first match in a snippet.
const BEFORE: usize = 80;

/// Maximum number of bytes of a snippet.
const SNIPPET: usize = 280;

/// The current state of a message in the archive.
#[derive(Debug)]
pub struct MatchCandidate<'c> {
    /// The searchable parts of the message, with display names.
    pub document: &'c SearchDocument,
    /// The locations of the message's channel.
    pub locations: &'c [ChannelOfTeam],
    /// When it was written.
    pub ts: &'c Ts,
    /// Whether it has replies; only relevant if the query asks for it.
    pub has_replies: bool,
}

/// Whether a message matches every term of a query.
pub fn matches_query(query: &ResolvedQuery, candidate: &MatchCandidate<'_>) -> bool {
    let text = units::split_into_units(&candidate.document.searched_text());
    query.terms.iter().all(|term| {
        let holds = match &term.condition {
            ResolvedCondition::Text { text: requested, .. } => contains(&text, requested),
            ResolvedCondition::Facets(facets) => {
                facets.iter().any(|facet| candidate.document.facets.contains(facet))
            }
            ResolvedCondition::Locations(locations) => {
                candidate.locations.iter().any(|location| locations.contains(location))
            }
            ResolvedCondition::Time(range) => range.contains(candidate.ts),
            ResolvedCondition::HasReplies => candidate.has_replies,
            // The row of a root may not mention its replies.
            ResolvedCondition::InThread => {
                candidate.has_replies || candidate.document.facets.contains(&Facet::is(IsWhat::Thread))
            }
        };
        holds != term.is_negated
    })
}

fn contains(text: &[SearchUnit], requested: &TextCondition) -> bool {
    units::positions(text, &requested.units, requested.is_prefix).next().is_some()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnippetPart {
    pub text: String,
    /// Whether the part matches the query.
    pub is_match: bool,
}

/// Returns the part of a message's text around the first match, or its beginning if nothing matches, on one
/// line. If only the notification matches, it is a part of the notification.
pub fn snippet(query: &ResolvedQuery, text: &str, notification: &str) -> Vec<SnippetPart> {
    let matches = matches(query, text);
    if matches.is_empty() && !notification.is_empty() {
        let in_notification = self::matches(query, notification);
        if !in_notification.is_empty() || text.is_empty() {
            return around(notification, in_notification);
        }
    }
    around(text, matches)
}

/// Returns the part of a text around the first match, as [`snippet`] does.
pub fn snippet_of_text(query: &ResolvedQuery, text: &str) -> Vec<SnippetPart> {
    around(text, matches(query, text))
}

fn around(text: &str, matches: Vec<(usize, usize)>) -> Vec<SnippetPart> {
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
        // A match is cut off at the end of the snippet.
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

/// Returns the byte ranges of the matches in the text, sorted and without overlaps.
fn matches(query: &ResolvedQuery, text: &str) -> Vec<(usize, usize)> {
    let units = units::split_into_units(text);
    let mut found = Vec::new();
    for term in query.terms.iter().filter(|term| !term.is_negated) {
        if let ResolvedCondition::Text { text: requested, .. } = &term.condition {
            let last = requested.units.len() - 1;
            found.extend(
                units::positions(&units, &requested.units, requested.is_prefix)
                    .map(|at| (units[at].start, units[at + last].end)),
            );
        }
    }
    found.sort_unstable();
    let mut disjoint: Vec<(usize, usize)> = Vec::with_capacity(found.len());
    for (start, end) in found {
        match disjoint.last_mut() {
            Some((_, last_end)) if start < *last_end => *last_end = end.max(*last_end),
            Some(_) | None => disjoint.push((start, end)),
        }
    }
    disjoint
}

/// Returns the start of the next word if it is near, or otherwise the next character boundary.
fn word_start(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let soon = text[at..].char_indices().take(20).find(|(_, c)| c.is_whitespace());
    soon.map_or(at, |(offset, c)| at + offset + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    fn marked(query_text: &str, text: &str) -> String {
        let document =
            SearchDocument { text: text.to_owned(), notification: String::new(), facets: BTreeSet::new() };
        let parts = snippet(&query(query_text), &document.text, &document.notification).into_iter();
        parts.map(|part| if part.is_match { format!("[{}]", part.text) } else { part.text }).collect()
    }

    #[test]
    fn a_snippet_marks_the_matches_in_the_original_text() {
        for (query_text, text, expected) in [
            ("deploy", "The Deploy failed. Deploy again", "The [Deploy] failed. [Deploy] again"),
            ("\"the deploy\" deploy fail*", "The deploy\nfailed", "[The deploy] [failed]"),
            ("会議", "明日の会議室", "明日の[会議]室"),
            ("cafe", "un CAFÉ", "un [CAFÉ]"),
            ("x -draft", "draft x", "draft [x]"),
            ("ｶﾞｽ", "都市ガス", "都市[ガス]"),
            ("x", "", ""),
        ] {
            assert_eq!(marked(query_text, text), expected, "{query_text}");
        }
    }

    #[test]
    fn a_snippet_is_from_the_notification_if_only_that_matches() {
        let document = SearchDocument {
            text: "INC-1 outage".to_owned(),
            notification: "New incident".to_owned(),
            facets: BTreeSet::new(),
        };
        for (query_text, expected) in
            [("incident", "New incident"), ("outage incident", "INC-1 outage"), ("none", "INC-1 outage")]
        {
            let parts = snippet(&query(query_text), &document.text, &document.notification);
            assert_eq!(parts.into_iter().map(|part| part.text).collect::<String>(), expected);
        }
    }

    #[test]
    fn a_snippet_of_a_long_text_surrounds_the_first_match() {
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
