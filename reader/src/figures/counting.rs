//! Counts the rows of channels by day.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key};
use rules::figures::day::{DayFigures, DayThread};
use rules::figures::message::CountedMessage;
use rules::figures::partners::Partners;
use rules::figures::rollup::{ChannelDay, RollupDay};
use rules::message;
use slack::ids::{ChannelId, Ts, UserId};

use super::people::People;
use super::period::Period;
use super::rollups::RollupCoverage;
use crate::joined::JoinedChannel;

/// Rows per page.
const PAGE: usize = 512;

/// The counts of a channel in a period.
pub(super) struct CountedChannel {
    pub(super) channel: ChannelId,
    /// The figures of its days, by the number of days since 1970.
    pub(super) days: BTreeMap<i64, DayFigures>,
    /// Messages of people that may have started a thread, with the number of their replies in the period:
    /// their rows are thread roots, or they have replies.
    pub(super) roots: BTreeMap<Ts, u64>,
    /// The authors of the messages with replies in the period, if replies are credited and the authors are
    /// known.
    pub(super) root_authors: BTreeMap<Ts, String>,
}

/// The counts about one person from the messages of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AboutPerson {
    /// The people whom the person interacts with.
    pub(super) partners: Partners,
    /// The number of messages of everyone, for the person's share and rank.
    pub(super) messages: BTreeMap<String, u64>,
}

/// Counts the messages of channels.
pub(super) struct Counter<'a> {
    people: &'a People,
    person: Option<&'a UserId>,
    credits_replies: bool,
    /// The counts about the person, if only the messages of one person are counted.
    pub(super) about: AboutPerson,
}

impl<'a> Counter<'a> {
    /// Returns a counter for all messages, or only for those of one person.
    pub(super) fn new(people: &'a People, person: Option<&'a UserId>) -> Self {
        Self { people, person, credits_replies: true, about: AboutPerson::default() }
    }

    /// Does not credit replies to the authors of the roots, which saves reading the roots.
    pub(super) fn without_credit(self) -> Self {
        Self { credits_replies: false, ..self }
    }

    /// Counts a channel in a period: takes the days of its roll-ups and counts the rest from rows.
    pub(super) async fn count(
        &mut self,
        channel: &JoinedChannel<'_>,
        period: &Period,
        RollupCoverage { mut days, rest }: RollupCoverage,
    ) -> Result<CountedChannel, ArchiveError> {
        let mut authors = Authors::default();
        let mut everyone_days = BTreeMap::new();
        for part in rest {
            self.count_rows(channel, &part, &mut days, &mut everyone_days, &mut authors).await?;
        }
        days.values().for_each(|day| authors.learn_counted(day));
        let all_days = days.values().chain(everyone_days.values());
        let threads: BTreeSet<Ts> = all_days.flat_map(|day| day.threads.keys()).cloned().collect();
        let mut root_authors = BTreeMap::new();
        if self.credits_replies {
            root_authors = authors.of_roots(channel, &threads).await?;
            for day in days.values_mut() {
                day.credit(|root_ts| root_authors.get(root_ts).map(String::as_str));
            }
            for (root_ts, thread) in everyone_days.values().flat_map(|day| &day.threads) {
                let root_author = root_authors.get(root_ts).or(thread.told_author.as_ref());
                if let (Some(person), Some(root_author)) = (self.person, root_author) {
                    self.about.partners.add_replies(person.as_str(), thread, root_author);
                }
            }
        }
        let mut roots: BTreeSet<Ts> = days.values().flat_map(|day| &day.roots).cloned().collect();
        // A root that arrived live does not say that it is one; its replies do, even those of others.
        let is_counted = |root_ts: &Ts| {
            self.person.is_none_or(|person| root_authors.get(root_ts).is_some_and(|id| id == person.as_str()))
        };
        roots.extend(threads.into_iter().filter(|root_ts| period.contains(root_ts) && is_counted(root_ts)));
        let counted_days = if self.person.is_some() { &everyone_days } else { &days };
        let replies = |root_ts: &Ts| {
            let threads = counted_days.values().filter_map(|day| day.threads.get(root_ts));
            threads.map(DayThread::replies).sum()
        };
        let roots = roots.into_iter().map(|root_ts| {
            let replies = replies(&root_ts);
            (root_ts, replies)
        });
        let roots = roots.collect();
        Ok(CountedChannel { channel: channel.current_location().channel.clone(), days, roots, root_authors })
    }

    async fn count_rows(
        &mut self,
        channel: &JoinedChannel<'_>,
        period: &Period,
        days: &mut BTreeMap<i64, DayFigures>,
        everyone_days: &mut BTreeMap<i64, DayFigures>,
        authors: &mut Authors,
    ) -> Result<(), ArchiveError> {
        let partition = channel.current_location().messages();
        let range = period.range();
        let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
        query.after = range.key_before().map(|after| ItemKey::new(partition, after));
        query.until = range.until.as_ref().map(Ts::to_string);
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                authors.learn(row);
                let Some(message) = CountedMessage::read(row) else { continue };
                let is_bot = self.people.is_bot(&message);
                if let Some(person) = self.person {
                    everyone_days.entry(message.day()).or_default().add(&message, is_bot);
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

/// The authors of a channel's messages, by timestamp.
#[derive(Default)]
struct Authors(HashMap<Ts, String>);

impl Authors {
    fn learn(&mut self, row: &Item) {
        if let (Ok(ts), Some(user)) = (Ts::parse(&row.key.timestamp), message::author(row)) {
            self.0.insert(ts, user.to_owned());
        }
    }

    /// Adds the root authors from the roll-up of a day.
    fn learn_counted(&mut self, day: &DayFigures) {
        for (root_ts, thread) in &day.threads {
            if let Some(author) = &thread.author {
                self.0.entry(root_ts.clone()).or_insert_with(|| author.clone());
            }
        }
    }

    /// Returns the authors of these roots, if their rows contain them.
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
            authors
                .extend(row.as_ref().and_then(message::author).map(|user| ((*ts).clone(), user.to_owned())));
        }
        Ok(authors)
    }
}

/// Counts a channel's day from its rows, for a roll-up. Reads only the people who wrote on that day, because
/// they are few in a large workspace.
pub async fn count_day(archive: &dyn Archive, day: &ChannelDay) -> Result<DayFigures, ArchiveError> {
    let partition = key::messages(&day.team, &day.channel);
    let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
    query.after = Some(ItemKey::new(partition, day.day.bound()));
    query.until = day.day.next().map(RollupDay::bound);
    let mut people = People::default();
    let mut requested = BTreeSet::new();
    let mut root_authors = Authors::default();
    let mut figures = DayFigures::default();
    loop {
        let page = archive.query(&query).await?;
        page.items.iter().for_each(|row| root_authors.learn(row));
        let messages: Vec<CountedMessage<'_>> = page.items.iter().filter_map(CountedMessage::read).collect();
        let authors = messages.iter().filter_map(|message| UserId::parse(message.author?).ok());
        let new: Vec<ItemKey> = authors
            .map(|author| ItemKey::user(&day.team, &author))
            .filter(|key| requested.insert(key.timestamp.clone()))
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
    figures.name_authors(|root_ts| root_authors.0.get(root_ts).map(String::as_str));
    Ok(figures)
}
