//! Counting: the rows of channels as roll-ups of their days.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use rules::figures::day::DayFigures;
use rules::figures::message::CountedMessage;
use rules::figures::partners::Partners;
use rules::figures::person::Person;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::period::Period;
use crate::joined::JoinedChannel;

/// Rows read at once.
const PAGE: usize = 512;

/// The people of a workspace by id.
#[derive(Debug, Clone, Default)]
pub struct People(BTreeMap<String, Person>);

impl People {
    /// Reads the directory of a workspace.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(key::users(team))).await?;
        let people = rows
            .iter()
            .filter_map(|row| Some((row.key.timestamp.clone(), Person::read(row, team.as_str())?)));
        Ok(Self(people.collect()))
    }

    /// A person.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Person> {
        self.0.get(id)
    }

    /// Everyone, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Person)> {
        self.0.iter().map(|(id, person)| (id.as_str(), person))
    }

    pub(super) fn is_bot(&self, message: &CountedMessage<'_>) -> bool {
        let known = message.author.and_then(|author| self.get(author));
        Person::is_bot(message.author, known, message.is_by_app)
    }
}

/// What is counted of a channel in a period.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedChannel {
    /// The channel.
    pub channel: ChannelId,
    /// Its days, by their number since 1970.
    pub days: BTreeMap<i64, DayFigures>,
    /// Messages of people that may have begun a thread: their rows say so, or they were replied to in the period.
    pub roots: BTreeSet<Ts>,
}

/// What is counted of one person beside their own messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AboutPerson {
    /// Who has to do with them.
    pub partners: Partners,
    /// The messages of everyone, to say which part of them is this person's.
    pub messages: BTreeMap<String, u64>,
}

/// Counts the messages of channels.
pub struct Counter<'a> {
    people: &'a People,
    person: Option<&'a UserId>,
    /// What is counted of the person, if only the messages of one are.
    pub about: AboutPerson,
}

impl<'a> Counter<'a> {
    /// Counts all messages, or only those of one person.
    #[must_use]
    pub fn new(people: &'a People, person: Option<&'a UserId>) -> Self {
        Self { people, person, about: AboutPerson::default() }
    }

    /// Counts a channel in a period.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn count(
        &mut self,
        channel: &JoinedChannel<'_>,
        period: &Period,
    ) -> Result<CountedChannel, ArchiveError> {
        let partition = channel.main().messages();
        let range = period.range();
        let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
        query.after = range.after().map(|after| ItemKey::new(partition, after));
        query.until = range.until.as_ref().map(Ts::to_string);
        let mut days: BTreeMap<i64, DayFigures> = BTreeMap::new();
        let mut roots = BTreeSet::new();
        let mut authors = Authors::default();
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                authors.learn(row);
                let Some(message) = CountedMessage::read(row) else { continue };
                let root_author = match &message.root_ts {
                    Some(root_ts) => authors.of_root(channel, root_ts, row).await?,
                    None => None,
                };
                let is_bot = self.people.is_bot(&message);
                if let Some(person) = self.person {
                    self.add_about(person, &message, is_bot, root_author.as_deref());
                    if message.author != Some(person.as_str()) {
                        continue;
                    }
                }
                if message.is_root && !is_bot && !message.is_deleted {
                    roots.insert(message.ts.clone());
                }
                days.entry(message.day()).or_default().add(&message, is_bot, root_author.as_deref());
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        for root_ts in days.values().flat_map(|day| day.threads.keys()) {
            if period.contains(root_ts) && self.person.is_none() {
                roots.insert(root_ts.clone());
            }
        }
        Ok(CountedChannel { channel: channel.main().channel.clone(), days, roots })
    }

    fn add_about(
        &mut self,
        person: &UserId,
        message: &CountedMessage<'_>,
        is_bot: bool,
        root_author: Option<&str>,
    ) {
        if is_bot {
            return;
        }
        self.about.partners.add(person.as_str(), message, root_author);
        if let Some(author) = message.author.filter(|_| !message.is_deleted) {
            *self.about.messages.entry(author.to_owned()).or_default() += 1;
        }
    }
}

/// Who wrote the messages of a channel that were replied to.
#[derive(Default)]
struct Authors(HashMap<Ts, Option<String>>);

impl Authors {
    fn learn(&mut self, row: &Item) {
        if let (Ok(ts), Some(user)) = (Ts::parse(&row.key.timestamp), row.text("user")) {
            self.0.insert(ts, Some(user.to_owned()));
        }
    }

    /// The author of a root: what its row says, or else what the reply says.
    async fn of_root(
        &mut self,
        channel: &JoinedChannel<'_>,
        root_ts: &Ts,
        reply: &Item,
    ) -> Result<Option<String>, ArchiveError> {
        if let Some(known) = self.0.get(root_ts) {
            return Ok(known.clone());
        }
        let root = channel.message(root_ts).await?;
        let author = root.as_ref().and_then(|root| root.text("user")).map(str::to_owned);
        let author = author.or_else(|| told_author(reply.text("raw_event")?));
        self.0.insert(root_ts.clone(), author.clone());
        Ok(author)
    }
}

/// Whom a reply names as the author of its root, as events do.
pub(super) fn told_author(raw: &str) -> Option<String> {
    let raw: Value = serde_json::from_str(raw).ok()?;
    let author = raw["parent_user_id"].as_str()?;
    UserId::parse(author).ok().map(|author| author.to_string())
}
