//! A report: the figures of a period beside those of the period before, as one value.

use std::collections::BTreeMap;

use rules::figures::partners::{CountByPerson, Partners};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::period::Period;

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A workspace.
    Team,
    /// A channel.
    Channel(ChannelId),
    /// A person.
    User(UserId),
}

impl Scope {
    /// As it stands in a report's id.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Team => "team".to_owned(),
            Self::Channel(channel) => format!("channel/{channel}"),
            Self::User(user) => format!("user/{user}"),
        }
    }
}

impl Scope {
    /// What identifies a report among those of its workspace.
    pub(super) fn report_id(&self, period: &Period) -> String {
        let [from, to] = period.bounds();
        format!("{}/{from}/{to}", self.id())
    }
}

/// A figure's name, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureName {
    /// Accounts of the workspace, of apps and of deactivated people too. As of now.
    AllUsers,
    /// People of the workspace, guests included. As of now.
    ActiveUsers,
    /// People who posted.
    Posters,
    /// Their messages.
    Messages,
    /// The words in them.
    Words,
    /// Messages of the poster in the middle.
    MedianMessages,
    /// Words of the poster in the middle.
    MedianWords,
    /// What part of all messages the ten most active posters wrote.
    TopTenShare,
    /// How few posters wrote half of all words.
    HalfOfWords,
    /// Posters who had never posted before, as far as is known.
    FirstTimePosters,
    /// Channels in which people posted.
    ChannelsUsed,
    /// Reactions to their messages.
    Reactions,
    /// Replies among their messages.
    Replies,
    /// Messages that were replied to.
    Threads,
    /// Messages of apps, which are in no other figure.
    BotMessages,
}

impl FigureName {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::AllUsers,
        Self::ActiveUsers,
        Self::Posters,
        Self::Messages,
        Self::Words,
        Self::MedianMessages,
        Self::MedianWords,
        Self::TopTenShare,
        Self::HalfOfWords,
        Self::FirstTimePosters,
        Self::ChannelsUsed,
        Self::Reactions,
        Self::Replies,
        Self::Threads,
        Self::BotMessages,
    ];

    /// As scripts read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllUsers => "all_users",
            Self::ActiveUsers => "active_users",
            Self::Posters => "posters",
            Self::Messages => "messages",
            Self::Words => "words",
            Self::MedianMessages => "median_messages",
            Self::MedianWords => "median_words",
            Self::TopTenShare => "top_ten_share",
            Self::HalfOfWords => "half_of_words",
            Self::FirstTimePosters => "first_time_posters",
            Self::ChannelsUsed => "channels_used",
            Self::Reactions => "reactions",
            Self::Replies => "replies",
            Self::Threads => "threads",
            Self::BotMessages => "bot_messages",
        }
    }

    /// Whether it is a count, and no median or share.
    #[must_use]
    pub fn is_count(self) -> bool {
        match self {
            Self::MedianMessages | Self::MedianWords | Self::TopTenShare => false,
            Self::AllUsers
            | Self::ActiveUsers
            | Self::Posters
            | Self::Messages
            | Self::Words
            | Self::HalfOfWords
            | Self::FirstTimePosters
            | Self::ChannelsUsed
            | Self::Reactions
            | Self::Replies
            | Self::Threads
            | Self::BotMessages => true,
        }
    }

    /// As people read it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::AllUsers => "accounts",
            Self::ActiveUsers => "active people",
            Self::Posters => "people who posted",
            Self::Messages => "messages",
            Self::Words => "words",
            Self::MedianMessages => "median messages a person",
            Self::MedianWords => "median words a person",
            Self::TopTenShare => "share of the top ten",
            Self::HalfOfWords => "people who wrote half of it",
            Self::FirstTimePosters => "posted for the first time",
            Self::ChannelsUsed => "channels in use",
            Self::Reactions => "reactions",
            Self::Replies => "replies",
            Self::Threads => "threads",
            Self::BotMessages => "messages of apps",
        }
    }
}

/// A number; counts are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// How many.
    Count(u64),
    /// A median or a share.
    Real(f64),
}

impl Number {
    /// As a real number.
    #[must_use]
    pub fn real(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Real(real) => real,
        }
    }
}

/// A figure beside that of the period before; what is unknown is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// In this period.
    pub value: Option<Number>,
    /// In the period before.
    pub previous: Option<Number>,
}

impl Figure {
    /// By how much it grew.
    #[must_use]
    pub fn delta(&self) -> Option<Number> {
        Some(match (self.value?, self.previous?) {
            (Number::Count(value), Number::Count(previous)) if value >= previous => {
                Number::Count(value - previous)
            }
            (value, previous) => Number::Real(value.real() - previous.real()),
        })
    }

    /// By how many percent; `None` if there was nothing before.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        let previous = self.previous?.real();
        (previous != 0.0).then_some(self.delta()?.real() / previous * 100.0)
    }
}

/// A row of the table of channels.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedChannel {
    /// Its place, from 1.
    pub rank: usize,
    /// The channel.
    pub channel: ChannelId,
    /// What it is called.
    pub name: Option<String>,
    /// Messages of people in it, and in the period before.
    pub messages: u64,
    /// The same in the period before.
    pub previous: u64,
    /// Words in them.
    pub words: u64,
    /// People who posted in it.
    pub posters: u64,
    /// Its part of all messages.
    pub share: f64,
    /// Its part together with all above it.
    pub cumulative_share: f64,
}

/// A row of the table of people.
#[derive(Debug, Clone, PartialEq)]
pub struct PersonRow {
    /// Their place, from 1.
    pub rank: usize,
    /// Their id.
    pub user: String,
    /// What they are called.
    pub name: Option<String>,
    /// Which kind of author they are.
    pub kind: &'static str,
    /// Their messages.
    pub messages: u64,
    /// Their messages in the period before.
    pub previous: u64,
    /// Words in them.
    pub words: u64,
    /// Replies among them.
    pub replies: u64,
    /// Reactions to them.
    pub reactions_received: u64,
    /// Reactions that they gave.
    pub reactions_given: u64,
    /// Messages of others that mention them.
    pub mentions_received: u64,
    /// Replies of others to threads that they began.
    pub replies_received: u64,
    /// Their part of all messages.
    pub share: f64,
    /// Their part together with all above them.
    pub cumulative_share: f64,
}

/// What people of one time zone wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneRow {
    /// The zone, or `unknown`.
    pub zone: String,
    /// How many people posted.
    pub people: u64,
    /// Their messages.
    pub messages: u64,
    /// Their words.
    pub words: u64,
}

/// A message that stands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopMessage {
    /// Its channel.
    pub channel: ChannelId,
    /// What that is called.
    pub channel_name: Option<String>,
    /// When it was posted.
    pub ts: Ts,
    /// Who wrote it.
    pub user: Option<String>,
    /// What they are called.
    pub user_name: Option<String>,
    /// How many reactions or replies.
    pub count: u64,
    /// Where it is in Slack.
    pub permalink: String,
}

/// The figures of a period.
#[derive(Debug, Clone, PartialEq)]
pub struct FiguresReport {
    /// The workspace.
    pub team: TeamId,
    /// What that is called.
    pub team_name: Option<String>,
    /// What it is about.
    pub scope: Scope,
    /// What that is called, unless it is the workspace.
    pub scope_name: Option<String>,
    /// From when to when.
    pub period: Period,
    /// Changes if anything in it changes.
    pub basis: String,
    /// The figures.
    pub figures: BTreeMap<FigureName, Figure>,
    /// Channels in which people posted, most messages first.
    pub channels: Vec<RankedChannel>,
    /// People who posted, most messages first.
    pub users: Vec<PersonRow>,
    /// Messages by weekday, Monday first, and hour of each author's own clock.
    pub hours: [[u64; 24]; 7],
    /// Time zones, most messages first.
    pub timezones: Vec<ZoneRow>,
    /// Emoji of reactions, most used first.
    pub emoji: Vec<(String, u64)>,
    /// The messages with the most reactions.
    pub most_reacted: Vec<TopMessage>,
    /// The messages with the most replies, until now.
    pub most_replied: Vec<TopMessage>,
    /// Of a person: who has to do with them.
    pub partners: Option<Partners>,
    /// What the people are called who occur.
    pub names: BTreeMap<String, String>,
    /// Days of which something may be missing.
    pub incomplete_days: Vec<String>,
    /// Whether the period is over.
    pub is_over: bool,
}

impl FiguresReport {
    /// What identifies it among the reports of its workspace.
    #[must_use]
    pub fn id(&self) -> String {
        self.scope.report_id(&self.period)
    }

    /// A figure of it.
    #[must_use]
    pub fn figure(&self, name: FigureName) -> Figure {
        self.figures.get(&name).copied().unwrap_or(Figure { value: None, previous: None })
    }

    /// Messages by hour over all weekdays.
    #[must_use]
    pub fn by_hour(&self) -> [u64; 24] {
        let mut by_hour = [0; 24];
        for day in &self.hours {
            for (sum, messages) in by_hour.iter_mut().zip(day) {
                *sum += messages;
            }
        }
        by_hour
    }

    /// Messages by weekday, Monday first.
    #[must_use]
    pub fn by_weekday(&self) -> [u64; 7] {
        self.hours.map(|day| day.iter().sum())
    }

    /// The most frequent of some partners, at most ten.
    #[must_use]
    pub fn most_frequent(counts: &CountByPerson) -> Vec<(&str, u64)> {
        let mut partners: Vec<(&str, u64)> = counts.iter().map(|(id, count)| (id.as_str(), *count)).collect();
        partners.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        partners.truncate(10);
        partners
    }
}
