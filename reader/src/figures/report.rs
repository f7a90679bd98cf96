//! A report: the figures of a period and of the previous period, as one value.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use rules::figures::partners::{CountByPerson, Partners};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::period::Period;

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Team,
    Channel(ChannelId),
    User(UserId),
}

impl Scope {
    /// The scope as part of a report's id.
    pub fn id(&self) -> String {
        match self {
            Self::Team => "team".to_owned(),
            Self::Channel(channel) => format!("channel/{channel}"),
            Self::User(user) => format!("user/{user}"),
        }
    }

    /// The id of a report, unique in its workspace.
    pub(super) fn report_id(&self, period: &Period) -> String {
        let [from, to] = period.bounds();
        format!("{}/{from}/{to}", self.id())
    }
}

/// The name of a figure, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureName {
    /// Current accounts of the workspace, including those of apps and deactivated people.
    AllUsers,
    /// Current people of the workspace, including guests.
    ActiveUsers,
    /// People who posted.
    Posters,
    Messages,
    Words,
    /// The median number of messages per poster.
    MedianMessages,
    /// The median number of words per poster.
    MedianWords,
    /// The share of the ten most active posters in all messages.
    TopTenShare,
    /// The smallest number of posters who wrote half of all words.
    HalfOfWords,
    /// Posters without a known earlier message.
    FirstTimePosters,
    /// Channels in which people posted.
    ChannelsUsed,
    /// Reactions to their messages.
    Reactions,
    /// Replies among their messages.
    Replies,
    /// Messages with replies in the period.
    Threads,
    /// Messages of apps. No other figure includes them.
    BotMessages,
}

impl FigureName {
    /// All figures.
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

    /// The name for scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.names().0
    }

    /// The label for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.names().1
    }

    /// The name for scripts, and the label for people.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::AllUsers => ("all_users", "accounts"),
            Self::ActiveUsers => ("active_users", "active people"),
            Self::Posters => ("posters", "people who posted"),
            Self::Messages => ("messages", "messages"),
            Self::Words => ("words", "words"),
            Self::MedianMessages => ("median_messages", "median messages a person"),
            Self::MedianWords => ("median_words", "median words a person"),
            Self::TopTenShare => ("top_ten_share", "share of the top ten"),
            Self::HalfOfWords => ("half_of_words", "people who wrote half of it"),
            Self::FirstTimePosters => ("first_time_posters", "posted for the first time"),
            Self::ChannelsUsed => ("channels_used", "channels in use"),
            Self::Reactions => ("reactions", "reactions"),
            Self::Replies => ("replies", "replies"),
            Self::Threads => ("threads", "threads"),
            Self::BotMessages => ("bot_messages", "messages of apps"),
        }
    }

    /// Whether the figure is a count, not a median or a share.
    pub(super) fn is_count(self) -> bool {
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
}

/// A number. Counts are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Count(u64),
    /// A median or a share.
    Real(f64),
}

impl Number {
    /// The number as a floating-point number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Real(real) => real,
        }
    }
}

/// A figure of the period and of the previous one; unknown values are missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// In this period.
    pub value: Option<Number>,
    /// In the previous period.
    pub previous: Option<Number>,
}

impl Figure {
    /// The difference from the previous value.
    pub fn delta(&self) -> Option<Number> {
        Some(match (self.value?, self.previous?) {
            (Number::Count(value), Number::Count(previous)) if value >= previous => {
                Number::Count(value - previous)
            }
            (value, previous) => Number::Real(value.as_f64() - previous.as_f64()),
        })
    }

    /// The difference in percent of the previous value; `None` if that was 0 or is unknown.
    pub fn percent(&self) -> Option<f64> {
        let previous = self.previous?.as_f64();
        (previous != 0.0).then_some(self.delta()?.as_f64() / previous * 100.0)
    }
}

/// A row of the table of channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedChannel {
    /// The rank, starting at 1.
    pub rank: usize,
    #[serde(rename = "channel_id")]
    pub channel: ChannelId,
    /// The channel's name.
    pub name: Option<String>,
    /// Messages of people in the channel.
    pub messages: u64,
    /// Messages of people in the previous period.
    #[serde(rename = "previous_messages")]
    pub previous: u64,
    /// Words in the messages.
    pub words: u64,
    /// Number of people who posted.
    pub posters: u64,
    /// The channel's share of all messages, from 0 to 1.
    pub share: f64,
    /// The share of this row and all rows above it.
    pub cumulative_share: f64,
}

/// A row of the table of people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonRow {
    /// The rank, starting at 1.
    pub rank: usize,
    /// The person's id.
    #[serde(rename = "user_id")]
    pub user: String,
    /// The person's name.
    pub name: Option<String>,
    /// The kind of author.
    pub kind: String,
    pub messages: u64,
    /// Their messages in the previous period.
    #[serde(rename = "previous_messages")]
    pub previous: u64,
    /// Words in their messages.
    pub words: u64,
    /// Replies among their messages.
    pub replies: u64,
    /// Reactions to their messages.
    pub reactions_received: u64,
    /// Reactions that they added.
    pub reactions_given: u64,
    /// Messages of others that mention them.
    pub mentions_received: u64,
    /// Replies of others to threads that they started.
    pub replies_received: u64,
    /// Their share of all messages, from 0 to 1.
    pub share: f64,
    /// The share of this row and all rows above it.
    pub cumulative_share: f64,
}

/// The activity of the people in one time zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneRow {
    /// The zone, or `unknown`.
    #[serde(rename = "tz")]
    pub zone: String,
    /// Number of people who posted.
    pub people: u64,
    pub messages: u64,
    pub words: u64,
}

/// A message with the most reactions or replies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TopMessage {
    /// The message's channel.
    #[serde(rename = "channel_id")]
    pub channel: ChannelId,
    #[serde(rename = "channel")]
    pub channel_name: Option<String>,
    /// When it was posted.
    pub ts: Ts,
    /// The author's id.
    #[serde(rename = "user_id")]
    pub user: Option<String>,
    /// The author's name.
    #[serde(rename = "user")]
    pub user_name: Option<String>,
    /// Number of reactions or replies.
    #[serde(alias = "reactions", alias = "replies")]
    pub count: u64,
    /// The link to the message in Slack.
    pub permalink: String,
    /// How it begins, if [`super::excerpts::add`] has read it.
    #[serde(skip)]
    pub excerpt: Option<String>,
}

/// The number of messages of one period in a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodMessages {
    pub period: Period,
    pub messages: u64,
}

/// The figures of a period.
#[derive(Debug, Clone, PartialEq)]
pub struct FiguresReport {
    pub team: TeamId,
    /// The workspace's name.
    pub team_name: Option<String>,
    pub scope: Scope,
    /// The name of the channel or person; `None` for a workspace.
    pub scope_name: Option<String>,
    pub period: Period,
    /// A hash that changes if the report's content changes.
    pub basis: String,
    pub figures: BTreeMap<FigureName, Figure>,
    /// The messages of this period and of the eleven before it, oldest first. It is empty if the period has no trend or
    /// if that would need too many reads.
    pub trend: Vec<PeriodMessages>,
    /// Channels in which people posted, most messages first.
    pub channels: Vec<RankedChannel>,
    /// People who posted, most messages first.
    pub users: Vec<PersonRow>,
    /// Messages by weekday, Monday first, and hour in the author's time zone.
    pub hours: [[u64; 24]; 7],
    /// Time zones, most messages first.
    pub timezones: Vec<ZoneRow>,
    /// Emoji of reactions, most used first.
    pub emoji: Vec<(String, u64)>,
    /// The messages with the most reactions.
    pub most_reacted: Vec<TopMessage>,
    /// The messages with the most replies, until now.
    pub most_replied: Vec<TopMessage>,
    /// In the report of a person: the people whom the person interacts with.
    pub partners: Option<Partners>,
    /// The names of the people in `partners`, by id.
    pub names: BTreeMap<String, String>,
    /// Days on which messages may be missing.
    pub incomplete_days: Vec<String>,
    /// Days whose messages a retention rule has removed.
    pub expired_days: Vec<String>,
    /// Whether the period is over.
    pub is_over: bool,
}

impl FiguresReport {
    /// The report's id, unique in its workspace.
    pub fn id(&self) -> String {
        self.scope.report_id(&self.period)
    }

    /// Returns a figure; its values are missing if the report does not contain it.
    pub fn figure(&self, name: FigureName) -> Figure {
        self.figures.get(&name).copied().unwrap_or(Figure { value: None, previous: None })
    }

    /// The trend from its first period with messages on, if it has at least three periods.
    pub fn shown_trend(&self) -> &[PeriodMessages] {
        let first = self.trend.iter().position(|counted| counted.messages > 0).unwrap_or(self.trend.len());
        if self.trend.len() - first < 3 { &[] } else { &self.trend[first..] }
    }

    /// Messages by hour over all weekdays.
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
    pub fn by_weekday(&self) -> [u64; 7] {
        self.hours.map(|day| day.iter().sum())
    }

    /// Returns the ten most frequent partners.
    pub fn most_frequent(counts: &CountByPerson) -> Vec<(&str, u64)> {
        let mut partners: Vec<(&str, u64)> = counts.iter().map(|(id, count)| (id.as_str(), *count)).collect();
        partners.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        partners.truncate(10);
        partners
    }
}
