//! The figures of one period of a recount.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{RecountMessage, RecountRows, RecountScope};

/// One of the two periods.
pub(super) struct RecountPart<'a> {
    pub(super) rows: &'a RecountRows,
    pub(super) scope: RecountScope,
    /// All messages of the scope, at any time.
    pub(super) all: &'a [RecountMessage<'a>],
    pub(super) from: i64,
    pub(super) to: i64,
}

impl RecountPart<'_> {
    fn is_within(&self, message: &RecountMessage<'_>) -> bool {
        message.micros >= self.from && message.micros < self.to
    }

    /// The messages of all people in this period.
    fn all_counted(&self) -> Vec<&RecountMessage<'_>> {
        self.all.iter().filter(|message| message.counts() && self.is_within(message)).collect()
    }

    /// The messages that the report is about.
    fn own(&self) -> Vec<&RecountMessage<'_>> {
        self.all_counted().into_iter().filter(|message| self.scope.includes(message.author())).collect()
    }

    fn posters(&self) -> BTreeSet<&str> {
        self.own().into_iter().map(RecountMessage::author).collect()
    }

    fn sum_of(&self, user: &str, count: impl Fn(&RecountMessage<'_>) -> u64) -> u64 {
        self.own().into_iter().filter(|message| message.author() == user).map(count).sum()
    }

    fn sums(&self, count: impl Fn(&RecountMessage<'_>) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = self.posters().into_iter().map(|user| self.sum_of(user, &count)).collect();
        sums.sort_unstable();
        sums
    }

    pub(super) fn figure(&self, name: &str) -> Value {
        let own = self.own();
        let sum = |count: &dyn Fn(&RecountMessage<'_>) -> u64| {
            own.iter().map(|message| count(message)).sum::<u64>()
        };
        let kinds = self.rows.kinds();
        match name {
            "all_users" => kinds.iter().filter(|kind| **kind != "stranger").count().into(),
            "active_users" => kinds.iter().filter(|kind| ["member", "guest"].contains(kind)).count().into(),
            "posters" => self.posters().len().into(),
            "messages" => own.len().into(),
            "words" => sum(&|message| message.words).into(),
            "median_messages" => median(&self.sums(|_| 1)),
            "median_words" => median(&self.sums(|message| message.words)),
            "top_ten_share" if own.is_empty() => Value::Null,
            "top_ten_share" => {
                let top: u64 = self.sums(|_| 1).iter().rev().take(10).sum();
                (top as f64 / own.len() as f64).into()
            }
            "half_of_words" => {
                let sums = self.sums(|message| message.words);
                let whole: u64 = sums.iter().sum();
                let most = |people: usize| sums.iter().rev().take(people).sum::<u64>();
                (0..).find(|people| most(*people) * 2 >= whole).into()
            }
            "first_time_posters" => {
                let wrote_before = |user: &str| {
                    let theirs = |message: &&RecountMessage<'_>| message.author() == user && !message.is_bot;
                    self.all.iter().filter(theirs).any(|message| message.micros < self.from)
                };
                self.posters().into_iter().filter(|user| !wrote_before(user)).count().into()
            }
            "channels_used" => {
                own.iter().map(|message| message.channel).collect::<BTreeSet<_>>().len().into()
            }
            "reactions" => sum(&|message| message.reactions.len() as u64).into(),
            "replies" => sum(&|message| u64::from(message.root.is_some())).into(),
            "threads" => {
                let threads = own.iter().filter_map(|message| Some((message.channel, message.root?)));
                threads.collect::<BTreeSet<_>>().len().into()
            }
            "bot_messages" => {
                let bots = self.all.iter().filter(|message| message.is_bot && !message.is_deleted);
                let of_scope = bots.filter(|message| self.scope.includes(message.author()));
                of_scope.filter(|message| self.is_within(message)).count().into()
            }
            _ => panic!("{name}"),
        }
    }

    pub(super) fn channels(&self, before: &Self) -> Vec<Value> {
        let own = self.own();
        let count_in = |channel: &str| own.iter().filter(|message| message.channel == channel).count();
        let mut channels: Vec<&str> = own.iter().map(|message| message.channel).collect();
        channels.sort_unstable_by_key(|channel| (Reverse(count_in(channel)), *channel));
        channels.dedup();
        let mut above = 0;
        let row = |(index, channel): (usize, &str)| {
            let posters =
                own.iter().filter(|message| message.channel == channel).map(|message| message.author());
            above += count_in(channel);
            json!({ "rank": index + 1, "channel_id": channel, "name": null, "messages": count_in(channel),
                "previous_messages": before.own().iter().filter(|message| message.channel == channel).count(),
                "words": own.iter().filter(|message| message.channel == channel).map(|message| message.words).sum::<u64>(),
                "posters": posters.collect::<BTreeSet<_>>().len(),
                "share": count_in(channel) as f64 / own.len() as f64,
                "cumulative_share": above as f64 / own.len() as f64 })
        };
        channels.into_iter().enumerate().map(row).collect()
    }

    pub(super) fn users(&self, before: &Self) -> Vec<Value> {
        let all_counted = self.all_counted();
        let count_by = |user: &str| all_counted.iter().filter(|message| message.author() == user).count();
        let mut users: Vec<&str> = all_counted.iter().map(|message| message.author()).collect();
        users.sort_unstable_by_key(|user| (Reverse(count_by(user)), *user));
        users.dedup();
        let mut above = 0;
        let mut rows = Vec::new();
        for (index, user) in users.into_iter().enumerate() {
            above += count_by(user);
            let whole = all_counted.len() as f64;
            let row = json!({ "rank": index + 1, "user_id": user, "name": self.rows.name(user),
                "kind": self.rows.kind(user), "messages": count_by(user), "previous_messages": before.sum_of(user, |_| 1),
                "words": self.sum_of(user, |message| message.words),
                "replies": self.sum_of(user, |message| u64::from(message.root.is_some())),
                "reactions_received": self.sum_of(user, |message| message.reactions.len() as u64),
                "reactions_given": all_counted.iter().flat_map(|message| &message.reactions).filter(|(_, by)| *by == user).count(),
                "mentions_received": all_counted.iter().filter(|message| message.mentions.contains(user)).count(),
                "replies_received": self.replies_to(user).len(),
                "share": count_by(user) as f64 / whole, "cumulative_share": above as f64 / whole });
            rows.extend(self.scope.includes(user).then_some(row));
        }
        rows
    }

    /// Replies of other people to a person's messages.
    fn replies_to(&self, user: &str) -> Vec<&RecountMessage<'_>> {
        let all_counted = self.all_counted();
        let others = all_counted.iter().filter(|message| message.author() != user);
        others
            .filter(|message| self.rows.root_author(message, &all_counted).as_deref() == Some(user))
            .copied()
            .collect()
    }

    pub(super) fn timezones(&self) -> Vec<Value> {
        let mut zones: BTreeMap<&str, (BTreeSet<&str>, u64, u64)> = BTreeMap::new();
        for message in self.own() {
            let zone = self.rows.person(message.author()).and_then(|person| person["tz"].as_str());
            let (people, messages, words) = zones.entry(zone.unwrap_or("unknown")).or_default();
            people.insert(message.author());
            *messages += 1;
            *words += message.words;
        }
        let mut rows: Vec<_> = zones.into_iter().collect();
        rows.sort_by_key(|(zone, (_, messages, _))| (Reverse(*messages), *zone));
        let row = |(zone, (people, messages, words)): (&str, (BTreeSet<&str>, u64, u64))| json!({ "tz": zone, "people": people.len(), "messages": messages, "words": words });
        rows.into_iter().map(row).collect()
    }

    pub(super) fn emoji(&self) -> Vec<Value> {
        let counts =
            counts(self.own().into_iter().flat_map(|message| &message.reactions).map(|(name, _)| *name));
        counts.into_iter().map(|(name, count)| json!({ "name": name, "count": count })).collect()
    }

    /// Messages by weekday and hour of the author's local time.
    pub(super) fn weekday_hours(&self) -> [[u64; 24]; 7] {
        let mut hours = [[0; 24]; 7];
        for message in self.own() {
            let ahead = self.rows.person(message.author()).and_then(|person| person["tz_offset"].as_i64());
            let local = message.micros / 1_000_000 + ahead.unwrap_or_default();
            // The first of January 1970 was a Thursday.
            let (day, hour) =
                ((local.div_euclid(86_400) + 3).rem_euclid(7), local.rem_euclid(86_400) / 3_600);
            hours[usize::try_from(day).unwrap()][usize::try_from(hour).unwrap()] += 1;
        }
        hours
    }

    pub(super) fn most_reacted(&self) -> Vec<Value> {
        let own = self.own().into_iter();
        self.top("reactions", own.map(|message| (message.reactions.len() as u64, message)).collect())
    }

    pub(super) fn most_replied(&self) -> Vec<Value> {
        let all_counted = self.all_counted();
        let is_replied_to = |root: &RecountMessage<'_>| {
            all_counted.iter().any(|message| message.channel == root.channel && message.root == Some(root.ts))
        };
        let roots = self.own().into_iter().filter(|message| message.is_root || is_replied_to(message));
        let replies = |message: &RecountMessage<'_>| self.rows.replies(message.channel, message.ts);
        self.top("replies", roots.map(|message| (replies(message), message)).collect())
    }

    fn top(&self, counted: &str, mut messages: Vec<(u64, &RecountMessage<'_>)>) -> Vec<Value> {
        messages.sort_by_key(|(count, message)| (Reverse(*count), message.ts, message.channel));
        let rows = messages.into_iter().filter(|(count, _)| *count > 0).take(10);
        rows.map(|(count, RecountMessage { channel, ts, .. })| {
            let user = &self.rows.row(&format!("message#T1#{channel}"), ts)["user"];
            json!({ "channel_id": channel, "channel": null, "ts": ts, "user_id": user,
                "user": self.rows.name(user.as_str().unwrap()), counted: count,
                "permalink": format!("https://slack.com/archives/{channel}/p{}", ts.replace('.', "")) })
        })
        .collect()
    }

    pub(super) fn partners(&self, user: &str) -> Value {
        let all_counted = self.all_counted();
        let of_others = || all_counted.iter().filter(|message| message.author() != user);
        let own = || all_counted.iter().filter(|message| message.author() == user);
        let root_authors: Vec<String> =
            own().filter_map(|message| self.rows.root_author(message, &all_counted)).collect();
        let rows = |people: Vec<&str>| -> Vec<Value> {
            let counts = counts(people.into_iter().filter(|id| *id != user)).into_iter().take(10);
            counts
                .map(|(id, count)| json!({ "user_id": id, "name": self.rows.name(id), "count": count }))
                .collect()
        };
        json!({
            "mentions": {
                "given": rows(own().flat_map(|message| message.mentions.iter().copied()).collect()),
                "received": rows(of_others().filter(|message| message.mentions.contains(user)).map(|message| message.author()).collect()),
            },
            "reactions": {
                "given": rows(of_others().flat_map(|message| message.reactions.iter().filter(move |(_, by)| *by == user).map(move |_| message.author())).collect()),
                "received": rows(own().flat_map(|message| &message.reactions).map(|(_, by)| *by).collect()),
            },
            "replies": {
                "given": rows(root_authors.iter().map(String::as_str).collect()),
                "received": rows(self.replies_to(user).into_iter().map(RecountMessage::author).collect()),
            },
        })
    }
}

/// How often each name occurs, the most frequent first, then by name.
fn counts<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (Reverse(*count), *name));
    counts
}

fn median(sorted: &[u64]) -> Value {
    match sorted.len() {
        0 => Value::Null,
        odd if odd % 2 == 1 => sorted[odd / 2].into(),
        even => ((sorted[even / 2 - 1] + sorted[even / 2]) as f64 / 2.0).into(),
    }
}
