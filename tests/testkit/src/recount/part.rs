//! The figures of one period of a recount.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{RecountMessage, RecountRows, RecountScope};

/// One of the two periods.
pub(super) struct RecountPart<'a> {
    pub(super) rows: &'a RecountRows,
    pub(super) of: RecountScope,
    /// Everything of the scope, at any time.
    pub(super) all: &'a [RecountMessage<'a>],
    pub(super) from: i64,
    pub(super) to: i64,
}

impl RecountPart<'_> {
    fn is_within(&self, told: &RecountMessage<'_>) -> bool {
        told.micros >= self.from && told.micros < self.to
    }

    /// Everyone's messages.
    fn everyones(&self) -> Vec<&RecountMessage<'_>> {
        self.all.iter().filter(|told| told.counts() && self.is_within(told)).collect()
    }

    /// The messages that the report is about.
    fn own(&self) -> Vec<&RecountMessage<'_>> {
        let own = self.everyones().into_iter();
        own.filter(|told| match self.of {
            RecountScope::User(user) => told.author() == user,
            RecountScope::Team | RecountScope::Channel(_) => true,
        })
        .collect()
    }

    fn posters(&self) -> BTreeSet<&str> {
        self.own().into_iter().map(RecountMessage::author).collect()
    }

    fn sum_of(&self, user: &str, count: impl Fn(&RecountMessage<'_>) -> u64) -> u64 {
        self.own().into_iter().filter(|told| told.author() == user).map(count).sum()
    }

    fn sums(&self, count: impl Fn(&RecountMessage<'_>) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = self.posters().into_iter().map(|user| self.sum_of(user, &count)).collect();
        sums.sort_unstable();
        sums
    }

    pub(super) fn figure(&self, name: &str) -> Value {
        let own = self.own();
        let sum =
            |count: &dyn Fn(&RecountMessage<'_>) -> u64| own.iter().map(|told| count(told)).sum::<u64>();
        let kinds = self.rows.kinds();
        match name {
            "all_users" => kinds.iter().filter(|kind| **kind != "stranger").count().into(),
            "active_users" => kinds.iter().filter(|kind| ["member", "guest"].contains(kind)).count().into(),
            "posters" => self.posters().len().into(),
            "messages" => own.len().into(),
            "words" => sum(&|told| told.words).into(),
            "median_messages" => median(&self.sums(|_| 1)),
            "median_words" => median(&self.sums(|told| told.words)),
            "top_ten_share" if own.is_empty() => Value::Null,
            "top_ten_share" => {
                let top: u64 = self.sums(|_| 1).iter().rev().take(10).sum();
                (top as f64 / own.len() as f64).into()
            }
            "half_of_words" => {
                let sums = self.sums(|told| told.words);
                let whole: u64 = sums.iter().sum();
                let most = |people: usize| sums.iter().rev().take(people).sum::<u64>();
                (0..).find(|people| most(*people) * 2 >= whole).into()
            }
            "first_time_posters" => {
                let wrote_before = |user: &str| {
                    let theirs = |told: &&RecountMessage<'_>| told.author() == user && !told.is_bot;
                    self.all.iter().filter(theirs).any(|told| told.micros < self.from)
                };
                self.posters().into_iter().filter(|user| !wrote_before(user)).count().into()
            }
            "channels_used" => own.iter().map(|told| told.channel).collect::<BTreeSet<_>>().len().into(),
            "reactions" => sum(&|told| told.reactions.len() as u64).into(),
            "replies" => sum(&|told| u64::from(told.root.is_some())).into(),
            "threads" => {
                let threads = own.iter().filter_map(|told| Some((told.channel, told.root?)));
                threads.collect::<BTreeSet<_>>().len().into()
            }
            "bot_messages" => {
                let bots = self.all.iter().filter(|told| told.is_bot && !told.is_deleted);
                let is_about = |told: &&RecountMessage<'_>| match self.of {
                    RecountScope::User(user) => told.author() == user,
                    RecountScope::Team | RecountScope::Channel(_) => true,
                };
                bots.filter(|told| self.is_within(told)).filter(is_about).count().into()
            }
            _ => panic!("{name}"),
        }
    }

    pub(super) fn channels(&self, before: &Self) -> Vec<Value> {
        let own = self.own();
        let of = |channel: &str| own.iter().filter(|told| told.channel == channel).count();
        let mut channels: Vec<&str> = own.iter().map(|told| told.channel).collect();
        channels.sort_unstable_by_key(|channel| (Reverse(of(channel)), *channel));
        channels.dedup();
        let mut above = 0;
        let row = |(place, channel): (usize, &str)| {
            let posters = own.iter().filter(|told| told.channel == channel).map(|told| told.author());
            above += of(channel);
            json!({ "rank": place + 1, "channel_id": channel, "name": null, "messages": of(channel),
                "previous_messages": before.own().iter().filter(|told| told.channel == channel).count(),
                "words": own.iter().filter(|told| told.channel == channel).map(|told| told.words).sum::<u64>(),
                "posters": posters.collect::<BTreeSet<_>>().len(),
                "share": of(channel) as f64 / own.len() as f64,
                "cumulative_share": above as f64 / own.len() as f64 })
        };
        channels.into_iter().enumerate().map(row).collect()
    }

    pub(super) fn users(&self, before: &Self) -> Vec<Value> {
        let everyones = self.everyones();
        let of = |user: &str| everyones.iter().filter(|told| told.author() == user).count();
        let mut users: Vec<&str> = everyones.iter().map(|told| told.author()).collect();
        users.sort_unstable_by_key(|user| (Reverse(of(user)), *user));
        users.dedup();
        let mut above = 0;
        let mut rows = Vec::new();
        for (place, user) in users.into_iter().enumerate() {
            above += of(user);
            let whole = everyones.len() as f64;
            let row = json!({ "rank": place + 1, "user_id": user, "name": self.rows.name(user),
                "kind": self.rows.kind(user), "messages": of(user), "previous_messages": before.sum_of(user, |_| 1),
                "words": self.sum_of(user, |told| told.words),
                "replies": self.sum_of(user, |told| u64::from(told.root.is_some())),
                "reactions_received": self.sum_of(user, |told| told.reactions.len() as u64),
                "reactions_given": everyones.iter().flat_map(|told| &told.reactions).filter(|(_, by)| *by == user).count(),
                "mentions_received": everyones.iter().filter(|told| told.mentions.contains(user)).count(),
                "replies_received": self.replies_to(user).len(),
                "share": of(user) as f64 / whole, "cumulative_share": above as f64 / whole });
            let is_shown = match self.of {
                RecountScope::User(of) => user == of,
                RecountScope::Team | RecountScope::Channel(_) => true,
            };
            rows.extend(is_shown.then_some(row));
        }
        rows
    }

    /// Replies of others to messages of a person.
    fn replies_to(&self, user: &str) -> Vec<&RecountMessage<'_>> {
        let everyones = self.everyones();
        let others = everyones.iter().filter(|told| told.author() != user);
        others
            .filter(|told| self.rows.root_author(told, &everyones).as_deref() == Some(user))
            .copied()
            .collect()
    }

    pub(super) fn timezones(&self) -> Vec<Value> {
        let mut zones: BTreeMap<&str, (BTreeSet<&str>, u64, u64)> = BTreeMap::new();
        for told in self.own() {
            let zone = self.rows.person(told.author()).and_then(|person| person["tz"].as_str());
            let (people, messages, words) = zones.entry(zone.unwrap_or("unknown")).or_default();
            people.insert(told.author());
            *messages += 1;
            *words += told.words;
        }
        let mut rows: Vec<_> = zones.into_iter().collect();
        rows.sort_by_key(|(zone, (_, messages, _))| (Reverse(*messages), *zone));
        let row = |(zone, (people, messages, words)): (&str, (BTreeSet<&str>, u64, u64))| json!({ "tz": zone, "people": people.len(), "messages": messages, "words": words });
        rows.into_iter().map(row).collect()
    }

    pub(super) fn emoji(&self) -> Vec<Value> {
        let counts = counts(self.own().into_iter().flat_map(|told| &told.reactions).map(|(name, _)| *name));
        counts.into_iter().map(|(name, count)| json!({ "name": name, "count": count })).collect()
    }

    /// By the weekday and hour that the author's clock had.
    pub(super) fn weekday_hours(&self) -> [[u64; 24]; 7] {
        let mut hours = [[0; 24]; 7];
        for told in self.own() {
            let ahead = self.rows.person(told.author()).and_then(|person| person["tz_offset"].as_i64());
            let local = told.micros / 1_000_000 + ahead.unwrap_or_default();
            // The first of January 1970 was a Thursday.
            let (day, hour) =
                ((local.div_euclid(86_400) + 3).rem_euclid(7), local.rem_euclid(86_400) / 3_600);
            hours[usize::try_from(day).unwrap()][usize::try_from(hour).unwrap()] += 1;
        }
        hours
    }

    pub(super) fn most_reacted(&self) -> Vec<Value> {
        let with = |told: &&RecountMessage<'_>| {
            (told.reactions.len() as u64, told.channel.to_owned(), told.ts.to_owned())
        };
        self.top("reactions", self.own().iter().map(with).collect())
    }

    pub(super) fn most_replied(&self) -> Vec<Value> {
        let is_replied_to = |root: &RecountMessage<'_>| {
            self.own().iter().any(|told| told.channel == root.channel && told.root == Some(root.ts))
        };
        let is_candidate = |told: &&&RecountMessage<'_>| match self.of {
            RecountScope::User(_) => told.is_root,
            RecountScope::Team | RecountScope::Channel(_) => told.is_root || is_replied_to(told),
        };
        let own = self.own();
        let roots = own.iter().filter(is_candidate);
        let with = |told: &&RecountMessage<'_>| {
            (self.rows.replies(told.channel, told.ts), told.channel.to_owned(), told.ts.to_owned())
        };
        self.top("replies", roots.map(with).collect())
    }

    fn top(&self, counted: &str, mut messages: Vec<(u64, String, String)>) -> Vec<Value> {
        messages.sort_by_key(|(count, channel, ts)| (Reverse(*count), ts.clone(), channel.clone()));
        let rows = messages.into_iter().filter(|(count, ..)| *count > 0).take(10);
        rows.map(|(count, channel, ts)| {
            let user = &self.rows.row(&format!("message#T1#{channel}"), &ts)["user"];
            json!({ "channel_id": channel, "channel": null, "ts": ts, "user_id": user,
                "user": self.rows.name(user.as_str().unwrap()), counted: count,
                "permalink": format!("https://slack.com/archives/{channel}/p{}", ts.replace('.', "")) })
        })
        .collect()
    }

    pub(super) fn partners(&self, user: &str) -> Value {
        let everyones = self.everyones();
        let of_others = || everyones.iter().filter(|told| told.author() != user);
        let own = || everyones.iter().filter(|told| told.author() == user);
        let root_authors: Vec<String> =
            own().filter_map(|told| self.rows.root_author(told, &everyones)).collect();
        let rows = |people: Vec<&str>| -> Vec<Value> {
            let counts = counts(people.into_iter().filter(|id| *id != user)).into_iter().take(10);
            counts
                .map(|(id, count)| json!({ "user_id": id, "name": self.rows.name(id), "count": count }))
                .collect()
        };
        json!({
            "mentions": {
                "given": rows(own().flat_map(|told| told.mentions.iter().copied()).collect()),
                "received": rows(of_others().filter(|told| told.mentions.contains(user)).map(|told| told.author()).collect()),
            },
            "reactions": {
                "given": rows(of_others().flat_map(|told| told.reactions.iter().filter(move |(_, by)| *by == user).map(move |_| told.author())).collect()),
                "received": rows(own().flat_map(|told| &told.reactions).map(|(_, by)| *by).collect()),
            },
            "replies": {
                "given": rows(root_authors.iter().map(String::as_str).collect()),
                "received": rows(self.replies_to(user).into_iter().map(RecountMessage::author).collect()),
            },
        })
    }
}

/// How often each occurs, most often first, then by name.
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
