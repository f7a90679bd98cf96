//! A report recounted from all rows of an archive in the plainest way: each figure scans all messages.
//! It shares no code with the production reports, only the rows, and supports one workspace, `T1`.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

mod part;

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::Item;
use serde_json::{Value, json};

use part::RecountPart;

const DAY_MICROS: i64 = 86_400_000_000;

/// The scope of a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RecountScope {
    Team,
    Channel(&'static str),
    User(&'static str),
}

impl RecountScope {
    /// Whether a report of this scope is about this author.
    fn includes(self, author: &str) -> bool {
        match self {
            Self::User(user) => author == user,
            Self::Team | Self::Channel(_) => true,
        }
    }
}

/// A message that counts in reports, read from its row.
struct RecountMessage<'a> {
    channel: &'a str,
    ts: &'a str,
    micros: i64,
    /// The author in the row; an app's own messages have none.
    author: Option<&'a str>,
    is_bot: bool,
    is_deleted: bool,
    words: u64,
    /// The mentioned people without the author.
    mentions: BTreeSet<&'a str>,
    /// Pairs of an emoji and the person who reacted with it.
    reactions: Vec<(&'a str, &'a str)>,
    root: Option<&'a str>,
    stated_root_author: Option<String>,
    is_root: bool,
}

impl RecountMessage<'_> {
    /// Whether a person wrote the message and it is not deleted.
    fn counts(&self) -> bool {
        !self.is_bot && !self.is_deleted
    }

    fn author(&self) -> &str {
        self.author.unwrap_or_default()
    }
}

/// All rows of a workspace.
pub struct RecountRows(BTreeMap<(String, String), Value>);

impl RecountRows {
    /// The rows as they are now.
    pub fn new(items: Vec<Item>) -> Self {
        let row = |item: Item| ((item.key.item_id, item.key.timestamp), Value::Object(item.attributes));
        Self(items.into_iter().map(row).collect())
    }

    fn row(&self, item_id: &str, timestamp: &str) -> &Value {
        self.0.get(&(item_id.to_owned(), timestamp.to_owned())).unwrap_or(&Value::Null)
    }

    /// A person's row, unless they are unknown or erased.
    fn person(&self, id: &str) -> Option<&Value> {
        Some(self.row("user#T1", id)).filter(|row| row.is_object() && row["erased"] != true)
    }

    fn name(&self, id: &str) -> Value {
        let person = self.person(id).unwrap_or(&Value::Null);
        let names = ["display_name", "real_name", "name"].map(|name| &person[name]);
        names.into_iter().find(|name| name.is_string()).cloned().unwrap_or_default()
    }

    fn kind(&self, id: &str) -> &'static str {
        let Some(person) = self.person(id) else { return "stranger" };
        let raw: Value = serde_json::from_str(person["raw_event"].as_str().unwrap_or("{}")).unwrap();
        if person["is_bot"] == true || raw["is_bot"] == true {
            "bot"
        } else if raw["is_stranger"] == true || raw["team_id"].as_str().is_some_and(|team| team != "T1") {
            "stranger"
        } else if person["deleted"] == true {
            "deleted"
        } else if raw["is_restricted"] == true {
            "guest"
        } else {
            "member"
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        let people = self.0.keys().filter(|(item_id, _)| item_id == "user#T1");
        let people = people.filter(|(_, id)| self.person(id).is_some());
        people.map(|(_, id)| self.kind(id)).collect()
    }

    /// The messages that count, including deleted ones and those of apps, ordered by channel and time.
    fn messages(&self) -> Vec<RecountMessage<'_>> {
        let mut messages = Vec::new();
        for ((item_id, ts), row) in &self.0 {
            let Some(channel) = item_id.strip_prefix("message#T1#") else { continue };
            let subtype = row["subtype"].as_str().unwrap_or("none");
            let is_written = ["none", "file_share", "thread_broadcast", "me_message", "bot_message"];
            if row["erased"] == true || !row["content_version"].is_string() || !is_written.contains(&subtype)
            {
                continue;
            }
            let author = row["user"].as_str().filter(|_| subtype != "bot_message");
            let is_by_app = author.is_none() || row["bot_id"].is_string();
            let is_bot = match author {
                None => true,
                Some(id) if self.person(id).is_some() => self.kind(id) == "bot",
                Some(_) => is_by_app,
            };
            let text = row["text"].as_str().unwrap_or_default();
            let mentions = text.split("<@").skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
            let mut reactions = Vec::new();
            for (register, state) in row.as_object().unwrap() {
                if let Some(("reaction", rest)) = register.split_once('#')
                    && state.as_str().unwrap().ends_with("/added")
                {
                    reactions.push(rest.rsplit_once('#').unwrap());
                }
            }
            let thread_ts = row["thread_ts"].as_str();
            let root = thread_ts.filter(|root| root != ts);
            let raw: Value = serde_json::from_str(row["raw_event"].as_str().unwrap_or("{}")).unwrap();
            messages.push(RecountMessage {
                channel,
                ts,
                micros: ts.replace('.', "").parse().unwrap(),
                author,
                is_bot,
                is_deleted: row["deleted"] == true,
                words: text.split_whitespace().count() as u64,
                mentions: mentions.filter(|id| Some(*id) != author).collect(),
                reactions,
                root,
                stated_root_author: raw["parent_user_id"]
                    .as_str()
                    .filter(|_| root.is_some())
                    .map(str::to_owned),
                is_root: thread_ts == Some(ts.as_str()),
            });
        }
        messages
    }

    /// The author of the reply's root: from the root's row, otherwise from the replies of that day to the
    /// root.
    fn root_author(&self, reply: &RecountMessage<'_>, all_counted: &[&RecountMessage<'_>]) -> Option<String> {
        let root = self.row(&format!("message#T1#{}", reply.channel), reply.root?);
        if let Some(author) = root["user"].as_str() {
            return Some(author.to_owned());
        }
        let same_day = all_counted.iter().filter(|other| {
            (other.channel, other.root, other.micros / DAY_MICROS)
                == (reply.channel, reply.root, reply.micros / DAY_MICROS)
        });
        same_day.filter_map(|other| other.stated_root_author.clone()).min()
    }

    /// The number of replies in the archive, including those of apps and notices.
    fn replies(&self, channel: &str, root: &str) -> u64 {
        let rows = self.0.iter().filter(|((item_id, ts), row)| {
            *item_id == format!("message#T1#{channel}")
                && row["thread_ts"] == root
                && ts != root
                && row["content_version"].is_string()
                && row["deleted"] != true
        });
        rows.count() as u64
    }

    /// The figures of a report from `from` up to but not including `to`, in microseconds.
    ///
    /// # Panics
    /// If a row does not have the shape that workers write.
    pub fn report(&self, scope: RecountScope, from: i64, to: i64) -> Value {
        let all: Vec<RecountMessage<'_>> = self.messages();
        let all: Vec<RecountMessage<'_>> = match scope {
            RecountScope::Channel(channel) => {
                all.into_iter().filter(|message| message.channel == channel).collect()
            }
            RecountScope::Team | RecountScope::User(_) => all,
        };
        let before = from - (to - from);
        let now = RecountPart { rows: self, scope, all: &all, from, to };
        let then = RecountPart { rows: self, scope, all: &all, from: before, to: from };
        let figure = |name: &'static str| {
            let [value, previous] = [now.figure(name), then.figure(name)];
            let is_now = name == "all_users" || name == "active_users";
            let previous = if is_now { Value::Null } else { previous };
            let delta = value.as_f64().zip(previous.as_f64()).map(|(value, previous)| value - previous);
            let percent = delta.zip(previous.as_f64()).filter(|(_, previous)| *previous != 0.0);
            let percent = percent.map(|(delta, previous)| delta / previous * 100.0);
            json!({ "value": value, "previous": previous, "delta": delta, "percent": percent })
        };
        let figures: BTreeMap<&str, Value> = NAMES.into_iter().map(|name| (name, figure(name))).collect();
        let mut report = json!({
            "figures": figures,
            "trend": trend(from, to, |from, to| RecountPart { rows: self, scope, all: &all, from, to }.figure("messages")),
            "channels": now.channels(&then),
            "users": now.users(&then),
            "timezones": now.timezones(),
            "emoji": now.emoji(),
            "most_reacted": now.most_reacted(),
            "most_replied": now.most_replied(),
        });
        let weekday_hours = now.weekday_hours();
        let by_hour = |hour: usize| weekday_hours.iter().map(|day| day[hour]).sum::<u64>();
        report["hours"] = (0..24).map(by_hour).collect();
        report["weekdays"] = weekday_hours.iter().map(|day| day.iter().sum::<u64>()).collect();
        report["weekday_hours"] = json!(weekday_hours);
        if let RecountScope::User(user) = scope {
            report["partners"] = now.partners(user);
        }
        report
    }
}

/// The messages of a period and of the eleven of the same length before it, unless it has parts of days or more than 31
/// days.
fn trend(from: i64, to: i64, messages: impl Fn(i64, i64) -> Value) -> Value {
    let length = to - from;
    if from % DAY_MICROS != 0 || to % DAY_MICROS != 0 || length > 31 * DAY_MICROS {
        return json!([]);
    }
    (0..12).rev().map(|periods| messages(from - periods * length, to - periods * length)).collect()
}

const NAMES: [&str; 15] = [
    "all_users",
    "active_users",
    "posters",
    "messages",
    "words",
    "median_messages",
    "median_words",
    "top_ten_share",
    "half_of_words",
    "first_time_posters",
    "channels_used",
    "reactions",
    "replies",
    "threads",
    "bot_messages",
];

/// The fields of a report besides its figures.
const OTHER_FIELDS: [&str; 13] = [
    "report_id",
    "team_id",
    "scope",
    "team_name",
    "name",
    "from",
    "to",
    "previous",
    "cached",
    "basis",
    "is_over",
    "expired_days",
    "incomplete_days",
];

/// Asserts that a report has exactly the figures of a recount.
///
/// # Panics
/// If they differ; `when` is part of the message.
pub fn assert_recounted_as(report: &str, recounted: &Value, when: &str) {
    let mut report: Value = serde_json::from_str(report).unwrap();
    for name in OTHER_FIELDS {
        assert!(report.as_object_mut().unwrap().remove(name).is_some(), "{name} is missing");
    }
    for counted in report["trend"].as_array_mut().unwrap() {
        *counted = counted["messages"].take();
    }
    assert_same(&report, recounted, when);
}

fn assert_same(found: &Value, expected: &Value, pointer: &str) {
    match (found, expected) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-9 * other.abs().max(1.0), "{pointer}: {one} and not {other}");
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{pointer}: {found:?} and not {expected:?}");
            for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_same(found, expected, &format!("{pointer}/{number}"));
            }
        }
        (Value::Object(found), Value::Object(expected)) => {
            let names =
                |fields: &serde_json::Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(found), names(expected), "{pointer}");
            for (name, found) in found {
                assert_same(found, &expected[name], &format!("{pointer}/{name}"));
            }
        }
        (found, expected) => assert_eq!(found, expected, "{pointer}"),
    }
}
