//! The people, channels and days that a query names, looked up.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, Query, key};
use slack::ids::{ChannelId, TeamId, UserId};

use super::document::Facet;
use super::query::{DayRange, HasWhat, IsWhat, SearchCondition, SearchQuery, TextCondition};
use super::units::{self, SearchUnit};
use crate::directory;
use crate::find::{self, Closest};
use crate::joined::ChannelOfTeam;
use crate::plain;
use crate::range::{TimeRange, ts_of};

/// People and channels whose names have one word. Beyond it, every mention may be one of them.
const MAX_MENTIONS: usize = 500;

/// People whose names are read at once.
const PEOPLE_AT_ONCE: usize = 256;

/// A query of which everything is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedQuery {
    /// A message fits if each of these does.
    pub terms: Vec<ResolvedTerm>,
    /// Whether deleted messages are looked for too.
    pub with_deleted: bool,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTerm {
    /// A message fits if the condition does not hold.
    pub is_negated: bool,
    /// The condition.
    pub condition: ResolvedCondition,
}

/// What a message must be or say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedCondition {
    /// It says this.
    Text {
        /// Next to each other.
        text: TextCondition,
        /// Mentions that read so: of people and channels whose names have all of it.
        mentions: Vec<Facet>,
        /// Mentions that may show one of the units, for each of several: of people and channels whose names lie among them or
        /// reach over one of their ends. Empty if there are no such names.
        unit_mentions: Vec<Vec<Facet>>,
    },
    /// It has one of these facets.
    Facets(Vec<Facet>),
    /// It is in one of these places.
    Places(Vec<ChannelOfTeam>),
    /// It was written then.
    Time(TimeRange),
    /// It has replies.
    HasReplies,
    /// It is a reply, or has some.
    InThread,
}

/// Why a query cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No person has this name or id.
    #[error("no person is called {called} in this archive{}", find::suggested(close, "people"))]
    UnknownPerson {
        /// What was asked for.
        called: String,
        /// Names that are like it, the closest first.
        close: Vec<String>,
    },
    /// No channel has this name or id.
    #[error("no channel {called} in this archive{}", find::suggested(close, "channels"))]
    UnknownChannel {
        /// What was asked for.
        called: String,
        /// Names that are like it, the closest first.
        close: Vec<String>,
    },
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl ResolveError {
    /// Whether the query names something that the archive does not have: the mistake of who typed it.
    #[must_use]
    pub fn is_unknown_name(&self) -> bool {
        match self {
            Self::UnknownPerson { .. } | Self::UnknownChannel { .. } => true,
            Self::Archive(_) => false,
        }
    }
}

/// The names of people and channels that messages may mention.
#[derive(Debug, Default)]
pub struct KnownNames {
    people: Vec<(UserId, Vec<KnownName>)>,
    channels: Vec<(ChannelId, KnownName)>,
}

/// A name, ready to be compared with many texts.
#[derive(Debug)]
struct KnownName {
    lowercase: String,
    units: Vec<SearchUnit>,
}

impl KnownName {
    fn of(name: &str) -> Self {
        Self { lowercase: name.to_lowercase(), units: units::of(name) }
    }

    /// Which of these units a mention of the name may show: they lie next to each other, and the name has all of them, or lies
    /// among them, or reaches over one of their ends.
    fn shown_of<'a>(
        &'a self,
        wanted: &'a [SearchUnit],
        is_prefix: bool,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let name = &self.units;
        let (before, last) = (name.len().saturating_sub(1), wanted.len().saturating_sub(1));
        let places = if name.is_empty() { 0 } else { before + wanted.len() };
        // The last unit of the name lies in each place from the first one that is wanted on.
        let shown = (0..places).map(move |place| {
            let (skipped, first) = (before.saturating_sub(place), place.saturating_sub(before));
            (skipped, first..wanted.len().min(first + name.len() - skipped))
        });
        let is_shown = move |(skipped, shown): &(usize, Range<usize>)| {
            let mut pairs = shown.clone().zip(&name[*skipped..]);
            pairs.all(|(number, unit)| {
                let wanted = &wanted[number];
                let is_equal = unit.text == wanted.text;
                let begins = || is_prefix && number == last && unit.text.starts_with(&wanted.text);
                let is_first = number == shown.start;
                (is_equal || begins()) && (is_first || unit.is_joined == wanted.is_joined)
            })
        };
        shown.filter(is_shown).map(|(_, shown)| shown)
    }
}

impl KnownNames {
    /// Reads those of these workspaces.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn read(archive: &dyn Archive, teams: &[TeamId]) -> Result<Self, ArchiveError> {
        let mut known = Self::default();
        for team in teams {
            // Without the projection that readers see, which takes longer than reading the rows.
            let mut people = Query { limit: PEOPLE_AT_ONCE, ..Query::partition(key::users(team)) };
            loop {
                let page = archive.query(&people).await?;
                known.people.extend(page.items.iter().filter_map(|user| {
                    let names = ["display_name", "real_name", "name"];
                    let names = names.iter().filter_map(|name| user.text(name).map(KnownName::of));
                    Some((UserId::parse(user.text("user_id")?).ok()?, names.collect()))
                }));
                match page.next {
                    Some(next) => people.after = Some(next),
                    None => break,
                }
            }
            let channels = directory::read(archive, team).await?;
            known.channels.extend(channels.iter().map(|(channel, name)| (channel, KnownName::of(name))));
        }
        Ok(known)
    }

    /// Who is called this, by any of their names or their id.
    fn people_called(&self, called: &str) -> Result<Vec<&str>, Vec<String>> {
        let name = called.strip_prefix('@').unwrap_or(called);
        let wanted = name.to_lowercase();
        let mut close = Closest::to(&wanted);
        let mut found = Vec::new();
        for (user, names) in &self.people {
            if user.as_str() == name || names.iter().any(|known| known.lowercase == wanted) {
                found.push(user.as_str());
            } else {
                names.iter().for_each(|known| close.offer(&known.lowercase));
            }
        }
        if found.is_empty() { Err(close.names()) } else { Ok(found) }
    }

    /// Each name with the id that a mention of it has. A mention shows the first name there is, which may be any of a person's
    /// when another one is removed.
    fn mentioned(&self) -> impl Iterator<Item = (&str, &KnownName)> {
        let people =
            self.people.iter().flat_map(|(user, names)| names.iter().map(|name| (user.as_str(), name)));
        people.chain(self.channels.iter().map(|(channel, name)| (channel.as_str(), name)))
    }

    /// Mentions that show all of these units, and for each of them those that show it beside others.
    fn mentions(&self, wanted: &[SearchUnit], is_prefix: bool) -> (Vec<Facet>, Vec<Vec<Facet>>) {
        let (mut of_all, mut of_units) = (BTreeSet::new(), vec![BTreeSet::new(); wanted.len()]);
        for (id, name) in self.mentioned() {
            for shown in name.shown_of(wanted, is_prefix) {
                if shown.len() == wanted.len() {
                    of_all.insert(id);
                } else {
                    for of_unit in &mut of_units[shown] {
                        of_unit.insert(id);
                    }
                }
            }
        }
        if of_units.iter().all(BTreeSet::is_empty) {
            of_units.clear();
        }
        (mentions_of(&of_all), of_units.iter().map(mentions_of).collect())
    }
}

/// Mentions of these people and channels; any mention if they are too many.
fn mentions_of(ids: &BTreeSet<&str>) -> Vec<Facet> {
    if ids.len() > MAX_MENTIONS {
        return vec![Facet::mentions()];
    }
    ids.iter().map(|id| Facet::mention(id)).collect()
}

/// Looks up what a query names.
///
/// # Errors
/// [`ResolveError`]
pub async fn resolve(
    archive: &dyn Archive,
    teams: &[TeamId],
    known: &KnownNames,
    query: SearchQuery,
    zone: &TimeZone,
    with_deleted: bool,
) -> Result<ResolvedQuery, ResolveError> {
    let with_deleted = with_deleted || query.asks_for_deleted();
    let mut terms = Vec::with_capacity(query.terms.len());
    for term in query.terms {
        let condition = match term.condition {
            SearchCondition::Text(text) => says(known, text),
            SearchCondition::From(called) => ResolvedCondition::Facets(authors(known, &called)?),
            SearchCondition::In(called) => {
                ResolvedCondition::Places(channel_places(archive, teams, &called).await?)
            }
            SearchCondition::Days(days) => ResolvedCondition::Time(range(days, zone)),
            SearchCondition::Has(HasWhat::Thread) => ResolvedCondition::HasReplies,
            SearchCondition::Has(what) => ResolvedCondition::Facets(Facet::has(what).into_iter().collect()),
            SearchCondition::Is(IsWhat::Thread) => ResolvedCondition::InThread,
            SearchCondition::Is(what) => ResolvedCondition::Facets(vec![Facet::is(what)]),
        };
        terms.push(ResolvedTerm { is_negated: term.is_negated, condition });
    }
    Ok(ResolvedQuery { terms, with_deleted })
}

fn says(known: &KnownNames, text: TextCondition) -> ResolvedCondition {
    let (mentions, unit_mentions) = known.mentions(&text.units, text.is_prefix);
    ResolvedCondition::Text { text, mentions, unit_mentions }
}

/// People by name, or by an id, which the archive may have messages of without knowing the person.
fn authors(known: &KnownNames, called: &str) -> Result<Vec<Facet>, ResolveError> {
    match known.people_called(called) {
        Ok(people) => Ok(people.into_iter().map(Facet::author).collect()),
        Err(close) => {
            if find::looks_like_an_id(called) {
                return Ok(vec![Facet::author(called)]);
            }
            Err(ResolveError::UnknownPerson { called: plain::excerpt(called, 80), close })
        }
    }
}

/// Every place of every channel of this name or id.
async fn channel_places(
    archive: &dyn Archive,
    teams: &[TeamId],
    called: &str,
) -> Result<Vec<ChannelOfTeam>, ResolveError> {
    let (found, close) = find::places_called(archive, called, teams).await?;
    if found.is_empty() {
        return Err(ResolveError::UnknownChannel { called: plain::excerpt(called, 80), close });
    }
    let mut places: Vec<ChannelOfTeam> = Vec::new();
    for place in &found {
        if !places.contains(place) {
            places.extend(find::joined(archive, place, teams).await?.places().iter().cloned());
        }
    }
    Ok(places)
}

fn range(days: DayRange, zone: &TimeZone) -> TimeRange {
    let midnight = |day: jiff::civil::Date| {
        let start = zone.to_timestamp(day.at(0, 0, 0, 0)).unwrap_or(jiff::Timestamp::MAX);
        ts_of(start.as_microsecond())
    };
    TimeRange { since: days.first.map(midnight), until: days.end.map(midnight) }
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use serde_json::json;
    use testkit::memory::archive::MemoryArchive;

    use super::*;

    async fn resolved(text: &str) -> Result<ResolvedQuery, ResolveError> {
        let (archive, team) = (MemoryArchive::new(), TeamId::parse("T1").unwrap());
        let shard = ItemKey::new(key::channel_index(&team), "0");
        let person = |id: &str| ItemKey::user(&team, &UserId::parse(id).unwrap());
        for (key, set) in [
            (
                person("U1"),
                json!({"user_id": "U1", "display_name": "ana", "real_name": "Ana Gomez", "name": "agomez"}),
            ),
            (person("U2"), json!({"user_id": "U2", "display_name": "", "real_name": "Bo", "name": "bo"})),
            (shard, json!({ "channels_map": { "C7": "general", "C8": "ops-alerts" } })),
        ] {
            let set = set.as_object().unwrap().clone();
            archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
        }
        let teams = [team];
        let query = SearchQuery::parse(text).unwrap();
        let known = KnownNames::read(&archive, &teams).await.unwrap();
        resolve(&archive, &teams, &known, query, &TimeZone::UTC, false).await
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
        for text in ["from:ana", "from:@ANA", "from:\"Ana Gomez\"", "from:agomez", "from:U1"] {
            assert_eq!(facets(text).await, ["uu1"], "{text}");
        }
        assert_eq!(facets("from:U999").await, ["uu999"], "an author whom the directory does not know");
    }

    #[tokio::test]
    async fn a_word_also_means_mentions_of_those_who_are_called_so() {
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
    async fn a_channel_condition_has_the_places_of_the_channel() {
        let resolved = resolved("in:#General").await.unwrap();
        let ResolvedCondition::Places(places) = &resolved.terms[0].condition else { panic!() };
        assert_eq!(places[0].channel.as_str(), "C7");
    }

    #[tokio::test]
    async fn an_unknown_name_is_an_error_with_those_that_are_close() {
        for (text, expected) in [
            ("from:@anna", "no person is called @anna in this archive; did you mean ana?"),
            ("in:generel", "no channel generel in this archive; did you mean general?"),
            ("in:zzz", "no channel zzz in this archive; the list of channels has those it knows"),
            ("from:zzz", "no person is called zzz in this archive; the list of people has those it knows"),
        ] {
            let error = resolved(text).await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_day_is_that_of_the_zone() {
        let range = |zone: &str| {
            range(
                DayRange { first: Some(jiff::civil::date(2026, 11, 1)), end: None },
                &TimeZone::posix(zone).unwrap(),
            )
        };
        assert_eq!(range("UTC0").since.unwrap().as_str(), "1793491200.000000");
        assert_eq!(range("EST5").since.unwrap().as_str(), "1793509200.000000");
    }
}
