//! A query in the index's own terms. What it lets through may still not fit; what fits is let through.

use std::collections::BTreeSet;

use reader::joined::ChannelOfTeam;
use reader::search::document::{self, Facet};
use reader::search::query::{IsWhat, TextCondition};
use reader::search::resolve::{ResolvedCondition, ResolvedQuery};
use slack::ids::{TeamId, Ts};

use crate::put::place_facet;

/// What the index is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IndexQuery {
    /// Each of these holds, in the language of FTS5.
    wanted: Vec<String>,
    /// None of these holds.
    unwanted: Vec<String>,
    /// The message is in one of these workspaces.
    pub(crate) teams: Vec<TeamId>,
    /// Of each of these lists, the message is in one.
    pub(crate) places: Vec<Vec<ChannelOfTeam>>,
    /// From this time on.
    pub(crate) since: Option<Ts>,
    /// Before this time.
    pub(crate) until: Option<Ts>,
    /// Only messages with replies.
    pub(crate) has_replies: bool,
    /// Only replies, and messages that have some.
    pub(crate) is_in_thread: bool,
    /// A text is wanted: some messages fit better than others.
    pub(crate) has_text: bool,
}

impl IndexQuery {
    /// What of a query the index can answer, about these workspaces.
    pub(crate) fn of(query: &ResolvedQuery, teams: &[TeamId]) -> Self {
        let mut asked = Self { teams: teams.to_vec(), ..Self::default() };
        if !query.with_deleted {
            asked.unwanted.push(facets(&[Facet::is(IsWhat::Deleted)]));
        }
        for term in &query.terms {
            match (&term.condition, term.is_negated) {
                (ResolvedCondition::Text { text, mentions, unit_mentions }, false) => {
                    asked.wanted.push(says(text, mentions, unit_mentions));
                    asked.has_text = true;
                }
                (ResolvedCondition::Text { text, .. }, true) => asked.unwanted.push(says_itself(text)),
                (ResolvedCondition::Facets(any), false) => asked.wanted.push(facets(any)),
                (ResolvedCondition::Facets(any), true) => asked.unwanted.push(facets(any)),
                (ResolvedCondition::Places(places), false) => asked.places.push(places.clone()),
                (ResolvedCondition::Time(range), false) => {
                    asked.since = asked.since.max(range.since.clone());
                    asked.until = match (asked.until, range.until.clone()) {
                        (Some(one), Some(other)) => Some(one.min(other)),
                        (one, other) => one.or(other),
                    };
                }
                (ResolvedCondition::HasReplies, false) => asked.has_replies = true,
                (ResolvedCondition::InThread, false) => asked.is_in_thread = true,
                (
                    ResolvedCondition::Places(_)
                    | ResolvedCondition::Time(_)
                    | ResolvedCondition::HasReplies
                    | ResolvedCondition::InThread,
                    true,
                ) => {}
            }
        }
        asked
    }

    /// The expression for FTS5, with the numbers of the places; `None` if it would have nothing to look for.
    pub(crate) fn expression(&self, places: &[Vec<i64>]) -> Option<String> {
        let of_places = places.iter().map(|any| {
            let any: Vec<String> = any.iter().map(|place| quoted(&place_facet(*place))).collect();
            format!("{{facets}} : ({})", any.join(" OR "))
        });
        let wanted: Vec<String> = self.wanted.iter().cloned().chain(of_places).collect();
        if wanted.is_empty() {
            return None;
        }
        let mut expression = wanted.join(" AND ");
        for unwanted in &self.unwanted {
            expression = format!("({expression}) NOT {unwanted}");
        }
        Some(expression)
    }
}

/// A string of FTS5. Words and facets are letters and digits, so that nothing in them ends it.
fn quoted(words: &str) -> String {
    format!("\"{}\"", words.replace('"', ""))
}

fn facets<'f>(any: impl IntoIterator<Item = &'f Facet>) -> String {
    let any: Vec<String> = any.into_iter().map(|facet| quoted(facet.as_str())).collect();
    format!("{{facets}} : ({})", any.join(" OR "))
}

/// Words that stand next to each other in the text, or in a name that a mention shows, or on both sides of where such a
/// name begins or ends: then each is in the text or in such a name, and one of the names is there.
fn says(text: &TextCondition, mentions: &[Facet], unit_mentions: &[Vec<Facet>]) -> String {
    let (words, may_go_on) = document::query_words(&text.units, text.is_prefix);
    let mut ways = vec![body(&words, may_go_on)];
    if !mentions.is_empty() {
        ways.push(facets(mentions));
    }
    if !unit_mentions.is_empty() {
        let last = text.units.len() - 1;
        let each = text.units.iter().zip(unit_mentions).enumerate().map(|(number, (unit, mentions))| {
            // In the text, a character is in one word with that which follows it.
            let word = body(&unit.text, unit.is_character || (text.is_prefix && number == last));
            if mentions.is_empty() { word } else { format!("({word} OR {})", facets(mentions)) }
        });
        let any: BTreeSet<&Facet> = unit_mentions.iter().flatten().collect();
        let each = each.chain([facets(any)]);
        ways.push(format!("({})", each.collect::<Vec<String>>().join(" AND ")));
    }
    format!("({})", ways.join(" OR "))
}

/// Words in a text that mentions no person: in others the index may have them from a name that someone no longer has.
fn says_itself(text: &TextCondition) -> String {
    let (words, may_go_on) = document::query_words(&text.units, text.is_prefix);
    format!("({} NOT {})", body(&words, may_go_on), facets(&[Facet::mentions()]))
}

fn body(words: &str, may_go_on: bool) -> String {
    format!("{{body}} : {}{}", quoted(words), if may_go_on { " *" } else { "" })
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
    fn words_become_strings_whatever_is_in_them() {
        for (query, expected) in [
            ("NEAR", r#"{body} : "near""#),
            ("\"a* OR b\"", r#"{body} : "a or b""#),
            ("dep*", r#"{body} : "dep" *"#),
            ("会議室", r#"{body} : "会議 議室""#),
            ("字", r#"{body} : "字" *"#),
        ] {
            assert_eq!(says(&text(query), &[], &[]), format!("({expected})"), "{query}");
        }
    }

    #[test]
    fn a_name_may_be_in_a_mention() {
        let ana = vec![Facet::mention("U1")];
        assert_eq!(
            says(&text("\"thanks ana\""), &[], &[Vec::new(), ana]),
            r#"({body} : "thanks ana" OR ({body} : "thanks" AND ({body} : "ana" OR {facets} : ("mu1")) AND {facets} : ("mu1")))"#
        );
        assert_eq!(
            says(&text("kimさん"), &[], &[vec![Facet::mention("U2")], Vec::new(), Vec::new()]),
            r#"({body} : "kim さん" OR (({body} : "kim" OR {facets} : ("mu2")) AND {body} : "さ" * AND {body} : "ん" * AND {facets} : ("mu2")))"#
        );
    }

    #[test]
    fn what_is_not_wanted_needs_something_that_is() {
        let bot = ResolvedCondition::Facets(vec![Facet::is(IsWhat::Bot)]);
        let mut query = resolved(bot, true);
        assert_eq!(IndexQuery::of(&query, &[]).expression(&[]), None);
        query.terms.push(ResolvedTerm {
            is_negated: false,
            condition: ResolvedCondition::Text { text: text("x"), mentions: vec![], unit_mentions: vec![] },
        });
        assert_eq!(
            IndexQuery::of(&query, &[]).expression(&[vec![1, 2]]).unwrap(),
            r#"(({body} : "x") AND {facets} : ("p1" OR "p2")) NOT {facets} : ("isbot")"#
        );
    }

    #[test]
    fn a_text_that_is_not_wanted_is_left_to_the_archive_in_a_message_with_mentions() {
        let condition = |query: &str| ResolvedCondition::Text {
            text: text(query),
            mentions: Vec::new(),
            unit_mentions: Vec::new(),
        };
        let mut query = resolved(condition("wanted"), false);
        query.terms.push(ResolvedTerm { is_negated: true, condition: condition("draft") });
        assert_eq!(
            IndexQuery::of(&query, &[]).expression(&[]).unwrap(),
            r#"(({body} : "wanted")) NOT ({body} : "draft" NOT {facets} : ("mentions"))"#
        );
    }
}
