//! The names that a query may call people, user groups and channels by.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::user_group::UserGroup;
use slack::ids::{ChannelId, TeamId, UserId};

use super::document::Facet;
use super::query::{SearchCondition, SearchQuery, SearchTerm};
use super::units::{self, SearchUnit};
use crate::directory;
use crate::find::{self, Closest};

/// Maximum number of mentioned ids in a condition. If more names match, the condition accepts any mention.
pub(super) const MAX_MENTIONS: usize = 500;

/// Maximum number of terms after `from:` that may belong to the name: few names have more than five words.
const MAX_NAME_TERMS: usize = 4;

/// People per page.
const PEOPLE_AT_ONCE: usize = 256;

/// The names of people, user groups and channels that messages may mention.
#[derive(Debug, Default)]
pub struct KnownNames {
    people: Arc<KnownPeople>,
    channels: Vec<(ChannelId, KnownName)>,
}

/// The names of people and user groups, which are the same for every reader.
#[derive(Debug, Default)]
struct KnownPeople {
    people: Vec<(UserId, Vec<KnownName>)>,
    /// User groups by id, with their handles.
    groups: Vec<(String, KnownName)>,
}

/// A name, prepared for comparison with many texts.
#[derive(Debug)]
struct KnownName {
    lowercase: String,
    units: Vec<SearchUnit>,
}

impl KnownName {
    fn new(name: &str) -> Self {
        Self { lowercase: name.to_lowercase(), units: units::split_into_units(name) }
    }

    /// Returns the ranges of these adjacent units that a mention of the name may show: the name contains all
    /// of them, lies within them, or overlaps one end of them.
    fn overlaps<'a>(
        &'a self,
        requested: &'a [SearchUnit],
        is_prefix: bool,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let name = &self.units;
        let (before, last) = (name.len().saturating_sub(1), requested.len().saturating_sub(1));
        let offsets = if name.is_empty() { 0 } else { before + requested.len() };
        // Each offset of the name's last unit, from the first requested unit on.
        let shown = (0..offsets).map(move |offset| {
            let (skipped, first) = (before.saturating_sub(offset), offset.saturating_sub(before));
            (skipped, first..requested.len().min(first + name.len() - skipped))
        });
        let is_shown = move |(skipped, shown): &(usize, Range<usize>)| {
            let mut pairs = shown.clone().zip(&name[*skipped..]);
            pairs.all(|(number, unit)| {
                unit.matches(&requested[number], number == shown.start, is_prefix && number == last)
            })
        };
        shown.filter(is_shown).map(|(_, shown)| shown)
    }
}

impl KnownNames {
    /// Reads the names in these workspaces.
    pub async fn read(archive: &dyn Archive, teams: &[TeamId]) -> Result<Self, ArchiveError> {
        let people = Arc::new(KnownPeople::read(archive, teams).await?);
        Self { people, channels: Vec::new() }.with_channels_of(archive, teams).await
    }

    /// Returns the same names of people, with the names of the channels that this archive has.
    pub async fn with_channels_of(
        &self,
        archive: &dyn Archive,
        teams: &[TeamId],
    ) -> Result<Self, ArchiveError> {
        let mut known = Self { people: Arc::clone(&self.people), channels: Vec::new() };
        for team in teams {
            let channels = directory::read(archive, team).await?;
            known.channels.extend(channels.iter().map(|(channel, name)| (channel, KnownName::new(name))));
        }
        Ok(known)
    }
}

impl KnownPeople {
    async fn read(archive: &dyn Archive, teams: &[TeamId]) -> Result<Self, ArchiveError> {
        let mut known = Self::default();
        for team in teams {
            // Not projected: the projection takes longer than reading the rows.
            let mut people = Query { limit: PEOPLE_AT_ONCE, ..Query::partition(key::users(team)) };
            loop {
                let page = archive.query(&people).await?;
                known.people.extend(page.items.iter().filter_map(|user| {
                    let names = rules::directory::names(user).map(KnownName::new);
                    Some((rules::directory::user(user)?, names.collect()))
                }));
                match page.next {
                    Some(next) => people.after = Some(next),
                    None => break,
                }
            }
            // A bot is an author, as its app's user is.
            let bots = query_all(archive, Query::partition(key::bots(team))).await?;
            known.people.extend(bots.iter().filter_map(|bot| {
                let names = rules::directory::names(bot).map(KnownName::new).collect();
                Some((UserId::parse(&bot.key.timestamp).ok()?, names))
            }));
            let groups = query_all(archive, Query::partition(key::user_groups(team))).await?;
            known.groups.extend(groups.iter().filter_map(UserGroup::read).filter_map(|group| {
                let handle = KnownName::new(group.handle.as_deref()?);
                Some((group.id, handle))
            }));
        }
        Ok(known)
    }
}

impl KnownNames {
    /// Returns the people with this id or one of whose names is this. The error contains similar names.
    pub(super) fn people_called(&self, called: &str) -> Result<Vec<&str>, Vec<String>> {
        let name = called.strip_prefix('@').unwrap_or(called);
        let requested = name.to_lowercase();
        let mut close = Closest::new(&requested);
        let mut found = Vec::new();
        for (user, names) in &self.people.people {
            if user.as_str() == name || names.iter().any(|known| known.lowercase == requested) {
                found.push(user.as_str());
            } else {
                names.iter().for_each(|known| close.add_candidate(&known.lowercase));
            }
        }
        if found.is_empty() { Err(close.names()) } else { Ok(found) }
    }

    /// Returns the name of an author that begins with an unknown one and continues with the words after it, and
    /// the number of these terms.
    pub(super) fn longer_name<'t>(
        &self,
        in_messages: &BTreeSet<Facet>,
        called: &str,
        following: impl Iterator<Item = &'t SearchTerm>,
    ) -> Option<(String, usize)> {
        let is_in_messages =
            |name: &[SearchUnit]| Facet::author_name(name).is_some_and(|name| in_messages.contains(&name));
        let mut names = requested_names(called, following);
        let first = names.next()?;
        if find::looks_like_an_id(called) || self.people_called(called).is_ok() || is_in_messages(&first) {
            return None;
        }
        names.enumerate().find_map(|(number, requested)| {
            let texts = || requested.iter().map(|unit| unit.text.as_str());
            let is_requested =
                |name: &&KnownName| name.units.iter().map(|unit| unit.text.as_str()).eq(texts());
            let known = self.people.people.iter().flat_map(|(_, names)| names).find(is_requested);
            let name = known.map(|name| name.lowercase.clone());
            let in_messages = || is_in_messages(&requested).then(|| texts().collect::<Vec<_>>().join(" "));
            Some((name.or_else(in_messages)?, number + 1))
        })
    }

    /// Returns the ids of the people, user groups and channels that a mention with this name or id refers to.
    /// The error contains similar names.
    pub(super) fn mentioned_as(&self, called: &str) -> Result<Vec<&str>, Vec<String>> {
        let name = called.strip_prefix(['@', '#']).unwrap_or(called);
        let requested = name.to_lowercase();
        let mut close = Closest::new(&requested);
        let mut found = BTreeSet::new();
        for (id, known) in self.mentioned() {
            if id == name || known.lowercase == requested {
                found.insert(id);
            } else {
                close.add_candidate(&known.lowercase);
            }
        }
        if found.is_empty() { Err(close.names()) } else { Ok(found.into_iter().collect()) }
    }

    /// Returns each name with the id that its mentions contain. A mention shows a person's first available
    /// name, so each of their names may be shown after another one is removed.
    fn mentioned(&self) -> impl Iterator<Item = (&str, &KnownName)> {
        let people = self
            .people
            .people
            .iter()
            .flat_map(|(user, names)| names.iter().map(|name| (user.as_str(), name)));
        let groups = self.people.groups.iter().map(|(group, handle)| (group.as_str(), handle));
        people.chain(groups).chain(self.channels.iter().map(|(channel, name)| (channel.as_str(), name)))
    }

    /// Returns the mentions that show all of these units, and for each unit the mentions that may show it.
    pub(super) fn mentions(
        &self,
        requested: &[SearchUnit],
        is_prefix: bool,
    ) -> (Vec<Facet>, Vec<Vec<Facet>>) {
        let (mut for_all_units, mut for_each_unit) =
            (BTreeSet::new(), vec![BTreeSet::new(); requested.len()]);
        for (id, name) in self.mentioned() {
            for shown in name.overlaps(requested, is_prefix) {
                if shown.len() == requested.len() {
                    for_all_units.insert(id);
                } else {
                    for ids in &mut for_each_unit[shown] {
                        ids.insert(id);
                    }
                }
            }
        }
        if for_each_unit.iter().all(BTreeSet::is_empty) {
            for_each_unit.clear();
        }
        (mentions_of(&for_all_units), for_each_unit.iter().map(mentions_of).collect())
    }
}

/// Returns the facets of the names that a query may call authors and mentions by. The caller looks up which of
/// them messages have: such a name need not be known otherwise.
pub fn names_in_messages(query: &SearchQuery) -> BTreeSet<Facet> {
    let mut facets = BTreeSet::new();
    for (number, term) in query.terms.iter().enumerate() {
        match &term.condition {
            SearchCondition::From(called) => facets.extend(
                requested_names(called, query.terms[number + 1..].iter())
                    .filter_map(|name| Facet::author_name(&name)),
            ),
            SearchCondition::Mentions(called) => {
                facets.extend(Facet::mention_label(&units::split_into_units(called)))
            }
            SearchCondition::Text(_)
            | SearchCondition::In(_)
            | SearchCondition::Days(_)
            | SearchCondition::Has(_)
            | SearchCondition::Is(_) => {}
        }
    }
    facets
}

/// Returns the names that `from:` and the words after it may be: the first word, then one word more each.
fn requested_names<'t>(
    called: &str,
    following: impl Iterator<Item = &'t SearchTerm>,
) -> impl Iterator<Item = Vec<SearchUnit>> {
    let first = units::split_into_units(called);
    let following = following.map_while(|term| {
        let SearchCondition::Text(text) = &term.condition else { return None };
        (!term.is_negated && !text.is_prefix).then_some(&text.units)
    });
    let longer = following.take(MAX_NAME_TERMS).scan(first.clone(), |name, word| {
        name.extend_from_slice(word);
        Some(name.clone())
    });
    std::iter::once(first).chain(longer)
}

/// Returns mentions of these people and channels, or the facet of any mention if there are more than
/// [`MAX_MENTIONS`].
pub(super) fn mentions_of(ids: &BTreeSet<&str>) -> Vec<Facet> {
    if ids.len() > MAX_MENTIONS {
        return vec![Facet::mentions()];
    }
    ids.iter().map(|id| Facet::mention(id)).collect()
}
