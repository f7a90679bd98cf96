//! Messages that are made up for reports, and every number of a report recounted from them: a way through all of them for each.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{ArchiveExt, ItemKey, Update};
use rules::public_mark;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::memory::archive::MemoryArchive;

use super::report::Scope;

pub(super) const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
pub(super) const DAY: i64 = 86_400;
/// Monday of 2026-W46.
pub(super) const MONDAY: i64 = 1_794_182_400;

/// Ids, what the directory says, and minutes ahead of UTC: a member, a guest, one of another workspace, a deactivated
/// person, an app, and one of whom nothing is known.
pub(super) fn people() -> Vec<(&'static str, Option<Value>, i64)> {
    vec![
        (
            "U1",
            Some(json!({ "name": "ana", "tz": "Asia/Kathmandu", "tz_offset": 20_700, "raw_event": "{}" })),
            345,
        ),
        ("U2", Some(json!({ "name": "bo", "raw_event": r#"{"is_restricted":true}"# })), 0),
        ("U3", Some(json!({ "tz": "X", "tz_offset": -34_200, "raw_event": r#"{"team_id":"T2"}"# })), -570),
        ("U4", Some(json!({ "name": "di", "tz_offset": 3_600, "deleted": true, "raw_event": "{}" })), 60),
        ("U5", Some(json!({ "name": "app", "is_bot": true, "raw_event": "{}" })), 0),
        ("U6", None, 0),
    ]
}

/// A message: where, when, by whom, what kind of it, its words, whom it mentions, who reacts, and to which earlier message of
/// its channel it replies.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) channel: usize,
    pub(super) second: i64,
    pub(super) author: usize,
    pub(super) kind: usize,
    pub(super) words: usize,
    pub(super) mentioned: BTreeSet<usize>,
    pub(super) reacted: BTreeSet<(bool, usize)>,
    pub(super) root: Option<usize>,
}

impl Told {
    pub(super) fn is_deleted(&self) -> bool {
        self.kind == 0
    }

    pub(super) fn is_notice(&self) -> bool {
        self.kind == 1
    }

    pub(super) fn is_counted(&self) -> bool {
        !self.is_deleted() && !self.is_notice() && self.author != 4
    }
}

/// Messages with their timestamps, oldest first, and with the places of their roots in the list.
pub(super) struct Model {
    pub(super) told: Vec<(Told, String)>,
    pub(super) roots: Vec<Option<usize>>,
}

impl Model {
    pub(super) fn new(mut told: Vec<Told>) -> Self {
        told.sort_by_key(|told| told.second);
        let told: Vec<(Told, String)> = told
            .into_iter()
            .enumerate()
            .map(|(n, told)| {
                let ts = format!("{}.{n:06}", MONDAY - 14 * DAY + told.second);
                (told, ts)
            })
            .collect();
        let mut roots: Vec<Option<usize>> = Vec::new();
        for (n, (one, _)) in told.iter().enumerate() {
            let before: Vec<usize> = (0..n)
                .filter(|other| {
                    let is_reply = roots[*other].is_some();
                    told[*other].0.channel == one.channel && !is_reply && !told[*other].0.is_notice()
                })
                .collect();
            roots.push(one.root.filter(|_| !before.is_empty()).map(|root| before[root % before.len()]));
        }
        Self { told, roots }
    }

    pub(super) async fn archive(&self) -> MemoryArchive {
        let archive = MemoryArchive::new();
        for channel in CHANNELS {
            archive.write(&public_mark::opening(&team(), &channel_id(channel))).await.unwrap();
        }
        for (id, row, _) in people() {
            if let Some(row) = row {
                set(&archive, ItemKey::user(&team(), &UserId::parse(id).unwrap()), row).await;
            }
        }
        for (n, (told, ts)) in self.told.iter().enumerate() {
            let ts = Ts::parse(ts).unwrap();
            let mut row = json!({ "ts": ts, "user": people()[told.author].0, "raw_event": "{}",
                "content_version": format!("{}/{}/x", ts.padded(), ts.padded()) });
            let mentions = told.mentioned.iter().map(|of| format!("<@{}>", people()[*of].0));
            row["text"] = mentions
                .chain((0..told.words).map(|_| "word".to_owned()))
                .collect::<Vec<_>>()
                .join("\n")
                .into();
            match told.kind {
                0 => row["deleted"] = true.into(),
                1 => row["subtype"] = "channel_join".into(),
                2 => row["subtype"] = "file_share".into(),
                _ => {}
            }
            for (is_tada, of) in &told.reacted {
                let name = if *is_tada { "tada" } else { "eyes" };
                row[format!("reaction#{name}#{}", people()[*of].0)] = "000000000001.000000/added".into();
            }
            if let Some(root) = self.roots[n] {
                row["thread_ts"] = self.told[root].1.as_str().into();
                row["parent"] = format!("thread#T1#{}", self.told[root].1).into();
            }
            set(&archive, ItemKey::message(&team(), &channel_id(CHANNELS[told.channel]), &ts), row).await;
        }
        archive
    }

    /// Counted messages of a scope between two seconds.
    pub(super) fn counted(&self, scope: &Scope, from: i64, to: i64) -> Vec<usize> {
        let within = |told: &Told| (from..to).contains(&(MONDAY - 14 * DAY + told.second));
        let is_in_scope = |told: &Told| match scope {
            Scope::Team => true,
            Scope::Channel(channel) => CHANNELS[told.channel] == channel.as_str(),
            Scope::User(user) => people()[told.author].0 == user.as_str(),
        };
        let places = 0..self.told.len();
        places.filter(|n| within(&self.told[*n].0) && is_in_scope(&self.told[*n].0)).collect()
    }

    pub(super) fn figures(&self, scope: &Scope, from: i64, to: i64) -> BTreeMap<&'static str, Value> {
        let all = self.counted(scope, from, to);
        let told = |n: &usize| &self.told[*n].0;
        let counted: Vec<&usize> = all.iter().filter(|n| told(n).is_counted()).collect();
        let authors: BTreeSet<usize> = counted.iter().map(|n| told(n).author).collect();
        let words = |n: &usize| told(n).words + told(n).mentioned.len();
        let per_author = |count: &dyn Fn(&usize) -> usize| -> Vec<usize> {
            let of =
                |author: &usize| counted.iter().filter(|n| told(n).author == *author).map(|n| count(n)).sum();
            let mut counts: Vec<usize> = authors.iter().map(of).collect();
            counts.sort_unstable();
            counts
        };
        let median = |counts: &[usize]| match counts.len() {
            0 => Value::Null,
            length if length % 2 == 1 => json!(counts[length / 2]),
            length => {
                let twice = counts[length / 2 - 1] + counts[length / 2];
                if twice.is_multiple_of(2) { json!(twice / 2) } else { json!(twice as f64 / 2.0) }
            }
        };
        let all_words: usize = counted.iter().map(|n| words(n)).sum();
        let mut by_words = per_author(&words);
        by_words.reverse();
        let half =
            (0..=by_words.len()).find(|n| by_words[..*n].iter().sum::<usize>() * 2 >= all_words).unwrap();
        let wrote_before = |author: usize| {
            let in_scope = self.counted(scope, 0, from);
            in_scope.iter().any(|n| told(n).author == author && !told(n).is_notice())
        };
        let threads: BTreeSet<usize> = counted.iter().filter_map(|n| self.roots[**n]).collect();
        let channels: BTreeSet<usize> = counted.iter().map(|n| told(n).channel).collect();
        BTreeMap::from([
            ("posters", json!(authors.len())),
            ("messages", json!(counted.len())),
            ("words", json!(all_words)),
            ("median_messages", median(&per_author(&|_| 1))),
            ("median_words", median(&per_author(&words))),
            ("top_ten_share", if counted.is_empty() { Value::Null } else { json!(1) }),
            ("half_of_words", json!(half)),
            ("first_time_posters", json!(authors.iter().filter(|author| !wrote_before(**author)).count())),
            ("channels_used", json!(channels.len())),
            ("reactions", json!(counted.iter().map(|n| told(n).reacted.len()).sum::<usize>())),
            ("replies", json!(counted.iter().filter(|n| self.roots[***n].is_some()).count())),
            ("threads", json!(threads.len())),
            ("bot_messages", json!(all.iter().filter(|n| told(n).author == 4 && told(n).kind > 1).count())),
        ])
    }

    pub(super) fn hours(&self, counted: &[usize]) -> Value {
        let mut hours = vec![vec![0; 24]; 7];
        for n in counted.iter().filter(|n| self.told[**n].0.is_counted()) {
            let told = &self.told[*n].0;
            let local = told.second + people()[told.author].2 * 60 + 7 * DAY;
            hours[(local / DAY % 7) as usize][(local % DAY / 3_600) as usize] += 1;
        }
        json!(hours)
    }

    pub(super) fn most_replied(&self, counted: &[usize]) -> Vec<(String, u64)> {
        let replies = |root: usize| {
            let of_root = (0..self.told.len()).filter(|n| self.roots[*n] == Some(root));
            of_root.filter(|n| !self.told[*n].0.is_deleted()).count() as u64
        };
        let is_known = |root: usize| {
            counted.iter().any(|n| self.roots[*n] == Some(root) && self.told[*n].0.is_counted())
        };
        let roots = counted.iter().filter(|n| self.told[**n].0.is_counted() && is_known(**n));
        let mut found: Vec<(String, u64)> = roots.map(|n| (self.told[*n].1.clone(), replies(*n))).collect();
        found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        found.truncate(10);
        found
    }
}

pub(super) fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

pub(super) fn channel_id(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

pub(super) async fn set(archive: &MemoryArchive, key: ItemKey, row: Value) {
    let set = row.as_object().cloned().unwrap();
    archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
}
