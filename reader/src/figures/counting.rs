//! Counting: the rows of channels as roll-ups of their days.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use rules::figures::day::{DayFigures, DayThread};
use rules::figures::message::CountedMessage;
use rules::figures::partners::Partners;
use rules::figures::person::PersonFacts;
use rules::figures::rollup::{ChannelDay, RollupDay};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::period::Period;
use super::rollups::Rolled;
use crate::joined::JoinedChannel;

/// Rows read at once.
const PAGE: usize = 512;

/// The people of a workspace by id.
#[derive(Debug, Clone, Default)]
pub struct People(HashMap<String, PersonFacts>);

impl People {
    /// Reads the directory of a workspace.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(key::users(team))).await?;
        let mut people = Self::default();
        people.add(&rows, team);
        Ok(people)
    }

    fn add<'r>(&mut self, rows: impl IntoIterator<Item = &'r Item>, team: &TeamId) {
        let read = |row: &Item| Some((row.key.timestamp.clone(), PersonFacts::read(row, team.as_str())?));
        self.0.extend(rows.into_iter().filter_map(read));
    }

    /// A person.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&PersonFacts> {
        self.0.get(id)
    }

    /// Everyone, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PersonFacts)> {
        let mut people: Vec<(&str, &PersonFacts)> =
            self.0.iter().map(|(id, person)| (id.as_str(), person)).collect();
        people.sort_unstable_by_key(|(id, _)| *id);
        people.into_iter()
    }

    pub(super) fn is_bot(&self, message: &CountedMessage<'_>) -> bool {
        let known = message.author.and_then(|author| self.get(author));
        PersonFacts::is_bot(message.author, known, message.is_by_app)
    }

    pub(super) fn is_bot_now(&self, id: &str, is_by_app: bool) -> bool {
        PersonFacts::is_bot(Some(id), self.get(id), is_by_app)
    }
}

/// What is counted of a channel in a period.
pub(super) struct CountedChannel {
    /// The channel.
    pub(super) channel: ChannelId,
    /// Its days, by their number since 1970.
    pub(super) days: BTreeMap<i64, DayFigures>,
    /// Messages of people that may have begun a thread, with their replies in the period: their rows say so, or they were
    /// replied to.
    pub(super) roots: BTreeMap<Ts, u64>,
    /// Who wrote the messages that were replied to in the period, as far as their rows are known and it was asked for.
    pub(super) root_authors: BTreeMap<Ts, String>,
}

/// What is counted of one person beside their own messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AboutPerson {
    /// Who has to do with them.
    pub(super) partners: Partners,
    /// The messages of everyone, to say which part of them is this person's.
    pub(super) messages: BTreeMap<String, u64>,
}

/// Counts the messages of channels.
pub(super) struct Counter<'a> {
    people: &'a People,
    person: Option<&'a UserId>,
    credits_replies: bool,
    /// What is counted of the person, if only the messages of one are.
    pub(super) about: AboutPerson,
}

impl<'a> Counter<'a> {
    /// Counts all messages, or only those of one person.
    pub(super) fn new(people: &'a People, person: Option<&'a UserId>) -> Self {
        Self { people, person, credits_replies: true, about: AboutPerson::default() }
    }

    /// Leaves out to whom replies are, for which the messages that they reply to are read.
    pub(super) fn without_credit(self) -> Self {
        Self { credits_replies: false, ..self }
    }

    /// Counts a channel in a period, with what its roll-ups have of it.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub(super) async fn count(
        &mut self,
        channel: &JoinedChannel<'_>,
        period: &Period,
        Rolled { mut days, rest }: Rolled,
    ) -> Result<CountedChannel, ArchiveError> {
        let mut authors = Authors::default();
        let mut of_everyone = BTreeMap::new();
        for part in rest {
            self.count_rows(channel, &part, &mut days, &mut of_everyone, &mut authors).await?;
        }
        days.values().for_each(|day| authors.learn_counted(day));
        let all_days = days.values().chain(of_everyone.values());
        let threads: BTreeSet<Ts> = all_days.flat_map(|day| day.threads.keys()).cloned().collect();
        let mut root_authors = BTreeMap::new();
        if self.credits_replies {
            root_authors = authors.of_roots(channel, &threads).await?;
            for day in days.values_mut() {
                day.credit(|root_ts| root_authors.get(root_ts).map(String::as_str));
            }
            for (root_ts, thread) in of_everyone.values().flat_map(|day| &day.threads) {
                let root_author = root_authors.get(root_ts).or(thread.told_author.as_ref());
                if let (Some(person), Some(root_author)) = (self.person, root_author) {
                    self.about.partners.add_replies(person.as_str(), thread, root_author);
                }
            }
        }
        let mut roots: BTreeSet<Ts> = days.values().flat_map(|day| &day.roots).cloned().collect();
        if self.person.is_none() {
            roots.extend(threads.into_iter().filter(|root_ts| period.contains(root_ts)));
        }
        let replies = |root_ts: &Ts| {
            let threads = days.values().filter_map(|day| day.threads.get(root_ts));
            threads.map(DayThread::replies).sum()
        };
        let roots = roots.into_iter().map(|root_ts| {
            let replies = replies(&root_ts);
            (root_ts, replies)
        });
        let roots = roots.collect();
        Ok(CountedChannel { channel: channel.main().channel.clone(), days, roots, root_authors })
    }

    async fn count_rows(
        &mut self,
        channel: &JoinedChannel<'_>,
        period: &Period,
        days: &mut BTreeMap<i64, DayFigures>,
        of_everyone: &mut BTreeMap<i64, DayFigures>,
        authors: &mut Authors,
    ) -> Result<(), ArchiveError> {
        let partition = channel.main().messages();
        let range = period.range();
        let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
        query.after = range.after().map(|after| ItemKey::new(partition, after));
        query.until = range.until.as_ref().map(Ts::to_string);
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                authors.learn(row);
                let Some(message) = CountedMessage::read(row) else { continue };
                let is_bot = self.people.is_bot(&message);
                if let Some(person) = self.person {
                    of_everyone.entry(message.day()).or_default().add(&message, is_bot);
                    self.add_about(person, &message, is_bot);
                    if message.author != Some(person.as_str()) {
                        continue;
                    }
                }
                days.entry(message.day()).or_default().add(&message, is_bot);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn add_about(&mut self, person: &UserId, message: &CountedMessage<'_>, is_bot: bool) {
        if is_bot {
            return;
        }
        self.about.partners.add(person.as_str(), message);
        if let Some(author) = message.author.filter(|_| !message.is_deleted) {
            *self.about.messages.entry(author.to_owned()).or_default() += 1;
        }
    }
}

/// Who wrote the messages of a channel that were replied to.
#[derive(Default)]
struct Authors(HashMap<Ts, String>);

impl Authors {
    fn learn(&mut self, row: &Item) {
        if let (Ok(ts), Some(user)) = (Ts::parse(&row.key.timestamp), row.text("user")) {
            self.0.insert(ts, user.to_owned());
        }
    }

    /// What a roll-up keeps of the roots of its own day.
    fn learn_counted(&mut self, day: &DayFigures) {
        for (root_ts, thread) in &day.threads {
            if let Some(author) = &thread.author {
                self.0.entry(root_ts.clone()).or_insert_with(|| author.clone());
            }
        }
    }

    /// The authors of these roots, as far as their rows say.
    async fn of_roots(
        self,
        channel: &JoinedChannel<'_>,
        roots: &BTreeSet<Ts>,
    ) -> Result<BTreeMap<Ts, String>, ArchiveError> {
        let (known, unknown): (Vec<&Ts>, Vec<&Ts>) =
            roots.iter().partition(|root_ts| self.0.contains_key(root_ts));
        let known = known.into_iter().filter_map(|ts| Some((ts.clone(), self.0.get(ts)?.clone())));
        let mut authors: BTreeMap<Ts, String> = known.collect();
        for (ts, row) in unknown.iter().zip(channel.messages(&unknown).await?) {
            authors.extend(
                row.as_ref().and_then(|row| row.text("user")).map(|user| ((*ts).clone(), user.to_owned())),
            );
        }
        Ok(authors)
    }
}

/// Counts a channel's day from its rows, for a roll-up. People are asked for one by one: a day names few of a large workspace.
///
/// # Errors
/// As [`Archive::query`].
pub async fn count_day(archive: &dyn Archive, day: &ChannelDay) -> Result<DayFigures, ArchiveError> {
    let partition = key::messages(&day.team, &day.channel);
    let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
    query.after = Some(ItemKey::new(partition, day.day.bound()));
    query.until = day.day.next().map(RollupDay::bound);
    let mut people = People::default();
    let mut asked = BTreeSet::new();
    let mut wrote = Authors::default();
    let mut figures = DayFigures::default();
    loop {
        let page = archive.query(&query).await?;
        page.items.iter().for_each(|row| wrote.learn(row));
        let messages: Vec<CountedMessage<'_>> = page.items.iter().filter_map(CountedMessage::read).collect();
        let authors = messages.iter().filter_map(|message| UserId::parse(message.author?).ok());
        let new: Vec<ItemKey> = authors
            .map(|author| ItemKey::user(&day.team, &author))
            .filter(|key| asked.insert(key.timestamp.clone()))
            .collect();
        let rows = archive.get_all(&new.iter().collect::<Vec<_>>()).await?;
        people.add(rows.iter().flatten(), &day.team);
        for message in &messages {
            figures.add(message, people.is_bot(message));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    figures.name_authors(|root_ts| wrote.0.get(root_ts).map(String::as_str));
    Ok(figures)
}
