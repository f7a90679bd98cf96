//! The sums of a period over all channels and days.

use std::collections::{BTreeMap, HashMap, HashSet};

use rules::figures::day::{PersonDay, TOP};
use rules::figures::person::{AuthorKind, PersonFacts};
use slack::ids::{ChannelId, Ts};

use super::counting::CountedChannel;
use super::people::People;
use super::report::ZoneRow;

/// Minutes of a day and of a week.
const DAY: i64 = 24 * 60;
const WEEK: i64 = 7 * DAY;

/// January 1, 1970 was a Thursday, three days after a Monday.
const EPOCH_WEEKDAY: i64 = 3;

/// The label of people whose time zone is unknown.
const UNKNOWN_ZONE: &str = "unknown";

/// The sums of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PeriodSummary {
    /// The sums of each channel with messages, over its days.
    pub(super) channels: BTreeMap<ChannelId, ChannelTotal>,
    /// The sums of each person, over channels and days.
    pub(super) people: BTreeMap<String, PersonDay>,
    /// Messages by weekday, Monday first, and hour in the author's time zone.
    pub(super) hours: [[u64; 24]; 7],
    /// The sums by the author's time zone.
    pub(super) zones: BTreeMap<String, ZoneRow>,
    /// The sums over channels and people.
    pub(super) total: PersonDay,
    pub(super) bot_messages: u64,
    pub(super) emoji: BTreeMap<String, u64>,
    /// Roots with a reply in the period.
    pub(super) threads: u64,
    /// The messages with the most reactions.
    pub(super) most_reacted: Vec<(ChannelId, Ts, u64)>,
}

/// A summary while channels are added.
pub(super) struct Summing<'p> {
    summary: PeriodSummary,
    /// Without people, the summary only has what a report shows of the previous period: no hours, time zones,
    /// emoji and top messages.
    people: Option<&'p People>,
    /// The sums of people, with their time zone's offset from UTC in minutes.
    totals: HashMap<String, (PersonDay, i64)>,
}

/// The sums of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChannelTotal {
    /// The sums over its people.
    pub(super) total: PersonDay,
    /// Number of people who posted.
    pub(super) posters: u64,
}

impl<'p> Summing<'p> {
    pub(super) fn new(people: Option<&'p People>) -> Self {
        Self { summary: PeriodSummary::default(), people, totals: HashMap::new() }
    }

    /// Returns the summary of all added channels.
    pub(super) fn finish(self) -> PeriodSummary {
        let Self { mut summary, people, totals } = self;
        summary.people = totals.into_iter().map(|(id, (person, _))| (id, person)).collect();
        let by_rank = |one: &(ChannelId, Ts, u64), other: &(ChannelId, Ts, u64)| {
            other.2.cmp(&one.2).then_with(|| (&one.1, &one.0).cmp(&(&other.1, &other.0)))
        };
        summary.most_reacted.sort_by(by_rank);
        summary.most_reacted.truncate(TOP);
        if let Some(people) = people {
            summary.add_zones(people);
        }
        summary
    }

    /// Adds a channel, if it has any days.
    pub(super) fn add(&mut self, CountedChannel { channel, days, .. }: &CountedChannel) {
        if days.is_empty() {
            return;
        }
        let Self { summary, people, totals } = self;
        let mut channel_total = ChannelTotal::default();
        let (mut posters, mut threads) = (HashSet::new(), HashSet::new());
        for (day, figures) in days {
            for (id, person) in &figures.people {
                if !totals.contains_key(id) {
                    let offset = people.and_then(|people| people.get(id)?.offset_minutes);
                    totals.insert(id.clone(), (PersonDay::default(), offset.unwrap_or_default()));
                }
                let Some((total, offset_minutes)) = totals.get_mut(id) else { continue };
                total.add_counts(person);
                channel_total.total.add_counts(person);
                if person.messages > 0 {
                    posters.insert(id.as_str());
                }
                if people.is_some() {
                    summary.add_hours(*day, person, *offset_minutes);
                }
            }
            summary.bot_messages += figures.bot_messages;
            threads.extend(figures.threads.keys());
            if people.is_some() {
                for (name, count) in &figures.emoji {
                    *summary.emoji.entry(name.clone()).or_default() += count;
                }
                let reacted =
                    figures.most_reacted.iter().map(|(ts, count)| (channel.clone(), ts.clone(), *count));
                summary.most_reacted.extend(reacted);
            }
        }
        summary.threads += threads.len() as u64;
        channel_total.posters = posters.len() as u64;
        summary.total.add_counts(&channel_total.total);
        summary.channels.insert(channel.clone(), channel_total);
    }
}

impl PeriodSummary {
    /// Adds a day's messages to the hours in their author's time zone, with the author's current offset, as
    /// the seed intends. If the offset is unknown, uses UTC.
    fn add_hours(&mut self, day: i64, person: &PersonDay, offset_minutes: i64) {
        for (quarter, messages, _) in &person.quarters {
            let minute = (day + EPOCH_WEEKDAY) * DAY + i64::from(*quarter) * 15 + offset_minutes;
            let minute = minute.rem_euclid(WEEK);
            let index = |minutes: i64| usize::try_from(minutes).unwrap_or_default();
            self.hours[index(minute / DAY)][index(minute % DAY / 60)] += messages;
        }
    }

    fn add_zones(&mut self, people: &People) {
        for (id, person) in self.people.iter().filter(|(_, person)| person.messages > 0) {
            let zone = people.get(id).and_then(|person| person.tz.as_deref()).unwrap_or(UNKNOWN_ZONE);
            let new = || ZoneRow { zone: zone.to_owned(), ..ZoneRow::default() };
            let row = self.zones.entry(zone.to_owned()).or_insert_with(new);
            row.people += 1;
            row.messages += person.messages;
            row.words += person.words;
        }
    }

    /// Returns the people who posted, most messages first, then by id.
    pub(super) fn posters(&self) -> Vec<(&str, &PersonDay)> {
        let posted = self.people.iter().filter(|(_, person)| person.messages > 0);
        let mut posters: Vec<_> = posted.map(|(id, person)| (id.as_str(), person)).collect();
        posters.sort_by(|one, other| other.1.messages.cmp(&one.1.messages).then(one.0.cmp(other.0)));
        posters
    }

    /// Returns the channels in which people posted, most messages first, then by id.
    pub(super) fn channels_used(&self) -> Vec<(&ChannelId, &ChannelTotal)> {
        let mut channels: Vec<_> =
            self.channels.iter().filter(|(_, channel_total)| channel_total.total.messages > 0).collect();
        channels
            .sort_by(|one, other| other.1.total.messages.cmp(&one.1.total.messages).then(one.0.cmp(other.0)));
        channels
    }

    /// Returns the median over the posters.
    pub(super) fn median(&self, count: impl Fn(&PersonDay) -> u64) -> Option<f64> {
        let mut counts: Vec<u64> = self.posters().into_iter().map(|(_, person)| count(person)).collect();
        counts.sort_unstable();
        let middle = counts.len() / 2;
        match counts.len() {
            0 => None,
            length if length % 2 == 1 => Some(counts[middle] as f64),
            _ => Some((counts[middle - 1] + counts[middle]) as f64 / 2.0),
        }
    }

    /// Returns the share of the ten most active posters in all messages.
    pub(super) fn top_ten_share(&self) -> Option<f64> {
        let top: u64 = self.posters().iter().take(10).map(|(_, person)| person.messages).sum();
        (self.total.messages > 0).then(|| top as f64 / self.total.messages as f64)
    }

    /// Returns the smallest number of posters who wrote half of all words.
    pub(super) fn half_of_words(&self) -> u64 {
        let mut words: Vec<u64> = self.people.values().map(|person| person.words).collect();
        words.sort_unstable_by(|one, other| other.cmp(one));
        let (mut sum, mut people) = (0, 0);
        for words in words.into_iter().filter(|words| *words > 0) {
            if sum * 2 >= self.total.words {
                break;
            }
            sum += words;
            people += 1;
        }
        people
    }
}

/// Returns the number of all accounts of this workspace, and of those of people who can post today.
pub(super) fn accounts(people: &People) -> (u64, u64) {
    let count = |counts: &dyn Fn(AuthorKind) -> bool| {
        people.iter().filter(|(_, PersonFacts { kind, .. })| counts(*kind)).count() as u64
    };
    (count(&AuthorKind::is_of_workspace), count(&AuthorKind::is_active))
}
