//! Translates a query for the index. The result accepts every matching message and possibly others.

use std::collections::BTreeSet;
use std::sync::Arc;

use reader::access::HiddenChannels;
use reader::joined::ChannelOfTeam;
use reader::search::document::{self, Facet};
use reader::search::query::{IsWhat, TextCondition};
use reader::search::resolve::{ResolvedCondition, ResolvedQuery};
use slack::ids::{TeamId, Ts};

use crate::write::place_facet;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IndexQuery {
    /// FTS5 expressions that a message must match.
    required: Vec<String>,
    /// FTS5 expressions that a message must not match.
    excluded: Vec<String>,
    /// The message is in one of these workspaces.
    pub(crate) teams: Vec<TeamId>,
    /// The message has one of the locations in each of these lists.
    pub(crate) locations: Vec<Vec<ChannelOfTeam>>,
    /// The inclusive start of the time range.
    pub(crate) since: Option<Ts>,
    /// The exclusive end of the time range.
    pub(crate) until: Option<Ts>,
    /// Only messages with replies.
    pub(crate) has_replies: bool,
    /// Only replies and messages with replies.
    pub(crate) is_in_thread: bool,
    /// Whether the query has a text, so that messages can be ranked.
    pub(crate) has_text: bool,
    /// The message is in none of these channels.
    pub(crate) hidden: Arc<HiddenChannels>,
}

impl IndexQuery {
    /// Translates the part of a query that the index can answer, in these workspaces and without these channels.
    pub(crate) fn new(query: &ResolvedQuery, teams: &[TeamId], hidden: Arc<HiddenChannels>) -> Self {
        let mut index_query = Self { teams: teams.to_vec(), hidden, ..Self::default() };
        if !query.with_deleted {
            index_query.excluded.push(facets(&[Facet::is(IsWhat::Deleted)]));
        }
        for term in &query.terms {
            match (&term.condition, term.is_negated) {
                (ResolvedCondition::Text { text, mentions, unit_mentions }, false) => {
                    index_query.required.push(text_condition(text, mentions, unit_mentions));
                    index_query.has_text = true;
                }
                (ResolvedCondition::Text { text, .. }, true) => {
                    index_query.excluded.push(text_condition_without_mentions(text))
                }
                (ResolvedCondition::Facets(any), false) => index_query.required.push(facets(any)),
                (ResolvedCondition::Facets(any), true) => index_query.excluded.push(facets(any)),
                (ResolvedCondition::Locations(locations), false) => {
                    index_query.locations.push(locations.clone())
                }
                (ResolvedCondition::Time(range), false) => {
                    index_query.since = index_query.since.max(range.since.clone());
                    index_query.until = match (index_query.until, range.until.clone()) {
                        (Some(one), Some(other)) => Some(one.min(other)),
                        (one, other) => one.or(other),
                    };
                }
                (ResolvedCondition::HasReplies, false) => index_query.has_replies = true,
                (ResolvedCondition::InThread, false) => index_query.is_in_thread = true,
                (
                    ResolvedCondition::Locations(_)
                    | ResolvedCondition::Time(_)
                    | ResolvedCondition::HasReplies
                    | ResolvedCondition::InThread,
                    true,
                ) => {}
            }
        }
        index_query
    }

    /// The query for the messages with this facet.
    pub(crate) fn of_facet(facet: &Facet, teams: &[TeamId], hidden: Arc<HiddenChannels>) -> Self {
        Self { required: vec![facets([facet])], teams: teams.to_vec(), hidden, ..Self::default() }
    }

    /// Returns the FTS5 expression for these place ids and without the hidden ones; `None` if no condition is
    /// required.
    pub(crate) fn expression(&self, place_ids: &[Vec<i64>], hidden: &[i64]) -> Option<String> {
        let place_conditions = place_ids.iter().map(|any| places(any));
        let required: Vec<String> = self.required.iter().cloned().chain(place_conditions).collect();
        if required.is_empty() {
            return None;
        }
        let mut expression = required.join(" AND ");
        let hidden = (!hidden.is_empty()).then(|| places(hidden));
        for excluded in self.excluded.iter().chain(&hidden) {
            expression = format!("({expression}) NOT {excluded}");
        }
        Some(expression)
    }
}

fn places(any: &[i64]) -> String {
    let any: Vec<String> = any.iter().map(|place_id| quoted(&place_facet(*place_id))).collect();
    format!("{{facets}} : ({})", any.join(" OR "))
}

/// Returns an FTS5 string. Words and facets only contain letters and digits, so they cannot end it.
fn quoted(words: &str) -> String {
    format!("\"{}\"", words.replace('"', ""))
}

fn facets<'f>(any: impl IntoIterator<Item = &'f Facet>) -> String {
    let any: Vec<String> = any.into_iter().map(|facet| quoted(facet.as_str())).collect();
    format!("{{facets}} : ({})", any.join(" OR "))
}

/// Returns the condition for adjacent words: they are in the text, or in the name that a mention shows, or
/// across the boundary of such a name. In the last case, each word is in the text or in such a name, and one
/// of the names is mentioned.
fn text_condition(text: &TextCondition, mentions: &[Facet], unit_mentions: &[Vec<Facet>]) -> String {
    let (words, is_word_prefix) = document::query_words(&text.units, text.is_prefix);
    let mut alternatives = vec![body(&words, is_word_prefix)];
    if !mentions.is_empty() {
        alternatives.push(facets(mentions));
    }
    if !unit_mentions.is_empty() {
        let last = text.units.len() - 1;
        let each = text.units.iter().zip(unit_mentions).enumerate().map(|(number, (unit, mentions))| {
            // In the text, a character shares an index word with the next character.
            let word = body(&unit.text, unit.is_character || (text.is_prefix && number == last));
            if mentions.is_empty() { word } else { format!("({word} OR {})", facets(mentions)) }
        });
        let any: BTreeSet<&Facet> = unit_mentions.iter().flatten().collect();
        let each = each.chain([facets(any)]);
        alternatives.push(format!("({})", each.collect::<Vec<String>>().join(" AND ")));
    }
    format!("({})", alternatives.join(" OR "))
}

/// Returns the condition for words in a text without mentions. In a text with mentions, the condition must
/// not exclude a message, because the words may come from a former name.
fn text_condition_without_mentions(text: &TextCondition) -> String {
    let (words, is_word_prefix) = document::query_words(&text.units, text.is_prefix);
    format!("({} NOT {})", body(&words, is_word_prefix), facets(&[Facet::mentions()]))
}

fn body(words: &str, is_word_prefix: bool) -> String {
    format!("{{body}} : {}{}", quoted(words), if is_word_prefix { " *" } else { "" })
}

#[cfg(test)]
mod tests {
    use reader::search::query::{SearchCondition, SearchQuery};
    use reader::search::resolve::ResolvedTerm;

    use super::*;

    fn text(query: &str) -> TextCondition {
        let condition = SearchQuery::parse(query).unwrap().terms.remove(0).condition;
        let SearchCondition::Text(text) = condition else { panic!("{condition:?}") };
        text
    }

    fn resolved(condition: ResolvedCondition, is_negated: bool) -> ResolvedQuery {
        ResolvedQuery { terms: vec![ResolvedTerm { is_negated, condition }], with_deleted: true }
    }

    #[test]
    fn words_become_fts5_strings_without_operators() {
        for (query, expected) in [
            ("NEAR", r#"{body} : "near""#),
            ("\"a* OR b\"", r#"{body} : "a or b""#),
            ("dep*", r#"{body} : "dep" *"#),
            ("会議室", r#"{body} : "会議 議室""#),
            ("字", r#"{body} : "字" *"#),
        ] {
            assert_eq!(text_condition(&text(query), &[], &[]), format!("({expected})"), "{query}");
        }
    }

    #[test]
    fn a_word_may_be_in_the_name_of_a_mention() {
        let ana = vec![Facet::mention("U1")];
        assert_eq!(
            text_condition(&text("\"thanks ana\""), &[], &[Vec::new(), ana]),
            r#"({body} : "thanks ana" OR ({body} : "thanks" AND ({body} : "ana" OR {facets} : ("mu1")) AND {facets} : ("mu1")))"#
        );
        assert_eq!(
            text_condition(&text("kimさん"), &[], &[vec![Facet::mention("U2")], Vec::new(), Vec::new()]),
            r#"({body} : "kim さん" OR (({body} : "kim" OR {facets} : ("mu2")) AND {body} : "さ" * AND {body} : "ん" * AND {facets} : ("mu2")))"#
        );
    }

    #[test]
    fn an_exclusion_alone_has_no_expression() {
        let bot = ResolvedCondition::Facets(vec![Facet::is(IsWhat::Bot)]);
        let mut query = resolved(bot, true);
        assert_eq!(IndexQuery::new(&query, &[], Arc::default()).expression(&[], &[]), None);
        query.terms.push(ResolvedTerm {
            is_negated: false,
            condition: ResolvedCondition::Text { text: text("x"), mentions: vec![], unit_mentions: vec![] },
        });
        assert_eq!(
            IndexQuery::new(&query, &[], Arc::default()).expression(&[vec![1, 2]], &[7, 8]).unwrap(),
            r#"((({body} : "x") AND {facets} : ("p1" OR "p2")) NOT {facets} : ("isbot")) NOT {facets} : ("p7" OR "p8")"#
        );
    }

    #[test]
    fn an_excluded_text_does_not_exclude_messages_with_mentions() {
        let condition = |query: &str| ResolvedCondition::Text {
            text: text(query),
            mentions: Vec::new(),
            unit_mentions: Vec::new(),
        };
        let mut query = resolved(condition("wanted"), false);
        query.terms.push(ResolvedTerm { is_negated: true, condition: condition("draft") });
        assert_eq!(
            IndexQuery::new(&query, &[], Arc::default()).expression(&[], &[]).unwrap(),
            r#"(({body} : "wanted")) NOT ({body} : "draft" NOT {facets} : ("mentions"))"#
        );
    }
}
