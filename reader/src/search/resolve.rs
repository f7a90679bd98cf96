//! Looks up the people, channels and days in a query.

use std::collections::{BTreeSet, VecDeque};

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};
use slack::ids::TeamId;

use super::document::Facet;
use super::known::{KnownNames, mentions_of};
use super::query::{DayRange, HasWhat, IsWhat, SearchCondition, SearchQuery, SearchTerm, TextCondition};
use super::units::split_into_units;
use crate::find;
use crate::joined::ChannelOfTeam;
use crate::plain;
use crate::range::{TimeRange, ts_from_micros};

/// A query whose names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedQuery {
    /// The terms. A message matches if it matches all of them.
    pub terms: Vec<ResolvedTerm>,
    /// Whether deleted messages match too.
    pub with_deleted: bool,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTerm {
    /// Whether a message matches if the condition is false.
    pub is_negated: bool,
    pub condition: ResolvedCondition,
}

/// A condition on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedCondition {
    /// The message contains a text.
    Text {
        /// The adjacent units.
        text: TextCondition,
        /// Mentions of people and channels whose names contain all units.
        mentions: Vec<Facet>,
        /// For each unit, mentions of people and channels that may show it: their names lie within the units
        /// or overlap one end of them. Empty if there are no such names.
        unit_mentions: Vec<Vec<Facet>>,
    },
    /// The message has one of these facets.
    Facets(Vec<Facet>),
    /// The message's channel has one of these locations.
    Locations(Vec<ChannelOfTeam>),
    /// The message was written in this range.
    Time(TimeRange),
    /// The message has replies.
    HasReplies,
    /// The message is a reply or has replies.
    InThread,
}

/// Why a query cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No person has this name or id.
    #[error("no person is called {called} in this archive{}", find::suggestion_text(close))]
    UnknownPerson {
        /// The requested id or name.
        called: String,
        /// Similar names, closest first.
        close: Vec<String>,
    },
    /// No person, user group or channel has this name or id.
    #[error(
        "nothing that can be mentioned is called {called} in this archive{}",
        find::suggestion_text(close)
    )]
    UnknownMention {
        /// The requested id or name.
        called: String,
        /// Similar names, closest first.
        close: Vec<String>,
    },
    /// No channel has this name or id.
    #[error("no channel {called} in this archive{}", find::suggestion_text(close))]
    UnknownChannel {
        /// The requested id or name.
        called: String,
        /// Similar names, closest first.
        close: Vec<String>,
    },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl ResolveError {
    /// Whether the query names an unknown person or channel, which is the user's mistake.
    pub fn is_unknown_name(&self) -> bool {
        match self {
            Self::UnknownPerson { .. } | Self::UnknownMention { .. } | Self::UnknownChannel { .. } => true,
            Self::Archive(_) => false,
        }
    }
}

/// Looks up the people, channels and days of a query. `in_messages`: those of [`names_in_messages`] that
/// messages have.
///
/// [`names_in_messages`]: super::known::names_in_messages
pub async fn resolve(
    archive: &dyn Archive,
    teams: &[TeamId],
    known: &KnownNames,
    in_messages: &BTreeSet<Facet>,
    query: SearchQuery,
    zone: &TimeZone,
    with_deleted: bool,
) -> Result<ResolvedQuery, ResolveError> {
    let with_deleted = with_deleted || query.asks_for_deleted();
    let mut terms = Vec::with_capacity(query.terms.len());
    for term in join_names(known, in_messages, query.terms) {
        let condition = match term.condition {
            SearchCondition::Text(text) => text_condition(known, text),
            SearchCondition::From(called) => ResolvedCondition::Facets(authors(known, in_messages, &called)?),
            SearchCondition::Mentions(called) => {
                ResolvedCondition::Facets(mentions(known, in_messages, &called)?)
            }
            SearchCondition::In(called) => {
                ResolvedCondition::Locations(channel_places(archive, teams, &called).await?)
            }
            SearchCondition::Days(days) => ResolvedCondition::Time(time_range(days, zone)),
            SearchCondition::Has(HasWhat::Thread) => ResolvedCondition::HasReplies,
            SearchCondition::Has(what) => ResolvedCondition::Facets(Facet::has(what).into_iter().collect()),
            SearchCondition::Is(IsWhat::Thread) => ResolvedCondition::InThread,
            SearchCondition::Is(what) => ResolvedCondition::Facets(vec![Facet::is(what)]),
        };
        terms.push(ResolvedTerm { is_negated: term.is_negated, condition });
    }
    Ok(ResolvedQuery { terms, with_deleted })
}

/// Joins `from:` with the words after it if no author has the first word as a name and one has all of them: a
/// name need not be quoted.
fn join_names(known: &KnownNames, in_messages: &BTreeSet<Facet>, terms: Vec<SearchTerm>) -> Vec<SearchTerm> {
    let mut joined = Vec::with_capacity(terms.len());
    let mut rest = VecDeque::from(terms);
    while let Some(mut term) = rest.pop_front() {
        if let SearchCondition::From(called) = &mut term.condition
            && let Some((name, words)) = known.longer_name(in_messages, called, rest.iter())
        {
            *called = name;
            rest.drain(..words);
        }
        joined.push(term);
    }
    joined
}

fn text_condition(known: &KnownNames, text: TextCondition) -> ResolvedCondition {
    let (mentions, unit_mentions) = known.mentions(&text.units, text.is_prefix);
    ResolvedCondition::Text { text, mentions, unit_mentions }
}

/// Returns the facets of authors by name or id. The archive may have messages of an id that the directory
/// does not contain.
fn authors(
    known: &KnownNames,
    in_messages: &BTreeSet<Facet>,
    called: &str,
) -> Result<Vec<Facet>, ResolveError> {
    let people = known.people_called(called).map(|people| people.into_iter().map(Facet::author).collect());
    let name = Facet::author_name(&split_into_units(called)).filter(|name| in_messages.contains(name));
    any_of(people, name, Facet::author, called)
        .map_err(|close| ResolveError::UnknownPerson { called: plain::excerpt(called, 80), close })
}

/// Returns the facets of mentions by name or id.
fn mentions(
    known: &KnownNames,
    in_messages: &BTreeSet<Facet>,
    called: &str,
) -> Result<Vec<Facet>, ResolveError> {
    let mentioned = known.mentioned_as(called).map(|ids| mentions_of(&ids.into_iter().collect()));
    let label = Facet::mention_label(&split_into_units(called)).filter(|label| in_messages.contains(label));
    any_of(mentioned, label, Facet::mention, called)
        .map_err(|close| ResolveError::UnknownMention { called: plain::excerpt(called, 80), close })
}

/// Joins the facets of known names with that of a name in messages. Without both, an unknown id is one.
fn any_of(
    known: Result<Vec<Facet>, Vec<String>>,
    in_messages: Option<Facet>,
    by_id: fn(&str) -> Facet,
    called: &str,
) -> Result<Vec<Facet>, Vec<String>> {
    let known = known.or_else(|close| {
        let id = find::looks_like_an_id(called).then(|| by_id(called));
        if id.is_none() && in_messages.is_none() { Err(close) } else { Ok(id.into_iter().collect()) }
    })?;
    Ok(known.into_iter().chain(in_messages).collect())
}

/// Returns all locations of all channels with this name or id.
async fn channel_places(
    archive: &dyn Archive,
    teams: &[TeamId],
    called: &str,
) -> Result<Vec<ChannelOfTeam>, ResolveError> {
    let (found, close) = find::find_locations(archive, called, teams).await?;
    if found.is_empty() {
        return Err(ResolveError::UnknownChannel { called: plain::excerpt(called, 80), close });
    }
    let mut places: Vec<ChannelOfTeam> = Vec::new();
    for place in &found {
        if !places.contains(place) {
            places.extend(find::joined_channel(archive, place, teams).await?.locations().iter().cloned());
        }
    }
    Ok(places)
}

fn time_range(days: DayRange, zone: &TimeZone) -> TimeRange {
    let midnight = |day: jiff::civil::Date| {
        let start = zone.to_timestamp(day.at(0, 0, 0, 0)).unwrap_or(jiff::Timestamp::MAX);
        ts_from_micros(start.as_microsecond())
    };
    TimeRange { since: days.first.map(midnight), until: days.end.map(midnight) }
}

#[cfg(test)]
mod tests {
    use ports::archive::ItemKey;
    use serde_json::json;
    use slack::ids::UserId;
    use testkit::memory::archive::MemoryArchive;

    use super::*;
    use crate::fixture::{channel_names, person, set, team, user_group};

    async fn resolved(text: &str) -> Result<ResolvedQuery, ResolveError> {
        let archive = MemoryArchive::new();
        let ana = json!({"user_id": "U1", "display_name": "ana", "real_name": "Ana Gomez", "name": "agomez"});
        person(&archive, "U1", ana).await;
        let bo = json!({"user_id": "U2", "display_name": "", "real_name": "Bo", "name": "bo"});
        person(&archive, "U2", bo).await;
        let bot = ItemKey::bot(&team(), &UserId::parse("B0JIRA").unwrap());
        set(&archive, bot, json!({ "name": "Jira Cloud" })).await;
        user_group(&archive, json!({ "id": "S1", "handle": "oncall", "name": "On call" })).await;
        channel_names(&archive, json!({ "C7": "general", "C8": "ops-alerts" })).await;
        let teams = [team()];
        let query = SearchQuery::parse(text).unwrap();
        let known = KnownNames::read(&archive, &teams).await.unwrap();
        let in_messages = ["Deploy Bot", "Ana"].map(|name| Facet::author_name(&split_into_units(name)));
        let labels = ["oldbob"].map(|label| Facet::mention_label(&split_into_units(label)));
        let in_messages = in_messages.into_iter().chain(labels).flatten().collect();
        resolve(&archive, &teams, &known, &in_messages, query, &TimeZone::UTC, false).await
    }

    async fn facets(text: &str) -> Vec<String> {
        let condition = resolved(text).await.unwrap().terms.remove(0).condition;
        let (ResolvedCondition::Facets(facets) | ResolvedCondition::Text { mentions: facets, .. }) =
            &condition
        else {
            panic!("{condition:?}")
        };
        facets.iter().map(|facet| facet.as_str().to_owned()).collect()
    }

    #[tokio::test]
    async fn people_are_found_by_each_name_and_by_id() {
        for text in ["from:\"Ana Gomez\"", "from:agomez", "from:U1"] {
            assert_eq!(facets(text).await, ["uu1"], "{text}");
        }
        for text in ["from:ana", "from:@ANA"] {
            assert_eq!(facets(text).await, ["uu1", "nana"], "{text}: an app has the same name");
        }
        for text in ["from:\"Jira Cloud\"", "from:\"@jira cloud\"", "from:B0JIRA"] {
            assert_eq!(facets(text).await, ["ub0jira"], "{text}");
        }
        assert_eq!(facets("from:U999").await, ["uu999"], "an author whom the directory does not know");
    }

    #[tokio::test]
    async fn names_that_only_messages_have_are_known() {
        for text in ["from:\"deploy bot\"", "from:@deploy-bot", "from:@deploy bot", "from:Deploy BOT done"] {
            assert_eq!(facets(text).await, ["ndeploybot"], "{text}");
        }
        assert_eq!(resolved("from:@deploy bot done").await.unwrap().terms.len(), 2);
        assert_eq!(facets("mentions:@OldBob").await, ["loldbob"]);
        for unknown in ["from:@deploy", "from:@oldbob", "mentions:@deploy-bot"] {
            assert!(resolved(unknown).await.is_err(), "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_name_of_several_words_need_not_be_quoted() {
        for text in ["from:@jira cloud", "from:Jira Cloud done", "from:jira CLOUD is:bot"] {
            assert_eq!(facets(text).await, ["ub0jira"], "{text}");
        }
        assert_eq!(resolved("from:@jira cloud done").await.unwrap().terms.len(), 2);
        assert_eq!(resolved("from:@ana gomez").await.unwrap().terms.len(), 2, "ana is a name");
        for unknown in ["from:@jira", "from:@jira -cloud", "from:@jira clo*", "from:@jira done cloud"] {
            assert!(resolved(unknown).await.is_err(), "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_word_also_matches_mentions_of_people_and_channels_with_that_name() {
        assert_eq!(facets("gomez").await, ["mu1"]);
        assert_eq!(facets("\"ana gomez\"").await, ["mu1"]);
        assert_eq!(facets("alerts").await, ["mc8"]);
        assert_eq!(facets("al*").await, ["mc8"]);
        assert!(facets("nothing").await.is_empty());
        let resolved = resolved("\"thanks ana\"").await.unwrap();
        let ResolvedCondition::Text { unit_mentions, .. } = &resolved.terms[0].condition else { panic!() };
        assert_eq!(unit_mentions, &[vec![], vec![Facet::mention("U1")]]);
    }

    #[tokio::test]
    async fn mentions_of_a_group_are_found_by_its_handle() {
        for text in ["oncall", "onc*", "mentions:@oncall", "mentions:OnCall", "mentions:S1"] {
            assert_eq!(facets(text).await, ["ms1"], "{text}");
        }
        for (text, expected) in
            [("mentions:@ana", "mu1"), ("mentions:#general", "mc7"), ("mentions:U999", "mu999")]
        {
            assert_eq!(facets(text).await, [expected], "{text}");
        }
        let error = resolved("mentions:@oncal").await.unwrap_err();
        assert!(error.is_unknown_name() && error.to_string().ends_with("did you mean oncall?"), "{error}");
    }

    #[tokio::test]
    async fn a_channel_condition_has_the_locations_of_the_channel() {
        let resolved = resolved("in:#General").await.unwrap();
        let ResolvedCondition::Locations(places) = &resolved.terms[0].condition else { panic!() };
        assert_eq!(places[0].channel.as_str(), "C7");
    }

    #[tokio::test]
    async fn an_unknown_name_is_an_error_with_similar_names() {
        for (text, expected) in [
            ("from:@anna", "no person is called @anna in this archive; did you mean ana?"),
            ("in:generel", "no channel generel in this archive; did you mean general?"),
            ("in:zzz", "no channel zzz in this archive"),
            ("from:zzz", "no person is called zzz in this archive"),
        ] {
            let error = resolved(text).await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_day_starts_at_midnight_in_the_time_zone() {
        let range = |zone: &str| {
            time_range(
                DayRange { first: Some(jiff::civil::date(2026, 11, 1)), end: None },
                &TimeZone::posix(zone).unwrap(),
            )
        };
        assert_eq!(range("UTC0").since.unwrap().as_str(), "1793491200.000000");
        assert_eq!(range("EST5").since.unwrap().as_str(), "1793509200.000000");
    }
}
